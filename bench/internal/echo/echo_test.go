package echo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

func call1(era words.Era, id, text string) string {
	b, _, _ := words.Call(era, id, "echo", text)
	return string(b)
}

func TestStdio(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	for _, c := range []struct {
		name      string
		era       words.Era
		say, want string
	}{
		{"modern call", words.Modern, call1(words.Modern, `"a\"b"`, `q\"\\\u00e9`),
			`{"jsonrpc":"2.0","id":"a\"b","result":{"resultType":"complete","content":[{"type":"text","text":"q\"\\\u00e9"}]}}`},
		{"legacy call", words.Legacy, call1(words.Legacy, "1.0", "t"),
			`{"jsonrpc":"2.0","id":1.0,"result":{"content":[{"type":"text","text":"t"}]}}`},
		{"long", words.Legacy, call1(words.Legacy, "7", long),
			`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"` + long + `"}]}}`},
		{"legacy refuses discover", words.Legacy, string(words.Discover("1")),
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`},
		{"modern refuses initialize", words.Modern, string(words.Initialize("1", "c")),
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found: this server speaks only 2026-07-28"}}`},
		{"version", words.Legacy, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}`,
			`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"bench-echo","version":"1"}}}`},
		{"other tool", words.Modern, `{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"x"}}`,
			`{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"Unknown tool"}}`},
		{"ping", words.Legacy, `{"jsonrpc":"2.0","id":3,"method":"ping"}`, `{"jsonrpc":"2.0","id":3,"result":{}}`},
		{"noise", words.Modern, `oops`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`},
		{"two in a row, a notification between", words.Legacy,
			`{"jsonrpc":"2.0","id":3,"method":"ping"}` + "\r\n\n" + string(words.Initialized()) + "\n" + `{"jsonrpc":"2.0","id":4,"method":"ping"}`,
			`{"jsonrpc":"2.0","id":3,"result":{}}` + "\n" + `{"jsonrpc":"2.0","id":4,"result":{}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, in := range []io.Reader{strings.NewReader(c.say + "\n"), iotest.HalfReader(strings.NewReader(c.say + "\n"))} {
				var out bytes.Buffer
				if err := Stdio(c.era, in, &out); err != nil {
					t.Fatal(err)
				}
				if got := strings.TrimSuffix(out.String(), "\n"); got != c.want {
					t.Fatalf("got  %.300s\nwant %.300s", got, c.want)
				}
			}
		})
	}
}

// TestAnswersAreJSON checks that every answer is also valid JSON for the standard library.
func TestAnswersAreJSON(t *testing.T) {
	for _, era := range []words.Era{words.Modern, words.Legacy} {
		for _, say := range []string{string(words.Discover("1")), string(words.Initialize("1", "c")), string(words.List(era, "1")), call1(era, "1", "x"), "{", `{"id":1,"method":"nope"}`} {
			a := reply(nil, era, parse([]byte(say)))
			if !json.Valid(a.body) {
				t.Errorf("%s: %s", say, a.body)
			}
		}
	}
}

func start(t *testing.T, era words.Era) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	s := &HTTP{Era: era}
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String() + "/mcp"
}

// TestHTTP checks that net/http's client can use the server.
func TestHTTP(t *testing.T) {
	for _, c := range []struct {
		name, method, body string
		era                words.Era
		header             http.Header
		status             int
		contains           string
	}{
		{"modern call", "POST", call1(words.Modern, "5", "hi"), words.Modern, nil, 200, `"id":5,"result":{"resultType":"complete"`},
		{"modern unknown method", "POST", `{"jsonrpc":"2.0","id":5,"method":"ping"}`, words.Modern, nil, 404, `-32601`},
		{"modern initialize", "POST", string(words.Initialize("5", "c")), words.Modern, nil, 404, `2026-07-28`},
		{"modern notification", "POST", string(words.Initialized()), words.Modern, nil, 202, ``},
		{"modern get", "GET", ``, words.Modern, nil, 405, ``},
		{"modern delete", "DELETE", ``, words.Modern, nil, 405, ``},
		{"legacy get", "GET", ``, words.Legacy, nil, 405, ``},
		{"legacy delete", "DELETE", ``, words.Legacy, nil, 200, ``},
		{"legacy initialize", "POST", string(words.Initialize("5", "c")), words.Legacy, nil, 200, `2025-11-25`},
		{"legacy no session", "POST", string(words.Discover("5")), words.Legacy, nil, 400, `-32000`},
		{"legacy modern version", "POST", string(words.Discover("5")), words.Legacy, http.Header{"Mcp-Protocol-Version": {"2026-07-28"}}, 400, `-32000`},
		{"legacy strange session", "POST", string(words.List(words.Legacy, "5")), words.Legacy, http.Header{"Mcp-Session-Id": {"x"}}, 404, `-32001`},
		{"legacy list", "POST", string(words.List(words.Legacy, "5")), words.Legacy, http.Header{"Mcp-Session-Id": {"bench-1"}}, 200, `"tools":[{"name":"echo"`},
		{"large", "POST", call1(words.Modern, "5", strings.Repeat("y", 300<<10)), words.Modern, nil, 200, strings.Repeat("y", 300<<10) + `"}]}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := start(t, c.era)
			for _, body := range []io.Reader{strings.NewReader(c.body), io.MultiReader(strings.NewReader(c.body))} { // one body has a length, and one is chunked
				req, err := http.NewRequest(c.method, url, body)
				if err != nil {
					t.Fatal(err)
				}
				if c.header != nil {
					req.Header = c.header
				}
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != c.status || !strings.Contains(string(got), c.contains) {
					t.Fatalf("%v %d %.300s", err, res.StatusCode, got)
				}
				if issued := res.Header.Get("Mcp-Session-Id") != ""; issued != (c.name == "legacy initialize") {
					t.Fatalf("a session id was created: %v", issued)
				}
			}
			http.DefaultClient.CloseIdleConnections()
		})
	}
}

// TestClosed checks that /closed is only for those who have a token.
func TestClosed(t *testing.T) {
	url := strings.TrimSuffix(start(t, words.Modern), "mcp") + "closed"
	for token, want := range map[string]int{"": 401, "Bearer x": 200} {
		req, err := http.NewRequest("POST", url, strings.NewReader(call1(words.Modern, "5", "hi")))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", token)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != want {
			t.Errorf("with the token %q: %d, want %d", token, res.StatusCode, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestEvents(t *testing.T) {
	url := strings.TrimSuffix(start(t, words.Modern), "mcp") + "events"
	for say, want := range map[string]string{
		call1(words.Modern, "5", "hi"):             "event: message\ndata: " + string(Reply(nil, words.Modern, []byte(call1(words.Modern, "5", "hi")))) + "\n\n",
		`{"jsonrpc":"2.0","id":5,"method":"ping"}`: `{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"Method not found"}}`, // not a result
	} {
		res, err := http.Post(url, "application/json", strings.NewReader(say))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if stream := res.Header.Get("Content-Type") == "text/event-stream"; err != nil || string(got) != want || stream != strings.HasPrefix(want, "event") {
			t.Errorf("%v %q %s", err, got, res.Header)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
