package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// tokens maps each subject to its token. The token "none" is an expired one. Principals without an
// entry share the scope "".
type tokens map[string]string

func (t tokens) Scope(p *identity.Principal) string {
	if t[p.Key()] == "" {
		return ""
	}
	return p.Key()
}

func (t tokens) Sign(_ context.Context, scope, _, _ string) ([]transport.HeaderField, uint64, error) {
	switch t[scope] {
	case "":
		return nil, 0, nil
	case "none":
		return nil, 0, errors.New("the token has expired")
	}
	return []transport.HeaderField{{Name: "authorization", Value: t[scope]}}, 1, nil
}

func (t tokens) Refused(context.Context, string, uint64, []string) (bool, error) { return false, nil }

// teller is an HTTP server that reveals the credentials of its caller. Its tool returns the
// Authorization header of the request, and a listen gets only the notifications for its caller.
type teller struct {
	modern  bool
	legacy  bool // it supports the legacy era, too, if it's modern
	refuses string

	mu       sync.Mutex
	opened   map[string]int // number of discover and initialize requests, by Authorization
	sessions int
	listens  map[string]func(uri string) // the open listens, by Authorization
}

func (s *teller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who := r.Header.Get("Authorization")
	if who == s.refuses {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
	if err != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	const caps = `"capabilities":{"tools":{},"resources":{"subscribe":true}}`
	switch {
	case m.Kind != jsonrpc.Request:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == mcp.MethodDiscover && s.modern:
		s.count(who)
		versions := `"2026-07-28"`
		if s.legacy {
			versions += `,"2025-11-25"`
		}
		say(w, 200, string(ok(m, `{"resultType":"complete","supportedVersions":[`+versions+`],`+caps+`,"ttlMs":0,"cacheScope":"private"}`)))
	case m.Method == mcp.MethodInitialize && (s.legacy || !s.modern):
		n := s.count(who)
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("s", n))
		say(w, 200, string(ok(m, `{"protocolVersion":"2025-11-25",`+caps+`,"serverInfo":{"name":"t","version":"1"}}`)))
	case m.Method == mcp.MethodDiscover || m.Method == mcp.MethodInitialize:
		say(w, 400, string(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"})))
	case m.Method == mcp.MethodListen:
		s.listen(w, r, m, who)
	default:
		say(w, 200, string(ok(m, `{"resultType":"complete","content":[{"type":"text","text":"`+who+`"}]}`)))
	}
}

func (s *teller) count(who string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened == nil {
		s.opened = map[string]int{}
	}
	s.opened[who]++
	s.sessions++
	return s.sessions
}

func (s *teller) listen(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, who string) {
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(method, params string) {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", jsonrpc.AppendNotification(nil, method, []byte(params)))
		w.(http.Flusher).Flush()
	}
	changes := make(chan string, 8)
	s.mu.Lock()
	if s.listens == nil {
		s.listens = map[string]func(string){}
	}
	s.listens[who] = func(uri string) { changes <- uri }
	s.mu.Unlock()
	event(mcp.NoteAcknowledged, fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}`, m.ID, m.Param("notifications").Of(m.Raw)))
	for {
		select {
		case uri := <-changes:
			event(mcp.NoteResourceUpdated, fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"uri":%q}`, m.ID, uri))
		case <-r.Context().Done():
			return
		}
	}
}

