package streamhttp

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// hall is a fake transport.Acceptor whose conversations answer requests. Its zero value answers
// initialize with the requested revision, and every other request with {"ok":true}.
type hall struct {
	serve  func(ctx context.Context, in transport.Incoming, r transport.Responder)
	oneWay func(in transport.Incoming) error

	mu    sync.Mutex
	convs []*guest
	calls []string // the methods of the messages that arrived, in order
}

func (h *hall) Accept(p transport.Peer, out transport.Outbox) transport.Conversation {
	g := &guest{hall: h, peer: p, out: out, gone: make(chan struct{})}
	h.mu.Lock()
	h.convs = append(h.convs, g)
	h.mu.Unlock()
	return g
}

func (h *hall) called() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.calls...)
}

func (h *hall) guests() []*guest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*guest(nil), h.convs...)
}

type guest struct {
	hall *hall
	peer transport.Peer
	out  transport.Outbox
	once sync.Once
	gone chan struct{}
}

func (g *guest) note(in transport.Incoming) {
	g.hall.mu.Lock()
	g.hall.calls = append(g.hall.calls, in.Msg.Method)
	g.hall.mu.Unlock()
}

func (g *guest) Request(ctx context.Context, in transport.Incoming, r transport.Responder) {
	g.note(in)
	m := in.Msg
	switch {
	case m.Method == mcp.MethodInitialize && in.Opening.Revision.Legacy():
		v := m.Param("protocolVersion").Of(m.Raw)
		if v == nil {
			v = []byte(`"2025-11-25"`)
		}
		_ = r.Finish(jsonrpc.AppendResult(nil, m.ID, []byte(`{"protocolVersion":`+string(v)+`}`)), 0)
	case g.hall.serve != nil:
		g.hall.serve(ctx, in, r)
	default:
		finish(in, r)
	}
}

func finish(in transport.Incoming, r transport.Responder) {
	_ = r.Finish(jsonrpc.AppendResult(nil, in.Msg.ID, []byte(`{"ok":true}`)), 0)
}

func (g *guest) OneWay(_ context.Context, in transport.Incoming) error {
	g.note(in)
	if g.hall.oneWay != nil {
		return g.hall.oneWay(in)
	}
	return nil
}

func (g *guest) Close(error) { g.once.Do(func() { close(g.gone) }) }

// door runs a Server of this package in a real HTTP server.
type door struct {
	t      testing.TB
	hall   *hall
	server *Server
	url    string
	client *http.Client
	stop   func(cause error) // cancels the base context of the server with this cause
}

// whoAsks is an Options.Principal for tests: the caller is whom the header X-Who names, and the local
// user without the header.
func whoAsks(r *http.Request) (*identity.Principal, error) {
	if who := identity.Named(r.Header.Get("X-Who")); who != nil {
		return who, nil
	}
	return identity.Local, nil
}

func open(t testing.TB, h *hall, change func(*Options)) *door {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return openOn(t, h, change, l, nil)
}

// openOn starts a door that serves on l. Its clients connect with dial, or over the network if
// dial is nil.
func openOn(t testing.TB, h *hall, change func(*Options), l net.Listener, dial func() (net.Conn, error)) *door {
	o := Options{Acceptor: h, Endpoint: "test", Principal: identity.Anyone}
	if change != nil {
		change(&o)
	}
	s := NewServer(o)
	hs := httpdoor.NewHTTPServer(s)
	hs.Protocols = new(http.Protocols)
	hs.Protocols.SetHTTP1(true)
	hs.Protocols.SetUnencryptedHTTP2(true)
	ctx, cancel := context.WithCancelCause(context.Background())
	hs.BaseContext = func(net.Listener) context.Context { return ctx }
	var wg sync.WaitGroup
	wg.Go(func() { _ = hs.Serve(l) })
	wg.Go(func() { _ = s.Run(ctx) })
	tr := &http.Transport{}
	if dial != nil {
		tr.DialContext = func(context.Context, string, string) (net.Conn, error) { return dial() }
	}
	d := &door{t: t, hall: h, server: s, url: "http://" + l.Addr().String() + "/mcp", client: &http.Client{Transport: tr}, stop: cancel}
	t.Cleanup(func() {
		cancel(nil)
		_ = s.Close()
		tr.CloseIdleConnections()
		_ = hs.Close()
		wg.Wait()
		if n := s.flights.len(); n != 0 {
			t.Errorf("%d requests in flight after Close", n)
		}
		for _, g := range h.guests() {
			select {
			case <-g.gone:
			default:
				t.Errorf("a conversation was never closed: %+v", g.peer)
			}
		}
	})
	return d
}

