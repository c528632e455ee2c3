//go:build unix

package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// hostilePipe is a line that a client writes to Dragoman's stdin many times. NUMBER in the text
// means a counter. The test ignores the answers to these lines.
type hostilePipe struct {
	name  string
	times int
	text  string
}

// hostileLines are the lines that TestHostileLines writes after it has initialized a legacy
// session.
var hostileLines = sync.OnceValue(func() []hostilePipe {
	return []hostilePipe{
		{"broken JSON", 2000, `{"jsonrpc":`},
		{"text", 2000, `hello?`},
		{"blank lines", 2000, ` `},
		{"NUL bytes", 10, "\x00\x00"},
		{"a byte order mark", 3, "\ufeff" + request("90", "ping", `{}`)},
		{"not UTF-8", 10, "{\"jsonrpc\":\"2.0\",\"id\":91,\"method\":\"p\xff\",\"params\":{}}"},
		{"half an emoji as a name", 5, request("92", "tools/call", `{"name":"\ud83d","arguments":{}}`)},
		{"half an emoji as a method", 5, request("93", `\ud83d`, `{}`)},
		{"half an emoji as a URI", 5, request("94", "resources/read", `{"uri":"\ud83d"}`)},
		{"half an emoji as a cursor", 5, request("95", "tools/list", `{"cursor":"\ud83d"}`)},
		{"half an emoji as an argument", 5, request("96", "tools/call", `{"name":"good__echo","arguments":{"a":"\ud83d"}}`)},
		{"half an emoji as a token", 5, request("97", "tools/call", `{"name":"good__echo","_meta":{"progressToken":"\ud83d"}}`)},
		{"half an emoji as an id", 5, request(`"\ud83d"`, "ping", `{}`)},
		{"5 MiB", 2, request("98", "tools/call", `{"name":"good__echo","arguments":{"a":"`+strings.Repeat("x", 5<<20)+`"}}`)},
		{"20 MiB without a line end", 1, strings.Repeat("y", 20<<20)},
		{"100,000 brackets", 2, strings.Repeat("[", 100_000)},
		{"deep params", 5, request("99", "tools/call", `{"name":"good__echo","arguments":{"a":`+nested(5000)+`}}`)},
		{"too many values", 2, request("100", "tools/call", `{"name":"good__echo","arguments":{"a":[`+strings.Repeat("0,", 1_050_000)+`0]}}`)},
		{"a member twice", 5, `{"jsonrpc":"2.0","id":101,"method":"ping","method":"tools/call"}`},
		{"a batch", 5, `[` + request("102", "ping", `{}`) + `,` + request("103", "ping", `{}`) + `]`},
		{"an empty batch", 5, `[]`},
		{"a batch of batches", 5, `[[[]]]`},
		{"a batch of 5,000", 1, `[` + strings.TrimSuffix(strings.Repeat(request("104", "ping", `{}`)+`,`, 5000), `,`) + `]`},
		{"ids of all kinds", 1, request("1.5", "ping", `{}`) + "\n" + request("true", "ping", `{}`) + "\n" + request("{}", "ping", `{}`) + "\n" + request("null", "ping", `{}`) + "\n" + request(`""`, "ping", `{}`)},
		{"an id of 64 KiB", 3, request(`"`+strings.Repeat("i", 64<<10)+`"`, "ping", `{}`)},
		{"an id twice", 1, request("105", "tools/call", `{"name":"good__slow","arguments":{}}`) + "\n" + request("105", "tools/call", `{"name":"good__slow","arguments":{}}`)},
		{"a method of 1 MiB", 2, request("106", strings.Repeat("m", 1<<20), `{}`)},
		{"unknown methods", 2000, request("2NUMBER", "un/known-NUMBER", `{}`)},
		{"unknown notifications", 5000, note("notifications/NUMBER", `{}`)},
		{"answers to nothing", 2000, `{"jsonrpc":"2.0","id":NUMBER,"result":{}}`},
		{"errors to nothing", 2000, `{"jsonrpc":"2.0","id":"NUMBER","error":{"code":1,"message":"x"}}`},
		{"cancels of everything", 5000, note("notifications/cancelled", `{"requestId":NUMBER}`)},
		{"cancels of nonsense", 50, note("notifications/cancelled", `{"requestId":[{"a":1}]}`)},
		{"progress of no call", 2000, note("notifications/progress", `{"progressToken":NUMBER,"progress":1}`)},
		{"roots have changed", 2000, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`},
		{"initialized again", 200, `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
		{"initialize again", 20, initializeBody("2025-11-25", `{"NUMBER":{}}`)},
		{"calls of unknown tools", 1000, request("3NUMBER", "tools/call", `{"name":"no-NUMBER","arguments":{}}`)},
		{"calls without a name", 10, request("107", "tools/call", `{"arguments":{}}`)},
		{"calls with a number as name", 10, request("108", "tools/call", `{"name":7}`)},
		{"calls with a name of 1 MiB", 2, request("109", "tools/call", `{"name":"`+strings.Repeat("n", 1<<20)+`"}`)},
		{"calls with arguments that are a text", 10, request("110", "tools/call", `{"name":"good__echo","arguments":"x"}`)},
		{"calls with odd tokens", 10, request("111", "tools/call", `{"name":"good__echo","arguments":{},"_meta":{"progressToken":{"a":1}}}`)},
		{"calls with odd meta", 10, request("112", "tools/call", `{"name":"good__echo","arguments":{},"_meta":[1]}`)},
		{"calls with prototypes", 10, request("113", "tools/call", `{"name":"good__echo","arguments":{"__proto__":{"x":1},"constructor":1}}`)},
		{"cursors that are made up", 50, request("114", "tools/list", `{"cursor":"bm90aGluZw-NUMBER"}`)},
		{"a cursor of 1 MiB", 2, request("115", "tools/list", `{"cursor":"`+strings.Repeat("c", 1<<20)+`"}`)},
		{"unknown levels", 20, request("116", "logging/setLevel", `{"level":"shout-NUMBER"}`)},
		{"subscriptions, 5,000", 5000, request("4NUMBER", "resources/subscribe", `{"uri":"test://NUMBER"}`)},
		{"a URI of 1 MiB", 2, request("117", "resources/read", `{"uri":"`+strings.Repeat("u", 1<<20)+`"}`)},
		{"a template as URI", 5, request("118", "resources/read", `{"uri":"test://{a}{b}{c}/../../etc/passwd"}`)},
		{"completion of nonsense", 20, request("119", "completion/complete", `{"ref":{"type":"ref/nothing"},"argument":7}`)},
		{"tasks that do not exist", 50, request("120", "tasks/get", `{"taskId":"made-up-NUMBER"}`)},
		{"a server's requests", 20, request("121", "sampling/createMessage", `{"messages":[],"maxTokens":1}`)},
		{"versions of the future", 20, strings.Replace(modernBody("122", "tools/list", ""), "2026-07-28", "2099-01-01", 1)},
		{"requests of the other era", 20, modernBody("123", "tools/call", `"name":"good__echo","arguments":{}`)},
		{"states that are made up", 20, modernBody("124", "tools/call", `"name":"good__echo","arguments":{},"requestState":"made-up-NUMBER","inputResponses":{"a":{}}`)},
		{"a state of 1 MiB", 2, modernBody("125", "tools/call", `"name":"good__echo","arguments":{},"requestState":"`+strings.Repeat("s", 1<<20)+`"`)},
		{"listens, 200", 200, modernBody(`"l-NUMBER"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`)},
		{"a listen of nonsense", 20, modernBody("126", "subscriptions/listen", `"notifications":[7]`)},
		{"slow calls, 1,500 at once", 1500, request("5NUMBER", "tools/call", `{"name":"good__slow","arguments":{}}`)},
	}
})

// TestHostileLines writes hostile lines to stdin. After each kind of line, the same client makes a
// correct call and gets the result. HTTP clients are not affected.
func TestHostileLines(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("sends about sixty floods")
	}
	bad, good := hostileOver(t, "stdio", "legacy"), child(t, "good", "legacy")
	base := make(chan string, 1)
	var journal *journal
	p := pipeTo(t, func(ctx context.Context, log *slog.Logger, in io.Reader, out io.WriteCloser) error {
		return Serve(ctx, ServeOptions{
			Config: snapshot(bad, good), Listen: "127.0.0.1:0", Stdio: true, Stdin: in, Stdout: out, Log: log, Version: "test",
			Ready: func(url string) { base <- strings.TrimSuffix(url, "/mcp") },
		})
	})
	journal = p.log
	r := &rig{t: t, base: <-base, http: newClient(), log: journal}
	t.Cleanup(r.http.CloseIdleConnections)
	p.initialize("{}")
	i := r.innocents()
	t.Cleanup(i.stop)
	i.round(t)
	for n, x := range hostileLines() {
		t.Run(strings.ReplaceAll(x.name, " ", "_"), func(t *testing.T) {
			r.t, p.t = t, t
			logged := journal.count("level=WARN")
			mark := fmt.Sprintf(`"mark-%d"`, n)
			marked := request(mark, "tools/call", `{"name":"good__echo","arguments":{"v":1}}`) + "\n"
			var writing sync.WaitGroup
			writing.Go(func() {
				for k := range x.times {
					if _, err := io.WriteString(p.in, strings.ReplaceAll(x.text, "NUMBER", fmt.Sprint(k))+"\n"); err != nil {
						return
					}
				}
				_, _ = io.WriteString(p.in, marked)
			})
			deadline := time.After(patience(4 * time.Second))
			for answered := false; !answered; {
				select {
				case line, ok := <-p.out:
					if !ok {
						t.Fatal("standard output has ended")
					}
					m, err := jsonrpc.Scan(line, jsonrpc.Limits{Bytes: len(line) + 1, Tolerant: true})
					if answered = err == nil && string(m.ID) == mark; answered && strings.Contains(string(m.Raw), "too many requests of this client are running; wait until one ends") {
						// The client's own flood has used up its quota, so send the call again.
						answered = false
						writing.Go(func() { _, _ = io.WriteString(p.in, marked) })
						continue
					}
					if answered && toolText(m) != `{"v":1}` {
						t.Errorf("a correct call is answered with %.300q", line)
					}
				case <-deadline:
					t.Fatal("a correct call of the same client is not answered")
				}
			}
			writing.Wait()
			i.round(t)
			i.checkUnaffected(t)
			if n := journal.count("level=WARN") - logged; n > 20 {
				t.Errorf("%d warnings", n)
			}
		})
	}
	r.t, p.t = t, t
	// Spellings of one set of capabilities share a process. Calls of a modern client that can be asked share
	// none while they run, so only one runs at a time here.
	for k := range 40 {
		id := fmt.Sprint("6", k)
		p.send(strings.Replace(modernBody(id, "tools/call", `"name":"good__echo","arguments":{"v":1}`), `clientCapabilities":{}`, fmt.Sprintf(`clientCapabilities":{"elicitation":{"x-%d":{}}}`, k), 1))
		if m := p.answerTo(id); toolText(m) != `{"v":1}` {
			t.Errorf("spelling %d is answered with %.300q", k, m.Raw)
		}
	}
	if n := len(good.pids(t)); n != 2 { // the other one is that of all who cannot be asked
		t.Errorf("the good server has %d processes", n)
	}
	i.round(t)
	i.checkUnaffected(t)
	i.stop()
}

