package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// window is a client with a folder of its own. It answers roots/list with this folder.
type window struct {
	mcp.NoCaller
	info  *mcp.ClientInfo
	asked int
	mu    sync.Mutex
	sub   *Subscriber
}

func (w *window) ClientInfo() *mcp.ClientInfo { return w.info }

func (w *window) folder() string { return fmt.Sprintf("file:///%d", w.info.Conversation) }

func (w *window) Ask(_ context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	w.mu.Lock()
	w.asked++
	w.mu.Unlock()
	return jsonrpc.Scan(ok(m, `{"roots":[{"uri":"`+w.folder()+`"}]}`), jsonrpc.Limits{})
}

// times returns how often the client was asked.
func (w *window) times() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

const hasRoots = `{"roots":{"listChanged":true}}`

// attach subscribes a legacy client with roots.
func attach(u *Upstream, caps string, conversation uint64) *window {
	w := &window{info: info(mcp.R20251125, "", caps, conversation)}
	w.sub = u.Subscribe(w.info, func(*jsonrpc.Message) {}, w)
	return w
}

// work calls a tool of the server. It returns the answer, which names the process and its roots.
func (w *window) work(t *testing.T, u *Upstream) string {
	t.Helper()
	m, _ := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t"}}`), jsonrpc.Limits{})
	r, err := u.Call(t.Context(), mcp.NewCall(m, m.Param(mcp.KeyMeta), w.info), w)
	if err != nil {
		t.Error(err)
		return ""
	}
	return string(r.Msg.Raw)
}

const askRoots = `{"jsonrpc":"2.0","id":"roots","method":"roots/list"}`

// folders is a program that keeps the roots that it gets. It asks for them after the handshake and when
// they change, or else in the first call.
func folders(lazy bool) *program {
	h := &program{legacy: true}
	ask := func(l *process) { _ = l.pipe.Write([]byte(askRoots)) }
	h.noted = func(l *process, m *jsonrpc.Message) {
		if m.Method == mcp.NoteRootsChanged || m.Method == mcp.NoteInitialized && !lazy {
			ask(l)
		}
	}
	h.on = func(l *process, m *jsonrpc.Message) []byte {
		if m.Method != mcp.MethodCallTool {
			return nil
		}
		if lazy && l.last("") == "" {
			ask(l)
		}
		go func() {
			for range 1000 {
				if l.last("") == "" {
					time.Sleep(time.Millisecond)
				}
			}
			got := l.last("")
			if got == "" {
				got = "null"
			}
			_ = l.pipe.Write(ok(m, fmt.Sprintf(`{"process":%d,"got":%s}`, l.n, got)))
		}()
		return silent
	}
	return h
}

// TestRootsStayWithTheirClient lets two windows of one editor use a server that keeps the roots that it
// reads. Each must work in its own folder, whoever opens the server, and whatever the other one does.
func TestRootsStayWithTheirClient(t *testing.T) {
	lists := func(t *testing.T, u *Upstream, conversation uint64) {
		if _, _, err := u.List(t.Context(), info(mcp.R20251125, "", hasRoots, conversation), mcp.MethodListTools); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	}
	for name, x := range map[string]struct {
		lazy   bool
		spec   Spec
		before func(t *testing.T, u *Upstream) // runs before anybody calls
		most   int                             // processes that run afterwards
	}{
		"asks after the handshake":      {most: 2},
		"asks in the first call":        {lazy: true, most: 2},
		"the lists open it":             {most: 3, before: func(t *testing.T, u *Upstream) { lists(t, u, 0) }},
		"the lists of one open it":      {most: 2, before: func(t *testing.T, u *Upstream) { lists(t, u, 2) }},
		"a process for each call":       {most: 0, spec: Spec{Isolation: PerCall}},
		"the same, lists first":         {most: 1, spec: Spec{Isolation: PerCall}, before: func(t *testing.T, u *Upstream) { lists(t, u, 0) }},
		"the same, asks in each call":   {lazy: true, most: 0, spec: Spec{Isolation: PerCall}},
		"a client of 2026-07-28 before": {lazy: true, most: 3, before: func(t *testing.T, u *Upstream) { new(window).modern().work(t, u) }},
	} {
		t.Run(name, func(t *testing.T) {
			h := folders(x.lazy)
			bubble(t, h, x.spec, func(t *testing.T, u *Upstream) {
				one, two := attach(u, hasRoots, 1), attach(u, hasRoots, 2)
				none := attach(u, `{}`, 3)
				if x.before != nil {
					x.before(t, u)
				}
				check := func(when string, all ...*window) {
					t.Helper()
					for _, w := range all {
						if got := w.work(t, u); !strings.Contains(got, w.folder()+`"`) {
							t.Errorf("%s: window %d works with %s", when, w.info.Conversation, got)
						}
					}
				}
				var both sync.WaitGroup
				for _, w := range []*window{one, two} {
					both.Go(func() { check("at once", w) })
				}
				both.Wait()
				check("one by one", two, one, two)
				none.work(t, u)
				asked := one.times()
				u.Forward(two.info, []byte(`{"jsonrpc":"2.0","method":"`+mcp.NoteRootsChanged+`"}`), mcp.NoteRootsChanged)
				synctest.Wait()
				if one.times() != asked {
					t.Error("the change of one client's roots reached the process of the other one")
				}
				check("after a change", one, two)
				lists(t, u, 0)
				if x.spec.Isolation == "" && u.Status().Reason != reasonRoots {
					t.Errorf("the status says %q", u.Status().Reason)
				}
				one.sub.Close()
				check("the other one has left", two)
				time.Sleep(2 * time.Minute)
				check("later", two)
				if n := h.alive() - 1; n > x.most-min(x.most, 1) { // one process is that of the client without roots
					t.Errorf("%d processes are left to window 2: %+v", n, u.Report().Sessions)
				}
			})
		})
	}
}

