package telemetry

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/loglimit"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/transport/sse"
)

// TestBadMessages sends messages that are not valid over each transport. Each must be in the log
// with its fault and its method, and must be counted. A good request changes nothing.
func TestBadMessages(t *testing.T) {
	const modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	for name, test := range map[string]struct {
		body, why, method, code string
		modern                  bool // a modern request over HTTP has the header of its revision
		notSSE                  bool // a transport of legacy clients only
	}{
		"JSON-RPC 1.0":        {body: `{"jsonrpc":"1.0","id":1,"method":"tools/list"}`, why: `jsonrpc is not`, method: "tools/list", code: "-32600"},
		"no version":          {body: `{"id":1,"method":"tools/list"}`, why: "jsonrpc is missing", method: "tools/list", code: "-32600"},
		"null id":             {body: `{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"x"}}`, why: "id is null", method: "tools/call", code: "-32600"},
		"broken":              {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":`, why: "unexpected end", method: "tools/call", code: "-32700"},
		"no JSON":             {body: `hello`, why: "", code: "-32700"},
		"two methods":         {body: `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, why: "duplicate", code: "-32600"},
		"params is a list":    {body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}`, why: "params is not an object", method: "tools/list", code: "-32602"},
		"notification":        {body: `{"jsonrpc":"1.0","method":"notifications/initialized"}`, why: `jsonrpc is not`, method: "notifications/initialized", code: "-32600"},
		"answer":              {body: `{"jsonrpc":"1.0","id":1,"result":{}}`, why: `jsonrpc is not`, code: "-32600"},
		"batch":               {body: `[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]`, why: "", code: "-32600", modern: true},
		"modern, JSON-RPC 1":  {body: `{"jsonrpc":"1.0","id":1,"method":"tools/list","params":{` + modern + `,"io.modelcontextprotocol/clientCapabilities":{}}}}`, why: `jsonrpc is not`, method: "tools/list", code: "-32600", modern: true},
		"modern, half a meta": {body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modern + `}}}`, why: "clientCapabilities", method: "tools/list", code: "-32602", modern: true, notSSE: true},
	} {
		for over, send := range senders {
			if test.notSSE && over == "sse" {
				continue
			}
			t.Run(name+" over "+over, func(t *testing.T) {
				var b bytes.Buffer
				p, m := &event.Publisher{}, NewMetrics()
				defer m.Subscribe(p)()
				log := NewLog(p, LogOptions{Log: logger(&b, slog.LevelInfo)})
				endpoint := &downstream.Endpoint{Handler: helloHandler{}, Events: p}
				send(t, endpoint, []string{test.body, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`}, test.modern)
				log.Close()
				got := b.String()
				if strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, `level=INFO msg="a client sent a message that is not valid" remote=`) ||
					!strings.Contains(got, test.why) || !strings.Contains(got, " error_code="+test.code+" ") || strings.Contains(got, "method=") != (test.method != "") || !strings.Contains(got, test.method) {
					t.Errorf("the log is %s", got)
				}
				if text := scrape(m); !strings.Contains(text, `dragoman_malformed_messages_total{code="`+test.code+`"} 1`+"\n") {
					t.Error("the message is not counted")
				}
			})
		}
	}
}

// senders sends messages over each transport. The messages are the ones of one client, one after
// another.
var senders = map[string]func(t *testing.T, r *downstream.Endpoint, messages []string, modern bool){
	"stdio": func(t *testing.T, r *downstream.Endpoint, messages []string, _ bool) {
		overStdio(t, r, strings.Join(messages, "\n"))
	},
	"http": func(t *testing.T, r *downstream.Endpoint, messages []string, modern bool) {
		for i, body := range messages {
			version := ""
			if modern && i == 0 {
				version = "2026-07-28"
			}
			overHTTP(t, r, body, version, false)
		}
	},
	"sse": func(t *testing.T, r *downstream.Endpoint, messages []string, _ bool) {
		s := sse.NewServer(sse.Options{Acceptor: r, Principal: identity.Anyone, Messages: "/messages"})
		h := httptest.NewServer(s)
		defer h.Close()
		defer func() { _ = s.Close() }()
		get, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL+"/sse", nil)
		if err != nil {
			t.Fatal(err)
		}
		get.Header.Set("Accept", "text/event-stream")
		stream, err := h.Client().Do(get)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = stream.Body.Close() }()
		lines := bufio.NewScanner(stream.Body)
		to := ""
		for to == "" && lines.Scan() {
			to, _ = strings.CutPrefix(lines.Text(), "data: ")
			if to == lines.Text() {
				to = ""
			}
		}
		for _, body := range messages {
			post, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL+to, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			post.Header.Set("Content-Type", "application/json")
			resp, err := h.Client().Do(post)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	},
}

// TestManyBadMessages checks that a client that sends nothing but invalid messages costs a few
// lines and a count, and that an invalid message of another client is still logged.
func TestManyBadMessages(t *testing.T) {
	var b bytes.Buffer
	limited := loglimit.New(logger(&b, slog.LevelInfo).Handler())
	p, m := &event.Publisher{}, NewMetrics()
	defer m.Subscribe(p)()
	l := NewLog(p, LogOptions{Log: slog.New(limited)})
	r := &downstream.Endpoint{Handler: helloHandler{}, Events: p}
	for i := range 300 {
		overStdio(t, r, `{"jsonrpc":"2.0","id":`+strconv.Itoa(i)+strings.Repeat(" ", i)+"x}")
	}
	overHTTP(t, r, `{"jsonrpc":"1.0","id":1,"method":"tools/list"}`, "", false)
	l.Close()
	limited.Close()
	got := b.String()
	if n := strings.Count(got, "remote=stdio"); n > 12 || !strings.Contains(got, "more=290") || strings.Count(got, "remote=192.0.2.1") != 1 {
		t.Errorf("%d records:\n%s", n, got)
	}
	if text := scrape(m); !strings.Contains(text, `dragoman_malformed_messages_total{code="-32700"} 300`+"\n") {
		t.Error("not all messages are counted")
	}
}
