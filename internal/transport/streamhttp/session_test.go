package streamhttp

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

func note(n int) []byte {
	return []byte(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"n":%d}}`, n))
}

// wantNote checks that the next event is note n, and returns the id of the event.
func (e *feed) wantNote(n int) string {
	e.t.Helper()
	ev := e.next()
	if string(ev.Data) != string(note(n)) {
		e.t.Errorf("got %s, want note %d", ev.Data, n)
	}
	return ev.ID
}

func (d *door) get(ctx context.Context, headers ...string) *feed {
	d.t.Helper()
	return readEvents(d.t, d.send(ctx, "GET", "", headers...))
}

// guest returns the conversation that was opened last.
func (d *door) guest() *guest {
	all := d.hall.guests()
	return all[len(all)-1]
}

func TestL01_NoSession(t *testing.T) {
	d := open(t, &hall{}, func(o *Options) { o.RefuseBare = true })
	d.post(call("1")).want(t, 400, -32600)
	d.post(`[`+call("1")+`]`).want(t, 400, -32600)
	d.untouched()
}

func TestL01_BareClientIsAdopted(t *testing.T) {
	d := open(t, &hall{}, nil)
	for _, h := range []string{"MCP-Protocol-Version:", "MCP-Protocol-Version: 2025-06-18"} {
		for range 3 {
			r := d.post(call(`"1"`), h)
			r.want(t, 200, 0)
			if r.header.Get("Mcp-Session-Id") != "" {
				t.Error("an adopted client got a session id")
			}
		}
	}
	if n := len(d.hall.guests()); n != 2 {
		t.Errorf("there are %d conversations, want one for each revision", n)
	}
	if err := d.guest().out.Send(note(1)); err != transport.ErrNoStream {
		t.Errorf("Send to an adopted client: %v", err)
	}
	if r := d.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); r.status != 202 {
		t.Errorf("%d", r.status)
	}
	if c := d.server.Counts(); c.Dropped != 1 || c.Sessions != 2 || c.LegacyRequests != 6 {
		t.Errorf("%+v", c)
	}
}

func TestL02_SecondInitialize(t *testing.T) {
	d := open(t, &hall{}, nil)
	session := d.initialize("2025-11-25")
	d.post(strings.ReplaceAll(initializeBody, "%s", "2025-11-25"), session).want(t, 400, -32600)
	d.post(call("1"), session).want(t, 200, 0)
}

func TestInitializeThatFailsOpensNoSession(t *testing.T) {
	h := &hall{}
	d := open(t, h, nil)
	// The server treats an initialize request with modern _meta as a modern request, so h.serve
	// gets it.
	h.serve = func(_ context.Context, in transport.Incoming, r transport.Responder) {
		_ = r.Finish(jsonrpc.AppendError(nil, in.Msg.ID, &jsonrpc.Error{Code: -32601, Message: "x"}), -32601)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` + modernMeta + `}}`
	d.post(body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: initialize").want(t, 404, -32601)
	s := open(t, &hall{}, nil)
	s.hall.serve = nil
	s.server.opts.Acceptor = failing{s.hall}
	r := s.post(strings.ReplaceAll(initializeBody, "%s", "2025-11-25"))
	r.want(t, 200, -32602)
	if r.header.Get("Mcp-Session-Id") != "" || s.server.Counts().Sessions != 0 || s.server.table.reserved != 0 {
		t.Errorf("%v %+v", r.header, s.server.Counts())
	}
}

type failing struct{ *hall }

func (f failing) Accept(p transport.Peer, out transport.Outbox) transport.Conversation {
	return refusing{f.hall.Accept(p, out).(*guest)}
}

type refusing struct{ *guest }

func (refusing) Request(_ context.Context, in transport.Incoming, r transport.Responder) {
	_ = r.Finish(jsonrpc.AppendError(nil, in.Msg.ID, &jsonrpc.Error{Code: -32602, Message: "x"}), -32602)
}

