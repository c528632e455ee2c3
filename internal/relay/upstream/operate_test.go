package upstream

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// stoppedError checks that an error says that an operator has stopped the server.
func stoppedError(t *testing.T, err error, cause string) {
	t.Helper()
	var e *mcp.Error
	if !errors.As(err, &e) || e.Cause != cause || e.Failure == nil || e.Failure.Class != failure.Stopped || !strings.Contains(e.Message, "by an operator") {
		t.Errorf("the error: %v", err)
	}
}

// eras runs a test with a server of each era.
func eras(t *testing.T, f func(t *testing.T, h *program)) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			f(t, &program{legacy: era == "legacy", modern: era == "modern"})
		})
	}
}

// TestStoppedServer checks that a stopped server stays stopped, even if clients call it or time
// passes.
func TestStoppedServer(t *testing.T) {
	eras(t, func(t *testing.T, h *program) {
		keptOpen(t, h, Spec{}, func(t *testing.T, u *Upstream, log *journal) {
			if err := u.Stop("in the console"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := h.alive(); n != 0 {
				t.Errorf("%d processes are left", n)
			}
			n := h.starts()
			for _, f := range []*mcp.ClientInfo{nil, modernClient, legacyClient} {
				_, err := u.Hello(t.Context(), f)
				stoppedError(t, err, "stopped")
			}
			u.RecordFailure(errors.New("the command was looked for before the stop"))
			u.KeepOpen(false) // a reload does the same
			u.KeepOpen(true)
			time.Sleep(24 * time.Hour)
			if s := u.Status(); h.starts() != n || s.State != Stopped || s.Failure == nil || s.Failure.Action == "" || s.Attempts != 0 || !s.Retry.IsZero() || s.Sessions != 0 {
				t.Errorf("a day later: %d starts, %+v", h.starts()-n, s)
			}
			if err := u.Stop("in the console"); err != nil {
				t.Error(err)
			}
			if err := u.Start("in the console"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if s := u.Status(); s.State != Ready || s.Reason != "" || s.Sessions != 1 || h.starts() != n+1 {
				t.Errorf("started: %+v", s)
			}
			if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Error(err)
			}
			n = h.starts()
			if err := u.Start("in the console"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if h.starts() != n {
				t.Error("a server that is ready was started again")
			}
			for _, line := range []string{"server stopped by an operator", "server started by an operator"} {
				if strings.Count(log.String(), line) != 1 {
					t.Errorf("%q is not in the log once: %s", line, log.String())
				}
			}
		})
	})
}

// TestRestart checks that Restart waits for a call that ends soon, and interrupts a call that
// takes longer. After all sessions have ended, Restart opens the server again. Calls that arrive
// during the restart wait.
func TestRestart(t *testing.T) {
	eras(t, func(t *testing.T, h *program) {
		var release chan struct{}
		h.on = func(l *process, m *jsonrpc.Message) []byte {
			if m.Method == mcp.MethodCallTool && strings.Contains(string(m.Raw), "quick") {
				return held(release)(l, m)
			}
			if m.Method == mcp.MethodCallTool && strings.Contains(string(m.Raw), "endless") {
				return silent
			}
			return nil
		}
		keptOpen(t, h, Spec{}, func(t *testing.T, u *Upstream, _ *journal) {
			release = make(chan struct{}) // must be created in the synctest bubble
			var wait sync.WaitGroup
			var quick, endless, later error
			wait.Go(func() { _, quick = call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"quick"}`) })
			wait.Go(func() { _, endless = call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"endless"}`) })
			synctest.Wait()
			starts, began := h.starts(), time.Now()
			if err := u.Restart("in the console"); err != nil {
				t.Fatal(err)
			}
			wait.Go(func() { _, later = call(t, u, modernClient, mcp.MethodCallTool, `{"name":"later"}`) })
			time.Sleep(time.Second)
			close(release)
			synctest.Wait()
			if s := u.Status(); s.State != Starting || h.starts() != starts {
				t.Errorf("while a call runs: %+v", s)
			}
			wait.Wait()
			if took := time.Since(began); took < operatorGrace || took > operatorGrace+time.Second {
				t.Errorf("it took %s", took)
			}
			stoppedError(t, endless, "restarted")
			if quick != nil || later != nil {
				t.Errorf("the call that ends soon: %v; the one that comes later: %v", quick, later)
			}
			synctest.Wait()
			if s := u.Status(); s.State != Ready || s.Attempts != 0 {
				t.Errorf("restarted: %+v", s)
			}
		})
	})
}

