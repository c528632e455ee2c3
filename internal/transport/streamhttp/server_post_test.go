package streamhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

func TestJ01_NotJSON(t *testing.T) {
	d := open(t, &hall{}, nil)
	for version, wantID := range map[string]string{"2026-07-28": "", "2025-11-25": "", "": "", "2025-06-18": "null", "2025-03-26": "null"} {
		r := d.post("{", "MCP-Protocol-Version: "+version)
		r.want(t, 400, -32700)
		if strings.Contains(r.body, `"id"`) != (wantID == "null") {
			t.Errorf("%q: %s", version, r.body)
		}
	}
	d.untouched()
}

func TestJ02_NoMessage(t *testing.T) {
	d := open(t, &hall{}, nil)
	d.post("").want(t, 400, -32700)
	d.post(" \n").want(t, 400, -32700)
	for _, b := range []string{"null", "42", `"x"`, "true"} {
		d.post(b).want(t, 400, -32600)
	}
	d.untouched()
}

func TestJ_BadEnvelopes(t *testing.T) {
	d := open(t, &hall{}, nil)
	deep := strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)
	rows := []struct {
		name, body string
		code       int64
		id         jsonrpc.ID
	}{
		{"J06 version 1.0", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, -32600, "1"},
		{"J06 version missing", `{"id":"x","method":"ping"}`, -32600, `"x"`},
		{"J06 version a number", `{"jsonrpc":2.0,"id":1,"method":"ping"}`, -32600, "1"},
		{"J07 null id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, -32600, ""},
		{"J08 fraction", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, -32600, ""},
		{"J08 true", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, -32600, ""},
		{"J08 object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600, ""},
		{"J12 huge id", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 64<<10) + `","method":"ping"}`, -32600, ""},
		{"J14 wrong case", `{"jsonrpc":"2.0","id":1,"METHOD":"tools/call"}`, -32600, "1"},
		{"J16 method twice", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, -32600, "1"},
		{"J18 not UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\xff\xfe\"}}", -32700, "1"},
		{"J20 deep", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + deep + `}}`, -32600, "1"},
		{"J20 many values", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[` + strings.Repeat("1,", 1_000_000) + `1]}}`, -32600, "1"},
		{"J23 two", call("1") + call("2"), -32700, "1"},
		{"J23 trailing", call("1") + "x", -32700, "1"},
		{"J23 byte order mark", "\ufeff" + call("1"), -32700, ""},
		{"J24 empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, -32600, "1"},
		{"J24 method 7", `{"jsonrpc":"2.0","id":1,"method":7}`, -32600, "1"},
		{"J24 huge method", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 1<<20) + `"}`, -32600, "1"},
		{"J25 array params", `{"jsonrpc":"2.0","id":1,"method":"ping","params":[1,2]}`, -32602, "1"},
		{"J25 null params", `{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`, -32602, "1"},
		{"J25 text params", `{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}`, -32602, "1"},
	}
	for _, row := range rows {
		r := d.post(row.body)
		if r.status != 400 || r.code() != row.code || row.id != "" && r.id() != row.id {
			t.Errorf("%s: %d %s", row.name, r.status, r.body)
		}
	}
	d.untouched()
}

