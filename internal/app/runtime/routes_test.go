package runtime

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// routed returns a Runtime with the server a, and a mux with its routes and httpdoor.NotFound. The
// server never starts.
func routed(t *testing.T, o Options) (*Runtime, *http.ServeMux) {
	t.Helper()
	s := *config.Default()
	a, problem := config.Complete(config.Server{Name: "a", Command: "/nothing/here"})
	if problem != nil {
		t.Fatal(problem)
	}
	s.Servers = []config.Server{a}
	o.Config, o.Log, o.Budget = &s, slog.New(slog.DiscardHandler), transport.NewBudget(1<<20)
	if o.Guard == nil {
		o.Guard = httpdoor.NewGuard(nil, nil, nil)
	}
	r := New(o)
	t.Cleanup(func() { r.Close(0) })
	r.Apply(event.DefaultProject, &s)
	mux := http.NewServeMux()
	r.Routes(mux)
	mux.Handle("/", r.opts.Guard.Usual(http.HandlerFunc(httpdoor.NotFound)))
	return r, mux
}

var (
	// places are paths of endpoints that exist, and of endpoints that don't.
	places = []string{
		"/mcp", "/sse", "/messages", "/messages?sessionId=x", "/s/a/mcp", "/s/a/sse", "/s/a/messages", "/p/default/mcp", "/p/default/s/a/mcp",
		"/s/unknown/mcp", "/s/unknown/sse", "/p/unknown/mcp", "/p/default/s/unknown/mcp", "/p/unknown/s/a/messages",
		"/mcp/", "/mcp/x", "/s/a/mcp/x", "/s/a/x", "/s/a", "/s/a/", "/s/unknown", "/s/", "/s", "/p", "/p/default", "/p/default/x", "/p/unknown/s/a", "/sse/x", "/messages/x",
	}
	methods = []string{"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH", "TRACE", "FROB"}
)

// answered returns the answer of one request as text, without its date.
func (s *site) answered(method, path string, header ...string) string {
	s.t.Helper()
	body := ""
	if method == "POST" {
		body = modernBody
	}
	status, h, b := s.ask(method, path, body, header...)
	h.Del("Date")
	return fmt.Sprint(status, h, b)
}

// TestStrangersLearnNothing checks that who is not known gets one answer, whatever the path and the
// method are: servers and projects that exist answer like those that don't.
func TestStrangersLearnNothing(t *testing.T) {
	r, mux := routed(t, Options{Principal: withKey, Reach: anybody})
	s := serveSite(t, r.opts.Guard.Wrap(mux))
	want := s.answered("GET", "/mcp")
	if !strings.HasPrefix(want, "401 ") || !strings.Contains(want, `Bearer realm="dragoman"`) || !strings.Contains(want, "send a key") {
		t.Fatal(want)
	}
	head, _, _ := strings.Cut(want, "{")
	for _, path := range places {
		for _, method := range methods {
			got := s.answered(method, path)
			if got != want && (method != "HEAD" || got != head) {
				t.Errorf("%s %s: %s, want %s", method, path, got, want)
			}
		}
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/nowhere", "/"} { // no endpoint can be there
		s.wants(404, "there is nothing at", "GET", path, "")
	}
	if n := r.opts.Guard.Denied(); n != int64(1+len(places)*len(methods)) || r.opts.Guard.Refused() != 0 {
		t.Errorf("%d denied, %d refused", n, r.opts.Guard.Refused())
	}
}

// TestTA06WellKnown checks that a stranger gets a bare 404 at all places where clients look for a way to
// sign in, before and behind the path of each endpoint, whether there is one or not: never a 401, with
// which many would open a browser.
func TestTA06WellKnown(t *testing.T) {
	r, mux := routed(t, Options{Principal: withKey, Reach: anybody})
	s := serveSite(t, r.opts.Guard.Wrap(mux))
	for _, of := range []string{"oauth-protected-resource", "oauth-authorization-server", "openid-configuration", "x"} {
		for _, at := range []string{"", "/mcp", "/sse", "/messages", "/s/a/mcp", "/s/none/sse", "/s/a", "/p/shop/mcp", "/p/none/mcp", "/p/shop/s/a/mcp", "/p/shop"} {
			for _, path := range []string{"/.well-known/" + of + at, at + "/.well-known/" + of} {
				for _, method := range []string{"GET", "HEAD"} {
					if got := s.answered(method, path); !strings.HasPrefix(got, "404 ") || strings.Contains(got, "Authenticate") {
						t.Errorf("%s %s: %s", method, path, got)
					}
				}
			}
		}
	}
}

