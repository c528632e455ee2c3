package sse

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// hall is a fake transport.Acceptor whose conversations answer requests. Its zero value answers
// every request with {"ok":true}.
type hall struct {
	serve func(ctx context.Context, in transport.Incoming, r transport.Responder)

	mu    sync.Mutex
	convs []*guest
	calls []string
}

type guest struct {
	hall *hall
	peer transport.Peer
	out  transport.Outbox
	once sync.Once
	gone chan struct{}
}

func (h *hall) Accept(p transport.Peer, out transport.Outbox) transport.Conversation {
	g := &guest{hall: h, peer: p, out: out, gone: make(chan struct{})}
	h.mu.Lock()
	h.convs = append(h.convs, g)
	h.mu.Unlock()
	return g
}

func (h *hall) last() *guest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.convs[len(h.convs)-1]
}

func (g *guest) note(in transport.Incoming) {
	g.hall.mu.Lock()
	g.hall.calls = append(g.hall.calls, in.Msg.Method)
	g.hall.mu.Unlock()
}

func (g *guest) Request(ctx context.Context, in transport.Incoming, r transport.Responder) {
	g.note(in)
	if g.hall.serve != nil {
		g.hall.serve(ctx, in, r)
		return
	}
	answer(in, r)
}

func answer(in transport.Incoming, r transport.Responder) {
	_ = r.Finish(jsonrpc.AppendResult(nil, in.Msg.ID, []byte(`{"ok":true}`)), 0)
}

func (g *guest) OneWay(_ context.Context, in transport.Incoming) error {
	g.note(in)
	switch in.Msg.Method {
	case "notifications/bad":
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "bad"}
	case "notifications/panic":
		panic("boom")
	}
	return nil
}

func (g *guest) Close(error) { g.once.Do(func() { close(g.gone) }) }

type door struct {
	t      testing.TB
	hall   *hall
	server *Server
	url    string
	client *http.Client
}

func openDoor(t testing.TB, h *hall, l net.Listener, dial func() (net.Conn, error), change func(*Options)) *door {
	o := Options{Acceptor: h, Endpoint: "test", Principal: identity.Anyone}
	if change != nil {
		change(&o)
	}
	s := NewServer(o)
	mux := http.NewServeMux()
	mux.Handle("/x/sse", s)
	mux.Handle("/x/messages", s)
	hs := httpdoor.NewHTTPServer(mux)
	var wg sync.WaitGroup
	wg.Go(func() { _ = hs.Serve(l) })
	tr := &http.Transport{}
	if dial != nil {
		tr.DialContext = func(context.Context, string, string) (net.Conn, error) { return dial() }
	}
	t.Cleanup(func() {
		_ = s.Close()
		tr.CloseIdleConnections()
		_ = hs.Close()
		wg.Wait()
		for _, g := range h.convs {
			<-g.gone
		}
	})
	return &door{t, h, s, "http://" + l.Addr().String(), &http.Client{Transport: tr}}
}

func newDoor(t testing.TB, h *hall, change func(*Options)) *door {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return openDoor(t, h, l, nil, change)
}

func (d *door) do(method, path, body string, headers ...string) (int, string, http.Header) {
	d.t.Helper()
	req, err := http.NewRequest(method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		if k == "Host" {
			req.Host = v
		}
		req.Header.Set(k, v)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), resp.Header
}

// feed is an open event stream.
type feed struct {
	*door
	resp *http.Response
	rd   *eventstream.Reader
	path string // the path for POST requests with messages
}

func (d *door) connect(headers ...string) *feed {
	d.t.Helper()
	req, _ := http.NewRequest("GET", d.url+"/x/sse", nil)
	req.Header.Set("Accept", "text/event-stream")
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		req.Header.Set(k, v)
	}
	resp, err := d.client.Do(req)
	if err != nil || resp.StatusCode != 200 {
		d.t.Fatalf("%v %v", err, resp)
	}
	f := &feed{door: d, resp: resp, rd: eventstream.NewReader(resp.Body, eventstream.Limits{})}
	ev := f.next()
	if ev.Name != "endpoint" || !strings.HasPrefix(string(ev.Data), "/x/messages?sessionId=") || len(ev.Data) < 22+32 {
		d.t.Fatalf("the first event is %+v", ev)
	}
	f.path = string(ev.Data)
	return f
}

func (f *feed) next() eventstream.Event {
	f.t.Helper()
	ev, err := f.rd.Next()
	if err != nil {
		f.t.Fatal(err)
	}
	return ev
}

func (f *feed) post(want int, body string, headers ...string) string {
	f.t.Helper()
	status, b, _ := f.do("POST", f.path, body, headers...)
	if status != want {
		f.t.Errorf("status %d, want %d: %s", status, want, b)
	}
	return b
}

func (f *feed) close() { _ = f.resp.Body.Close() }

