package config

import (
	"fmt"
	"strings"
	"testing"
)

// pictured returns the source line of the first problem, and the line with the caret below it.
func pictured(t *testing.T, text string, vars ...string) string {
	t.Helper()
	_, problems := Parse("f", []byte(text), env(vars...))
	if len(problems) == 0 {
		t.Fatalf("no problem in %q", text)
	}
	p := problems[0]
	if p.Source == "" {
		return ""
	}
	return p.Source + "\n" + strings.Repeat(" ", p.Caret) + "^"
}

func TestSource(t *testing.T) {
	long := strings.Repeat("x", 500)
	for _, tt := range []struct{ text, want string }{
		{"dragoman:\n  listen: nowhere\r\n", "  listen: nowhere\n          ^"},
		{"dragoman:\n\t\tlisten: x\n", "        listen: x\n        ^"},
		{"{\n\t\"dragoman\": {\"listn\": 1}\n}", "    \"dragoman\": {\"listn\": 1}\n                 ^"},
		{`dragoman: {server: {name: 日本語}, listn: x}`, "dragoman: {server: {name: 日本語}, listn: x}\n                                ^"},
		{"dragoman: {server: {name: a\u00a0b\u202ec}, listn: x}", "dragoman: {server: {name: a b\ufffdc}, listn: x}\n                                  ^"},
		{"mcpServers: {a: {command: x, disabled: maybe}}", "mcpServers: {a: {command: x, disabled: maybe}}\n                                       ^"},
		{"dragoman: {listn: " + long + "}", "dragoman: {listn: " + long[:143] + "…\n           ^"},
		{"{mcpServers: {a: {command: " + long + ", disabled: 5}}}", "…" + long[:138] + ", disabled: 5}}}\n" + strings.Repeat(" ", 151) + "^"},
		// The position of the problem is in a variable's key or value.
		{"mcpServers:\n  a:\n    command: x\n    env:\n      A=B: canary\n", "      A=B: ***\n      ^"},
		{"mcpServers:\n  a:\n    command: x\n    env:\n      A: canary ${\n", "      A: ***\n         ^"},
		{`{"mcpServers": {"a": {"command": "x", "env": {"A": "canary", "B": "${NO}"}, "args": 5}}}`, `{"mcpServers": {"a": {"command": "x", "env": {"A": ***, "B": "${NO}"}, "args": 5}}}` + "\n" + strings.Repeat(" ", 61) + "^"},
		{"mcpServers: {a: {url: 'http://me:canary@h:1^/?key=canary&b=c'}}", "mcpServers: {a: {url: 'http://***@h:1^/?***'}}\n                      ^"},
		{"mcpServers: {a: {command: x, arg: [--token, canary, --api-key=canary, ok]}}", "mcpServers: {a: {command: x, arg: [***, ***, ***, ***]}}\n                             ^"},
		{"mcpServers: {a: {command: x, agrs: 1, args: [--token, canary, --api-key=canary, ok]}}", "mcpServers: {a: {command: x, agrs: ***, args: [--token, ***, ***, ok]}}\n                             ^"},
		{"dragoman: {server: {name: 'is ghp_0123456789abcdefghijABCDEF'}, listn: 1}", "dragoman: {server: {name: 'is ***'}, listn: 1}\n                              ^"},
		{"dragoman: {listn: x} # token canary\n", "dragoman: {listn: x}\n           ^"},
		{"{\"dragoman\": /* canary */ {\"listn\": 1}} // canary\n", "{\"dragoman\":              {\"listn\": 1}}\n                           ^"},
		// A reference to a variable is no secret.
		{"mcpServers:\n  a:\n    url: http://h\n    headers:\n      Authorization: Bearer ${NO}\n", "      Authorization: Bearer ${NO}\n                     ^"},
		{`mcpServers: {a: {url: "http://h", headers: {A: "Bearer ${NO}"}}}`, `mcpServers: {a: {url: "http://h", headers: {A: "Bearer ${NO}"}}}` + "\n" + strings.Repeat(" ", 47) + "^"},
		{`mcpServers: {a: {command: x, args: [--token, "${NO}", "--key=${env:NO}"]}}`, `mcpServers: {a: {command: x, args: [--token, "${NO}", "***${env:NO}"]}}` + "\n" + strings.Repeat(" ", 45) + "^"},
		{`mcpServers: {a: {url: "http://u:${NO}@h/?k=${K}&b=canary"}}`, `mcpServers: {a: {url: "http://***${NO}@h/?***${K}***"}}` + "\n" + strings.Repeat(" ", 22) + "^"},
		{"mcpServers:\n  a:\n    command: x\n    env:\n      A: 'canary-${NO}-${OR:-canary}'\n", "      A: '***${NO}***${OR:-***}'\n         ^"},
		{"mcpServers:\n  a:\n    command: x\n    env:\n      A: canary$${NO}\n      B: ${NO\n", "      B: ***\n         ^"},
		{"mcpServers:\n  a:\n    command: x\n    env:\n      A: \ue041canary\n      B: ${NO}\n    disabled: 5\n", "      B: ${NO}\n         ^"},
		// The following files cannot be parsed.
		{"mcpServers:\n  a:\n    headers: [Bearer ${NO}\n", "    headers: [Bearer ${NO}\n             ^"},
		{"mcpServers:\n  a: {command: x, env: {A: canary}\n", "  a: ***\n     ^"},
		{"dragoman:\n  listen: [1\n", "  listen: [1\n          ^"},
		{"[1, 2\n", ""},
		{"\xff: x\n", ""},
		{"dragoman: {}\n---\ndragoman: {}\n", "dragoman: {}\n^"},
	} {
		if got := pictured(t, tt.text); got != tt.want {
			t.Errorf("%q:\n%s\nwant\n%s", tt.text, got, tt.want)
		}
	}
	if got := pictured(t, "dragoman: {listn: literally hunter2-of-env, log: {level: '${A_TOKEN}'}}", "A_TOKEN=hunter2-of-env"); strings.Contains(got, "hunter2") {
		t.Errorf("a value from the environment is shown: %s", got)
	}
}