func TestL05_UnknownSession(t *testing.T) {
	d := open(t, &hall{}, nil)
	gone := d.initialize("2025-11-25")
	if r := d.do("DELETE", "", gone); r.status != 204 {
		t.Errorf("%d", r.status)
	}
	for _, session := range []string{gone, "Mcp-Session-Id: unknown", "Mcp-Session-Id: " + strings.Repeat("x", 9000)} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			r := d.do(method, call("1"), session)
			r.want(t, 404, -32600)
		}
		d.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, session).want(t, 404, -32600)
		d.post(`{"jsonrpc":"2.0","id":1,"result":{}}`, session).want(t, 404, -32600)
		d.post(`[`+call("1")+`]`, session).want(t, 404, -32600)
	}
	d.callModern()
}

func TestL06_TM07_ForeignSession(t *testing.T) {
	d := open(t, &hall{}, func(o *Options) {
		o.Principal = whoAsks
	})
	session := d.initialize("2025-11-25", "X-Who: ann")
	f := d.get(context.Background(), session, "X-Who: ann")
	defer f.close()
	for _, method := range []string{"POST", "GET", "DELETE"} {
		d.do(method, call("1"), session, "X-Who: bob").want(t, 404, -32600)
		d.do(method, call("1"), session).want(t, 404, -32600)
	}
	_ = d.guest().out.Send(note(1))
	f.wantNote(1)
	d.post(call("1"), session, "X-Who: ann").want(t, 200, 0)
}

func TestL08_SessionIDs(t *testing.T) {
	const n = 10_000
	seen := make(map[string]bool, n)
	var counts [256]int
	total := 0
	for range n {
		id := newSessionID()
		if len(id)*6 < 128 || seen[id] {
			t.Fatalf("%q", id)
		}
		seen[id] = true
		for i := range len(id) {
			if id[i] < 0x21 || id[i] > 0x7e {
				t.Fatalf("%q", id)
			}
			counts[id[i]]++
			total++
		}
	}
	chi, expect := 0.0, float64(total)/64
	for _, c := range counts {
		if c > 0 {
			chi += (float64(c) - expect) * (float64(c) - expect) / expect
		}
	}
	if chi > 140 { // with 63 degrees of freedom, fair random values exceed 140 about once in 10^7 runs
		t.Errorf("the chi-square value is %.1f", chi)
	}
}

func TestL10_DeleteWithACallInFlight(t *testing.T) {
	started := make(chan struct{})
	d := open(t, &hall{serve: func(ctx context.Context, in transport.Incoming, r transport.Responder) {
		if in.Msg.ID == "2" {
			_ = r.Event(note(1))
		}
		started <- struct{}{}
		<-ctx.Done()
		if in.Msg.ID == "1" {
			_ = r.Finish(jsonrpc.AppendError(nil, in.Msg.ID, mcp.Wire(context.Cause(ctx))), -32603)
		}
	}}, nil)
	session := d.initialize("2025-11-25")
	get := d.get(context.Background(), session)
	defer get.close()
	first := make(chan heard)
	go func() { first <- d.post(call("1"), session) }()
	<-started
	second := make(chan heard)
	go func() { second <- d.post(call("2"), session) }()
	<-started
	if r := d.do("DELETE", "", session); r.status != 204 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := <-first; r.code() != -32603 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := <-second; r.status != 200 || !strings.Contains(r.body, "session_ended") {
		t.Errorf("%d %s", r.status, r.body)
	}
	get.ends()
	<-d.guest().gone
	d.do("DELETE", "", session).want(t, 404, -32600)
	if c := d.server.Counts(); c.SessionsEnded != 1 || c.Sessions != 0 {
		t.Errorf("%+v", c)
	}
}

