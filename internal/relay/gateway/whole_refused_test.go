package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/sse"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// smallest contains the limits for messages from servers in these tests.
var smallest = jsonrpc.Limits{Bytes: 8 << 10, Tolerant: true, Names: mcp.MethodName}

// overStdio returns both ends of a session over the stdio transport, as with a child process.
func overStdio() (client, server transport.Pipe) {
	down, toServer := io.Pipe()
	up, toClient := io.Pipe()
	return stdio.NewPipe(up, toServer, stdio.Options{Limits: smallest}),
		stdio.NewPipe(down, toClient, stdio.Options{})
}

// overSSE returns both ends of a session over HTTP+SSE.
func overSSE() (client, server transport.Pipe) {
	up, toClient := io.Pipe()
	down, toServer := io.Pipe()
	client, err := sse.Dial(context.Background(), "http://far/sse", sse.ClientOptions{Limits: smallest, HTTP: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			body := io.MultiReader(strings.NewReader("event: endpoint\ndata: /m\n\n"), up)
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: readCloser{body, up, toServer}}, nil
		}
		line, _ := io.ReadAll(r.Body)
		_, err := toServer.Write(append(line, '\n'))
		return &http.Response{StatusCode: 202, Body: http.NoBody}, err
	})})
	if err != nil {
		panic(err)
	}
	return client, stdio.NewPipe(down, asEvents{toClient}, stdio.Options{})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// readCloser is the body of an event stream. Close also ends the server's input.
type readCloser struct {
	io.Reader
	body, input io.Closer
}

func (r readCloser) Close() error {
	_ = r.body.Close()
	return r.input.Close()
}

// asEvents is a writer that writes each line as an SSE event.
type asEvents struct{ w io.WriteCloser }

func (e asEvents) Write(b []byte) (int, error) {
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if _, err := e.w.Write([]byte("data: " + lines.Text() + "\n\n")); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func (e asEvents) Close() error { return e.w.Close() }

// badAnswers are unusable answers to a call. The tests replace ID by the call's id. cause is the
// expected cause of the call's failure. It is "" if the answer may belong to another call, so that
// the call continues.
var badAnswers = map[string]struct{ frame, cause string }{
	"NaN":                       {`{"jsonrpc":"2.0","id":ID,"result":{"content":[],"x":NaN}}`, "bad_response"},
	"id behind":                 {`{"result":{"content":[],"x":NaN},"jsonrpc":"2.0","id":ID}`, "bad_response"},
	"no UTF-8":                  {"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":[],\"x\":\"\xff\"}}", "bad_response"},
	"no escapes":                {`{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"he said "no""}]}}`, "bad_response"},
	"two results":               {`{"jsonrpc":"2.0","id":ID,"result":{"content":[]},"result":{"content":[]}}`, "bad_response"},
	"torn":                      {`{"jsonrpc":"2.0","id":ID,"result":{"content":[`, "bad_response"},
	"an error that is a string": {`{"jsonrpc":"2.0","id":ID,"error":"no"}`, "bad_response"},
	"too large":                 {`{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"LONG"}]}}`, "too_large"},
	"too large, id behind":      {`{"result":{"content":[{"type":"text","text":"LONG"}]},"jsonrpc":"2.0","id":ID}`, "too_large"},
	"no result":                 {`{"jsonrpc":"2.0","id":ID}`, "bad_response"},
	"no double quotes":          {`{"jsonrpc":"2.0","id":ID,'result':{}}`, "bad_response"},
	"members in two cases":      {`{"jsonrpc":"2.0","Id":9,"id":ID,"Result":{},"result":{"content":[]}}`, "bad_response"},
	"batch":                     {`[{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}]`, "bad_response"},
	"batch, broken within":      {`[{"jsonrpc":"2.0","id":ID}]`, "bad_response"},
	"batch, unknown id":         {`[{"jsonrpc":"2.0","id":7777,"result":{}},{"jsonrpc":"2.0","method":"notifications/message"}]`, ""},
	"two ids":                   {`{"jsonrpc":"2.0","id":ID,"result":{"x":NaN},"id":77}`, ""},
	"unknown id":                {`{"jsonrpc":"2.0","id":7777,"result":{"x":NaN}}`, ""},
	"too large, unknown id":     {`{"jsonrpc":"2.0","id":7777,"result":{"x":"LONG"}}`, ""},
	"too large, two ids":        {`{"jsonrpc":"2.0","id":ID,"id":77,"result":{"x":"LONG"}}`, ""},
	"too large, no id":          {`{"jsonrpc":"2.0","result":{"x":"LONG"}}`, ""},
	"too large a notification":  {`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"LONG"}}`, ""},
	"too large, no JSON":        {`LONG`, ""},
}

// TestBadAnswerFailsItsCallAlone checks a call whose answer is not a message, or is too large.
// The call fails at once, with the reason. Another client's call on the same session gets its
// answer, the session continues, and the log has one warning.
func TestBadAnswerFailsItsCallAlone(t *testing.T) {
	for link, framing := range map[string]func() (client, server transport.Pipe){"stdio": overStdio, "sse": overSSE} {
		for _, modern := range []bool{true, false} {
			if modern && link == "sse" {
				continue // modern servers do not use this transport
			}
			for name, bad := range badAnswers {
				t.Run(link+"/"+map[bool]string{true: "modern", false: "legacy"}[modern]+"/"+name, func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						far := &testServer{modern: modern, framing: framing, on: func(*testSession, *jsonrpc.Message) {}}
						w := build(t, far)
						first, second := w.client(), w.client()
						for _, n := range []*testClient{first, second} {
							n.say(modernRequest("5", "tools/call", `"name":"x","arguments":{}`, `{}`))
							time.Sleep(2 * time.Second) // wait until the session is open
							synctest.Wait()
						}
						l := far.link(t, 0)
						calls := l.got(mcp.MethodCallTool)
						if len(calls) != 2 || far.opened() != 1 {
							t.Fatalf("the server got %d calls on %d sessions", len(calls), far.opened())
						}
						before := time.Now()
						l.say(strings.NewReplacer("ID", string(calls[0].ID), "LONG", strings.Repeat("x", 20<<10)).Replace(bad.frame))
						if bad.cause != "" {
							m := first.answerTo("5")
							first.wants(m, `"cause":"`+bad.cause+`"`)
							if took := time.Since(before); took != 0 {
								t.Errorf("the call failed after %v", took)
							}
						}
						synctest.Wait()
						l.answer(calls[1], `{"resultType":"complete","content":[]}`)
						second.wants(second.answerTo("5"), `"content":[]`)
						if bad.cause == "" {
							l.answer(calls[0], `{"resultType":"complete","content":[]}`)
							first.wants(first.answerTo("5"), `"content":[]`)
						}
						if took := time.Since(before); took != 0 {
							t.Errorf("the other calls waited %v", took)
						}
						warnings := 0
						if bad.cause != "" || strings.Contains(name, "too large") {
							warnings = 1
						}
						if got := w.log.warnings(); len(got) != warnings {
							t.Errorf("%d warnings: %q", len(got), got)
						}
						if got := w.upstreams[0].Report(); got.State != upstream.Ready || got.Restarts != 0 || far.opened() != 1 {
							t.Errorf("the server is %s and was restarted %d times", got.State, got.Restarts)
						}
					})
				})
			}
		}
	}
}

