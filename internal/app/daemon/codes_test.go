//go:build unix

package daemon

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// errorCase is a request, and the HTTP status, error code and error data that its answer must have.
type errorCase struct {
	name   string
	method string // if "", the test sends body and header as they are
	params string
	body   string
	header []string // names and values in turn; used only with body
	status int
	code   int64
	data   map[string]string // the members that the error's data must have
}

// fail returns params for tools/call that make a webServer answer with an error of this code and
// data.
func fail(code int64, data string) string {
	if data != "" {
		data = `,"data":` + data
	}
	return fmt.Sprintf(`"name":"fail","arguments":{"code":%d%s}`, code, data)
}

const lacks = `{"requiredCapabilities":{"sampling":{}}}`

// TestT26_ModernClient checks that a modern client gets the right errors from servers of both
// eras and from Dragoman (2026-07-28 §Base, "Error Codes"; §Streamable HTTP).
func TestT26_ModernClient(t *testing.T) {
	t.Parallel()
	both := []errorCase{
		{name: "unknown method", method: "foo/bar", status: 404, code: -32601},
		{name: "ping", method: "ping", status: 404, code: -32601},
		{name: "initialize", method: "initialize", status: 404, code: -32601},
		{name: "setLevel", method: "logging/setLevel", params: `"level":"info"`, status: 404, code: -32601},
		{name: "subscribe", method: "resources/subscribe", params: `"uri":"x:error"`, status: 404, code: -32601},
		{name: "unsubscribe", method: "resources/unsubscribe", params: `"uri":"x:error"`, status: 404, code: -32601},
		{name: "unknown tool", method: "tools/call", params: `"name":"nothing"`, status: 200, code: -32602},
		{name: "missing resource", method: "resources/read", params: `"uri":"x:error"`, status: 200, code: -32602, data: map[string]string{"uri": "x:error"}},
		{name: "an internal error", method: "tools/call", params: fail(-32603, `{"a":1}`), status: 200, code: -32603, data: map[string]string{"a": "1"}},
		{name: "an error of its own", method: "tools/call", params: fail(-31999, `{"a":1}`), status: 200, code: -31999, data: map[string]string{"a": "1"}},
		{name: "no JSON", body: `{`, header: modernHeader("tools/call", "echo"), status: 400, code: -32700},
		{name: "no headers", body: modernBody("1", "tools/call", `"name":"echo"`), status: 400, code: -32020},
		{name: "another name", body: modernBody("1", "tools/call", `"name":"echo"`), header: modernHeader("tools/call", "count"), status: 400, code: -32020},
		{name: "unknown version", body: otherMeta("1900-01-01"), header: with(toolHeader, "MCP-Protocol-Version", "1900-01-01"), status: 400, code: -32022, data: map[string]string{"requested": "1900-01-01"}},
		{name: "no capabilities", body: strings.Replace(modernBody("1", "tools/call", `"name":"echo"`), `"io.modelcontextprotocol/clientCapabilities":{},`, "", 1), header: toolHeader, status: 400, code: -32602},
	}
	for era, own := range map[string][]errorCase{
		"legacy server": {
			{name: "reserved code", method: "tools/call", params: fail(-32050, ""), status: 200, code: -32603, data: map[string]string{"upstreamCode": "-32050"}},
			{name: "not found, of a tool", method: "tools/call", params: fail(-32002, ""), status: 200, code: -32602},
		},
		"modern server": {
			{name: "missing capability", method: "tools/call", params: fail(-32021, lacks), status: 400, code: -32021, data: map[string]string{"requiredCapabilities": `{"sampling":{}}`}},
		},
	} {
		t.Run(strings.ReplaceAll(era, " ", "_"), func(t *testing.T) {
			r := run(t, newWeb(t, era == "modern server").as(t, "web"))
			for _, x := range append(both, own...) {
				body, header := x.body, x.header
				if x.method != "" {
					body = modernBody("1", x.method, x.params)
					m, err := jsonrpc.Scan([]byte(body), jsonrpc.Limits{})
					if err != nil {
						t.Fatal(err)
					}
					name := ""
					if known := mcp.LookupMethod(x.method); known != nil && known.NameKey != "" {
						name, _ = jsonrpc.Text(m.Raw, m.Param(known.NameKey))
					}
					header = modernHeader(x.method, name)
				}
				x.check(t, r.post("/mcp", body, header...))
			}
		})
	}
}

