package upstream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// bubble opens a server and runs f in a synctest bubble. Then it closes the server and checks that
// no process is left.
func bubble(t *testing.T, h *program, spec Spec, f func(t *testing.T, u *Upstream)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		u := h.open(spec)
		f(t, u)
		u.Close(t.Context())
		synctest.Wait()
		if n := h.alive(); n != 0 {
			t.Errorf("%d processes are left after Close", n)
		}
	})
}

var (
	modernClient = info(mcp.R20260728, "", "{}", 0)
	legacyClient = info(mcp.R20251125, "", "{}", 1)
)

// held delays the answers to tools/call until release is closed.
func held(release <-chan struct{}) func(*process, *jsonrpc.Message) []byte {
	return func(l *process, m *jsonrpc.Message) []byte {
		if m.Method != mcp.MethodCallTool {
			return nil
		}
		go func() {
			<-release
			_ = l.pipe.Write(ok(m, `{"content":[]}`))
		}()
		return silent
	}
}

func TestTenCallsAtOnceStartOneServer(t *testing.T) {
	h := &program{legacy: true}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		var wait sync.WaitGroup
		for range 10 {
			wait.Go(func() {
				if _, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if n := len(h.all()); n != 1 {
			t.Errorf("the server was started %d times", n)
		}
	})
}

func TestFailuresInARowAreFurtherAndFurtherApart(t *testing.T) {
	h := &program{legacy: true, fails: func(n int) bool { return n <= 9 }}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		start := time.Now()
		for time.Since(start) < 5*time.Minute {
			if _, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`); err == nil {
				break
			} else if e := (*mcp.Error)(nil); !errors.As(err, &e) || e.Outcome != mcp.NotSent {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(h.tries); n != 10 {
			t.Fatalf("%d attempts were made", n)
		}
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} { // maximum pauses in seconds; jitter makes each pause up to half shorter
			const step = 100 * time.Millisecond
			want *= time.Second
			if got := h.tries[i+1].Sub(h.tries[i]); got > want+step || got < want/2 {
				t.Errorf("the pause after failure %d was %s, want %s to %s", i+1, got, want/2, want)
			}
		}
		if s := u.Status(); s.State != Ready {
			t.Errorf("%+v", s)
		}
	})
}

func TestCallsThatMayBeAskedHaveLanesOfTheirOwn(t *testing.T) {
	h := &program{legacy: true}
	f := info(mcp.R20260728, "", canElicit, 0)
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		release := make(chan struct{})
		h.on = held(release)
		var wait sync.WaitGroup
		start := func() {
			wait.Go(func() {
				if _, err := call(t, u, f, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		start()
		// Lists use the exclusive session, but do not release it.
		for range 3 {
			if _, _, err := u.List(t.Context(), f, mcp.MethodListTools); err != nil {
				t.Error(err)
			}
		}
		start()
		if n := h.alive(); n != 2 {
			t.Errorf("there are %d sessions for two calls", n)
		}
		for i, l := range h.all() {
			if n := len(slices.DeleteFunc(l.methods(), func(m string) bool { return m != mcp.MethodCallTool })); n != 1 {
				t.Errorf("session %d has %d calls", i, n)
			}
		}
		close(release)
		wait.Wait()
		time.Sleep(exclusiveIdle - time.Second)
		synctest.Wait()
		if n := h.alive(); n != 2 {
			t.Errorf("there are %d sessions shortly after the calls", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := h.alive(); n != 1 {
			t.Errorf("there are %d sessions when they are idle", n)
		}
	})
}

func TestLanesAreBounded(t *testing.T) {
	h := &program{legacy: true}
	f := info(mcp.R20260728, "", canElicit, 0)
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		release := make(chan struct{})
		h.on = held(release)
		var wait sync.WaitGroup
		for range maxSessionsPerPool + 4 {
			wait.Go(func() {
				if _, err := call(t, u, f, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := len(h.all()); n != maxSessionsPerPool {
			t.Errorf("there are %d sessions", n)
		}
		close(release)
		wait.Wait()
	})
}

func TestPrincipalsAndCapabilitiesKeepSessionsApart(t *testing.T) {
	h := &program{legacy: true}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		for i, x := range []struct {
			f    *mcp.ClientInfo
			want int
		}{
			{info(mcp.R20260728, "a", "{}", 0), 1}, {info(mcp.R20260728, "a", `{"experimental":{}}`, 0), 1},
			{info(mcp.R20260728, "b", "{}", 0), 2}, {info(mcp.R20260728, "a", canElicit, 0), 3},
			{info(mcp.R20251125, "a", canElicit, 4), 3}, {info(mcp.R20251125, "b", canElicit, 5), 4},
		} {
			if _, err := call(t, u, x.f, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Fatal(err)
			}
			if n := len(h.all()); n != x.want {
				t.Errorf("after client %d there are %d sessions, want %d", i, n, x.want)
			}
		}
	})
}

// TestSeatsKeepSessionsApart checks that two keys of one user are two seats, which have
// separate sessions.
func TestSeatsKeepSessionsApart(t *testing.T) {
	h := &program{legacy: true}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		for i, seat := range []string{"key 1", "key 2", "key 1"} {
			f := info(mcp.R20260728, "", "{}", 0)
			f.Who = &identity.Principal{Subject: "ann", Seat: seat}
			if _, err := call(t, u, f, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Fatal(err)
			}
			if n, want := len(h.all()), min(i+1, 2); n != want {
				t.Errorf("after call %d there are %d sessions, want %d", i, n, want)
			}
		}
	})
}

func TestLegacyClientIsServedWithoutAProbe(t *testing.T) {
	h := &program{legacy: true}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		if _, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(h.all()[0].methods(), " "); got != "initialize notifications/initialized tools/call" {
			t.Errorf("the server got %s", got)
		}
	})
}

func TestServerThatListsTheOldEraAndRefusesItIsNotStartedOverAndOver(t *testing.T) {
	h := &program{modern: true, lists: true}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		if _, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
			t.Fatal(err)
		}
		f := info(mcp.R20251125, "", canElicit, 3)
		for range 20 {
			if _, err := call(t, u, f, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(h.all()); n > 2 {
			t.Errorf("the server was started %d times", n)
		}
	})
}

func TestServerThatDiesOnTheProbeIsStartedOnceMore(t *testing.T) {
	h := &program{legacy: true, dies: true}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		for range 3 {
			if _, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(h.all()); n != 2 {
			t.Errorf("the server was started %d times", n)
		}
	})
}

// TestBridgeThatTheProbeOpensIsStartedOnceMore has a program that opens its own session with the
// first message that it gets, as some bridges from stdio to HTTP do, and then refuses initialize. A
// program that always refuses initialize is started twice for one attempt, and fails as before.
func TestBridgeThatTheProbeOpensIsStartedOnceMore(t *testing.T) {
	bridge := &program{legacy: true}
	bridge.on = func(l *process, m *jsonrpc.Message) []byte {
		if m.Method == mcp.MethodInitialize && slices.Contains(l.methods(), mcp.MethodDiscover) {
			return jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: -32000, Message: "Error POSTing to endpoint (HTTP 400): Invalid Request: Server already initialized"})
		}
		return nil
	}
	bubble(t, bridge, Spec{}, func(t *testing.T, u *Upstream) {
		for _, f := range []*mcp.ClientInfo{modernClient, legacyClient} {
			if _, err := call(t, u, f, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Fatal(err)
			}
		}
		_ = bridge.all()[1].pipe.Close() // the server dies, and the next process gets no probe either
		synctest.Wait()
		time.Sleep(10 * time.Second)
		if _, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
			t.Error(err)
		}
		if n := bridge.count(mcp.MethodDiscover); n != 1 {
			t.Errorf("the program was probed %d times", n)
		}
	})
	var fixed atomic.Bool
	h := &program{modern: true, on: func(_ *process, m *jsonrpc.Message) []byte {
		if fixed.Load() {
			return nil
		}
		return jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: -32000, Message: "no key"})
	}}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		_, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`)
		if err == nil || !strings.Contains(err.Error(), "no key") || len(h.all()) != 2 {
			t.Errorf("%d processes, and %v", len(h.all()), err)
		}
		fixed.Store(true)
		time.Sleep(time.Minute)
		if _, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
			t.Error(err)
		}
	})
}

