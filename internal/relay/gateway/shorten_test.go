package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// shortened returns the answer to a call of ann's tool, of which most bytes of content may stay, and what is kept.
func shortened(t *testing.T, most int, method, result string) (reply *mcp.Reply, kept *keptResult) {
	t.Helper()
	results := &Results{}
	client := &mcp.ClientInfo{Revision: mcp.LatestLegacy, Who: &identity.Principal{Subject: "ann", Seat: "1"}}
	r := newRoute(mcp.NewCall(jsonrpc.NewRequest("1", method, []byte(`{"name":"x"}`)), jsonrpc.Span{}, client))
	m, err := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0", "id":1 , "result":`+result+` }`), jsonrpc.Limits{Bytes: 64 << 20, Tokens: 1 << 20, Depth: 64})
	if err != nil {
		t.Fatal(err)
	}
	x := runner{project: "p", shortener: &Shortener{results, func() int { return most }}}
	reply = x.shorten(r, &mcp.Reply{Msg: m})
	for _, k := range results.all {
		kept = k
	}
	return reply, kept
}

// TestShorten shortens results of all kinds of content. Whatever stays is there byte for byte, and so is the whole.
func TestShorten(t *testing.T) {
	text := func(s string) string {
		return `{"type" : "text","text":` + string(jsonrpc.AppendQuote(nil, s)) + `,"annotations":{"a": 1.0}}`
	}
	image := `{"type":"image","data":"` + strings.Repeat("A", 200) + `","mimeType":"image/png"}`
	file := `{"type":"resource","resource":{"uri":"file:///x","text":"` + strings.Repeat("f", 200) + `"}}`
	link := `{"type":"resource_link","uri":"file:///y","name":"y"}`
	lines := strings.Repeat("line of text\n", 20)
	tests := []struct {
		name, content string
		stays, whole  string // beginnings of what is left of the content, and what is kept; ! stands for the URI
	}{
		{"line", `[` + text(lines) + `]`, `[{"type" : "text","text":"` + strings.Repeat(`line of text\n`, 7) + `\n[Dragoman has shortened this result, which has 282 bytes. Read the resource ! within 10 minutes to get all of it.]","annotations":{"a": 1.0}},{"type":"resource_link","uri":"!","name":"whole_result",`,
			`[{"uri":"!","mimeType":"text/plain","text":"line of text\n`},
		{"rune", `[` + text(strings.Repeat("x", 98)+"🎉"+strings.Repeat("y", 99)) + `]`, `[{"type" : "text","text":"` + strings.Repeat("x", 98) + `\n[Dragoman`, `[{"uri":"!","mimeType":"text/plain","text":"xxx`},
		{"escapes", `[{"type":"text","text":"` + strings.Repeat("x", 95) + `\ud83c\udf89` + strings.Repeat("y", 99) + `"}]`, `[{"type":"text","text":"` + strings.Repeat("x", 95) + `\n[Dragoman`, `[{"uri":"!","mimeType":"text/plain","text":"xxx`},
		{"quote", `[{"type":"text","text":"` + strings.Repeat("x", 99) + `\"` + strings.Repeat("y", 99) + `"}]`, `[{"type":"text","text":"` + strings.Repeat("x", 99) + `\n[Dragoman`, `[{"uri":"!",`},
		{"several", `[` + text("first") + ` , ` + text(lines) + ` , ` + image + `,` + link + ` , ` + text("last") + ` ]`, `[` + text("first") + ` , {"type" : "text","text":"line of text\n`, `[{"uri":"!","mimeType":"text/plain","text":"first"},{"uri":"!","mimeType":"text/plain","text":"line`},
		{"image", `[` + text("first") + `,` + image + `,` + text("last") + `]`, `[` + text("first") + `,{"type":"text","text":"[Dragoman has shortened this result, which has 215 bytes. Read`,
			`[{"uri":"!","mimeType":"text/plain","text":"first"},{"uri":"!","mimeType":"image/png","blob":"AAAA`},
		{"sound without a type", `[{"type":"audio","data":"` + strings.Repeat("A", 200) + `"}]`, `[{"type":"text","text":"[Dragoman`, `[{"uri":"!","blob":"AAAA`},
		{"file", `[` + file + `]`, `[{"type":"text","text":"[Dragoman`, `[{"uri":"file:///x","text":"ffff`},
		{"odd", `[` + text(lines) + `,{"type":"text","text":7},{"type":"image"},{"type":"resource","resource":[]},{},3,null]`, `[{"type" : "text","text":"line of text\n`, `[{"uri":"!",`},
	}
	for _, tt := range tests {
		for _, around := range []string{`{"content":%s}`, ` { "isError" :true,"content": %s,"structuredContent":{"a":1.0e0} , "_meta":{"x":"y"}} `} {
			t.Run(tt.name, func(t *testing.T) {
				reply, kept := shortened(t, 100, mcp.MethodCallTool, fmt.Sprintf(around, tt.content))
				if kept == nil {
					t.Fatalf("nothing was shortened: %s", reply.Msg.Raw)
				}
				named := func(s string) string { return strings.ReplaceAll(s, "!", kept.uri) }
				content := reply.Msg.ResultMember("content").Of(reply.Msg.Raw)
				if !json.Valid(reply.Msg.Raw) || !utf8.Valid(reply.Msg.Raw) || !strings.HasPrefix(string(content), named(tt.stays)) || !strings.Contains(string(content), `"uri":"`+kept.uri) {
					t.Errorf("left is %s", reply.Msg.Raw)
				}
				if rest := strings.Replace(string(reply.Msg.Raw), string(content), "%s", 1); rest != `{"jsonrpc":"2.0", "id":1 , "result":`+around+` }` {
					t.Errorf("around the content: %s", rest)
				}
				for _, gone := range []string{"last", "AAAA", "ffff", "yyy"} {
					if strings.Contains(string(content), gone) {
						t.Errorf("%s is left: %s", gone, content)
					}
				}
				if strings.Contains(tt.content, link) != strings.Contains(string(content), link) {
					t.Errorf("the link: %s", content)
				}
				if !json.Valid(kept.body) || !strings.HasPrefix(string(kept.body), `{"contents":`+named(tt.whole)) {
					t.Errorf("kept is %s", kept.body)
				}
				if len(reply.Losses) != 1 || reply.Losses[0].What != "limits.result" || !strings.Contains(reply.Losses[0].Why, kept.uri) {
					t.Errorf("losses: %+v", reply.Losses)
				}
			})
		}
	}
}