func TestL12_OtherVersionHeader(t *testing.T) {
	d := open(t, &hall{}, nil)
	session := d.initialize("2025-11-25")
	for _, method := range []string{"POST", "GET", "DELETE"} {
		d.do(method, call("1"), session, "MCP-Protocol-Version: 2025-03-26").want(t, 400, -32600)
	}
	d.post(call("1"), session, "MCP-Protocol-Version: 2026-07-28").want(t, 400, -32602)
	d.post(call("1"), session, "MCP-Protocol-Version: 2025-11-25").want(t, 200, 0)
	d.post(call("1"), session).want(t, 200, 0)
}

func TestL14_Responses(t *testing.T) {
	var got atomic.Int32
	d := open(t, &hall{oneWay: func(in transport.Incoming) error {
		if in.Msg.Kind == jsonrpc.Result || in.Msg.Kind == jsonrpc.Failure {
			got.Add(1)
		}
		return nil
	}}, nil)
	session := d.initialize("2025-11-25")
	for _, b := range []string{`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"x"}}`} {
		if r := d.post(b, session); r.status != 202 || r.body != "" {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if got.Load() != 3 {
		t.Errorf("%d of 3 messages arrived", got.Load())
	}
}

func TestGetStream(t *testing.T) {
	d := open(t, &hall{}, nil)
	session := d.initialize("2025-11-25")
	out := d.guest().out
	d.do("GET", "", session, "Accept: application/json").want(t, 406, -32600)
	// The session queues up to 64 messages until a stream is open.
	for i := range 64 {
		if err := out.Send(note(i)); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := out.Send(note(64)); err != transport.ErrNoStream {
		t.Errorf("a message beyond the bound: %v", err)
	}
	first := d.get(context.Background(), session)
	for i := range 64 {
		first.wantNote(i)
	}
	h := first.resp.Header
	if h.Get("X-Accel-Buffering") != "no" || !strings.Contains(h.Get("Cache-Control"), "no-store") {
		t.Errorf("%v", h)
	}
	// The newest stream gets all messages. The other streams get none until the newest has
	// ended.
	ctx, cancel := context.WithCancel(context.Background())
	second := d.get(ctx, session)
	_ = out.Send(note(100))
	second.wantNote(100)
	cancel()
	second.close()
	for d.server.flights.len() > 1 {
		runtime.Gosched()
	}
	_ = out.Send(note(101))
	first.wantNote(101)
	first.close()
}

func TestManyGetStreams(t *testing.T) {
	d := open(t, &hall{}, nil)
	session := d.initialize("2025-11-25")
	var feeds []*feed
	for range 7 {
		feeds = append(feeds, d.get(context.Background(), session))
	}
	for i, f := range feeds {
		if i < 3 {
			if _, err := f.rd.Next(); err == nil {
				t.Error("one of too many streams is still open")
			}
		}
	}
	_ = d.guest().out.Send(note(1))
	feeds[6].wantNote(1)
	for _, f := range feeds {
		f.close()
	}
}

func TestL15_Resume(t *testing.T) {
	proceed := make(chan struct{})
	d := open(t, &hall{serve: func(ctx context.Context, in transport.Incoming, r transport.Responder) {
		_ = r.Event(note(1))
		select {
		case <-proceed:
		case <-ctx.Done():
			return
		}
		_ = r.Event(note(2)) // the client has disconnected, but this does not cancel the call
		finish(in, r)
	}}, nil)
	session := d.initialize("2025-11-25")
	guest := d.guest()
	other := d.initialize("2025-11-25")

	_ = guest.out.Send(note(50))
	get := d.get(context.Background(), session)
	getID := get.wantNote(50)
	get.close()

	ctx, cancel := context.WithCancel(context.Background())
	f := readEvents(t, d.send(ctx, "POST", call("1"), session))
	prime := f.next()
	if len(prime.Data) != 0 || prime.ID == "" || prime.Retry != 3*time.Second {
		t.Errorf("the stream was not primed: %+v", prime)
	}
	seen := f.wantNote(1)
	cancel()
	f.close()
	proceed <- struct{}{}

	// The server sends again only the events of the stream that contains the id, and only those
	// after the id.
	f = d.get(context.Background(), session, "Last-Event-ID: "+seen)
	f.wantNote(2)
	if ev := f.next(); !strings.Contains(string(ev.Data), `"ok":true`) {
		t.Errorf("%s", ev.Data)
	}
	f.ends()
	f.close()
	// The stream can be resumed from the start more than once, because the server keeps its events
	// for some time.
	f = d.get(context.Background(), session, "Last-Event-ID: "+prime.ID)
	f.wantNote(1)
	f.wantNote(2)
	f.next()
	f.ends()
	f.close()

	_ = guest.out.Send(note(51))
	f = d.get(context.Background(), session, "Last-Event-ID: "+getID)
	f.wantNote(51)
	f.close()

	stream, _, _ := strings.Cut(seen[len("01234567-"):], "-")
	for _, id := range []string{"nonsense", seen + "0", seen + "x", "00000000-1-0", seen[:9] + "7-0", seen[:9], seen[:9] + stream, seen[:9] + stream + "-+1", seen[:9] + stream + "-00"} {
		if r := d.do("GET", "", session, "Last-Event-ID: "+id); r.status != 400 {
			t.Errorf("Last-Event-ID %q: %d %s", id, r.status, r.body)
		}
	}
	for _, id := range []string{seen, getID, prime.ID} {
		d.do("GET", "", other, "Last-Event-ID: "+id).want(t, 400, -32600)
	}
}

func TestResumptionPerRevision(t *testing.T) {
	d := open(t, &hall{serve: func(_ context.Context, in transport.Incoming, r transport.Responder) {
		_ = r.Event(note(1))
		finish(in, r)
	}}, nil)
	for version, want := range map[string]struct{ primed, ids bool }{
		"2025-11-25": {true, true}, "2025-06-18": {false, true}, "2025-03-26": {false, true}, "2024-11-05": {false, false}, "": {false, false},
	} {
		var session []string
		if version != "" {
			session = []string{d.initialize(version)}
		}
		f := readEvents(t, d.send(context.Background(), "POST", call("1"), session...))
		ev := f.next()
		if primed := len(ev.Data) == 0; primed != want.primed || ev.HasID != want.ids || ev.HasRetry != want.primed {
			t.Errorf("%q: %+v", version, ev)
		}
		f.close()
	}
	body, h := modernCall("1")
	f := readEvents(t, d.send(context.Background(), "POST", body, h...))
	if ev := f.next(); ev.HasID {
		t.Errorf("a modern event has the id %q", ev.ID)
	}
	f.close()
}

func TestH26_HangUpCancelsModern(t *testing.T) {
	ended := make(chan error, 1)
	running := make(chan struct{})
	d := open(t, &hall{serve: func(ctx context.Context, in transport.Incoming, r transport.Responder) {
		switch in.Msg.ID {
		case "1":
			_ = r.Event(note(1))
		case "7":
			finish(in, r)
			return
		}
		running <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
	}}, nil)
	for _, id := range []string{"1", "2"} {
		body, h := modernCall(id)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			resp, err := d.try(ctx, "POST", body, h...)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			close(done)
		}()
		<-running
		cancel()
		<-done
		<-ended
	}
	d.callModern()
}

func TestHangUpDoesNotCancelLegacy(t *testing.T) {
	running, proceed, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	d := open(t, &hall{serve: func(ctx context.Context, in transport.Incoming, r transport.Responder) {
		running <- struct{}{}
		<-proceed
		done <- ctx.Err()
		finish(in, r)
	}}, nil)
	session := d.initialize("2025-11-25")
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		if resp, err := d.try(ctx, "POST", call("1"), session); err == nil {
			resp.Body.Close()
		}
		close(gone)
	}()
	<-running
	cancel()
	<-gone
	proceed <- struct{}{}
	if err := <-done; err != nil {
		t.Errorf("the cancelled request ended with %v", err)
	}
}

func TestN11_KeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		d, l := openPipes(t, &hall{serve: func(ctx context.Context, in transport.Incoming, r transport.Responder) {
			select {
			case <-proceed:
				finish(in, r)
			case <-ctx.Done():
			}
		}}, nil)
		_ = l
		body, h := modernCall("1")
		start := time.Now()
		resp := d.send(context.Background(), "POST", body, h...)
		if took := time.Since(start); took != 10*time.Second || resp.Header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("the response began after %v: %v", took, resp.Header)
		}
		comments := make(chan time.Time, 100)
		go func() { // ends when the body is closed
			b := make([]byte, 512)
			for {
				n, err := resp.Body.Read(b)
				if err != nil {
					close(comments)
					return
				}
				if strings.HasPrefix(string(b[:n]), ":") {
					comments <- time.Now()
				} else if !strings.Contains(string(b[:n]), `"ok":true`) {
					t.Errorf("%q", b[:n])
				}
			}
		}()
		time.Sleep(300 * time.Second)
		synctest.Wait()
		close(proceed)
		last := start.Add(10 * time.Second)
		n := 0
		for at := range comments {
			if silence := at.Sub(last); silence > 30*time.Second {
				t.Errorf("there was no data for %v", silence)
			}
			last = at
			n++
		}
		if n < 10 {
			t.Errorf("there were %d comments in 300 s", n)
		}
		resp.Body.Close()
	})
}