// TestKnownCallersSeeWhatIsThere checks that who is known gets the answers that everybody gets at an
// open Dragoman: 404 with the name, 405, and the refusals of the doors.
func TestKnownCallersSeeWhatIsThere(t *testing.T) {
	var sites []*site
	for _, of := range []func(*http.Request) (*identity.Principal, error){identity.Anyone, withKey} {
		r, mux := routed(t, Options{Principal: of, Reach: anybody})
		sites = append(sites, serveSite(t, r.opts.Guard.Wrap(mux)))
	}
	for _, path := range places {
		for _, method := range methods {
			door, _, _ := strings.Cut(path, "?")
			if method == "GET" && (strings.HasSuffix(door, "/sse") || strings.HasSuffix(door, "/messages")) || method == "POST" && strings.HasSuffix(door, "/mcp") {
				continue // a stream without an end, and a call that waits for the server
			}
			open, keyed := sites[0].answered(method, path), sites[1].answered(method, path, "X-Who", "ann")
			if open != keyed {
				t.Errorf("%s %s: %s, for a known caller %s", method, path, open, keyed)
			}
		}
	}
	for _, s := range sites {
		ann := []string{"X-Who", "ann"}
		s.wants(404, `no server "unknown" is configured`, "POST", "/s/unknown/mcp", "{", ann...)
		if h := s.wants(405, "not allowed", "OPTIONS", "/s/unknown/mcp", "", ann...); h.Get("Allow") != "GET, HEAD, POST, DELETE" {
			t.Errorf("Allow: %s", h.Get("Allow"))
		}
		s.wants(404, "there is nothing at", "GET", "/p/unknown/mcp", "", ann...)
		s.wants(404, "there is nothing at", "GET", "/s/a", "", ann...)
	}
}

// TestBarred checks that somebody with another role than an endpoint needs hears so in a project that exists, and that one
// who isn't barred gets the answer for a project that doesn't exist.
func TestBarred(t *testing.T) {
	none := func(*identity.Principal, string) (catalog.Filter, bool) { return nil, false }
	r, mux := routed(t, Options{Principal: withKey, Reach: none, Barred: func(who *identity.Principal, _ string) string {
		if who.Subject == "ann" {
			return "the key has the role viewer"
		}
		return ""
	}})
	s := serveSite(t, r.opts.Guard.Wrap(mux))
	for _, path := range []string{"/mcp", "/s/a/mcp", "/s/unknown/mcp", "/find/mcp", "/sse"} {
		s.wants(403, "the role viewer", "GET", path, "", "X-Who", "ann")
		s.wants(404, "there is nothing at", "GET", path, "", "X-Who", "bob")
	}
	s.wants(404, "there is nothing at", "GET", "/p/unknown/mcp", "", "X-Who", "ann")
	s.wants(401, "send a key", "GET", "/mcp", "")
}

// TestTwoCallersThroughRoutes lets ann and bob use the endpoints of a runtime in both eras and over
// both transports. Neither can use the other's session, and ann goes on whatever bob tries.
func TestTwoCallersThroughRoutes(t *testing.T) {
	r, mux := routed(t, Options{Principal: withKey, Reach: anybody, Places: pipetest.Here{}})
	empty := *config.Default() // so that lists do not wait for the server
	r.Apply(event.DefaultProject, &empty)
	s := serveSite(t, r.opts.Guard.Wrap(mux))
	list := `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`
	modernList := strings.Replace(strings.Replace(modernBody, "tools/call", "tools/list", 1), `"name":"star","arguments":{},`, "", 1)
	ann, bob := []string{"X-Who", "ann"}, []string{"X-Who", "bob"}
	for _, prefix := range []string{"", "/p/default"} {
		id := s.wants(200, `"result"`, "POST", prefix+"/mcp", helloBody, ann...).Get("Mcp-Session-Id")
		if !strings.HasPrefix(id, "here-") {
			t.Errorf("the session id is %q", id)
		}
		session := []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25"}
		st := s.stream(prefix+"/sse", ann...)
		goesOn := func(who []string) {
			t.Helper()
			s.wants(200, `"tools"`, "POST", prefix+"/mcp", modernList, append([]string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}, who...)...)
		}
		goesOn(ann)
		goesOn(bob)
		for _, who := range [][]string{bob, nil} {
			status := 404
			if who == nil {
				status = 401
			}
			for _, method := range []string{"POST", "GET", "DELETE"} {
				s.wants(status, "", method, prefix+"/mcp", list, append(session, who...)...)
			}
			s.wants(status, "", "POST", st.post, list, who...)
		}
		goesOn(ann)
		s.wants(200, `"tools"`, "POST", prefix+"/mcp", list, append(session, ann...)...)
		s.wants(202, "", "POST", st.post, helloBody, ann...)
		if got := st.next(); !strings.Contains(got, "protocolVersion") {
			t.Error(got)
		}
		st.body.Close()
	}
}

