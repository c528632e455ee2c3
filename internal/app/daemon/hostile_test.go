//go:build unix

package daemon

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// stillServes checks that a correct call of each era gets its result within a second.
func (r *rig) stillServes(session string) {
	r.t.Helper()
	for _, legacy := range []bool{false, true} {
		start := time.Now()
		var a answer
		if legacy {
			a = r.post("/mcp", toolCall("1", "echo", `{"v":1}`), "Mcp-Session-Id", session)
		} else {
			a = r.call("/mcp", "echo", `{"v":1}`)
		}
		if a.wantText(r.t, `{"v":1}`); time.Since(start) > patience(time.Second) {
			r.t.Errorf("a good call took %v", time.Since(start))
		}
	}
}

// hostileHTTP is one HTTP request and its expected response.
type hostileHTTP struct {
	row    string
	body   string
	header []string
	method string // "" means POST
	status []int  // the accepted status codes
	code   int64  // the error code of the answer; 0 if the body does not matter
	check  func(t *testing.T, a answer)
}

// noID fails the test if an error has an id. An error for input whose id cannot be read must not
// have an id (2026-07-28 §Base, "Error Responses").
func noID(t *testing.T, a answer) {
	t.Helper()
	if m := a.message(t); m.ID != "" && m.ID != "null" {
		t.Errorf("the error has the id %s", m.ID)
	}
}

func utf16Body(s string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		b.WriteByte(byte(u))
		b.WriteByte(byte(u >> 8))
	}
	return b.String()
}

func good(args string) string {
	return modernBody("1", "tools/call", `"name":"echo","arguments":`+args)
}

var toolHeader = modernHeader("tools/call", "echo")

func with(h []string, more ...string) []string { return append(h[:len(h):len(h)], more...) }

// otherMeta returns a modern request with another protocol version in its _meta.
func otherMeta(version string) string {
	return strings.Replace(good(`{}`), `/protocolVersion":"2026-07-28"`, `/protocolVersion":"`+version+`"`, 1)
}

