package doctor

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// TestEvidenceIsWhatTheVerdictQuotes examines servers that exit and print the reason before many other
// lines. The evidence of the finding has the line that the verdict quotes, and so does the failure.
func TestEvidenceIsWhatTheVerdictQuotes(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("this test needs a shell")
	}
	for name, x := range map[string]struct{ stderr, want string }{
		"an error": {"starting\nError: database is locked\n    at one (a.js:1)\n    at two (a.js:2)\n    at three (a.js:3)\n\nNode.js v22.1.0\nbye", "Error: database is locked"},
		"a missing variable": {"API_KEY is not set\nError: Cannot find module 'x'\n    at one (a.js:1)\n    at two (a.js:2)\nbye\nbye bye\nso long",
			"API_KEY is not set"},
	} {
		t.Run(name, func(t *testing.T) {
			start := Command(stdio.Spec{Command: shell, Args: []string{"-c", `printf '%s\n' "$0" >&2; exit 1`, x.stderr}})
			r, err := Examine(t.Context(), Target{Start: start, Name: "s"}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			f := r.Verdict.Failure
			if f == nil || !strings.Contains(f.Sentence, x.want) || len(f.Evidence) == 0 || f.Evidence[0] != x.want {
				t.Fatalf("the verdict is %+v", f)
			}
			for _, found := range r.Findings {
				if !strings.Contains(found.Evidence, x.want) {
					t.Errorf("the evidence of %s is %s", found.Code, found.Evidence)
				}
			}
			if len(r.Findings) == 0 {
				t.Error("nothing is found")
			}
		})
	}
}
