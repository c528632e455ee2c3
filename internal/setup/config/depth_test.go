package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/token"
)

// TestDepthIsNotWidth checks that depth is counted in brackets and indentation, not in
// columns. Other programs write their JSON on one line.
func TestDepthIsNotWidth(t *testing.T) {
	type server struct {
		Command string            `json:"command"`
		Args    []string          `json:"args"`
		Env     map[string]string `json:"env"`
	}
	servers := make(map[string]server)
	for i := range 500 {
		servers[fmt.Sprintf("server%d", i)] = server{"npx", []string{"-y", "@scope/package", "--root", "/home/me/a folder"}, map[string]string{"LEVEL": "info"}}
	}
	line, err := json.Marshal(map[string]any{"mcpServers": servers, "numStartups": 12, "theme": "dark"})
	if err != nil {
		t.Fatal(err)
	}
	wide := strings.Repeat("x", 300)
	flow := strings.Repeat("word, ", 2000) // more than 10,000 characters
	for name, c := range map[string]struct {
		text    string
		servers int
	}{
		"json on one line":            {string(line), 500},
		"the same with a line end":    {string(line) + "\n", 500},
		"a short one after spaces":    {strings.Repeat(" ", 300) + `{"mcpServers": {"a": {"command": "b"}}}`, 1},
		"a flow mapping behind a key": {"mcpServers: {a: {command: b, args: [" + wide + "]}}\n", 1},
		"a flow list in a block":      {"mcpServers:\n  a:\n    command: b\n    args: [" + wide + ", " + wide + "]\n", 1},
		"a very long flow list":       {"mcpServers:\n  a: {command: b, args: [" + flow + "end]}\n", 1},
		"a long key":                  {"mcpServers: {a: {command: b}}\n" + `"x-` + wide + `": 1` + "\n", 1},
		"40 levels of a block":        {"mcpServers: {a: {command: b}}\nx-deep:\n" + block(40), 1},
		"a far block":                 {"mcpServers: {a: {command: b}}\nx-far:\n" + strings.Repeat(" ", 400) + "a: 1\n", 1},
	} {
		s, problems := Parse("f.json", []byte(c.text), nil)
		if s == nil {
			t.Errorf("%s: %v", name, problems.Err())
		} else if len(s.Servers) != c.servers {
			t.Errorf("%s: %d servers", name, len(s.Servers))
		}
	}
	if s, problems := Parse("f.yaml", []byte(strings.Repeat("]", 100_000)), nil); s != nil || !strings.Contains(problems.Err().Error(), "closing bracket without") {
		t.Errorf("closing brackets: %v", problems.Err())
	}
	for name, text := range map[string]string{
		"brackets":            "a: " + strings.Repeat("[", 100),
		"brackets in json":    strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100),
		"dashes":              strings.Repeat("- ", 1000),
		"blocks":              block(200),
		"brackets in a block": block(50) + strings.Repeat(" ", 50) + "a: " + strings.Repeat("[", 50) + strings.Repeat("]", 50),
		"dashes in brackets":  "a: [" + strings.Repeat("- ", 500_000),
		"keys in brackets":    "a: {" + strings.Repeat("? ", 500_000),
		"explicit keys":       strings.Repeat("? ", 1000),
	} {
		if s, problems := Parse("f.yaml", []byte(text), nil); s != nil || !strings.Contains(problems.Err().Error(), "the file is nested too deeply") {
			t.Errorf("%s: %v", name, problems.Err())
		}
	}
}

// block returns n nested mappings.
func block(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
	}
	return b.String()
}

// longLine is an error of the YAML parser. Formatting a real one takes very long if the line is long.
type longLine struct{ t *testing.T }

func (longLine) GetMessage() string     { return "sequence end token ']' not found" }
func (longLine) GetToken() *token.Token { return nil }
func (e longLine) Error() string        { return e.FormatError(false, true) }
func (e longLine) FormatError(_, _ bool) string {
	e.t.Error("the error of the YAML parser was formatted")
	return ""
}

// TestSyntaxErrorOfALongLine checks that a syntax error is reported without the text in which the
// YAML parser formats it, and that a long line with a syntax error is refused.
func TestSyntaxErrorOfALongLine(t *testing.T) {
	r := treeReader{c: &compiler{}}
	r.syntax(longLine{t}, "")
	if got := r.c.problems.Err().Error(); !strings.HasPrefix(got, "syntax error: this [ is not closed; ") {
		t.Error(got)
	}
	s, problems := Parse("f.yaml", []byte("dragoman:\n  x: ["+strings.Repeat("a, ", 100_000)), nil)
	if s != nil || !strings.Contains(problems.Err().Error(), "syntax error: ") {
		t.Errorf("a long line: %v", problems.Err())
	}
}
