package intake

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// shown returns the configuration that a pasted text becomes, without the first comment.
func shown(t testing.TB, p Pasted) string {
	t.Helper()
	var add []clientfile.Added
	var out strings.Builder
	for _, s := range p.Servers {
		if s.Entry == nil {
			out.WriteString("# " + s.Name + " skipped\n")
			continue
		}
		add = append(add, clientfile.Added{Name: s.Name, Entry: s.Entry, Settings: s.Settings})
	}
	b, err := clientfile.AddServers("x.yaml", nil, add)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "mcpServers:\n")
	return p.Form + "\n" + out.String() + text
}

func TestPaste(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"npx -y @modelcontextprotocol/server-everything", "a command\n  server-everything:\n    command: npx\n    args: [-y, \"@modelcontextprotocol/server-everything\"]\n"},
		{"$ uvx mcp-server-fetch --user 'a b' \\\n  --x=\"c $HOME ${D:-e}\" # comment", "a command\n  mcp-server-fetch:\n    command: uvx\n    args: [mcp-server-fetch, --user, \"a b\", \"--x=c ${HOME} ${D:-e}\"]\n"},
		{"A=1 B='two ${x}' env C=3 prog ~/x", "a command\n  prog:\n    command: prog\n    args: [\"${HOME}/x\"]\n    env:\n      A: \"1\"\n      B: \"two $${x}\"\n      C: \"3\"\n"},
		{"x ~ a~/b '~/c' \"$A\\$B\" $ \\$C 'a'\\''b' é", "a command\n  x:\n    command: x\n    args: [${HOME}, a~/b, ~/c, ${A}$B, $, $C, a'b, é]\n"},
		{"env C=3 prog", "a command\n  prog:\n    command: prog\n    env:\n      C: \"3\"\n"},
		{"export TOKEN=abc\nnpx one\nnpx two", "a command\n  one:\n    command: npx\n    args: [one]\n    env:\n      TOKEN: abc\n  two:\n    command: npx\n    args: [two]\n    env:\n      TOKEN: abc\n"},
		{"cd /srv/notes && node index.js", "a command\n  notes:\n    command: node\n    args: [index.js]\n    cwd: /srv/notes\n"},
		{"export A=b; cd /srv/notes; node index.js;", "a command\n  notes:\n    command: node\n    args: [index.js]\n    env:\n      A: b\n    cwd: /srv/notes\n"},
		{"https://mcp.sentry.dev/mcp", "a URL\n  sentry:\n    url: \"https://mcp.sentry.dev/mcp\"\n"},
		{"localhost:3000/mcp", "a URL\n  localhost-3000:\n    url: \"http://localhost:3000/mcp\"\n"},
		{"```json\n{\"mcpServers\": {\"a b\": {\"command\": \"x\", // why\n},}}\n```\n", "JSON\n  a-b:\n    command: x\n"},
		{`"memory": {"command": "npx", "args": ["-y", "m"]},`, "JSON\n  memory:\n    command: npx\n    args: [-y, m]\n"},
		{`{"command": "npx", "args": ["-y", "@x/notes"]}`, "JSON\n  notes:\n    command: npx\n    args: [-y, \"@x/notes\"]\n"},
		{`{"a": {"url": "http://h/x"}}`, "JSON\n  a:\n    url: \"http://h/x\"\n"},
		{`[{"name": "a", "command": "x"}, {"url": "https://api.example.co.uk/mcp"}]`, "JSON\n  a:\n    command: x\n  example:\n    url: \"https://api.example.co.uk/mcp\"\n"},
		{`{"inputs": [{"id": "k", "type": "promptString", "description": "Key"}], "servers": {"a": {"command": "x", "env": {"K": "${input:k}"}}}}`, "JSON\n  a:\n    command: x\n    env:\n      K: ${K}\n"},
		{"[mcp_servers.docs]\ncommand = \"x\"\nargs = [\"y\"]\n", "TOML\n  docs:\n    command: x\n    args: [y]\n"},
		{"mcpServers:\n  a:\n    command: x\ndragoman:\n  servers: {a: {lazy: true}}\n", "YAML\n  a:\n    command: x\n\ndragoman:\n  servers:\n    a:\n      lazy: true\n"},
		{"a:\n  command: x\n", "YAML\n  a:\n    command: x\n"},
		{"claude mcp add --transport http sentry https://mcp.sentry.dev/mcp --header 'X-Key: v'", "a command\n  sentry:\n    type: http\n    url: \"https://mcp.sentry.dev/mcp\"\n    headers:\n      X-Key: v\n"},
		{"claude mcp add db -e TOKEN=x -- npx -y db --flag", "a command\n  db:\n    command: npx\n    args: [-y, db, --flag]\n    env:\n      TOKEN: x\n"},
		{`claude mcp add-json w '{"type":"stdio","command":"x"}'`, "a command\n  w:\n    command: x\n"},
		{"codex mcp add docs --url https://h.example/mcp --bearer-token-env-var DOCS", "a command\n  docs:\n    url: \"https://h.example/mcp\"\n    headers:\n      Authorization: \"Bearer ${DOCS}\"\n"},
		{"gemini mcp add -s user x node a.js --y", "a command\n  x:\n    command: node\n    args: [a.js, --y]\n"},
		{`code --add-mcp '{"name":"n","command":"x"}'`, "a command\n  n:\n    command: x\n"},
		{"dragoman run -- npx -y foo", "a command\n  foo:\n    command: npx\n    args: [-y, foo]\n"},
		{"https://cursor.com/install-mcp?name=gh&config=eyJjb21tYW5kIjoibnB4IC15IGdoIn0%3D", "an install link\n  gh:\n    command: npx -y gh\n"},
		{"vscode:mcp/install?%7B%22name%22%3A%22v%22%2C%22command%22%3A%22x%22%7D", "an install link\n  v:\n    command: x\n"},
	} {
		p, err := Paste(c.text, clientfile.Options{OS: "linux"})
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := shown(t, p); strings.ReplaceAll(got, `"`, "") != strings.ReplaceAll(c.want, `"`, "") { // clientfile adds the quotes
			t.Errorf("%s becomes\n%s\nnot\n%s", c.text, got, c.want)
		}
	}
}

func TestPasteRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"": "nothing was pasted", " \n# x\n": "nothing was pasted",
		"npx x | tee log":                   "the operator |, which only a shell understands",
		"npx x > /etc/passwd":               "the operator >",
		"x\nrm -rf $(pwd)":                  "a command in $( )",
		"x `id`":                            "a command in $( )",
		"x && y":                            "the operator &&",
		"npx -y x; rm -rf y":                "the operator ;, which only a shell understands",
		"npx x <path>":                      "line 1: a shell cannot read this command",
		"x ; ;":                             "line 1: a shell cannot read this command",
		"if x; then y; fi":                  "a control structure",
		"x & y":                             "the operator &",
		"x ${A/b/c}":                        "a shell cannot read this command",
		"x ${A:=b}":                         "an expansion with ${ }",
		"x 'y":                              "a shell cannot read this command",
		`x "y`:                              "a shell cannot read this command",
		"{\"a\": [1, }":                     "line 1: this is not JSON",
		"[a.b]\nx = ":                       "line 2: ",
		"a:\n  b: [":                        "line 2: ",
		`{"dependencies": {}, "name": "x"}`: "it seems to be a package.json of npm",
		"claude mcp add x":                  "does not contain a server to start",
		"claude mcp add x https://a -a y https://b -b": "",
		"vscode:mcp/install?x":                         "the link does not contain a valid server configuration",
		strings.Repeat("a ", MaxPaste):                 "larger than 1 MiB",
		strings.Repeat("a ", maxCommands):              "longer than 64 KiB",
		strings.Repeat("(", maxCommands):               "a shell cannot read this command",
		strings.Repeat("x ${A:-", maxCommands/8):       "a shell cannot read this command",
		strings.Repeat("$(", maxCommands/2):            "a shell cannot read this command",
		strings.Repeat("if ", maxCommands/3):           "a shell cannot read this command",
		strings.Repeat("[", 100_000):                   "",
		strings.Repeat("{\"a\":", 100_000):             "nested too deeply",
		"a:\n" + strings.Repeat("}", 50_000):           "",
	} {
		_, err := Paste(text, clientfile.Options{OS: "linux"})
		var e *PasteError
		if want != "" && (!errors.As(err, &e) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

// TestPasteOfManyServers checks that naming many servers does not allocate much, and that Paste reads
// only the first servers.
func TestPasteOfManyServers(t *testing.T) {
	const n = 1500
	repeat := func(s string) string { return strings.Repeat(s, n) }
	for name, text := range map[string]string{
		"a list":                   "[" + strings.TrimSuffix(repeat(`{"command":"x"},`), ",") + "]",
		"commands":                 repeat("npx -y x\n"),
		"URLs":                     repeat("https://x.example/mcp\n"),
		"claude mcp add":           repeat("claude mcp add x y\n"),
		"names that become one":    `{"mcpServers":{` + strings.TrimSuffix(numbered(n, `"%[2]s":{"command":"x"},`), ",") + "}}",
		"names with other numbers": `{"mcpServers":{` + strings.TrimSuffix(numbered(n, `"x-%[1]d":{"command":"x"},`), ",") + "}}",
	} {
		var p Pasted
		var err error
		allocs := testing.AllocsPerRun(1, func() { p, err = Paste(text, clientfile.Options{OS: "linux"}) })
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if allocs > 100*n {
			t.Errorf("%s: %v allocations", name, allocs)
		}
		names := map[string]bool{}
		for _, s := range p.Servers {
			names[s.Name] = true
			if strings.Count(s.Name, "-") > 1 {
				t.Errorf("%s: the name %s", name, s.Name)
			}
		}
		if len(names) != MaxServer || len(p.Servers) != MaxServer {
			t.Errorf("%s: %d servers with %d names", name, len(p.Servers), len(names))
		}
		if len(p.Notes) == 0 || p.Notes[0] != "The text has 1500 servers. Only the first 100 are used." {
			t.Errorf("%s: notes %q", name, p.Notes)
		}
	}
}

// numbered returns n texts, each with its number and a different Chinese character.
func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i, string(rune(0x4e00+i)))
	}
	return b.String()
}

