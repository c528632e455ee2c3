package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
)

// journal is a log that a test can read while other goroutines write to it.
type journal struct{ logtest.Buffer }

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// kill ends all processes of a program, like kill -9.
func (h *program) kill() {
	for _, l := range h.all() {
		_ = l.pipe.Close()
	}
}

func (h *program) starts() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.tries)
}

// keptOpen makes a server that Dragoman keeps open, tries to open it for the first time, and then
// runs f.
func keptOpen(t *testing.T, h *program, spec Spec, f func(t *testing.T, u *Upstream, log *journal)) {
	t.Helper()
	bubble(t, h, spec, func(t *testing.T, u *Upstream) {
		log := &journal{}
		u.opts.Log = log.logger()
		u.KeepOpen(true)
		_, _ = u.Hello(t.Context(), nil)
		synctest.Wait()
		f(t, u, log)
	})
}

// TestConcurrentOpensAreOneAttempt checks that the log counts one attempt if two clients with
// different capabilities open a server at the same time.
func TestConcurrentOpensAreOneAttempt(t *testing.T) {
	h := &program{legacy: true}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		log := &journal{}
		u.opts.Log = log.logger()
		u.KeepOpen(true)
		var both sync.WaitGroup
		for _, capabilities := range []string{`{}`, `{"roots":{}}`} {
			both.Go(func() {
				if _, err := u.Hello(t.Context(), &mcp.ClientInfo{Capabilities: []byte(capabilities)}); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		synctest.Wait()
		if n := h.starts(); n != 2 {
			t.Errorf("%d processes were started, want 2", n)
		}
		if text := log.String(); !strings.Contains(text, "attempts=1 for=initialize\n") || strings.Contains(text, "attempts=2") {
			t.Errorf("the log is %s", text)
		}
	})
}

// TestServerComesBackByItself checks a server that cannot be opened at first and becomes ready
// without a call. The status counts the failures and shows the time of the next attempt. The log
// says how long the server was not available. Options.Changed is called, because the lists may
// have changed.
func TestServerComesBackByItself(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			h := &program{legacy: era == "legacy", modern: era == "modern", fails: func(n int) bool { return n <= 4 }}
			h.on = func(_ *process, m *jsonrpc.Message) []byte {
				if m.Method == mcp.MethodListen {
					return silent // the listen stays open
				}
				return nil
			}
			var changed atomic.Int32
			synctest.Test(t, func(t *testing.T) {
				u := h.open(Spec{})
				log := &journal{}
				u.opts.Log, u.opts.Changed = log.logger(), func(kind string) {
					if kind == "" {
						changed.Add(1)
					}
				}
				u.KeepOpen(true)
				if _, err := u.Hello(t.Context(), nil); err == nil {
					t.Fatal("the first open succeeded")
				}
				for failures := 1; failures <= 4; failures++ {
					s := u.Status()
					if s.State != Broken || s.Attempts != failures || s.Reason == "" || !s.Retry.After(time.Now()) {
						t.Fatalf("the status after %d failures is %+v", failures, s)
					}
					time.Sleep(time.Until(s.Retry))
					synctest.Wait()
				}
				if s := u.Status(); s.State != Ready || s.Attempts != 0 || !s.Retry.IsZero() || s.Sessions != 1 {
					t.Errorf("the status at the end is %+v", s)
				}
				if n := changed.Load(); n != 1 {
					t.Errorf("Changed was called %d times", n)
				}
				if text := log.String(); strings.Count(text, `msg="server ready"`) != 1 || !strings.Contains(text, "attempts=5") {
					t.Errorf("the log is %s", text)
				}
				n := h.starts()
				time.Sleep(10 * time.Minute)
				if h.starts() != n {
					t.Error("a server that is ready was opened again")
				}
				u.Close(t.Context())
				synctest.Wait()
				if n := h.alive(); n != 0 {
					t.Errorf("%d processes are left", n)
				}
			})
		})
	}
}

// TestKilledServerIsStartedAgain kills a server three times. Each time, Dragoman starts it again
// within a second, without a call.
func TestKilledServerIsStartedAgain(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		h := &program{legacy: era == "legacy", modern: era == "modern"}
		t.Run(era, func(t *testing.T) {
			keptOpen(t, h, Spec{}, func(t *testing.T, u *Upstream, log *journal) {
				for i := range 3 {
					time.Sleep(2 * steady)
					h.kill()
					synctest.Wait()
					s := u.Status()
					if s.State != Broken || s.Failure == nil || s.Attempts != 1 || s.Retry.IsZero() {
						t.Errorf("the status after kill %d is %+v", i, s)
					}
					time.Sleep(time.Second)
					synctest.Wait()
					if s := u.Status(); s.State != Ready || s.Sessions != 1 || h.alive() != 1 {
						t.Errorf("the status a second after kill %d is %+v", i, s)
					}
				}
				if n := strings.Count(log.String(), `msg="server ready"`); n != 4 {
					t.Errorf("ready was logged %d times: %s", n, log)
				}
			})
		})
	}
}