func TestJ03_Batch(t *testing.T) {
	d := open(t, &hall{}, nil)
	array := `[` + call("1") + `,` + call(`"2"`) + `,{"jsonrpc":"2.0","method":"notifications/foo"}]`
	check := func(r heard) {
		t.Helper()
		if r.status != 200 || r.header.Get("Content-Type") != "application/json" {
			t.Fatalf("%d %s", r.status, r.body)
		}
		items, err := jsonrpc.ScanBatch([]byte(r.body), jsonrpc.Limits{})
		if err != nil || len(items) != 2 {
			t.Errorf("%v %s", err, r.body)
		}
		ids := map[jsonrpc.ID]bool{}
		for _, it := range items {
			ids[it.Message.ID] = it.Message.Kind == jsonrpc.Result
		}
		if !ids["1"] || !ids[`"2"`] {
			t.Errorf("%s", r.body)
		}
	}
	check(d.post(array))
	session := d.initialize("2025-03-26")
	check(d.post(array, session))
	check(d.post(array, session, "MCP-Protocol-Version: 2025-03-26"))
	r := d.post(`[{"jsonrpc":"2.0","method":"notifications/foo"},{"jsonrpc":"2.0","id":1,"result":{}}]`, session)
	if r.status != 202 || r.body != "" {
		t.Errorf("a batch of notifications got %d %s", r.status, r.body)
	}
	if r := d.post(`[{"jsonrpc":"2.0","id":9,"METHOD":"x"},`+call("1")+`]`, session); r.status != 200 || !strings.Contains(r.body, "-32600") || !strings.Contains(r.body, `"ok":true`) {
		t.Errorf("a batch with an invalid element got %d %s", r.status, r.body)
	}
	d.post(`[]`, session).want(t, 400, -32600)
	d.post(`[`+call("1"), session).want(t, 400, -32700)
	d.post(`[`+strings.Repeat(call("1")+",", 100)+call("1")+`]`, session).want(t, 400, -32600)
	d.post(`[`+strings.ReplaceAll(initializeBody, "%s", "2025-03-26")+`]`).want(t, 400, -32600)
	d.callModern()
}

