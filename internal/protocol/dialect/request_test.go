package dialect

import (
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// ours is the Stamp that the tests use.
var ours = Stamp{
	ID: "42", Token: []byte("42"), Info: []byte(`{"name":"c","version":"1"}`),
	Capabilities: []byte(`{"roots":{}}`), Level: 0,
}

// callOf scans raw as a request from a client of revision rev. If the request has the version
// member of a modern request, that version replaces rev. callOf returns nil if raw is not a valid
// request.
func callOf(raw []byte, rev mcp.Revision) *mcp.Call {
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{})
	if err != nil || m.Kind != jsonrpc.Request {
		return nil
	}
	o, bad := mcp.Classify(m, "", false)
	if bad != nil || o.Revision.Modern() && mcp.CheckModern(m, o) != nil {
		return nil
	}
	if o.Revision.Modern() {
		rev = o.Revision
	}
	return mcp.NewCall(m, o.Meta, &mcp.ClientInfo{Revision: rev})
}

func mustCall(t testing.TB, raw string, rev mcp.Revision) *mcp.Call {
	t.Helper()
	c := callOf([]byte(raw), rev)
	if c == nil {
		t.Fatalf("no request: %s", raw)
	}
	return c
}

// described has the members that every modern request has in its _meta.
const described = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}}`

func TestRequest(t *testing.T) {
	const modern, old = mcp.R20260728, mcp.R20251125
	for _, c := range []struct {
		name     string
		from, to mcp.Revision
		level    mcp.LogLevel
		traced   bool
		in, want string
	}{
		{
			name: "the id is ours wherever it stands", from: old, to: old,
			in:   `{"method" : "x/y", "id" : "a" ,"jsonrpc":"2.0"}`,
			want: `{"method" : "x/y", "id" : 42 ,"jsonrpc":"2.0"}`,
		},
		{
			name: "the token is ours, if there is one", from: old, to: old,
			in:   `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"_meta":{"a":1,"progressToken":"t"},"name":"p"}}`,
			want: `{"jsonrpc":"2.0","id":42,"method":"prompts/get","params":{"_meta":{"a":1,"progressToken":42},"name":"p"}}`,
		},
		{
			name: "servers die of a call without arguments", from: old, to: old,
			in:   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`,
			want: `{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"arguments":{},"name":"t"}}`,
		},
		{
			name: "a modern server takes a call without arguments", from: modern, to: modern,
			in:   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{` + described + `}}}`,
			want: `{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"t","_meta":{` + described + `}}}`,
		},
		{
			name: "what describes a modern client stays behind", from: modern, to: old,
			in:   `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"a":1,` + described + `,"io.modelcontextprotocol/logLevel":"info","b":2},"cursor":"c"}}`,
			want: `{"jsonrpc":"2.0","id":42,"method":"tools/list","params":{"_meta":{"a":1,"b":2},"cursor":"c"}}`,
		},
		{
			name: "a retry's answers were for us", from: modern, to: old,
			in:   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"requestState":1},"inputResponses":{},"requestState":"s","_meta":{` + described + `}}}`,
			want: `{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"t","arguments":{"requestState":1},"_meta":{}}}`,
		},
		{
			name: "kept for a method whose answer cannot ask for input", from: modern, to: old,
			in:   `{"jsonrpc":"2.0","id":1,"method":"x/y","params":{"requestState":"s","_meta":{` + described + `}}}`,
			want: `{"jsonrpc":"2.0","id":42,"method":"x/y","params":{"requestState":"s","_meta":{}}}`,
		},
		{
			name: "a legacy client is described in its own _meta", from: old, to: modern, level: 3,
			in:   `{"jsonrpc":"2.0","id":1,"method":"x/y","params":{"a":1,"_meta":{"progressToken":0,"k":1e400}}}`,
			want: `{"jsonrpc":"2.0","id":42,"method":"x/y","params":{"a":1,"_meta":{` + described + `,"io.modelcontextprotocol/logLevel":"notice","progressToken":42,"k":1e400}}}`,
		},
		{
			name: "in params that have none", from: old, to: modern,
			in:   `{"jsonrpc":"2.0","id":1,"method":"x/y","params":{ }}`,
			want: `{"jsonrpc":"2.0","id":42,"method":"x/y","params":{"_meta":{` + described + `} }}`,
		},
		{
			name: "and without params", from: old, to: modern,
			in:   `{"jsonrpc":"2.0","id":1,"method":"x/y"}`,
			want: `{"params":{"_meta":{` + described + `}},"jsonrpc":"2.0","id":42,"method":"x/y"}`,
		},
		{
			name: "a _meta that is null gives way", from: old, to: modern,
			in:   `{"jsonrpc":"2.0","id":1,"method":"x/y","params":{"_meta" : null}}`,
			want: `{"jsonrpc":"2.0","id":42,"method":"x/y","params":{"_meta" : {` + described + `}}}`,
		},
		{
			name: "reserved keys of a legacy client are the session's", from: old, to: modern,
			in:   `{"jsonrpc":"2.0","id":1,"method":"x/y","params":{"_meta":{"io.modelcontextprotocol/logLevel":"debug","io.modelcontextprotocol/clientInfo":7,"k":1}}}`,
			want: `{"jsonrpc":"2.0","id":42,"method":"x/y","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"k":1}}}`,
		},
		{
			name: "trace context that is none goes no further", from: old, to: old,
			in:   `{"jsonrpc":"2.0","id":1,"method":"x/y","params":{"_meta":{"traceparent":"00-nonsense","baggage":"a=1","k":1}}}`,
			want: `{"jsonrpc":"2.0","id":42,"method":"x/y","params":{"_meta":{"baggage":"a=1","k":1}}}`,
		},
		{
			name: "the context of a traced call is ours", from: old, to: old, traced: true,
			in:   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","baggage":"a=1","k":1}}}`,
			want: `{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"traceparent":"ours","baggage":"a=1","k":1}}}`,
		},
		{
			name: "also if there was junk", from: modern, to: modern, traced: true,
			in:   `{"jsonrpc":"2.0","id":1,"method":"x/y","params":{"_meta":{` + described + `,"traceparent":"junk","tracestate":"a\u0000"}}}`,
			want: `{"jsonrpc":"2.0","id":42,"method":"x/y","params":{"_meta":{` + described + `,"traceparent":"ours"}}}`,
		},
		{
			name: "a traced call gets a _meta", from: old, to: old, traced: true,
			in:   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`,
			want: `{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"_meta":{"traceparent":"ours"},"arguments":{},"name":"t"}}`,
		},
		{
			name: "and params", from: old, to: old, traced: true,
			in:   `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
			want: `{"params":{"_meta":{"traceparent":"ours"}},"jsonrpc":"2.0","id":42,"method":"tools/list"}`,
		},
		{
			name: "in each era", from: old, to: modern, traced: true,
			in:   `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`,
			want: `{"jsonrpc":"2.0","id":42,"method":"tools/list","params":{"_meta":{` + described + `,"traceparent":"ours"}}}`,
		},
		{
			name: "and the other way", from: modern, to: old, traced: true,
			in:   `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{` + described + `}}}`,
			want: `{"jsonrpc":"2.0","id":42,"method":"tools/list","params":{"_meta":{"traceparent":"ours"}}}`,
		},
		{
			name: "an invalid _meta stays the client's", from: old, to: old, traced: true,
			in:   `{"jsonrpc":"2.0","id":1,"method":"x/y","params":{"_meta":7}}`,
			want: `{"jsonrpc":"2.0","id":42,"method":"x/y","params":{"_meta":7}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			stamp := ours
			stamp.Level = c.level
			if c.traced {
				stamp.Trace = []jsonrpc.Field{{Key: mcp.KeyTraceparent, Value: []byte(`"ours"`)}}
			}
			got := string(Request([]byte("before "), c.to, mcp.NewAttempt(mustCall(t, c.in, c.from)), &stamp))
			if got != "before "+c.want {
				t.Errorf("got  %s\nwant %s", got, "before "+c.want)
			}
		})
	}
}

// TestRequestKeepsTheCall checks that Request does not change the call, because Dragoman may send a
// call twice.
func TestRequestKeepsTheCall(t *testing.T) {
	a := mcp.NewAttempt(mustCall(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__t","_meta":{"progressToken":5}}}`, mcp.R20250618))
	a.Edits.Replace(jsonrpc.NoReason, a.Msg.Param("name"), []byte(`"t"`))
	for _, to := range []mcp.Revision{mcp.R20241105, mcp.R20260728} {
		first := string(Request(nil, to, a, &ours))
		if second := string(Request(nil, to, a, &ours)); second != first {
			t.Errorf("%v: first %s\nsecond %s", to, first, second)
		}
	}
	if a.Edits.Len() != 1 {
		t.Errorf("the call has %d edits after Request", a.Edits.Len())
	}
}
