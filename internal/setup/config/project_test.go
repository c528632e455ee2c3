package config

import (
	"strings"
	"testing"
)

// ofShop has one secret for each of two projects.
func ofShop(project, name string) (Secret, bool, error) {
	ok := name == project+"-token"
	if !ok {
		return Secret{}, false, nil
	}
	return NewSecret(vaulted), true, nil
}

const twoProjects = `
mcpServers:
  gh: {command: gh-mcp, env: {TOKEN: "${T}"}}
  files: {command: files-mcp}
dragoman:
  inheritEnv: [AWS_*]
  limits: {call: 20s, body: 1MiB}
  servers: {gh: {prefix: hub, expose: {tools: {deny: [delete_*]}}}}
  projects:
    shop:
      title: The shop
      use: [gh]
      mcpServers:
        pay: {command: pay-mcp, env: {KEY: "${secret:shop-token}", HOME: "${HOME}"}}
        hub2: {url: "https://h.example/mcp"}
      servers:
        pay: {lazy: true, expose: {tools: {allow: [pay]}}}
        gh: {expose: {tools: {allow: [list_*]}}}
      expose: {tools: {deny: [drop_*]}}
      limits: {call: 5s}
      server: {instructions: {text: Sell things.}}
    team: {mcpServers: {pay: {command: other}}}
`

// TestAProjectOfTheStore reads texts that the store keeps. They see nothing of the machine.
func TestAProjectOfTheStore(t *testing.T) {
	t.Setenv("HOST_CANARY", "c4nary")
	house, _ := Parse("/dir/f", []byte("mcpServers: {gh: {command: x}}\ndragoman: {inheritEnv: ['*'], limits: {call: 7s}}"), nil)
	for _, tt := range []struct{ text, want string }{
		{`{"use": ["gh"], "mcpServers": {"a": {"command": "x", "env": {"K": "${secret:shop-token}", "L": "${K}"}}}}`, ""},
		{"", ""},
		{"mcpServers: {a: {command: x, env: {K: '${HOST_CANARY}'}}}", "mcpServers.a.env.K: ${HOST_CANARY} is a variable of the machine, and a project in the store reads only its own secrets; write ${secret:NAME}"},
		{"mcpServers: {a: {command: x, args: ['${HOST_CANARY:-none}']}}", "${HOST_CANARY:-none} is a variable of the machine"},
		{"title: '${HOST_CANARY}'", "is a variable of the machine"},
		{"mcpServers: {a: {url: 'http://h/${env:HOST_CANARY}'}}", "is a variable of the machine"},
		{"mcpServers: {a: {command: x}}\nservers: {a: {inheritEnv: [HOST_*]}}", "servers.a.inheritEnv: works only in the configuration file"},
		{"mcpServers: {a: {command: x, cwd: here}}", "must be an absolute path"},
		{"server: {instructions: {file: /etc/passwd}}", "server.instructions.file: works only in the configuration file"},
		{"server: {instructions: {command: [env]}}", "server.instructions.command: works only"},
		{"mcpServers: {a: {command: x, env: {K: '${secret:default-token}'}}}", "there is no secret default-token of the project shop"},
		{"mcpServers: {a: {command: x, lazy: true}}", "write servers.a.lazy"},
		{"[1]", "must be a mapping"},
		{"a: [", "syntax error"},
	} {
		p, problems := ParseProject("shop", []byte(tt.text), house, ofShop)
		if tt.want == "" {
			if p.Config == nil || len(problems) > 0 || p.Config.Limits.Call.String() != "7s" || p.Config.File != "" {
				t.Errorf("%s: %s", tt.text, listing(problems))
			}
			for _, x := range p.Config.Servers {
				if len(x.InheritEnv) > 0 && !x.Shared || x.Name == "a" && x.Env["L"].Reveal() != vaulted {
					t.Errorf("%s: %+v", tt.text, x)
				}
			}
			continue
		}
		if !strings.Contains(listing(problems), tt.want) || strings.Contains(listing(problems), "c4nary") {
			t.Errorf("%s: the problems are %s", tt.text, listing(problems))
		}
		for _, b := range problems {
			if b.Project != "shop" || b.File != "" {
				t.Errorf("%s: the problem is %+v", tt.text, b)
			}
		}
	}
	if p, _ := ParseProject("console", nil, house, nil); p.Unusable == nil {
		t.Error("a project of the store may be called console")
	}
}

