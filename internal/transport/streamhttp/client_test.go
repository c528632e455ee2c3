package streamhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
)

var (
	modernRules = &transport.Rules{Version: "2026-07-28", MirrorHeaders: true, CloseIsCancel: true}
	legacyRules = &transport.Rules{Version: "2025-11-25", Sessions: true, Resumable: true, RequestsOnSSE: true, ResponsesByPost: true}
)

const (
	msgAsk    = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{}}}`
	msgReply  = `{"jsonrpc":"2.0","id":7,"result":{}}`
	msgNotice = `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`
	msgAsking = `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`
)

func outgoing(rules *transport.Rules) *transport.Outgoing {
	return &transport.Outgoing{Body: []byte(msgAsk), ID: "7", Method: "tools/call", Name: "x", Rules: rules}
}

func clientFor(t testing.TB, o ClientOptions, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	c, err := NewClient(s.URL+"/mcp", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c
}

type fakeTrip func(*http.Request) (*http.Response, error)

func (f fakeTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// fakeClient returns a client that uses f instead of a network, so the client works in a synctest
// bubble.
func fakeClient(t testing.TB, f fakeTrip) *Client {
	t.Helper()
	c, err := NewClient("http://fake/mcp", ClientOptions{HTTP: f})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func respond(status int, media, body string) *http.Response {
	return &http.Response{StatusCode: status, ProtoMajor: 1, ContentLength: -1,
		Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(strings.NewReader(body))}
}

func events(data ...string) string {
	return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n"
}

type inbox struct {
	mu  sync.Mutex
	got []string
}

func (b *inbox) take(m *jsonrpc.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, m.Method)
}

func TestClientHeaders(t *testing.T) {
	var got http.Header
	c := clientFor(t, ClientOptions{Header: []transport.HeaderField{{Name: "Authorization", Value: "Bearer x"}, {Name: "accept", Value: "text/html"}}},
		func(w http.ResponseWriter, r *http.Request) {
			got = r.Header
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Mcp-Session-Id", "s-1")
			io.WriteString(w, msgReply)
		})
	want := func(name, value string) {
		t.Helper()
		if v := strings.Join(got[http.CanonicalHeaderKey(name)], "|"); v != value {
			t.Errorf("%s: %q, want %q", name, v, value)
		}
	}
	out := outgoing(modernRules)
	out.Name = "世界"
	out.Params = []transport.HeaderField{{Name: "Mcp-Param-Region", Value: mirror.EncodeValue(" eu")}}
	out.Header = []transport.HeaderField{{Name: "traceparent", Value: "00-1"}, {Name: "baggage", Value: "a"}, {Name: "Baggage", Value: "b"}}
	if _, err := c.Do(t.Context(), out, nil); err != nil {
		t.Fatal(err)
	}
	want("Content-Type", "application/json")
	want("Accept", "application/json, text/event-stream")
	want("Authorization", "Bearer x")
	want("MCP-Protocol-Version", "2026-07-28")
	want("Mcp-Method", "tools/call")
	want("Mcp-Name", "=?base64?5LiW55WM?=")
	want("Mcp-Param-Region", "=?base64?IGV1?=")
	want("Traceparent", "00-1")
	want("Baggage", "a|b")
	want("Mcp-Session-Id", "")
	want("User-Agent", "dragoman")
	if c.Session() != "" {
		t.Error("a session id was accepted from an answer other than that of initialize")
	}

	opening := &transport.Outgoing{Body: []byte(`{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}`), ID: "7", Method: "initialize",
		Rules: &transport.Rules{Sessions: true}}
	if _, err := c.Do(t.Context(), opening, nil); err != nil {
		t.Fatal(err)
	}
	want("MCP-Protocol-Version", "")
	want("Mcp-Method", "")
	if c.Session() != "s-1" {
		t.Errorf("the session is %q", c.Session())
	}
	if _, err := c.Do(t.Context(), outgoing(legacyRules), nil); err != nil {
		t.Fatal(err)
	}
	want("Mcp-Session-Id", "s-1")
	want("MCP-Protocol-Version", "2025-11-25")
	want("Mcp-Name", "")
	if _, err := c.Do(t.Context(), opening, nil); err != nil {
		t.Fatal(err)
	}
	want("Mcp-Session-Id", "")
	if _, err := c.Do(t.Context(), outgoing(modernRules), nil); err != nil {
		t.Fatal(err)
	}
	want("Mcp-Session-Id", "")
	if err := c.Post(t.Context(), &transport.Outgoing{Body: []byte(msgNotice), Method: "notifications/progress", Rules: legacyRules}); err != nil {
		t.Fatal(err)
	}
	want("Mcp-Session-Id", "s-1")
	if err := c.Post(t.Context(), &transport.Outgoing{Body: []byte(msgReply)}); err != nil { // this message has no rules
		t.Fatal(err)
	}
	want("MCP-Protocol-Version", "")
}

func TestClientIgnoresBadSessionID(t *testing.T) {
	for _, id := range []string{"a b", "a\x01", "ü", strings.Repeat("x", maxSession+1)} {
		c := fakeClient(t, func(*http.Request) (*http.Response, error) {
			r := respond(200, "application/json", msgReply)
			r.Header["Mcp-Session-Id"] = []string{id}
			return r, nil
		})
		out := outgoing(legacyRules)
		out.Method = "initialize"
		if _, err := c.Do(t.Context(), out, nil); err != nil || c.Session() != "" {
			t.Errorf("%.10q: %v, session %.10q", id, err, c.Session())
		}
	}
}

func TestClientAnswerShapes(t *testing.T) {
	for _, tt := range []struct {
		name, media, body string
		want              string // the raw text of the answer; "" for none
	}{
		{"json", "application/json", msgReply, msgReply},
		{"json with charset", "application/json; charset=utf-8", " " + msgReply + "\n", " " + msgReply + "\n"},
		{"events", "text/event-stream", events(msgReply), msgReply},
		{"id as string", "application/json", `{"jsonrpc":"2.0","id":"7","result":{}}`, `{"jsonrpc":"2.0","id":"7","result":{}}`},
		{"id as fraction", "application/json", `{"jsonrpc":"2.0","id":7.0,"result":{}}`, `{"jsonrpc":"2.0","id":7.0,"result":{}}`},
		{"id as string in events", "text/event-stream", events(`{"jsonrpc":"2.0","id":"7","result":{}}`), `{"jsonrpc":"2.0","id":"7","result":{}}`},
		{"failure without id", "application/json", `{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}`},
		{"failure with null id", "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`},
		{"after others", "text/event-stream", events(`{"jsonrpc":"2.0","id":8,"result":{}}`, "nonsense", "[]", msgReply), msgReply},
		{"named events", "text/event-stream", "event: ping\ndata: " + msgReply + "x\n\nevent: message\ndata: " + msgReply + "\n\n", msgReply},
	} {
		for _, length := range []int64{-1, int64(len(tt.body))} {
			c := fakeClient(t, func(*http.Request) (*http.Response, error) {
				r := respond(200, tt.media, tt.body)
				r.ContentLength = length
				return r, nil
			})
			m, err := c.Do(t.Context(), outgoing(legacyRules), nil)
			if err != nil || string(m.Raw) != tt.want {
				t.Errorf("%s: %v, %v", tt.name, m, err)
			}
		}
	}
}