// modern makes w a client of 2026-07-28 over HTTP.
func (w *window) modern() *window {
	w.info = info(mcp.R20260728, "", hasRoots, 0)
	return w
}

// TestProcessesBecauseOfRoots counts the processes of a server and looks at what clients get, where
// sessions are shared although clients have roots, or must not be shared.
func TestProcessesBecauseOfRoots(t *testing.T) {
	lists := func(t *testing.T, u *Upstream) {
		if _, _, err := u.List(t.Context(), info(mcp.R20251125, "", hasRoots, 0), mcp.MethodListTools); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	}
	each := func(t *testing.T, u *Upstream, n int) (all []*window) {
		for i := range n {
			all = append(all, attach(u, hasRoots, uint64(i+1)))
		}
		for _, w := range all {
			w.work(t, u)
		}
		return all
	}
	for name, x := range map[string]struct {
		h    *program
		spec Spec
		do   func(t *testing.T, h *program, u *Upstream)
		want int // processes that run at the end
	}{
		"a server that does not ask": {h: &program{legacy: true}, want: 1, do: func(t *testing.T, _ *program, u *Upstream) { each(t, u, 3) }},
		"all share by configuration": {h: folders(false), spec: Spec{Isolation: Shared}, want: 1, do: func(t *testing.T, _ *program, u *Upstream) { each(t, u, 3) }},
		"there is only one client":   {h: folders(false), spec: Spec{OneClient: true}, want: 1, do: func(t *testing.T, _ *program, u *Upstream) { lists(t, u); each(t, u, 1); lists(t, u) }},
		"one window after the lists": {h: folders(false), want: 1, do: func(t *testing.T, _ *program, u *Upstream) {
			lists(t, u)
			w := attach(u, hasRoots, 1)
			time.Sleep(time.Second)
			if got := w.work(t, u); !strings.Contains(got, w.folder()) {
				t.Errorf("it works with %s", got)
			}
			lists(t, u)
		}},
		"no room for more": {h: folders(true), want: maxSessions, do: func(t *testing.T, _ *program, u *Upstream) {
			all := each(t, u, maxSessions+9)
			for _, w := range all[:9] { // theirs have been closed
				if got := w.work(t, u); !strings.Contains(got, w.folder()+`"`) {
					t.Errorf("window %d works with %s", w.info.Conversation, got)
				}
			}
		}},
		"a server that runs once": {h: folders(false), want: 1, do: func(t *testing.T, h *program, u *Upstream) {
			h.fails = nil
			usual := h.on
			h.on = func(l *process, m *jsonrpc.Message) []byte {
				if l.n > 0 {
					_ = l.pipe.Close()
					return silent
				}
				return usual(l, m)
			}
			each(t, u, 2)
			if got := u.Status().Reason; got != reasonSoloRooted {
				t.Errorf("the status says %q", got)
			}
		}},
		"subscriptions move": {h: folders(true), want: 2, do: func(t *testing.T, h *program, u *Upstream) {
			one, two := attach(u, hasRoots, 1), attach(u, hasRoots, 2)
			for _, w := range []*window{one, two} {
				if _, err := w.sub.Subscribe(t.Context(), "file:///a"); err != nil {
					t.Error(err)
				}
			}
			if n := h.count(mcp.MethodSubscribe); n != 1 {
				t.Errorf("the server got %d subscriptions", n)
			}
			one.work(t, u)
			time.Sleep(2 * rootsPatience)
			if n := len(h.all()); n != 2 || h.all()[1].last(mcp.MethodSubscribe) == "" {
				t.Errorf("of %d processes, the second one got no subscription", n)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, x.h, x.spec, func(t *testing.T, u *Upstream) {
				x.do(t, x.h, u)
				synctest.Wait()
				if n := x.h.alive(); n != x.want {
					t.Errorf("%d processes run, want %d: %+v", n, x.want, u.Report().Sessions)
				}
			})
		})
	}
}