// crashing returns a handler that makes the first process exit when it gets this method.
func crashing(method string) func(*process, *jsonrpc.Message) []byte {
	return func(l *process, m *jsonrpc.Message) []byte {
		if m.Method != method || l.n > 0 {
			return nil
		}
		_ = l.pipe.Close()
		return silent
	}
}

func TestCallThatACrashCutShortIsNotSentAgain(t *testing.T) {
	h := &program{legacy: true, on: crashing(mcp.MethodCallTool)}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		_, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`)
		var e *mcp.Error
		if !errors.As(err, &e) || e.Outcome != mcp.OutcomeUnknown {
			t.Errorf("got %v", err)
		}
		if n := h.count(mcp.MethodCallTool); n != 1 {
			t.Errorf("the call was sent %d times", n)
		}
		if _, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
			t.Errorf("the next call: %v", err)
		}
		if n := len(h.all()); n != 2 {
			t.Errorf("the server was started %d times", n)
		}
	})
}

func TestReadThatACrashCutShortIsSentAgain(t *testing.T) {
	h := &program{legacy: true, on: crashing(mcp.MethodReadResource)}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		if _, err := call(t, u, modernClient, mcp.MethodReadResource, `{"uri":"x:1"}`); err != nil {
			t.Error(err)
		}
		if n := h.count(mcp.MethodReadResource); n != 2 {
			t.Errorf("the call was sent %d times", n)
		}
	})
}

func TestSubscriptionsComeBackWithTheServer(t *testing.T) {
	h := &program{legacy: true}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		w := u.Subscribe(legacyClient, func(*jsonrpc.Message) {}, nil)
		defer w.Close()
		if _, err := w.Subscribe(t.Context(), "x:1"); err != nil {
			t.Fatal(err)
		}
		_ = h.all()[0].pipe.Close()
		synctest.Wait()
		time.Sleep(5 * time.Second)
		all := h.all()
		if len(all) != 2 || all[1].last(mcp.MethodSubscribe) == "" {
			t.Errorf("the server was started %d times", len(all))
		}
	})
}

// TestResume checks Subscriber.Resume. It does not wait for the server, but subscribes when the
// server is available. It sends no request for a resource that another client already watches. If
// the server refuses a resource, Dragoman publishes a loss and still watches the other resources.
func TestResume(t *testing.T) {
	h := &program{legacy: true, fails: func(n int) bool { return n == 1 }}
	h.on = func(_ *process, m *jsonrpc.Message) []byte {
		if m.Method == mcp.MethodSubscribe && strings.Contains(string(m.Raw), "x:refused") {
			return jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no"})
		}
		return nil
	}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		var lost atomic.Int32
		u.opts.Events = &event.Publisher{}
		u.opts.Events.Tap(event.Of(event.Loss), func(event.Event) { lost.Add(1) })
		heard := map[*Subscriber]*atomic.Int32{}
		stand := func(f *mcp.ClientInfo) *Subscriber {
			n := &atomic.Int32{}
			w := u.Subscribe(f, func(*jsonrpc.Message) { n.Add(1) }, nil)
			heard[w] = n
			return w
		}
		w, other := stand(legacyClient), stand(info(mcp.R20251125, "", "{}", 2))
		defer w.Close()
		defer other.Close()
		w.Resume([]string{"x:refused", "x:1"})
		other.Resume([]string{"x:1"})
		synctest.Wait()
		if n := h.count(mcp.MethodSubscribe); n != 0 {
			t.Errorf("%d subscriptions were sent while the server is away", n)
		}
		time.Sleep(10 * time.Second)
		if n := h.count(mcp.MethodSubscribe); n != 2 || lost.Load() != 1 {
			t.Errorf("%d subscriptions were sent, and %d are lost", n, lost.Load())
		}
		again := stand(info(mcp.R20251125, "", "{}", 3))
		again.Resume([]string{"x:1"})
		w.Close()
		time.Sleep(time.Second)
		if n := h.count(mcp.MethodSubscribe) + h.count(mcp.MethodUnsubscribe); n != 2 {
			t.Errorf("the server got %d subscriptions", n)
		}
		l := h.all()[0]
		_ = l.pipe.Write([]byte(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1"}}`))
		synctest.Wait()
		if heard[w].Load() != 0 || heard[other].Load() != 1 || heard[again].Load() != 1 {
			t.Errorf("the client that closed its subscriber got %d notifications, the others %d and %d", heard[w].Load(), heard[other].Load(), heard[again].Load())
		}
		again.Close()
	})
}