func TestE11_NotAnAnswer(t *testing.T) {
	for _, tt := range []struct {
		name        string
		status      int
		media, body string
		excerpt     string
	}{
		{"html", 200, "text/html", "<html>\n<title>Sign in</title>", "<html> <title>Sign in</title>"},
		{"204", 204, "", "", ""},
		{"202", 202, "", "", ""},
		{"other id", 200, "application/json", `{"jsonrpc":"2.0","id":8,"result":{}}`, `{"jsonrpc":"2.0","id":8,"result":{}}`},
		{"null id", 200, "application/json", `{"jsonrpc":"2.0","id":null,"result":{}}`, `{"jsonrpc":"2.0","id":null,"result":{}}`},
		{"array", 200, "application/json", "[" + msgReply + "]", "[" + msgReply + "]"},
		{"broken", 200, "application/json", `{"jsonrpc"`, `{"jsonrpc"`},
		{"empty", 200, "application/json", "", ""},
		{"a notification", 200, "application/json", msgNotice, msgNotice},
		{"a request", 200, "application/json", msgAsking, msgAsking},
		{"control characters", 200, "application/json", "\x1b[2J\x00", "?[2J?"},
	} {
		c := fakeClient(t, func(*http.Request) (*http.Response, error) { return respond(tt.status, tt.media, tt.body), nil })
		m, err := c.Do(t.Context(), outgoing(modernRules), nil)
		var se *transport.StatusError
		if m != nil || !errors.As(err, &se) || se.Status != tt.status || se.ContentType != tt.media || se.Excerpt() != tt.excerpt {
			t.Errorf("%s: %v, %v", tt.name, m, err)
		}
		if errors.Is(err, transport.ErrNotSent) {
			t.Errorf("%s is reported as not sent", tt.name)
		}
	}
}

