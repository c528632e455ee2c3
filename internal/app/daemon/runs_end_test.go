//go:build unix

package daemon

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// TestRunsOfOthers checks what runs have to do with who started them. A run ends with its key, and when its person loses
// their role; those of others go on. A key's limits hold for its runs. If somebody else answers
// a run's question, an act names them.
func TestRunsOfOthers(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	database := filepath.Join(folder, "dragoman.db")
	web := newWeb(t, true)
	c, problems := config.Parse("dragoman.yaml", []byte(`mcpServers: {web: {url: "`+web.web.URL+`/mcp"}}
dragoman:
  policy: [{match: web/count, do: confirm}]
  limits: {traffic: [{per: key, who: {keys: [tight]}, callsPerSecond: 0.01, burst: 1}]}
`), nil)
	if c == nil {
		t.Fatal(problems)
	}
	r := serve(t, c, behindProxy(database))
	desk := deskAt(t, database)
	roster := rosterAt(t, desk)
	who, ids := map[string][]string{}, map[string]string{}
	for name, w := range map[string]access.Wish{
		"short": {}, "long": {}, "tight": {},
	} {
		w.Name, w.Project, w.Role = name, "default", identity.Operator
		header, id := makeKey(t, desk, w)
		who[name], ids[name] = append(header, "Host", publicName), id
	}
	people := map[string]*invited{}
	for _, name := range []string{"ada", "oto"} {
		p := invitesTo(t, roster, "default", name, identity.Operator)
		p.enters(r)
		people[name], who[name] = p, append(p.header, "Sec-Fetch-Site", "same-origin", "Origin", "https://"+publicName)
	}
	start := func(name, server, tool string) (x admin.Run, status int) {
		t.Helper()
		var a answer
		soon(t, name+" counts", func() bool {
			a = r.post("/api/v1/servers/"+server+"/runs", `{"tool":"`+tool+`","arguments":{},"unchecked":true}`, who[name]...)
			return a.status != http.StatusUnauthorized
		})
		_ = json.Unmarshal([]byte(a.body), &x)
		return x, a.status
	}
	until := func(what, id string, holds func(admin.Run) bool) (x admin.Run) {
		t.Helper()
		soon(t, what, func() bool {
			x = admin.Run{}
			return json.Unmarshal([]byte(r.do(t.Context(), "GET", "/api/v1/runs/"+id, nil, who["long"]...).body), &x) == nil && holds(x)
		})
		return x
	}
	ended := func(x admin.Run) bool { return x.Ended != nil }

	runs := map[string]string{}
	for _, name := range []string{"short", "long", "ada", "oto"} {
		x, status := start(name, "web", "hang")
		if status != http.StatusAccepted {
			t.Fatalf("%s: %d", name, status)
		}
		runs[name] = x.ID
	}
	soon(t, "all calls are at the server", func() bool { return len(web.of("tools/call")) == 4 })
	if err := desk.Revoke(t.Context(), "local", ids["short"]); err != nil {
		t.Fatal(err)
	}
	if x := until("the run of the revoked key ends", runs["short"], ended); x.State != "cancelled" || !strings.Contains(x.Error.Message, "revoked") {
		t.Errorf("%+v", x)
	}
	if err := roster.SetRoles(t.Context(), "local", people["oto"].id, "default", []identity.Role{identity.Viewer}); err != nil {
		t.Fatal(err)
	}
	if x := until("the run of who has lost the role ends", runs["oto"], ended); x.State != "cancelled" {
		t.Errorf("%+v", x)
	}
	soon(t, "the server hears of it", func() bool { return web.count("closed") == 2 })
	for _, name := range []string{"long", "ada"} {
		if x := until(name+"'s run", runs[name], func(admin.Run) bool { return true }); x.Ended != nil {
			t.Errorf("%s's run has ended, too: %+v", name, x)
		}
	}

	// How often the key may.
	for _, tt := range []struct{ name, server, tool, state string }{
		{"tight", "web", "echo", "succeeded"}, {"tight", "web", "echo", "failed"},
	} {
		before := len(web.of("tools/call"))
		x, status := start(tt.name, tt.server, tt.tool)
		if status == http.StatusAccepted {
			x = until("the run ends", x.ID, ended)
		}
		if sent := len(web.of("tools/call")) - before; x.State != tt.state && status == http.StatusAccepted || (sent == 1) != (tt.state == "succeeded") {
			t.Errorf("%+v: %d, sent %d times: %+v", tt, status, sent, x)
		}
	}

	// Somebody else answers.
	x, _ := start("ada", "web", "count")
	x = until("the question is there", x.ID, func(x admin.Run) bool { return len(x.Questions) == 1 })
	body := `{"id":"` + x.Questions[0].ID + `","action":"accept","content":{}}`
	if a := r.post("/api/v1/runs/"+x.ID+"/answers", body, who["oto"]...); a.status != http.StatusForbidden {
		t.Errorf("a viewer answers: %d %s", a.status, a.body)
	}
	if a := r.post("/api/v1/runs/"+x.ID+"/answers", body, who["long"]...); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	until("the run ends", x.ID, ended)
	own, _ := start("ada", "web", "count")
	own = until("the question is there", own.ID, func(x admin.Run) bool { return len(x.Questions) == 1 })
	if a := r.post("/api/v1/runs/"+own.ID+"/answers", `{"id":"`+own.Questions[0].ID+`","action":"decline"}`, who["ada"]...); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	s, err := store.Open(t.Context(), store.Options{Database: database})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	acts, err := s.Acts(t.Context(), 0, 1)
	if err != nil || len(acts) != 1 || acts[0].Action != "answered" || acts[0].Object != "run:default/"+x.ID || acts[0].Actor != access.KeySubject+ids["long"] || !strings.Contains(string(acts[0].Became), people["ada"].id) {
		t.Errorf("%v: %+v", err, acts)
	}
}