func TestJ03_BatchAsStream(t *testing.T) {
	d := open(t, &hall{serve: func(_ context.Context, in transport.Incoming, r transport.Responder) {
		_ = r.Event([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`))
		finish(in, r)
	}}, nil)
	resp := d.send(context.Background(), "POST", `[`+call("1")+`,`+call("2")+`,{"jsonrpc":"2.0"}]`)
	f := readEvents(t, resp)
	defer f.close()
	answers, others := 0, 0
	for range 5 {
		m, err := jsonrpc.Scan(f.next().Data, jsonrpc.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == jsonrpc.Notification {
			others++
		} else {
			answers++
		}
	}
	f.ends()
	if answers != 3 || others != 2 {
		t.Errorf("there are %d answers and %d other messages", answers, others)
	}
}

func TestJ03_BatchPanics(t *testing.T) {
	d := open(t, &hall{serve: func(_ context.Context, in transport.Incoming, r transport.Responder) {
		if in.Msg.ID == "1" {
			panic("boom")
		}
		finish(in, r)
	}}, nil)
	if r := d.post(`[` + call("1") + `,` + call("2") + `]`); r.status != 200 || !strings.Contains(r.body, "-32603") || !strings.Contains(r.body, `"id":2,"result"`) {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestJ04_BatchInOtherRevisions(t *testing.T) {
	d := open(t, &hall{}, nil)
	array := `[` + call("1") + `]`
	for _, v := range []string{"2025-06-18", "2025-11-25", "2026-07-28", "2024-11-05", "1900-01-01"} {
		d.post(array, "MCP-Protocol-Version: "+v).want(t, 400, -32600)
	}
	session := d.initialize("2025-06-18")
	d.post(array, session).want(t, 400, -32600)
	modern, _ := modernCall("1")
	d.post(`[`+modern+`]`).want(t, 400, -32600)
	for _, c := range d.hall.called() {
		if c != mcp.MethodInitialize {
			t.Errorf("these requests were executed: %s", c)
		}
	}
	d.callModern()
}

func TestJ09_IDsAreExact(t *testing.T) {
	d := open(t, &hall{}, nil)
	session := d.initialize("2025-11-25")
	for _, id := range []string{"9007199254740993", "-1", "0", `""`, `"1"`, "1", `"\u00e9"`} {
		body, h := modernCall(id)
		if r := d.post(body, h...); string(r.id()) != id {
			t.Errorf("a modern %s got %s", id, r.body)
		}
		if r := d.post(call(id), session); string(r.id()) != id {
			t.Errorf("a legacy %s got %s", id, r.body)
		}
	}
}

func TestJ10_ConcurrentIDs(t *testing.T) {
	d := open(t, &hall{}, nil)
	session := d.initialize("2025-11-25")
	var wg sync.WaitGroup
	for range 20 {
		for _, id := range []string{"1", `"1"`} {
			wg.Go(func() {
				if r := d.post(call(id), session); string(r.id()) != id {
					t.Errorf("%s: %s", id, r.body)
				}
			})
		}
	}
	wg.Wait()
}

func TestJ26_ModernResponseByPost(t *testing.T) {
	d := open(t, &hall{}, nil)
	session := d.initialize("2025-11-25")
	for _, b := range []string{`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`} {
		d.post(b, "MCP-Protocol-Version: 2026-07-28").want(t, 400, -32600)
		d.post(b, "MCP-Protocol-Version: 2026-07-28", session).want(t, 400, -32600)
		d.post(b).want(t, 400, -32600)
	}
	if calls := d.hall.called(); len(calls) != 1 {
		t.Errorf("%q", calls)
	}
}

func TestJ28_UnknownNotification(t *testing.T) {
	d := open(t, &hall{}, nil)
	session := d.initialize("2025-11-25")
	note := `{"jsonrpc":"2.0","method":"notifications/foo"}`
	modern := `{"jsonrpc":"2.0","method":"notifications/foo","params":{` + modernMeta + `}}`
	for _, r := range []heard{d.post(note), d.post(note, session), d.post(modern, "MCP-Protocol-Version: 2026-07-28")} {
		if r.status != 202 || r.body != "" {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	d.hall.oneWay = func(transport.Incoming) error {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no"}
	}
	r := d.post(note, session)
	r.want(t, 400, -32602)
	if strings.Contains(r.body, `"id"`) {
		t.Errorf("%s", r.body)
	}
	d.hall.oneWay = func(transport.Incoming) error { panic("boom") }
	d.post(note, session).want(t, 400, -32603)
	if n := d.server.Counts().Panics; n != 1 {
		t.Errorf("the server panicked %d times", n)
	}
}

func TestH22_StatusOfCodes(t *testing.T) {
	var code int64
	d := open(t, &hall{serve: func(_ context.Context, in transport.Incoming, r transport.Responder) {
		_ = r.Finish(jsonrpc.AppendError(nil, in.Msg.ID, &jsonrpc.Error{Code: code, Message: "x"}), code)
	}}, nil)
	session := d.initialize("2025-11-25")
	body := `{"jsonrpc":"2.0","id":"q","method":"foo/bar","params":{` + modernMeta + `}}`
	for c, status := range map[int64]int{-32601: 404, -32020: 400, -32021: 400, -32022: 400, -32602: 200, -32603: 200, -32002: 200, 5: 200} {
		code = c
		r := d.post(body, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: foo/bar")
		r.want(t, status, c)
		if r.id() != `"q"` {
			t.Errorf("%s", r.body)
		}
		d.post(call("1"), session).want(t, 200, c)
	}
}

func TestP01_to_P03_Versions(t *testing.T) {
	d := open(t, &hall{}, nil)
	body, _ := modernCall("1")
	method := []string{"Mcp-Method: tools/call", "Mcp-Name: star"}
	with := func(v string) []string { return append([]string{"MCP-Protocol-Version: " + v}, method...) }
	d.post(body, method...).want(t, 400, -32020)
	d.post(strings.ReplaceAll(body, "2026-07-28", "2025-11-25"), with("2026-07-28")...).want(t, 400, -32020)
	d.post(body, with("2025-11-25")...).want(t, 400, -32020)
	d.post(body, append(with("2026-07-28"), "MCP-Protocol-Version: 2026-07-28")...).want(t, 400, -32020)
	r := d.post(strings.ReplaceAll(body, "2026-07-28", "1900-01-01"), with("1900-01-01")...)
	r.want(t, 400, -32022)
	if !strings.Contains(r.body, `"supported":["2026-07-28"`) || !strings.Contains(r.body, `"requested":"1900-01-01"`) {
		t.Errorf("%s", r.body)
	}
	d.untouched()
}

func TestP04_Method(t *testing.T) {
	d := open(t, &hall{}, nil)
	body, _ := modernCall("1")
	v := "MCP-Protocol-Version: 2026-07-28"
	d.post(body, v, "Mcp-Name: star").want(t, 400, -32020)
	d.post(body, v, "Mcp-Name: star", "Mcp-Method: TOOLS/CALL").want(t, 400, -32020)
	d.post(body, v, "Mcp-Name: star", "Mcp-Method: tools/call", "Mcp-Method: tools/call").want(t, 400, -32020)
	d.untouched()
	d.post(body, "mcp-protocol-VERSION: 2026-07-28", "MCP-NAME: star", "mCP-mETHOD: tools/call").want(t, 200, 0)
}

func TestP05_P06_P09_Name(t *testing.T) {
	d := open(t, &hall{}, nil)
	post := func(method, key, name string, headers ...string) heard {
		body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + key + name + modernMeta + `}}`
		return d.post(body, append([]string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: " + method}, headers...)...)
	}
	for method, key := range map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"} {
		key = `"` + key + `":`
		post(method, key, `"bar",`).want(t, 400, -32020)
		post(method, key, `"bar",`, "Mcp-Name: foo").want(t, 400, -32020)
		post(method, key, `"bar",`, "Mcp-Name: bar", "Mcp-Name: bar").want(t, 400, -32020)
		post(method, key, `"世界",`, "Mcp-Name: 世界").want(t, 400, -32020)
		post(method, key, `"世界",`, "Mcp-Name: =?base64?5LiW55WM").want(t, 400, -32020)
		post(method, key, `"世界",`, "Mcp-Name: =?base64?!!!?=").want(t, 400, -32020)
		post(method, key, `"=?base64?eA==?=",`, "Mcp-Name: =?base64?eA==?=").want(t, 400, -32020)
		post(method, "", "", "Mcp-Name: bar").want(t, 400, -32020)
		if calls := d.hall.called(); len(calls) != 0 {
			t.Errorf("%q", calls)
		}
		post(method, key, `"bar",`, "Mcp-Name: bar").want(t, 200, 0)
		post(method, key, `"bar",`, "Mcp-Name:   bar\t ").want(t, 200, 0)
		post(method, key, `"bar",`, "Mcp-Name: =?base64?YmFy?=").want(t, 200, 0)
		post(method, key, `"世界",`, "Mcp-Name: =?base64?5LiW55WM?=").want(t, 200, 0)
		post(method, key, `"\u4e16\u754c",`, "Mcp-Name: =?base64?5LiW55WM?=").want(t, 200, 0)
		post(method, key, `"a\/b",`, "Mcp-Name: a/b").want(t, 200, 0)
		post(method, "", "").want(t, 200, 0) // the Server lets the conversation decide about a body without a name
		d.hall.mu.Lock()
		d.hall.calls = nil
		d.hall.mu.Unlock()
	}
	post("tools/list", "", "", "Mcp-Name: anything").want(t, 200, 0)
}

func TestP14_ParamHeaders(t *testing.T) {
	var got []transport.HeaderField
	d := open(t, &hall{serve: func(_ context.Context, in transport.Incoming, r transport.Responder) {
		got = in.Params
		finish(in, r)
	}}, nil)
	body, h := modernCall("1")
	d.post(body, append(h, "Mcp-Param-Zed: 1", "mcp-param-foo: x", "Mcp-Param-Foo: =?base64?eA==?=", "Mcp-Param-: y")...).want(t, 200, 0)
	if s := fmt.Sprint(got); s != "[{Mcp-Param-Foo x} {Mcp-Param-Foo =?base64?eA==?=} {Mcp-Param-Zed 1}]" {
		t.Error(s)
	}
}

func TestP17_Meta(t *testing.T) {
	d := open(t, &hall{}, nil)
	h := []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list"}
	post := func(params string) heard {
		return d.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"`+params+`}`, h...)
	}
	post(``).want(t, 400, -32602)
	post(`,"params":{}`).want(t, 400, -32602)
	post(`,"params":{"_meta":{}}`).want(t, 400, -32602)
	post(`,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`).want(t, 400, -32602)
	post(`,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}`).want(t, 400, -32602)
	d.untouched()
	post(`,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`).want(t, 200, 0)
}

func TestP20_UnknownVersionHeader(t *testing.T) {
	d := open(t, &hall{}, nil)
	session := d.initialize("2025-11-25")
	for _, method := range []string{"POST", "GET", "DELETE"} {
		if r := d.do(method, call("1"), session, "MCP-Protocol-Version: 2025-13-99"); r.status != 400 {
			t.Errorf("%s: %d %s", method, r.status, r.body)
		}
	}
	d.post(call("1"), "MCP-Protocol-Version: 2025-13-99").want(t, 400, -32022)
	d.post(call("1"), session).want(t, 200, 0)
}

func TestX09_SessionIDOnModernRequest(t *testing.T) {
	d := open(t, &hall{}, nil)
	session := d.initialize("2025-11-25")
	body, h := modernCall("1")
	for _, s := range []string{session, "Mcp-Session-Id: unknown"} {
		r := d.post(body, append(h, s)...)
		r.want(t, 200, 0)
		if r.header.Get("Mcp-Session-Id") != "" {
			t.Error("echoed")
		}
	}
	if n := len(d.hall.guests()); n != 3 {
		t.Errorf("there were %d conversations, want one for the session and one for each request", n)
	}
	d.post(call("1"), session).want(t, 200, 0)
}

func TestPanicIsAnAnswer(t *testing.T) {
	d := open(t, &hall{serve: func(_ context.Context, in transport.Incoming, r transport.Responder) {
		if in.Msg.ID == "3" {
			_ = r.Event([]byte(`{"jsonrpc":"2.0","method":"x"}`))
		}
		if in.Msg.ID != "7" {
			panic(errors.New("secret"))
		}
		finish(in, r)
	}}, nil)
	body, h := modernCall("1")
	r := d.post(body, h...)
	r.want(t, 200, -32603)
	if strings.Contains(r.body, "secret") || !strings.Contains(r.body, `"cause":"internal"`) || r.id() != "1" {
		t.Errorf("%s", r.body)
	}
	body, h = modernCall("3")
	if r = d.post(body, h...); r.status != 200 || !strings.Contains(r.body, "-32603") {
		t.Errorf("as a stream the answer is %d: %s", r.status, r.body)
	}
	d.callModern()
	if n := d.server.Counts().Panics; n != 2 {
		t.Errorf("the server panicked %d times", n)
	}
}

func TestConversationWithoutAnswer(t *testing.T) {
	d := open(t, &hall{serve: func(_ context.Context, in transport.Incoming, r transport.Responder) {
		switch in.Msg.ID {
		case "1":
		case "2":
			_ = r.Finish(nil, 0) // an empty answer means that the request was cancelled
		default:
			finish(in, r)
			if err := r.Finish([]byte("{}"), 0); err == nil {
				t.Error("a second answer was accepted")
			}
			if err := r.Event([]byte("{}")); err == nil {
				t.Error("an event was accepted after the answer")
			}
		}
	}}, nil)
	body, h := modernCall("1")
	d.post(body, h...).want(t, 200, -32603)
	session := d.initialize("2025-11-25")
	if r := d.post(call("2"), session); r.status != 200 || r.body != "" || r.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("a cancelled request got %d %q %v", r.status, r.body, r.header)
	}
	d.callModern()
}

func TestLargeAnswers(t *testing.T) {
	var size int
	d := open(t, &hall{serve: func(_ context.Context, in transport.Incoming, r transport.Responder) {
		if in.Msg.ID == "2" {
			_ = r.Event([]byte(`{"jsonrpc":"2.0","method":"x"}`))
		}
		_ = r.Finish(jsonrpc.AppendResult(nil, in.Msg.ID, []byte(`{"text":"`+strings.Repeat("x", size)+`"}`)), 0)
	}}, nil)
	for _, size = range []int{0, 1000, 2047, 3000, 70 << 10, 5 << 20} {
		body, h := modernCall("1")
		r := d.post(body, h...)
		if r.status != 200 || len(r.body) != size+45 || r.header.Get("Content-Length") != fmt.Sprint(len(r.body)) {
			t.Errorf("%d: %d, %d bytes, Content-Length %s", size, r.status, len(r.body), r.header.Get("Content-Length"))
		}
		body, h = modernCall("2")
		f := readEvents(t, d.send(context.Background(), http.MethodPost, body, h...))
		f.next()
		if ev := f.next(); len(ev.Data) != size+45 || ev.HasID {
			t.Errorf("with %d bytes as a stream: %d bytes, id %q", size, len(ev.Data), ev.ID)
		}
		f.ends()
		f.close()
	}
}