// TestBatchOfAServer checks a server of 2025-03-26, which may answer in batches that also
// contain other messages.
func TestBatchOfAServer(t *testing.T) {
	for link, framing := range map[string]func() (client, server transport.Pipe){"stdio": overStdio, "sse": overSSE, "inmem": nil} {
		t.Run(link, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				far := &testServer{revision: "2025-03-26", framing: framing, on: func(*testSession, *jsonrpc.Message) {}}
				w := build(t, far)
				first, second := w.client(), w.client()
				for _, n := range []*testClient{first, second} {
					n.say(modernRequest("5", "tools/call", `"name":"x","arguments":{}`, `{}`))
					time.Sleep(2 * time.Second) // wait until the session is open
					synctest.Wait()
				}
				l := far.link(t, 0)
				calls := l.got(mcp.MethodCallTool)
				if len(calls) != 2 {
					t.Fatalf("the server got %d calls", len(calls))
				}
				before := time.Now()
				l.say(`[{"jsonrpc":"2.0","id":` + string(calls[1].ID) + `,"result":{"content":[],"who":"second"}},` +
					`{"jsonrpc":"2.0","id":` + string(calls[0].ID) + `,"result":{"content":[],"who":"first"}}]`)
				first.wants(first.answerTo("5"), `"who":"first"`)
				second.wants(second.answerTo("5"), `"who":"second"`)
				if took := time.Since(before); took != 0 {
					t.Errorf("the answers took %v", took)
				}
			})
		})
	}
}