// TestOnlyTheHomeSessionIsOpenedAgain checks that Dragoman opens only the home session again in
// the background. It opens sessions for other clients and exclusive sessions only when calls need
// them.
func TestOnlyTheHomeSessionIsOpenedAgain(t *testing.T) {
	h := &program{legacy: true}
	f := info(mcp.R20260728, "anna", canElicit, 0)
	keptOpen(t, h, Spec{}, func(t *testing.T, u *Upstream, _ *journal) {
		release := make(chan struct{})
		h.on = held(release)
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() { _, _ = call(t, u, f, mcp.MethodCallTool, `{"name":"t"}`) })
			synctest.Wait()
		}
		if n := h.alive(); n != 4 {
			t.Fatalf("there are %d sessions, want one and three of another client", n)
		}
		home, others := h.all()[0], h.all()[1:]
		for _, l := range others[1:] {
			_ = l.pipe.Close()
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := h.alive(); n != 2 || u.Status().State != Ready {
			t.Errorf("%d sessions after two of four have ended, %+v", n, u.Status())
		}
		_ = home.pipe.Close()
		_ = others[0].pipe.Close()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := h.alive(); n != 1 || u.Status().State != Ready {
			t.Errorf("%d sessions after all have ended, %+v", n, u.Status())
		}
		close(release)
		wait.Wait()
	})
}

// exitsAtOnce answers the handshake and then closes the pipe.
func exitsAtOnce(l *process, m *jsonrpc.Message) []byte {
	if m.Method != mcp.MethodInitialize {
		return nil
	}
	_ = l.pipe.Write(ok(m, `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"h","version":"1"}}`))
	_ = l.pipe.Close()
	return silent
}

// TestServerThatExitsAtOnceIsNotStartedInALoop checks that the pauses between starts grow to five
// minutes, even if clients call all the time. After the server has been stable, the next pause is
// short again.
func TestServerThatExitsAtOnceIsNotStartedInALoop(t *testing.T) {
	for _, calls := range []bool{false, true} {
		name := map[bool]string{false: "nobody calls", true: "clients call"}[calls]
		t.Run(name, func(t *testing.T) {
			var repaired atomic.Bool
			h := &program{legacy: true, on: func(l *process, m *jsonrpc.Message) []byte {
				if repaired.Load() {
					return nil
				}
				return exitsAtOnce(l, m)
			}}
			keptOpen(t, h, Spec{}, func(t *testing.T, u *Upstream, log *journal) {
				var wait sync.WaitGroup
				ctx, stop := context.WithCancel(t.Context())
				if calls {
					for i := range 5 {
						wait.Go(func() {
							for ctx.Err() == nil {
								_, err := call(t, u, info(mcp.R20251125, "", "{}", uint64(i+1)), mcp.MethodCallTool, `{"name":"t"}`)
								if e := (*mcp.Error)(nil); err == nil || !errors.As(err, &e) {
									t.Errorf("got %v", err)
								}
								time.Sleep(time.Second)
							}
						})
					}
				}
				const half = 30 * time.Minute
				time.Sleep(half)
				first := h.starts()
				time.Sleep(half)
				synctest.Wait()
				// A call may try again a minute after a failure, and the background after 150 s
				// to 300 s.
				most := int(half/(150*time.Second)) + 1
				if calls {
					most = int(half/(30*time.Second)) + 1
				}
				if got := h.starts() - first; got > most || got < int(half/(5*time.Minute))-1 {
					t.Errorf("%d starts in %s, want at most %d", got, half, most)
				}
				if s := u.Status(); s.State == Ready || s.Attempts < 10 {
					t.Errorf("%+v", s)
				}
				stop()
				wait.Wait()
				repaired.Store(true)
				time.Sleep(6 * time.Minute)
				synctest.Wait()
				if s := u.Status(); s.State != Ready || h.alive() != 1 {
					t.Fatalf("the status after the repair is %+v", s)
				}
				time.Sleep(steady)
				h.kill()
				time.Sleep(time.Second)
				synctest.Wait()
				if s := u.Status(); s.State != Ready {
					t.Errorf("the number of failures was not reset: %+v", s)
				}
			})
		})
	}
}