func TestE09_SlowReader(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const big = 64 << 10
				text := []byte(`{"jsonrpc":"2.0","method":"x","params":{"x":"` + strings.Repeat("x", big) + `"}}`)
				over := make(chan int, 1)
				d, l := openPipes(t, &hall{serve: func(ctx context.Context, in transport.Incoming, r transport.Responder) {
					if in.Msg.ID == "7" {
						finish(in, r)
						return
					}
					n := 0
					for ; n < 1000 && ctx.Err() == nil; n++ {
						start := time.Now()
						if err := r.Event(text); err != nil {
							break
						}
						if took := time.Since(start); took > time.Second {
							t.Errorf("Event blocked for %v", took)
						}
					}
					over <- n
					finish(in, r)
				}}, nil)
				body, h := modernCall("1")
				if era == "legacy" {
					body, h = call("1"), []string{d.initialize("2025-11-25")}
				}
				c, err := l.Dial()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				_, _ = fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nContent-Type: application/json\r\n%s\r\nContent-Length: %d\r\n\r\n%s", strings.Join(h, "\r\n"), len(body), body)
				// The client does not read, but another client still gets answers.
				d.callModern()
				n := <-over
				if era == "modern" && n > 20 {
					t.Errorf("%d events of 64 KiB were accepted", n)
				}
				if d.server.Counts().SlowReaders != 1 {
					t.Errorf("%+v", d.server.Counts())
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if _, err := io.Copy(io.Discard, c); err != nil {
					t.Errorf("the connection was not closed: %v", err)
				}
				d.callModern()
			})
		})
	}
}

func TestSessionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := openPipes(t, &hall{}, nil)
		idle := d.initialize("2025-11-25")
		busy := d.initialize("2025-11-25")
		d.post(call("1")).want(t, 200, 0) // a client without a session id, which the server adopts
		f := d.get(context.Background(), busy)
		ended := make(chan error, 1)
		go func() {
			_, err := f.rd.Next()
			ended <- err
		}()
		time.Sleep(31 * time.Minute)
		d.post(call("1"), idle).want(t, 404, -32600)
		d.post(call("1"), busy).want(t, 200, 0)
		if c := d.server.Counts(); c.Sessions != 1 || c.Expired != 2 {
			t.Errorf("%+v", c)
		}
		time.Sleep(24 * time.Hour)
		d.post(call("1"), busy).want(t, 404, -32600)
		if err := <-ended; err != io.EOF {
			t.Errorf("the stream ended with %v", err)
		}
		f.close()
	})
}

func TestKeptEventsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := openPipes(t, &hall{serve: func(_ context.Context, in transport.Incoming, r transport.Responder) {
			_ = r.Event(note(1))
			finish(in, r)
		}}, nil)
		session := d.initialize("2025-11-25")
		f := readEvents(t, d.send(context.Background(), "POST", call("1"), session))
		id := f.next().ID
		f.close()
		_ = d.guest().out.Send(note(5))
		time.Sleep(time.Minute)
		f = d.get(context.Background(), session, "Last-Event-ID: "+id)
		f.wantNote(1)
		f.close()
		time.Sleep(3 * time.Minute)
		d.do("GET", "", session, "Last-Event-ID: "+id).want(t, 400, -32600)
		_ = d.guest().out.Send(note(6))
		f = d.get(context.Background(), session)
		f.wantNote(6)
		f.close()
		ses := d.server.table.all()[0]
		if ses.streams != nil || ses.finished != nil {
			t.Errorf("these streams are kept: %v", ses.finished)
		}
	})
}

