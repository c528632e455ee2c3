package upstream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// wait lets a client wait for a start, unless by is forNobody.
func wait(q *Starts, x *ticket, party string, by urgency) {
	if by != forNobody {
		q.hurry(x, waiter{party, by})
	}
}

// TestStarts checks the order of starts, and that a start that is cancelled or takes long does not hold
// up the others.
func TestStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewStarts(2)
		var all sync.WaitGroup
		var mu sync.Mutex
		var order []string
		begin := func(ctx context.Context, name string, by urgency, takes time.Duration) *ticket {
			x := newTicket(firstSession, "")
			wait(q, x, "", by)
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
		begin(t.Context(), "x", forCall, time.Second)
		begin(t.Context(), "y", forCall, 2*time.Second)
		begin(ctx, "d", forCall, time.Second)
		begin(t.Context(), "call", forCall, time.Second)
		cancel()
		synctest.Wait()
		wait(q, c, "", forCall)
		time.Sleep(startHold + time.Second)
		synctest.Wait()
		if got, want := strings.Join(order, ", "), "a, hangs, x, y, d cancelled, call, c, lists, b"; got != want {
			t.Errorf("the order is %s\nwant %s", got, want)
		}
		all.Wait()
		if q.running != 0 || q.calls != 0 {
			t.Errorf("%d starts and %d for calls are left", q.running, q.calls)
		}
	})
}

// TestStartsBehindHangingServers checks how long the start of a healthy server waits for those of servers
// that hang.
func TestStartsBehindHangingServers(t *testing.T) {
	for _, tt := range []struct {
		limit, hanging int
		first, by      urgency
		class          class  // of their starts
		party          string // who waits for the healthy server; "a" waits for the others
		want           time.Duration
	}{
		{1, 5, forLists, forCall, firstSession, "a", 0},
		{4, 16, forNobody, forCall, firstSession, "a", 0},
		{1, 5, forCall, forCall, firstSession, "a", 10 * time.Second},
		{1, 50, forCall, forCall, firstSession, "b", 2 * time.Second},
		{4, 16, forCall, forCall, firstSession, "a", 8 * time.Second},
		{4, 160, forCall, forCall, firstSession, "b", 2 * time.Second},
		{1, 5, forLists, forLists, firstSession, "a", 50 * time.Second},
		{1, 5, forLists, forLists, firstSession, "b", 10 * time.Second},
		{1, 50, forLists, forLists, afterHang, "a", 2 * time.Second},
		{1, 50, forCall, forCall, afterHang, "a", 2 * time.Second},
		{1, 50, forNobody, forNobody, afterHang, "a", 2 * time.Second},
		{1, 5, forNobody, forLists, afterHang, "a", 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := NewStarts(tt.limit)
			var all sync.WaitGroup
			ctx, end := context.WithCancel(t.Context())
			for range tt.hanging {
				x := newTicket(tt.class, "")
				wait(q, x, "a", tt.first)
				all.Go(func() {
					if leave, err := q.enter(ctx, x, func() {}); err == nil {
						<-ctx.Done()
						leave()
					}
				})
			}
			synctest.Wait()
			x, began := newTicket(firstSession, ""), time.Now()
			wait(q, x, tt.party, tt.by)
			leave, err := q.enter(t.Context(), x, func() {})
			if waited := time.Since(began); err != nil || waited != tt.want {
				t.Errorf("%+v: waited %v, %v", tt, waited, err)
			}
			leave()
			end()
			all.Wait()
		})
	}
}

