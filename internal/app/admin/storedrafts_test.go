package admin

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/server/demo"
)

// TestAddToAProject adds a server to the text of a project of the store: it's tried first, the preview is what an export
// would be, comments stay, and a literal secret becomes one of the project. If the text changes after the preview, or if
// whoever saves may not start programs there, nothing is written. No file of the machine is read.
func TestAddToAProject(t *testing.T) {
	t.Parallel()
	r := serving(t)
	if a := r.put("shop", "# Ours.\ntitle: Shop # a shop\n"); a.status != http.StatusCreated {
		t.Fatal(a.body)
	}
	api, text := r.of("shop"), func() string { return r.do(http.MethodGet, "/api/v1/projects/shop", "").body }
	if !api.InStore() || r.api.InStore() {
		t.Fatal("the projects live elsewhere")
	}
	entry, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"old": map[string]any{"command": os.Args[0], "env": map[string]string{asServer: demo.Legacy, "API_TOKEN": "hunter2hunter2hunter2"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, bad := api.NewDraft(DraftRequest{Client: "cursor"}); bad == nil || len(api.ClientFiles().Files) > 0 {
		t.Error("a project of the store reads files of clients")
	}
	d, bad := api.NewDraft(DraftRequest{Text: string(entry)})
	if bad != nil {
		t.Fatal(bad)
	}
	choice := Choice{Servers: []ChosenServer{{Key: "s1", Name: "old"}}}
	tried := func() Draft {
		if _, bad := api.ChangeDraft(d.ID, DraftChange{Do: "try", Choice: choice}); bad != nil {
			t.Fatal(bad)
		}
		await(t, "the trial has ended", func() bool {
			d, bad = api.Draft(d.ID)
			return bad == nil && d.Servers[0].Trial != nil && d.Servers[0].Trial.Ended != nil
		})
		return d
	}
	if got := tried(); got.Servers[0].Trial.State != trialConnected || !got.Preview.Writable || !got.Preview.Stored || !strings.Contains(got.Preview.YAML, "dragoman:\n") || !strings.Contains(got.Preview.YAML, "# Ours.") || strings.Contains(got.Preview.YAML+got.Preview.Diff, "hunter2") {
		t.Fatalf("%+v %+v", got.Servers[0].Trial, got.Preview)
	}
	sent := func(header ...string) *http.Request { return asked(http.MethodPost, "/", header...) }
	keep := func(q *http.Request) (Kept, *Problem) {
		return api.KeepDraft(q, d.ID, KeepRequest{Choice: choice, Hash: d.Preview.Hash})
	}
	operator := enter(r.api.Access(), r.api.Access().LinkFor(identity.Named("operator"), ""))
	r.api.Access().RolesFrom(ranked)
	if _, bad := keep(sent("Cookie", operator, "Host", r.api.Access().Name()+":7300")); bad == nil || bad.Status != http.StatusForbidden {
		t.Errorf("an operator adds a command: %v", bad)
	}
	if a := r.do(http.MethodPut, "/api/v1/projects/shop", "# Ours.\ntitle: Store\n", "Content-Type", yamlType, "If-Match", "*"); a.status != 200 {
		t.Fatal(a.body)
	}
	if _, bad := keep(sent("Authorization", r.key())); bad == nil || bad.Type != "changed" || strings.Contains(text(), "mcpServers") {
		t.Errorf("somebody was faster: %v %s", bad, text())
	}
	d, bad = api.Draft(d.ID)
	if bad != nil {
		t.Fatal(bad)
	}
	kept, bad := keep(sent("Authorization", r.key()))
	if bad != nil || !kept.Applied || len(kept.Servers) != 1 || len(kept.Lines) > 0 {
		t.Fatalf("%+v %v", kept, bad)
	}
	if now := text(); !strings.Contains(now, "# Ours.\ntitle: Store\n") || !strings.Contains(now, "${secret:") || strings.Contains(now, "hunter2") {
		t.Errorf("the text is\n%s", now)
	}
	await(t, "the server is ready in the project", func() bool {
		for _, s := range r.of("shop").Report().Servers {
			if s.Name == "old" && s.State == "ready" {
				return true
			}
		}
		r.runtime.Project("shop").Warm()
		return false
	})
}