// TestHostileConnections checks that clients that misuse connections do not affect other
// clients.
func TestHostileConnections(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("opens thousands of connections")
	}
	bad, good := hostileOver(t, "stdio", "legacy"), child(t, "good", "legacy")
	r := serve(t, snapshot(bad, good))
	session := r.initialize("/mcp", "2025-11-25", "{}")
	i := r.innocents()
	t.Cleanup(i.stop)
	i.round(t)
	const headOfPost = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
	call := toolCall("1", "good__echo", `{"v":1}`)
	whole := headOfPost + "Mcp-Session-Id: " + session + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n%s", len(call), call)
	for name, x := range map[string]struct {
		many   int
		text   string
		leaves bool // true if the client closes the connection after it has written text
	}{
		"heads that do not end":              {200, "POST /mcp HTTP/1.1\r\nHost: localhost\r\n", false},
		"bodies that do not come":            {200, headOfPost + "Content-Length: 1000\r\n\r\n", false},
		"bodies cut off":                     {200, headOfPost + "Content-Length: 1000\r\n\r\n{\"jsonrpc\":", false},
		"chunks that do not end":             {100, headOfPost + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"jso", false},
		"chunk of no size":                   {50, headOfPost + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", false},
		"a length and chunks":                {20, headOfPost + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + whole, false},
		"expects to be told to go on":        {50, headOfPost + "Expect: 100-continue\r\nContent-Length: 10\r\n\r\n", false},
		"expects something else":             {20, headOfPost + "Expect: a pony\r\nContent-Length: 2\r\n\r\n{}", false},
		"streams that are not read":          {100, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: " + session + "\r\n\r\n", false},
		"old streams that are not read":      {100, "GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n", false},
		"answers that are not read":          {50, strings.Repeat(whole, 100), false},
		"requests in a row":                  {20, strings.Repeat(whole, 100), true},
		"HTTP/2 without asking":              {20, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false},
		"HTTP/0.9":                           {20, "GET /mcp\r\n", false},
		"TLS":                                {20, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", false},
		"zeroes":                             {20, strings.Repeat("\x00", 4096), false},
		"a proxy's request":                  {20, "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n", false},
		"an absolute address":                {20, "GET http://evil.example/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n", false},
		"64 KiB of address":                  {20, "GET /" + strings.Repeat("a", 64<<10) + " HTTP/1.1\r\nHost: localhost\r\n\r\n", false},
		"a megabyte of headers":              {20, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("h", 1<<20) + "\r\n\r\n", false},
		"ten thousand headers":               {10, "GET /mcp HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X: y\r\n", 10_000) + "\r\n", false},
		"compressed bodies":                  {20, headOfPost + "Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00", false},
		"sessions that are made up":          {200, strings.Replace(whole, session, "made-up", 1), false},
		"initialize in a loop":               {300, headOfPost + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(initializeBody("2025-11-25", "{}")), initializeBody("2025-11-25", "{}")), false},
		"ids to resume from":                 {50, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: " + session + "\r\nLast-Event-ID: ../../x-1-1\r\n\r\n", false},
		"two sessions at once":               {20, strings.Replace(whole, "Mcp-Session-Id:", "Mcp-Session-Id: other\r\nMcp-Session-Id:", 1), false},
		"connections that say nothing":       {300, "", false},
		"connections closed at once":         {1000, "", true},
		"requests closed during a call":      {200, strings.ReplaceAll(whole, "good__echo", "good__slow"), true},
		"a slow call on each of many":        {300, strings.ReplaceAll(whole, "good__echo", "good__slow"), false},
		"old messages to an unknown session": {100, strings.Replace(whole, "POST /mcp", "POST /sse?session=nobody", 1), false},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			r.t = t
			logged := r.log.count("level=WARN")
			var open []net.Conn
			for range x.many {
				c, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				open = append(open, c)
				// Dragoman may refuse the request and stop reading before the client has written
				// all of text.
				_ = c.SetWriteDeadline(time.Now().Add(2 * time.Second))
				_, _ = io.WriteString(c, x.text)
				if x.leaves {
					_ = c.Close()
				}
			}
			i.round(t)
			i.checkUnaffected(t)
			for _, c := range open {
				_ = c.Close()
			}
			i.round(t)
			i.checkUnaffected(t)
			if n := r.log.count("level=WARN") - logged; n > 20 {
				t.Errorf("%d warnings", n)
			}
		})
	}
	r.t = t
	i.stop()
}
