package tape

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRedactTapes checks recordings of real conversations. Recordings without secrets must stay
// byte for byte the same. In the other recordings, only the secrets are replaced.
func TestRedactTapes(t *testing.T) {
	files, err := filepath.Glob("testdata/redact/*.txtar")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d tapes, %v", len(files), err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for _, e := range parsed(t, string(b)).entries {
			if len(e.body) == 0 || e.body[0] != '{' {
				continue
			}
			lines++
			in := string(e.body)
			got := string(newRedactor(nil).json(e.body))
			switch {
			case strings.Contains(f, "innocent"):
				if got != in {
					t.Errorf("%s:\n%s\n became\n%s", f, in, got)
				}
			case strings.Contains(got, "hush") || strings.Contains(got, "4711"):
				t.Errorf("%s: a secret is left:\n%s", f, got)
			case strings.Count(got, "keep") != strings.Count(in, "keep"):
				t.Errorf("%s: more than the secrets was replaced:\n%s", f, got)
			}
		}
		if lines == 0 {
			t.Errorf("%s has no messages", f)
		}
	}
}