// TestClientsTakeTurns checks the order in which starts begin for several clients, one start at a time.
func TestClientsTakeTurns(t *testing.T) {
	for _, tt := range []struct {
		name string
		want string
		do   func(q *Starts, begin func(name string, c class, server string, parties ...string) *ticket)
	}{
		{"one with many, and two others", "a1 b1 c1 a2 b2 a3 a4", func(q *Starts, begin func(string, class, string, ...string) *ticket) {
			for _, name := range []string{"a2", "a3", "a4"} {
				begin(name, firstSession, "", "a")
			}
			begin("b1", firstSession, "", "b")
			begin("b2", firstSession, "", "b")
			begin("c1", firstSession, "", "c")
		}},
		{"several want the same", "a1 a3 a2 a4", func(q *Starts, begin func(string, class, string, ...string) *ticket) {
			begin("a2", firstSession, "", "a")
			begin("a3", firstSession, "", "a", "b", "c")
			begin("a4", firstSession, "", "a")
		}},
		{"one no longer wants it", "a1 b1 b2 a2 a3", func(q *Starts, begin func(string, class, string, ...string) *ticket) {
			begin("a2", firstSession, "", "a")
			begin("a3", firstSession, "", "a")
			q.forsake(begin("b1", firstSession, "", "b"), waiter{"b", forCall})
			x := begin("b2", firstSession, "", "b", "b", "a")
			q.forsake(x, waiter{"b", forCall})
			q.forsake(x, waiter{"a", forCall})
			q.hurry(x, waiter{"a", forLists})
			q.forsake(x, waiter{"a", forLists})
		}},
		{"servers that hung", "a1 b1 a2 b2 a6 a3 a4 a5 a7", func(q *Starts, begin func(string, class, string, ...string) *ticket) {
			begin("a6", afterHang, "", "a")
			begin("a7", afterHang, "", "a")
			for _, name := range []string{"a2", "a3", "a4", "a5"} {
				begin(name, firstSession, "", "a")
			}
			begin("b1", firstSession, "", "b")
			begin("b2", firstSession, "", "b")
		}},
		{"further sessions of a server", "a1 i1 f1 i2 f2 f3 f4", func(q *Starts, begin func(string, class, string, ...string) *ticket) {
			for i := range 4 {
				begin(fmt.Sprint("f", i+1), furtherSession, "busy", fmt.Sprint("sybil", i))
			}
			begin("i1", firstSession, "", "innocent")
			begin("i2", furtherSession, "other", "innocent")
		}},
		{"a further session for a principal", "a1 p1 f1 a2 a3", func(q *Starts, begin func(string, class, string, ...string) *ticket) {
			begin("a2", firstSession, "", "a")
			begin("a3", firstSession, "", "a")
			begin("f1", furtherSession, "busy", "b")
			begin("p1", furtherSession, "busy", "principal c")
		}},
		{"every class gets its turn", "a1 a2 f1 a3 f2 a4 h1 a5", func(q *Starts, begin func(string, class, string, ...string) *ticket) {
			begin("h1", afterHang, "", "b")
			begin("f1", furtherSession, "busy", "b")
			begin("f2", furtherSession, "busy", "b")
			for i := range 4 {
				begin(fmt.Sprint("a", i+2), firstSession, "", "a")
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := NewStarts(1)
				var all sync.WaitGroup
				var order []string // one start at a time
				begin := func(name string, c class, server string, parties ...string) *ticket {
					x := newTicket(c, server)
					for _, who := range parties {
						wait(q, x, who, forCall)
					}
					all.Go(func() {
						leave, _ := q.enter(t.Context(), x, func() {})
						order = append(order, name)
						time.Sleep(time.Second)
						leave()
					})
					synctest.Wait()
					return x
				}
				begin("a1", firstSession, "", "a")
				tt.do(q, begin)
				all.Wait()
				if got := strings.Join(order, " "); got != tt.want {
					t.Errorf("the order is %s\nwant %s", got, tt.want)
				}
				for i, r := range q.waiting {
					if slices.ContainsFunc(r.lines[:], func(l []*line) bool { return len(l) > 0 }) {
						t.Errorf("starts of urgency %d are left", i)
					}
				}
				if q.running != 0 || q.calls != 0 {
					t.Errorf("%d starts and %d for calls are left", q.running, q.calls)
				}
			})
		})
	}
}

// TestCallsLeaveAPlaceToOthers keeps all places for calls taken, as a program can that calls with other capabilities
// each time. A start for another client's lists begins all the same, and so does one that nobody waits for.
func TestCallsLeaveAPlaceToOthers(t *testing.T) {
	for _, limit := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			q := NewStarts(limit)
			var all sync.WaitGroup
			ctx, end := context.WithCancel(t.Context())
			var most int
			for range 3 * limit {
				all.Go(func() {
					for ctx.Err() == nil {
						x := newTicket(furtherSession, "busy")
						wait(q, x, "a", forCall)
						leave, _ := q.enter(t.Context(), x, func() {})
						q.mu.Lock()
						most = max(most, q.running)
						q.mu.Unlock()
						time.Sleep(time.Second)
						leave()
					}
				})
			}
			synctest.Wait()
			for _, by := range []urgency{forLists, forNobody, forLists} {
				x, began := newTicket(firstSession, ""), time.Now()
				wait(q, x, "b", by)
				soon, stop := context.WithTimeout(ctx, time.Hour)
				if leave, err := q.enter(soon, x, func() {}); err != nil || time.Since(began) > briefHold {
					t.Errorf("limit %d, urgency %d: waited %v, %v", limit, by, time.Since(began), err)
				} else {
					time.Sleep(time.Second)
					leave()
				}
				stop()
			}
			end()
			all.Wait()
			if most != limit+1 || q.running != 0 || q.calls != 0 {
				t.Errorf("at most %d at once, %d and %d for calls are left", most, q.running, q.calls)
			}
		})
	}
}

