package clientfile

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocs applies the changes that docs/clients.md shows, and compares its table with the clients.
func TestDocs(t *testing.T) {
	b, err := os.ReadFile("../../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```(\\w+)\n(.*?)```\n")
	for _, c := range Clients() {
		_, section, found := strings.Cut(string(b), "\n## "+c.Title+"\n")
		if section, _, _ = strings.Cut(section, "\n## "); !found {
			t.Errorf("no section for %s", c.Title)
			continue
		}
		if row := "| `" + c.ID + "` |"; !regexp.MustCompile("(?m)^" + regexp.QuoteMeta("| ["+c.Title+"]") + ".*" + regexp.QuoteMeta(row) + ".*" + regexp.QuoteMeta("| "+c.Reload+" |") + "$").Match(b) {
			t.Errorf("the table does not say what to do in %s after a change: %s", c.Title, c.Reload)
		}
		blocks := block.FindAllStringSubmatch(section, -1)
		if len(blocks) != 2 || !strings.Contains(section, "After `dragoman connect "+c.ID+" --write`:") {
			t.Errorf("%s: %d blocks", c.Title, len(blocks))
			continue
		}
		e := Entry{Name: "dragoman", URL: "http://127.0.0.1:7300/mcp"}
		if !c.HTTP {
			e = Entry{Name: "dragoman", Command: []string{"/usr/local/bin/dragoman", "serve", "--config", "/home/me/.config/dragoman/config.yaml", "--stdio", "--listen", "127.0.0.1:0"}}
		}
		got, err := Connect(c, "x."+blocks[0][1], []byte(blocks[0][2]), e, ourAddresses)
		if diff := cmp.Diff(blocks[1][2], string(got)); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", c.Title, err, diff)
		}
	}
}
