//go:build unix

package daemon

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

// TestAddServer adds a server to a running Dragoman. The test tries, previews and keeps a pasted
// snippet, and then clients have the tools of the new server. The trials do not affect a client that
// uses another server at the same time.
func TestAddServer(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "dragoman")
	kept, came := child(t, "kept", "legacy"), child(t, "came", "modern")
	config := strings.Replace(text(kept), "dragoman: {limits: {initializePerSecond: 1000}}", "dragoman:\n  limits: {initializePerSecond: 1000}", 1)
	w := serveFile(t, config, func(o *ServeOptions) {
		o.Env = func(string) (string, bool) { return "", false }
		o.KeyFolders = []string{folder}
	})
	keys, err := admin.ReadKeys([]string{folder}, strings.TrimPrefix(w.base, "http://"))
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	pid := func() string { return toolText(w.call("/mcp", "kept__pid", "{}").message(t)) }
	first := pid()
	api := func(method, path string, body, to any) int {
		t.Helper()
		b, _ := json.Marshal(body)
		if body == nil {
			b = nil
		}
		a := w.do(t.Context(), method, "/api/v1"+path, strings.NewReader(string(b)), "Authorization", "Bearer "+keys[0], "Content-Type", "application/json")
		if strings.Contains(a.body, "hunter2") {
			t.Errorf("%s has a secret: %s", path, a.body)
		}
		if to != nil {
			if err := json.Unmarshal([]byte(a.body), to); err != nil {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
		return a.status
	}
	entry := map[string]any{"command": came.Command, "cwd": came.Dir}
	env := map[string]string{"MY_TOKEN": "hunter2-token"}
	for name, value := range came.Env {
		env[name] = value.Reveal()
	}
	entry["env"] = env
	snippet, _ := json.Marshal(map[string]any{"mcpServers": map[string]any{"came": entry, "hangs": map[string]any{"command": "sleep", "args": []string{"600"}}, "gone": map[string]any{"command": "/no/such/program"}}})
	var d admin.Draft
	api("POST", "/drafts", admin.DraftRequest{Text: string(snippet)}, &d)
	if len(d.Servers) != 3 {
		t.Fatalf("%+v", d)
	}
	api("POST", "/drafts/"+d.ID, admin.DraftChange{Do: "try"}, nil)
	state := func(key string) *admin.Trial {
		t.Helper()
		var d2 admin.Draft
		api("GET", "/drafts/"+d.ID, nil, &d2)
		for _, s := range d2.Servers {
			if s.Key == key {
				return s.Trial
			}
		}
		t.Fatal("no server " + key)
		return nil
	}
	key := map[string]string{}
	for _, s := range d.Servers {
		key[s.Name] = s.Key
	}
	await(t, "the trial of came has ended", time.Minute, func() bool {
		if now := pid(); now != first || first == "" {
			t.Errorf("the server of the client has the process %s, before %s", now, first)
		}
		return state(key["came"]).Ended != nil && state(key["gone"]).Ended != nil
	})
	if x := state(key["came"]); x.State != "connected" || x.Revision != modernVersion || x.Tools == nil || len(x.Steps) == 0 {
		t.Errorf("%+v", x)
	}
	if x := state(key["gone"]); x.State != "failed" || x.Failure == nil || x.Failure.Sentence == "" {
		t.Errorf("%+v", x)
	}
	if x := state(key["hangs"]); x.State != "running" {
		t.Errorf("%+v", x)
	}
	var d2 admin.Draft
	api("POST", "/drafts/"+d.ID, admin.DraftChange{Do: "choose", Choice: admin.Choice{Servers: []admin.ChosenServer{{Key: key["came"]}}}}, &d2)
	p := d2.Preview
	if !p.Writable || !strings.Contains(p.Diff, "+  came:") {
		t.Fatalf("%+v", p)
	}
	var k admin.Kept
	if status := api("POST", "/drafts/"+d.ID+"/keep", admin.KeepRequest{Hash: p.Hash}, &k); status != http.StatusOK || !k.Applied {
		t.Fatalf("%d %+v", status, k)
	}
	w.call("/mcp", "came__echo", "{}").wantText(t, "{}")
	if now := pid(); now != first {
		t.Errorf("after the change, the server of the client has the process %s, before %s", now, first)
	}
	secrets, err := os.ReadFile(filepath.Join(filepath.Dir(w.path), "dragoman.env"))
	if err != nil || string(secrets) != "MY_TOKEN=hunter2-token\n" {
		t.Errorf("%q %v", secrets, err)
	}
	if strings.Contains(w.log.String(), "hunter2") {
		t.Error("the log has a secret")
	}
}
