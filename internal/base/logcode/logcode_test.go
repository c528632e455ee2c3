package logcode

import (
	"bytes"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the table of docs/monitoring.md")

// TestHandler checks that a record gets the code of its message once, as its last attribute.
func TestHandler(t *testing.T) {
	var b bytes.Buffer
	h := slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	log := slog.New(New(New(h)))
	log.With("server", "s").Warn("server ended", "cause", "x")
	slog.New(New(log.Handler())).WithGroup("").Info("server ready")
	log.Info("server ready", "code", "own", "took", 1)
	log.Info("no message of the table", "x", 1)
	log.Debug("server ready")
	if want := `level=WARN msg="server ended" server=s cause=x code=server_ended
level=INFO msg="server ready" code=server_ready
level=INFO msg="server ready" code=own took=1
level=INFO msg="no message of the table" x=1
`; b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

// TestTable checks that a message has only one code, and that the first entry of a code has the
// code's meaning.
func TestTable(t *testing.T) {
	means, messages := map[string]bool{}, map[string]bool{}
	for _, e := range Table() {
		if e.Message != "" && messages[e.Message] {
			t.Errorf("%q has several codes", e.Message)
		}
		if (e.Means == "") != means[e.Code] {
			t.Errorf("%s: only the first entry of a code must have a meaning", e.Code)
		}
		means[e.Code], messages[e.Message] = true, true
		if e.Message != "" && Of(e.Message) != e.Code {
			t.Errorf("%q: %s", e.Message, Of(e.Message))
		}
	}
}

// TestDocumentation compares the table of docs/monitoring.md with the codes. With -update it
// writes the table.
func TestDocumentation(t *testing.T) {
	const head = "| code | means |\n|---|---|\n"
	path := filepath.Join("..", "..", "..", "docs", "monitoring.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(page), head)
	_, rest, found := strings.Cut(after, "\n## ")
	if !ok || !found {
		t.Fatal("docs/monitoring.md has no table of codes")
	}
	var b strings.Builder
	b.WriteString(before + head)
	for _, e := range Table() {
		if e.Means != "" {
			b.WriteString("| `" + e.Code + "` | " + strings.ReplaceAll(e.Means, "|", `\|`) + " |\n")
		}
	}
	b.WriteString("\n## " + rest)
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(string(page), b.String()); d != "" {
		t.Errorf("docs/monitoring.md is stale; run `go test ./internal/base/logcode -update`:\n%s", d)
	}
}
