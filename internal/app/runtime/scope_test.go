package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// keyring gives ann and bob tokens of their own, and eve one when she has signed in. All others share the
// scope "".
type keyring struct{ eve atomic.Bool }

func (k *keyring) Scope(p *identity.Principal) string {
	if who := p.Key(); who == "ann" || who == "bob" || who == "eve" && k.eve.Load() {
		return "scope of " + who
	}
	return ""
}

func (*keyring) Sign(_ context.Context, scope, _, _ string) ([]transport.HeaderField, uint64, error) {
	return []transport.HeaderField{{Name: "Authorization", Value: strings.TrimPrefix(scope, "scope of ")}}, 1, nil
}

func (*keyring) Refused(context.Context, string, uint64, []string) (bool, error) { return false, nil }

// freeForAll says that people can sign in, and asks nobody to.
type freeForAll struct{}

func (freeForAll) CanSignIn(string) bool { return true }

func (freeForAll) SignedIn(*identity.Principal, string) bool { return false }

func (freeForAll) SignIn(context.Context, *identity.Principal, string) (*gateway.SigningIn, error) {
	return nil, errors.New("nobody has to")
}

// safe is a server of one era whose tools, and the values that it completes, depend on the token of the request.
type safe struct {
	modern bool
	down   atomic.Bool // it refuses all requests

	mu      sync.Mutex
	more    map[string]string // a tool that was added later, by token
	streams map[string][]chan string
	opened  chan struct{} // replaced whenever a stream is opened
}

func (s *safe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who := r.Header.Get("Authorization")
	if who == "" {
		who = "nobody"
	}
	if r.Method == http.MethodGet && !s.modern {
		s.stream(w, r, who, "", "")
		return
	}
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
	switch {
	case err != nil:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case s.down.Load():
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	const caps = `"capabilities":{"completions":{},"prompts":{},"tools":{"listChanged":true}},"serverInfo":{"name":"safe","version":"1"}`
	say := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private",%s}}`, m.ID, result)
	}
	switch {
	case m.Kind != jsonrpc.Request:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == mcp.MethodDiscover && s.modern:
		say(`"supportedVersions":["2026-07-28"],` + caps)
	case m.Method == mcp.MethodInitialize && !s.modern:
		w.Header().Set("Mcp-Session-Id", "of-"+who)
		say(`"protocolVersion":"2025-11-25",` + caps)
	case m.Method == mcp.MethodListTools:
		s.mu.Lock()
		defer s.mu.Unlock()
		tools := ""
		for _, name := range []string{"common", who + "_only", s.more[who]} {
			if name != "" {
				tools += fmt.Sprintf(`,{"name":%q,"inputSchema":{"type":"object"}}`, name)
			}
		}
		say(`"tools":[` + tools[1:] + `]`)
	case m.Method == mcp.MethodListPrompts:
		say(`"prompts":[{"name":"p","arguments":[{"name":"a"}]}]`)
	case m.Method == mcp.MethodComplete:
		say(`"completion":{"values":["` + who + `_value"]}`)
	case m.Method == mcp.MethodListen && s.modern:
		id := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/subscriptionId":%s}`, m.ID)
		s.stream(w, r, who, `{`+id+`,"notifications":`+string(m.Param("notifications").Of(m.Raw))+`}`, id)
	default:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"}))
	}
}

// stream sends changes to who until the request ends.
func (s *safe) stream(w http.ResponseWriter, r *http.Request, who, ack, id string) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(method, params string) {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", jsonrpc.AppendNotification(nil, method, []byte(params)))
		w.(http.Flusher).Flush()
	}
	w.(http.Flusher).Flush()
	if ack != "" {
		send(mcp.NoteAcknowledged, ack)
	}
	changes := make(chan string, 8)
	s.mu.Lock()
	s.streams[who] = append(s.streams[who], changes)
	close(s.opened)
	s.opened = make(chan struct{})
	s.mu.Unlock()
	for {
		select {
		case method := <-changes:
			send(method, `{`+id+`}`)
		case <-r.Context().Done():
			s.mu.Lock()
			s.streams[who] = slices.DeleteFunc(s.streams[who], func(c chan string) bool { return c == changes })
			s.mu.Unlock()
			return
		}
	}
}

// change adds a tool for a token and announces it, as soon as somebody listens with this token.
func (s *safe) change(t *testing.T, who string) {
	t.Helper()
	for {
		s.mu.Lock()
		s.more[who] = who + "_new"
		listening, opened := s.streams[who], s.opened
		for _, c := range listening {
			c <- mcp.NoteToolsChanged
		}
		s.mu.Unlock()
		if len(listening) > 0 {
			return
		}
		select {
		case <-opened:
		case <-time.After(30 * time.Second):
			t.Fatalf("nobody listens for %s", who)
		}
	}
}