// hiding are files in which every "canary" is a secret.
var hiding = []string{
	"mcpServers:\n  a:\n    command: x\n    env:\n      A: canary\n      B: 'canary'\n      C: \"x canary\"\n      D: |\n        first canary\n        second canary\n      E: >-\n        canary\n      F:\n        canary\n    args: [a]\n",
	"mcpServers:\n  a:\n    url: http://h\n    headers:\n      X-One: canary\n      ? X-Two\n      : canary\n    disabled: maybe\n",
	`{"mcpServers":{"a":{"command":"x","env":{"A":"canary","B":"x,canary}"},"args":["--token","canary","--password=canary"]}}}`,
	"{\n\"mcpServers\": {\n\"a\": {\n\"command\": \"x\",\n\"env\": {\n\"A\":\n\"canary\",\n\"B\": \"canary\"\n}\n}\n}\n}",
	"{\n\t\"mcpServers\": {\n\t\t\"a\": {\n\t\t\t\"url\": \"http://h\",\n\t\t\t\"headers\": {\"Authorization\": \"Bearer canary\", \"X\": \"canary\"}\n\t\t}\n\t}\n}",
	"x-shared: &e {A: canary, B: [canary]}\nx-more: &f {<<: *e, C: &g canary}\nmcpServers:\n  a: {command: x, env: *f}\n",
	chained(20) + "mcpServers: {a: {command: x, env: *a20}}\n",
	"mcpServers:\n  a:\n    command: x\n    env: {A: canary}\n    env: {A: canary, B: canary}\n",
	"mcpServers:\n  a: {command: x, env: !!map {A: !!str canary, B: !x canary}}\nmcpServers: {b: {env: {A: canary}}}\n---\nb: {env: {A: canary}}\n",
	"mcpServers:\n  a:\n    command: x\n    env: [A=canary, canary]\n    apiKey: canary\n    token: {a: canary}\n",
	"mcpServers:\n  a:\n    command: x\n    env:\n      name: canary\n      command: canary\n      type: [canary]\n",
	"{\n\"mcpServers\": {\n\"a\": {\n\"env\": {\n\"B\": {},\n\"name\": \"canary\",\n\"B\": 1,\n\"type\": \"canary\"\n}, \"command\": \"x\",\n\"type\": 1}}}",
	"mcpServers:\n  a:\n    command: x\n    evn:\n      name: canary\n      type: [canary]\n    hedaers: {name: canary}\n    more:\n      T: canary\n",
	"mcpServers:\n  a:\n    command: x\n    env:\n      A: canary${A}canary\n      B: \"${B:-canary}\"\n      C: $${canary}\n      D: canary \ue041 ${A}canary${B} canary\n    args: [\"--token=canary${A}canary\", \"http://u:canary${A}canary@h/?k=canary${A}canary\"]\n",
	"mcpServers:\n- env:\n    name: canary\n- {headers: {name: canary}}\n",
}