var hostileRows = sync.OnceValue(func() []hostileHTTP {
	return []hostileHTTP{
		{row: "J01 broken", body: `{`, header: toolHeader, status: []int{400}, code: -32700, check: noID},
		{row: "J02 empty", header: toolHeader, status: []int{400}, code: -32700},
		{row: "J02 null", body: `null`, header: toolHeader, status: []int{400}, code: -32600},
		{row: "J02 number", body: `42`, status: []int{400}, code: -32600},
		{row: "J02 string", body: `"x"`, status: []int{400}, code: -32600},
		{row: "J02 true", body: `true`, status: []int{400}, code: -32600},
		{row: "J04 batch", body: `[` + good(`{}`) + `]`, header: toolHeader, status: []int{400}, code: -32600},
		{row: "J06 jsonrpc 1.0", body: strings.Replace(good(`{}`), `"2.0"`, `"1.0"`, 1), header: toolHeader, status: []int{400}, code: -32600},
		{row: "J06 jsonrpc number", body: strings.Replace(good(`{}`), `"2.0"`, `2.0`, 1), header: toolHeader, status: []int{400}, code: -32600},
		{row: "J06 jsonrpc missing", body: strings.Replace(good(`{}`), `"jsonrpc":"2.0",`, ``, 1), header: toolHeader, status: []int{400}, code: -32600},
		{row: "J07 null id", body: strings.Replace(good(`{}`), `"id":1`, `"id":null`, 1), header: toolHeader, status: []int{400}, code: -32600},
		{row: "J08 fraction", body: strings.Replace(good(`{}`), `"id":1`, `"id":1.5`, 1), header: toolHeader, status: []int{400}, code: -32600},
		{row: "J08 bool", body: strings.Replace(good(`{}`), `"id":1`, `"id":true`, 1), header: toolHeader, status: []int{400}, code: -32600},
		{row: "J08 object", body: strings.Replace(good(`{}`), `"id":1`, `"id":{}`, 1), header: toolHeader, status: []int{400}, code: -32600},
		{row: "J08 array", body: strings.Replace(good(`{}`), `"id":1`, `"id":[]`, 1), header: toolHeader, status: []int{400}, code: -32600},
		{row: "J12 long id", body: strings.Replace(good(`{}`), `"id":1`, `"id":"`+strings.Repeat("i", 64<<10)+`"`, 1), header: toolHeader, status: []int{400}, code: -32600, check: func(t *testing.T, a answer) {
			if len(a.body) > 4<<10 {
				t.Errorf("the answer has %d bytes", len(a.body))
			}
		}},
		{row: "J14 case", body: `{"jsonrpc":"2.0","id":1,"METHOD":"tools/call","params":{"name":"echo",` + meta + `}}`, header: toolHeader, status: []int{400}, code: -32600},
		{row: "J16 duplicate", body: strings.Replace(good(`{}`), `"method":`, `"method":"ping","method":`, 1), header: modernHeader("ping", ""), status: []int{400}, code: -32600},
		{row: "J16 duplicate name", body: strings.Replace(good(`{}`), `"name":"echo"`, `"name":"other","name":"echo"`, 1), header: toolHeader, status: []int{400}, code: -32600},
		{row: "J18 not UTF-8", body: strings.Replace(good(`{"v":"X"}`), `X`, "\xff\xfe", 1), header: toolHeader, status: []int{400}, code: -32700},
		{row: "J20 deep", body: good(strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)), header: toolHeader, status: []int{400}},
		{row: "J20 deeper, unclosed", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + strings.Repeat("[", 100_000), header: toolHeader, status: []int{400}},
		{row: "J23 two", body: good(`{}`) + good(`{}`), header: toolHeader, status: []int{400}, code: -32700},
		{row: "J23 trailing", body: good(`{}`) + `x`, header: toolHeader, status: []int{400}, code: -32700},
		{row: "J23 BOM", body: "\ufeff" + good(`{}`), header: toolHeader, status: []int{400}, code: -32700},
		{row: "J24 empty method", body: modernBody("1", "", ""), header: toolHeader, status: []int{400}, code: -32600},
		{row: "J24 number", body: `{"jsonrpc":"2.0","id":1,"method":7}`, header: toolHeader, status: []int{400}, code: -32600},
		{row: "J24 1 MiB", body: modernBody("1", strings.Repeat("m", 1<<20), ""), header: toolHeader, status: []int{400}, code: -32600},
		{row: "J25 array", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1,2]}`, status: []int{400}, code: -32602},
		{row: "J25 null", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":null}`, status: []int{400}, code: -32602},
		{row: "J25 string", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"x"}`, status: []int{400}, code: -32602},
		{row: "J26 response", body: `{"jsonrpc":"2.0","id":1,"result":{}}`, header: []string{"MCP-Protocol-Version", modernVersion}, status: []int{400}, code: -32600},
		{row: "J28 unknown notification", body: `{"jsonrpc":"2.0","method":"notifications/foo"}`, header: with([]string{"MCP-Protocol-Version", modernVersion}, "Mcp-Method", "notifications/foo"), status: []int{202}},
		{row: "H01 GET", method: "GET", status: []int{400, 405}},
		{row: "H01 DELETE", method: "DELETE", status: []int{400, 405}},
		{row: "H02 PUT", method: "PUT", body: good(`{}`), header: toolHeader, status: []int{405}},
		{row: "H02 PATCH", method: "PATCH", body: good(`{}`), header: toolHeader, status: []int{405}},
		{row: "H02 OPTIONS", method: "OPTIONS", header: []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "POST"}, status: []int{403}},
		{row: "H03 foreign POST", body: good(`{}`), header: with(toolHeader, "Origin", "https://evil.example"), status: []int{403}},
		{row: "H03 foreign GET", method: "GET", header: []string{"Origin", "https://evil.example"}, status: []int{403}},
		{row: "H03 foreign DELETE", method: "DELETE", header: []string{"Origin", "https://evil.example"}, status: []int{403}},
		{row: "H04 null", body: good(`{}`), header: with(toolHeader, "Origin", "null"), status: []int{403}},
		{row: "H04 two", body: good(`{}`), header: with(toolHeader, "Origin", "http://127.0.0.1", "Origin", "https://evil.example"), status: []int{403}},
		{row: "H05 foreign host", body: good(`{}`), header: with(toolHeader, "Host", "evil.example"), status: []int{403, 421}},
		{row: "H08 text", body: good(`{}`), header: with(toolHeader, "Content-Type", "text/plain"), status: []int{415}},
		{row: "H08 none", body: good(`{}`), header: with(toolHeader, "Content-Type", ""), status: []int{415}},
		{row: "H08 multipart", body: good(`{}`), header: with(toolHeader, "Content-Type", "multipart/form-data; boundary=x"), status: []int{415}},
		{row: "H09 UTF-16", body: utf16Body(good(`{}`)), header: with(toolHeader, "Content-Type", "application/json; charset=utf-16"), status: []int{400, 415}},
		{row: "H10 none", body: good(`{}`), header: with(toolHeader, "Accept", ""), status: []int{406}},
		{row: "H10 HTML", body: good(`{}`), header: with(toolHeader, "Accept", "text/html"), status: []int{406}},
		{row: "H10 one", body: good(`{}`), header: with(toolHeader, "Accept", "application/json"), status: []int{406}},
		{row: "H11 large", body: good(`"` + strings.Repeat("x", 4<<20) + `"`), header: toolHeader, status: []int{413}},
		{row: "H14 128 KiB of headers", body: good(`{}`), header: with(toolHeader, "X-Long", strings.Repeat("h", 128<<10)), status: []int{431}},
		{row: "H22 unknown method", body: modernBody("7", "foo/bar", ""), header: modernHeader("foo/bar", ""), status: []int{404}, code: -32601},
		{row: "H23 initialize", body: modernBody("7", "initialize", ""), header: modernHeader("initialize", ""), status: []int{404}, code: -32601},
		{row: "H23 ping", body: modernBody("7", "ping", ""), header: modernHeader("ping", ""), status: []int{404}, code: -32601},
		{row: "H23 logging/setLevel", body: modernBody("7", "logging/setLevel", `"level":"info"`), header: modernHeader("logging/setLevel", ""), status: []int{404}, code: -32601},
		{row: "H23 resources/subscribe", body: modernBody("7", "resources/subscribe", `"uri":"test://one"`), header: modernHeader("resources/subscribe", "test://one"), status: []int{404}, code: -32601},
		{row: "H23 resources/unsubscribe", body: modernBody("7", "resources/unsubscribe", `"uri":"test://one"`), header: modernHeader("resources/unsubscribe", "test://one"), status: []int{404}, code: -32601},
		{row: "P01 no version header", body: good(`{}`), header: []string{"Mcp-Method", "tools/call", "Mcp-Name", "echo"}, status: []int{400}, code: -32020},
		{row: "P02 body older", body: otherMeta("2025-11-25"), header: toolHeader, status: []int{400}, code: -32020},
		{row: "P02 header older", body: good(`{}`), header: with(toolHeader, "MCP-Protocol-Version", "2025-11-25"), status: []int{400}, code: -32020},
		{row: "P03 unknown", body: otherMeta("1900-01-01"), header: with(toolHeader, "MCP-Protocol-Version", "1900-01-01"), status: []int{400}, code: -32022, check: func(t *testing.T, a answer) {
			m := a.message(t)
			if errorData(m, "requested") != "1900-01-01" || !strings.Contains(errorData(m, "supported"), `"2026-07-28"`) {
				t.Errorf("data is %s", a.body)
			}
		}},
		{row: "P04 no method", body: good(`{}`), header: []string{"MCP-Protocol-Version", modernVersion, "Mcp-Name", "echo"}, status: []int{400}, code: -32020},
		{row: "P04 capitals", body: good(`{}`), header: with(toolHeader, "Mcp-Method", "TOOLS/CALL"), status: []int{400}, code: -32020},
		{row: "P05 no name", body: good(`{}`), header: modernHeader("tools/call", ""), status: []int{400}, code: -32020},
		{row: "P05 other name", body: good(`{}`), header: modernHeader("tools/call", "other"), status: []int{400}, code: -32020},
		{row: "P11 other value", body: good(`{"region":"eu"}`), header: with(toolHeader, "Mcp-Param-Region", "us"), status: []int{400}, code: -32020},
		{row: "P11 no header", body: good(`{"region":"eu"}`), header: toolHeader, status: []int{400}, code: -32020},
		{row: "P13 unsafe number", body: good(`{"n":42}`), header: with(toolHeader, "Mcp-Param-N", "9007199254740993"), status: []int{400}, code: -32020},
		{row: "P17 no _meta", body: toolCall("1", "echo", "{}"), header: toolHeader, status: []int{400}, code: -32602},
		{row: "P17 no capabilities", body: strings.Replace(good(`{}`), `"io.modelcontextprotocol/clientCapabilities":{},`, "", 1), header: toolHeader, status: []int{400}, code: -32602},
		{row: "P20 unknown date", body: toolCall("1", "echo", "{}"), header: []string{"MCP-Protocol-Version", "2025-13-99"}, status: []int{400}},
		{row: "L02 second initialize", body: initializeBody("2025-11-25", `{}`), header: []string{"Mcp-Session-Id", "SESSION"}, status: []int{200, 400}, code: -32600},
		{row: "L03 not a string", body: strings.Replace(initializeBody("X", `{}`), `"X"`, `7`, 1), status: []int{200, 400}, code: -32602},
		{row: "L05 unknown session POST", body: toolCall("1", "echo", "{}"), header: []string{"Mcp-Session-Id", "nobody"}, status: []int{404}},
		{row: "L05 unknown session GET", method: "GET", header: []string{"Mcp-Session-Id", "nobody"}, status: []int{404}},
		{row: "L05 unknown session DELETE", method: "DELETE", header: []string{"Mcp-Session-Id", "nobody"}, status: []int{404}},
		{row: "L12 other revision", body: toolCall("1", "echo", "{}"), header: []string{"Mcp-Session-Id", "SESSION", "MCP-Protocol-Version", "2025-03-26"}, status: []int{400}},
		{row: "L13 cancel of nothing", body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`, header: []string{"Mcp-Session-Id", "SESSION"}, status: []int{202}},
		{row: "L13 cancel of initialize", body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, header: []string{"Mcp-Session-Id", "SESSION"}, status: []int{202}},
		{row: "L13 malformed cancel", body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{"a":[1]}}}`, header: []string{"Mcp-Session-Id", "SESSION"}, status: []int{202}},
		{row: "L13 cancel of all", body: `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, header: []string{"Mcp-Session-Id", "SESSION"}, status: []int{202}},
		{row: "L14 answer to nothing", body: `{"jsonrpc":"2.0","id":77,"result":{}}`, header: []string{"Mcp-Session-Id", "SESSION"}, status: []int{202}},
	}
})