func TestFinishedStreamsAreBounded(t *testing.T) {
	d := open(t, &hall{serve: func(_ context.Context, in transport.Incoming, r transport.Responder) {
		_ = r.Event([]byte(`{"jsonrpc":"2.0","method":"x","params":{"x":"` + strings.Repeat("x", 200<<10) + `"}}`))
		finish(in, r)
	}}, nil)
	session := d.initialize("2025-11-25")
	for range 40 {
		d.post(call("1"), session)
	}
	ses := d.server.table.all()[0]
	ses.forget(time.Hour)
	ses.mu.Lock()
	n := len(ses.streams)
	ses.mu.Unlock()
	if n > 6 {
		t.Errorf("%d streams of 200 KiB are kept", n)
	}
}

func TestSessionLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := openPipes(t, &hall{}, func(o *Options) {
			o.MaxSessions = 3 // one client may have at most two of the three sessions
			o.AllowInitialize = func(_ context.Context, who transport.Newcomer) (time.Duration, bool) {
				return 2500 * time.Millisecond, !strings.HasPrefix(who.Principal, "fast")
			}
			o.Principal = whoAsks
		})
		open := strings.ReplaceAll(initializeBody, "%s", "2025-11-25")
		for _, b := range []string{open, call("1")} {
			r := d.post(b, "X-Who: fast")
			r.want(t, 429, -32603)
			if r.header.Get("Retry-After") != "3" || !strings.Contains(r.body, `"retryAfterMs":2500`) {
				t.Errorf("%v %s", r.header, r.body)
			}
		}
		ann := "X-Who: ann"
		old := d.initialize("2025-11-25", ann)
		kept := d.initialize("2025-11-25", ann)
		f := d.get(context.Background(), kept, ann)
		r := d.post(open, ann)
		r.want(t, 503, -32603)
		if r.header.Get("Retry-After") == "" {
			t.Errorf("%v", r.header)
		}
		d.post(call("1"), ann).want(t, 503, -32603)
		time.Sleep(3 * time.Minute) // long enough for an idle session to be evicted
		d.initialize("2025-11-25", ann)
		d.post(call("1"), old, ann).want(t, 404, -32600)
		d.post(call("1"), kept, ann).want(t, 200, 0)
		if c := d.server.Counts(); c.Evicted != 1 || c.Sessions != 2 || c.Limited != 4 {
			t.Errorf("%+v", c)
		}
		f.close()
	})
}

