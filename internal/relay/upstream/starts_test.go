package upstream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestStarts checks the order of starts, and that a start that is cancelled or takes long does not hold
// up the others.
func TestStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewStarts(2)
		var all sync.WaitGroup
		var mu sync.Mutex
		var order []string
		begin := func(ctx context.Context, name string, by urgency, takes time.Duration) *ticket {
			x := newTicket()
			q.hurry(x, by)
			all.Go(func() {
				leave, err := q.enter(ctx, x, func() {})
				mu.Lock()
				if err != nil {
					name += " cancelled"
				}
				order = append(order, name)
				mu.Unlock()
				if err == nil {
					time.Sleep(takes)
					leave()
					leave()
				}
			})
			synctest.Wait()
			return x
		}
		ctx, cancel := context.WithCancel(t.Context())
		begin(t.Context(), "a", forNobody, time.Second)
		begin(t.Context(), "hangs", forNobody, time.Hour)
		begin(t.Context(), "b", forNobody, time.Second)
		c := begin(t.Context(), "c", forNobody, time.Second)
		begin(t.Context(), "lists", forLists, time.Second)
		begin(ctx, "d", forCall, time.Second)
		begin(t.Context(), "call", forCall, time.Second)
		cancel()
		synctest.Wait()
		q.hurry(c, forCall)
		time.Sleep(startHold + time.Second)
		synctest.Wait()
		if got, want := strings.Join(order, ", "), "a, hangs, d cancelled, call, c, lists, b"; got != want {
			t.Errorf("the order is %s\nwant %s", got, want)
		}
		all.Wait()
		if q.running != 0 {
			t.Errorf("%d starts are left", q.running)
		}
	})
}

// TestFewServersStartAtOnce opens 20 servers that need 5 s for their start. At most 4 start at the same
// time, the time in the queue does not count as theirs, and a call overtakes the starts in the
// background. A server that is closed in the queue leaves it.
func TestFewServersStartAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewStarts(4)
		var mu sync.Mutex
		starting, most := 0, 0
		var ready []string
		var all sync.WaitGroup
		var servers []*Upstream
		for i := range 20 {
			h := &program{legacy: true}
			name := fmt.Sprint(i)
			h.on = func(l *process, m *jsonrpc.Message) []byte {
				if m.Method != mcp.MethodInitialize {
					return nil
				}
				mu.Lock()
				starting++
				most = max(most, starting)
				mu.Unlock()
				time.Sleep(5 * time.Second)
				mu.Lock()
				starting--
				ready = append(ready, name)
				mu.Unlock()
				return nil
			}
			u := New(Spec{Name: name, Pipe: h.dial, Start: 7 * time.Second, Pin: mcp.LatestLegacy}, Options{Starts: q})
			servers = append(servers, u)
			all.Go(func() {
				if _, err := u.Hello(t.Context(), nil); (err != nil) != (i == 18) {
					t.Errorf("server %d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		servers[18].Close(t.Context())
		all.Go(func() { _, _ = call(t, servers[19], legacyClient, mcp.MethodCallTool, `{"name":"t"}`) })
		start := time.Now()
		all.Wait()
		if took := time.Since(start); most != 4 || took != 25*time.Second || slices.Index(ready, "19") > 7 {
			t.Errorf("at most %d at once, %v, in the order %v", most, took, ready)
		}
		for _, u := range servers {
			u.Close(t.Context())
		}
		if q.running != 0 {
			t.Errorf("%d starts are left", q.running)
		}
	})
}
