package dialect

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

func answerOf(t testing.TB, text string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Scan([]byte(text), jsonrpc.Limits{Tolerant: true})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

// one converts a manifest with a single tool and returns the MCP tool.
func one(t testing.TB, p *Profile, tool string) string {
	t.Helper()
	m := answerOf(t, `{"id":1,"result":{"tools":[`+tool+`]}}`)
	array, dropped := p.ManifestOf(m.Raw, m.Result)
	if err := jsonrpc.Valid(array, jsonrpc.Limits{}); err != nil || dropped != 0 {
		t.Fatalf("%s: %v, %d dropped", array, err, dropped)
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(array), "["), "]")
}

func TestTool(t *testing.T) {
	p := Lookup(Manifest)
	own := func(s string) string { return `"_meta":{"` + mcp.KeyDialect + `":{"name":"manifest"` + s + `}}` }
	for _, c := range []struct{ name, in, want string }{
		{"a tool of MCP stays to the byte", `{"name":"a" , "inputSchema":{"type":"object"},"x":1e400}`, `{"name":"a" , "inputSchema":{"type":"object"},"x":1e400}`},
		{"no schema", `{"name":"a"}`, `{"inputSchema":{"type":"object"},"name":"a"}`},
		{"TypeScript", `{"name":"a","inputSchema":{"type":"object"},"metadata":{"confirmationRequired":false,"undoSupported":false}}`,
			`{` + own(`,"confirmationRequired":false,"undoSupported":false,"original":{"metadata":{"confirmationRequired":false,"undoSupported":false}}`) + `,"name":"a","inputSchema":{"type":"object"}}`},
		{"Python", `{"name":"a","params_schema":{"type":"object"},"confirmation_required":true,"undo_supported":false}`,
			`{"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"destructiveHint":true},` + own(`,"confirmationRequired":true,"undoSupported":false,"original":{"params_schema":{"type":"object"},"confirmation_required":true,"undo_supported":false}`) + `,"name":"a"}`},
		{"parameters", `{"name":"a","parameters":{"type":"object"}}`, `{"inputSchema":{"type":"object"},` + own(`,"original":{"parameters":{"type":"object"}}`) + `,"name":"a"}`},
		{"a schema that is repaired is kept", `{"name":"a","inputSchema":{"properties":{}}}`,
			`{` + own(`,"original":{"inputSchema":{"properties":{}}}`) + `,"name":"a","inputSchema":{"type":"object","properties":{}}}`},
		{"two schemas: the first counts, the other is kept", `{"name":"a","parameters":{"a":1},"inputSchema":{"type":"object"}}`,
			`{` + own(`,"original":{"parameters":{"a":1}}`) + `,"name":"a","inputSchema":{"type":"object"}}`},
		{"metadata with more in it stays", `{"name":"a","inputSchema":{"type":"object"},"metadata":{"confirmationRequired":false,"x":1}}`,
			`{` + own(`,"confirmationRequired":false,"original":{"metadata":{"confirmationRequired":false,"x":1}}`) + `,"name":"a","inputSchema":{"type":"object"},"metadata":{"confirmationRequired":false,"x":1}}`},
		{"what the server says of itself stands", `{"name":"a","inputSchema":{"type":"object"},"undoSupported":true,"annotations":{"readOnlyHint":true},"_meta":{"b":1}}`,
			`{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"` + mcp.KeyDialect + `":{"name":"manifest","undoSupported":true,"original":{"undoSupported":true}},"b":1}}`},
		{"a flag that is none", `{"name":"a","inputSchema":{"type":"object"},"confirmation_required":"yes"}`,
			`{` + own(`,"original":{"confirmation_required":"yes"}`) + `,"name":"a","inputSchema":{"type":"object"}}`},
		{"a description that is none", `{"name":"a","description":null,"inputSchema":{"type":"object"}}`,
			`{` + own(`,"original":{"description":null}`) + `,"name":"a","inputSchema":{"type":"object"}}`},
	} {
		if got := one(t, p, c.in); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
	m := answerOf(t, `{"id":1,"result":{"tools":[{"name":"a"},{},7,null,{"name":""}]}}`)
	if _, dropped := p.ManifestOf(m.Raw, m.Result); dropped != 4 {
		t.Errorf("%d tools were dropped", dropped)
	}
}

func TestAnswer(t *testing.T) {
	p := Lookup(Manifest)
	for _, c := range []struct{ name, method, in, want string }{ // "" means unchanged
		{"a result", mcp.MethodCallTool, `"result":{"content":[]}`, ""},
		{"one without content", mcp.MethodCallTool, `"result":{"structuredContent":{}}`, ""},
		{"a text", mcp.MethodCallTool, `"result":"O\u004b"`, `"result":{"content":[{"type":"text","text":"O\u004b"}]}`},
		{"a number", mcp.MethodCallTool, `"result":7`, `"result":{"content":[{"type":"text","text":"7"}]}`},
		{"nothing", mcp.MethodCallTool, `"result":null`, `"result":{"content":[{"type":"text","text":"null"}]}`},
		{"an object", mcp.MethodCallTool, `"result":{"a":"\""}`, `"result":{"content":[{"type":"text","text":"{\"a\":\"\\\"\"}"}]}`},
		{"content that is a text", mcp.MethodCallTool, `"result":{"content":"x","z":1}`, `"result":{"content":[{"type":"text","text":"x"}],"z":1}`},
		{"content that is one block", mcp.MethodCallTool, `"result":{"content":{"type":"image"}}`, `"result":{"content":[{"type":"image"}]}`},
		{"something else's result", "x/y", `"result":7`, ""},
		{"a domain error", mcp.MethodCallTool, `"error":{"code":-32003,"message":"a.txt"}`,
			`"result":{"content":[{"type":"text","text":"The file was not found: a.txt"}],"isError":true,"_meta":{"` + mcp.KeyDialect + `":{"name":"manifest","error":{"code":-32003,"message":"a.txt"}}}}`},
		{"wrong arguments", mcp.MethodCallTool, `"error":{"code":-32602,"message":"x"}`, ""},
		{"a domain error of something else", "x/y", `"error":{"code":-32003,"message":"x"}`, ""},
		{"a list", mcp.MethodListTools, `"result":{"tools":[{"name":"a"}],"nextCursor":"2"}`, `"result":{"tools":[{"inputSchema":{"type":"object"},"name":"a"}],"nextCursor":"2"}`},
	} {
		got := p.Answer(nil, c.method, answerOf(t, `{"jsonrpc":"2.0","id":7,`+c.in+`}`))
		want := c.want
		if want == "" {
			want = c.in
		}
		if string(got.Raw) != `{"jsonrpc":"2.0","id":7,`+want+`}` {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got.Raw, want)
		}
	}
	m := answerOf(t, `{"id":1,"result":7}`)
	if (*Profile)(nil).Answer(nil, mcp.MethodCallTool, m) != m || (*Profile)(nil).Suppresses("x") {
		t.Error("a nil profile changes the answer")
	}
}

