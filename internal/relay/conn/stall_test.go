package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/testkit/netsim"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/sse"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
)

// TestServerThatTakesNoAnswers checks a server that does not accept answers by POST. Calls do not
// wait for this server to accept an answer, and Dragoman gives up an answer after ten seconds.
func TestServerThatTakesNoAnswers(t *testing.T) {
	const ping, asks = `{"jsonrpc":"2.0","id":"p","method":"ping"}`, `{"jsonrpc":"2.0","id":"q","method":"x/ask"}`
	for name, stream := range map[string][]string{"ping": {ping}, "a question": {asks}, "many": slices.Repeat([]string{ping, asks}, 200)} {
		t.Run(name, func(t *testing.T) {
			var longest time.Duration
			posts := 0
			p := &fakePoster{rev: mcp.R20251125, streams: stream}
			p.post = func(ctx context.Context, body string) error {
				if strings.Contains(body, mcp.NoteInitialized) {
					return nil
				}
				begun := time.Now()
				<-ctx.Done()
				p.mu.Lock()
				defer p.mu.Unlock()
				posts++
				longest = max(longest, time.Since(begun))
				return context.Cause(ctx)
			}
			posting(t, p, func(c *Conn) {
				begun := time.Now()
				held := start(c, anna, toolCall)
				if d := time.Since(begun); d > 0 {
					t.Errorf("the call's stream was blocked for %v", d)
				}
				p.do = func(out *transport.Outgoing) (*jsonrpc.Message, error) {
					return jsonrpc.Scan(jsonrpc.AppendResult(nil, out.ID, []byte("{}")), jsonrpc.Limits{})
				}
				innocent := start(c, ben, toolCall)
				if answer, cause := innocent.ended(); answer == "" {
					t.Errorf("the second client's call: %q, %q", answer, cause)
				}
				limit := defaultIdle
				if name != "ping" {
					limit = defaultHard // a user may take long to answer
				}
				time.Sleep(limit)
				if _, cause := held.ended(); cause != "timeout" {
					t.Errorf("after %v the result is %q", limit, cause)
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				p.mu.Lock()
				if posts == 0 || longest != transport.AnswerTimeout {
					t.Errorf("%d answers were tried, the longest one for %v", posts, longest)
				}
				p.mu.Unlock()
				begun = time.Now()
				_ = c.Close(nil)
				if d := time.Since(begun); d > 2*closeTimeout {
					t.Errorf("Close took %v", d)
				}
			})
		})
	}
}

// TestPostThatDoesNotEnd checks a server over HTTP+SSE. While the POST of a call is still open, the
// server may send requests and the answer on its stream. A POST that the server never accepts does
// not delay other calls.
func TestPostThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream, events := io.Pipe()
		var mu sync.Mutex
		var got []string
		say := func(b []byte) { _, _ = fmt.Fprintf(events, "data: %s\n\n", b) }
		client, err := sse.Dial(t.Context(), "http://far/sse", sse.ClientOptions{HTTP: roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				body := struct {
					io.Reader
					io.Closer
				}{io.MultiReader(strings.NewReader("event: endpoint\ndata: /m\n\n"), stream), stream}
				return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}, nil
			}
			b, _ := io.ReadAll(r.Body)
			m := pipetest.Scan(t, string(b))
			mu.Lock()
			got = append(got, m.Method)
			mu.Unlock()
			switch {
			case m.Method == mcp.MethodInitialize:
				say(jsonrpc.AppendResult(nil, m.ID, []byte(`{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`)))
			case strings.Contains(string(b), `"asks"`):
				say([]byte(`{"jsonrpc":"2.0","id":"q","method":"x/ask","params":{"_meta":{"progressToken":` + string(m.ID) + `}}}`))
				time.Sleep(20 * time.Second)
				say(jsonrpc.AppendResult(nil, m.ID, []byte("{}")))
				<-r.Context().Done()
				return nil, context.Cause(r.Context())
			case strings.Contains(string(b), `"never"`):
				<-r.Context().Done()
				return nil, context.Cause(r.Context())
			case strings.Contains(string(b), `"cut"`):
				return nil, io.EOF
			case m.Kind == jsonrpc.Request:
				say(jsonrpc.AppendResult(nil, m.ID, []byte("{}")))
			}
			return &http.Response{StatusCode: 202, Body: http.NoBody}, nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		c, err := OpenPipe(t.Context(), client, handshake.Offer{SkipProbe: true}, Options{Name: "srv", Posts: true})
		if err != nil {
			t.Fatal(err)
		}
		named := func(name string) string {
			return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + name + `","_meta":{"progressToken":1}}}`
		}
		asks := start(c, anna, named("asks"))
		never := start(c, ben, named("never"))
		cut := start(c, ben, named("cut"))
		if _, cause := cut.ended(); cause != "cut_off" || errors.Is(cut.err, ErrLinkOver) { // only this POST is over
			t.Errorf("the call whose POST ended without a response: %q, %v", cause, cut.err)
		}
		time.Sleep(time.Second)
		asks.mu.Lock()
		if len(asks.asked) != 1 {
			t.Errorf("the client got %q while the POST was open", asks.asked)
		}
		asks.mu.Unlock()
		for range 30 {
			innocent := start(c, ben, named("innocent"))
			if answer, cause := innocent.ended(); answer == "" {
				t.Fatalf("the second client's call: %q, %q", answer, cause)
			}
			time.Sleep(time.Second)
		}
		if answer, cause := asks.ended(); answer == "" {
			t.Errorf("the call whose POST stays open: %q, %q", answer, cause)
		}
		time.Sleep(30 * time.Second)
		if _, cause := never.ended(); cause != "timeout" {
			t.Errorf("the call that was never accepted: %q", cause)
		}
		begun := time.Now()
		_ = c.Close(nil)
		_ = events.Close()
		if d := time.Since(begun); d > closeTimeout {
			t.Errorf("Close took %v", d)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// stuckServer is an HTTP server. If stuck is set, it does not read the body of a POST until letGo is
// closed.
type stuckServer struct {
	sse    bool // the server uses HTTP+SSE instead of Streamable HTTP
	stuck  atomic.Bool
	letGo  chan struct{}
	events chan []byte
}

func (s *stuckServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && s.sse {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: endpoint\ndata: /m\n\n")
		for {
			_ = http.NewResponseController(w).Flush()
			select {
			case b := <-s.events:
				_, _ = fmt.Fprintf(w, "data: %s\n\n", b)
			case <-r.Context().Done():
				return
			}
		}
	}
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if s.stuck.Swap(false) {
		<-s.letGo
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m, err := jsonrpc.Scan(b, jsonrpc.Limits{Bytes: 4 << 20})
	if err != nil || m.Kind != jsonrpc.Request {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer := jsonrpc.AppendResult(nil, m.ID, []byte(`{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`))
	if s.sse {
		w.WriteHeader(http.StatusAccepted)
		s.events <- answer
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

// TestU16_ServerThatReadsNoBody checks an HTTP server that does not read the body of one call's POST.
// Only that call waits, until its timeout.
func TestU16_ServerThatReadsNoBody(t *testing.T) {
	for _, overSSE := range []bool{false, true} {
		for _, pause := range []time.Duration{time.Second, 11 * time.Second, 59 * time.Second, time.Hour} {
			for _, size := range []int{1, 1 << 20} {
				t.Run(fmt.Sprintf("sse_%t/%v/%d", overSSE, pause, size), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						network := netsim.NewNetwork()
						l, err := network.Listen("far:80")
						if err != nil {
							t.Fatal(err)
						}
						far := &stuckServer{sse: overSSE, letGo: make(chan struct{}), events: make(chan []byte, 100)}
						web := &http.Server{Handler: far}
						var all sync.WaitGroup
						all.Go(func() { _ = web.Serve(l) })
						tr := &http.Transport{DialContext: network.DialContext}
						var s *Conn
						offer, o := handshake.Offer{Pin: mcp.R20250326, SkipProbe: true}, Options{Name: "srv", Posts: overSSE}
						if overSSE {
							var p transport.Pipe
							if p, err = sse.Dial(t.Context(), "http://far/sse", sse.ClientOptions{HTTP: tr}); err == nil {
								s, err = OpenPipe(t.Context(), p, offer, o)
							}
						} else {
							var c *streamhttp.Client
							if c, err = streamhttp.NewClient("http://far/mcp", streamhttp.ClientOptions{HTTP: tr}); err == nil {
								s, err = OpenHTTP(t.Context(), c, offer, o)
							}
						}
						if err != nil {
							t.Fatal(err)
						}
						far.stuck.Store(true)
						stuck := start(s, anna, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{"a":"`+strings.Repeat("x", size)+`"}}}`)
						begun := time.Now()
						for n := 0; n < 65; n++ {
							if time.Since(begun) == pause {
								close(far.letGo)
							}
							innocent := start(s, ben, toolCall)
							if answer, cause := innocent.ended(); answer == "" {
								t.Fatalf("the second client's call after %v: %q", time.Since(begun), cause)
							}
							time.Sleep(time.Second)
						}
						answer, cause := stuck.ended()
						if pause < time.Minute && answer == "" || pause > time.Minute && cause != "timeout" {
							t.Errorf("the call that the server did not read: %q, %q", answer, cause)
						}
						if pause > time.Minute {
							close(far.letGo)
						}
						begun = time.Now()
						_ = s.Close(nil)
						if d := time.Since(begun); d > 2*closeTimeout {
							t.Errorf("Close took %v", d)
						}
						tr.CloseIdleConnections()
						_ = web.Close()
						all.Wait()
						time.Sleep(time.Second) // wait until the server's connections have ended
					})
				})
			}
		}
	}
}