// TestT26_LegacyClient checks that a legacy client gets the right errors from servers of both eras
// and from Dragoman. A JSON-RPC error for a valid request comes with HTTP status 200.
func TestT26_LegacyClient(t *testing.T) {
	t.Parallel()
	both := []errorCase{
		{name: "unknown method", method: "foo/bar", status: 200, code: -32601},
		{name: "unknown tool", method: "tools/call", params: `"name":"nothing"`, status: 200, code: -32602},
		{name: "missing resource", method: "resources/read", params: `"uri":"x:error"`, status: 200, code: -32002, data: map[string]string{"uri": "x:error"}},
		{name: "an internal error", method: "tools/call", params: fail(-32603, `{"a":1}`), status: 200, code: -32603, data: map[string]string{"a": "1"}},
		{name: "an error of its own", method: "tools/call", params: fail(-31999, `{"a":1}`), status: 200, code: -31999, data: map[string]string{"a": "1"}},
		{name: "no JSON", body: `{`, status: 400, code: -32700},
		{name: "no session", body: toolCall("1", "echo", "{}"), header: []string{"Mcp-Session-Id", "unknown"}, status: 404},
		{name: "another version", body: toolCall("1", "echo", "{}"), header: []string{"Mcp-Session-Id", "SESSION", "MCP-Protocol-Version", "2025-03-26"}, status: 400},
	}
	for era, own := range map[string][]errorCase{
		"legacy server": {
			{name: "reserved code", method: "tools/call", params: fail(-32050, ""), status: 200, code: -32050},
		},
		"modern server": {
			{name: "missing capability", method: "tools/call", params: fail(-32021, lacks), status: 200, code: -32600, data: map[string]string{"requiredCapabilities": `{"sampling":{}}`}},
			{name: "unsupported version", method: "tools/call", params: fail(-32022, `{"supported":["2099-01-01"]}`), status: 200, code: -32603, data: map[string]string{"upstreamCode": "-32022"}},
		},
	} {
		t.Run(strings.ReplaceAll(era, " ", "_"), func(t *testing.T) {
			r := run(t, newWeb(t, era == "modern server").as(t, "web"))
			session := r.initialize("/mcp", "2025-06-18", "{}")
			for _, x := range append(both, own...) {
				body, header := x.body, slices.Clone(x.header)
				if x.method != "" {
					body = `{"jsonrpc":"2.0","id":1,"method":"` + x.method + `","params":{` + x.params + `}}`
					header = []string{"Mcp-Session-Id", "SESSION", "MCP-Protocol-Version", "2025-06-18"}
				}
				for i := range header {
					header[i] = strings.Replace(header[i], "SESSION", session, 1)
				}
				x.check(t, r.post("/mcp", body, header...))
			}
			r.post("/mcp", toolCall("1", "echo", `{"v":1}`), "Mcp-Session-Id", session).wantText(t, `{"v":1}`)
		})
	}
}

func (x errorCase) check(t *testing.T, a answer) {
	t.Helper()
	if a.status != x.status {
		t.Errorf("%s: status %d, want %d: %.300s", x.name, a.status, x.status, a.body)
	}
	if x.code == 0 {
		return
	}
	m := a.message(t)
	if errorCode(m) != x.code {
		t.Errorf("%s: code %d, want %d: %.300s", x.name, errorCode(m), x.code, a.body)
	}
	for key, want := range x.data {
		if got := errorData(m, key); got != want {
			t.Errorf("%s: data.%s is %s, want %s: %.300s", x.name, key, got, want, a.body)
		}
	}
}