// TestHostileHTTP sends all hostileRows to one Dragoman with one server. No hostile request reaches
// the server. After each request, the same endpoint serves clients of both eras. At the end, no
// goroutines are left, and the heap has not grown much.
func TestHostileHTTP(t *testing.T) {
	u := child(t, "child", "legacy")
	r := run(t, u)
	session := r.initialize("/mcp", "2025-11-25", "{}")
	r.stillServes(session)
	before := runtime.NumGoroutine()
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	for _, h := range hostileRows() {
		t.Run(strings.ReplaceAll(h.row, " ", "_"), func(t *testing.T) {
			r.t = t
			calls := u.count("call")
			method := h.method
			if method == "" {
				method = "POST"
			}
			header := slices.Clone(h.header)
			for i := range header {
				if header[i] == "SESSION" {
					header[i] = session
				}
			}
			start := time.Now()
			a := r.do(t.Context(), method, "/mcp", strings.NewReader(h.body), header...)
			took := time.Since(start)
			if !contains(h.status, a.status) {
				t.Errorf("status %d, want %v: %.300q", a.status, h.status, a.body)
			}
			if h.code != 0 {
				if got := a.code(t); got != h.code {
					t.Errorf("code %d, want %d: %.300q", got, h.code, a.body)
				}
			}
			if h.check != nil {
				h.check(t, a)
			}
			if strings.Contains(a.body, "goroutine") || strings.Contains(a.body, ".go:") {
				t.Errorf("the answer leaks internal details: %.300q", a.body)
			}
			if a.header.Get("Access-Control-Allow-Origin") != "" {
				t.Error("a foreign page is not refused")
			}
			if took > patience(time.Second) {
				t.Errorf("took %v", took)
			}
			if n := u.count("call") - calls; n != 0 {
				t.Errorf("the server was called %d times", n)
			}
			r.stillServes(session)
		})
	}
	r.t = t
	r.http.CloseIdleConnections()
	await(t, "goroutines are back at their baseline", 10*time.Second, func() bool { return runtime.NumGoroutine() <= before })
	var after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(memory.HeapAlloc); grown > 16<<20 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	if n := len(u.pids(t)); n != 1 {
		t.Errorf("the server was started %d times", n)
	}
}