// TestPasteRefusesKeysThatAreListedTwice checks that all readers refuse a key that is listed twice.
// Otherwise a reader could use another value than the one that a person sees.
func TestPasteRefusesKeysThatAreListedTwice(t *testing.T) {
	if _, err := config.ParseClientFile("mcp.json", []byte(`{"mcpServers":{"s":{"command":"x"},"s":{"command":"y"}}}`)); err == nil || !strings.Contains(err.Error(), "the key s is listed twice") {
		t.Errorf("the file of a client: %v", err)
	}
	for _, text := range []string{
		`{"mcpServers":{"s":{"command":"x"},"s":{"command":"y"}}}`,
		`{"mcpServers":{"s":{"command":"x","command":"y"}}}`,
		`[{"command":"x","s":1,"s":2}]`,
		"mcpServers:\n  s: {command: x}\n  s: {command: y}\n",
		`code --add-mcp '{"name":"n","command":"x","command":"y"}'`,
	} {
		_, err := Paste(text, clientfile.Options{OS: "linux"})
		var e *PasteError
		if !errors.As(err, &e) || !strings.HasSuffix(e.Text, " is listed twice") || !strings.Contains(e.Hint, "remove or rename one of them") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSeveralCommands checks which servers are in Unsure if a text has several commands: those
// whose command might not start a server.
func TestSeveralCommands(t *testing.T) {
	for text, want := range map[string]string{
		"rm -rf x":                       "",
		"npx one\nuvx two":               "",
		"npx one\nrm -rf x":              "rm",
		"npm install -g one\nnpx one":    "npm",
		"docker rm x\ndocker run -i one": "docker",
		"./npx one\nnode two.js":         "one",
		"claude mcp add a -- npx x\nclaude mcp add b -- curl y\nhttps://h.example/mcp": "b",
	} {
		p, err := Paste(text, clientfile.Options{OS: "linux"})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := strings.Join(p.Unsure, " "); got != want {
			t.Errorf("%q: the unsure servers are %q, want %q", text, got, want)
		}
		if want != "" && (len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "are not chosen: "+want+".")) {
			t.Errorf("%q: notes %q", text, p.Notes)
		}
	}
}

// TestTake checks which texts Take moves out of a server's configuration, and which names replace
// them.
func TestTake(t *testing.T) {
	p, err := Paste(`{"mcpServers": {"git hub": {"command": "docker", "args": ["run", "-e", "GH_TOKEN=hunter2-a", "--api-key", "hunter2-b", "--auth-token=hunter2-c", "--header", "Authorization: Bearer hunter2-d", "plain", "sk-abcdefghijklmnop1234"],
		"env": {"GITHUB_TOKEN": "hunter2-e", "LEVEL": "debug", "DB": "postgres://u:hunter2f@h/db", "API_KEY": "<your key>", "OTHER_KEY": "${OTHER}", "LIT_TOKEN": "a$${b}"}},
		"web": {"url": "https://h.example/mcp?api_key=hunter2-g&x=1", "headers": {"Authorization": "Bearer YOUR_TOKEN", "X-Api-Key": "hunter2-h", "X-Plain": "z"}}}}`, clientfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all []Secret
	for i, s := range p.Servers {
		var found []Secret
		before := shown(t, p)
		taken := map[string]bool{}
		p.Servers[i], found = Take(s, s.Name, func(name, value string) string {
			for taken[name] {
				name += "_2"
			}
			taken[name] = true
			return name
		})
		all = append(all, found...)
		q := p
		q.Servers = []clientfile.Server{s}
		if !strings.Contains(before, shown(t, q)[len(q.Form):]) {
			t.Error("Take has changed its argument")
		}
	}
	const want = `JSON
  git-hub:
    command: docker
    args: [run, -e, "GH_TOKEN=${GH_TOKEN}", --api-key, ${GIT_HUB_API_KEY}, "--auth-token=${GIT_HUB_AUTH_TOKEN}", --header, "Authorization: Bearer ${GIT_HUB_TOKEN}", plain, ${GIT_HUB_TOKEN_2}]
    env:
      GITHUB_TOKEN: ${GITHUB_TOKEN}
      LEVEL: debug
      DB: "postgres://${DB}@h/db"
      API_KEY: ${API_KEY}
      OTHER_KEY: ${OTHER}
      LIT_TOKEN: ${LIT_TOKEN}
  web:
    url: "https://h.example/mcp?api_key=${WEB_TOKEN_2}&x=1"
    headers:
      Authorization: "Bearer ${WEB_TOKEN}"
      X-Api-Key: ${WEB_X_API_KEY}
      X-Plain: z
`
	if got := shown(t, p); strings.Contains(got, "hunter2") || strings.ReplaceAll(got, `"`, "") != strings.ReplaceAll(want, `"`, "") {
		t.Error(got)
	}
	values := map[string]string{}
	for _, s := range all {
		values[s.Variable] = s.Value
	}
	for name, value := range map[string]string{"GH_TOKEN": "hunter2-a", "DB": "u:hunter2f", "API_KEY": "", "LIT_TOKEN": "a${b}", "GIT_HUB_TOKEN": "hunter2-d", "WEB_TOKEN_2": "hunter2-g", "WEB_TOKEN": ""} {
		if got, ok := values[name]; !ok || got != value {
			t.Errorf("%s is %q", name, got)
		}
	}
	if got := strings.Join(References(&p.Servers[0]), " "); !strings.Contains(got, "OTHER") || strings.Contains(got, "b ") {
		t.Error(got)
	}
}

// FuzzPaste checks that Paste accepts any text, and that the configuration accepts or refuses each
// returned server without a panic.
func FuzzPaste(f *testing.F) {
	for _, s := range []string{"npx -y x", "https://h/x", `{"mcpServers":{"a":{"command":"x"}}}`, "[mcp_servers.a]\ncommand='x'", "a:\n  command: x", "claude mcp add x -- y", "cursor://x?config=e30", "cd /a && b", "A='b' c \"$D\" \\\n#"} {
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, text string, windows bool) {
		opt := clientfile.Options{OS: "linux"}
		if windows {
			opt.OS = "windows"
		}
		p, err := Paste(text, opt)
		if err != nil {
			return
		}
		env := func(string) (string, bool) { return "", false }
		compare := NewComparison("/x/dragoman.yaml", config.Default(), env)
		for _, s := range p.Servers {
			s, _ = Take(s, s.Name, func(name, _ string) string {
				if !validVariable().MatchString(name) {
					t.Fatalf("variable %q", name)
				}
				return name
			})
			c := compare.Compare(s, s.Name, nil)
			if c.Status == Skipped {
				continue
			}
			if parsed, err := ParseServer("/x/dragoman.yaml", s.Name, &s, env); err != nil || parsed.Name != s.Name {
				t.Fatalf("%+v: %v", c, err)
			}
		}
	})
}

// TestTakeClientSecret checks that the secret with which a client says who it is to an issuer is moved like a token.
func TestTakeClientSecret(t *testing.T) {
	root, err := clientfile.Parse("mcp.json", []byte(`{"mcpServers": {"gh": {"url": "https://h.example/mcp", "auth": {"CLIENT_ID": "id", "CLIENT_SECRET": "hunter2hunter2"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	c, _ := clientfile.ByID("cursor")
	s := clientfile.Read(c, "mcp.json", root, false, clientfile.Options{}).Servers[0]
	if got := Literals(s); len(got) != 1 || got[0] != "signIn.clientSecret" {
		t.Errorf("%q", got)
	}
	moved, found := Take(s, "gh", func(suggestion, _ string) string { return suggestion })
	if len(found) != 1 || found[0].Variable != "GH_CLIENT_SECRET" || found[0].Value != "hunter2hunter2" {
		t.Errorf("%+v", found)
	}
	if got := moved.Settings.Get("signIn", "clientSecret").Text; got != "${GH_CLIENT_SECRET}" || s.Settings.Get("signIn", "clientSecret").Text != "hunter2hunter2" {
		t.Errorf("%s", got)
	}
}
