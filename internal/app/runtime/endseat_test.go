package runtime

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// waiter is a Handler whose calls answer when the test ends, or when their context does. Each call says
// first that it has begun.
type waiter struct {
	host
	end chan struct{}
}

func (h *waiter) Call(ctx context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
	h.note()
	if c.Method.Name == mcp.MethodListen {
		k.Notify(mcp.NewNote("notifications/subscriptions/acknowledged", nil))
	}
	select {
	case <-h.end:
		return mcp.Answer([]byte(`{"content":[]}`)), nil
	case <-ctx.Done():
		return nil, &mcp.Error{Message: "the call was cancelled", Cause: "cancelled", Outcome: mcp.OutcomeUnknown, Err: ctx.Err()}
	}
}

// doorkeeper is a Principal function that forgets people.
type doorkeeper struct {
	mu   sync.Mutex
	gone map[string]bool
}

func (d *doorkeeper) who(r *http.Request) (*identity.Principal, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone[r.Header.Get("X-Who")] {
		return nil, &httpdoor.Denied{Reason: "this key was revoked"}
	}
	return withKey(r)
}

func (d *doorkeeper) forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone[name] = true
}

// TestEndSeat ends the seat of ann while she and bob have everything that runs at two endpoints: a
// session with a stream, a call in it and in a batch, a call without a session, a modern call, a listen,
// and a call over HTTP+SSE. All that is hers ends with the sentence of the cause, and all that is bob's
// goes on.
func TestEndSeat(t *testing.T) {
	h, keeper := &waiter{end: make(chan struct{})}, &doorkeeper{gone: map[string]bool{}}
	set, mux := NewEndpoints(), http.NewServeMux()
	defer set.Close()
	for _, prefix := range []string{"", "/other"} {
		e := NewEndpoint("", &downstream.Endpoint{Handler: h}, EndpointOptions{Principal: keeper.who})
		e.Mount(mux, prefix)
		set.Add(e)
	}
	s := serveSite(t, mux)
	people := map[string]*busy{}
	for _, name := range []string{"ann", "bob"} {
		people[name] = &busy{site: s, who: []string{"X-Who", name}}
		for _, prefix := range []string{"", "/other"} {
			people[name].begin(prefix)
		}
	}
	ann, bob := people["ann"], people["bob"]
	want := ann.calls + bob.calls
	for begun := time.Now(); h.calls.Load() < want; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("%d of %d calls have arrived", h.calls.Load(), want)
		}
	}

	keeper.forget("ann")
	set.EndSeat("ann", &mcp.Error{Message: "your key was revoked", Cause: "revoked", Outcome: mcp.OutcomeUnknown})
	ann.running.Wait()
	for what, text := range ann.ends() {
		quiet := strings.HasSuffix(what, "stream") // nothing was asked there, so there is nothing to answer
		if quiet != (text == "") || !quiet && !strings.Contains(text, "your key was revoked") {
			t.Errorf("ann's %s ended with %q", what, text)
		}
	}
	for _, x := range []struct{ method, path, body string }{{"POST", "/mcp", callBody}, {"POST", "/mcp", helloBody}, {"GET", "/sse", ""}} {
		s.wants(401, "this key was revoked", x.method, x.path, x.body, ann.who...)
	}
	if n := len(bob.ends()); n != 0 {
		t.Errorf("%d things of bob have ended: %v", n, bob.ends())
	}
	for _, e := range set.List() {
		web, sse := e.Counts()
		if web.Sessions != 2+1 || web.InFlight != 6 || sse.Streams != 1 {
			t.Errorf("left are %d sessions, %d requests and %d streams", web.Sessions, web.InFlight, sse.Streams)
		}
	}
	close(h.end)
	set.Drain()
	set.EndSeat("nobody", io.EOF)
	bob.running.Wait()
	for what, text := range bob.ends() {
		if quiet := strings.HasSuffix(what, "stream"); !quiet && !strings.Contains(text, `"content":[]`) {
			t.Errorf("bob's %s ended with %q", what, text)
		}
	}
}

// busy is a client that has everything running at once.
type busy struct {
	site    *site
	who     []string
	calls   int64
	running sync.WaitGroup

	mu    sync.Mutex
	ended map[string]string // what has ended, and how
}

func (b *busy) ends() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]string{}
	for k, v := range b.ended {
		out[k] = v
	}
	return out
}

// run sends a request and reads the response in the background.
func (b *busy) run(what, method, path, body string, header ...string) {
	b.running.Go(func() {
		resp := b.site.open(method, path, body, append(header, b.who...)...)
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		b.note(what, string(text))
	})
}

