package upstream

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// stopped makes the processes of h ignore all messages while still.Load() is true.
func stopped(h *program, still *atomic.Bool) {
	h.on = func(_ *process, m *jsonrpc.Message) []byte {
		if still.Load() {
			return silent
		}
		return nil
	}
}

// TestU09_HungServerIsReported checks that a hung server is reported within 10 s. Its
// calls time out. If it stays hung, Dragoman kills it, and the next call starts it again.
func TestU09_HungServerIsReported(t *testing.T) {
	for name, h := range map[string]*program{"legacy": {legacy: true}, "modern": {modern: true}} {
		t.Run(name, func(t *testing.T) {
			var still atomic.Bool
			stopped(h, &still)
			bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
				run := func() error {
					_, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`)
					return err
				}
				if err := run(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour / 10)
				still.Store(true)
				start := time.Now()
				var wait sync.WaitGroup
				var err error
				wait.Go(func() { err = run() })
				time.Sleep(9 * time.Second)
				synctest.Wait()
				if s := u.Status(); s.State != Ready {
					t.Errorf("the status after 9 s is %+v", s)
				}
				time.Sleep(21 * time.Second)
				synctest.Wait()
				if s := u.Status(); s.State != Unresponsive || s.Since.Sub(start) != 10*time.Second || s.Reason == "" {
					t.Errorf("the status after 30 s is %+v", s)
				}
				if r := u.Report(); r.Fault.Text == "" || r.State != Unresponsive {
					t.Errorf("the report is %+v", r)
				}
				wait.Wait()
				var e *mcp.Error
				if !errors.As(err, &e) || e.Cause != "timeout" || time.Since(start) != time.Minute {
					t.Errorf("after %v the call ended with %v", time.Since(start), err)
				}
				if n := len(h.all()); n != 1 {
					t.Errorf("there are %d processes", n)
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if n := h.alive(); n != 0 {
					t.Errorf("%d processes are left of a server that stayed hung", n)
				}
				still.Store(false)
				if err := run(); err != nil {
					t.Error(err)
				}
				if s := u.Status(); s.State != Ready || len(h.all()) != 2 {
					t.Errorf("the status of the new process is %+v", s)
				}
			})
		})
	}
}

// TestCallsLeaveAHungServer checks that new calls do not wait for a process that hangs. They get a
// second process. If that hangs too, they fail at once. A process that answers again takes calls again.
func TestCallsLeaveAHungServer(t *testing.T) {
	for name, h := range map[string]*program{"legacy": {legacy: true}, "modern": {modern: true}} {
		t.Run(name, func(t *testing.T) {
			var hung sync.Map
			h.on = func(l *process, _ *jsonrpc.Message) []byte {
				if _, is := hung.Load(l); is {
					return silent
				}
				return nil
			}
			bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
				run := func() error {
					_, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`)
					return err
				}
				var wait sync.WaitGroup
				hang := func(i int) {
					if err := run(); err != nil {
						t.Fatal(err)
					}
					hung.Store(h.all()[i], true)
					wait.Go(func() { _ = run() })
					time.Sleep(11 * time.Second)
					synctest.Wait()
				}
				hang(0)
				start := time.Now()
				if err := run(); err != nil || len(h.all()) != 2 || time.Since(start) > time.Second {
					t.Errorf("the call beside a hung process: %v after %v, %d processes", err, time.Since(start), len(h.all()))
				}
				if s := u.Status(); s.State != Ready || s.Reason != reasonSomeHung {
					t.Errorf("with one process that answers, the status is %+v", s)
				}
				hang(1)
				start = time.Now()
				var e *mcp.Error
				if err := run(); !errors.As(err, &e) || e.Cause != "unresponsive" || e.Outcome != mcp.NotSent || time.Since(start) > 0 {
					t.Errorf("the call beside two hung processes: %v after %v", err, time.Since(start))
				}
				if s := u.Status(); s.State != Unresponsive {
					t.Errorf("the status with two hung processes is %+v", s)
				}
				hung.Clear()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if err := run(); err != nil || len(h.all()) != 2 {
					t.Errorf("the call after the server came back: %v, %d processes", err, len(h.all()))
				}
				if s := u.Status(); s.State != Ready || s.Reason != "" {
					t.Errorf("after the server came back, the status is %+v", s)
				}
				wait.Wait()
			})
		})
	}
}

