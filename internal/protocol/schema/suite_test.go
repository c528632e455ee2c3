package schema

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSuite runs the official test suite of JSON Schema. We take its files from a module that we need
// anyway and that carries them along.
func TestSuite(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/jsonschema-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "jsonschema", "testdata", "draft*", "*.json"))
	if len(files) < 50 {
		t.Fatalf("the suite has %d files", len(files))
	}
	cases, remote := 0, 0
	for _, file := range files {
		var groups []struct {
			Description string
			Schema      json.RawMessage
			Tests       []struct {
				Description string
				Data        json.RawMessage
				Valid       bool
			}
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &groups); err != nil {
			t.Fatal(file, err)
		}
		old := strings.Contains(file, "draft7")
		for _, g := range groups {
			raw := string(g.Schema)
			if at := strings.IndexByte(raw, '{'); old && at == 0 && !strings.Contains(raw, `"$schema"`) {
				raw = `{"$schema":"http://json-schema.org/draft-07/schema#"` + strings.TrimSuffix(","+strings.TrimSpace(raw[1:]), ",}")
				if strings.HasSuffix(raw, `#"`) {
					raw += "}"
				}
			}
			name := filepath.Base(filepath.Dir(file)) + "/" + filepath.Base(file) + ": " + g.Description
			k, err := Compile([]byte(raw))
			if err == errRemote {
				remote++
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, c := range g.Tests {
				cases++
				all, err := k.Check(c.Data)
				if (len(all) == 0) != c.Valid || err != nil {
					t.Errorf("%s: %s: %s and %v, want valid %v", name, c.Description, say(all), err, c.Valid)
				}
			}
		}
	}
	t.Logf("%d cases; %d schemas refer to other documents", cases, remote)
}
