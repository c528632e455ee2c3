package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
)

// env returns an environment for Parse from KEY=VALUE pairs.
func env(pairs ...string) func(string) (string, bool) {
	m := map[string]string{}
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		m[k] = v
	}
	return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
}

// good parses text that must have no errors. Warnings are allowed.
func good(t *testing.T, text string, vars ...string) *Snapshot {
	t.Helper()
	s, problems := Parse("/dir/dragoman.yaml", []byte(text), env(vars...))
	if err := problems.Err(); err != nil || s == nil {
		t.Fatalf("unexpected problems:\n%v", err)
	}
	return s
}

func listing(ps Problems) string {
	var b strings.Builder
	for _, p := range ps {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

func TestAnEmptyFileIsTheDefault(t *testing.T) {
	for text, says := range map[string]bool{
		"": false, "\n": false, "# nothing\n": false, "\ufeff": false, "---\n": false,
		"{}": true, "mcpServers:\ndragoman:\n": true, "null": true,
	} {
		s := good(t, text)
		if s.Empty == says {
			t.Errorf("%q: Empty is %t", text, s.Empty)
		}
		s.File, s.Empty = "", false
		if d := cmp.Diff(Default(), s, cmp.AllowUnexported(Server{})); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

const clientFile = `{
	"mcpServers": {
		"filesystem": {
			"command": "npx",
			"args": ["-y", "@modelcontextprotocol/server-filesystem@2025.8.21", "/tmp"],
			"env": {"DEBUG": 1, "WHERE": "${HOME}/x", "EMPTY": ""}
		},
		"remote": {"type": "http", "url": "https://mcp.example.com/mcp?key=${KEY}", "headers": {"Authorization": "Bearer ${TOKEN}"}},
		"old": {"url": "http://localhost:8080/sse", "type": "sse", "disabled": true, "autoApprove": ["x"]}
	}
}`

func TestAClientsFileWorksUnchanged(t *testing.T) {
	s := good(t, clientFile, "HOME=/home/me", "KEY=k", "TOKEN=hunter2")
	var names []string
	for _, srv := range s.Servers {
		names = append(names, srv.Name)
	}
	if want := []string{"filesystem", "remote", "old"}; !reflect.DeepEqual(names, want) {
		t.Fatalf("servers %v, want the file's order %v", names, want)
	}
	fs, remote, old := s.Servers[0], s.Servers[1], s.Servers[2]
	if fs.Kind != KindStdio || fs.Command != "npx" || len(fs.Args) != 3 || fs.Prefix != "filesystem" || fs.CallTimeout != time.Minute {
		t.Errorf("filesystem: %+v", fs)
	}
	for k, want := range map[string]string{"DEBUG": "1", "WHERE": "/home/me/x", "EMPTY": ""} {
		if got, ok := fs.Env[k]; !ok || got.Reveal() != want {
			t.Errorf("env %s = %q, want %q", k, got.Reveal(), want)
		}
	}
	if remote.Kind != KindHTTP || remote.URL != "https://mcp.example.com/mcp?key=k" ||
		len(remote.Header) != 1 || remote.Header[0].Value.Reveal() != "Bearer hunter2" {
		t.Errorf("remote: %+v", remote)
	}
	if old.Kind != KindSSE || !old.Disabled {
		t.Errorf("old: %+v", old)
	}
}

func TestSpellingsOfOtherClients(t *testing.T) {
	for text, want := range map[string]Kind{
		"{command: x, type: local}":                        KindStdio,
		"{command: x, transport: stdio}":                   KindStdio,
		"{url: 'http://h/', type: streamable-http}":        KindHTTP,
		"{url: 'http://h/', type: streamableHttp}":         KindHTTP,
		"{url: 'http://h/', transportType: sse}":           KindSSE,
		"{url: 'http://h/', type: remote}":                 KindAuto,
		"{url: 'http://h/'}":                               KindAuto,
		"{httpUrl: 'http://h/'}":                           KindHTTP,
		"{serverUrl: 'http://h/', headers: null, env: {}}": KindAuto,
	} {
		s := good(t, "mcpServers: {a: "+text+"}")
		if got := s.Servers[0].Kind; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if s := good(t, "mcpServers: {a: {command: x, enabled: false}}"); !s.Servers[0].Disabled {
		t.Error("enabled: false is ignored")
	}
}

const ourFile = `
x-common: &common {isolation: shared, lazy: true}
mcpServers:
  gh: {command: ./gh, args: [serve], cwd: work}
  web: {url: "http://127.0.0.1:9/mcp"}
dragoman:
  listen: "[::1]:${PORT:-7301}"
  server:
    name: hub
    title: The Hub
    version: "1.2"
    instructions: {file: notes.md, join: upstreams-first}
  revisions: {accept: ["2025-06-18", 2026-07-28], otherwise: refuse}
  names: {separator: "-"}
  limits: {body: 1MiB, message: 2000000, call: 30s, callMax: 1h, start: 5s, starts: 3, inFlight: 1GiB, initializePerSecond: 9}
  allowedHosts: [Gate.Example, "gate.example:8443"]
  allowedOrigins: ["https://gate.example"]
  log: {level: debug, format: json}
  audit: {calls: arguments, onFailure: continue, fileSize: 1MiB, files: 3}
  servers:
    gh:
      <<: *common
      prefix: github
      revision: 2025-11-25
      callTimeout: 2h
      expose: {tools: {allow: [get_*, list_*], deny: [get_secret]}}
    web: {dialect: manifest, isolation: call, startTimeout: 7s}
`

func TestOurOwnKeys(t *testing.T) {
	s := good(t, ourFile, "DRAGOMAN_SERVER_TITLE=Hub of the environment")
	gh, web := s.Servers[0], s.Servers[1]
	s.Servers = nil
	want := &Snapshot{
		File:   "/dir/dragoman.yaml",
		Listen: "[::1]:7301",
		Identity: Identity{
			Name: "hub", Title: "Hub of the environment", Version: "1.2",
			Instructions: Instructions{File: "/dir/notes.md", Join: UpstreamsFirst},
		},
		Revisions: Revisions{Accept: []mcp.Revision{mcp.R20260728, mcp.R20250618}, Refuse: true},
		Separator: "-",
		Limits: Limits{
			Body: 1 << 20, Message: 2_000_000, Call: 30 * time.Second, CallMax: time.Hour,
			Start: 5 * time.Second, Starts: 3, ManifestClient: 8 * time.Second, InitializePerSecond: 9, InFlight: 1 << 30,
		},
		Hosts:   []string{"gate.example", "gate.example:8443"},
		Origins: []string{"https://gate.example"},
		Log:     Log{Level: slog.LevelDebug, JSON: true},
		Console: true,
		Audit:   Audit{Calls: AuditArguments, OnFailure: FailContinue, FileSize: 1 << 20, Files: 3},
	}
	if d := cmp.Diff(want, s); d != "" {
		t.Error(d)
	}
	if gh.Dir != "/dir/work" || gh.Prefix != "github" || gh.Isolation != IsolateShared || !gh.Lazy ||
		gh.Revision != mcp.R20251125 || gh.CallTimeout != 2*time.Hour || gh.CallMax != 2*time.Hour || gh.StartTimeout != 5*time.Second {
		t.Errorf("gh: %+v", gh)
	}
	for name, want := range map[string]bool{"get_issue": true, "list_": true, "get_secret": false, "create": false} {
		if got := gh.Expose.Tools.Allows(name); got != want {
			t.Errorf("Allows(%s) = %t", name, got)
		}
	}
	if web.Dialect != "manifest" || web.Profile != dialect.Lookup("manifest") || web.Isolation != IsolateCall || web.StartTimeout != 7*time.Second || web.CallTimeout != 30*time.Second {
		t.Errorf("web: %+v", web)
	}
}

// TestAllProblemsAtOnce checks that Parse refuses a bad file, and reports all problems of the file at
// once.
func TestAllProblemsAtOnce(t *testing.T) {
	text, err := os.ReadFile("testdata/bad.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, problems := Parse("bad.yaml", text, env("SECRET=hunter2"))
	if s != nil {
		t.Error("got a Snapshot")
	}
	got := listing(problems)
	golden := filepath.Join("testdata", "bad.problems")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("problems (-want +got); -update writes them:\n%s", d)
	}
	if strings.Contains(got, "hunter2") {
		t.Error("a problem shows a secret")
	}
}

func TestProblems(t *testing.T) {
	server := func(body string) string { return "mcpServers:\n  a: " + body + "\n" }
	for _, tt := range []struct{ text, want string }{
		{"def f(x):\n    return x", "f: is not a configuration: it has no key that Dragoman knows"}, // a Python file that is YAML too
		{"a: [1, 2\nb: 3", "f:2:1: syntax error"},
		{"a:\n\tb: 1", "f:2:2: syntax error: YAML does not allow tabs for indentation; use spaces"},
		{"// hi\n{\"mcpServers\": {}} /* x", "f:"},
		{"- a", "f:1:1: must be a mapping, not a list"},
		{"just words", "f:1:1: must be a mapping, not a single value"},
		{"{}\n---\nx: 1", "f:3:1: a second document begins here"},
		{"mcpservers: {}", "f:1:1: mcpservers: unknown key; did you mean mcpServers?"},
		{"servers: {}", "f:1:1: servers: servers belong under the key mcpServers; rename the key"},
		{"mcpServers: {a: {command: x}, a: {command: y}}", "f:1:31: the key a is listed twice; the first one is on line 1"},
		{"mcpServers: {a: *b}", "f:1:17: the alias *b has no anchor"},
		{"\xff", "f:1:1: the file is not UTF-8; save the file as UTF-8"},
		{"dragoman:\n  limits: {call: 60}", `f:2:18: dragoman.limits.call: "60" is not a duration; add the unit, for example 90s or 5m`},
		{"dragoman: {limits: {call: 20m}}", "dragoman.limits.call: 20m is longer than callMax, which is 10m"},
		{"dragoman: {limits: {body: 4Mb}}", `"4Mb" is not a size`},
		{"dragoman: {limits: {body: 4096GiB}}", "must be between 1KiB and 1GiB"},
		{"dragoman: {limits: {body: 99999999999999999999}}", "is not a size"},
		{"dragoman: {limits: {inFlight: 1KiB}}", "must be between 1MiB and 64GiB"},
		{"dragoman: {limits: {initializePerSecond: 0}}", "must be a whole number between 1 and 10000"},
		{"dragoman: {listen: '300.1.1.1:80'}", `f:1:20: dragoman.listen: "300.1.1.1" is not an IP address; write an address of this machine, for example 127.0.0.1:80`},
		{"dragoman: {listen: 7300}", `f:1:20: dragoman.listen: "7300" is not a listen address; write 127.0.0.1:7300`},
		{"dragoman: {listen: 'localhost:http'}", `"http" is not a port`},
		{"dragoman: {server: {instructions: {text: a, file: b}}}", "has text and file; keep one of them"},
		{"dragoman: {server: {instructions: {text: a, from: b}}}", "has text and from; keep one of them"},
		{"dragoman: {server: {instructions: {from: team}}}", `f:1:42: dragoman.server.instructions.from: there is no server "team"; add a server with the command dragoman and the args: server, requirements`},
		{"mcpServers: {reqs: {command: dragoman, args: [server, requirements]}}\ndragoman: {server: {instructions: {from: req}}}", `there is no server "req"; write reqs`},
		{"mcpServers: {files: {command: dragoman, args: [server, filesystem]}}\ndragoman: {server: {instructions: {from: files}}}", `"files" is not a requirements server; name a server whose args begin with: server, requirements`},
		{"dragoman: {server: {name: ''}}", "dragoman.server.name: must not be empty"},
		{"dragoman: {server: {instructions: {text: 'key ${KEY:-k}'}}}", "f:1:42: dragoman.server.instructions.text: contains ${…}, and every client would read the value; write the text itself, or set dragoman.server.allowSecretsInInstructions: true"},
		{"dragoman: {server: {instructions: {text: 'use ghp_abcdefghijklmnopqrstuvwx'}}}", "dragoman.server.instructions.text: contains text that looks like a credential, and every client would read it; remove it"},
		{"mcpServers: {a: {url: 'https://x.example/mcp'}}\ndragoman: {servers: {a: {dialect: codex-app-server}}}", "works only with a command, not with a url"},
		{"dragoman: {revisions: {accept: [2025-11-26]}}", `"2025-11-26" is not a revision; write 2026-07-28, 2025-11-25`},
		{"dragoman: {revisions: {accept: []}}", "the list is empty"},
		{"dragoman: {revisions: {otherwise: reject}}", `"reject" is not a valid value`},
		{"dragoman: {names: {separator: x}}", "must have one to eight characters"},
		{"dragoman: {allowedOrigins: ['*']}", "contains *, which allows too much"},
		{"dragoman: {allowedOrigins: [null]}", "must be a single value, not nothing"},
		{"dragoman: {allowedOrigins: ['null']}", "would allow every sandboxed web page"},
		{"dragoman: {allowedOrigins: ['https://a/b']}", "is not an origin"},
		{"dragoman: {allowedHosts: ['http://a']}", "is not a host"},
		{"dragoman: {servers: {gx: {}}}\nmcpServers: {gh: {command: x}}", "f:1:22: dragoman.servers.gx: mcpServers has no server with this name; did you mean gh?"},
		{"dragoman: {lisen: x}", "f:1:12: dragoman.lisen: unknown key; did you mean listen?"},
		{"dragoman: {servers: {a: {call_timeout: 1s}}}\n" + server("{command: x}"), "did you mean callTimeout?"},
		{"dragoman: {servers: {a: {prefix: b}}}\nmcpServers: {a: {command: x}, b: {command: y}}", "mcpServers.b: has the same prefix as mcpServers.a"},
		{"dragoman: {servers: {a: {expose: {tools: {allow: []}}}}}\n" + server("{command: x}"), "an empty list would allow everything"},
		{"mcpServers: {'my server': {command: x}}", `mcpServers["my server"]: the name contains a character`},
		{"mcpServers: {..: {command: x}}", "the name contains only dots"},
		{server(""), "f:2:3: mcpServers.a: has neither command nor url"},
		{server("{}"), "f:2:3: mcpServers.a: has neither command nor url"},
		{server("{command: x, url: 'http://h'}"), "has both command and url"},
		{server("{command: [npx, y]}"), "f:2:16: mcpServers.a.command: must be a single value, not a list; put the first word into"},
		{"mcpServers: {a: npx}", "f:1:14: mcpServers.a: must be a mapping, not a single value; write {command: …"},
		{server("{command: x, args: '-y z'}"), "mcpServers.a.args: must be a list, not a single value; write [-y, z]"},
		{server("{command: x, env: [A=b]}"), "f:2:19: mcpServers.a.env: must be a mapping, not a list; write NAME: VALUE"},
		{server("{url: 'http://h', headers: 'A: b'}"), "mcpServers.a.headers: must be a mapping, not a single value; write NAME: VALUE"},
		{server("{comand: x}"), "f:2:7: mcpServers.a.comand: unknown key; did you mean command?"},
		{server("{command: x, type: http}"), "has a command, but the type is http"},
		{server("{url: 'http://h', type: stdio}"), "has a url, but the type is stdio"},
		{server("{url: 'http://h', type: grpc}"), `"grpc" is not a kind of server`},
		{server("{url: 'localhost:80'}"), "must begin with http:// or https://"},
		{server("{url: 'ws://h'}"), "MCP has no WebSocket transport"},
		{server("{url: 'http:///x'}"), "has no host"},
		{server("{url: 'http://h:99999'}"), "has an invalid port"},
		{server("{url: 'http://h:p^'}"), "mcpServers.a.url: is not a URL"},
		{server("{url: 'http://h#x'}"), "must not have a fragment"},
		{server("{url: 'http://h', headers: {'A B': c}}"), `mcpServers.a.headers["A B"]: is not a valid header name`},
		{server("{url: 'http://h', headers: {mcp-session-id: c}}"), "Dragoman sets this header itself"},
		{server("{url: 'http://h', headers: {Mcp-Param-X: c}}"), "Dragoman sets this header itself"},
		{server(`{url: 'http://h', headers: {A: "x\r\ny"}}`), "must be one line without control characters"},
		{server("{url: 'http://h', headers: {A: x, a: y}}"), "header names are not case-sensitive"},
		{server("{command: x, headers: {A: b}}"), "works only with a url, but the server has a command; use env"},
		{server("{command: x, env: {A: }}"), "mcpServers.a.env.A: has no value"},
		{server(`{command: x, env: {"A=": b}}`), "is not a valid variable name"},
		{server(`{command: x, cwd: ~/x}`), "~ is not replaced with your home directory; write ${HOME}"},
		{server(`{command: "${NOPE}"}`), "f:2:16: mcpServers.a.command: the environment variable NOPE is not set; set it, or write ${NOPE:-default}"},
		{server(`{command: "${secret:gh}"}`), "f:2:16: mcpServers.a.command: must not contain ${secret:gh}, because Dragoman shows this value"},
		{server(`{command: "${input:gh}"}`), "is an input prompt of an editor"},
		{server(`{command: "${9}"}`), "${9} is not a valid reference"},
		{server(`{command: "${A"}`), "${ has no closing }"},
		{server(`{command: "a\0b"}`), "must not contain a NUL character"},
		{server(`{command: x, disabled: maybe}`), "must be true or false"},
		{"a: " + strings.Repeat("[", 100), "the file is nested too deeply"},
		{strings.Repeat("- ", 1000), "the file is nested too deeply"},
		{strings.Repeat("#", MaxFile+1), "the file is larger than 1 MiB; make the file smaller; only JSON files may have up to 32 MiB"},
		{"{" + strings.Repeat(" ", clientfile.MaxFile), "the file is larger than 32 MiB"},
		{"{" + strings.Repeat(" ", MaxFile), "f:1:1048578: "},
		{server("{command: x, args: [${A}]}"), `put ${NAME} in quotes between { } or [ ]: "${NAME}"`},
		{server("{command: x, env: { A: ${A}, B: 1 }}"), `put ${NAME} in quotes`},
		{server("{url: http://h/${A}}"), `put ${NAME} in quotes`},
		{server("{command: x, args: [-k=${A}, b]}"), `put ${NAME} in quotes`},
	} {
		s, problems := Parse("f", []byte(tt.text), env())
		// A variable that is not set makes one server unusable. This is also an error.
		unset := len(problems.OfServers()) > 0
		if (s != nil) != unset || problems.Err() == nil {
			t.Errorf("%.80q: accepted", tt.text)
			continue
		}
		if got := listing(problems); !strings.Contains(got, tt.want) {
			t.Errorf("%.80q:\n got %s want %s", tt.text, got, tt.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"globalShortcut: x\nmcpServers: {}", "f:1:1: warning: globalShortcut: is not a known key, so it is ignored"},
		{"listen: x", "f:1:1: warning: listen: is not a top-level key, so it is ignored; move it under the key dragoman"},
		{"inheritEnv: [A]", "inheritEnv: is not a top-level key, so it is ignored; move it under the key dragoman"},
		{"command: x", "f:1:1: warning: command: is not a top-level key, so it is ignored; write it under mcpServers, below the name of a server"},
		{"mcpServers: {a: {command: x, callTimeout: 3s}}", "f:1:30: warning: mcpServers.a.callTimeout: is ignored here; write dragoman.servers.a.callTimeout"},
		{"mcpServers: {a: {command: x, timeout: 60}}", "write dragoman.servers.a.callTimeout"},
		{"mcpServers: {a: {command: x, autoApprove: []}}", "mcpServers.a.autoApprove: is ignored"},
		{"mcpServers: {a: {command: x, tools: ['*']}}", "write dragoman.servers.a.expose.tools"},
		{"mcpServers: {a: {command: x, frobnicate: 1}}", "is not a known key, so it is ignored"},
		{"mcpServers: {a: {command: npx -y x}}", "must be the name of one program"},
		{"mcpServers: {a: {command: npx, args: [-y, '@a/b']}}", "npx always runs the newest version of the package"},
		{"mcpServers: {a: {command: npx, args: [b]}, p: {command: npx, args: [b@1]}, c: {command: npx, args: [b]}, d: {command: npx, args: [b]}}", "mcpServers.a.command: npx always runs the newest version of the package, also for c, d; pin"},
		{"mcpServers: {a: {command: uvx, args: [--from, x, y]}}", "uvx always runs the newest"},
		{"mcpServers: {a: {url: 'http://h', env: {A: b}}}", "is ignored, because the server has a url"},
		{"dragoman: {names: {separator: .}}", "some clients accept only letters"},
		{"mcpServers: {a: {command: '${NOPE}', disabled: true}}", "NOPE is not set"},
	} {
		s, problems := Parse("f", []byte(tt.text), env())
		if s == nil || !strings.Contains(listing(problems.Warnings()), tt.want) || strings.Count(listing(problems), "newest version") > 1 {
			t.Errorf("%s:\n got %s want %s", tt.text, listing(problems), tt.want)
		}
	}
	for file, text := range map[string]string{ // files of clients that have no servers yet
		"claude_desktop_config.json": `{"globalShortcut": "x"}`, ".codex/config.toml": `model = "x"`, "opencode.json": `{"model": "x"}`,
	} {
		if s, problems := Parse(file, []byte(text), nil); s == nil || !strings.Contains(listing(problems.Warnings()), "is not a known key, so it is ignored") {
			t.Errorf("%s: %s", file, listing(problems))
		}
	}
	for _, text := range []string{
		"$schema: x\nx-notes: y",
		"mcpServers: {a: {command: npx, args: [-y, '@a/b@1.2']}}",
		"mcpServers: {a: {command: npx, args: [./local]}}",
		"mcpServers: {a: {command: uvx, args: [x==1.0]}}",
		"dragoman: {listen: '0.0.0.0:80', allowUnauthenticatedNetworkAccess: true}",
	} {
		if s, problems := Parse("f", []byte(text), env()); s == nil || len(problems) > 0 {
			t.Errorf("%s: %s", text, listing(problems))
		}
	}
}

func TestExpand(t *testing.T) {
	vars := env("A=1", "EMPTY=", "LOOP=${A}")
	for in, want := range map[string]string{
		"":                     "",
		"plain $A $":           "plain $A $",
		"${A}":                 "1",
		"x${A}y${env:A}":       "x1y1",
		"${NO:-dflt}":          "dflt",
		"${NO:-}":              "",
		"${EMPTY}":             "",
		"${EMPTY:-d}":          "d",
		"${NO:-http://h:1/}":   "http://h:1/",
		"$${A}":                "${A}",
		"$$${A}":               "$${A}",
		"${LOOP}":              "${A}",
		"${A}$${B}${A}":        "1${B}1",
		"${NO:-${A}":           "${A",
		"a$$b":                 "a$$b",
		"${NO:-secret:x}tail}": "secret:xtail}",
	} {
		e, bad, _ := expand(in, lookups{env: vars})
		if bad != "" || e.text != want {
			t.Errorf("expand(%q) = %q %s, want %q", in, e.text, bad, want)
		}
	}
}

func TestSecretsNeverShow(t *testing.T) {
	const canary = "canary-hunter2"
	s := good(t, `
mcpServers:
  a: {url: "https://u:canary-hunter2@h/p?k=canary-hunter2", headers: {X-Any: "${C}", Authorization: canary-hunter2}}
  b: {url: "https://h/${C}"}
  c:
    command: run
    args: [--token, canary-hunter2, --api-key=canary-hunter2, "${C}", --header, "Authorization: canary-hunter2", -e, GH_TOKEN=canary-hunter2]
    env: {ANY: canary-hunter2}
`, "C="+canary)
	var out strings.Builder
	out.Write(s.AppendYAML(nil))
	log := slog.New(slog.NewTextHandler(&out, nil))
	logJSON := slog.New(slog.NewJSONHandler(&out, nil))
	for _, srv := range s.Servers {
		fmt.Fprintln(&out, srv.Describe())
		log.Info("x", "server", srv)
		logJSON.Info("x", "server", srv)
		for _, v := range []any{srv.Env, srv.Header, struct{ s Secret }{srv.Env["ANY"]}} {
			fmt.Fprintf(&out, "%v %+v %#v %s %q %x\n", v, v, v, v, v, v)
			j, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(j)
			log.Info("x", "v", v)
			logJSON.Info("x", "v", v)
		}
	}
	if strings.Contains(out.String(), canary) || strings.Contains(out.String(), fmt.Sprintf("%x", canary)) {
		t.Errorf("a secret is visible:\n%s", out.String())
	}
}

func TestPrintedConfigurationParses(t *testing.T) {
	for _, text := range []string{"", ourFile, clientFile, "mcpServers: {'123': {command: '- x: #', args: ['', 'null', \"a\\nb\\u0007\\u00ad\\U0001F600\", '1e3', 'a: b']}}"} {
		s := good(t, text, "HOME=/h", "KEY=k", "TOKEN=t")
		printed := string(s.AppendYAML(nil))
		again := good(t, printed)
		if d := cmp.Diff(printed, string(again.AppendYAML(nil))); d != "" {
			t.Errorf("printed twice:\n%s", d)
		}
		for i := range s.Servers {
			if text == ourFile || s.Servers[i].Command == "- x: #" {
				if !reflect.DeepEqual(s.Servers[i].Args, again.Servers[i].Args) {
					t.Errorf("args %q became %q", s.Servers[i].Args, again.Servers[i].Args)
				}
			}
		}
	}
}

func TestFingerprint(t *testing.T) {
	base := "mcpServers: {a: {command: x, args: [b, c], env: {A: '1'}, cwd: /d}}\n"
	one := func(text string) Server { return good(t, text).Servers[0] }
	same := []string{
		base,
		"mcpServers: {z: {url: 'http://h'}, a: {command: x, args: [b, c], env: {A: 1}, cwd: /d}}",
		base + "dragoman: {servers: {a: {callTimeout: 5s, prefix: p, lazy: true}}}",
	}
	other := []string{
		strings.Replace(base, "[b, c]", "[bc]", 1),
		strings.Replace(base, "'1'", "'2'", 1),
		strings.Replace(base, "/d", "/e", 1),
		base + "dragoman: {servers: {a: {revision: 2025-11-25}}}",
		base + "dragoman: {servers: {a: {isolation: call}}}",
		base + "dragoman: {limits: {message: 1MiB}}",
	}
	want := one(base).Fingerprint
	for _, text := range same {
		s, _ := good(t, text).Server("a")
		if s.Fingerprint != want {
			t.Errorf("%s: fingerprint differs, so the server would restart needlessly", text)
		}
	}
	for _, text := range other {
		if one(text).Fingerprint == want {
			t.Errorf("%s: same fingerprint, so the server would not restart", text)
		}
	}
	c, p := Complete(Server{Name: "a", Command: "x", Args: []string{"b", "c"}, Dir: "/d", Env: map[string]Secret{"A": NewSecret("1")}})
	if p != nil || c.Fingerprint != want || c.CallTimeout != time.Minute {
		t.Errorf("Complete: %+v %v", c, p)
	}
}

func TestCompleteChecks(t *testing.T) {
	for _, tt := range []struct {
		s    Server
		want string
	}{
		{Server{}, "needs a command or a URL"},
		{Server{Command: "x", URL: "http://h"}, "both"},
		{Server{Command: "x", Header: []Field{{Name: "A"}}}, "headers: headers can only be used"},
		{Server{Command: "x", Env: map[string]Secret{"A=": {}}}, "is not a valid variable name"},
		{Server{Command: "x", Dialect: "a b"}, "dialect"},
		{Server{URL: "https://x.example/mcp", Dialect: dialect.CodexAppServer}, "dialect"},
		{Server{URL: "ftp://h"}, "url: must begin with http"},
		{Server{URL: "http://h", Dir: "/"}, "env and cwd can only be used"},
		{Server{URL: "http://h", Header: []Field{{Name: "A b"}}}, "is not a valid header name"},
		{Server{URL: "http://h", Header: []Field{{Name: "A", Value: NewSecret("x\ny")}}}, "one line"},
	} {
		if _, p := Complete(tt.s); p == nil || !strings.Contains(p.String(), tt.want) {
			t.Errorf("%+v: %v, want %s", tt.s, p, tt.want)
		}
	}
}

// TestSecretsInInstructions checks that values from the environment are allowed in instructions
// only with allowSecretsInInstructions, and that a printed configuration masks these values.
func TestSecretsInInstructions(t *testing.T) {
	const in = "dragoman: {server: {%sinstructions: {text: '${TEAM} $${X}'}}}"
	s, problems := Parse("f", []byte(strings.Replace(in, "%s", "allowSecretsInInstructions: true, ", 1)), env("TEAM=blue-team"))
	if s == nil || s.Identity.Instructions.Text != "blue-team ${X}" {
		t.Fatal(listing(problems))
	}
	if text := string(s.AppendYAML(nil)); strings.Contains(text, "blue-team") || !strings.Contains(text, "allowSecretsInInstructions: true") {
		t.Error(text)
	}
	if s, problems := Parse("f", []byte("dragoman: {server: {instructions: {text: 'a $${X}'}}}"), nil); s == nil {
		t.Error(listing(problems))
	}
}

// TestNoPrefix checks that "prefix: none" means no prefix. Two servers may have this setting, and a
// server may have the name none. A printed configuration keeps the setting.
func TestNoPrefix(t *testing.T) {
	s, problems := Parse("f", []byte("mcpServers: {a: {command: x}, b: {command: y}, none: {command: z}}\ndragoman: {servers: {a: {prefix: none}, b: {prefix: none}}}"), nil)
	if s == nil || len(problems) > 0 {
		t.Fatal(listing(problems))
	}
	for range 2 {
		for i, want := range []string{"", "", "none"} {
			if x := s.Servers[i]; x.Prefix != want || x.Unprefixed != (want == "") {
				t.Errorf("%s: %q, %t", x.Name, x.Prefix, x.Unprefixed)
			}
		}
		if s, problems = Parse("f", s.AppendYAML(nil), nil); s == nil {
			t.Fatal(listing(problems))
		}
	}
}

// TestSyntaxErrorsInPlainWords checks that the words of the YAML parser do not reach the user.
func TestSyntaxErrorsInPlainWords(t *testing.T) {
	parser := regexp.MustCompile(`token|flow|sequence|context|scalar|mapping|must be specified|could not find|undefined|character`)
	for _, text := range []string{
		"a: [1", "a: {b: 1", "a: ]", "a: [b\nc: 1", "a: \"x", "a: 'x", "a: {b c: 1, d", "a: [1, , 2]", "a: 1\nb\nc: 2", "a: b: c",
		"a:\n  - x\n b: 1", "a: \"x\" y", "a: - b", "a: *", "a: &", "a: %x", "a: \"\\q\"", "a\n  b: 1", "b:\n  c:\"x\"\n  d: 1", "...x", `{"a": {"b": "c" "d": 1}}`, `{"a": "\q"}`,
	} {
		_, problems := Parse("f", []byte(text), env())
		if len(problems) == 0 || !strings.HasPrefix(problems[0].Text, "syntax error: ") || parser.MatchString(problems[0].Text) {
			t.Errorf("%q: %v", text, problems)
		}
	}
}