func (b *busy) note(what, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended == nil {
		b.ended = map[string]string{}
	}
	b.ended[what] = text
}

// begin starts all that a client can have at the endpoint with a prefix.
func (b *busy) begin(prefix string) {
	s := b.site
	id := s.wants(200, `"result"`, "POST", prefix+"/mcp", helloBody, b.who...).Get("Mcp-Session-Id")
	session := []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25"}
	b.run(prefix+" stream", "GET", prefix+"/mcp", "", session...)
	b.run(prefix+" call", "POST", prefix+"/mcp", callBody, session...)
	b.run(prefix+" bare call", "POST", prefix+"/mcp", callBody, "MCP-Protocol-Version", "2025-06-18")
	b.run(prefix+" modern call", "POST", prefix+"/mcp", modernBody, modern()...)
	listen := strings.Replace(strings.Replace(modernBody, "tools/call", mcp.MethodListen, 1), `"name":"star","arguments":{}`, `"notifications":{}`, 1)
	b.run(prefix+" listen", "POST", prefix+"/mcp", listen, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", mcp.MethodListen)
	old := s.wants(200, `"result"`, "POST", prefix+"/mcp", strings.Replace(helloBody, "2025-11-25", "2025-03-26", 1), b.who...).Get("Mcp-Session-Id")
	b.run(prefix+" batch", "POST", prefix+"/mcp", "["+callBody+","+strings.Replace(callBody, `"id":1`, `"id":2`, 1)+"]", "Mcp-Session-Id", old)
	st := s.stream(prefix+"/sse", b.who...)
	s.wants(202, "", "POST", st.post, strings.Replace(helloBody, "2025-11-25", "2024-11-05", 1), b.who...)
	st.next()
	s.wants(202, "", "POST", st.post, callBody, b.who...)
	b.running.Go(func() {
		defer st.body.Close()
		var all strings.Builder
		for {
			e, err := st.events.Next()
			if err != nil {
				b.note(prefix+" sse call", all.String())
				return
			}
			all.Write(e.Data)
		}
	})
	b.calls += 3 + 7 // three handshakes and seven calls
}

// TestEndSeatWhileARequestArrives lets ann send the last byte of her request after her seat has ended.
// None of her requests gets anything done, and none leaves a session.
func TestEndSeatWhileARequestArrives(t *testing.T) {
	for name, x := range map[string]struct {
		body   string
		header []string
		status int
	}{
		"initialize": {helloBody, nil, 200}, // the session that it names has ended
		"call":       {callBody, nil, 401},
		"modern":     {modernBody, modern(), 401},
	} {
		t.Run(name, func(t *testing.T) {
			h, keeper := &teller{}, &doorkeeper{gone: map[string]bool{}}
			set, mux := NewEndpoints(), http.NewServeMux()
			defer set.Close()
			e := NewEndpoint("", &downstream.Endpoint{Handler: h}, EndpointOptions{Principal: keeper.who})
			e.Mount(mux, "")
			set.Add(e)
			arrived := make(chan struct{})
			s := serveSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.Body = &told{r.Body, sync.OnceFunc(func() { close(arrived) })}
				mux.ServeHTTP(w, r)
			}))
			in, out := io.Pipe()
			var sending sync.WaitGroup
			sending.Go(func() {
				_, _ = io.WriteString(out, x.body[:10])
				<-arrived
				keeper.forget("ann")
				set.EndSeat("ann", jsonrpcError("revoked"))
				_, _ = io.WriteString(out, x.body[10:])
				_ = out.Close()
			})
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/mcp", in)
			if err != nil {
				t.Fatal(err)
			}
			header := append([]string{"X-Who", "ann", "Content-Type", "application/json", "Accept", "application/json, text/event-stream"}, x.header...)
			for i := 0; i < len(header); i += 2 {
				r.Header.Set(header[i], header[i+1])
			}
			resp, err := s.http.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			sending.Wait()
			_ = resp.Body.Close()
			if resp.StatusCode != x.status {
				t.Errorf("status %d, want %d", resp.StatusCode, x.status)
			}
			hellos := int64(0)
			if name == "initialize" {
				hellos = 1
			}
			if web, _ := e.Counts(); h.calls.Load() != hellos || web.Sessions != 0 || web.InFlight != 0 {
				t.Errorf("the handler got %d requests; left are %d sessions and %d requests", h.calls.Load(), web.Sessions, web.InFlight)
			}
		})
	}
}

func jsonrpcError(text string) error {
	return fmt.Errorf("%w", &jsonrpc.Error{Code: -32603, Message: text})
}

// told calls f when its reader has read something.
type told struct {
	io.ReadCloser
	f func()
}

func (b *told) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.f()
	}
	return n, err
}
