//go:build unix

package daemon

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

// TestTC17 takes the database away and kills a replica at the same time. The sessions of the others go on meanwhile. When
// the database is back, those of the lost one do, too.
func TestTC17(t *testing.T) {
	database, through := newRelay(t)
	c := newHerd(t, 3, through, "")
	time.Sleep(6 * time.Second) // nobody buries others sooner
	p := c.all[0]
	lost, kept := p.initialize("/mcp", "2025-06-18", "{}"), c.all[1].initialize("/mcp", "2025-06-18", "{}")
	runs := 0
	run := func(session string) string {
		runs++
		a, err := c.post(toolCall("2", "s__run", fmt.Sprintf(`{"token":"own-%d"}`, runs)), session)
		switch {
		case err != nil:
			return err.Error()
		case a.status != 200:
			return fmt.Sprint(a.status, " ", a.body)
		case a.code(t) != 0:
			return errorData(a.message(t), "outcome")
		}
		return ""
	}
	stop := c.load(24)
	time.Sleep(time.Second)
	database.cut(true)
	p.signal(syscall.SIGKILL)
	p.ended()
	c.remove(p)
	for end := time.Now().Add(8 * time.Second); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		if why := run(kept); why != "" {
			t.Errorf("a session of a replica that lives, without the database: %s", why)
		}
	}
	database.cut(false)
	await(t, "a session of the lost replica goes on", time.Minute, func() bool {
		why := run(lost)
		if why != "" && why != "not_sent" {
			t.Errorf("a session of the lost replica: %s", why)
		}
		return why == ""
	})
	b := stop()
	c.check(b)
	if b.results < b.sent/2 {
		t.Errorf("%d of %d calls have a result", b.results, b.sent)
	}
	for _, p := range c.all {
		if p.log.count("has called this one dead") > 0 {
			t.Error("a replica that lives was called dead")
		}
	}
}

// TestTC18 cuts ways: one replica's to the database, that of the others to one replica but not back, and those between all
// of them. It also cuts those of one replica to the others, which reach it. Then only that one isn't ready. Sessions that are not cut off go on at once, and no client hears that its session has ended. Each call runs once,
// or the client knows that it wasn't sent. Afterwards, everything goes on.
func TestTC18(t *testing.T) {
	if os.Getenv("DRAGOMAN_CLUSTER_TEST") == "" {
		t.Skip("takes a minute; make cluster-short runs it")
	}
	l := newLedger(t)
	database, through := newRelay(t)
	ways := make([]*relay, 3)
	f := newCluster(t, fmt.Sprintf("mcpServers:\n  s: {url: %q}\n", l.web.URL), func(i int, o *ServeOptions) {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		o.Config.Cluster.Listen = free.Addr().String()
		_ = free.Close()
		way, to := newRelay(t)
		ways[i], o.Config.Cluster.Advertise = way, strings.TrimPrefix(to("tcp://"+o.Config.Cluster.Listen), "tcp://")
		if i == 0 {
			o.Config.Database = through(o.Config.Database)
		}
	})
	sessions := make([]string, 3)
	for i, r := range f.all {
		sessions[i] = r.initialize("/mcp", "2025-06-18", "{}")
		soon(t, "each knows the others", func() bool { return len(r.statusOnly().Replicas) == 3 })
	}
	time.Sleep(12 * time.Second) // now, each may bury others
	ready := func(r *rig) bool { return r.do(t.Context(), "GET", "/readyz", nil).status == 200 }
	var mu sync.Mutex
	made, results := 0, 0
	// call calls in the session of one replica at another one. It returns "" for a result.
	call := func(when string, of, at int) string {
		mu.Lock()
		made++
		token := fmt.Sprint("cut-", made)
		mu.Unlock()
		a := f.all[at].post("/mcp", toolCall(token[len("cut-"):], "s__run", fmt.Sprintf(`{"token":%q}`, token)), "Mcp-Session-Id", sessions[of])
		l.mu.Lock()
		ran := l.runs[token]
		l.mu.Unlock()
		why := ""
		if a.status == 200 {
			why = errorData(a.message(t), "outcome")
		}
		switch {
		case a.status != 200 || why == "" && toolText(a.message(t)) != token:
			t.Errorf("%s, a session of r%d at r%d: %d %s", when, of, at, a.status, a.body)
		case why == "" && ran != 1 || why == "not_sent" && ran != 0 || ran > 1:
			t.Errorf("%s, a session of r%d at r%d: the call ran %d times, and %s", when, of, at, ran, a.body)
		case why == "":
			mu.Lock()
			results++
			mu.Unlock()
		}
		return why
	}
	for _, x := range []struct {
		name string
		cut  func(bool)
		free [][2]int // whose sessions go on at once, and where
		off  []int    // who isn't ready then
	}{
		{"one without the database", database.cut, [][2]int{{1, 1}, {1, 2}, {2, 1}, {2, 2}}, []int{0}},
		{"one that can't call others", func(cut bool) {
			ways[1].cut(cut)
			ways[2].cut(cut)
		}, [][2]int{{0, 0}, {0, 1}, {0, 2}, {1, 1}, {2, 2}}, []int{0}},
		{"one that others can't call", ways[0].cut, [][2]int{{0, 0}, {1, 0}, {2, 0}, {1, 2}, {2, 1}}, nil},
		{"nobody can call another one", func(cut bool) {
			for _, w := range ways {
				w.cut(cut)
			}
		}, [][2]int{{0, 0}, {1, 1}, {2, 2}}, nil},
	} {
		x.cut(true)
		time.Sleep(5 * time.Second)
		var calling sync.WaitGroup
		for of := range f.all {
			for at := range f.all {
				calling.Go(func() { call(x.name, of, at) })
			}
		}
		for _, way := range x.free {
			calling.Go(func() {
				if why := call(x.name, way[0], way[1]); why != "" {
					t.Errorf("%s, a session of r%d at r%d: %s", x.name, way[0], way[1], why)
				}
			})
		}
		calling.Wait()
		for n, r := range f.all {
			await(t, fmt.Sprintf("%s: who isn't ready is %v, and r%d is ready: %t", x.name, x.off, n, ready(r)), 15*time.Second, func() bool {
				return ready(r) != slices.Contains(x.off, n)
			})
		}
		x.cut(false)
		for of := range f.all {
			for at := range f.all {
				await(t, fmt.Sprintf("after %s, the session of r%d goes on at r%d", x.name, of, at), 30*time.Second, func() bool {
					return call("after "+x.name, of, at) == ""
				})
			}
		}
		soon(t, "everybody is ready", func() bool { return ready(f.all[0]) && ready(f.all[1]) && ready(f.all[2]) })
	}
	unsent := map[string]int{} // by the replica that couldn't pass them on
	for _, x := range read[admin.Calls](f.all[0], "/calls?method=tools/call&outcome=not_sent&limit=1000").Calls {
		if x.Cause == "replica_unreachable" && x.Server == "s" {
			unsent[x.Replica]++
		}
	}
	if len(unsent) != 3 {
		t.Errorf("calls that couldn't be passed on: %v", unsent)
	}
	t.Logf("%d of %d calls have a result", results, made)
}