// TestCallMayTryBeforeTheBackground checks that a call may open a server before the next attempt
// in the background is due. The background then makes no further attempt.
func TestCallMayTryBeforeTheBackground(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	h := &program{legacy: true, fails: func(int) bool { return down.Load() }}
	keptOpen(t, h, Spec{}, func(t *testing.T, u *Upstream, _ *journal) {
		time.Sleep(time.Hour)
		synctest.Wait()
		for u.Status().Retry.Before(time.Now().Add(maxCallPause + time.Second)) {
			time.Sleep(time.Second)
		}
		down.Store(false)
		if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err == nil {
			time.Sleep(maxCallPause)
		}
		time.Sleep(maxCallPause)
		if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
			t.Error(err)
		}
		if s := u.Status(); s.State != Ready || !s.Retry.IsZero() {
			t.Errorf("%+v", s)
		}
	})
}

// TestServerThatIsNotKeptOpenWaitsForCalls checks that only calls start a server that is not kept
// open, even after the server has exited or failed.
func TestServerThatIsNotKeptOpenWaitsForCalls(t *testing.T) {
	h := &program{legacy: true}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
			t.Fatal(err)
		}
		h.kill()
		time.Sleep(time.Hour)
		if n := h.starts(); n != 1 || u.Status().State != Idle {
			t.Errorf("the server was started %d times, and its status is %+v", n, u.Status())
		}
		u.KeepOpen(true) // a reload does the same
		time.Sleep(time.Second)
		synctest.Wait()
		if s := u.Status(); s.State != Ready || h.alive() != 1 {
			t.Errorf("%+v", s)
		}
		u.KeepOpen(false)
		h.kill()
		time.Sleep(time.Hour)
		if n := h.starts(); n != 2 {
			t.Errorf("the server was started %d times", n)
		}
	})
}

// TestSessionsOfOneCallAreNotOpenedAgain checks a server with isolation "call". The end of a
// session concerns only one call, so the session is not opened again. Only a failed attempt to
// open a session is repeated.
func TestSessionsOfOneCallAreNotOpenedAgain(t *testing.T) {
	h := &program{legacy: true, fails: func(n int) bool { return n == 1 }}
	keptOpen(t, h, Spec{Isolation: PerCall}, func(t *testing.T, u *Upstream, _ *journal) {
		time.Sleep(time.Second)
		synctest.Wait()
		if s := u.Status(); s.State != Ready || h.starts() != 2 {
			t.Fatalf("the status is %+v after %d starts", s, h.starts())
		}
		h.on = func(l *process, m *jsonrpc.Message) []byte {
			if m.Method == mcp.MethodCallTool {
				_ = l.pipe.Close()
				return silent
			}
			return nil
		}
		for range 3 {
			_, _ = call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`)
		}
		n := h.starts()
		time.Sleep(time.Hour)
		if h.starts() != n || h.alive() != 0 {
			t.Errorf("the server was started %d times for the calls, and %d times after an hour", n, h.starts())
		}
	})
}

// TestFailedLaneDoesNotMakeTheServerFailed checks that the server stays ready if an additional,
// exclusive session cannot be opened.
func TestFailedLaneDoesNotMakeTheServerFailed(t *testing.T) {
	h := &program{legacy: true, fails: func(n int) bool { return n > 1 }}
	keptOpen(t, h, Spec{}, func(t *testing.T, u *Upstream, _ *journal) {
		if _, err := call(t, u, info(mcp.R20251125, "anna", canElicit, 1), mcp.MethodCallTool, `{"name":"t"}`); err == nil {
			t.Error("the second session was opened")
		}
		if s := u.Status(); s.State != Ready || s.Attempts != 0 {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Hour)
		if n := h.starts(); n != 2 {
			t.Errorf("the server was started %d times", n)
		}
	})
}

// TestHTTPServerThatWasAwayIsNoticed checks an HTTP server that stops silently. When a call fails
// or a stream from the server ends, Dragoman notices that the server has stopped. It notices
// without a call that the server is back.
func TestHTTPServerThatWasAwayIsNoticed(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct{ modern, stream bool }{"legacy": {}, "modern": {modern: true}, "legacy with a stream": {stream: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var streams atomic.Int32
			answers := func(w http.ResponseWriter, r *http.Request) {
				h := &program{legacy: !how.modern, modern: how.modern}
				switch {
				case r.Method == http.MethodGet && how.stream:
					w.Header().Set("Content-Type", "text/event-stream")
					_ = http.NewResponseController(w).Flush()
					streams.Add(1)
					<-r.Context().Done()
					return
				case r.Method != http.MethodPost:
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				b := make([]byte, r.ContentLength)
				for n := 0; n < len(b); {
					k, err := r.Body.Read(b[n:])
					if n += k; err != nil {
						break
					}
				}
				m, err := jsonrpc.Scan(b, jsonrpc.Limits{})
				if err != nil || m.Kind != jsonrpc.Request {
					w.WriteHeader(http.StatusAccepted)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(h.usual(nil, m))
			}
			web := httptest.NewServer(http.HandlerFunc(answers))
			address := web.Listener.Addr().String()
			log := &journal{}
			u := New(Spec{Name: "web", URL: web.URL + "/mcp", Kind: "http"}, Options{Log: log.logger()})
			defer u.Close(context.Background())
			u.KeepOpen(true)
			if _, err := u.Hello(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			wait := func(what string, is func(Status) bool) {
				t.Helper()
				for end := time.Now().Add(time.Minute); !is(u.Status()); time.Sleep(10 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("%s: %+v\n%s", what, u.Status(), log)
					}
				}
			}
			for end := time.Now().Add(time.Minute); how.stream && streams.Load() == 0; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the server has no stream open")
				}
			}
			_ = web.Listener.Close()
			web.CloseClientConnections()
			web.Close()
			if !how.stream {
				if _, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`); err == nil {
					t.Error("a call succeeded although the server is away")
				}
			}
			wait("it is away", func(s Status) bool { return s.State == Broken && s.Attempts > 0 })
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Skipf("the port of the server is in use: %v", err)
			}
			again := &http.Server{Handler: http.HandlerFunc(answers)}
			var serving sync.WaitGroup
			serving.Go(func() { _ = again.Serve(l) })
			defer serving.Wait()
			defer again.Close()
			wait("it is back", func(s Status) bool { return s.State == Ready })
			if !strings.Contains(log.String(), `msg="server ready"`) {
				t.Errorf("the log is %s", log)
			}
		})
	}
}

