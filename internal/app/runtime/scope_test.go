package runtime

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
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

// keyring gives ann and bob tokens of their own. All others share the scope "".
type keyring struct{}

func (keyring) Scope(p *identity.Principal) string {
	if who := p.Key(); who == "ann" || who == "bob" {
		return "scope of " + who
	}
	return ""
}

func (keyring) Sign(_ context.Context, scope, _, _ string) ([]transport.HeaderField, uint64, error) {
	return []transport.HeaderField{{Name: "Authorization", Value: strings.TrimPrefix(scope, "scope of ")}}, 1, nil
}

func (keyring) Refused(context.Context, string, uint64, []string) (bool, error) { return false, nil }

// safe is a server of one era whose tools depend on the token of the request.
type safe struct {
	modern bool

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
	if err != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	const caps = `"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"safe","version":"1"}`
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
	notes chan string
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

		legacy := &visitor{who + " legacy " + path, nil, make(chan string, 64)}
		id := s.wants(200, `"result"`, "POST", path, helloBody, as...).Get("Mcp-Session-Id")
		mine := append([]string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25"}, as...)
		s.wants(202, "", "POST", path, ready, mine...)
		resp := s.open("GET", path, "", mine...)
		read(legacy, resp.Body, reader(resp), nil)
		legacy.tools = func() string { _, _, b := s.ask("POST", path, listBody, mine...); return b }

		old := &visitor{who + " sse " + door, nil, make(chan string, 64)}
		st := s.stream(door+"/sse", as...)
		answers := make(chan string, 8)
		read(old, st.body, st.events, answers)
		s.wants(202, "", "POST", st.post, helloBody, as...)
		<-answers
		s.wants(202, "", "POST", st.post, ready, as...)
		old.tools = func() string { s.wants(202, "", "POST", st.post, listBody, as...); return <-answers }

		ask := func(method, params string) (string, []string) {
			body := strings.NewReplacer("tools/call", method, `"name":"star","arguments":{},`, params).Replace(modernBody)
			return body, append([]string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}, as...)
		}
		new := &visitor{who + " modern " + path, nil, make(chan string, 64)}
		new.tools = func() string {
			body, header := ask("tools/list", "")
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

// TestListsOfTwoPrincipals lets ann and bob, who have tokens of their own at two servers, and carl and
// dora, who have none, use every door in every era. Each sees the tools that its own token shows and
// no others. When the tools of one change, its clients hear of it, and nobody else's do.
func TestListsOfTwoPrincipals(t *testing.T) {
	b := NewBridge(nil, transport.NewBudget(64<<20))
	mux := http.NewServeMux()
	joined := &gateway.Merged{Bridge: b}
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
		u := upstream.New(upstream.Spec{Name: name, URL: web.URL, Kind: "http", Credentials: keyring{}}, upstream.Options{
			Changed: func(kind string) { joined.Changed(name, kind) },
		})
		t.Cleanup(func() { u.Close(context.Background()) })
		x := ForGateway(u)
		joined.Upstreams = append(joined.Upstreams, x)
		one := &gateway.Single{Bridge: b, Upstream: x}
		t.Cleanup(one.Drain)
		serve(name, one)
	}
	t.Cleanup(joined.Close)
	serve("", joined)
	s := serveSite(t, mux)
	s.http.Timeout = 0

	var reading sync.WaitGroup
	t.Cleanup(reading.Wait)
	visitors, people := map[string][]*visitor{}, []string{"ann", "bob", "carl", "dora"}
	token := map[string]string{"ann": "ann", "bob": "bob", "carl": "nobody", "dora": "nobody"}
	for _, who := range people {
		visitors[who] = s.visitors(who, &reading)
	}
	check := func() {
		t.Helper()
		for _, who := range people {
			for _, v := range visitors[who] {
				got := v.tools()
				for _, of := range []string{"ann", "bob", "nobody"} {
					if strings.Contains(got, of+"_only") != (of == token[who]) || strings.Contains(got, of+"_new") && of != token[who] {
						t.Errorf("%s sees %s", v.name, got)
					}
				}
			}
		}
	}
	check()
	check() // now from lists that the catalog has read
	for name, x := range safes {
		for _, who := range []string{"ann", "bob", "carl"} {
			for _, of := range people {
				for _, v := range visitors[of] {
					for len(v.notes) > 0 {
						<-v.notes
					}
				}
			}
			x.change(t, token[who])
			for _, of := range people {
				for _, v := range visitors[of] {
					switch {
					case strings.Contains(v.name, "/s/") && !strings.Contains(v.name, "/s/"+name):
					case token[of] == token[who]:
						select {
						case <-v.notes:
						case <-time.After(30 * time.Second):
							t.Fatalf("%s did not hear that the tools of %s at %s have changed", v.name, who, name)
						}
						if got := v.tools(); !strings.Contains(got, token[of]+"_new") {
							t.Errorf("%s sees %s", v.name, got)
						}
					case len(v.notes) > 0:
						t.Errorf("%s heard of the tools of %s at %s: %s", v.name, who, name, <-v.notes)
					}
				}
			}
		}
	}
	check()
}
