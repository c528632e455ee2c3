package dialect

import (
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// replyOf scans raw as an answer from a server. It returns nil if raw is not an answer.
func replyOf(raw []byte, from mcp.Revision) *mcp.Reply {
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Tolerant: true})
	if err != nil || m.Kind != jsonrpc.Result && m.Kind != jsonrpc.Failure || m.IDAt.IsZero() {
		return nil
	}
	return &mcp.Reply{Msg: m, From: from, Server: []byte(`{"name":"s","version":"2"}`)}
}

func TestReply(t *testing.T) {
	const modern, old = mcp.R20260728, mcp.R20251125
	const read = "resources/read"
	const server = `"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2"}`
	for _, c := range []struct {
		name     string
		from, to mcp.Revision
		method   string
		in, want string // the answer without the members id and jsonrpc
	}{
		{"a legacy result is as it was", old, old, "tools/call",
			`"result" : {"content":[ ],"x":1e400}`, `"result" : {"content":[ ],"x":1e400}`},
		{"a modern result is as it was", modern, modern, "tools/list",
			`"result":{"tools":[]}`, `"result":{"tools":[]}`},
		{"a legacy client reads over what it does not know", modern, old, "tools/list",
			`"result":{"resultType":"complete","ttlMs":5,"tools":[]}`, `"result":{"resultType":"complete","ttlMs":5,"tools":[]}`},
		{"a legacy client does not hear who the sender is", modern, old, "tools/call",
			`"result":{"_meta":{"a" : 1, ` + server + `},"content":[]}`, `"result":{"_meta":{"a" : 1},"content":[]}`},
		{"nor in a _meta of its own", modern, mcp.R20241105, "tools/call",
			`"result":{"content":[], "_meta":{` + server + `}}`, `"result":{"content":[]}`},
		{"a modern client gets a type and a sender", old, modern, "tools/call",
			`"result":{"content":[]}`, `"result":{"resultType":"complete","_meta":{` + server + `},"content":[]}`},
		{"and what caching needs", old, modern, "tools/list",
			`"result":{"ttlMs":7,"_meta":{"a" : 1}}`, `"result":{"resultType":"complete","cacheScope":"private","ttlMs":7,"_meta":{` + server + `,"a" : 1}}`},
		{"what the server said of itself stands", old, modern, "tools/call",
			`"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{}}}`,
			`"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{}}}`},
		{"a _meta that is null gives way", old, modern, "tools/call",
			`"result":{"resultType":"complete","_meta" : null}`, `"result":{"resultType":"complete","_meta" : {` + server + `}}`},
		{"a result that is not an object becomes one", old, modern, "x/y",
			`"result":"OK"`, `"result":{"resultType":"complete"}`},

		{"sound for a client that knows none", old, mcp.R20241105, "tools/call",
			`"result":{"content":[{"type":"text","text":"a"}, {"type":"audio","data":"AA==","mimeType":"audio/wav","annotations":{"priority":1},"_meta":{}}]}`,
			`"result":{"content":[{"type":"text","text":"a"}, {"type":"resource","resource":{"uri":"urn:mcp:content:1","mimeType":"audio/wav","blob":"AA=="},"annotations":{"priority":1}}]}`},
		{"and for one that does", modern, mcp.R20250326, "tools/call",
			`"result":{"content":[{"type":"audio","data":"AA==","mimeType":"audio/wav"}]}`,
			`"result":{"content":[{"type":"audio","data":"AA==","mimeType":"audio/wav"}]}`},
		{"a link for a client that knows none", modern, mcp.R20250326, "tools/call",
			`"result":{"content":[{"type":"resource_link","uri":"file:///x","name":"x","title":"The \"X\"","description":"an x"}]}`,
			`"result":{"content":[{"type":"text","text":"The \"X\" (an x): file:///x"}]}`},
		{"a link in a prompt", old, mcp.R20241105, "prompts/get",
			`"result":{"messages":[{"role":"user","content":{"type":"resource_link","uri":"file:///x","name":"x"}}]}`,
			`"result":{"messages":[{"role":"user","content":{"type":"text","text":"x: file:///x"}}]}`},
		{"and for one that does", old, mcp.R20250618, "prompts/get",
			`"result":{"messages":[{"role":"user","content":{"type":"resource_link","uri":"file:///x","name":"x"}}]}`,
			`"result":{"messages":[{"role":"user","content":{"type":"resource_link","uri":"file:///x","name":"x"}}]}`},

		{"a missing resource, to a modern client", old, modern, read,
			`"error":{"code":-32002,"message":"gone"}`, `"error":{"data":{"uri":"file:///x"},"code":-32602,"message":"gone"}`},
		{"with data of its own", old, modern, read,
			`"error":{"code":-32002,"message":"gone","data":{"uri":"other"}}`, `"error":{"code":-32602,"message":"gone","data":{"uri":"other"}}`},
		{"with data that is not an object", old, modern, read,
			`"error":{"code":-32002,"message":"gone","data":[1]}`, `"error":{"code":-32602,"message":"gone","data":[1]}`},
		{"a missing resource, to a legacy client", modern, old, read,
			`"error":{"code":-32602,"message":"x","data":{"uri":"file:///x"}}`, `"error":{"code":-32002,"message":"x","data":{"uri":"file:///x"}}`},
		{"told by its words", modern, old, read,
			`"error":{"code":-32602,"message":"Resource Not Found"}`, `"error":{"code":-32002,"message":"Resource Not Found"}`},
		{"other invalid parameters", modern, old, read,
			`"error":{"code":-32602,"message":"no uri"}`, `"error":{"code":-32602,"message":"no uri"}`},
		{"invalid parameters of something else", modern, old, "tools/call",
			`"error":{"code":-32602,"message":"tool not found"}`, `"error":{"code":-32602,"message":"tool not found"}`},
		{"a capability that is missing, to a legacy client", modern, old, "tools/call",
			`"error":{"code":-32021,"message":"x","data":{"requiredCapabilities":{"roots":{}}}}`, `"error":{"code":-32600,"message":"x","data":{"requiredCapabilities":{"roots":{}}}}`},
		{"to a modern client", modern, modern, "tools/call",
			`"error":{"code":-32021,"message":"x","data":{"requiredCapabilities":{"roots":{}}}}`, `"error":{"code":-32021,"message":"x","data":{"requiredCapabilities":{"roots":{}}}}`},
		{"a capability that is missing, but not said which", modern, modern, "tools/call",
			`"error":{"code":-32021,"message":"x","data":{"requiredCapabilities":{}}}`, `"error":{"code":-32603,"message":"x","data":{"upstreamCode":-32021,"requiredCapabilities":{}}}`},
		{"one that a legacy server misses", old, modern, "tools/call",
			`"error":{"code":-32021,"message":"x","data":{"requiredCapabilities":{"roots":{}}}}`, `"error":{"code":-32021,"message":"x","data":{"requiredCapabilities":{"roots":{}}}}`},
		{"a version that is refused, within the modern era", modern, modern, "tools/call",
			`"error":{"code":-32022,"message":"x"}`, `"error":{"data":{"upstreamCode":-32022},"code":-32603,"message":"x"}`},
		{"a header that is refused, to a legacy client", modern, old, "tools/call",
			`"error":{"code":-32020,"message":"x"}`, `"error":{"data":{"upstreamCode":-32020},"code":-32603,"message":"x"}`},
		{"a code of the reserved range, within the modern era", modern, modern, "tools/call",
			`"error":{"code":-32042,"message":"x"}`, `"error":{"data":{"upstreamCode":-32042},"code":-32603,"message":"x"}`},
		{"a code of the reserved range, to a modern client", old, modern, "tools/call",
			`"error":{"code":-32099,"message":"x"}`, `"error":{"data":{"upstreamCode":-32099},"code":-32603,"message":"x"}`},
		{"a code next to the range", old, modern, "tools/call",
			`"error":{"code":-32100,"message":"x"}`, `"error":{"code":-32100,"message":"x"}`},
		{"the other end of the range", old, modern, "tools/call",
			`"error":{"code":-32019,"message":"x"}`, `"error":{"code":-32019,"message":"x"}`},
		{"a code that is text", old, modern, "tools/call",
			`"error":{"code":"E1","message":"x","data":{"a":1}}`, `"error":{"code":-32603,"message":"x","data":{"upstreamCode":"E1","a":1}}`},
		{"no code", old, modern, "tools/call",
			`"error":{"message":"x"}`, `"error":{"code":-32603,"message":"x"}`},
		{"a legacy error between legacy parties", old, old, "tools/call",
			`"error":{"code":-7 , "message":"x","z":1}`, `"error":{"code":-7 , "message":"x","z":1}`},
		{"but no client reads a code that is a word", old, old, "tools/call",
			`"error":{"code":"E1","message":"x"}`, `"error":{"data":{"upstreamCode":"E1"},"code":-32603,"message":"x"}`},
		{"nor an error that is empty", old, old, "tools/call",
			`"error":{}`, `"error":{"code":-32603,"message":""}`},
		{"nor a result that is not an object", old, old, "x/y",
			`"result":null`, `"result":{}`},
		{"which is what a tool says", old, old, "tools/call",
			`"result":"O\u004b"`, `"result":{"content":[{"type":"text","text":"O\u004b"}]}`},
		{"to a modern client too", old, modern, "tools/call",
			`"result":[ 1]`, `"result":{"resultType":"complete","content":[{"type":"text","text":"[ 1]"}]}`},

		{"audio, to a client that has it", old, mcp.R20250326, "tools/call",
			`"result":{"content":[{"type":"audio","data":"AA==","mimeType":"audio/wav"}]}`,
			`"result":{"content":[{"type":"audio","data":"AA==","mimeType":"audio/wav"}]}`},
		{"a link, to a client that has it", modern, mcp.R20250618, "tools/call",
			`"result":{"content":[{"type":"resource_link","uri":"f:/x","name":"x"}]}`,
			`"result":{"content":[{"type":"resource_link","uri":"f:/x","name":"x"}]}`},
		{"a structure that is not an object", modern, old, "tools/call",
			`"result":{"content":[{"type":"text","text":"[1]"}],"structuredContent":[1],"resultType":"complete"}`,
			`"result":{"content":[{"type":"text","text":"[1]"}],"resultType":"complete"}`},
		{"and stands nowhere else", modern, old, "tools/call",
			`"result":{"content":[],"structuredContent":[1]}`,
			`"result":{"content":[{"type":"text","text":"[1]"}]}`},
		{"a structure that is one", modern, old, "tools/call",
			`"result":{"content":[],"structuredContent":{"a":[1]}}`,
			`"result":{"content":[],"structuredContent":{"a":[1]}}`},
		{"an output schema that is of no object", modern, old, "tools/list",
			`"result":{"tools":[{"name":"a","outputSchema":{"type":"array"}},{"name":"b","outputSchema":{"type":"object"}}]}`,
			`"result":{"tools":[{"name":"a"},{"name":"b","outputSchema":{"type":"object"}}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := mustCall(t, `{"jsonrpc":"2.0","id":"k","method":"`+c.method+`","params":{"uri":"file:///x"}}`, old)
			call.Client.Revision = c.to
			r := replyOf([]byte(`{"id":42,`+c.in+`,"jsonrpc":"2.0"}`), c.from)
			if r == nil {
				t.Fatal("no answer")
			}
			want := `{"id":"k",` + c.want + `,"jsonrpc":"2.0"}`
			if got := string(Reply(nil, call, r)); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestHello(t *testing.T) {
	old := &mcp.ServerInfo{
		Revision: mcp.R20250618, Capabilities: []byte(`{"tools":{ }}`), Info: []byte(`{"name":"s"}`), Instructions: []byte(`"Hi."`),
		Versions: []string{"2026-07-28", "2025-11-25"},
		Raw:      []byte(`{"protocolVersion" : "2025-06-18","capabilities":{"tools":{ }},"serverInfo":{"name":"s"},"x":1e400}`),
	}
	modern := *old
	modern.Revision = mcp.R20260728
	modern.Raw = []byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"x":1e400}`)
	bare := &mcp.ServerInfo{Revision: mcp.R20250618}
	first := mcp.ServerInfo{
		Revision: mcp.R20241105, Capabilities: []byte(`{"prompts":{ }}`), Raw: []byte(`{"protocolVersion":"2024-11-05","capabilities":{"prompts":{ }}}`),
	}
	for _, c := range []struct {
		name string
		to   mcp.Revision
		h    *mcp.ServerInfo
		want string
	}{
		{"legacy to legacy", mcp.R20241105, old, `{"protocolVersion" : "2024-11-05","capabilities":{"tools":{ }},"serverInfo":{"name":"s"},"x":1e400}`},
		{"modern to modern", mcp.R20260728, &modern, `{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"x":1e400}`},
		{"modern to legacy", mcp.R20251125, &modern, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{ }},"serverInfo":{"name":"s"},"instructions":"Hi."}`},
		{"legacy to modern", mcp.R20260728, old, `{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{ }},"instructions":"Hi.","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}`},
		{"completion that has no name yet", mcp.R20250326, &first, `{"protocolVersion":"2025-03-26","capabilities":{"completions":{},"prompts":{ }}}`},
		{"and to a modern client", mcp.R20260728, &first, `{"resultType":"complete","supportedVersions":[],"capabilities":{"completions":{},"prompts":{ }},"ttlMs":0,"cacheScope":"private"}`},
		{"for a client that wants no name", mcp.R20241105, &first, `{"protocolVersion":"2024-11-05","capabilities":{"prompts":{ }}}`},
		{"nothing known, to legacy", mcp.R20250326, bare, `{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"unknown","version":"0"}}`},
		{"nothing known, to modern", mcp.R20260728, bare, `{"resultType":"complete","supportedVersions":[],"capabilities":{},"ttlMs":0,"cacheScope":"private"}`},
	} {
		if got := string(Hello(c.to, c.h)); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}