// TestNotShortened checks the results that stay as they are.
func TestNotShortened(t *testing.T) {
	long := strings.Repeat("x", 300)
	content := `"content":[{"type":"text","text":"` + long + `"}]`
	for _, x := range []struct {
		most           int
		method, result string
		losses         int
	}{
		{0, mcp.MethodCallTool, `{` + content + `}`, 0},
		{300 + 2, mcp.MethodCallTool, `{` + content + `}`, 0},
		{100, mcp.MethodGetPrompt, `{` + content + `}`, 0},
		{100, mcp.MethodReadResource, `{"contents":[{"uri":"a:b","text":"` + long + `"}]}`, 0},
		{100, mcp.MethodCallTool, `{"content":[],"structuredContent":{"a":"` + long + `"}}`, 1},
		{100, mcp.MethodCallTool, `{"content":"` + long + `"}`, 0},
		{100, mcp.MethodGetTask, `{"taskId":"x","status":"working",` + content + `}`, 0},
	} {
		reply, kept := shortened(t, x.most, x.method, x.result)
		if kept != nil || !strings.Contains(string(reply.Msg.Raw), x.result) || len(reply.Losses) != x.losses {
			t.Errorf("%s %s: %s, %+v", x.method, x.result, reply.Msg.Raw, reply.Losses)
		}
	}
	for _, method := range []string{mcp.MethodTaskResult, mcp.MethodGetTask} {
		result := `{` + content + `}`
		if method == mcp.MethodGetTask {
			result = `{"taskId":"x","status":"completed","result":` + result + `}`
		}
		if reply, kept := shortened(t, 100, method, result); kept == nil || kept.tool != "" || strings.Contains(string(reply.Msg.Raw), long) {
			t.Errorf("%s: %s", method, reply.Msg.Raw)
		}
	}
	huge := strings.Repeat("x", maxKeptOfParty)
	reply, kept := shortened(t, 100, mcp.MethodCallTool, `{"content":[{"type":"text","text":"`+huge+`"}]}`)
	if kept != nil || !strings.Contains(string(reply.Msg.Raw), "The rest of it was too long to keep.") || strings.Contains(string(reply.Msg.Raw), "resource_link") || len(reply.Msg.Raw) > 1000 {
		t.Errorf("a huge result: %.2000s", reply.Msg.Raw)
	}
}

