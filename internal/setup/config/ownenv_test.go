package config

import (
	"slices"
	"strings"
	"testing"
)

// TestOwnEnvFirst checks that a reference looks into the env of its own server before the
// environment of Dragoman.
func TestOwnEnvFirst(t *testing.T) {
	s, problems := Parse("f.yaml", []byte(`
mcpServers:
  a:
    command: "${BIN}/tool"
    args: ["${ROOT}", "${env:ROOT}/x", "${OTHER:-none}", "${HOME}"]
    cwd: "${ROOT}"
    env:
      ROOT: /own
      BIN: "${ROOT}/bin"
      PATH: "${PATH}:/opt/bin"
      LOOP: "${POOL}+"
      POOL: "${LOOP}-"
  b:
    url: https://h.example/mcp
    headers: {Authorization: "Bearer ${TOKEN}"}
    env: {TOKEN: abcdefgh}
  c:
    command: x
    args: ["${ROOT}"]
dragoman:
  servers:
    a: {prefix: "${NAME_A:-p}"}
`), env("ROOT=/outer", "PATH=/usr/bin", "HOME=/home/me", "LOOP=l", "POOL=p"))
	if s == nil || len(problems) > 0 {
		t.Fatal(listing(problems))
	}
	a, b, c := s.Servers[0], s.Servers[1], s.Servers[2]
	if a.Command != "/own/bin/tool" || a.Dir != "/own" || !slices.Equal(a.Args, []string{"/own", "/own/x", "none", "/home/me"}) {
		t.Errorf("%s %q in %s", a.Command, a.Args, a.Dir)
	}
	for name, want := range map[string]string{"BIN": "/own/bin", "PATH": "/usr/bin:/opt/bin", "LOOP": "l-+", "POOL": "p+-"} {
		if got := a.Env[name].Reveal(); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if got := b.Header[0].Value.Reveal(); got != "Bearer abcdefgh" || len(b.Env) != 0 {
		t.Errorf("%q, env %d", got, len(b.Env))
	}
	if c.Args[0] != "/outer" {
		t.Errorf("the env of one server reached another: %q", c.Args)
	}
	// Values of env are masked in arguments and headers too.
	if text := string(s.AppendYAML(nil)); strings.Contains(text, "/own/x") || strings.Contains(text, "abcdefgh") {
		t.Error(text)
	}
}

// TestOwnEnvProblems checks that a missing variable is reported at the value that refers to it. The
// env of a server with a url is ignored only if nothing refers to it. The references between
// variables are bounded.
func TestOwnEnvProblems(t *testing.T) {
	_, problems := Parse("f.yaml", []byte("mcpServers:\n  a:\n    command: x\n    args: [\"${A}\"]\n    env:\n      A: \"${MISSING}\"\n"), nil)
	if got := listing(problems); strings.Count(got, "MISSING is not set") != 1 || !strings.Contains(got, "f.yaml:6:10: mcpServers.a.env.A:") {
		t.Error(got)
	}
	_, problems = Parse("f.yaml", []byte("mcpServers: {a: {url: 'http://h', env: {A: b}}}"), nil)
	if got := listing(problems); !strings.Contains(got, "mcpServers.a.env: is ignored, because the server has a url") {
		t.Error(got)
	}
	var b strings.Builder
	b.WriteString("mcpServers:\n  a:\n    command: x\n    env:\n      V0: x\n")
	for i := range 60 {
		v := string(rune('a'+i%26)) + strings.Repeat("_", i/26)
		last := "V0"
		if i > 0 {
			last = string(rune('a'+(i-1)%26)) + strings.Repeat("_", (i-1)/26)
		}
		b.WriteString("      " + v + ": \"${" + last + "}${" + last + "}\"\n")
	}
	s, problems := Parse("f.yaml", []byte(b.String()), nil)
	if got := listing(problems); s != nil || strings.Count(got, "insert more than 1 MiB") != 1 {
		t.Errorf("%.500s", got)
	}
}

// TestFormatOfFileWithoutServers checks that the error for a file without servers names the file's
// probable format. Aliases must not make the detection of the format slow.
func TestFormatOfFileWithoutServers(t *testing.T) {
	for text, want := range map[string]string{
		"services: {web: {image: nginx}}":                                           "has no servers; it seems to be a Docker Compose file",
		`{"name": "x", "scripts": {}}`:                                              "has no servers; it seems to be a package.json of npm",
		`{"jdbc": {"command": "java"}}`:                                             "has no servers; it seems to be a mapping of servers without the key mcpServers; write mcpServers above them",
		`{"mcpServers": [{"name": "a", "command": "b"}]}`:                           "must be a mapping, not a list",
		`{"context_servers": {"a": {"command": "b"}}}`:                              "it seems to be the settings of Zed",
		"command: java\nargs: [x]\n":                                                "it seems to be the entry of one server, without a name",
		`{"servers": {}}`:                                                           "has no servers; it seems to be a file of VS Code",
		`{"openapi": "3.0.0", "paths": {}}`:                                         "it seems to be an OpenAPI document",
		"compatibility_mode: api_wrapper\nmcpServers: {}":                           "compatibility_mode: is not a top-level key, so it is ignored; write dragoman.servers.NAME.isolation",
		`{"servers": {"a": {"command": "b", "compatibility_mode": "api_wrapper"}}}`: "compatibility_mode: api_wrapper becomes isolation: call",
		"mcpServers: {a: {command: b, compatibility_mode: api_wrapper}}":            "means isolation: call; write it as dragoman.servers.a.isolation",
		"mcpServers: {a: {command: b, compatibility_mode: both}}":                   `"both" is not a known mode, so it is ignored`,
	} {
		_, problems := Parse("f", []byte(text), nil)
		if got := listing(problems); !strings.Contains(got, want) {
			t.Errorf("%s\n got %s want %s", text, got, want)
		}
	}
	s, _ := Parse("f", []byte("mcpServers: {a: {command: b, compatibility_mode: api_wrapper}, c: {command: d, compatibility_mode: api_wrapper}}\ndragoman: {servers: {c: {isolation: shared}}}"), nil)
	if s == nil || s.Servers[0].Isolation != IsolateCall || s.Servers[1].Isolation != IsolateShared {
		t.Errorf("%+v", s)
	}
	// Each alias is a copy of its anchor, so few bytes become 10^8 values.
	bomb := "x-0: &a0 [1]\n"
	for i := range 8 {
		bomb += "x-" + string(rune('1'+i)) + ": &a" + string(rune('1'+i)) + " [" + strings.Repeat("*a"+string(rune('0'+i))+", ", 9) + "*a" + string(rune('0'+i)) + "]\n"
	}
	if s, problems := Parse("f.yaml", []byte(bomb), nil); s == nil {
		t.Error(listing(problems))
	}
	if _, err := ParseClientFile("f.yaml", []byte(bomb)); err == nil || !strings.Contains(err.Error(), "too many values") {
		t.Error(err)
	}
	if _, err := ParseClientFile("f.yaml", []byte("dragoman: {}")); err == nil || !strings.Contains(err.Error(), "does not need an import") {
		t.Error(err)
	}
}