// TestRootsThatChangeDuringTheStart lets a client change its roots when the new server has them already, but is not
// in service yet. The server must hear of the change, and the server of another client must not.
func TestRootsThatChangeDuringTheStart(t *testing.T) {
	h := folders(false)
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		one, two := attach(u, hasRoots, 1), attach(u, hasRoots, 2)
		one.work(t, u)
		asked := one.times()
		var all sync.WaitGroup
		all.Go(func() { two.work(t, u) })
		time.Sleep(rootsGrace / 2)
		synctest.Wait()
		if two.times() != 1 {
			t.Fatalf("the server has asked %d times for the roots", two.times())
		}
		u.Forward(two.info, []byte(`{"jsonrpc":"2.0","method":"`+mcp.NoteRootsChanged+`"}`), mcp.NoteRootsChanged)
		all.Wait()
		synctest.Wait()
		if two.times() != 2 || one.times() != asked {
			t.Errorf("the roots that changed were asked for %d times, those of the other client %d times more", two.times()-1, one.times()-asked)
		}
	})
}

// webFolders is a legacy server over Streamable HTTP that keeps the roots of each session. It asks for them
// on the standalone stream.
type webFolders struct {
	mu       sync.Mutex
	sessions int
	roots    map[string]string
}

func (s *webFolders) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("Mcp-Session-Id")
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: %s\n\n", askRoots)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	b, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Scan(b, jsonrpc.Limits{})
	if err != nil {
		w.WriteHeader(http.StatusAccepted) // DELETE
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case m.Kind == jsonrpc.Result || m.Kind == jsonrpc.Failure:
		s.roots[id] = string(m.Raw)
		w.WriteHeader(http.StatusAccepted)
	case m.Kind == jsonrpc.Notification:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == mcp.MethodDiscover:
		say(w, 400, string(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"})))
	case m.Method == mcp.MethodInitialize:
		s.sessions++
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", s.sessions))
		say(w, 200, string(ok(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"f","version":"1"}}`)))
	default:
		say(w, 200, string(ok(m, `{"got":"`+strings.ReplaceAll(s.roots[id], `"`, `'`)+`"}`)))
	}
}

// TestRootsOverHTTP does the same as TestRootsStayWithTheirClient for sessions over HTTP. It waits for each
// state, because time is real here.
func TestRootsOverHTTP(t *testing.T) {
	t.Parallel()
	for _, isolation := range []Isolation{Auto, Shared} {
		s := &webFolders{roots: map[string]string{}}
		web := httptest.NewServer(s)
		u := New(Spec{Name: "f", URL: web.URL, Kind: "http", Isolation: isolation}, Options{})
		one, two := attach(u, hasRoots, 1), attach(u, hasRoots, 2)
		if _, _, err := u.List(t.Context(), info(mcp.R20251125, "", hasRoots, 0), mcp.MethodListTools); err != nil {
			t.Error(err)
		}
		for _, w := range []*window{one, two, one} {
			got := ""
			for end := time.Now().Add(30 * time.Second); isolation == Auto && !strings.Contains(got, w.folder()) && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				got = w.work(t, u)
				if strings.Contains(got, "file:") && !strings.Contains(got, w.folder()) {
					t.Errorf("window %d works with %s", w.info.Conversation, got)
				}
			}
		}
		s.mu.Lock()
		if n := s.sessions; isolation == Auto && (n < 2 || n > 3) || isolation == Shared && n != 1 {
			t.Errorf("%s: there are %d sessions", isolation, n)
		}
		s.mu.Unlock()
		u.Close(t.Context())
		web.CloseClientConnections()
		web.Close()
	}
}
