//go:build unix

package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/testkit/dbtest"
)

// newCluster starts three replicas of one configuration that share a PostgreSQL database and nothing else.
func newCluster(t *testing.T, text string, more ...func(i int, o *ServeOptions)) *fleet {
	t.Helper()
	url, schema := dbtest.URL(t), "test_"+strings.ToLower(t.Name())
	drop := func() {
		for _, x := range []string{schema, schema + "_cluster"} {
			dbtest.Exec(t, url, "DROP SCHEMA IF EXISTS "+x+" CASCADE")
		}
	}
	drop()
	t.Cleanup(drop)
	f := &fleet{t: t}
	for i := range 3 {
		f.all = append(f.all, serve(t, nil, asOneOf(t, text, fmt.Sprint("r", i)), func(o *ServeOptions) {
			for _, f := range more {
				f(i, o)
			}
		}))
	}
	return f
}

// asOneOf makes a daemon one of the replicas of newCluster.
func asOneOf(t *testing.T, text, name string) func(*ServeOptions) {
	t.Helper()
	c, problems := config.Parse("dragoman.yaml", []byte(text), nil)
	if c == nil {
		t.Fatal(problems)
	}
	c.Database, c.VaultKey = dbtest.URL(t), "env:VAULT"
	c.Cluster = config.Cluster{Listen: "127.0.0.1:0", Advertise: "127.0.0.1:0", Name: name}
	return func(o *ServeOptions) {
		o.Config, o.schema = c, "test_"+strings.ToLower(t.Name())
		o.Env = func(name string) (string, bool) { return strings.TrimSpace(sealingKey(7)), name == "VAULT" }
	}
}

// TestTC01 spreads the requests of legacy and modern clients over three replicas, so that hardly any comes to the
// replica that has what it's about. Everything works as with one.
func TestTC01(t *testing.T) {
	t.Parallel()
	f := newCluster(t, fleetServers(t)+confirmed)
	f.everything()
	for _, r := range f.all {
		soon(t, "each sees all", func() bool {
			all := r.statusOnly().Replicas
			return len(all) == 3 && !slices.ContainsFunc(all, func(x admin.Replica) bool { return x.State != "ready" })
		})
	}

	session := f.next().initialize("/mcp", "2025-11-25", "{}")
	other := f.next().initialize("/mcp", "2025-06-18", "{}")
	for i := range 12 {
		for _, id := range []string{session, other} {
			a := f.next().post("/mcp", toolCall(fmt.Sprint(i+2), "new__add", fmt.Sprintf(`{"a":%d,"b":1}`, i)), "Mcp-Session-Id", id)
			if m := a.message(t); a.status != 200 || !strings.Contains(string(m.Raw), "confirm") && toolText(m) == "" {
				t.Errorf("call %d: %d %s", i, a.status, a.body)
			}
		}
	}
	// A legacy server asks a modern client; each retry comes to another replica (TC05).
	_, a := f.call("old__elicit", "{}")
	if m, _ := f.retry(a, formFilled); !strings.Contains(toolText(m), "Ada") {
		t.Errorf("a parked call: %s", m.Raw)
	}
	_, a = f.call("new__add", `{"a":1,"b":2}`)
	if m, _ := f.retry(a, `{"action":"accept"}`); toolText(m) != "3" {
		t.Errorf("a confirmation: %s", m.Raw)
	}
	// A task of a legacy server is in a session (TC09).
	m, _ := f.call("old__task", "{}")
	id, _ := jsonrpc.Text(m.Raw, m.ResultMember("taskId"))
	if id == "" {
		t.Fatalf("no task: %s", m.Raw)
	}
	f.finish(id)
	if a := f.next().do(t.Context(), "DELETE", "/mcp", nil, "Mcp-Session-Id", session); a.status/100 != 2 {
		t.Errorf("DELETE elsewhere: %d %s", a.status, a.body)
	}
	if a := f.next().post("/mcp", toolCall("1", "new__add", "{}"), "Mcp-Session-Id", session); a.status != 404 {
		t.Errorf("a deleted session: %d %s", a.status, a.body)
	}

	// One stops: its calls that wait for their clients were waited for, and everything else goes on.
	last := f.all[2]
	kept := last.initialize("/mcp", "2025-11-25", "{}")
	if err := last.stop(); err != nil {
		t.Fatal(err)
	}
	f.all = f.all[:2]
	for range f.all {
		if a := f.next().post("/mcp", toolCall("1", "old__add", `{"a":1,"b":2}`), "Mcp-Session-Id", kept); a.status != 200 || toolText(a.message(t)) != "3" {
			t.Errorf("a session of a replica that has stopped: %d %s", a.status, a.body)
		}
	}
	f.everything()
}