// visitor is a client of one door.
type visitor struct {
	name  string
	tools func() string
	// complete returns the completion for an argument of a prompt with a prefix.
	complete func(prefix string) string
	notes    chan string
}

// completion returns the params of a completion.
func completion(prefix string) string {
	return `"ref":{"type":"ref/prompt","name":"` + prefix + `p"},"argument":{"name":"a","value":""}`
}

// visitors returns clients of somebody at every door.
func (s *site) visitors(who string, reading *sync.WaitGroup) (all []*visitor) {
	as := []string{"X-Who", who}
	read := func(v *visitor, body io.Closer, events *eventstream.Reader, answers chan string) {
		s.t.Cleanup(func() { _ = body.Close() })
		reading.Go(func() {
			for {
				e, err := events.Next()
				switch {
				case err != nil:
					return
				case strings.Contains(string(e.Data), mcp.NoteToolsChanged):
					v.notes <- string(e.Data)
				case answers != nil && strings.Contains(string(e.Data), `"id"`):
					answers <- string(e.Data)
				}
			}
		})
	}
	reader := func(resp *http.Response) *eventstream.Reader {
		return eventstream.NewReader(resp.Body, eventstream.Limits{Bytes: 1 << 20})
	}
	const (
		listBody = `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`
		ready    = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	)
	for _, door := range []string{"", "/s/old", "/s/new"} {
		path := door + "/mcp"

		legacy := &visitor{name: who + " legacy " + path, notes: make(chan string, 64)}
		id := s.wants(200, `"result"`, "POST", path, helloBody, as...).Get("Mcp-Session-Id")
		mine := append([]string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25"}, as...)
		s.wants(202, "", "POST", path, ready, mine...)
		resp := s.open("GET", path, "", mine...)
		read(legacy, resp.Body, reader(resp), nil)
		legacy.tools = func() string { _, _, b := s.ask("POST", path, listBody, mine...); return b }
		legacy.complete = func(prefix string) string {
			_, _, b := s.ask("POST", path, `{"jsonrpc":"2.0","id":6,"method":"completion/complete","params":{`+completion(prefix)+`}}`, mine...)
			return b
		}

		old := &visitor{name: who + " sse " + door, notes: make(chan string, 64)}
		st := s.stream(door+"/sse", as...)
		answers := make(chan string, 8)
		read(old, st.body, st.events, answers)
		s.wants(202, "", "POST", st.post, helloBody, as...)
		<-answers
		s.wants(202, "", "POST", st.post, ready, as...)
		old.tools = func() string { s.wants(202, "", "POST", st.post, listBody, as...); return <-answers }
		old.complete = func(prefix string) string {
			s.wants(202, "", "POST", st.post, `{"jsonrpc":"2.0","id":6,"method":"completion/complete","params":{`+completion(prefix)+`}}`, as...)
			return <-answers
		}

		ask := func(method, params string) (string, []string) {
			body := strings.NewReplacer("tools/call", method, `"name":"star","arguments":{},`, params).Replace(modernBody)
			return body, append([]string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}, as...)
		}
		new := &visitor{name: who + " modern " + path, notes: make(chan string, 64)}
		new.tools = func() string {
			body, header := ask("tools/list", "")
			_, _, b := s.ask("POST", path, body, header...)
			return b
		}
		new.complete = func(prefix string) string {
			body, header := ask("completion/complete", completion(prefix)+",")
			_, _, b := s.ask("POST", path, body, header...)
			return b
		}
		body, header := ask("subscriptions/listen", `"notifications":{"toolsListChanged":true},`)
		resp = s.open("POST", path, body, header...)
		read(new, resp.Body, reader(resp), nil)
		all = append(all, legacy, old, new)
	}
	return all
}

