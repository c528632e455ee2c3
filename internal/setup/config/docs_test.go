package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// examples returns the YAML blocks of docs/configuration.md.
func examples(t *testing.T) (doc string, blocks []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(string(b), "```yaml\n") {
		if block, _, ok := strings.Cut(part, "```"); ok && len(part) < len(b) {
			blocks = append(blocks, block)
		}
	}
	return string(b), blocks[1:] // the text before the first block is not an example
}

func TestTheDocumentsExamplesAreAccepted(t *testing.T) {
	_, blocks := examples(t)
	if len(blocks) < 2 {
		t.Fatalf("%d examples", len(blocks))
	}
	for _, b := range blocks {
		s, problems := Parse("docs/configuration.md", []byte(b), env("HOME=/home/me", "GITHUB_TOKEN=x"))
		if s == nil || len(problems) > 0 {
			t.Errorf("%s\n%s", listing(problems), b)
		}
	}
}

// TestTheDocumentTellsTheDefaults compares Default with the example of the defaults in the
// documentation.
func TestTheDocumentTellsTheDefaults(t *testing.T) {
	_, blocks := examples(t)
	s, _ := Parse("f", []byte(blocks[0]), env("HOME=/home/me", "GITHUB_TOKEN=x"))
	if s == nil {
		t.Fatal("the example is not accepted")
	}
	want := Default()
	// Reset the settings that the example marks as different from the default.
	s.File, s.Servers, s.Hosts, s.Origins, s.Identity.Instructions.Text, s.PublicURL, s.Record, s.Limits.Starts = "", nil, nil, nil, "", "", RecordAuto, 0
	s.Audit.Calls, s.Audit.OnFailure = AuditAuto, FailAuto
	if d := cmp.Diff(want, s); d != "" {
		t.Error(d)
	}
}

// TestTheDocumentNamesEveryKey checks that the documentation describes every key. It takes the
// keys from the error message that lists them.
func TestTheDocumentNamesEveryKey(t *testing.T) {
	doc, _ := examples(t)
	for _, path := range []string{"", "server", "server.instructions", "revisions", "names", "limits", "log", "servers.a", "servers.a.signIn", "servers.a.expose"} {
		text := "zzzzzzzzzz: 1"
		if path != "" {
			parts := strings.Split(path, ".")
			slices.Reverse(parts)
			for _, p := range parts {
				text = p + ": {" + text + "}"
			}
		}
		_, problems := Parse("f", []byte("{mcpServers: {a: {command: x}}, dragoman: {"+text+"}}"), nil)
		keys, ok := "", false
		for _, p := range problems {
			if k, found := strings.CutPrefix(p.Hint, "valid keys: "); found {
				keys, ok = k, true
			}
		}
		if !ok {
			t.Fatalf("%s: %s", path, listing(problems))
		}
		for k := range strings.SplitSeq(strings.ReplaceAll(keys, " or ", ", "), ", ") {
			if !strings.Contains(doc, "`"+k+"`") && !strings.Contains(doc, "."+k+"`") && !strings.Contains(doc, "."+k+".") && !strings.Contains(doc, "`"+k+".") {
				t.Errorf("docs/configuration.md does not describe %s", join(join("dragoman", path), k))
			}
		}
	}
}
