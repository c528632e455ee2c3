package console

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// watcher reads the live values of a page.
type watcher struct {
	mu     sync.Mutex
	events []map[string]map[string]string // the patches by id
	ids    []string
	stop   func()
}

func (w *watcher) take() (all []map[string]map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, w.events = w.events, nil
	return all
}

// pipeRecorder is a response that a test reads while the handler writes it.
type pipeRecorder struct {
	*httptest.ResponseRecorder
	write func([]byte)
}

func (p pipeRecorder) Write(b []byte) (int, error)      { p.write(b); return len(b), nil }
func (p pipeRecorder) Flush()                           {}
func (p pipeRecorder) SetWriteDeadline(time.Time) error { return nil }

// watch opens the stream of a page.
func watch(t *testing.T, h *testConsole, page, last string) *watcher {
	ctx, cancel := context.WithCancel(t.Context())
	w := &watcher{}
	var wg sync.WaitGroup
	w.stop = func() { cancel(); wg.Wait() }
	target := "/console/events?page=" + page
	if last != "" {
		target += "&last=" + last
	}
	r := h.request("GET", target, "Cookie", h.cookie).WithContext(ctx)
	wg.Go(func() {
		h.mux.ServeHTTP(pipeRecorder{httptest.NewRecorder(), func(b []byte) {
			in := bufio.NewScanner(strings.NewReader(string(b)))
			in.Buffer(nil, 1<<20)
			for in.Scan() {
				if id, ok := strings.CutPrefix(in.Text(), "id: "); ok {
					w.mu.Lock()
					w.ids = append(w.ids, id)
					w.mu.Unlock()
				}
				data, ok := strings.CutPrefix(in.Text(), "data: ")
				if !ok || data == "{}" {
					continue
				}
				var list []map[string]string
				if err := json.Unmarshal([]byte(data), &list); err != nil {
					t.Errorf("%v: %s", err, data)
				}
				byID := map[string]map[string]string{}
				for _, p := range list {
					byID[p["id"]] = p
				}
				w.mu.Lock()
				w.events = append(w.events, byID)
				w.mu.Unlock()
			}
		}}, r)
	})
	return w
}

// TestLive checks that an open page gets changes at most once a second, and gets no data while no
// value changes. An interrupted stream must continue.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &event.Publisher{}
		h := stageWith(t, "waiting", p)
		w := watch(t, h, "/console/", "")
		defer w.stop()
		synctest.Wait()
		first := w.take()
		if len(first) != 1 || first[0]["sentence"]["text"] != "The server is ready. No client has called yet." || first[0]["diagram"]["hash"] == "" {
			t.Fatalf("%v", first)
		}
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if got := w.take(); len(got) != 0 {
			t.Errorf("nothing has happened, but: %v", got)
		}
		call(p, "Cursor", "1", mcp.R20250618, "files", mcp.R20250618, event.OK, 1)
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		got := w.take()
		if len(got) != 1 || got[0]["sentence"]["text"] != "The client is working." || got[0]["diagram"]["hash"] == first[0]["diagram"]["hash"] || got[0]["s1-n"]["text"] != "1" || got[0]["s1-f"] != nil {
			t.Errorf("after a call: %v", got)
		}
		for i := range 100 { // ten calls a second
			call(p, "Cursor", "1", mcp.R20250618, "files", mcp.R20250618, event.OK, uint64(i+2))
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		got = w.take()
		lines := 0
		for _, e := range got {
			if e["l-s1"] != nil {
				lines++
			}
		}
		if len(got) < 8 || len(got) > 11 || lines < 1 || lines > 3 {
			t.Errorf("in ten seconds: %d events, %d with lines", len(got), lines)
		}
		last := w.ids[len(w.ids)-2]
		again := watch(t, h, "/console/", last)
		defer again.stop()
		fresh := watch(t, h, "/console/", "someothertime-1")
		defer fresh.stop()
		synctest.Wait()
		if a, b := again.take(), fresh.take(); len(a) != 1 || len(b) != 1 || len(a[0]) >= len(b[0]) || b[0]["sentence"] == nil || a[0]["sentence"] != nil {
			t.Errorf("an interrupted stream gets %v, a new one %v", a, b)
		}
	})
}

// TestLiveEnds checks that streams end when Dragoman stops, and that only pages can be
// watched.
func TestLiveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stageWith(t, "waiting", &event.Publisher{})
		w := watch(t, h, "/console/servers/files", "")
		gone := watch(t, h, "/console/servers/none", "")
		synctest.Wait()
		if got := w.take(); len(got) != 1 || got[0]["st"]["text"] != "ready" {
			t.Errorf("%v", got)
		}
		if got := gone.take(); len(got) != 0 {
			t.Errorf("a page that does not exist: %v", got)
		}
		h.console.Drain()
		w.stop()
		gone.stop()
		if resp, _ := h.ask("GET", "/console/events?page=/console/../x%00"); resp.StatusCode == 500 {
			t.Error(resp.StatusCode)
		}
		if n := len(h.console.feeds.open()); n != 0 {
			t.Errorf("%d feeds are left", n)
		}
	})
}

// TestFeedIsShared checks that several browsers that show the same page share the work.
func TestFeedIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &event.Publisher{}
		h := stageWith(t, "waiting", p)
		for range 50 {
			defer watch(t, h, "/console/", "").stop()
		}
		synctest.Wait()
		before := atomic.LoadInt64(&h.source.reports)
		for i := range 10 {
			call(p, "Cursor", "1", mcp.R20250618, "files", mcp.R20250618, event.OK, uint64(i+1))
			time.Sleep(time.Second)
		}
		if n := atomic.LoadInt64(&h.source.reports) - before; n > 12 {
			t.Errorf("50 consoles asked %d times in 10 s", n)
		}
		before = atomic.LoadInt64(&h.source.reports)
		time.Sleep(2 * time.Minute) // the last call is now older than a minute
		before2 := atomic.LoadInt64(&h.source.reports)
		time.Sleep(time.Minute)
		if n := atomic.LoadInt64(&h.source.reports) - before2; n > 13 {
			t.Errorf("50 idle consoles asked %d times in a minute, %d before", n, before2-before)
		}
	})
}

// TestPageThatPanics checks that a page with a bug does not end the program, and that other pages
// keep their live values.
func TestPageThatPanics(t *testing.T) {
	t.Parallel()
	h := open(t, &admin.Report{})
	h.console.frame.mux.HandleFunc("GET /console/broken", func(http.ResponseWriter, *http.Request) { panic("a bug") })
	if values, _ := h.console.feeds.render("/console/broken", viewer{role: identity.Admin}); values != nil {
		t.Errorf("%v", values)
	}
	if values, _ := h.console.feeds.render("/console/", viewer{role: identity.Admin}); len(values) == 0 {
		t.Error("the overview has no live values")
	}
}
