package config

import (
	"slices"
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

// TestProjectsOfTheFile reads two projects, and looks at what each has from the top of the file and what not.
func TestProjectsOfTheFile(t *testing.T) {
	s, problems := ParseWith("/dir/f", []byte(twoProjects), env("T=t0ken-canary", "HOME=/home/me"), ofShop)
	if s == nil || len(problems) > 0 || len(s.Servers) != 2 || len(s.Projects) != 2 || !s.ReadsSecrets() {
		t.Fatalf("%v %v", s, listing(problems))
	}
	shop, team := s.Projects[0], s.Projects[1]
	c := shop.Config
	if shop.Name != "shop" || shop.Title != "The shop" || c == nil || shop.Unusable != nil || team.Config == nil {
		t.Fatalf("%+v", shop)
	}
	if c.Limits.Call.String() != "5s" || c.Limits.Body != 1<<20 || c.Identity.Instructions.Text != "Sell things." || c.Identity.Title != "The shop" || team.Config.Limits.Call.String() != "20s" || team.Config.Identity.Instructions.Text != "" {
		t.Errorf("limits %+v, identity %+v", c.Limits, c.Identity)
	}
	pay, _ := c.Server("pay")
	if !pay.Lazy || pay.Env["KEY"].Reveal() != vaulted || pay.Env["HOME"].Reveal() != "/home/me" || pay.CallTimeout.String() != "5s" || !slices.Equal(pay.InheritEnv, []string{"AWS_*"}) || len(pay.Also) != 1 {
		t.Errorf("pay is %+v", pay)
	}
	if other, _ := team.Config.Server("pay"); other.Fingerprint == pay.Fingerprint || other.Command != "other" || other.Also != nil {
		t.Errorf("the other pay is %+v", other)
	}
	gh, _ := c.Bind(s).Server("gh")
	shows := func(name string) bool {
		return gh.Expose.Tools.Allows(name) && !slices.ContainsFunc(gh.Also, func(e Expose) bool { return !e.Tools.Allows(name) })
	}
	if !gh.Shared || gh.Prefix != "hub" || gh.Command != "gh-mcp" || gh.Env["TOKEN"].Reveal() != "t0ken-canary" {
		t.Errorf("gh is %+v", gh)
	}
	if !shows("list_issues") || shows("get_issue") || shows("delete_repo") || shows("drop_all") {
		t.Errorf("gh shows %+v and %+v", gh.Expose, gh.Also)
	}
	if renamed := strings.Replace(twoProjects, "  gh: {command: gh-mcp", "  hub: {command: gh-mcp", 1); true {
		now, _ := ParseWith("/dir/f", []byte(strings.Replace(renamed, "servers: {gh: {prefix: hub, ", "servers: {hub: {prefix: hub, ", 1)), env("T=t0ken-canary", "HOME=/h"), ofShop)
		if gone, _ := c.Bind(now).Server("gh"); gone.Unusable == nil || gone.Command != "" || gone.Prefix != "gh" {
			t.Errorf("of a renamed server is left %+v", gone)
		}
		if gone, _ := now.Projects[0].Config.Server("gh"); gone.Unusable == nil || now.Projects[0].Unusable != nil {
			t.Errorf("a renamed server in use is %+v", gone)
		}
	}
	printed := string(s.AppendYAML(nil))
	if p, problems := Parse("/dir/f", []byte(printed), nil); p == nil || len(p.Projects) != 2 || problems.Err() != nil || string(p.AppendYAML(nil)) != printed || strings.Contains(printed, vaulted) || strings.Contains(printed, "canary") {
		t.Errorf("%s is printed, and says %s", printed, listing(problems))
	}
	again, _ := ParseWith("/dir/f", []byte("# moved\n"+twoProjects), env("T=t0ken-canary", "HOME=/home/me"), ofShop)
	if !again.Equal(s) {
		t.Error("a comment changes the configuration")
	}
	changed, _ := ParseWith("/dir/f", []byte(strings.Replace(twoProjects, "lazy: true", "lazy: false", 1)), env("T=t0ken-canary", "HOME=/home/me"), ofShop)
	if changed.Equal(s) || !changed.Projects[1].Equal(s.Projects[1]) || changed.Projects[0].Equal(s.Projects[0]) {
		t.Error("a change of one project isn't seen, or is seen elsewhere")
	}
}

// TestBadProjects reads files with one bad project. The rest of the file stays as it is, unless the problem
// is that of a server.
func TestBadProjects(t *testing.T) {
	const ok = "mcpServers: {a: {command: x}}"
	for _, tt := range []struct{ name, body, want, server string }{
		{"s", ok, "dragoman.projects.s: the name is a part of Dragoman's own URLs; choose another name", ""},
		{"Mcp", ok, "the name is a part of Dragoman's own URLs", ""},
		{"console", ok, "the name is a part of", ""},
		{"Default", ok, "default is the project of the servers at the top of the file", ""},
		{"a b", ok, "the name contains a character that is not allowed", ""},
		{"..", ok, "the name contains only dots", ""},
		{strings.Repeat("n", 65), ok, "longer than 64 characters", ""},
		{"shop", "mcpServer: {}", "dragoman.projects.shop.mcpServer: unknown key; did you mean mcpServers?", ""},
		{"shop", "rules: []", "dragoman.projects.shop.rules: unknown key", ""},
		{"shop", "listen: 1", "unknown key", ""},
		{"shop", "projects: {}", "unknown key", ""},
		{"shop", "limits: {calls: 1s}", "dragoman.projects.shop.limits.calls: unknown key; did you mean call", ""},
		{"shop", "server: {instructions: {text: '${HOME}'}}", "set dragoman.projects.shop.server.allowSecretsInInstructions", ""},
		{"shop", "expose: {tools: {allow: []}}", "an empty list would allow everything", ""},
		{"shop", "use: gh", "must be a list", ""},
		{"shop", "use: [gh]\n      mcpServers: {gh: {command: x}}", "is also in dragoman.projects.shop.use", ""},
		{"shop", "use: [gh]\n      mcpServers: {a: {command: x}}\n      servers: {a: {prefix: gh}}", "has the same prefix as dragoman.projects.shop.servers.gh", ""},
		{"shop", "use: [gh]\n      servers: {gh: {lazy: true}}", "belongs to the server, which the project only uses; write dragoman.servers.gh.lazy", ""},
		{"shop", "servers: {gh: {lazy: true}}", "mcpServers has no server with this name", ""},
		{"shop", "mcpServers: {a: {command: x, lazy: true}}\n      servers: {b: {}}", "write dragoman.projects.shop.servers.a.lazy", ""},
		{"shop", "use: [hg]", "dragoman.projects.shop.use[0]: the project default has no server \"hg\"; did you mean gh?", "hg"},
		{"shop", "[]", "must be a mapping, not a list", ""},
		{"shop", "mcpServers: {a: {command: x, env: {K: '${NONE}'}}}", "the environment variable NONE is not set", "a"},
		// TA41: a secret of another project, and a secret where everybody would read it.
		{"shop", "mcpServers: {a: {command: x, env: {K: '${secret:default-token}'}}}", "there is no secret default-token of the project shop; run `dragoman secrets set default-token --project shop`", "a"},
		{"shop", "mcpServers: {a: {url: 'http://h', headers: {K: '${secret:team-token}'}}}", "there is no secret team-token of the project shop", "a"},
		{"shop", "server: {allowSecretsInInstructions: true, instructions: {text: '${secret:team-token}'}}", "must not contain ${secret:team-token}", ""},
	} {
		text := "mcpServers: {gh: {command: x}}\ndragoman:\n  projects:\n    good: {mcpServers: {b: {command: y}}}\n    \"" + tt.name + "\":\n      " + tt.body + "\n"
		s, problems := ParseWith("f", []byte(text), env("HOME=/h"), ofShop)
		if s == nil || len(s.Servers) != 1 || len(s.Projects) != 2 || s.Projects[0].Config == nil {
			t.Errorf("%s: %s: the rest of the file is not used: %s", tt.name, tt.body, listing(problems))
			continue
		}
		bad := s.Projects[1]
		if (bad.Config != nil) != (tt.server != "") || (bad.Unusable == nil) != (tt.server != "") || problems.Err() == nil || problems.Refusal(false) != nil || problems.Refusal(true) == nil {
			t.Errorf("%s: %s: the project is %+v: %s", tt.name, tt.body, bad, listing(problems))
		}
		i := slices.IndexFunc(problems, func(p Problem) bool { return strings.Contains(p.String(), tt.want) })
		if i < 0 || problems[i].Project != tt.name || problems[i].Server != tt.server {
			t.Errorf("%s: %s: the problems are %s", tt.name, tt.body, listing(problems))
		}
		if tt.server != "" {
			if x, _ := bad.Config.Server(tt.server); x.Unusable == nil {
				t.Errorf("%s: the server %s is usable", tt.body, tt.server)
			}
		}
	}
}

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
	house, _ := ParseWith("/dir/f", []byte(twoProjects), env("T=t0ken-canary", "HOME=/h"), ofShop)
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
