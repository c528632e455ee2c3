package upstream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestAServerWithoutListenIsAskedOnce checks a modern server that answers subscriptions/listen
// with -32601. Dragoman sends the request to each process only once. Calls work, and the report
// shows no listen.
func TestAServerWithoutListenIsAskedOnce(t *testing.T) {
	h := &program{modern: true}
	h.on = func(_ *process, m *jsonrpc.Message) []byte {
		if m.Method != mcp.MethodListen {
			return nil
		}
		return jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"})
	}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		u.opts.Changed = func(string) {}
		round := func(want int) {
			t.Helper()
			for range 3 {
				a := u.Subscribe(modernClient, func(*jsonrpc.Message) {}, nil)
				got, err := a.Watch(t.Context(), mcp.SubscriptionFilter{Tools: true, URIs: map[string]bool{"x:1": true}})
				if err != nil || !got.Tools || len(got.URIs) > 0 { // of the tools, we tell the client ourselves
					t.Errorf("the server agreed to %+v, %v", got, err)
				}
				b := u.Subscribe(legacyClient, func(*jsonrpc.Message) {}, nil)
				b.Lists(true, true, true)
				if _, err := b.Subscribe(t.Context(), "x:2"); err == nil {
					t.Error("a subscription succeeded although the server sends no notifications")
				}
				time.Sleep(4 * time.Hour)
				if r, err := call(t, u, modernClient, mcp.MethodListen, `{"notifications":{"taskIds":["t"]}}`); err != nil || r.Code() != jsonrpc.CodeMethodNotFound {
					t.Errorf("the listen of a client: %v", err)
				}
				if _, err := call(t, u, modernClient, mcp.MethodCallTool, `{"name":"t"}`); err != nil {
					t.Error(err)
				}
				a.Close()
				b.Close()
				time.Sleep(time.Minute)
			}
			if n := h.count(mcp.MethodListen); n != want {
				t.Errorf("the server was asked %d times, want %d", n, want)
			}
			if r := u.Report(); r.State != Ready || r.Listen != nil {
				t.Errorf("the report says %s with the listen %+v", r.State, r.Listen)
			}
		}
		round(1)
		_ = h.all()[0].pipe.Close()
		synctest.Wait()
		round(2)
	})
}

// TestAServerWithoutListenIsAskedOnceOverHTTP checks an HTTP server that does not support
// subscriptions/listen. Dragoman repeats the request after an hour at the earliest.
func TestAServerWithoutListenIsAskedOnceOverHTTP(t *testing.T) {
	var asked atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
		switch {
		case err != nil:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.Method == mcp.MethodDiscover:
			say(w, 200, string(ok(m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"private"}`)))
		case m.Method == mcp.MethodListen:
			asked.Add(1)
			say(w, 404, string(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"})))
		default:
			say(w, 200, string(ok(m, `{"resultType":"complete","content":[]}`)))
		}
	}))
	defer web.Close()
	u := New(Spec{Name: "web", URL: web.URL, Kind: "http"}, Options{})
	defer u.Close(t.Context())
	watch := func(want int64) {
		t.Helper()
		for _, uri := range []string{"x:1", "x:2", "x:3"} {
			w := u.Subscribe(modernClient, func(*jsonrpc.Message) {}, nil)
			if got, err := w.Watch(t.Context(), mcp.SubscriptionFilter{Tools: true, URIs: map[string]bool{uri: true}}); err != nil || !got.Tools || len(got.URIs) > 0 {
				t.Errorf("the server agreed to %+v, %v", got, err)
			}
			w.Close()
		}
		if n := asked.Load(); n != want {
			t.Errorf("the server was asked %d times, want %d", n, want)
		}
	}
	watch(1)
	u.update(func(st *state) {
		st.pools.links[""].session.noListen = time.Now().Add(-2 * noListenFor)
	})
	watch(2)
}
