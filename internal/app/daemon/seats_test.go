//go:build unix

package daemon

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
)

// countOf sends a modern client's call of the tool that counts the calls in a session, and returns what it says.
func countOf(r *rig, who ...string) (n int, err error) {
	a, err := r.try(r.t.Context(), "POST", "/mcp", strings.NewReader(modernBody("1", "tools/call", `"name":"old__count","arguments":{}`)), append(modernHeader("tools/call", "old__count"), who...)...)
	if err != nil || a.status != 200 {
		return 0, fmt.Errorf("status %d: %w %s", a.status, err, a.body)
	}
	if n, err = strconv.Atoi(toolText(a.message(r.t))); err != nil {
		return 0, fmt.Errorf("%w: %s", err, a.body)
	}
	return n, nil
}

// TestTC04 lets clients of the modern era call a legacy server that counts. Whichever replica gets a call, each principal
// has one counter. A call is known where it ran, and nowhere else.
func TestTC04(t *testing.T) {
	t.Parallel()
	f := newCluster(t, fleetServers(t))
	desk := deskOfCluster(t)
	var all [2][]string
	for i := range all {
		all[i], _ = makeKey(t, desk, access.Wish{Name: fmt.Sprint("k", i), Project: "default", Role: identity.Caller})
	}
	for _, r := range f.all {
		soon(t, "each knows the others and the keys", func() bool {
			return len(r.statusOnly().Replicas) == 3 && r.modern("/mcp", "1", "tools/list", "", "", all[1]...).status == 200
		})
	}
	calls := [2]int{1000, 100}
	var counts [2][]int
	var running sync.WaitGroup
	var turns atomic.Int64
	var mu sync.Mutex
	for i, who := range all {
		for range 2 {
			running.Go(func() {
				for range calls[i] / 2 {
					n, err := countOf(f.all[turns.Add(1)%3], who...)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					counts[i] = append(counts[i], n)
					mu.Unlock()
				}
			})
		}
	}
	running.Wait()
	for i := range counts {
		slices.Sort(counts[i])
		if n := len(counts[i]); n == 0 {
			t.Error("no call was counted")
		} else if n != calls[i] || counts[i][0] != 1 || counts[i][n-1] != n || len(slices.Compact(counts[i])) != n {
			t.Errorf("the %d calls of one were counted from %d to %d", n, counts[i][0], counts[i][n-1])
		}
	}
	if !t.Failed() {
		for range 3 {
			if _, err := countOf(f.next()); err != nil {
				t.Error(err)
			}
		}
		last := read[admin.Calls](f.all[0], "/calls?method=tools/call&limit=3").Calls
		if len(last) != 3 || last[0].Replica != last[2].Replica || last[1].Replica != last[2].Replica {
			t.Errorf("the last three calls are %+v", last)
		}
	}
}

// TestTC34 stops replicas one after the other, while a client calls a server that counts. No call fails, and the session
// with the server goes on.
func TestTC34(t *testing.T) {
	t.Parallel()
	f := newCluster(t, fleetServers(t))
	for _, r := range f.all {
		soon(t, "each knows the others", func() bool { return len(r.statusOnly().Replicas) == 3 })
	}
	last := 0
	call := func() {
		n, err := countOf(f.next())
		if err != nil || n != last+1 {
			t.Errorf("%d after %d: %v", n, last, err)
		}
		last = n
	}
	for range 9 {
		call()
	}
	for len(f.all) > 1 {
		leaves, done := f.all[0], make(chan error, 1)
		f.all = f.all[1:]
		go func() { done <- leaves.stop() }()
		for ended := false; !ended && !t.Failed(); {
			select {
			case err := <-done:
				if ended = true; err != nil {
					t.Error(err)
				}
			default:
			}
			call()
		}
	}
}

// TestTC10Seats kills the replica that has a client's session with a server. Whoever gets the next calls goes on with
// the session.
func TestTC10Seats(t *testing.T) {
	c := newHerd(t, 3, nil, fleetServers(t))
	time.Sleep(6 * time.Second) // nobody buries others sooner
	for i := range 6 {
		if n, err := countOf(c.next().rig); err != nil || n != i+1 {
			t.Fatalf("call %d: %d %v", i+1, n, err)
		}
	}
	time.Sleep(time.Second) // so that the session is written down
	p := c.homeOf("/calls?method=tools/call&limit=1")
	c.remove(p)
	p.signal(syscall.SIGKILL)
	p.ended()
	began, last, lost := time.Now(), 6, 0
	for range 9 {
		switch n, err := countOf(c.next().rig); {
		case err != nil && strings.Contains(err.Error(), "replica_lost"): // on a connection that was still there
			lost++
		case err != nil || n != last+1:
			t.Errorf("%d after %d: %v", n, last, err)
		default:
			last = n
		}
	}
	if took := time.Since(began); took > patience(13*time.Second) || lost > 2 {
		t.Errorf("they took %s, and %d were lost", took, lost)
	}
}

// homeOf returns the replica that has the call which a query finds.
func (c *herd) homeOf(query string) *process {
	c.t.Helper()
	all := read[admin.Calls](c.all[0].rig, query).Calls
	if len(all) == 0 {
		c.t.Fatalf("no call: %s", query)
	}
	for _, p := range c.all {
		if p.name == all[0].Replica {
			return p
		}
	}
	c.t.Fatalf("the call is at %q", all[0].Replica)
	return nil
}
