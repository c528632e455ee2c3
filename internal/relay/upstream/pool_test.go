package upstream

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// giveUp makes a request that is given up before a session is open.
func giveUp(t *testing.T, u *Upstream, f *mcp.ClientInfo, need mcp.Need) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if l, err := u.Acquire(ctx, f, need); err == nil {
		l.Release()
		t.Error("the request was not given up")
	}
}

// slowly makes the starts of a program take a second.
func slowly(h *program) *program {
	h.on = func(_ *process, m *jsonrpc.Message) []byte {
		if m.Method == mcp.MethodInitialize {
			time.Sleep(time.Second)
		}
		return nil
	}
	return h
}

// TestSessionsThatNobodyTakes opens sessions for requests that are given up meanwhile. They end like others that
// nobody uses, or short-lived clients would leave processes behind that never end. Whoever waits for the
// same session gets it, and keeps it.
func TestSessionsThatNobodyTakes(t *testing.T) {
	asks := info(mcp.R20260728, "", canElicit, 0)
	aCall := mcp.Need{ForCall: true}
	innocent := func(t *testing.T, u *Upstream, f *mcp.ClientInfo, n uint64) {
		l, err := u.Acquire(t.Context(), f, aCall)
		if err != nil {
			t.Error(err)
			return
		}
		defer l.Release()
		if time.Sleep(2 * homeIdle); l.s.server.Err() != nil || len(u.Report().Sessions) != int(n) {
			t.Errorf("the session ended during the call, or others are left: %+v", u.Report().Sessions)
		}
	}
	withRoots := func(t *testing.T, u *Upstream, stays time.Duration) {
		for i := range 5 {
			w := attach(u, hasRoots, uint64(i+1))
			giveUp(t, u, w.info, mcp.Need{})
			time.Sleep(stays)
			w.sub.Close()
			synctest.Wait()
		}
	}
	for name, x := range map[string]struct {
		h    *program // slowly(legacy) if nil
		spec Spec
		do   func(t *testing.T, h *program, u *Upstream)
		want [3]int // processes that run then, after exclusiveIdle, and after homeIdle
	}{
		"the home session": {want: [3]int{1, 1, 0}, do: func(t *testing.T, _ *program, u *Upstream) {
			giveUp(t, u, legacyClient, mcp.Need{})
		}},
		"one for ourselves": {want: [3]int{1, 1, 0}, do: func(t *testing.T, _ *program, u *Upstream) { giveUp(t, u, nil, mcp.Need{}) }},
		"another client stays": {want: [3]int{1, 1, 1}, do: func(t *testing.T, _ *program, u *Upstream) {
			u.Subscribe(legacyClient, func(*jsonrpc.Message) {}, nil)
			giveUp(t, u, info(mcp.R20251125, "", "{}", 2), aCall)
		}},
		"another client waits": {want: [3]int{1, 1, 0}, do: func(t *testing.T, _ *program, u *Upstream) {
			giveUp(t, u, legacyClient, aCall)
			innocent(t, u, info(mcp.R20251125, "", "{}", 2), 1)
		}},
		"all share": {spec: Spec{Isolation: Shared}, want: [3]int{1, 1, 0}, do: func(t *testing.T, _ *program, u *Upstream) {
			giveUp(t, u, asks, aCall)
			giveUp(t, u, info(mcp.R20251125, "ann", hasRoots, 1), aCall)
		}},
		"a process for each call": {spec: Spec{Isolation: PerCall}, want: [3]int{1, 0, 0}, do: func(t *testing.T, _ *program, u *Upstream) {
			giveUp(t, u, asks, aCall)
		}},
		"the same, and another client waits": {spec: Spec{Isolation: PerCall}, want: [3]int{1, 0, 0}, do: func(t *testing.T, _ *program, u *Upstream) {
			giveUp(t, u, asks, aCall)
			innocent(t, u, asks, 1)
		}},
		"an exclusive session": {want: [3]int{2, 1, 0}, do: func(t *testing.T, _ *program, u *Upstream) {
			l, err := u.Acquire(t.Context(), asks, aCall)
			if err != nil {
				t.Fatal(err)
			}
			giveUp(t, u, asks, aCall)
			time.Sleep(2 * time.Second)
			l.Release()
		}},
		"an exclusive session that another call waits for": {want: [3]int{1, 1, 0}, do: func(t *testing.T, _ *program, u *Upstream) {
			l, err := u.Acquire(t.Context(), asks, aCall)
			if err != nil {
				t.Fatal(err)
			}
			giveUp(t, u, asks, aCall)
			var other sync.WaitGroup
			other.Go(func() { innocent(t, u, asks, 2) })
			time.Sleep(3 * homeIdle)
			other.Wait() // its session, the second one, has become idle a minute ago and longer
			l.Release()
		}},
		"clients with roots that leave at once": {h: folders(false), want: [3]int{5, 0, 0}, do: func(t *testing.T, _ *program, u *Upstream) { withRoots(t, u, 0) }},
		"clients with roots that leave later":   {h: folders(false), want: [3]int{5, 0, 0}, do: func(t *testing.T, _ *program, u *Upstream) { withRoots(t, u, time.Second) }},
		"a server that does not start, but does later": {h: &program{legacy: true, fails: func(n int) bool { return n == 1 }}, want: [3]int{1, 1, 0}, do: func(t *testing.T, _ *program, u *Upstream) {
			u.KeepOpen(true)
			giveUp(t, u, legacyClient, aCall)
			time.Sleep(5 * time.Second)
		}},
		"a restart meanwhile": {want: [3]int{1, 1, 0}, do: func(t *testing.T, _ *program, u *Upstream) {
			giveUp(t, u, asks, aCall)
			_ = u.Restart("in the console")
			time.Sleep(5 * time.Second)
		}},
		"a stop meanwhile": {want: [3]int{0, 0, 0}, do: func(t *testing.T, _ *program, u *Upstream) {
			giveUp(t, u, asks, aCall)
			_ = u.Stop("in a test")
			time.Sleep(5 * time.Second)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := x.h
			if h == nil {
				h = slowly(&program{legacy: true})
			}
			bubble(t, h, x.spec, func(t *testing.T, u *Upstream) {
				x.do(t, h, u)
				for i, pause := range []time.Duration{2 * time.Second, exclusiveIdle, homeIdle} {
					time.Sleep(pause)
					synctest.Wait()
					if n := h.alive(); n != x.want[i] {
						t.Errorf("look %d: %d processes run, want %d: %+v", i, n, x.want[i], u.Report().Sessions)
					}
				}
			})
		})
	}
}