// TestReadySince checks that Status.Since does not change when a session for a client with
// other capabilities is opened, or cannot be opened.
func TestReadySince(t *testing.T) {
	h := &program{legacy: true, fails: func(n int) bool { return n == 3 }}
	keptOpen(t, h, Spec{}, func(t *testing.T, u *Upstream, _ *journal) {
		began := u.Status().Since
		for n, caps := range []string{`{"roots":{}}`, `{"sampling":{}}`} {
			time.Sleep(10 * time.Second)
			_, err := u.Hello(t.Context(), &mcp.ClientInfo{Capabilities: []byte(caps)})
			if h.starts() != n+2 || (err == nil) != (n == 0) {
				t.Fatalf("%s: the server was started %d times, %v", caps, h.starts(), err)
			}
			synctest.Wait()
			if s := u.Status(); s.State != Ready || !s.Since.Equal(began) {
				t.Errorf("%s: the state is %s since %s, want since %s", caps, s.State, s.Since, began)
			}
		}
	})
}

// TestRepeatedFailureIsOneShortLine checks that only the first log record of a failure contains
// the sentence and the evidence. A different failure gets a full record again.
func TestRepeatedFailureIsOneShortLine(t *testing.T) {
	h := &program{legacy: true, fails: func(n int) bool { return n <= 4 }}
	keptOpen(t, h, Spec{}, func(t *testing.T, u *Upstream, log *journal) {
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		text := log.String()
		if n := strings.Count(text, `msg="server could not be opened"`); n != 1 || strings.Count(text, "sentence=") != 1 {
			t.Errorf("there are %d full records: %s", n, text)
		}
		for line := range strings.Lines(text) {
			if strings.Contains(line, `msg="server could still not be opened"`) && (len(line) > 200 || !strings.Contains(line, " class=") || !strings.Contains(line, " retry_in=")) {
				t.Errorf("the record of a repeated failure is %s", line)
			}
		}
		if n := strings.Count(text, `msg="server could still not be opened"`); n != 3 || !strings.Contains(text, "attempts=4 ") {
			t.Errorf("there are %d short records: %s", n, text)
		}
	})
	if (Fault{}).same(&failure.Failure{}) {
		t.Error("the zero Fault counts as a repeat")
	}
	f := &failure.Failure{Class: failure.Exited, Sentence: "a", Evidence: []string{"12:01"}}
	for g, want := range map[*failure.Failure]bool{
		{Class: failure.Exited, Sentence: "a", Evidence: []string{"12:02"}}: true,
		{Class: failure.Exited, Sentence: "b"}:                              false,
		{Class: failure.Exited, Sentence: "a", Action: "c"}:                 false,
	} {
		if (Fault{Text: f.Sentence, Failure: f}).same(g) != want {
			t.Errorf("%+v", g)
		}
	}
}