// TestStopEndsAStart checks a server that does not become ready. The test stops and restarts it
// while calls wait for it.
func TestStopEndsAStart(t *testing.T) {
	stuck := true
	h := &program{legacy: true}
	h.on = func(_ *process, m *jsonrpc.Message) []byte {
		if stuck && m.Method == mcp.MethodInitialize {
			return silent
		}
		return nil
	}
	bubble(t, h, Spec{Start: time.Hour}, func(t *testing.T, u *Upstream) {
		var wait sync.WaitGroup
		var first, second error
		wait.Go(func() { _, first = u.Hello(t.Context(), nil) })
		synctest.Wait()
		time.Sleep(time.Second)
		_ = u.Stop("in the console")
		wait.Wait()
		stoppedError(t, first, "stopped")
		if s := u.Status(); s.State != Stopped {
			t.Errorf("%+v", s)
		}
		_ = u.Restart("in the console")
		synctest.Wait()
		wait.Go(func() { _, second = u.Hello(t.Context(), nil) })
		synctest.Wait()
		stuck = false
		_ = u.Probe("in the console")
		_ = u.Restart("in the console")
		_ = u.Stop("in the console")
		_ = u.Restart("in the console")
		wait.Wait()
		synctest.Wait()
		if s := u.Status(); second != nil && !strings.Contains(second.Error(), "stopped") || s.State != Ready {
			t.Errorf("%v, %+v", second, s)
		}
	})
}

// TestCloseEndsAStart checks that we don't warn about a server whose start we have ended ourselves by
// stopping. If it is the server of dragoman run, its client has closed our input too early, so we do.
func TestCloseEndsAStart(t *testing.T) {
	for _, alone := range []bool{false, true} {
		h := &program{on: func(*process, *jsonrpc.Message) []byte { return silent }}
		log := &journal{}
		bubble(t, h, Spec{Start: time.Hour, OneClient: alone, Given: alone}, func(t *testing.T, u *Upstream) {
			u.opts.Log = log.logger()
			u.KeepOpen(true)
			go func() { _, _ = u.Hello(t.Context(), nil) }()
			time.Sleep(time.Minute)
		})
		if got := log.String(); strings.Contains(got, "level=WARN") != alone || strings.Contains(got, "keep the input") != alone {
			t.Errorf("only client %t:\n%s", alone, got)
		}
	}
}

// TestStartClearsBackoff checks that Start does not wait for the next scheduled attempt.
func TestStartClearsBackoff(t *testing.T) {
	broken := true
	h := &program{legacy: true, fails: func(int) bool { return broken }}
	keptOpen(t, h, Spec{}, func(t *testing.T, u *Upstream, _ *journal) {
		time.Sleep(10 * time.Minute)
		if s := u.Status(); s.State != Broken || time.Until(s.Retry) < time.Millisecond {
			t.Fatalf("%+v", s)
		}
		broken = false
		_ = u.Start("in the console")
		synctest.Wait()
		if s := u.Status(); s.State != Ready {
			t.Errorf("%+v", s)
		}
	})
}

// TestProbeForgets checks a server that supports only the legacy era at first, and then both eras.
// After a restart, Dragoman still uses the legacy era. After Probe, it uses the modern era.
func TestProbeForgets(t *testing.T) {
	h := &program{legacy: true}
	keptOpen(t, h, Spec{}, func(t *testing.T, u *Upstream, _ *journal) {
		if rev := u.Status().Revision; !rev.Legacy() {
			t.Fatal(rev)
		}
		h.mu.Lock()
		h.modern = true
		h.mu.Unlock()
		_ = u.Restart("in the console")
		synctest.Wait()
		if rev := u.Status().Revision; !rev.Legacy() {
			t.Errorf("after a restart: %s", rev)
		}
		_ = u.Probe("in the console")
		synctest.Wait()
		if rev := u.Status().Revision; !rev.Modern() {
			t.Errorf("after a probe: %s", rev)
		}
	})
}

// TestOperateUnusable checks that operations fail for a server that Dragoman cannot open with its
// configuration, and for a server that is being removed.
func TestOperateUnusable(t *testing.T) {
	bubble(t, &program{legacy: true}, Spec{Unusable: errors.New("no variable")}, func(t *testing.T, u *Upstream) {
		for _, f := range []func(string) error{u.Stop, u.Start, u.Restart, u.Probe} {
			if f("in the console") == nil {
				t.Error("it was operated")
			}
		}
		if s := u.Status(); s.State != Broken {
			t.Errorf("%+v", s)
		}
		u.Close(t.Context())
		if !errors.Is(u.Stop("in the console"), errNotOperable) {
			t.Error("it was stopped after Close")
		}
	})
}

// TestOperationsArePublished checks that each operation publishes an event when it has ended.
func TestOperationsArePublished(t *testing.T) {
	bubble(t, &program{legacy: true}, Spec{}, func(t *testing.T, u *Upstream) {
		p := &event.Publisher{}
		u.opts.Events = p
		var mu sync.Mutex
		var got []string
		defer p.Tap(event.Of(event.Lifecycle), func(e event.Event) {
			if strings.Contains(e.Detail, "by an operator") {
				mu.Lock()
				got = append(got, e.Server+" "+e.Detail)
				mu.Unlock()
			}
		})()
		for _, f := range []func(string) error{u.Start, u.Stop, u.Restart, u.Probe} {
			if err := f("in the console (ada)"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		mu.Lock()
		defer mu.Unlock()
		if s := strings.Join(got, ", "); s != strings.ReplaceAll("h started by, h stopped by, h restarted by, h probed again by", "by", "by an operator in the console (ada)") {
			t.Error(s)
		}
	})
}