func TestListenStandsForAllAndFollowsThem(t *testing.T) {
	h := &program{modern: true}
	h.on = func(l *process, m *jsonrpc.Message) []byte {
		if m.Method != mcp.MethodListen {
			return nil
		}
		ack := fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}`, m.ID, m.Param("notifications").Of(m.Raw))
		_ = l.pipe.Write(jsonrpc.AppendNotification(nil, mcp.NoteAcknowledged, []byte(ack)))
		return silent
	}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		if _, err := u.Hello(t.Context(), modernClient); err != nil {
			t.Fatal(err)
		}
		filter := func() string {
			t.Helper()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			l := h.all()[0]
			m, err := jsonrpc.Scan([]byte(l.last(mcp.MethodListen)), jsonrpc.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			return string(m.Param("notifications").Of(m.Raw))
		}
		a := u.Subscribe(modernClient, func(*jsonrpc.Message) {}, nil)
		a.Lists(true, false, false)
		if got := filter(); got != `{"toolsListChanged":true}` {
			t.Errorf("the first subscriber: %s", got)
		}
		b := u.Subscribe(legacyClient, func(*jsonrpc.Message) {}, nil)
		if _, err := b.Subscribe(t.Context(), "x:1"); err != nil {
			t.Error(err)
		}
		if got := filter(); got != `{"toolsListChanged":true,"resourceSubscriptions":["x:1"]}` {
			t.Errorf("both subscribers: %s", got)
		}
		listens, cancels := h.count(mcp.MethodListen), h.count(mcp.NoteCancelled)
		if listens != 2 || cancels != 0 { // the replaced listen of a pipe stays open; see listenSet.kept
			t.Errorf("%d listens were opened and %d cancelled", listens, cancels)
		}
		a.Close()
		if got := filter(); got != `{"resourceSubscriptions":["x:1"]}` {
			t.Errorf("after the first subscriber has closed: %s", got)
		}
		b.Close()
		time.Sleep(time.Second)
		synctest.Wait()
		if listens, cancels = h.count(mcp.MethodListen), h.count(mcp.NoteCancelled); listens != cancels {
			t.Errorf("at the end %d listens were opened and %d cancelled", listens, cancels)
		}
	})
}

func TestG03_ListThatNeverEndsIsCutOff(t *testing.T) {
	for what, x := range map[string]struct {
		cursor func(n int) string
		pages  int
	}{
		"the same cursor": {func(int) string { return "again" }, 2},
		"a circle":        {func(n int) string { return fmt.Sprint(n % 5) }, 6},
		"always another":  {func(n int) string { return fmt.Sprint(n) }, maxPages},
	} {
		n := 0
		h := &program{legacy: true}
		h.on = func(_ *process, m *jsonrpc.Message) []byte {
			if m.Method != mcp.MethodListTools {
				return nil
			}
			n++
			return ok(m, fmt.Sprintf(`{"tools":[{"name":"t%d"}],"nextCursor":%q}`, n, x.cursor(n)))
		}
		bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
			items, complete, err := u.List(t.Context(), nil, mcp.MethodListTools)
			if err != nil || complete || len(items) != x.pages || n != x.pages {
				t.Errorf("%s: %d items on %d pages, complete %v, %v", what, len(items), n, complete, err)
			}
		})
	}
}
