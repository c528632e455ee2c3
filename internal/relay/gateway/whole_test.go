package gateway_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// testServer is a server within the test. Each of its sessions is a pipe, and the test decides how
// the server answers each message.
type testServer struct {
	modern         bool
	both           bool   // a modern server that also supports the legacy era
	crashesOnProbe bool   // the server exits when it is probed
	caps           string // the server's capabilities; "" means tools and logging
	revision       string // revision of a legacy server; "" means 2025-11-25
	// instructions are the instructions for models, "" for none.
	instructions string
	isolation    upstream.Isolation // isolation of its sessions; "" means auto
	url          string             // URL of a server on HTTP; "" for a server on pipes
	// shows says which items clients may see; nil means all.
	shows func(name string) bool
	// choose returns the capabilities in the answer to an initialize request; nil means caps.
	choose func(m *jsonrpc.Message) string
	slow   time.Duration // the delay before the server takes a message
	starts *upstream.Starts
	// framing creates the two ends of a session; nil means inmem.Pipe.
	framing func() (client, server transport.Pipe)
	// broadcasts says that the server sends its messages to all of its sessions, like some
	// wrappers that turn a program into an HTTP server.
	broadcasts bool
	// on handles all messages after the handshake; nil answers every request with {}.
	on func(l *testSession, m *jsonrpc.Message)

	mu       sync.Mutex
	refuse   error // the error with which the next attempts to open a session fail
	crashing int   // number of the next processes that exit at their first message
	links    []*testSession
	running  sync.WaitGroup
}

// testSession is one session of a testServer, at the server's end.
type testSession struct {
	server   *testServer
	pipe     transport.Pipe
	number   int
	crashing bool

	mu   sync.Mutex
	seen []*jsonrpc.Message
}

func (s *testServer) open(context.Context) (transport.Pipe, error) {
	s.mu.Lock()
	refuse := s.refuse
	s.mu.Unlock()
	if refuse != nil {
		time.Sleep(time.Second)
		return nil, refuse
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	link := inmem.Pipe
	if s.framing != nil {
		link = s.framing
	}
	client, server := link()
	l := &testSession{server: s, pipe: server, number: len(s.links)}
	s.links = append(s.links, l)
	if s.crashing > 0 {
		s.crashing--
		l.crashing = true
	}
	s.running.Go(l.serve)
	return client, nil
}

func (s *testServer) refuseOpens(err error) {
	s.mu.Lock()
	s.refuse = err
	s.mu.Unlock()
}

func (s *testServer) crashNext(n int) {
	s.mu.Lock()
	s.crashing = n
	s.mu.Unlock()
}

func (s *testServer) link(t testing.TB, n int) *testSession {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n >= len(s.links) {
		t.Fatalf("the server has %d sessions", len(s.links))
	}
	return s.links[n]
}

func (s *testServer) opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.links)
}

func (l *testSession) serve() {
	for {
		m, err := l.pipe.Read()
		if err != nil {
			var bad *jsonrpc.Error
			if errors.As(err, &bad) {
				continue
			}
			_ = l.pipe.Close()
			return
		}
		l.mu.Lock()
		l.seen = append(l.seen, m)
		l.mu.Unlock()
		if l.crashing || l.server.crashesOnProbe && m.Method == mcp.MethodDiscover {
			_ = l.pipe.Close()
			return
		}
		time.Sleep(l.server.slow)
		l.take(m)
	}
}

func (l *testSession) take(m *jsonrpc.Message) {
	caps := l.server.caps
	if caps == "" {
		caps = `{"tools":{"listChanged":true},"logging":{}}`
	}
	if l.server.instructions != "" {
		caps += `,"instructions":` + string(jsonrpc.AppendQuote(nil, l.server.instructions))
	}
	switch {
	case m.Method == mcp.MethodDiscover && (l.server.modern || l.server.both):
		versions := `["2026-07-28"]`
		if l.server.both {
			versions = `["2026-07-28","2025-11-25"]`
		}
		l.answer(m, `{"resultType":"complete","supportedVersions":`+versions+`,"capabilities":`+caps+`,"ttlMs":0,"cacheScope":"private"}`)
	case m.Method == mcp.MethodInitialize && l.server.modern:
		l.fail(m, -32022, `{"supported":["2026-07-28"],"requested":"2025-11-25"}`)
	case m.Method == mcp.MethodInitialize:
		if l.server.choose != nil {
			caps = l.server.choose(m)
		}
		l.answer(m, `{"protocolVersion":"`+cmp.Or(l.server.revision, "2025-11-25")+`","capabilities":`+caps+`,"serverInfo":{"name":"far","version":"1"}}`)
	case m.Method == mcp.MethodDiscover:
		l.fail(m, -32601, "")
	case m.Method == mcp.MethodListen && l.server.on == nil:
		l.acknowledge(m)
	case l.server.on != nil:
		l.server.on(l, m)
	case m.Kind == jsonrpc.Request:
		l.answer(m, `{}`)
	}
}