func TestSuperset(t *testing.T) {
	got := string(Superset([]byte(`{"protocolVersion":"2025-11-25","server_info":{},"serverInfo":{}}`), [][]byte{
		[]byte(`{"name":"a","params_schema":{},"confirmationRequired":true,"undoSupported":true}`),
		[]byte(`{"name":"b","description":"B.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`),
		[]byte(`{"name":"c","description":7,"inputSchema":{},"_meta":{"ui":{"visibility":["app"]},"` + mcp.KeyDialect + `":{"confirmationRequired":false,"undoSupported":true}}}`),
		[]byte(`{"description":"nameless"}`),
	}))
	want := `{"tools":[{"description":"","inputSchema":{"type":"object"},"confirmation_required":true,"undo_supported":false,"name":"a"},` +
		`{"confirmation_required":false,"undo_supported":false,"name":"b","description":"B.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},` +
		`{"confirmation_required":false,"undo_supported":true,"name":"c","description":"","inputSchema":{},"_meta":{"ui":{"visibility":["app"]},"` + mcp.KeyDialect + `":{"confirmationRequired":false,"undoSupported":true}}}],` +
		`"protocolVersion":"2025-11-25","serverInfo":{}}`
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestQuestion(t *testing.T) {
	const old, new = mcp.R20250618, mcp.R20251125
	ask := func(messages string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[` + messages + `],"maxTokens":1}}`
	}
	text := `{"role":"user","content":{"type":"text","text":"a"}}`
	audio := `{"role":"user","content":{"type":"audio","data":"AA==","mimeType":"audio/wav"}}`
	for _, c := range []struct {
		name     string
		to       mcp.Revision
		in, want string
		losses   int
	}{
		{"one block", old, text, text, 0},
		{"several, to who has them", new, `{"role":"user","content":[{"type":"text","text":"a"}]}`, `{"role":"user","content":[{"type":"text","text":"a"}]}`, 0},
		{"a list of one", old, `{"role":"user","content":[{"type":"text","text":"a"}],"z":1}`, `{"role":"user","content":{"type":"text","text":"a"},"z":1}`, 0},
		{"several", old, `{"role":"user","content":[{"type":"text","text":"a"},{"type":"image"}]}`,
			`{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"image"}}`, 1},
		{"none", old, `{"role":"user","content":[]}`, `{"role":"user","content":{"type":"text","text":""}}`, 0},
		{"a tool's use", old, `{"role":"assistant","content":[{"type":"tool_use","id":"1"}]}`,
			`{"role":"assistant","content":{"type":"text","text":"{\"type\":\"tool_use\",\"id\":\"1\"}"}}`, 1},
		{"audio, to who has it", old, audio, audio, 0},
		{"audio", mcp.R20241105, audio, `{"role":"user","content":{"type":"text","text":"[audio that cannot be shown here: audio/wav]"}}`, 1},
	} {
		var l mcp.Losses
		got := ConvertRequest(nil, c.to, answerOf(t, ask(c.in)), &l)
		if string(got.Raw) != ask(c.want) || len(l) != c.losses {
			t.Errorf("%s: %d losses\n got %s\nwant %s", c.name, len(l), got.Raw, ask(c.want))
		}
	}
	reply := func(content string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"role":"assistant","content":` + content + `,"model":"m"}}`
	}
	for _, c := range []struct{ name, in, want string }{
		{"one block", `{"type":"text","text":"a"}`, `{"type":"text","text":"a"}`},
		{"a list of one", `[{"type":"text","text":"a"}]`, `{"type":"text","text":"a"}`},
		{"texts", `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, `{"type":"text","text":"a\nb"}`},
		{"an image alone", `[{"type":"image","data":""}]`, `{"type":"image","data":""}`},
		{"an image first", `[{"type":"image","data":""},{"type":"text","text":"a"}]`, `{"type":"text","text":"a"}`},
		{"nothing", `[]`, `{"type":"text","text":""}`},
	} {
		var l mcp.Losses
		if got := ConvertAnswer(nil, old, mcp.MethodSample, answerOf(t, reply(c.in)), &l); string(got.Raw) != reply(c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got.Raw, reply(c.want))
		}
		if got := ConvertAnswer(nil, new, mcp.MethodSample, answerOf(t, reply(c.in)), &l); string(got.Raw) != reply(c.in) {
			t.Errorf("%s: changed for a client that supports it: %s", c.name, got.Raw)
		}
	}
}

// TestLosses checks that Reply records one loss for each kind of content that the client cannot get
// unchanged.
func TestLosses(t *testing.T) {
	call := mustCall(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`, mcp.R20241105)
	r := replyOf([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"audio"},{"type":"audio"},{"type":"resource_link","uri":"x"}],"structuredContent":[]}}`), mcp.R20260728)
	Reply(nil, call, r)
	var names []string
	for _, l := range r.Losses {
		names = append(names, l.What)
		if l.Why == "" {
			t.Errorf("the loss %s has no reason", l.What)
		}
	}
	if got := strings.Join(names, " "); got != "content.audio content.resource_link structuredContent" {
		t.Errorf("the losses are %s", got)
	}
}

// FuzzManifest checks that every tool of a converted manifest has a name and an object schema.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`[{"name":"a","parameters":{"nullable":true},"metadata":{"confirmationRequired":true,"x":{}},"annotations":null,"_meta":7},{"name":"\u0061","inputSchema":7,"confirmation_required":1}]`))
	f.Add([]byte(`[{"name":"a","input_schema":{},"paramsSchema":{},"undo_supported":true,"annotations":{"readOnlyHint":null}}]`))
	f.Fuzz(func(t *testing.T, tools []byte) {
		raw := append(append([]byte(`{"id":1,"result":{"serverInfo":{},"tools":`), tools...), `}}`...)
		m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Tolerant: true, Depth: 100})
		if err != nil || m.Kind != jsonrpc.Result {
			return
		}
		for _, p := range Builtin() {
			if !p.HasManifest(m.Raw, m.Result) {
				continue
			}
			array, _ := p.ManifestOf(m.Raw, m.Result)
			list := ToolList(array)
			if err := jsonrpc.Valid(array, jsonrpc.Limits{Bytes: len(array) + 1, Depth: 256, Tokens: 4 << 20}); err != nil {
				t.Fatalf("%v: %s", err, array)
			}
			for at := range jsonrpc.Elements(list.Raw, list.ResultMember("tools")) {
				if name, ok := jsonrpc.Text(list.Raw, jsonrpc.Find(list.Raw, at, "name")); !ok || name == "" {
					t.Errorf("a tool has no name: %s", at.Of(list.Raw))
				}
				if kind, _ := jsonrpc.Text(list.Raw, jsonrpc.Find(list.Raw, jsonrpc.Find(list.Raw, at, "inputSchema"), "type")); kind != "object" {
					t.Errorf("a tool has no object schema: %s", at.Of(list.Raw))
				}
				if s := manifestTool(nil, at.Of(list.Raw)); jsonrpc.Valid(s, jsonrpc.Limits{Depth: 300, Bytes: len(s) + 1}) != nil {
					t.Errorf("a tool is not valid in a superset result: %s", s)
				}
			}
			if h, err := p.Hello(m); err != nil || jsonrpc.KindOf(h.Raw, h.ResultMember("capabilities")) != '{' {
				t.Errorf("Hello: %v", err)
			}
		}
	})
}