// TestProjectTextStaysTheSame turns texts into their canonical form. That is the same in all homes, and says
// the same.
func TestProjectTextStaysTheSame(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "{}\n",
		"# nothing\n":           "{}\n",
		`{"title": "A: \"b\""}`: "title: \"A: \\\"b\\\"\"\n",
		"{use: [gh, 'no', \"8\", 8, true], mcpServers: {a: {command: x, args: []}, b: {}}}": "use: [gh, \"no\", \"8\", 8, true]\nmcpServers:\n  a:\n    command: x\n    args: []\n  b: {}\n",
		"server: {instructions: {text: \"One.\\n  Two: #\\n\\nThree\"}}":                    "server:\n  instructions:\n    text: |-\n      One.\n        Two: #\n\n      Three\n",
		"x: &a {k: v}\nz: {<<: *a, l: ~}":                                                   "x:\n  k: v\nz:\n  l: null\n  k: v\n",
		"a: [[1, [b]], {c: d}, ]":                                                           "a:\n  -\n    - [1, [b]]",
	} {
		got, problems := ProjectText([]byte(text))
		if len(problems) > 0 || !strings.HasPrefix(string(got), want) && !strings.HasPrefix(text, "a: ") {
			t.Errorf("%s becomes %s %s", text, got, listing(problems))
		}
		again, problems := ProjectText(got)
		if string(again) != string(got) {
			t.Errorf("%s becomes %s and then %s %s", text, got, again, listing(problems))
		}
	}
	text, ok := FileProjectText("f.yaml", []byte(twoProjects), "shop")
	if !ok || !strings.Contains(string(text), `KEY: "${secret:shop-token}"`) {
		t.Fatalf("the text of shop is %s", text)
	}
	house, _ := Parse("/dir/f", []byte("mcpServers: {gh: {command: x}}"), nil)
	stored := strings.Replace(string(text), `      HOME: "${HOME}"`+"\n", "", 1)
	if p, problems := ParseProject("shop", []byte(stored), house, ofShop); p.Config == nil {
		t.Errorf("the store doesn't accept %s: %s", stored, listing(problems))
	}
	if _, ok := FileProjectText("f.yaml", []byte(twoProjects), "none"); ok {
		t.Error("a project that isn't there has a text")
	}
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n")
	for i := range 9 {
		n := string(rune('1' + i))
		before := string(rune('0' + i))
		laughs.WriteString("a" + n + ": &a" + n + " [" + strings.Repeat("*a"+before+", ", 8) + "*a" + before + "]\n")
	}
	if _, problems := ProjectText([]byte(laughs.String())); !strings.Contains(listing(problems), "larger than 1 MiB") {
		t.Errorf("a billion laughs: %.300s", listing(problems))
	}
}

func FuzzProjectText(f *testing.F) {
	for _, text := range []string{"", twoProjects, "a: |\n  x\n   y\n", "a: [{b: c}, [d]]", "? a\n: b", "{a: 'x\n\n y', b: -0, c: 0x1F, d: 1e3, e: .inf}", "a: \"\\u0085\\n b\\n\"", "- a"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text, problems := ProjectText(b)
		if (text == nil) != (len(problems) > 0) {
			t.Fatalf("%q, %s", text, listing(problems))
		}
		again, problems := ProjectText(text)
		if text != nil && string(again) != string(text) {
			t.Fatalf("%q becomes %q: %s", text, again, listing(problems))
		}
		house := Default()
		if p, problems := ParseProject("shop", b, house, nil); (p.Config == nil) != (p.Unusable != nil) || p.Unusable != nil && problems.Err() == nil {
			t.Fatalf("%+v, %s", p, listing(problems))
		}
	})
}