// TestT20_RenamedToolsAndTheirHeaders calls a tool that has a prefix in the merged list and whose
// arguments are mirrored in headers. The server gets its own tool name and headers that match the
// body, but no other headers of the client. If a header contradicts the client's body, Dragoman
// refuses the request and does not send it to the server. A tool with an invalid x-mcp-header is
// left out of the list, and the log says why.
func TestT20_RenamedToolsAndTheirHeaders(t *testing.T) {
	t.Parallel()
	web := newWeb(t, true, func(s *webServer) {
		s.tools = `{"name":"echo","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"}}}},` +
			`{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}},` +
			`{"name":"count","inputSchema":{"type":"object"}}`
	})
	for name, prefix := range map[string]string{"web": "web", "renamed": "other"} {
		t.Run(name, func(t *testing.T) {
			r := serve(t, snapshot(web.as(t, "web", func(s *config.Server) { s.Prefix = prefix }), child(t, "pipe", "legacy")))
			tool := prefix + "__echo"
			var names []string
			// The first list waits only a limited time for servers, and on a busy machine the child
			// may start later.
			await(t, "the child's tools are listed", time.Minute, func() bool {
				names = namesOf(r.modern("/mcp", "1", "tools/list", "", "").message(t))
				return slices.Contains(names, "pipe__echo")
			})
			if text := strings.Join(names, " "); !strings.Contains(text, tool) || !strings.Contains(text, prefix+"__count") || strings.Contains(text, "bad") || !strings.Contains(text, "pipe__echo") {
				t.Errorf("the list has %q", names)
			}
			if single := namesOf(r.modern("/s/web/mcp", "1", "tools/list", "", "").message(t)); strings.Join(single, " ") != "echo count" {
				t.Errorf("the server's own endpoint lists %q", single)
			}
			await(t, "the log says which tool is left out and why", 10*time.Second, func() bool {
				return strings.Contains(r.log.String(), `\"bad\" is left out: its x-mcp-header is invalid`)
			})
			last := func() webRequest {
				t.Helper()
				all := web.of(mcp.MethodCallTool)
				if len(all) == 0 {
					t.Fatal("the server was not called")
				}
				return all[len(all)-1]
			}
			mirrors := func(what string, region, n string) {
				t.Helper()
				got := last()
				own, _ := jsonrpc.Text(got.m.Raw, got.m.Param("name"))
				for key, want := range map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "echo", "Mcp-Param-Region": region, "Mcp-Param-N": n, "Mcp-Param-Foreign": "", "MCP-Protocol-Version": modernVersion} {
					if have := strings.Join(got.header.Values(key), "|"); have != want {
						t.Errorf("%s: the server got %s %q, want %q", what, key, have, want)
					}
				}
				if own != "echo" {
					t.Errorf("%s: the server got a request for %s", what, own)
				}
			}
			call := func(params string, header ...string) answer {
				t.Helper()
				return r.modern("/mcp", "1", "tools/call", tool, `"name":"`+tool+`","arguments":`+params, header...)
			}
			call(`{"region":"eu","n":7}`, "Mcp-Param-Region", "eu", "Mcp-Param-N", "7", "Mcp-Param-Foreign", "x").wantText(t, `{"region":"eu","n":7}`)
			mirrors("modern", "eu", "7")
			call(`{}`).wantText(t, `{}`)
			mirrors("modern without", "", "")
			before := len(web.of(mcp.MethodCallTool))
			for what, a := range map[string]answer{
				"another region":  call(`{"region":"eu"}`, "Mcp-Param-Region", "us"),
				"no region":       call(`{"region":"eu"}`),
				"the server's":    r.modern("/mcp", "1", "tools/call", "echo", `"name":"`+tool+`","arguments":{}`),
				"the name's case": r.modern("/mcp", "1", "tools/call", strings.ToUpper(tool), `"name":"`+tool+`","arguments":{}`),
			} {
				if a.status != http.StatusBadRequest || a.code(t) != mcp.CodeHeaderMismatch {
					t.Errorf("%s: %d %s", what, a.status, a.body)
				}
			}
			if a := r.call("/mcp", prefix+"__bad", `{"a":{}}`); a.code(t) != -32602 {
				t.Errorf("a tool that is left out: %s", a.body)
			}
			if n := len(web.of(mcp.MethodCallTool)); n != before {
				t.Errorf("%d refused calls reached the server", n-before)
			}
			// A legacy client does not know these headers. Dragoman must add them for the
			// server.
			session := r.initialize("/mcp", "2025-11-25", "{}")
			r.post("/mcp", toolCall("1", tool, `{"region":"größer","n":-1}`), "Mcp-Session-Id", session).wantText(t, `{"region":"größer","n":-1}`)
			mirrors("legacy", "=?base64?Z3LDtsOfZXI=?=", "-1")
		})
	}
}