func TestClientRefusals(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		code   bool
	}{
		{400, `{"jsonrpc":"2.0","id":7,"error":{"code":-32020,"message":"x"}}`, true},
		{404, `{"jsonrpc":"2.0","error":{"code":-32601,"message":"x"}}`, true},
		{400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"x"}}`, true},
		{404, "not found", false},
		{500, "", false},
		{307, "", false},
	} {
		c := fakeClient(t, func(*http.Request) (*http.Response, error) { return respond(tt.status, "text/plain", tt.body), nil })
		for _, err := range []error{
			func() error { _, err := c.Do(t.Context(), outgoing(modernRules), nil); return err }(),
			c.Post(t.Context(), outgoing(modernRules)),
		} {
			var se *transport.StatusError
			if !errors.As(err, &se) || se.Status != tt.status || (se.Msg != nil) != tt.code {
				t.Errorf("%d: %v", tt.status, err)
			}
		}
	}
}

func TestClientLimits(t *testing.T) {
	big := `{"jsonrpc":"2.0","id":7,"result":{"x":"` + strings.Repeat("x", 2000) + `"}}`
	for _, media := range []string{"application/json", "text/event-stream"} {
		for _, length := range []int64{-1, 0} {
			body := big
			if media == "text/event-stream" {
				body = events(big)
			}
			c := fakeClient(t, func(*http.Request) (*http.Response, error) {
				r := respond(200, media, body)
				if length == 0 {
					r.ContentLength = int64(len(body))
				}
				return r, nil
			})
			c.limits.Bytes = len(big)
			if _, err := c.Do(t.Context(), outgoing(legacyRules), nil); err != nil {
				t.Errorf("%s: %v", media, err)
			}
			c.limits.Bytes--
			if _, err := c.Do(t.Context(), outgoing(legacyRules), nil); !errors.Is(err, transport.ErrTooLarge) {
				t.Errorf("%s: %v", media, err)
			}
		}
	}
}

// TestAnswerThatIsNoMessage checks invalid data in the event stream of a call. If the data looks
// like the answer to the call, the call fails at once, although the stream continues. Other
// invalid data is dropped.
func TestAnswerThatIsNoMessage(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, tt := range []struct {
		name, event string
		bad         bool // the call fails because of the event; otherwise the event is dropped and the call gets the next answer
		tooLarge    bool
	}{
		{"NaN", `{"jsonrpc":"2.0","id":7,"result":{"x":NaN}}`, true, false},
		{"id behind", `{"result":{"x":NaN},"jsonrpc":"2.0","id":"7"}`, true, false},
		{"no id", `{"result":{"x":NaN},"jsonrpc":"2.0"`, true, false},
		{"null id", `{"jsonrpc":"2.0","id":null,"error":{"code":1,}}`, true, false},
		{"torn", `{"jsonrpc":"2.0","id":7,"result":{"x":"`, true, false},
		{"two results", `{"jsonrpc":"2.0","id":7,"result":{},"result":{}}`, true, false},
		{"another's", `{"jsonrpc":"2.0","id":8,"result":{"x":NaN}}`, false, false},
		{"noise", `ping`, false, false},
		{"a notification", `{"jsonrpc":"2.0","method":"x","params":{"x":NaN}}`, false, false},
		{"too large", `{"jsonrpc":"2.0","id":7,"result":{"x":"` + long + `"}}`, true, true},
		{"too large, id behind", `{"result":{"x":"` + long + `"},"jsonrpc":"2.0","id":7}`, true, true},
		{"too large, no id", long, true, true},
		{"too large, another's", `{"jsonrpc":"2.0","id":8,"result":{"x":"` + long + `"}}`, false, false},
		{"too large a notification", `{"jsonrpc":"2.0","method":"x","params":{"x":"` + long + `"}}`, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := fakeClient(t, func(*http.Request) (*http.Response, error) {
				return respond(200, "text/event-stream", events(tt.event, msgReply)), nil
			})
			c.limits.Bytes = 1000
			m, err := c.Do(t.Context(), outgoing(legacyRules), nil)
			var bad *transport.BadAnswer
			var why *jsonrpc.Error
			switch {
			case !tt.bad && (err != nil || m == nil):
				t.Errorf("got %v, want the answer", err)
			case tt.bad && (!errors.As(err, &why) || errors.Is(err, transport.ErrTooLarge) != tt.tooLarge):
				t.Errorf("got %v, want a bad answer, too large %v", err, tt.tooLarge)
			case tt.bad && !tt.tooLarge && !errors.As(err, &bad):
				t.Errorf("the error is %v", err)
			}
			if tt.tooLarge {
				return
			}
			c = fakeClient(t, func(*http.Request) (*http.Response, error) {
				return respond(200, "application/json", tt.event), nil
			})
			var status *transport.StatusError
			if _, err := c.Do(t.Context(), outgoing(legacyRules), nil); !errors.As(err, &bad) && tt.bad || !tt.bad && !errors.As(err, &status) && !errors.Is(err, transport.ErrTooLarge) {
				t.Errorf("the same data as a JSON response: %v", err)
			}
		})
	}
}

