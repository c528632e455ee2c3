package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// pinged runs f in a synctest bubble with a server that has answered one call. If spec.Ping is 0,
// Dragoman pings the server every 30 s.
func pinged(t *testing.T, h *program, spec Spec, f func(t *testing.T, u *Upstream, log *journal, events *eventList)) {
	synctest.Test(t, func(t *testing.T) {
		spec.Name, spec.Pipe = "h", h.dial
		if spec.Ping == 0 {
			spec.Ping = 30 * time.Second
		}
		log, events := &journal{}, &eventList{}
		p := &event.Publisher{}
		defer p.Tap(event.Of(event.Lifecycle), events.add)()
		u := New(spec, Options{Info: []byte(`{"name":"dragoman","version":"1"}`), Log: log.logger(), Events: p})
		if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
			t.Fatal(err)
		}
		f(t, u, log, events)
		u.Close(t.Context())
	})
}

// eventList collects the details of lifecycle events, but not empty details.
type eventList struct {
	mu  sync.Mutex
	all []string
}

func (l *eventList) add(e event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Detail != "" {
		l.all = append(l.all, e.Detail)
	}
}

// count returns how many details begin with text.
func (l *eventList) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.all {
		if strings.HasPrefix(d, text) {
			n++
		}
	}
	return n
}

// after sleeps for d and returns the status of the server.
func after(u *Upstream, d time.Duration) Status {
	time.Sleep(d)
	synctest.Wait()
	return u.Status()
}

// unanswered makes the program ignore pings while hangs is true.
func unanswered(h *program, hangs *atomic.Bool) {
	h.on = func(_ *process, m *jsonrpc.Message) []byte {
		if m.Method == mcp.MethodPing && hangs.Load() {
			return silent
		}
		return nil
	}
}

// answers returns the answer of a process to a message. If it returns nil, the process sends the
// default answer.
type answers = func(*process, *jsonrpc.Message) []byte

// changeable returns a legacy program, and a function that changes how it answers.
func changeable() (h *program, change func(answers)) {
	var on atomic.Pointer[answers]
	h = &program{legacy: true, on: func(l *process, m *jsonrpc.Message) []byte {
		if f := on.Load(); f != nil {
			return (*f)(l, m)
		}
		return nil
	}}
	return h, func(f answers) { on.Store(&f) }
}

func TestIdleSessionsArePinged(t *testing.T) {
	h := &program{legacy: true}
	pinged(t, h, Spec{}, func(t *testing.T, u *Upstream, log *journal, _ *eventList) {
		if s := after(u, 5*time.Minute); s.State != Ready {
			t.Errorf("%+v", s)
		}
		if n := h.count(mcp.MethodPing); n < 8 || n > 12 {
			t.Errorf("%d pings in five minutes", n)
		}
		if strings.Contains(log.String(), "does not answer") {
			t.Error(log)
		}
		// Pings do not delay the end of an idle session.
		if s := after(u, homeIdle); s.Sessions != 0 {
			t.Errorf("%+v", s)
		}
		n := h.count(mcp.MethodPing)
		if after(u, time.Hour); h.count(mcp.MethodPing) != n {
			t.Error("pings without a session")
		}
	})
}