// acknowledge accepts everything that a listen requests.
func (l *testSession) acknowledge(m *jsonrpc.Message) {
	l.say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` +
		string(m.ID) + `},"notifications":` + string(m.Param("notifications").Of(m.Raw)) + `}}`)
}

func (l *testSession) say(raw string) {
	to := []*testSession{l}
	if l.server.broadcasts {
		l.server.mu.Lock()
		to = slices.Clone(l.server.links)
		l.server.mu.Unlock()
	}
	for _, l := range to {
		_ = l.pipe.Write([]byte(raw))
	}
}

func (l *testSession) answer(m *jsonrpc.Message, result string) {
	l.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`)
}
func (l *testSession) fail(m *jsonrpc.Message, n int, data string) { l.say(failure(m.ID, n, data)) }

func failure(id jsonrpc.ID, code int, data string) string {
	if data != "" {
		data = `,"data":` + data
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"m"%s}}`, id, code, data)
}

// got returns the messages of a method that the server has got, or all messages if the method is "".
func (l *testSession) got(method string) []*jsonrpc.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*jsonrpc.Message
	for _, m := range l.seen {
		if method == "" || m.Method == method {
			out = append(out, m)
		}
	}
	return out
}

// whole is a complete gateway in the process of the test, with one or several servers.
type whole struct {
	t         *testing.T
	host      downstream.Handler
	relay     *bridge.Bridge
	servers   []gateway.Upstream
	far       []*testServer
	upstreams []*upstream.Upstream
	running   sync.WaitGroup
	ends      []func()

	log journal

	mu      sync.Mutex
	losses  []string // elements have the form "server what why"
	refused []string // refused states, in the form "server principal method"
}

// journal contains the log lines that Dragoman writes about the servers, of level Info or higher.
type journal struct{ logtest.Buffer }

// warnings returns the lines at level WARN.
func (j *journal) warnings() (all []string) {
	for line := range strings.Lines(j.String()) {
		if strings.Contains(line, "level=WARN") {
			all = append(all, line)
		}
	}
	return all
}

func (w *whole) lost(server, what, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.losses = append(w.losses, server+" "+what+" "+why)
}

// lostSoFar returns the losses since the previous call of lostSoFar.
func (w *whole) lostSoFar() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := w.losses
	w.losses = nil
	return got
}

// shown says, by server name, which items clients may see. Clients may see all items of a server
// without an entry.
type shown map[string]func(name string) bool

func (x shown) filter() catalog.Filter {
	if len(x) == 0 {
		return nil
	}
	return x
}

func (x shown) Shows(kind catalog.Kind, server, name string) bool {
	shows := x[server]
	return shows == nil || kind == catalog.KindServer || shows(name)
}

// build starts a Dragoman with some servers. A single server keeps its own names. Several servers
// are merged. build must be called in a synctest bubble, and everything that it starts ends with
// the bubble.
func build(t *testing.T, servers ...*testServer) *whole {
	t.Helper()
	w := &whole{t: t}
	events := &event.Publisher{}
	events.Tap(event.Of(event.Loss), func(e event.Event) { w.lost(e.Server, e.Name, e.Detail) })
	events.Tap(event.Of(event.Refusal), func(e event.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refused = append(w.refused, e.Server+" "+e.Who.Key()+" "+e.Method)
	})
	own := &mcp.Own{}
	own.Listen(7300)
	relay := &bridge.Bridge{Events: events, Keys: bridge.NewKeys([]byte("the key that outlives a restart")), Own: own}
	var all []gateway.Upstream
	var merged *gateway.Merged
	exposed := shown{}
	for i, s := range servers {
		name := string(rune('a' + i))
		o := upstream.Options{
			Info: []byte(`{"name":"dragoman","version":"test"}`), Events: events, Clean: func(s string) string { return s },
			Log: slog.New(slog.NewTextHandler(&w.log, nil)), Own: own, Starts: s.starts,
		}
		if len(servers) > 1 {
			o.Changed = func(kind string) { merged.Changed(name, kind) }
		}
		spec := upstream.Spec{Name: name, Pipe: s.open, Isolation: s.isolation}
		if s.url != "" {
			spec.Pipe, spec.URL, spec.Kind = nil, s.url, "http"
		}
		u := upstream.New(spec, o)
		w.upstreams = append(w.upstreams, u)
		all = append(all, server{u})
		if s.shows != nil {
			exposed[name] = s.shows
		}
	}
	w.relay, w.servers, w.far = relay, all, servers
	if len(servers) == 1 {
		host := &gateway.Single{Bridge: relay, Upstream: all[0], Expose: exposed.filter(), Vet: unusable}
		w.host = host
		w.ends = append(w.ends, host.Drain)
	} else {
		merged = &gateway.Merged{Bridge: relay, Upstreams: all, Expose: exposed.filter(), Vet: unusable, Identity: catalog.Identity{Name: "dragoman", Version: "test"}}
		w.host = merged
		w.ends = append(w.ends, merged.Close)
	}
	t.Cleanup(func() {
		for _, end := range w.ends {
			end()
		}
		w.running.Wait()
		relay.Close()
		for _, u := range w.upstreams {
			u.Close(context.Background())
		}
		for _, s := range servers {
			s.running.Wait()
		}
	})
	return w
}

// unusable is a catalog.Vet that hides tools with an invalid x-mcp-header.
func unusable(kind catalog.Kind, _ string, _ mcp.Revision, raw []byte) (v catalog.Verdict, _ jsonrpc.EditList) {
	if _, err := mirror.ParseParams(raw, jsonrpc.Find(raw, jsonrpc.Whole(raw), "inputSchema")); kind == catalog.KindTool && err != nil {
		v.Hide = "its x-mcp-header is invalid: " + err.Error()
	}
	return v, jsonrpc.EditList{}
}

// testClient is a client of the Dragoman in the test.
type testClient struct {
	t    *testing.T
	pipe transport.Pipe
	in   chan *jsonrpc.Message // closed when the connection ends
}

func (w *whole) client() *testClient { return w.clientOf("") }

// overPipe returns a client on stdio whose messages have at most 8 KiB.
func (w *whole) overPipe() *testClient {
	down, toServer := io.Pipe()
	up, toClient := io.Pipe()
	return w.join("", stdio.NewPipe(up, toServer, stdio.Options{}),
		stdio.NewPipe(down, toClient, stdio.Options{Limits: jsonrpc.Limits{Bytes: 8 << 10}}))
}

// clientOf returns a client with a principal.
func (w *whole) clientOf(principal string) *testClient {
	client, server := inmem.Pipe()
	return w.join(principal, client, server)
}

func (w *whole) join(principal string, client, server transport.Pipe) *testClient {
	return w.joinAs(identity.Named(principal), client, server)
}

func (w *whole) joinAs(who *identity.Principal, client, server transport.Pipe) *testClient {
	endpoint := &downstream.Endpoint{Handler: unwritten{w.host, w.t}, Log: slog.New(slog.NewTextHandler(&w.log, nil))}
	w.running.Go(func() {
		_ = endpoint.ServePipe(w.t.Context(), server, transport.Peer{Transport: "inmem", Who: who})
	})
	n := &testClient{t: w.t, pipe: client, in: make(chan *jsonrpc.Message, 4096)}
	w.running.Go(func() {
		defer close(n.in)
		for {
			m, err := client.Read()
			if err != nil {
				return
			}
			n.in <- m
		}
	})
	w.ends = append(w.ends, func() { _ = client.Close() })
	return n
}

// legacy returns a client that has sent initialize.
func (w *whole) legacy(capabilities string) *testClient {
	w.t.Helper()
	n := w.client()
	n.open(capabilities)
	return n
}

// open sends initialize.
func (n *testClient) open(capabilities string) {
	n.t.Helper()
	n.say(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,"clientInfo":{"name":"n","version":"1"}}}`)
	if m := n.answerTo(`"init"`); m.Kind != jsonrpc.Result {
		n.t.Fatalf("initialize: %s", m.Raw)
	}
	n.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	synctest.Wait()
}