func TestE03_StreamBreaksBeforeTheAnswer(t *testing.T) {
	reset := errors.New("connection reset")
	for _, tt := range []struct {
		name string
		resp func() *http.Response
	}{
		{"end", func() *http.Response { return respond(200, "text/event-stream", events(msgNotice)) }},
		{"inside a data line", func() *http.Response {
			return respond(200, "text/event-stream", events(msgNotice)+"data: "+msgReply[:20])
		}},
		{"before the blank line", func() *http.Response { return respond(200, "text/event-stream", "data: "+msgReply+"\n") }},
		{"reset", func() *http.Response {
			r := respond(200, "text/event-stream", "")
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader(events(msgNotice)+"data: {"), errReader{reset}))
			return r
		}},
		{"json, cut", func() *http.Response {
			r := respond(200, "application/json", msgReply[:10])
			r.ContentLength = 100
			return r
		}},
		{"json, reset", func() *http.Response {
			r := respond(200, "application/json", "")
			r.Body = io.NopCloser(errReader{reset})
			return r
		}},
	} {
		c := fakeClient(t, func(*http.Request) (*http.Response, error) { return tt.resp(), nil })
		m, err := c.Do(t.Context(), outgoing(modernRules), nil)
		if m != nil || !errors.Is(err, ErrNoAnswer) || errors.Is(err, transport.ErrNotSent) {
			t.Errorf("%s: %v, %v", tt.name, m, err)
		}
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestE04_WhatMustNotBeOnTheStream(t *testing.T) {
	body := events(msgAsking, msgNotice, msgReply, msgNotice, msgReply)
	c := fakeClient(t, func(*http.Request) (*http.Response, error) { return respond(200, "text/event-stream", body), nil })
	var b inbox
	var dropped []string
	c.dropped = func(why string) { dropped = append(dropped, why) }
	if _, err := c.Do(t.Context(), outgoing(modernRules), b.take); err != nil {
		t.Fatal(err)
	}
	if len(dropped) != 3 || dropped[0] != "the stream contains a server request that the revision of the server does not allow" || dropped[1] != "the stream contains an event after the answer" || dropped[2] != dropped[1] || fmt.Sprint(b.got) != "[notifications/progress]" {
		t.Errorf("%q, %v", dropped, b.got)
	}
	b.got = nil
	if _, err := c.Do(t.Context(), outgoing(legacyRules), b.take); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(b.got) != "[elicitation/create notifications/progress]" {
		t.Errorf("in a legacy revision: %v", b.got)
	}
	if _, err := c.Do(t.Context(), outgoing(legacyRules), nil); err != nil {
		t.Errorf("without an inbox: %v", err)
	}
}

func TestClientCancelClosesTheStream(t *testing.T) {
	over := make(chan struct{})
	c := clientFor(t, ClientOptions{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, events(msgNotice))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(over)
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("client is gone")
	_, err := c.Do(ctx, outgoing(modernRules), func(*jsonrpc.Message) { cancel(gone) })
	if err != gone {
		t.Errorf("got %v", err)
	}
	<-over
}

// TestClientReusesConnections checks that successive calls use the same connection, whatever the
// form of the answers is.
func TestClientReusesConnections(t *testing.T) {
	conns := make(map[string]bool)
	c := clientFor(t, ClientOptions{}, func(w http.ResponseWriter, r *http.Request) {
		conns[r.RemoteAddr] = true
		switch r.Header.Get("X-Form") {
		case "json":
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, msgReply)
		case "accepted":
			w.WriteHeader(202)
		case "refused":
			http.Error(w, "no", 400)
		case "events":
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, events(msgNotice, msgReply))
			w.(http.Flusher).Flush()
		}
	})
	c.linger.time = time.Minute // long enough to see the end of each stream on a busy machine
	for range 5 {
		for _, form := range []string{"json", "accepted", "refused", "events"} {
			out := outgoing(legacyRules)
			out.Header = []transport.HeaderField{{Name: "X-Form", Value: form}}
			c.Do(t.Context(), out, nil)
		}
	}
	if len(conns) != 1 {
		t.Errorf("20 calls used %d connections", len(conns))
	}
}