// TestGreedyClient checks that a client that opens sessions in a loop gets at most half of all
// sessions. The server evicts the sessions that this client abandoned. Clients with other names
// keep their sessions.
func TestGreedyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 32
		d, _ := openPipes(t, &hall{}, func(o *Options) { o.MaxSessions = most })
		open := func(name string) (session string, ok bool) {
			t.Helper()
			r := d.post(strings.Replace(strings.ReplaceAll(initializeBody, "%s", "2025-11-25"), `"name":"t"`, `"name":"`+name+`"`, 1))
			if id := r.header.Get("Mcp-Session-Id"); r.status == 200 && id != "" {
				return "Mcp-Session-Id: " + id, true
			}
			r.want(t, 503, -32603)
			return "", false
		}
		innocent, _ := open("innocent")
		d.post(call("1"), innocent).want(t, 200, 0)
		opened := 0
		for range 3 * most {
			if _, ok := open("greedy"); ok {
				opened++
			}
		}
		if opened > most/2 {
			t.Errorf("one client has %d of %d places", opened, most)
		}
		for i := range 3 {
			if _, ok := open(fmt.Sprint("other", i)); !ok {
				t.Errorf("client %d got no place", i)
			}
		}
		for range 10 {
			time.Sleep(abandonable + time.Second)
			for range most {
				open("greedy")
			}
			d.post(call("1"), innocent).want(t, 200, 0)
		}
		if c := d.server.Counts(); c.Sessions > most || c.Evicted == 0 {
			t.Errorf("%+v", c)
		}
		// Clients with new names open sessions until the limit is reached. Later, the server
		// evicts their abandoned sessions to make room.
		for i := range 3 * most {
			open(fmt.Sprint("stranger", i))
		}
		time.Sleep(abandonable + time.Second)
		if _, ok := open("late"); !ok {
			t.Error("a new client got no place")
		}
		d.post(call("1"), innocent).want(t, 200, 0)
		if own, all := d.server.table.quota.Taken("remote pipe innocent 1"); own != 1 || all != int(d.server.Counts().Sessions) {
			t.Errorf("%d of %d places are counted for %d sessions", own, all, d.server.Counts().Sessions)
		}
		for _, ses := range d.server.table.takeAll() {
			d.server.end(ses, errDeleted)
		}
		if _, all := d.server.table.quota.Taken(""); all != 0 {
			t.Errorf("%d places were not released", all)
		}
	})
}

func TestLateInitialize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := openPipes(t, &hall{}, nil)
		d.server.opts.Acceptor = slowly{d.hall}
		resp := d.send(context.Background(), "POST", strings.ReplaceAll(initializeBody, "%s", "2025-11-25"))
		id := resp.Header.Get("Mcp-Session-Id")
		f := readEvents(t, resp)
		if ev := f.next(); id == "" || !strings.Contains(string(ev.Data), "2025-11-25") {
			t.Errorf("%q %s", id, ev.Data)
		}
		f.ends()
		f.close()
		d.post(call("1"), "Mcp-Session-Id: "+id, "MCP-Protocol-Version: 2025-06-18").want(t, 400, -32600)
		if d.server.table.reserved != 0 || d.server.Counts().Sessions != 1 {
			t.Errorf("%+v", d.server.Counts())
		}
	})
}

type slowly struct{ *hall }

func (s slowly) Accept(p transport.Peer, out transport.Outbox) transport.Conversation {
	return slow{s.hall.Accept(p, out).(*guest)}
}

type slow struct{ *guest }

func (s slow) Request(ctx context.Context, in transport.Incoming, r transport.Responder) {
	time.Sleep(25 * time.Second)
	s.guest.Request(ctx, in, r)
}

