package config

import (
	"strings"
	"testing"
)

func TestPublicURL(t *testing.T) {
	for _, tt := range []struct{ text, url, path, host, origin string }{
		{"https://Example.com/", "https://Example.com", "", "example.com", "https://example.com"},
		{"https://example.com/tools/dragoman/", "https://example.com/tools/dragoman", "/tools/dragoman", "example.com", "https://example.com"},
		{"http://example.com:8080/x", "http://example.com:8080/x", "/x", "example.com", "http://example.com:8080"},
		{"https://[::1]:443/x", "https://[::1]:443/x", "/x", "[::1]", "https://[::1]"},
		{"", "", "", "", ""},
	} {
		text := "dragoman: {publicURL: \"" + tt.text + "\"}"
		if tt.text == "" {
			text = "dragoman: {}"
		}
		s := good(t, text)
		if host, origin := s.PublicHost(); s.PublicURL != tt.url || s.PublicPath() != tt.path || host != tt.host || origin != tt.origin {
			t.Errorf("%s: %s, path %s, host %s, origin %s", tt.text, s.PublicURL, s.PublicPath(), host, origin)
		}
	}
}

func TestInvalidPublicURLs(t *testing.T) {
	for _, text := range []string{
		"example.com", "ftp://example.com", "https://", "https://example.com/?q=1", "https://example.com/#a", "https://me:pw@example.com/",
		"https://example.com/a//b", "https://example.com/a/../b", "https://example.com/a b", "https://example.com/s/x", "https://example.com/p",
		"https://example.com/x/mcp", "https://example.com/sse/", "https://exa*mple.com/", "https://example.com/%2e%2e/x",
	} {
		if s, problems := Parse("f", []byte("dragoman: {publicURL: \""+text+"\"}"), nil); s != nil || problems.Err() == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

func TestCheckHost(t *testing.T) {
	for _, host := range []string{"gateway.lan", "gateway.lan:7300", "[fe80::1]:80"} {
		if p := CheckHost(host); p != nil {
			t.Errorf("%s: %v", host, p)
		}
	}
	for _, host := range []string{"", "*.lan", "http://gateway.lan", "gateway.lan/mcp", "a b"} {
		if CheckHost(host) == nil {
			t.Errorf("%q is accepted", host)
		}
	}
}

// TestUnsetVariableConcernsItsServer checks that an unset variable in a server's settings makes only
// this server unusable. An unset variable elsewhere makes the whole file unusable.
func TestUnsetVariableConcernsItsServer(t *testing.T) {
	const file = "mcpServers:\n  a: {command: x}\n  b: {command: y, env: {K: \"${NOPE}\"}}\n  c: {command: z}\ndragoman: {servers: {c: {callTimeout: \"${NOPE_TOO}\"}}}\n"
	s, problems := Parse("f", []byte(file), nil)
	if s == nil || problems.Err() == nil || len(problems.OfServers()) != 2 {
		t.Fatalf("%v", problems)
	}
	for name, variable := range map[string]string{"a": "", "b": "NOPE", "c": "NOPE_TOO"} {
		srv, _ := s.Server(name)
		if got := srv.Unusable; (got == nil) != (variable == "") || got != nil && (got.Variable != variable || got.Server != name || got.Line == 0) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	before, _ := s.Server("b")
	if printed := string(s.AppendYAML(nil)); !strings.Contains(printed, "K: \"***\"") {
		t.Errorf("the variable of b is not printed: %s", printed)
	}
	set, _ := Parse("f", []byte(file), func(string) (string, bool) { return "", true })
	if set != nil {
		t.Error("an empty callTimeout is accepted")
	}
	set, problems = Parse("f", []byte(file), func(name string) (string, bool) { return "1s", true })
	if set == nil || len(problems) > 0 {
		t.Fatalf("%v", problems)
	}
	if after, _ := set.Server("b"); after.Unusable != nil || after.Fingerprint == before.Fingerprint {
		t.Errorf("when it is set: %+v", after)
	}
	for _, text := range []string{"dragoman: {listen: \"${NOPE}\"}", "mcpServers: {a: {command: \"${secret:x}\"}}"} {
		if s, _ := Parse("f", []byte(text), nil); s != nil {
			t.Errorf("%s is accepted", text)
		}
	}
	// Parse reports a limited number of problems. An error that it does not report still makes the
	// file unusable.
	many := "mcpServers:\n"
	for i := range 300 {
		many += "  s" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + ": {command: \"${NOPE}\"}\n"
	}
	if s, problems := Parse("f", []byte(many), nil); s == nil {
		t.Errorf("%v", problems)
	}
	if s, _ := Parse("f", []byte(many+"  last: {}\n"), nil); s != nil {
		t.Error("the last of many problems is ignored")
	}
}