func TestClientDoesNotWaitForStreamsThatStayOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fakeClient(t, func(r *http.Request) (*http.Response, error) {
			pr, pw := io.Pipe()
			go pw.Write([]byte(events(msgReply)))
			resp := respond(200, "text/event-stream", "")
			resp.Body = pr
			return resp, nil
		})
		start := time.Now()
		for range 10 {
			if _, err := c.Do(t.Context(), outgoing(modernRules), nil); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(start); d != lingerTime {
			t.Errorf("ten calls waited %v, want %v once", d, lingerTime)
		}
	})
}

func TestClientNotSent(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	c, err := NewClient(s.URL, ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Do(t.Context(), outgoing(modernRules), nil); !errors.Is(err, transport.ErrNotSent) {
		t.Errorf("Do: %v", err)
	}
	if err := c.Post(t.Context(), outgoing(modernRules)); !errors.Is(err, transport.ErrNotSent) {
		t.Errorf("Post: %v", err)
	}
}

// TestClientHTTP2 checks that streams share one connection over HTTP/2, and that ending one
// stream does not affect the others.
func TestClientHTTP2(t *testing.T) {
	var conns sync.Map
	over := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conns.Store(r.RemoteAddr, r.ProtoMajor)
		w.Header().Set("Content-Type", "text/event-stream")
		if r.Header.Get("X-Hang") != "" {
			io.WriteString(w, events(msgNotice))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			close(over)
			return
		}
		io.WriteString(w, events(msgNotice, msgReply))
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	rt := httplink.DefaultTransport()
	rt.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	defer rt.CloseIdleConnections()
	c, err := NewClient(s.URL, ClientOptions{HTTP: rt})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(t.Context(), outgoing(modernRules), nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	hang := outgoing(modernRules)
	hang.Header = []transport.HeaderField{{Name: "X-Hang", Value: "1"}}
	if _, err := c.Do(ctx, hang, func(*jsonrpc.Message) { cancel() }); err != context.Canceled {
		t.Error(err)
	}
	<-over
	if _, err := c.Do(t.Context(), outgoing(modernRules), nil); err != nil {
		t.Fatal(err)
	}
	n := 0
	conns.Range(func(_, proto any) bool {
		n++
		return proto == 2
	})
	if n != 1 {
		t.Errorf("%d connections were used, or they did not use HTTP/2", n)
	}
}

func TestTerminate(t *testing.T) {
	status := 200
	var asked []string
	c := fakeClient(t, func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.Method+" "+r.Header.Get("Mcp-Session-Id")+" "+r.Header.Get("MCP-Protocol-Version"))
		return respond(status, "", ""), nil
	})
	if err := c.Terminate(t.Context(), legacyRules); err != nil || len(asked) > 0 {
		t.Errorf("without a session: %v, %q", err, asked)
	}
	for _, status = range []int{200, 204, 404, 405} {
		c.SetSession("s")
		if err := c.Terminate(t.Context(), legacyRules); err != nil || c.Session() != "" {
			t.Errorf("%d: %v", status, err)
		}
	}
	status = 500
	c.SetSession("s")
	if err := c.Terminate(t.Context(), legacyRules); err == nil {
		t.Error("status 500 is not an error")
	}
	if len(asked) != 5 || asked[0] != "DELETE s 2025-11-25" {
		t.Errorf("%q", asked)
	}
}