func (n *testClient) say(raw string) {
	n.t.Helper()
	if err := n.pipe.Write([]byte(raw)); err != nil {
		n.t.Fatal(err)
	}
}

// modernRequest returns a modern request. The argument params contains the members of its params
// except _meta, or "" for none.
func modernRequest(id, method, params, capabilities string) string {
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}}}`
}

func (n *testClient) next() *jsonrpc.Message {
	n.t.Helper()
	select {
	case m, ok := <-n.in:
		if !ok {
			n.t.Fatal("the client's pipe has ended")
		}
		return m
	case <-time.After(20 * time.Minute):
		n.t.Fatal("no message arrived")
		return nil
	}
}

// rest returns the messages that arrive within a second.
func (n *testClient) rest() []string {
	time.Sleep(time.Second)
	synctest.Wait()
	var out []string
	for {
		select {
		case m, ok := <-n.in:
			if !ok {
				return out
			}
			out = append(out, string(m.Raw))
		default:
			return out
		}
	}
}

// answerTo returns the answer with the given id, and drops the messages before it.
func (n *testClient) answerTo(id string) *jsonrpc.Message {
	n.t.Helper()
	for {
		if m := n.next(); string(m.ID) == id && m.Kind != jsonrpc.Request {
			return m
		}
	}
}

// request returns the next server request, and drops the messages before it.
func (n *testClient) request() *jsonrpc.Message {
	n.t.Helper()
	for {
		if m := n.next(); m.Kind == jsonrpc.Request {
			return m
		}
	}
}

func (n *testClient) wants(got *jsonrpc.Message, text string) {
	n.t.Helper()
	if !strings.Contains(string(got.Raw), text) {
		n.t.Errorf("got %s, want %s in it", got.Raw, text)
	}
}

// inBubble runs a test with simulated time.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