// TestManyHealthyServers starts 72 servers, each of which needs 1.8 s if 4 start at a time. All are ready
// within 33 s, and no more start at a time if calls wait for all of them.
func TestManyHealthyServers(t *testing.T) {
	const need = 1800 * time.Millisecond
	for by, want := range map[urgency]int{forNobody: 4, forLists: 4, forCall: 4} {
		synctest.Test(t, func(t *testing.T) {
			q := NewStarts(4)
			var all sync.WaitGroup
			var now, most atomic.Int64
			began := time.Now()
			for range 72 {
				x := newTicket(firstSession, "")
				wait(q, x, "", by)
				all.Go(func() {
					leave, _ := q.enter(t.Context(), x, func() {})
					if n := now.Add(1); n > most.Load() {
						most.Store(n)
					}
					time.Sleep(need)
					now.Add(-1)
					leave()
				})
			}
			all.Wait()
			if took := time.Since(began); int(most.Load()) != want || took > 33*time.Second {
				t.Errorf("%d: %d at once, %v", by, most.Load(), took)
			}
		})
	}
}

// TestRetriesOfAServerThatHangs checks that the second start of a server that hung holds up the start of
// another one only briefly.
func TestRetriesOfAServerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewStarts(1)
		open := func(ctx context.Context) (transport.Pipe, error) { <-ctx.Done(); return nil, ctx.Err() }
		hangs := New(Spec{Name: "hangs", Pipe: open, Start: 15 * time.Second}, Options{Starts: q})
		defer hangs.Close(t.Context())
		healthy := &program{legacy: true}
		other := New(Spec{Name: "other", Pipe: healthy.dial, Pin: mcp.LatestLegacy}, Options{Starts: q})
		defer other.Close(t.Context())
		if _, err := hangs.Hello(t.Context(), nil); err == nil {
			t.Fatal("the server does not hang")
		}
		hangs.KeepOpen(true)
		time.Sleep(5 * time.Second) // the next attempt has begun, and no longer counts
		began := time.Now()
		if _, err := other.Hello(t.Context(), nil); err != nil || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestFewServersStartAtOnce opens 20 servers that need 5 s for their start. At most 4 start at the same
// time, the time in the queue does not count as theirs, and a call waits for none of them. A server that is closed in the queue leaves it.
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
		if took := time.Since(start); most != 5 || took != 25*time.Second || slices.Index(ready, "19") > 4 {
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

// TestFurtherSessionsComeLater lets many clients with different capabilities, each of which needs a
// process of its own, call a server that starts slowly. The first call of another server waits for one
// start.
func TestFurtherSessionsComeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewStarts(1)
		slow := &program{legacy: true}
		slow.on = func(_ *process, m *jsonrpc.Message) []byte {
			if m.Method == mcp.MethodInitialize {
				time.Sleep(6 * time.Second)
			}
			return nil
		}
		busy := New(Spec{Name: "busy", Pipe: slow.dial, Pin: mcp.LatestLegacy}, Options{Starts: q})
		defer busy.Close(t.Context())
		healthy := &program{legacy: true}
		other := New(Spec{Name: "other", Pipe: healthy.dial, Pin: mcp.LatestLegacy}, Options{Starts: q})
		defer other.Close(t.Context())
		var all sync.WaitGroup
		for i := range 20 {
			caps := fmt.Sprintf(`{"elicitation":{},"extensions":{"com.example/%d":{}}}`, i)
			all.Go(func() {
				_, _ = call(t, busy, info(mcp.R20251125, "", caps, uint64(100+i)), mcp.MethodCallTool, `{"name":"t"}`)
			})
			synctest.Wait()
		}
		began := time.Now()
		for _, f := range []*mcp.ClientInfo{legacyClient, info(mcp.R20251125, "", `{"roots":{}}`, 99)} {
			if _, err := call(t, other, f, mcp.MethodCallTool, `{"name":"t"}`); err != nil || time.Since(began) > 2*briefHold {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
		all.Wait()
	})
}