// TestAcceptedHTTP sends input that looks hostile but is valid.
func TestAcceptedHTTP(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "legacy")
	r := run(t, u)
	for _, h := range []hostileHTTP{
		{row: "J09 large id", body: strings.Replace(good(`{}`), `"id":1`, `"id":9007199254740993`, 1), header: toolHeader},
		{row: "J09 negative id", body: strings.Replace(good(`{}`), `"id":1`, `"id":-1`, 1), header: toolHeader},
		{row: "J09 zero", body: strings.Replace(good(`{}`), `"id":1`, `"id":0`, 1), header: toolHeader},
		{row: "J09 empty string", body: strings.Replace(good(`{}`), `"id":1`, `"id":""`, 1), header: toolHeader},
		{row: "H10 anything", body: good(`{}`), header: with(toolHeader, "Accept", "*/*")},
		{row: "P04 names in any case", body: good(`{}`), header: []string{"mcp-protocol-version", modernVersion, "MCP-METHOD", "tools/call", "mcp-NAME", "echo"}},
		{row: "P09 white space", body: good(`{}`), header: modernHeader("tools/call", "  echo\t")},
		{row: "P12 null", body: good(`{"region":null}`), header: toolHeader},
		{row: "P12 absent", body: good(`{}`), header: toolHeader},
		{row: "P13 42.0", body: good(`{"n":42}`), header: with(toolHeader, "Mcp-Param-N", "42.0")},
		{row: "P14 unknown", body: good(`{}`), header: with(toolHeader, "Mcp-Param-Foo", "x")},
		{row: "P17 no clientInfo", body: strings.Replace(good(`{}`), `,"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}`, "", 1), header: toolHeader},
		{row: "X09 session id", body: good(`{}`), header: with(toolHeader, "Mcp-Session-Id", "of another era")},
	} {
		t.Run(strings.ReplaceAll(h.row, " ", "_"), func(t *testing.T) {
			r.t = t
			a := r.post("/mcp", h.body, h.header...)
			m := a.message(t)
			if a.status != 200 || m.Kind != jsonrpc.Result {
				t.Fatalf("%d %s", a.status, a.body)
			}
			want, _ := jsonrpc.Scan([]byte(h.body), jsonrpc.Limits{})
			if m.ID != want.ID {
				t.Errorf("id %s, want %s", m.ID, want.ID)
			}
			if a.header.Get("Mcp-Session-Id") != "" {
				t.Error("a session id is echoed")
			}
		})
	}
	r.t = t
}

// TestL03_UnknownVersion checks that Dragoman offers the newest legacy revision to a client that
// sends initialize with an unknown version.
func TestL03_UnknownVersion(t *testing.T) {
	t.Parallel()
	r := run(t, child(t, "child", "legacy"))
	for _, date := range []string{"9999-01-01", ""} {
		a := r.post("/mcp", initializeBody(date, "{}"))
		if got := strings.Contains(a.body, `"protocolVersion":"2025-11-25"`); a.status != 200 || !got {
			t.Errorf("%q: %d %s", date, a.status, a.body)
		}
	}
}

func contains(list []int, n int) bool {
	for _, x := range list {
		if x == n {
			return true
		}
	}
	return false
}
