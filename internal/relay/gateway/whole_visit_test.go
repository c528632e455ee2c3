package gateway_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// urlServer returns a server whose tools ask the user to open a URL, which the call contains. A
// legacy server asks with a live request or, for the tool "first", with the error of the call. A
// modern server asks with the result of the call.
func urlServer(modern bool) *testServer {
	s := &testServer{modern: modern}
	s.on = func(l *testSession, m *jsonrpc.Message) {
		params := func() string {
			to := jsonrpc.Find(m.Raw, m.Param("arguments"), "to").Of(m.Raw)
			return `{"mode":"url","message":"Sign in","elicitationId":"e","url":` + string(to) + `}`
		}
		switch {
		case m.Method == mcp.MethodCallTool && modern && !m.Param("inputResponses").IsZero():
			l.answer(m, `{"resultType":"complete","content":[],"heard":`+string(m.Param("inputResponses").Of(m.Raw))+`}`)
		case m.Method == mcp.MethodCallTool && modern:
			l.answer(m, `{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":`+params()+`}}}`)
		case m.Method == mcp.MethodCallTool && string(m.Param("name").Of(m.Raw)) == `"first"`:
			l.fail(m, mcp.CodeURLElicitationRequired, `{"elicitations":[`+params()+`]}`)
		case m.Method == mcp.MethodCallTool:
			l.say(`{"jsonrpc":"2.0","id":"q` + string(m.ID) + `","method":"elicitation/create","params":` + params() + `}`)
		case m.Kind == jsonrpc.Result, m.Kind == jsonrpc.Failure:
			l.say(`{"jsonrpc":"2.0","id":` + strings.Trim(string(m.ID), `"q`) + `,"result":{"content":[],"heard":` + string(m.Raw) + `}}`)
		case m.Kind == jsonrpc.Request:
			l.answer(m, `{}`)
		}
	}
	return s
}

// TestM14_NobodyIsSentWhereNobodyShouldGo checks elicitations with a bad URL for all four
// combinations of client era and server era, and in an error. The URL does not reach the client,
// Dragoman publishes a loss, the call gets an answer, and a legacy server gets a reason. A good URL
// passes unchanged.
func TestM14_NobodyIsSentWhereNobodyShouldGo(t *testing.T) {
	const bad, good, caps = "javascript:alert(1)", "https://example.com/a?b=c", `{"elicitation":{"form":{},"url":{}}}`
	for name, cell := range map[string]struct {
		near, far bool // true means modern
		tool      string
	}{
		"legacy, legacy": {false, false, "t"}, "legacy, modern": {false, true, "t"},
		"modern, legacy": {true, false, "t"}, "modern, modern": {true, true, "t"},
		"legacy, legacy's error": {false, false, "first"}, "modern, legacy's error": {true, false, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := urlServer(cell.far)
				w := build(t, s)
				n := w.client()
				if !cell.near {
					n = w.legacy(caps)
				}
				ask := func(id, url string) {
					params := `"name":"` + cell.tool + `","arguments":{"to":"` + url + `"}`
					if cell.near {
						n.say(modernRequest(id, "tools/call", params, caps))
					} else {
						n.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{` + params + `}}`)
					}
				}
				ask("1", bad)
				synctest.Wait()
				var got []string
				for len(got) == 0 || !strings.Contains(got[len(got)-1], `"id":1,`) {
					got = append(got, string(n.next().Raw))
				}
				if all := strings.Join(got, "\n"); strings.Contains(all, bad) {
					t.Errorf("the client got the URL: %s", all)
				}
				answer := got[len(got)-1]
				live := !cell.far && cell.tool == "t"
				if !strings.Contains(answer, "neither http nor https") || !live && !strings.Contains(answer, `"cause":"unsafe_url","outcome":"failed"`) {
					t.Errorf("the call was answered with %s", answer)
				}
				if live && !strings.Contains(answer, `"code":-32602`) {
					t.Errorf("the server got %s", answer)
				}
				if lost := w.lostSoFar(); len(lost) != 1 || lost[0] != "a elicitation/create its URL is neither http nor https" {
					t.Errorf("the losses are %q", lost)
				}
				ask("2", good)
				if m := n.next(); !strings.Contains(string(m.Raw), good) {
					t.Errorf("the call with a good URL got %s", m.Raw)
				}
				if lost := w.lostSoFar(); len(lost) != 0 {
					t.Errorf("the losses for a good URL are %q", lost)
				}
			})
		})
	}
}