// TestSharedServerThatHangs checks that calls of a server with one session for all clients fail at once
// after the session has been unresponsive for a while. Until then they wait for the server.
func TestSharedServerThatHangs(t *testing.T) {
	var still atomic.Bool
	h := &program{legacy: true}
	stopped(h, &still)
	bubble(t, h, Spec{Isolation: Shared}, func(t *testing.T, u *Upstream) {
		run := func() error {
			_, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`)
			return err
		}
		if err := run(); err != nil {
			t.Fatal(err)
		}
		still.Store(true)
		var wait sync.WaitGroup
		wait.Go(func() { _ = run() })
		time.Sleep(31 * time.Second)
		synctest.Wait()
		start := time.Now()
		var e *mcp.Error
		if err := run(); !errors.As(err, &e) || e.Cause != "unresponsive" || time.Since(start) > 0 || len(h.all()) != 1 {
			t.Errorf("%v after %v, %d processes", err, time.Since(start), len(h.all()))
		}
		wait.Wait()
	})
}

// TestU09_ServerThatComesBackIsReady checks that a hung server becomes ready again when it sends a
// message.
func TestU09_ServerThatComesBackIsReady(t *testing.T) {
	h := &program{legacy: true}
	var still atomic.Bool
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		stopped(h, &still)
		if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
			t.Fatal(err)
		}
		still.Store(true)
		var wait sync.WaitGroup
		wait.Go(func() { _, _ = call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`) })
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if s := u.Status(); s.State != Unresponsive {
			t.Fatalf("%+v", s)
		}
		still.Store(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if s := u.Status(); s.State != Ready || len(h.all()) != 1 {
			t.Errorf("%+v", s)
		}
		wait.Wait()
	})
}

// TestSlowCallsAreNotUnresponsive checks that a server that answers pings or sends progress
// stays ready, however long its call takes. A server without calls is not pinged.
func TestSlowCallsAreNotUnresponsive(t *testing.T) {
	h := &program{legacy: true}
	bubble(t, h, Spec{Idle: 20 * time.Minute, Hard: time.Hour}, func(t *testing.T, u *Upstream) {
		release := make(chan struct{})
		h.on = held(release)
		var wait sync.WaitGroup
		wait.Go(func() {
			if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Error(err)
			}
		})
		for range 20 {
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if s := u.Status(); s.State != Ready {
				t.Fatalf("%+v", s)
			}
		}
		pings := h.count(mcp.MethodPing)
		if pings < 20 || pings > 41 {
			t.Errorf("%d pings in ten minutes", pings)
		}
		close(release)
		wait.Wait()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := h.count(mcp.MethodPing) - pings; n > 1 {
			t.Errorf("%d pings while no call was waiting", n)
		}
	})
}

// TestLevelComesBackWithTheServer checks that Dragoman sets the log level of the previous session
// in a new session before it sends any other request.
func TestLevelComesBackWithTheServer(t *testing.T) {
	h := &program{legacy: true}
	h.on = func(_ *process, m *jsonrpc.Message) []byte {
		if m.Method == mcp.MethodInitialize {
			return ok(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"h","version":"1"}}`)
		}
		return nil
	}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		for _, level := range []mcp.LogLevel{mcp.LogLevel(0), mustLevel(t, "error"), mustLevel(t, "info")} {
			f := *legacyClient
			f.Conversation += uint64(level)
			f.LogLevel = level
			w := u.Subscribe(&f, nil, subscriber{info: &f})
			defer w.Close()
		}
		if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
			t.Fatal(err)
		}
		_ = h.all()[0].pipe.Close()
		synctest.Wait()
		if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
			t.Fatal(err)
		}
		for i, l := range h.all() {
			if got := l.last(mcp.MethodSetLevel); !strings.Contains(got, `"info"`) {
				t.Errorf("process %d got the levels %q", i, got)
			}
			if got := strings.Join(l.methods(), " "); strings.Index(got, mcp.MethodSetLevel) > strings.Index(got, mcp.MethodCallTool) {
				t.Errorf("process %d got %s", i, got)
			}
		}
	})
}

func mustLevel(t *testing.T, name string) mcp.LogLevel {
	l, known := mcp.ParseLogLevel(name)
	if !known {
		t.Fatal(name)
	}
	return l
}

// subscriber is an mcp.Subscriber that refuses all server requests.
type subscriber struct {
	mcp.NoCaller
	info *mcp.ClientInfo
}

func (s subscriber) ClientInfo() *mcp.ClientInfo { return s.info }