// TestTooLargeAnAnswerOfTheOnlyCall checks an answer that is over the size limit and whose id
// is unknown. If only one call is open, the answer belongs to this call. But if another call was
// cancelled shortly before, the answer may belong to the cancelled call.
func TestTooLargeAnAnswerOfTheOnlyCall(t *testing.T) {
	for _, gaveUp := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			far := &testServer{modern: true, framing: overStdio, on: func(*testSession, *jsonrpc.Message) {}}
			w := build(t, far)
			n := w.client()
			if gaveUp {
				n.say(modernRequest("4", "tools/call", `"name":"x","arguments":{}`, `{}`))
				time.Sleep(time.Second)
				n.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
			}
			n.say(modernRequest("5", "tools/call", `"name":"x","arguments":{}`, `{}`))
			time.Sleep(time.Second)
			l := far.link(t, 0)
			l.say(`{"jsonrpc":"2.0","result":{"x":"` + strings.Repeat("x", 20<<10) + `"}}`)
			synctest.Wait()
			if !gaveUp {
				n.wants(n.answerTo("5"), `"cause":"too_large"`)
				return
			}
			calls := l.got(mcp.MethodCallTool)
			l.answer(calls[len(calls)-1], `{"resultType":"complete","content":[]}`)
			n.wants(n.answerTo("5"), `"content":[]`)
		})
	}
}

// TestBadAnswerInTheHandshake checks a handshake whose answer is not a message. Dragoman does not
// wait for its timeout. It either fails to open the server at once, or continues at once.
func TestBadAnswerInTheHandshake(t *testing.T) {
	for name, frame := range map[string]string{
		"NaN":       `{"jsonrpc":"2.0","id":ID,"result":{"x":NaN}}`,
		"too large": `{"jsonrpc":"2.0","id":ID,"result":{"x":"LONG"}}`,
		"no id":     `{"jsonrpc":"2.0","result":{"x":"LONG"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				client, server := overStdio()
				go func() {
					for {
						m, err := server.Read()
						if err != nil {
							return
						}
						_ = server.Write([]byte(strings.NewReplacer("ID", string(m.ID), "LONG", strings.Repeat("x", 20<<10)).Replace(frame)))
					}
				}()
				u := upstream.New(upstream.Spec{Name: "a", Pipe: func(context.Context) (transport.Pipe, error) { return client, nil }}, upstream.Options{Clean: func(s string) string { return s }})
				defer u.Close(context.Background())
				before := time.Now()
				_, _, err := u.List(t.Context(), nil, mcp.MethodListTools)
				if err == nil || !strings.Contains(err.Error(), "sent an answer that is not valid MCP") {
					t.Errorf("got %v", err)
				}
				if took := time.Since(before); took != 0 {
					t.Errorf("the open took %v", took)
				}
				_ = server.Close()
			})
		})
	}
}

// TestBadAnswerOfAClient checks a server request whose response is not a message, or is too
// large. The request fails at once. The client's own request with the same id continues, and so
// does the server request to another client.
func TestBadAnswerOfAClient(t *testing.T) {
	for name, frame := range map[string]string{
		"NaN":       `{"jsonrpc":"2.0","id":ID,"result":{"action":"accept","content":{"x":NaN}}}`,
		"two":       `{"jsonrpc":"2.0","id":ID,"result":{"action":"accept"},"error":{"code":1,"message":"m"}}`,
		"too large": `{"result":{"action":"accept","content":{"x":"LONG"}},"jsonrpc":"2.0","id":ID}`,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				asks := 0
				far := &testServer{caps: `{"tools":{}}`, on: func(l *testSession, m *jsonrpc.Message) {
					if m.Method == mcp.MethodCallTool {
						asks++
						l.say(`{"jsonrpc":"2.0","id":"q` + string(rune('0'+asks)) + `","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`)
					}
				}}
				w := build(t, far)
				var clients []*testClient
				var questions []*jsonrpc.Message
				for range 2 {
					n := w.overPipe()
					n.open(`{"elicitation":{}}`)
					n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{}}}`)
					clients, questions = append(clients, n), append(questions, n.request())
				}
				before := time.Now()
				if questions[0].ID != "1" {
					t.Fatalf("the server's request is %s", questions[0].Raw)
				}
				clients[0].say(strings.NewReplacer("ID", string(questions[0].ID), "LONG", strings.Repeat("x", 20<<10)).Replace(frame))
				synctest.Wait()
				var call, other *jsonrpc.Message
				for _, l := range far.links {
					for _, m := range l.got("") {
						if m.Kind == jsonrpc.Failure && m.ID == `"q1"` {
							call = m
						}
						if m.ID == `"q2"` {
							other = m
						}
					}
				}
				if call == nil || other != nil || !strings.Contains(string(call.Raw), "is not valid") {
					t.Errorf("the server got the responses %v and %v", call, other)
				}
				far.link(t, 0).answer(far.link(t, 0).got(mcp.MethodCallTool)[0], `{"content":[{"type":"text","text":"went on"}]}`)
				clients[0].wants(clients[0].answerTo("1"), "went on")
				clients[1].say(`{"jsonrpc":"2.0","id":` + string(questions[1].ID) + `,"result":{"action":"accept","content":{}}}`)
				synctest.Wait()
				if took := time.Since(before); took != 0 {
					t.Errorf("the request took %v", took)
				}
			})
		})
	}
}