// callGood sends a valid call and checks its answer.
func (f *feed) callGood() {
	f.t.Helper()
	f.post(202, `{"jsonrpc":"2.0","id":"good","method":"ping"}`)
	if ev := f.next(); ev.Name != "message" || string(ev.Data) != `{"jsonrpc":"2.0","id":"good","result":{"ok":true}}` || ev.HasID {
		f.t.Errorf("%+v %s", ev, ev.Data)
	}
}

func TestServerExchange(t *testing.T) {
	d := newDoor(t, &hall{}, nil)
	f := d.connect()
	defer f.close()
	f.callGood()
	f.post(202, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	f.post(202, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	if b := f.post(400, `{"jsonrpc":"2.0","method":"notifications/bad"}`); !strings.Contains(b, "-32602") {
		t.Error(b)
	}
	if b := f.post(400, `{"jsonrpc":"2.0","method":"notifications/panic"}`); !strings.Contains(b, "-32603") {
		t.Error(b)
	}
	if err := d.hall.last().out.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/x"}`)); err != nil {
		t.Error(err)
	}
	if ev := f.next(); !strings.Contains(string(ev.Data), "notifications/x") {
		t.Errorf("%s", ev.Data)
	}
	if p := d.hall.last().peer; p.Transport != "sse" || p.Endpoint != "test" || p.Remote != "127.0.0.1" {
		t.Errorf("%+v", p)
	}
	f.callGood()
	if c := d.server.Counts(); c.Opened != 1 || c.Streams != 1 || c.Requests != 2 || c.OneWay != 4 || c.Panics != 1 {
		t.Errorf("%+v", c)
	}
}

func TestH03_H05_H08_ServerGuards(t *testing.T) {
	d := newDoor(t, &hall{}, nil)
	f := d.connect()
	defer f.close()
	good := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, method := range []string{"GET", "POST"} {
		for _, path := range []string{"/x/sse", f.path} {
			for _, h := range []string{"Origin: https://evil.example", "Origin: null", "Host: evil.example"} {
				if status, b, _ := d.do(method, path, good, h); status != 403 || strings.Contains(b, `"id"`) {
					t.Errorf("%s %s %s: %d %s", method, path, h, status, b)
				}
			}
		}
	}
	for _, method := range []string{"PUT", "DELETE", "OPTIONS", "TRACE"} {
		if status, _, h := d.do(method, "/x/sse", ""); status != 405 || h.Get("Allow") == "" {
			t.Errorf("%s: %d %v", method, status, h)
		}
	}
	f.post(415, good, "Content-Type: text/plain")
	f.post(413, strings.Repeat(" ", 4<<20+1))
	f.post(400, "")
	f.post(400, "{")
	if b := f.post(400, `{"jsonrpc":"2.0","id":1,"METHOD":"ping"}`); !strings.Contains(b, `"id":1`) {
		t.Error(b)
	}
	f.post(400, `[`+good+`]`)
	for path, want := range map[string]int{"/x/messages": 400, "/x/sse": 400, "/x/messages?sessionId=unknown": 404, "/x/messages?sessionId=%zz": 400} {
		if status, b, _ := d.do("POST", path, good); status != want {
			t.Errorf("%s: %d %s", path, status, b)
		}
	}
	if status, _, _ := d.do("GET", "/x/sse", "", "Accept: application/json"); status != 406 {
		t.Errorf("%d", status)
	}
	if len(d.hall.calls) != 0 {
		t.Errorf("%q", d.hall.calls)
	}
	f.callGood()
}

func TestL06_ServerForeignStream(t *testing.T) {
	d := newDoor(t, &hall{}, func(o *Options) {
		o.Principal = func(r *http.Request) (*identity.Principal, error) {
			if who := r.Header.Get("X-Who"); who != "" {
				return identity.Named(who), nil
			}
			return nil, &httpdoor.Denied{Challenge: "Bearer"}
		}
	})
	f := d.connect("X-Who: ann")
	defer f.close()
	good := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	f.post(404, good, "X-Who: bob")
	f.post(401, good)
	f.post(202, good, "X-Who: ann")
	f.next()
}

func TestStreamEndCancels(t *testing.T) {
	started, ended := make(chan struct{}), make(chan error, 2)
	d := newDoor(t, &hall{serve: func(ctx context.Context, in transport.Incoming, r transport.Responder) {
		started <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
	}}, nil)
	f := d.connect()
	f.post(202, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	<-started
	f.close()
	if err := <-ended; err != errStreamGone {
		t.Error(err)
	}
	<-d.hall.last().gone
	for d.server.Counts().Streams != 0 {
		time.Sleep(time.Millisecond)
	}
	f.post(404, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
}

func TestServerLimits(t *testing.T) {
	proceed := make(chan struct{})
	d := newDoor(t, &hall{serve: func(ctx context.Context, in transport.Incoming, r transport.Responder) {
		select {
		case <-proceed:
		case <-ctx.Done():
		}
		answer(in, r)
	}}, func(o *Options) {
		o.MaxStreams = 1
		o.AllowStream = func(context.Context, transport.Newcomer) (time.Duration, bool) { return 0, true }
	})
	f := d.connect()
	defer f.close()
	if status, _, h := d.do("GET", "/x/sse", ""); status != 503 || h.Get("Retry-After") == "" {
		t.Errorf("%d %v", status, h)
	}
	for i := range 64 {
		f.post(202, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
	}
	f.post(503, `{"jsonrpc":"2.0","id":64,"method":"ping"}`)
	f.post(202, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
	close(proceed)
	for range 64 {
		f.next()
	}
	f.callGood()
	d.server.opts.AllowStream = func(context.Context, transport.Newcomer) (time.Duration, bool) { return time.Second, false }
	if status, _, _ := d.do("GET", "/x/sse", ""); status != 429 {
		t.Errorf("%d", status)
	}
}

// TestGreedyClient checks that a client that opens streams all the time gets at most half of
// the places.
func TestGreedyClient(t *testing.T) {
	d := newDoor(t, &hall{}, func(o *Options) { o.MaxStreams = 16 })
	innocent := d.connect("User-Agent: innocent")
	defer innocent.close()
	opened := 0
	for range 20 {
		req, _ := http.NewRequest("GET", d.url+"/x/sse", nil)
		req.Header = http.Header{"Accept": {"text/event-stream"}, "User-Agent": {"greedy"}}
		resp, err := d.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode == 200 {
			opened++
		} else if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%d %v", resp.StatusCode, resp.Header)
		}
	}
	if opened == 0 || opened > 8 {
		t.Errorf("one client has %d of 16 places", opened)
	}
	other := d.connect("User-Agent: other")
	other.callGood()
	other.close()
	innocent.callGood()
}

func TestServerPanic(t *testing.T) {
	d := newDoor(t, &hall{serve: func(_ context.Context, in transport.Incoming, r transport.Responder) {
		switch in.Msg.Method {
		case "panic":
			panic("secret")
		case "silence":
		case "cancelled":
			_ = r.Finish(nil, 0)
		default:
			answer(in, r)
			if r.Finish(nil, 0) == nil || r.Event([]byte("{}")) == nil {
				t.Error("a message was accepted after the answer")
			}
		}
	}}, nil)
	f := d.connect()
	defer f.close()
	for _, method := range []string{"panic", "silence"} {
		f.post(202, `{"jsonrpc":"2.0","id":9,"method":"`+method+`"}`)
		if ev := f.next(); !strings.Contains(string(ev.Data), `"id":9,"error":{"code":-32603`) || strings.Contains(string(ev.Data), "secret") {
			t.Errorf("%s", ev.Data)
		}
	}
	f.post(202, `{"jsonrpc":"2.0","id":9,"method":"cancelled"}`)
	f.callGood()
}

func TestServerDrain(t *testing.T) {
	proceed := make(chan struct{})
	started := make(chan struct{})
	d := newDoor(t, &hall{serve: func(_ context.Context, in transport.Incoming, r transport.Responder) {
		close(started)
		<-proceed
		answer(in, r)
	}}, nil)
	idle, busy := d.connect(), d.connect()
	defer idle.close()
	defer busy.close()
	busy.post(202, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	<-started
	d.server.Drain()
	idle.next() // the event with the delay before the next connection
	if ev, err := idle.rd.Next(); err != io.EOF {
		t.Errorf("%v %v", ev, err)
	}
	if status, _, _ := d.do("GET", "/x/sse", ""); status != 503 {
		t.Errorf("%d", status)
	}
	close(proceed)
	if ev := busy.next(); !strings.Contains(string(ev.Data), `"ok":true`) {
		t.Errorf("%s", ev.Data)
	}
	busy.next()
	if ev, err := busy.rd.Next(); err != io.EOF {
		t.Errorf("%v %v", ev, err)
	}
}

func TestN11_E09_ServerStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pipetest.Listen()
		d := openDoor(t, &hall{}, l, l.Dial, nil)
		c, err := l.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "GET /x/sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
		b := make([]byte, 4096)
		var got strings.Builder
		for start := time.Now(); time.Since(start) < 125*time.Second; {
			n, err := c.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			got.Write(b[:n])
		}
		if n := strings.Count(got.String(), ":\n\n"); n < 8 || !strings.Contains(got.String(), "X-Accel-Buffering: no") {
			t.Errorf("%d comments in 125 s: %s", n, got.String())
		}
		// From here on, the client does not read.
		g := d.hall.last()
		sent := 0
		for ; sent < 10_000; sent++ {
			start := time.Now()
			err := g.out.Send([]byte(`{"jsonrpc":"2.0","method":"x"}`))
			if took := time.Since(start); took > time.Second {
				t.Errorf("Send blocked for %v", took)
			}
			if err != nil {
				break
			}
		}
		if sent > 300 {
			t.Errorf("%d messages were accepted", sent)
		}
		<-g.gone
		if n := d.server.Counts().SlowReaders; n != 1 {
			t.Errorf("%d slow readers are counted", n)
		}
	})
}