func TestClientConcurrently(t *testing.T) {
	c := clientFor(t, ClientOptions{}, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Scan(b, jsonrpc.Limits{})
		if err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		answer := jsonrpc.AppendResult(nil, m.ID, []byte(`{"for":`+string(m.ID)+`}`))
		if len(m.ID)%2 == 0 {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, events(msgNotice, string(answer)))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	})
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 30 {
				id := jsonrpc.IntID(int64(g*1000 + i + 1))
				body := jsonrpc.AppendRequest(nil, id, "tools/call", []byte(`{"name":"x"}`))
				m, err := c.Do(t.Context(), &transport.Outgoing{Body: body, ID: id, Method: "tools/call", Rules: legacyRules}, nil)
				if err != nil || string(m.Result.Of(m.Raw)) != `{"for":`+string(id)+`}` {
					t.Errorf("%s: %v, %v", id, m, err)
					return
				}
				clear(body)
			}
		})
	}
	wg.Wait()
}

func BenchmarkClientDo(b *testing.B) {
	padding := strings.Repeat("x", 1024)
	answer := []byte(`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"` + padding + `"}]}}`)
	for _, form := range []string{"json", "events"} {
		b.Run(form, func(b *testing.B) {
			c := clientFor(b, ClientOptions{}, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				if form == "json" {
					w.Header().Set("Content-Type", "application/json")
					w.Write(answer)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				w.Write([]byte("data: "))
				w.Write(answer)
				w.Write([]byte("\n\n"))
			})
			out := outgoing(modernRules)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Do(b.Context(), out, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(form+"/own", func(b *testing.B) {
			c, out := cannedClient(b, form, answer)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Do(b.Context(), out, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// cannedClient returns a client whose transport always returns the same answer, so that a
// benchmark measures only the client.
func cannedClient(t testing.TB, form string, answer []byte) (*Client, *transport.Outgoing) {
	resp := &http.Response{StatusCode: 200, ProtoMajor: 1, ContentLength: int64(len(answer)), Header: http.Header{"Content-Type": {"application/json"}}}
	if form == "events" {
		answer = append(append([]byte("data: "), answer...), "\n\n"...)
		resp.Header["Content-Type"] = []string{"text/event-stream"}
	}
	body := bytes.NewReader(answer)
	resp.Body = io.NopCloser(body)
	return fakeClient(t, func(*http.Request) (*http.Response, error) {
		body.Reset(answer)
		return resp, nil
	}), outgoing(modernRules)
}

func TestClientAllocations(t *testing.T) {
	for form, budget := range map[string]float64{"json": 12, "events": 16} {
		c, out := cannedClient(t, form, []byte(msgReply))
		if n := testing.AllocsPerRun(200, func() {
			if _, err := c.Do(t.Context(), out, nil); err != nil {
				t.Fatal(err)
			}
		}); n > budget {
			t.Errorf("%s: %v allocations, want at most %v", form, n, budget)
		}
	}
}
