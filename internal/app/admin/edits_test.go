package admin

import (
	"os"
	"strings"
	"testing"
)

const ownTwo = `# Mine.
mcpServers:
  # The files.
  files: {command: files-mcp, env: {API_TOKEN: hunter2-files}} # fast
  other:
    url: http://127.0.0.1:1/mcp
    headers:
      Authorization: Bearer hunter2-other
`

func TestEditServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, server string
		edit         ServerEdit
		from, to     string // of ownTwo
		why          string
	}{
		{"disable", "other", ServerEdit{Do: EditDisable}, "hunter2-other\n", "hunter2-other\n    disabled: true\n", ""},
		{"remove", "files", ServerEdit{Do: EditRemove}, "  # The files.\n  files: {command: files-mcp, env: {API_TOKEN: hunter2-files}} # fast\n", "", ""},
		{"hide", "files", ServerEdit{Do: EditTools, Tools: map[string]bool{"rm": false, "ls": true, "mv": false}}, "hunter2-other\n", "hunter2-other\n\ndragoman:\n  servers:\n    files:\n      expose:\n        tools:\n          deny: [mv, rm]\n", ""},
		{"a pattern", "files", ServerEdit{Do: EditTools, Tools: map[string]bool{"r*": false}}, "", "", "a pattern of expose"},
		{"entry, with the secret's line", "other", ServerEdit{Do: EditEntry, Entry: "url: http://127.0.0.1:2/mcp\r\nheaders:\n    Authorization: ***\n", Settings: "prefix: o\n"},
			"http://127.0.0.1:1/mcp\n    headers:\n      Authorization: Bearer hunter2-other\n", "http://127.0.0.1:2/mcp\n    headers:\n        Authorization: Bearer hunter2-other\n\ndragoman:\n  servers:\n    other:\n      prefix: o\n", ""},
		{"entry, with half a secret", "other", ServerEdit{Do: EditEntry, Entry: "url: http://127.0.0.1:1/mcp\nheaders: {Authorization: Basic ***}"}, "", "", "line 2 has *** in place of a secret"},
		{"entry, not YAML", "other", ServerEdit{Do: EditEntry, Entry: "url: [http://127.0.0.1:1/mcp\n"}, "", "", "the text is not YAML"},
		{"entry, empty", "other", ServerEdit{Do: EditEntry}, "", "", "the entry is empty"},
		{"already", "other", ServerEdit{Do: EditEnable}, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := serving(t)
			path := r.ownFile("dragoman.yaml", ownTwo)
			if _, err := r.api.reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			p, bad := r.api.PreviewEdit(c.server, c.edit)
			if bad != nil || strings.Contains(p.Diff, "hunter2") || !strings.Contains(p.Why, c.why) || (p.Diff != "") != (c.from != "") {
				t.Fatalf("the preview is %+v, %v", p, bad)
			}
			c.edit.Hash = p.Hash + "x"
			if _, bad = r.api.KeepEdit(t.Context(), c.server, c.edit); bad == nil {
				t.Error("a change that differs from the preview was written")
			}
			c.edit.Hash = p.Hash
			kept, bad := r.api.KeepEdit(t.Context(), c.server, c.edit)
			b, err := os.ReadFile(path)
			if want := strings.Replace(ownTwo, c.from, c.to, 1); err != nil || string(b) != want {
				t.Fatalf("%v\n%s\nwant\n%s", err, b, want)
			}
			if c.from == "" {
				if bad == nil {
					t.Error("nothing was to be written")
				}
				return
			}
			if old, err := os.ReadFile(kept.Backup); bad != nil || !kept.Applied || err != nil || string(old) != ownTwo {
				t.Errorf("%+v, %v, %v", kept, bad, err)
			}
			now, ok := r.api.project.Current().Server(c.server)
			if ok == (c.edit.Do == EditRemove) || now.Disabled != (c.edit.Do == EditDisable) {
				t.Errorf("the change is not in use: %v", now)
			}
		})
	}
}

func TestEditServerThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	r := serving(t)
	path := r.ownFile("dragoman.yaml", ownTwo)
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	p, bad := r.api.PreviewEdit("other", ServerEdit{Do: EditDisable})
	if bad != nil || p.Writable || p.Why != "The configuration file is read-only." || p.Hash != "" || len(p.Places) != 1 || p.Places[0].After != 8 || p.Places[0].Text != "    disabled: true\n" {
		t.Errorf("%+v, %v", p, bad)
	}
	if _, bad := r.api.KeepEdit(t.Context(), "other", ServerEdit{Do: EditDisable}); bad == nil || bad.Detail != p.Why {
		t.Error(bad)
	}
	if p, bad = r.api.PreviewEdit("files", ServerEdit{Do: EditDisable}); bad != nil || p.Places != nil || !strings.Contains(p.Diff, "+    disabled: true") {
		t.Errorf("%+v, %v", p, bad) // the entry is in braces, so there is more to do than to add lines
	}
	text, bad := r.api.ServerText("other")
	if bad != nil || text.Entry != "url: http://127.0.0.1:1/mcp\nheaders:\n  Authorization: ***\n" || text.Settings != "" || text.Why != p.Why {
		t.Errorf("%+v, %v", text, bad)
	}
	if _, bad := r.api.ServerText("none"); bad == nil || bad.Status != 404 {
		t.Error(bad)
	}
	if _, bad := serving(t).api.PreviewEdit("a", ServerEdit{Do: EditRemove}); bad == nil {
		t.Error("a server without a file can be removed")
	}
}