// TestStateStaysInTheHomeSession opens exclusive sessions with concurrent calls. After that,
// sequential calls of a modern client all use the home session, which holds the server's state.
func TestStateStaysInTheHomeSession(t *testing.T) {
	h := &program{legacy: true}
	f := info(mcp.R20260728, "", canElicit, 0)
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		release := make(chan struct{})
		h.on = held(release)
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() { _, _ = call(t, u, f, mcp.MethodCallTool, `{"name":"t"}`) })
			synctest.Wait()
		}
		close(release)
		wait.Wait()
		if n := h.alive(); n != 3 {
			t.Fatalf("there are %d sessions, so this test does not prove anything", n)
		}
		before := len(h.all()[0].methods())
		for range 5 {
			if _, err := call(t, u, f, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(h.all()[0].methods()) - before; n != 5 {
			t.Errorf("%d of 5 calls reached the home session", n)
		}
	})
}

// TestAConversationStaysWithItsSession checks that a conversation keeps its session, even if
// the home session is free.
func TestAConversationStaysWithItsSession(t *testing.T) {
	h := &program{legacy: true}
	a, b := info(mcp.R20251125, "", canElicit, 1), info(mcp.R20251125, "", canElicit, 2)
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		release := make(chan struct{})
		h.on = held(release)
		var wait sync.WaitGroup
		wait.Go(func() { _, _ = call(t, u, a, mcp.MethodCallTool, `{"name":"t"}`) })
		synctest.Wait()
		wait.Go(func() { _, _ = call(t, u, b, mcp.MethodCallTool, `{"name":"t"}`) })
		synctest.Wait()
		close(release)
		wait.Wait()
		for range 3 {
			if _, err := call(t, u, b, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(strings.Join(h.all()[1].methods(), " "), mcp.MethodCallTool); n != 4 {
			t.Errorf("the session of the second client has seen %d of its calls", n)
		}
	})
}