// TestGuardStandsOnce counts how often a request meets the guard: once before the routes of a
// runtime, which don't look again, and once in an endpoint that is mounted alone.
func TestGuardStandsOnce(t *testing.T) {
	g := httpdoor.NewGuard(nil, nil, nil)
	_, mux := routed(t, Options{Guard: g, Principal: identity.Anyone})
	alone := http.NewServeMux()
	e := NewEndpoint("", &downstream.Endpoint{Handler: &teller{}}, EndpointOptions{Guard: g, Principal: identity.Anyone})
	defer e.close(errServerRemoved)
	e.Mount(alone, "")
	for _, path := range []string{"/mcp", "/messages", "/s/a/mcp", "/s/unknown/mcp", "/p/default/mcp", "/s/a"} {
		for name, x := range map[string]struct {
			h    http.Handler
			want int64
		}{"before the routes": {g.Wrap(mux), 1}, "the routes themselves": {mux, 0}, "an endpoint alone": {alone, 1}} {
			if x.h == alone && strings.Count(path, "/") > 1 {
				continue
			}
			for header, value := range map[string]string{"Host": "evil.example", "Origin": "https://evil.example"} {
				req := httptest.NewRequest("DELETE", "http://localhost"+path, nil)
				if req.Header.Set(header, value); header == "Host" {
					req.Host = value
				}
				before, w := g.Refused(), httptest.NewRecorder()
				x.h.ServeHTTP(w, req)
				if got := g.Refused() - before; got != x.want || (w.Code == 403) != (x.want == 1) {
					t.Errorf("%s, %s, a foreign %s: refused %d times, status %d", path, name, header, got, w.Code)
				}
			}
		}
	}
}

// TestProjectsAreLookedUp checks that a request for an unknown project gets the same answer as a
// request for any other unknown path. The default project gives the same answers with and
// without the prefix /p/.
func TestProjectsAreLookedUp(t *testing.T) {
	s := config.Default()
	r := New(Options{
		Config: s, Log: slog.New(slog.DiscardHandler), Guard: httpdoor.NewGuard(nil, nil, nil), Principal: identity.Anyone, Budget: transport.NewBudget(1 << 20),
	})
	defer r.Close(0)
	r.Apply(event.DefaultProject, s)
	mux := http.NewServeMux()
	r.Routes(mux)
	mux.HandleFunc("/", httpdoor.NotFound)
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("DELETE", "http://localhost"+path, nil))
		return w
	}
	nowhere := get("/nowhere")
	for _, path := range []string{"/p/other/mcp", "/p/other/sse", "/p/other/messages", "/p/other/s/a/mcp", "/p/mcp", "/p/Default/mcp"} {
		w := get(path)
		same := strings.Replace(w.Body.String(), `"`+path+`"`, `"/nowhere"`, 1) == nowhere.Body.String()
		if w.Code != nowhere.Code || !same || len(w.Header()) != len(nowhere.Header()) {
			t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
		}
	}
	for _, leaf := range []string{"/mcp", "/sse", "/messages", "/s/a/mcp"} {
		with, without := get("/p/default"+leaf), get(leaf)
		if with.Code != without.Code || with.Body.String() != without.Body.String() || strings.Contains(with.Body.String(), "there is nothing at") {
			t.Errorf("%s: %d %s, without a project %d %s", leaf, with.Code, with.Body, without.Code, without.Body)
		}
	}
}
