package tape

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// server is a small 2025-06-18 server with sessions. It answers with JSON or with events, and
// sends an unsolicited message on a GET stream.
func server(session, greeting string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		m := scan(body)
		if q.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if m == nil || m.Method != "initialize" && q.Header.Get("Mcp-Session-Id") != session {
			http.Error(w, "no session", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "initialize":
			w.Header().Set("Mcp-Session-Id", session)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","instructions":%q}}`, m.ID, greeting)
		case "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": hello\n\nid: 1\ndata:\n\n")
			fmt.Fprintf(w, "event: message\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":7}}\r\n\r\n")
			w.(http.Flusher).Flush()
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\ndata: \"result\":{\"secret\":\"s3cr3t\"}}\n\n", m.ID)
		}
	})
}

// post sends one message. It returns the session and the response.
func post(t *testing.T, to, session, body string) (string, string) {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodDelete
	}
	q, err := http.NewRequestWithContext(t.Context(), method, to, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	q.Header.Set("Authorization", "Bearer of-bad-news")
	if session != "" {
		q.Header.Set("Mcp-Session-Id", session)
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if s := res.Header.Get("Mcp-Session-Id"); s != "" {
		session = s
	}
	return session, string(b)
}

func client(t *testing.T, to string, id string) (heard string) {
	session, a := post(t, to, "", `{"jsonrpc":"2.0","id":`+id+`,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`)
	_, b := post(t, to, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	_, c := post(t, to, session, `{"jsonrpc":"2.0","id":"`+id+`","method":"tools/call","params":{"name":"t","_meta":{"progressToken":7}}}`)
	_, d := post(t, to, session, "")
	return a + b + c + d
}

// recordHTTP runs a small client over HTTP through a recorder. It returns the text that the client
// received, and the tape.
func recordHTTP(t *testing.T) (heard, file string) {
	t.Helper()
	upstream := httptest.NewServer(server("abc", "hi"))
	defer upstream.Close()
	target, _ := url.Parse(upstream.URL + "/deep/mcp")
	var mu sync.Mutex
	var b bytes.Buffer
	r := NewRecorder(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return b.Write(p)
	}), "A test.", nil)
	own := &http.Transport{DisableCompression: true}
	defer own.CloseIdleConnections()
	front := httptest.NewServer(r.Proxy(target, "/mcp", nil, own))
	heard = client(t, front.URL+"/mcp", "1")
	front.Close()
	mu.Lock()
	defer mu.Unlock()
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return heard, b.String()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestProxyIsTransparentAndTapeReadable(t *testing.T) {
	upstream := httptest.NewServer(server("abc", "hi"))
	defer upstream.Close()
	direct := client(t, upstream.URL+"/mcp", "1")
	heard, file := recordHTTP(t)
	if heard != direct {
		t.Errorf("through the proxy:\n%s\ndirectly:\n%s", heard, direct)
	}
	for _, want := range []string{
		"-- client.request 1 --\nPOST /mcp\n", "Authorization: [secret-1]\n", "Mcp-Session-Id: [session-1]\n",
		"-- server.response 3 --\n200\n", "-- server.event 3 --\n: hello\n", "-- server.event 3 --\nid: 1\ndata:\n",
		"-- server.end 3 --\nend\n", "DELETE /mcp\n", "-- server.response 4 --\n204\n",
	} {
		if !strings.Contains(file, want) {
			t.Errorf("no %q in\n%s", want, file)
		}
	}
	for _, secret := range []string{"of-bad-news", "abc", "s3cr3t"} {
		if strings.Contains(file, secret) {
			t.Errorf("%s is on the tape:\n%s", secret, file)
		}
	}
}

func TestHTTPIsPlayedBothWays(t *testing.T) {
	heard, file := recordHTTP(t)
	tp := parsed(t, file)
	if !tp.HTTP() {
		t.Fatal("HTTP is false for a tape of HTTP")
	}

	stage, err := tp.Stage(Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	played := httptest.NewServer(stage)
	got := client(t, played.URL+"/mcp", "55")
	played.Close()
	if d := stage.Differences(); len(d) > 0 || !stage.Done() {
		t.Errorf("the same client differs: %v", d)
	}
	if a, b := strings.Count(heard, "data:"), strings.Count(got, "data:"); b < a-1 || !strings.Contains(got, `"id":"55"`) {
		t.Errorf("the client received %q, but %q during the recording", got, heard)
	}

	for _, c := range []struct {
		session, greeting, want string
	}{
		{"xyz", "hi", ""},
		{"xyz", "hello", `server.response 1 result.instructions: the recording has "hi", the peer has "hello"`},
	} {
		live := httptest.NewServer(server(c.session, c.greeting))
		target, _ := url.Parse(live.URL + "/elsewhere")
		own := &http.Transport{}
		d, err := tp.PlayHTTP(t.Context(), target, nil, own, Options{Timeout: time.Minute})
		own.CloseIdleConnections()
		live.Close()
		if err != nil {
			t.Error(err)
		}
		text := ""
		if len(d) > 0 {
			text = d[0].String()
		}
		if text != c.want || len(d) > 1 {
			t.Errorf("against %q: %v, want %s", c.greeting, d, c.want)
		}
	}
}

func TestClientThatDiffersOverHTTP(t *testing.T) {
	_, file := recordHTTP(t)
	stage, err := parsed(t, file).Stage(Options{})
	if err != nil {
		t.Fatal(err)
	}
	played := httptest.NewServer(stage)
	defer played.Close()
	_, got := post(t, played.URL+"/mcp", "", `{"jsonrpc":"2.0","id":1,"method":"other"}`)
	if !strings.Contains(got, "not in the recording") {
		t.Errorf("got %s", got)
	}
	if stage.Done() {
		t.Error("Done is true before the client has sent everything")
	}
	d := stage.Differences()
	if len(d) != 5 || d[0].Where != "not in the recording" {
		t.Errorf("differs: %v", d)
	}
}