// TestOnePrincipalLeavesRoomForOthers checks a principal whose calls all declare different
// capabilities. The principal gets at most maxPerPrincipal sessions. To open another session for
// the principal, Dragoman closes one of its idle sessions. If all its sessions are in use,
// Dragoman refuses the call. Other principals are not affected.
func TestOnePrincipalLeavesRoomForOthers(t *testing.T) {
	h := &program{legacy: true}
	who := func(principal string, n int) *mcp.ClientInfo {
		return info(mcp.R20260728, principal, variety(n), 0)
	}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		if _, err := call(t, u, who("quiet", 0), mcp.MethodCallTool, `{"name":"t"}`); err != nil {
			t.Fatal(err)
		}
		for n := range 2 * maxPerPrincipal {
			if _, err := call(t, u, who("loud", n), mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond) // so that the sessions have been idle for different times
		}
		synctest.Wait()
		if n := h.alive(); n != maxPerPrincipal+1 {
			t.Errorf("there are %d sessions, want %d", n, maxPerPrincipal+1)
		}
		if h.all()[0].gone {
			t.Error("a session of another principal was ended")
		}
		if h.all()[len(h.all())-1].gone {
			t.Error("the newest session was ended instead of the oldest")
		}
		release := make(chan struct{})
		h.on = held(release)
		var wait sync.WaitGroup
		for n := range maxPerPrincipal {
			wait.Go(func() { _, _ = call(t, u, who("loud", 1000+n), mcp.MethodCallTool, `{"name":"t"}`) })
			synctest.Wait()
		}
		_, err := call(t, u, who("loud", 5000), mcp.MethodCallTool, `{"name":"t"}`)
		if e := (*mcp.Error)(nil); !errors.As(err, &e) || e.Cause != "overloaded" || e.Outcome != mcp.NotSent {
			t.Errorf("a session beyond the bound: %v", err)
		}
		wait.Go(func() {
			if _, err := call(t, u, who("quiet", 7), mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Errorf("a session of another principal: %v", err)
			}
		})
		synctest.Wait()
		close(release)
		wait.Wait()
	})
}

// TestNobodyTakesTheRoomOfOneWhoWaits opens a session for one client while all others of its principal are in
// use. Before that client has got it, another one needs a session. It's refused, because the only session that
// could end for it is the one that the first client has waited for.
func TestNobodyTakesTheRoomOfOneWhoWaits(t *testing.T) {
	h := &program{legacy: true}
	who := func(n int) *mcp.ClientInfo { return info(mcp.R20260728, "ann", variety(n), 0) }
	aCall := mcp.Need{ForCall: true}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		for n := range maxPerPrincipal - 1 {
			l, err := u.Acquire(t.Context(), who(n), aCall)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release()
		}
		look := func(n int, before choice) (c choice, err error) {
			u.update(func(st *state) {
				before.stopWaiting()
				c, err = u.broker.pick(t.Context(), st, who(n), "", aCall)
			})
			synctest.Wait()
			return c, err
		}
		first, err := look(100, choice{})
		if err != nil || first.opening == nil {
			t.Fatal("no session is opened", err)
		}
		if c, err := look(101, choice{}); err == nil {
			t.Errorf("there is room for another session: %+v", c)
		}
		got, err := look(100, first)
		if err != nil || got.session == nil {
			t.Fatalf("the first client does not get its session: %v", err)
		}
		u.broker.release(got.session, got.counted, false)
		if c, err := look(101, choice{}); err != nil || c.opening == nil {
			t.Errorf("there is no room when the session is idle: %v", err)
		}
	})
}

// TestNoSessionEndsDuringABackOff lets a principal use up its sessions, and call with other capabilities
// while the server may not be opened. The call fails, and no idle session ends to make room for it.
func TestNoSessionEndsDuringABackOff(t *testing.T) {
	h := &program{legacy: true}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		for n := range maxPerPrincipal {
			if _, err := call(t, u, info(mcp.R20260728, "loud", variety(n), 0), mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Fatal(err)
			}
		}
		failed := errors.New("the last open failed")
		u.update(func(st *state) { st.health.lastErr, st.health.notBefore = failed, time.Now().Add(time.Minute) })
		if _, err := call(t, u, info(mcp.R20260728, "loud", variety(100), 0), mcp.MethodCallTool, `{"name":"t"}`); !errors.Is(err, failed) {
			t.Error(err)
		}
		synctest.Wait()
		if n := h.alive(); n != maxPerPrincipal {
			t.Errorf("%d of %d sessions are left", n, maxPerPrincipal)
		}
	})
}

