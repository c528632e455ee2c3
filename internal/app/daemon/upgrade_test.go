//go:build unix

package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/team/cluster"
	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

// TestTC20 updates replicas to the next version of their protocol, one after the other, while clients of all kinds go on.
// Sessions that the last old one has go on at the new ones. A replica that is two versions ahead is refused while an old
// one runs, and says why.
func TestTC20(t *testing.T) {
	t.Parallel()
	text := fleetServers(t) + confirmed
	newer := func(versions int) func(*ServeOptions) {
		return func(o *ServeOptions) { o.protocol, o.Version = cluster.Protocol+versions, fmt.Sprint("next", versions) }
	}
	f := newCluster(t, text)
	sessions := map[string]string{}
	for i, r := range f.all {
		sessions[fmt.Sprint("begun at r", i)] = r.initialize("/mcp", "2025-06-18", "{}")
	}
	goOn := func(when string) {
		t.Helper()
		f.everything()
		for whose, id := range sessions {
			for range f.all {
				if a := f.next().post("/mcp", toolCall("1", "old__add", `{"a":1,"b":2}`), "Mcp-Session-Id", id); a.status != 200 || toolText(a.message(t)) != "3" {
					t.Errorf("%s, a session %s: %d %s", when, whose, a.status, a.body)
				}
			}
		}
		_, a := f.call("old__elicit", "{}")
		if m, _ := f.retry(a, formFilled); !strings.Contains(toolText(m), "Ada") {
			t.Errorf("%s, a call that waits: %s", when, m.Raw)
		}
	}
	goOn("before")
	for i := range f.all {
		fresh := serve(t, nil, asOneOf(t, text, fmt.Sprint("n", i)), newer(1))
		f.all = append(f.all, fresh)
		sessions[fmt.Sprint("begun at n", i)] = fresh.initialize("/mcp", "2025-06-18", "{}")
		goOn(fmt.Sprintf("with %d new ones", i+1))
		soon(t, "status says that there are two versions", func() bool {
			return strings.Contains(strings.Join(admin.ReplicaLines(fresh.statusOnly().Replicas), "\n"), "different versions of Dragoman (")
		})
		if i == 2 {
			o := ServeOptions{Listen: "127.0.0.1:0", Ready: func(string) { t.Error("a replica starts that is two versions ahead") }}
			asOneOf(t, text, "far")(&o)
			newer(2)(&o)
			ctx, cancel := context.WithTimeout(t.Context(), patience(10*time.Second))
			var own *sqldb.Error
			if err := Serve(ctx, o); !errors.As(err, &own) || !strings.Contains(own.Text, "dragoman next2 can't be a replica beside r2, which runs dragoman test") || own.Next == "" {
				t.Errorf("a replica that is two versions ahead: %v", err)
			}
			cancel()
		}
		old := f.all[0]
		if f.all = f.all[1:]; old.stop() != nil {
			t.Fatal("an old one doesn't stop")
		}
		goOn(fmt.Sprintf("without %d old ones", i+1))
	}
	f.all = append(f.all, serve(t, nil, asOneOf(t, text, "last"), newer(2)))
	goOn("when the old ones have gone")
}
