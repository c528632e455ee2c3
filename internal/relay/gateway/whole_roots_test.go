package gateway_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
)

// folders is a legacy server that reads the roots after its handshake and whenever they change, and works
// in these folders from then on.
func folders(isolation upstream.Isolation) *testServer {
	s := &testServer{isolation: isolation}
	var mu sync.Mutex
	roots := map[*testSession]string{}
	s.on = func(l *testSession, m *jsonrpc.Message) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case m.Method == mcp.NoteInitialized, m.Method == mcp.NoteRootsChanged:
			l.say(`{"jsonrpc":"2.0","id":"roots","method":"roots/list"}`)
		case m.Kind == jsonrpc.Result, m.Kind == jsonrpc.Failure:
			roots[l] = string(m.Raw)
		case m.Method == mcp.MethodListTools:
			l.answer(m, `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`)
		case m.Method == mcp.MethodCallTool:
			got, _ := jsonrpc.Text(jsonrpc.AppendQuote(nil, roots[l]), jsonrpc.Whole(jsonrpc.AppendQuote(nil, roots[l])))
			l.answer(m, `{"content":[{"type":"text","text":`+string(jsonrpc.AppendQuote(nil, got))+`}]}`)
		case m.Kind == jsonrpc.Request:
			l.answer(m, `{}`)
		}
	}
	return s
}

// window is a legacy client that answers each question for roots with its folder.
type window struct {
	*testClient
	folder  string
	id      int
	answers chan *jsonrpc.Message
}

func (w *whole) window(folder string) *window {
	n := &window{testClient: w.legacy(`{"roots":{"listChanged":true}}`), folder: folder, answers: make(chan *jsonrpc.Message, 64)}
	w.running.Go(func() {
		for m := range n.in {
			switch m.Kind {
			case jsonrpc.Request:
				_ = n.pipe.Write([]byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"roots":[{"uri":"` + n.folder + `"}]}}`))
			case jsonrpc.Result, jsonrpc.Failure:
				n.answers <- m
			}
		}
	})
	return n
}

// asks sends a request and returns the answer.
func (n *window) asks(method, params string) string {
	n.t.Helper()
	n.id++
	n.say(`{"jsonrpc":"2.0","id":` + fmt.Sprint(n.id) + `,"method":"` + method + `","params":{` + params + `}}`)
	m := <-n.answers
	synctest.Wait()
	return string(m.Raw)
}

// TestEachWindowWorksInItsOwnFolder connects two windows of one editor, with the same capabilities and
// different roots, at the merged endpoint and at that of one server.
func TestEachWindowWorksInItsOwnFolder(t *testing.T) {
	for _, isolation := range []upstream.Isolation{upstream.Auto, upstream.PerCall} {
		for _, sole := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s_sole=%t", isolation, sole), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					far, tool := []*testServer{folders(isolation)}, "t"
					if !sole {
						far, tool = append(far, nosy(false, mcp.MethodElicit, asForm)), "a__t"
					}
					w := build(t, far...)
					var all []*window
					for i := range 2 {
						all = append(all, w.window(fmt.Sprintf("file:///project%d", i)))
					}
					inOwn := func(when string, of ...*window) {
						t.Helper()
						for _, n := range of {
							n.asks(mcp.MethodListTools, "")
							if got := n.asks(mcp.MethodCallTool, `"name":"`+tool+`","arguments":{}`); !strings.Contains(got, n.folder) {
								t.Errorf("%s: the window of %s works with %s", when, n.folder, got)
							}
						}
					}
					for _, n := range all { // the first call may be faster than the roots, as without Dragoman
						n.asks(mcp.MethodCallTool, `"name":"`+tool+`","arguments":{}`)
						time.Sleep(time.Second)
					}
					inOwn("at first", all...)
					all[1].folder = "file:///moved"
					all[1].say(`{"jsonrpc":"2.0","method":"` + mcp.NoteRootsChanged + `"}`)
					synctest.Wait()
					inOwn("after a change", all...)
					_ = all[0].pipe.Close()
					synctest.Wait()
					inOwn("alone", all[1])
				})
			})
		}
	}
}