// variety returns the n-th of 128 different sets of capabilities.
func variety(n int) string {
	var tasks []string
	caps := `{"elicitation":{"form":{}`
	for i, s := range []string{
		`,"url":{}}`, `,"roots":{}`, `,"sampling":{}`, `,"extensions":{"io.modelcontextprotocol/tasks":{}}`,
		`"list":{}`, `"cancel":{}`, `"requests":{}`,
	} {
		has := n>>i&1 == 1
		switch {
		case i == 0 && !has:
			caps += `}`
		case i < 4 && has:
			caps += s
		case has:
			tasks = append(tasks, s)
		}
	}
	return caps + `,"tasks":{` + strings.Join(tasks, ",") + `}}`
}

func TestReportTellsOfEachSession(t *testing.T) {
	h := &program{legacy: true}
	f := info(mcp.R20260728, "anna", canElicit, 0)
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		if r := u.Report(); r.State != Idle || len(r.Sessions) != 0 || r.Isolation != Auto || r.Transport != "inmem" {
			t.Errorf("the report before the calls is %+v", r)
		}
		release := make(chan struct{})
		h.on = held(release)
		var wait sync.WaitGroup
		for range 2 {
			wait.Go(func() { _, _ = call(t, u, f, mcp.MethodCallTool, `{"name":"t"}`) })
			synctest.Wait()
		}
		w := u.Subscribe(f, nil, nil)
		if _, err := w.Subscribe(t.Context(), "a:1"); err != nil {
			t.Fatal(err)
		}
		r := u.Report()
		if len(r.Sessions) != 2 || r.Running != 2 || r.Hearers != 1 || len(r.Trace) == 0 || r.Restarts != 0 {
			t.Fatalf("the report during the calls is %+v", r)
		}
		for i, want := range []Role{Home, Lane} {
			s := r.Sessions[i]
			if s.Role != want || s.Principal != "anna" || strings.Join(s.Capabilities, " ") != "elicitation" || s.Running != 1 || !s.Idle.IsZero() || s.Revision != mcp.R20251125 {
				t.Errorf("session %d: %+v", i, s)
			}
		}
		if r.Sessions[0].Watched != 1 || r.Sessions[1].Watched != 0 {
			t.Errorf("the report with a watched resource is %+v", r.Sessions)
		}
		close(release)
		wait.Wait()
		now := time.Now()
		time.Sleep(10 * time.Second)
		for _, s := range u.Report().Sessions {
			if !s.Idle.Equal(now) || s.Running != 0 {
				t.Errorf("the report after the calls is %+v", s)
			}
		}
		w.Close()
		synctest.Wait() // wait until the server has got the request
		// The server exits, and Dragoman starts it again.
		h.on = nil
		for _, l := range h.all() {
			_ = l.pipe.Close()
		}
		synctest.Wait()
		if r = u.Report(); r.Fault.Text == "" || !r.Fault.At.Equal(time.Now()) || r.Restarts != 0 {
			t.Errorf("the status after the exit is %+v", r)
		}
		if _, err := call(t, u, f, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
			t.Fatal(err)
		}
		if r = u.Report(); r.Restarts != 1 || r.State != Ready {
			t.Errorf("the status after the restart is %+v", r)
		}
	})
}

// TestSessionsKeepNoRequestAlive checks that a session does not keep the request of a modern
// client in memory. The client info is part of the request, and a session may exist for hours after
// the request.
func TestSessionsKeepNoRequestAlive(t *testing.T) {
	h := &program{legacy: true}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		request := func() weak.Pointer[[1 << 20]byte] {
			raw := new([1 << 20]byte)
			f := info(mcp.R20260728, "", canElicit, 0)
			f.Info = raw[:copy(raw[:], f.Info)]
			f.Capabilities = raw[len(f.Info) : len(f.Info)+copy(raw[len(f.Info):], canElicit)]
			if _, err := call(t, u, f, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Error(err)
			}
			return weak.Make(raw)
		}()
		synctest.Wait()
		runtime.GC()
		runtime.GC()
		if request.Value() != nil {
			t.Error("the session keeps the whole request in memory")
		}
	})
}
