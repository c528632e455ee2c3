package config

import (
	"strings"
	"testing"
)

// TestCommandLine checks that the command line for people has no secret.
func TestCommandLine(t *testing.T) {
	env := func(name string) (string, bool) { return "from-outside", name == "TOKEN" }
	s, problems := Parse("f", []byte(`{"mcpServers": {"a": {"command": "npx", "args": ["-y", "x y", "--api-key", "s3cr3ts3cr3t", "${TOKEN}"]}, "b": {"url": "http://x:1/mcp"}}}`), env)
	if s == nil {
		t.Fatal(problems)
	}
	a, _ := s.Server("a")
	if got := strings.Join(a.CommandLine(), "|"); got != "npx|-y|x y|--api-key|***|***" {
		t.Error(got)
	}
	if strings.Join(a.Args, "|") != "-y|x y|--api-key|s3cr3ts3cr3t|from-outside" {
		t.Errorf("the arguments have changed: %q", a.Args)
	}
	if b, _ := s.Server("b"); b.CommandLine() != nil {
		t.Error(b.CommandLine())
	}
}