func TestDrainAndClose(t *testing.T) {
	running := make(chan struct{})
	d := open(t, &hall{serve: func(ctx context.Context, in transport.Incoming, r transport.Responder) {
		close(running)
		<-ctx.Done()
	}}, nil)
	session := d.initialize("2025-11-25")
	f := d.get(context.Background(), session)
	done := make(chan heard)
	go func() { done <- d.post(call("1"), session) }()
	<-running
	d.server.Drain()
	if ev := f.next(); len(ev.Data) != 0 || !ev.HasRetry {
		t.Errorf("%+v", ev)
	}
	f.ends()
	f.close()
	d.do("GET", "", session).want(t, 503, -32603)
	d.post(strings.ReplaceAll(initializeBody, "%s", "2025-11-25")).want(t, 503, -32603)
	if err := d.server.Close(); err != nil {
		t.Error(err)
	}
	if r := <-done; r.code() != -32603 {
		t.Errorf("%d %s", r.status, r.body)
	}
	body, h := modernCall("1")
	d.post(body, h...).want(t, 503, -32603)
	_ = d.server.Close()
}

// TestW01_StreamsAreTold stops the server. A response that has become a stream gets an error
// message and then ends properly. A client that does not read delays the shutdown by at most
// drainTimeout.
func TestW01_StreamsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, l := openPipes(t, &hall{serve: func(ctx context.Context, in transport.Incoming, r transport.Responder) {
			if in.Msg.Method == "resources/read" { // sends more than the buffers between server and client hold
				_ = r.Event([]byte(`{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"` + strings.Repeat("x", 1<<19) + `"}}`))
			}
			<-ctx.Done()
		}}, nil)
		session := d.initialize("2025-11-25")
		body, h := modernCall("1")
		streams := []*feed{
			readEvents(t, d.send(context.Background(), "POST", body, h...)), // this response becomes a stream after LateStream
			readEvents(t, d.send(context.Background(), "POST", call("1"), session)),
			readEvents(t, d.send(context.Background(), "POST", "["+call("1")+"]")),
		}
		get := readEvents(t, d.send(context.Background(), "GET", "", session))
		stuck, err := l.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer stuck.Close()
		slow := strings.Replace(call("5"), "tools/call", "resources/read", 1)
		_, _ = fmt.Fprintf(stuck, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nContent-Type: application/json\r\n%s\r\nContent-Length: %d\r\n\r\n%s", session, len(slow), slow)
		synctest.Wait()
		start := time.Now()
		d.stop(mcp.ErrShutdown)
		var closing sync.WaitGroup
		closing.Go(func() { _ = d.server.CloseWith(mcp.ErrShutdown) })
		for i, f := range streams {
			defer f.close()
			for {
				ev := f.next()
				if len(ev.Data) == 0 {
					continue // the event that primes the stream
				}
				if text := string(ev.Data); !strings.Contains(text, `"id":1,`) || !strings.Contains(text, `"cause":"shutdown","outcome":"unknown"`) {
					t.Errorf("%d: %s", i, text)
				}
				break
			}
			if _, err := f.rd.Next(); err != io.EOF {
				t.Errorf("%d: a response was cut off: %v", i, err)
			}
		}
		if _, err := get.rd.Next(); err != io.EOF {
			t.Errorf("the standing stream was cut off: %v", err)
		}
		get.close()
		if took := time.Since(start); took > drainTimeout/2 {
			t.Errorf("the readers got the error after %v", took)
		}
		closing.Wait()
		if took := time.Since(start); took != drainTimeout {
			t.Errorf("Close took %v", took)
		}
	})
}

func TestIdleSessionIsSmall(t *testing.T) {
	s := NewServer(Options{Acceptor: &hall{}, Principal: identity.Anyone})
	const n = 2000
	var before, after runtime.MemStats
	all := make([]*session, n)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range all {
		all[i] = s.newSession("", "")
		all[i].id = newSessionID()
		s.table.byID[all[i].id] = all[i]
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (after.HeapAlloc - before.HeapAlloc) / n
	t.Logf("an idle session needs %d bytes", each)
	if each > 1024 {
		t.Errorf("an idle session needs %d bytes", each)
	}
	runtime.KeepAlive(all)
}