// TestResultsAreBounded lets a client get more than is kept for one, and then many clients more than is kept at all. The
// results of an innocent one stay, for ten minutes.
func TestResultsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x Results
		put := func(who string, n int) string {
			r := &keptResult{owner: owner{"p", who, who}, uri: newURI(), body: make([]byte, n)}
			if !x.keep(r) {
				t.Fatal("not kept")
			}
			sum := 0
			for _, r := range x.all {
				sum += len(r.body)
			}
			if sum != x.total || x.total > maxKept || x.of[who].bytes > maxKeptOfParty {
				t.Fatalf("%d bytes are counted as %d, and %d of %s", sum, x.total, x.of[who].bytes, who)
			}
			return r.uri
		}
		bobs := put("bob", 1<<20)
		first := put("ann", 5<<20)
		for range 3 {
			put("ann", 5<<20)
		}
		if x.find(first, owner{"p", "ann", "ann"}) != nil {
			t.Error("more is kept of one client than may be")
		}
		for i := range 30 {
			put(fmt.Sprint(i), 4<<20)
		}
		if x.find(bobs, owner{"p", "bob", "bob"}) == nil {
			t.Error("the innocent client's result has gone")
		}
		for _, other := range []owner{{"p", "bob", "2"}, {"p", "ann", "bob"}, {"q", "bob", "bob"}, {}} {
			if x.find(bobs, other) != nil {
				t.Errorf("%+v may read it", other)
			}
		}
		time.Sleep(keptFor - time.Second)
		if x.find(bobs, owner{"p", "bob", "bob"}) == nil {
			t.Error("the result has gone too soon")
		}
		time.Sleep(2 * time.Second)
		if x.find(bobs, owner{"p", "bob", "bob"}) != nil {
			t.Error("the result is kept for too long")
		}
		put("eve", 1)
		if x.total != 1 || len(x.of) != 1 {
			t.Errorf("%d bytes of %d clients are left", x.total, len(x.of))
		}
	})
}

// FuzzCutAt checks that a text that is cut anywhere is a text, and a beginning.
func FuzzCutAt(f *testing.F) {
	for _, s := range []string{"", "a\nb", `"\`, "ä🎉", "\x00\u2028\r\n"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, n int) {
		for _, raw := range [][]byte{jsonrpc.AppendQuote(nil, s), mustMarshal(s)} {
			inside := jsonrpc.Span{Start: 1, End: len(raw) - 1}
			n = max(0, min(n, len(raw)))
			at := cutAt(raw, inside, n)
			var whole, part string
			if at < 1 || at > 1+n || json.Unmarshal(raw, &whole) != nil || json.Unmarshal(append(append([]byte{}, raw[:at]...), '"'), &part) != nil || !strings.HasPrefix(whole, part) {
				t.Errorf("%q cut at %d of %d: %q", raw, at, n, raw[:at])
			}
		}
	})
}

// mustMarshal returns a string with escapes for everything beyond ASCII.
func mustMarshal(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	var out []byte
	for _, r := range string(b) {
		switch {
		case r < utf8.RuneSelf:
			out = append(out, byte(r))
		case r >= 0x10000:
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}
