package gateway_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestHalfOfACharacterPassesBothWays checks an escaped half of a surrogate pair, which JavaScript
// and Python write when they cut a text within an emoji. Such a half reaches the other side
// unchanged in arguments, results and errors, in both eras. Names that Dragoman routes by must
// consist of complete characters.
func TestHalfOfACharacterPassesBothWays(t *testing.T) {
	const half = `{"\ud83d":"cut \ud83d","\uDE00":["\ude00x"]}`
	for _, modern := range []bool{true, false} {
		for _, servers := range []int{1, 2} {
			t.Run(map[bool]string{true: "modern", false: "legacy"}[modern]+map[int]string{1: " alone", 2: " merged"}[servers], func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					var all []*testServer
					for range servers {
						all = append(all, &testServer{modern: modern, caps: `{"tools":{},"resources":{}}`, on: echoArguments})
					}
					w := build(t, all...)
					prefix := map[int]string{1: "", 2: "a__"}[servers]
					old := w.legacy(`{}`)
					call := func(tool string) string {
						return `"name":"` + prefix + tool + `","arguments":` + half
					}
					request := func(id, method, params string) string {
						return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`
					}
					for client, ask := range map[string]func(id, method, params string) *jsonrpc.Message{
						"legacy": func(id, method, params string) *jsonrpc.Message {
							old.say(request(id, method, params))
							return old.answerTo(id)
						},
						"modern": func(id, method, params string) *jsonrpc.Message {
							n := w.client()
							n.say(modernRequest(id, method, params, `{}`))
							return n.answerTo(id)
						},
					} {
						if m := ask("5", "tools/call", call("echo")); string(jsonrpc.Find(m.Raw, m.Result, "structuredContent").Of(m.Raw)) != half {
							t.Errorf("%s client: the result is %s", client, m.Raw)
						}
						if m := ask("6", "tools/call", call("fail")); !strings.Contains(string(m.Raw), `cut \ud83d`) || m.Kind != jsonrpc.Failure {
							t.Errorf("%s client: the error is %s", client, m.Raw)
						}
						if m := ask("7", "tools/call", `"name":"`+prefix+`echo\ud83d","arguments":{}`); errorNumber(m) != jsonrpc.CodeInvalidParams {
							t.Errorf("%s client: a name with half a character got %s", client, m.Raw)
						}
						if m := ask("8", "resources/read", `"uri":"x:\ude00"`); errorNumber(m) != jsonrpc.CodeInvalidParams {
							t.Errorf("%s client: a URI with half a character got %s", client, m.Raw)
						}
						if m := ask("9", "tools/list", ""); servers > 1 && strings.Contains(string(m.Raw), `cut`) {
							t.Errorf("%s client: a tool that cannot be called is listed: %s", client, m.Raw)
						}
					}
					for _, m := range all[0].link(t, 0).got(mcp.MethodCallTool) {
						if got := string(m.Param("arguments").Of(m.Raw)); got != half {
							t.Errorf("the server got %s", m.Raw)
						}
					}
				})
			})
		}
	}
}

// echoArguments is the message handler of a server that answers each tool call with the call's
// arguments. A call of the tool fail gets an error.
func echoArguments(l *testSession, m *jsonrpc.Message) {
	rest := ""
	if l.server.modern {
		rest = `,"resultType":"complete","ttlMs":0,"cacheScope":"private"`
	}
	name, _ := jsonrpc.Text(m.Raw, m.Param("name"))
	switch {
	case m.Method == mcp.MethodListTools:
		l.answer(m, `{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"fail","inputSchema":{"type":"object"}},{"name":"cut\ud83d","inputSchema":{"type":"object"}}]`+rest+`}`)
	case name == "fail":
		l.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32000,"message":"cut \ud83d"}}`)
	case m.Method == mcp.MethodCallTool:
		l.answer(m, `{"content":[{"type":"text","text":"\ud83d"}],"structuredContent":`+string(m.Param("arguments").Of(m.Raw))+rest+`}`)
	case m.Kind == jsonrpc.Request:
		l.answer(m, `{`+strings.TrimPrefix(rest, ",")+`}`)
	}
}

func errorNumber(m *jsonrpc.Message) int64 {
	n, _ := jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, m.Error, "code"))
	return n
}