// TestTA45_NothingOfTheirsCrosses lets ann and bob, who have tokens of their own at two servers, carl and dora, who
// have none, and eve, who signs in in the middle, use every door in every era. Each sees the tools that
// their own token shows and no others, also while a server is down, and gets the completions for it. When the
// tools of one change, or eve signs in, their clients hear of it, and nobody else's do.
func TestTA45_NothingOfTheirsCrosses(t *testing.T) {
	b := NewBridge(nil, transport.NewBudget(64<<20))
	mux := http.NewServeMux()
	keys, signIn := &keyring{}, &gateway.SignIn{Signer: freeForAll{}}
	joined := &gateway.Merged{Bridge: b, SignIn: signIn}
	var singles []*gateway.Single
	safes := map[string]*safe{}
	serve := func(name string, h downstream.Handler) {
		e := NewEndpoint(name, &downstream.Endpoint{Handler: h, Log: slog.New(slog.DiscardHandler)}, EndpointOptions{Principal: withKey})
		prefix := ""
		if name != "" {
			prefix = "/s/" + name
		}
		e.Mount(mux, prefix)
		t.Cleanup(func() { e.close(errServerRemoved) })
	}
	for _, name := range []string{"old", "new"} {
		s := &safe{modern: name == "new", more: map[string]string{}, streams: map[string][]chan string{}, opened: make(chan struct{})}
		safes[name] = s
		web := httptest.NewServer(s)
		t.Cleanup(web.Close)
		u := upstream.New(upstream.Spec{Name: name, URL: web.URL, Kind: "http", Credentials: keys}, upstream.Options{
			Changed: func(kind string) { joined.Changed(name, kind) },
		})
		t.Cleanup(func() { u.Close(context.Background()) })
		x := ForGateway(u)
		joined.Upstreams = append(joined.Upstreams, x)
		one := &gateway.Single{Bridge: b, Upstream: x, SignIn: signIn}
		singles = append(singles, one)
		t.Cleanup(one.Drain)
		serve(name, one)
	}
	t.Cleanup(joined.Close)
	serve("", joined)
	s := serveSite(t, mux)
	s.http.Timeout = 0

	var reading sync.WaitGroup
	t.Cleanup(reading.Wait)
	v := &crowd{
		visitors: map[string][]*visitor{}, people: []string{"ann", "bob", "carl", "dora", "eve"},
		token: map[string]string{"ann": "ann", "bob": "bob", "carl": "nobody", "dora": "nobody", "eve": "nobody"},
	}
	for _, who := range v.people {
		v.visitors[who] = s.visitors(who, &reading)
	}
	v.check(t)
	v.check(t) // now from lists that the catalog has read
	for name, x := range safes {
		for _, who := range []string{"ann", "bob", "carl"} {
			v.quiet()
			x.change(t, v.token[who])
			v.hear(t, who, name)
		}
	}
	v.check(t)

	v.quiet()
	keys.eve.Store(true)
	v.token["eve"] = "eve"
	for _, one := range singles {
		one.Upstream.Renewed("scope of eve")
		one.SignedIn("scope of eve")
		joined.SignedIn(one.Upstream.Name(), "scope of eve")
	}
	v.hear(t, "eve", "")
	v.check(t)
	for name, x := range safes {
		for _, who := range []string{"eve", "dora"} {
			v.quiet()
			x.mu.Lock()
			x.more["nobody"] = "" // so that dora's tools change again
			x.mu.Unlock()
			x.change(t, v.token[who])
			v.hear(t, who, name)
		}
		x.down.Store(true)
	}
	for _, who := range v.people {
		for _, x := range v.visitors[who] {
			if !strings.Contains(x.name, "/s/") {
				v.sees(t, who, x, x.tools())
			}
		}
	}
}

// crowd is a number of people with a client at each door. All with the token nobody share a scope.
type crowd struct {
	people   []string
	visitors map[string][]*visitor
	token    map[string]string
}

// check checks what everybody sees.
func (c *crowd) check(t *testing.T) {
	t.Helper()
	for _, who := range c.people {
		for _, v := range c.visitors[who] {
			c.sees(t, who, v, v.tools())
			prefixes := []string{""}
			if !strings.Contains(v.name, "/s/") {
				prefixes = []string{"old__", "new__"}
			}
			for _, prefix := range prefixes {
				if got := v.complete(prefix); !strings.Contains(got, `["`+c.token[who]+`_value"]`) {
					t.Errorf("%s gets the completion %s", v.name, got)
				}
			}
		}
	}
}

func (c *crowd) sees(t *testing.T, who string, v *visitor, got string) {
	t.Helper()
	for _, of := range []string{"ann", "bob", "eve", "nobody"} {
		if strings.Contains(got, of+"_only") != (of == c.token[who]) || strings.Contains(got, of+"_new") && of != c.token[who] {
			t.Errorf("%s sees %s", v.name, got)
		}
	}
}

// quiet forgets what clients have heard.
func (c *crowd) quiet() {
	for _, all := range c.visitors {
		for _, v := range all {
			for len(v.notes) > 0 {
				<-v.notes
			}
		}
	}
}

// hear checks that the clients of those with the token of who hear of a change at a server, or of all servers
// if server is "", and that nobody else does.
func (c *crowd) hear(t *testing.T, who, server string) {
	t.Helper()
	for _, of := range c.people {
		for _, v := range c.visitors[of] {
			switch {
			case server != "" && strings.Contains(v.name, "/s/") && !strings.Contains(v.name, "/s/"+server):
			case c.token[of] == c.token[who]:
				select {
				case <-v.notes:
				case <-time.After(30 * time.Second):
					t.Fatalf("%s did not hear that the tools of %s at %s have changed", v.name, who, server)
				}
				if got := v.tools(); server != "" && !strings.Contains(got, c.token[of]+"_new") {
					t.Errorf("%s sees %s", v.name, got)
				}
			case len(v.notes) > 0:
				t.Errorf("%s heard of the tools of %s at %s: %s", v.name, who, server, <-v.notes)
			}
		}
	}
}