// TestQuietIsMeasured checks that Dragoman pings a session only after a quiet time. Calls and
// messages from the server postpone the ping.
func TestQuietIsMeasured(t *testing.T) {
	h := &program{legacy: true}
	pinged(t, h, Spec{}, func(t *testing.T, u *Upstream, _ *journal, _ *eventList) {
		for range 10 {
			after(u, 20*time.Second)
			if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 {
			after(u, 20*time.Second)
			_ = h.all()[0].pipe.Write([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`))
		}
		synctest.Wait()
		if n := h.count(mcp.MethodPing); n != 0 {
			t.Errorf("%d pings of a session that was not quiet", n)
		}
	})
}

func TestIdleServerThatHangsIsUnresponsive(t *testing.T) {
	var hangs atomic.Bool
	h := &program{legacy: true}
	unanswered(h, &hangs)
	pinged(t, h, Spec{}, func(t *testing.T, u *Upstream, log *journal, events *eventList) {
		u.KeepOpen(true)
		hangs.Store(true)
		s := after(u, 44*time.Second)
		if s.State != Unresponsive || s.Failure == nil || !strings.Contains(s.Reason, "does not answer a ping within 10s") {
			t.Fatalf("%+v", s)
		}
		if r := u.Report(); r.Fault.Text != s.Reason {
			t.Errorf("%+v", r.Fault)
		}
		// Dragoman does not end the process, and reports the state only once.
		if s := after(u, 10*time.Minute); s.State != Unresponsive || h.alive() != 1 || len(h.all()) != 1 {
			t.Errorf("%+v, %d processes", s, len(h.all()))
		}
		if n := h.count(mcp.MethodPing); n < 30 || n > 50 {
			t.Errorf("%d pings in ten minutes", n)
		}
		hangs.Store(false)
		if s := after(u, 16*time.Second); s.State != Ready || s.Failure != nil {
			t.Errorf("%+v", s)
		}
		if n := strings.Count(log.String(), "server does not answer"); n != 1 || strings.Count(log.String(), "server answers again") != 1 {
			t.Error(log)
		}
		if events.count("does not answer: server") != 1 || events.count("answers again") != 1 {
			t.Errorf("%q", events.all)
		}
	})
}

// TestAnyMessageEndsTheUnresponsiveState checks that a server is ready again as soon as it sends
// any message on its pipe, and unresponsive again if nothing follows the message.
func TestAnyMessageEndsTheUnresponsiveState(t *testing.T) {
	var hangs atomic.Bool
	h := &program{legacy: true}
	unanswered(h, &hangs)
	pinged(t, h, Spec{}, func(t *testing.T, u *Upstream, _ *journal, _ *eventList) {
		hangs.Store(true)
		if s := after(u, time.Minute); s.State != Unresponsive {
			t.Fatalf("%+v", s)
		}
		_ = h.all()[0].pipe.Write([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`))
		if s := after(u, time.Millisecond); s.State != Ready {
			t.Errorf("%+v", s)
		}
		if s := after(u, time.Minute); s.State != Unresponsive {
			t.Errorf("after a minute without a further message: %+v", s)
		}
	})
}

// TestCallsOfAnUnresponsiveServer checks that a call does not go to an unresponsive process. If such a
// process was needed and stays hung, Dragoman ends it after the usual time.
func TestCallsOfAnUnresponsiveServer(t *testing.T) {
	var hangs atomic.Bool
	h := &program{legacy: true}
	stopped(h, &hangs)
	pinged(t, h, Spec{}, func(t *testing.T, u *Upstream, _ *journal, _ *eventList) {
		hangs.Store(true)
		if s := after(u, time.Minute); s.State != Unresponsive {
			t.Fatalf("%+v", s)
		}
		if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err == nil {
			t.Error("the call got an answer")
		}
		if after(u, 2*time.Minute); h.alive() != 0 {
			t.Error("the process is left")
		}
		hangs.Store(false)
		if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
			t.Error(err)
		}
		if s := after(u, time.Minute); s.State != Ready {
			t.Errorf("%+v", s)
		}
	})
}

// TestAnErrorIsAnAnswerToAPing checks that a server that answers pings with an error stays ready.
func TestAnErrorIsAnAnswerToAPing(t *testing.T) {
	h := &program{legacy: true, on: func(_ *process, m *jsonrpc.Message) []byte {
		if m.Method == mcp.MethodPing {
			return jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"})
		}
		return nil
	}}
	pinged(t, h, Spec{}, func(t *testing.T, u *Upstream, log *journal, _ *eventList) {
		if s := after(u, 5*time.Minute); s.State != Ready || h.count(mcp.MethodPing) < 8 || strings.Contains(log.String(), "does not answer") {
			t.Errorf("%+v, %d pings\n%s", s, h.count(mcp.MethodPing), log)
		}
	})
}

// TestBusyServerIsNotUnresponsive checks that a server may ignore a ping while it executes a call
// that began after the ping.
func TestBusyServerIsNotUnresponsive(t *testing.T) {
	h, change := changeable()
	// Silence is longer than the ping may take, so that only the ping of the idle server is tested.
	pinged(t, h, Spec{Silence: 15 * time.Second}, func(t *testing.T, u *Upstream, log *journal, _ *eventList) {
		release, sent := make(chan struct{}), make(chan struct{})
		calls := held(release)
		var once sync.Once
		change(func(l *process, m *jsonrpc.Message) []byte {
			if m.Method == mcp.MethodPing {
				once.Do(func() { close(sent) })
				return silent
			}
			return calls(l, m)
		})
		<-sent
		var wait sync.WaitGroup
		wait.Go(func() { _, _ = call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`) })
		if s := after(u, 12*time.Second); s.State != Ready {
			t.Errorf("%+v\n%s", s, log)
		}
		close(release)
		wait.Wait()
	})
}

// TestServersWithoutPing checks servers that Dragoman cannot ping although the operator has set a
// ping interval. The log contains the reason once.
func TestServersWithoutPing(t *testing.T) {
	for name, c := range map[string]struct {
		h    *program
		spec Spec
		why  string
	}{
		"revision": {&program{modern: true}, Spec{}, "revision has no ping"},
		"dialect":  {&program{legacy: true}, Spec{Dialect: &dialect.Profile{Name: "mine", Never: []string{"ping"}}}, "dialect has no ping"},
	} {
		t.Run(name, func(t *testing.T) {
			pinged(t, c.h, c.spec, func(t *testing.T, u *Upstream, log *journal, _ *eventList) {
				discovers := c.h.count(mcp.MethodDiscover)
				if s := after(u, 10*time.Minute); s.State != Ready {
					t.Errorf("%+v", s)
				}
				if c.h.count(mcp.MethodPing) != 0 || c.h.count(mcp.MethodDiscover) != discovers {
					t.Errorf("the server got %q", c.h.all()[0].methods())
				}
				_ = c.h.all()[0].pipe.Close()
				after(u, time.Minute)
				if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
					t.Fatal(err)
				}
				if text := log.String(); strings.Count(text, "server is not pinged") != 1 || !strings.Contains(text, c.why) {
					t.Error(text)
				}
			})
		})
	}
}

// TestPingIntervalChanges checks that a running session uses a changed ping interval.
func TestPingIntervalChanges(t *testing.T) {
	h := &program{legacy: true}
	pinged(t, h, Spec{Ping: time.Hour}, func(t *testing.T, u *Upstream, _ *journal, _ *eventList) {
		u.SetTimes(Times{Ping: 10 * time.Second})
		after(u, time.Minute)
		n := h.count(mcp.MethodPing)
		if n < 4 || n > 7 {
			t.Errorf("%d pings in a minute", n)
		}
		u.SetTimes(Times{})
		if after(u, 5*time.Minute); h.count(mcp.MethodPing) != n {
			t.Error("pings after they were turned off")
		}
	})
}

// TestServerThatDoesNotReadIsNotPinged checks that only a few pings wait for a server that does
// not read.
func TestServerThatDoesNotReadIsNotPinged(t *testing.T) {
	h, change := changeable()
	h.link = links["stdio"]
	pinged(t, h, Spec{}, func(t *testing.T, u *Upstream, _ *journal, _ *eventList) {
		reads := make(chan struct{})
		change(func(_ *process, m *jsonrpc.Message) []byte {
			if m.Method == mcp.MethodPing {
				<-reads
			}
			return nil
		})
		if s := after(u, 10*time.Minute); s.State != Unresponsive {
			t.Errorf("%+v", s)
		}
		close(reads)
		if s := after(u, 20*time.Second); s.State != Ready {
			t.Errorf("%+v", s)
		}
		if n := h.count(mcp.MethodPing); n > 6 {
			t.Errorf("%d pings were waiting", n)
		}
	})
}

// webServer is a legacy server over Streamable HTTP at /mcp and over HTTP+SSE at /sse. While hangs
// is true, it does not answer pings.
type webServer struct {
	h     program
	hangs atomic.Bool
	lost  atomic.Bool // all requests except initialize get the status of a lost session
	begun atomic.Int32

	mu     sync.Mutex
	stream http.ResponseWriter
}

func (s *webServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if r.URL.Path != "/sse" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		s.mu.Lock()
		s.stream = w
		s.mu.Unlock()
		s.event("endpoint", "/messages")
		<-r.Context().Done()
		s.mu.Lock()
		s.stream = nil // net/http takes it back
		s.mu.Unlock()
		return
	}
	b, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Scan(b, jsonrpc.Limits{})
	var answer []byte
	switch {
	case r.Method != http.MethodPost || err != nil:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case m.Kind != jsonrpc.Request:
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == mcp.MethodInitialize:
		s.begun.Add(1)
		s.lost.Store(false)
	case s.lost.Load():
		w.WriteHeader(http.StatusNotFound)
		return
	case m.Method == mcp.MethodPing && s.hangs.Load() && r.URL.Path == "/mcp":
		<-r.Context().Done()
		return
	case m.Method == mcp.MethodPing && s.hangs.Load():
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer = s.h.usual(nil, m)
	if r.URL.Path == "/mcp" {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "one")
		_, _ = w.Write(answer)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	s.event("message", string(answer))
}

// event sends an event on the stream of HTTP+SSE.
func (s *webServer) event(name, data string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream == nil {
		return
	}
	_, _ = fmt.Fprintf(s.stream, "event: %s\ndata: %s\n\n", name, data)
	_ = http.NewResponseController(s.stream).Flush()
}

// until polls the status until the state is one of states.
func until(t *testing.T, u *Upstream, log *journal, states ...State) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !slices.Contains(states, u.Status().State); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not %q: %+v\n%s", states, u.Status(), log)
		}
	}
}

// TestPingsOverHTTP checks that an idle server over each HTTP transport becomes unresponsive, and
// ready again. The interval is short, so a slow machine may make the server unresponsive for a
// moment. So the test waits for each state, and never expects a state at a certain time.
func TestPingsOverHTTP(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"http", "sse"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := &webServer{h: program{legacy: true}}
			web := httptest.NewServer(s)
			defer web.Close()
			log := &journal{}
			path := map[string]string{"http": "/mcp", "sse": "/sse"}[kind]
			u := New(Spec{Name: "web", URL: web.URL + path, Kind: kind, Ping: 100 * time.Millisecond}, Options{Log: log.logger()})
			defer web.CloseClientConnections()
			defer u.Close(context.Background())
			if _, err := u.Hello(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			s.hangs.Store(true)
			until(t, u, log, Unresponsive)
			s.hangs.Store(false)
			until(t, u, log, Ready)
			s.hangs.Store(true)
			until(t, u, log, Unresponsive)
			// A call must get its answer even if the server does not answer pings.
			if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Fatal(err)
			}
			s.hangs.Store(false)
			until(t, u, log, Ready)
			if n := s.begun.Load(); n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// TestPingFindsALostSession checks that a ping notices that an HTTP server no longer knows the
// session. Dragoman then opens another session. A ping also notices that the server cannot be
// reached.
func TestPingFindsALostSession(t *testing.T) {
	t.Parallel()
	s := &webServer{h: program{legacy: true}}
	web := httptest.NewServer(s)
	defer web.Close()
	log := &journal{}
	u := New(Spec{Name: "web", URL: web.URL + "/mcp", Kind: "http", Ping: 100 * time.Millisecond}, Options{Log: log.logger()})
	defer u.Close(context.Background())
	u.KeepOpen(true)
	if _, err := u.Hello(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	s.lost.Store(true)
	for end := time.Now().Add(time.Minute); s.begun.Load() < 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the session was not opened again: %+v\n%s", u.Status(), log)
		}
	}
	until(t, u, log, Ready)
	_ = web.Listener.Close()
	web.CloseClientConnections()
	until(t, u, log, Broken)
}

// TestAPingThatFailsLeavesCallsAlone lets a ping fail while a call runs in the same session, which began
// after the ping was sent. The call must get its answer.
func TestAPingThatFailsLeavesCallsAlone(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]func(w http.ResponseWriter){
		"the session is lost": func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
		"cut":                 func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"500":                 func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := program{legacy: true}
			pinged, failed, running, release := make(chan struct{}, 1), make(chan struct{}), make(chan struct{}), make(chan struct{})
			var opened, pings atomic.Int64
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
				first := r.Header.Get("Mcp-Session-Id") == "1"
				switch {
				case r.Method != http.MethodPost || err != nil:
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				case m.Kind != jsonrpc.Request:
					w.WriteHeader(http.StatusAccepted)
					return
				case m.Method == mcp.MethodInitialize:
					w.Header().Set("Mcp-Session-Id", fmt.Sprint(opened.Add(1)))
				case first && m.Method == mcp.MethodPing:
					if pings.Add(1) == 1 {
						pinged <- struct{}{}
						<-running
						defer close(failed)
					}
					fails(w)
					return
				case first && string(m.Param("name").Of(m.Raw)) == `"slow"`:
					close(running)
					<-release
				}
				say(w, 200, string(h.usual(nil, m)))
			}))
			defer web.Close()
			u := New(Spec{Name: "web", URL: web.URL + "/mcp", Kind: "http", Ping: 20 * time.Millisecond}, Options{})
			defer u.Close(context.Background())
			if _, err := u.Hello(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			<-pinged
			answered := make(chan error, 1)
			go func() {
				_, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"slow"}`)
				answered <- err
			}()
			<-failed
			for range 20 { // gives Dragoman the time to take the failure in
				if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
					t.Error(err)
				}
			}
			close(release)
			if err := <-answered; err != nil {
				t.Error(err)
			}
		})
	}
}