// openPipes does the same as open, but with a network in memory.
func openPipes(t testing.TB, h *hall, change func(*Options)) (*door, *pipetest.Listener) {
	l := pipetest.Listen()
	return openOn(t, h, change, l, l.Dial), l
}

// send makes a request. Headers have the form "Name: value". A header without a value removes a
// default header.
func (d *door) send(ctx context.Context, method, body string, headers ...string) *http.Response {
	d.t.Helper()
	resp, err := d.try(ctx, method, body, headers...)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp
}

func (d *door) try(ctx context.Context, method, body string, headers ...string) (*http.Response, error) {
	var rd io.Reader
	if method == http.MethodPost {
		rd = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, d.url, rd)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if rd != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ": ")
		switch {
		case name == "Host":
			req.Host = value
		case !ok:
			req.Header.Del(strings.TrimSuffix(name, ":"))
		default:
			if name == "Accept" || name == "Content-Type" {
				req.Header.Del(name)
			}
			req.Header.Add(name, value)
		}
	}
	return d.client.Do(req)
}

// heard is a response that has been read.
type heard struct {
	status int
	header http.Header
	body   string
}

func (d *door) do(method, body string, headers ...string) heard {
	d.t.Helper()
	resp := d.send(context.Background(), method, body, headers...)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return heard{resp.StatusCode, resp.Header, string(b)}
}

func (d *door) post(body string, headers ...string) heard {
	d.t.Helper()
	return d.do(http.MethodPost, body, headers...)
}

// want checks the status and the JSON-RPC error code. Code 0 means no error.
func (r heard) want(t testing.TB, status int, code int64) {
	t.Helper()
	if r.status != status {
		t.Errorf("status %d, want %d; body %s", r.status, status, r.body)
	}
	if got := r.code(); got != code {
		t.Errorf("error code %d, want %d; body %s", got, code, r.body)
	}
}

func (r heard) message() *jsonrpc.Message {
	m, _ := jsonrpc.Scan([]byte(r.body), jsonrpc.Limits{})
	return m
}

func (r heard) code() int64 {
	m := r.message()
	if m == nil || m.Kind != jsonrpc.Failure {
		return 0
	}
	n, _ := jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, m.Error, "code"))
	return n
}

func (r heard) id() jsonrpc.ID {
	if m := r.message(); m != nil {
		return m.ID
	}
	return ""
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// modernCall returns a modern tools/call request and its HTTP headers.
func modernCall(id string) (string, []string) {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"star","arguments":{},` + modernMeta + `}}`,
		[]string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: star"}
}

// callModern sends a valid modern call and checks its answer.
func (d *door) callModern() {
	d.t.Helper()
	body, headers := modernCall("7")
	r := d.post(body, headers...)
	if r.status != 200 || !strings.Contains(r.body, `"id":7`) {
		d.t.Errorf("a valid call got %d %s", r.status, r.body)
	}
}

const initializeBody = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"%s","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// initialize opens a session and returns the header line with the session id.
func (d *door) initialize(version string, headers ...string) string {
	d.t.Helper()
	r := d.post(strings.ReplaceAll(initializeBody, "%s", version), headers...)
	r.want(d.t, 200, 0)
	id := r.header.Get("Mcp-Session-Id")
	if id == "" {
		d.t.Fatalf("no session id; body %s", r.body)
	}
	return "Mcp-Session-Id: " + id
}

func call(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"star","arguments":{}}}`
}

// feed reads the events of a response.
type feed struct {
	t    testing.TB
	resp *http.Response
	rd   *eventstream.Reader
}

func readEvents(t testing.TB, resp *http.Response) *feed {
	t.Helper()
	if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		b, _ := io.ReadAll(resp.Body)
		t.Fatalf("the response is not an event stream: %d %s", resp.StatusCode, b)
	}
	return &feed{t, resp, eventstream.NewReader(resp.Body, eventstream.Limits{})}
}

func (e *feed) next() eventstream.Event {
	e.t.Helper()
	ev, err := e.rd.Next()
	if err != nil {
		e.t.Fatalf("the next event: %v", err)
	}
	return ev
}

// ends checks that the stream ends without another event.
func (e *feed) ends() {
	e.t.Helper()
	if ev, err := e.rd.Next(); err == nil {
		e.t.Errorf("unexpected event: %s", ev.Data)
	}
}

func (e *feed) close() { _ = e.resp.Body.Close() }

// raw sends bytes, and returns the connection and a reader of responses.
func (d *door) raw(text string) (net.Conn, *bufio.Reader) {
	d.t.Helper()
	c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(d.url, "http://"), "/mcp"))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(c, bytes.NewReader([]byte(text))); err != nil {
		d.t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}
