package config

import (
	"strings"
	"testing"
)

// TestAudit checks what is refused by default, and that a setting without an effect is said to have none.
func TestAudit(t *testing.T) {
	for text, want := range map[string]struct {
		refuses bool
		problem string
	}{
		"{}":                                  {false, ""},
		"{calls: names}":                      {true, ""},
		"{calls: arguments}":                  {true, ""},
		"{onFailure: refuse}":                 {true, ""},
		"{calls: names, files: 2}":            {true, ""},
		"{fileSize: 64KiB}":                   {false, ""},
		"{calls: names, onFailure: continue}": {false, ""},
		"{calls: off, onFailure: refuse}":     {true, `f:1:61: dragoman.audit.onFailure: has no effect, because calls aren't recorded; remove it, or set dragoman.audit.calls to names or arguments`},
	} {
		s, problems := Parse("f", []byte("{mcpServers: {a: {command: x}}, dragoman: {audit: "+text+"}}"), nil)
		if got := strings.TrimSpace(listing(problems)); s == nil || s.Audit.Refuses() != want.refuses || got != want.problem && !strings.Contains(got, strings.TrimPrefix(want.problem, "f:1:61: ")) || (got == "") != (want.problem == "") {
			t.Errorf("%s: %q", text, got)
		}
	}
}