// chained returns n+1 anchors. Each anchor refers to the previous one.
func chained(n int) string {
	s := "y-0: &a0 {A: canary}\n"
	for i := 1; i <= n; i++ {
		s += fmt.Sprintf("y-%d: &a%d {<<: *a%d, B%d: canary}\n", i, i, i-1, i)
	}
	return s
}

// hidingTOML is a similar file in TOML.
const hidingTOML = "[mcp_servers.a]\ncommand = \"x\"\nargs = [\"--token\", \"canary\", \"-y\"]\nenv = { A = \"canary\", name = \"canary\" }\n\n" +
	"[mcp_servers.b]\nurl = \"http://u:canary@h/?k=canary\"\nbearer_token = \"canary\"\n[mcp_servers.b.http_headers]\nX-One = \"canary\"\ncommand = \"canary\"\nlong = \"\"\"\na canary\n\"\"\"\n"

// TestSourceHidesSecrets cuts each file at every byte, so that most of the cut files cannot be
// parsed. It checks that no line shows a secret.
func TestSourceHidesSecrets(t *testing.T) {
	for i, whole := range append(hiding, hidingTOML) {
		file := "dragoman.yaml"
		if i == len(hiding) {
			file = "config.toml"
		}
		for end := range len(whole) + 1 {
			if end < len(whole) && strings.Contains(whole, "&a20") {
				continue // an anchor is secret only if env uses it
			}
			text := whole[:end]
			c := &compiler{file: file, process: env(), env: env()}
			c.compile([]byte(text))
			for i, line := range c.source.lines {
				for _, col := range []int{1, len(line) / 2, len(line) + 1} {
					if got, _ := c.source.excerpt(i+1, col); strings.Contains(got, "canary") || strings.Contains(got, "canar") {
						t.Fatalf("line %d, column %d of\n%s\nshows %s", i+1, col, text, got)
					}
				}
			}
		}
	}
}

// FuzzSource checks that the caret is within the source, and that the source is one line.
func FuzzSource(f *testing.F) {
	for _, s := range hiding {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, problems := Parse("f", b, nil)
		for _, p := range problems {
			n := len([]rune(p.Source))
			if p.Caret < 0 || p.Caret > n || n > 4*2*sourceShown+2 || strings.ContainsAny(p.Source, "\t\r\n\x1b") {
				t.Errorf("%q: %q, caret %d", b, p.Source, p.Caret)
			}
		}
	})
}

// TestSourceUnknownKeys checks that values below an unknown key of a server are hidden. The
// key may be a typo of env or headers.
func TestSourceUnknownKeys(t *testing.T) {
	for _, tt := range []struct{ file, text, want string }{
		{"f", "mcpServers: {a: {command: x, args: [--api-key, canary], evn: {T: canary}}}", "mcpServers: {a: {command: x, args: [--api-key, ***], evn: {T: ***}}}"},
		{"f", "mcpServers:\n  a: {command: x, evn: {T: canary}, cwd: /y}", "  a: {command: x, evn: {T: ***}, cwd: /y}"},
		{"f", "x-a: &a {evn: {T: canary}}\nmcpServers: {a: {<<: *a, command: x}}", "x-a: &a {evn: {T: ***}}"},
		{"f", "mcpServers: {a: {command: x, evn: &e {T: canary}, more: [*e, canary]}}", "mcpServers: {a: {command: x, evn: &e {T: ***}, more: [*e, ***]}}"},
		{"f", "dragoman: {servers: {a: {envv: {T: canary}, lazy: true}}}", "dragoman: {servers: {a: {envv: {T: ***}, lazy: true}}}"},
		{"f.json", `{"servers": {"a": {"type": "stdio", "command": "x", "evn": {"T": "canary"}}}}`, `{"servers": {"a": {"type": "stdio", "command": "x", "evn": {"T": ***}}}}`},
		{"f.toml", "[mcp_servers.a]\ncommand = \"x\"\nevn = { T = \"canary\" }\n", "evn = { T = *** }"},
	} {
		c := &compiler{file: tt.file, process: env(), env: env()}
		c.compile([]byte(tt.text))
		found := false
		for i := range c.source.lines {
			got, _ := c.source.excerpt(i+1, 1)
			found = found || got == tt.want
			if strings.Contains(got, "canary") {
				t.Errorf("%q shows %s", tt.text, got)
			}
		}
		if !found {
			got, _ := c.source.excerpt(len(c.source.lines), 1)
			t.Errorf("%q: no line is shown as %s; the last is %s", tt.text, tt.want, got)
		}
	}
}