// TestAPinnedServerOfBothErasIsOpenedOnce lets a legacy client that can be asked call a server that supports both eras, of
// which the configuration pins the modern one. The call would rather have a legacy session, but there is none to get.
func TestAPinnedServerOfBothErasIsOpenedOnce(t *testing.T) {
	s := &teller{modern: true, legacy: true, refuses: "nobody"}
	web := httptest.NewServer(s)
	defer web.Close()
	u := New(Spec{Name: "web", URL: web.URL, Kind: "http", Pin: mcp.R20260728}, Options{})
	defer u.Close(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	m := jsonrpc.NewRequest("7", mcp.MethodCallTool, []byte(`{"name":"who"}`))
	_, err := u.Call(ctx, mcp.NewCall(m, jsonrpc.Span{}, info(mcp.R20251125, "", `{"elicitation":{}}`, 1)), mcp.NoCaller{})
	if err != nil || s.count("") != 2 {
		t.Errorf("%v, opened %d times", err, s.sessions-1)
	}
}

// TestEachCredentialHasALinkOfItsOwn checks that two credentials for one server lead to two
// links, one for each principal. Principals without credentials share the configured headers.
func TestEachCredentialHasALinkOfItsOwn(t *testing.T) {
	for _, modern := range []bool{true, false} {
		s := &teller{modern: modern}
		web := httptest.NewServer(s)
		defer web.Close()
		u := New(Spec{
			Name: "web", URL: web.URL, Kind: "http", Header: []Header{{"Authorization", "shared"}},
			Credentials: tokens{"anna": "annas", "ben": "bens"},
		}, Options{})
		defer u.Close(t.Context())
		for range 2 {
			for i, principal := range []string{"anna", "ben", "carl", ""} {
				for _, rev := range []mcp.Revision{mcp.R20260728, mcp.R20251125} {
					r, err := call(t, u, info(rev, principal, "{}", uint64(i+1)), mcp.MethodCallTool, `{"name":"who"}`)
					if err != nil {
						t.Fatal(err)
					}
					want := map[string]string{"anna": "annas", "ben": "bens"}[principal]
					if want == "" {
						want = "shared"
					}
					if !strings.Contains(string(r.Msg.Raw), `"text":"`+want+`"`) {
						t.Errorf("modern %t: %q got %s", modern, principal, r.Msg.Raw)
					}
				}
			}
		}
		s.mu.Lock()
		if n := len(s.opened); n != 3 || s.opened["annas"] != 1 || s.opened["bens"] != 1 || modern && s.opened["shared"] != 1 {
			t.Errorf("modern %t: the numbers of opens are %v", modern, s.opened)
		}
		s.mu.Unlock()
	}
}

// TestRefusedCredentialsStopOnlyTheirScope checks that refused or missing credentials affect only
// the principals that use them. The server stays ready.
func TestRefusedCredentialsStopOnlyTheirScope(t *testing.T) {
	for _, modern := range []bool{true, false} {
		s := &teller{modern: modern, refuses: "bens"}
		web := httptest.NewServer(s)
		defer web.Close()
		u := New(Spec{
			Name: "web", URL: web.URL, Kind: "http", Credentials: tokens{"anna": "annas", "ben": "bens", "carl": "none"},
		}, Options{})
		defer u.Close(t.Context())
		for range 3 {
			for _, principal := range []string{"ben", "carl"} {
				if r, err := call(t, u, info(mcp.R20260728, principal, "{}", 0), mcp.MethodCallTool, `{"name":"who"}`); err == nil {
					t.Errorf("modern %t: the call of %s got %s", modern, principal, r.Msg.Raw)
				}
			}
			r, err := call(t, u, info(mcp.R20260728, "anna", "{}", 0), mcp.MethodCallTool, `{"name":"who"}`)
			if err != nil || !strings.Contains(string(r.Msg.Raw), "annas") {
				t.Errorf("modern %t: the call with valid credentials: %v", modern, err)
			}
		}
		if st := u.Status(); st.State != Ready {
			t.Errorf("modern %t: the server is %s: %s", modern, st.State, st.Reason)
		}
	}
}

// TestEachCredentialListensForItself checks that each subscription uses the link of its own
// credentials, and gets no notifications from other links.
func TestEachCredentialListensForItself(t *testing.T) {
	s := &teller{modern: true}
	web := httptest.NewServer(s)
	defer web.Close()
	u := New(Spec{Name: "web", URL: web.URL, Kind: "http", Credentials: tokens{"anna": "annas", "ben": "bens"}}, Options{})
	defer u.Close(t.Context())
	heard := map[string]chan string{}
	for _, who := range []string{"anna", "ben"} {
		heard[who] = make(chan string, 8)
		w := u.Subscribe(info(mcp.R20260728, who, "{}", 0), func(m *jsonrpc.Message) {
			uri, _ := jsonrpc.Text(m.Raw, m.Param("uri"))
			heard[who] <- uri
		}, nil)
		defer w.Close()
		if _, err := w.Watch(t.Context(), mcp.SubscriptionFilter{URIs: map[string]bool{"x:1": true}}); err != nil {
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	n := len(s.listens)
	s.listens["annas"]("x:1")
	s.mu.Unlock()
	if uri := <-heard["anna"]; uri != "x:1" || n != 2 || len(heard["ben"]) != 0 {
		t.Errorf("the client got %q, there are %d links, and the other client got %d", uri, n, len(heard["ben"]))
	}
}

// TestUnusedLinksAreBounded checks that at most maxUnusedLinks unused links are kept.
func TestUnusedLinksAreBounded(t *testing.T) {
	u := New(Spec{Name: "web", URL: "http://127.0.0.1:1", Kind: "http"}, Options{})
	defer u.Close(t.Context())
	u.update(func(st *state) {
		for i := range 10 * maxUnusedLinks {
			st.pools.link(fmt.Sprint(i), info(mcp.R20260728, fmt.Sprint(i), "{}", 0))
		}
		if n := len(st.pools.links); n > maxUnusedLinks {
			t.Errorf("%d unused links are kept", n)
		}
	})
}

// TestChangedListsOfAScope checks that a legacy server's list_changed reaches the clients that use the
// same credentials, also those that have no session of their own, and nobody else. The catalog hears of it first,
// or a client that asks for the list at once would get the old one. It's the same with a modern server.
func TestChangedListsOfAScope(t *testing.T) {
	web := httptest.NewServer(&teller{})
	defer web.Close()
	u := New(Spec{Name: "web", URL: web.URL, Kind: "http", Credentials: tokens{"anna": "annas", "ben": "bens"}}, Options{})
	defer u.Close(t.Context())
	heard, known := map[string]int{}, false
	u.opts.Changed = func(kind string) { known = kind == "tools" }
	for i, who := range []string{"anna", "anna", "ben", "carl"} {
		caps := "{}"
		if i == 1 {
			caps = `{"roots":{}}` // so she has two pools, and the second one has no session
		}
		w := u.Subscribe(info(mcp.R20251125, who, caps, uint64(i+1)), func(*jsonrpc.Message) {
			if heard[who]++; !known {
				t.Errorf("%s hears of a change that the catalog doesn't know", who)
			}
		}, nil)
		defer w.Close()
		w.Lists(true, true, true)
	}
	l, err := u.broker.acquire(t.Context(), info(mcp.R20251125, "anna", "{}", 1), mcp.Need{Method: mcp.MethodListTools})
	if err != nil {
		t.Fatal(err)
	}
	defer l.release()
	note := jsonrpc.NewNotification(mcp.NoteToolsChanged, nil)
	u.hub.deliverNotification(l.s.pool, l.s, note, 0)
	if len(heard) != 1 || heard["anna"] != 2 {
		t.Errorf("the change was heard by %v", heard)
	}
	known = false
	u.hub.deliverModern(&link{scope: l.s.pool.scope}, note, 0)
	if len(heard) != 1 || heard["anna"] != 3 { // only pools without a session
		t.Errorf("the second change was heard by %v", heard)
	}
}
