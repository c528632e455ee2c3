package fake

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// web is a server under test, with an HTTP client for it.
type web struct {
	t   *testing.T
	s   *Server
	url string
	c   *http.Client
}

func onHTTP(t *testing.T, name string, set map[string]string) *web {
	t.Helper()
	s, err := NewServer(name, Options{Version: "1.2.3", Set: set})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.Handler())
	// The timeout also applies to streams, so a test that waits for a missing message fails and
	// does not hang.
	c := &http.Client{Transport: &http.Transport{}, Timeout: within}
	t.Cleanup(func() {
		c.CloseIdleConnections()
		_ = s.Close()
		h.Close()
	})
	return &web{t, s, h.URL, c}
}

// do sends a request. Each of headers has the form "Name: value". An empty value removes a default
// header.
func (w *web) do(ctx context.Context, method, path, body string, headers ...string) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ":")
		r.Header.Del(name)
		if value = strings.TrimSpace(value); value == "" {
			continue
		}
		if name == "Host" {
			r.Host = value
		}
		r.Header.Add(name, value)
	}
	resp, err := w.c.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// want sends a request and checks the status and, unless want is "-", the body of the response.
func (w *web) want(status int, want, method, path, body string, headers ...string) *http.Response {
	w.t.Helper()
	resp := w.do(w.t.Context(), method, path, body, headers...)
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Error(err)
	}
	if resp.StatusCode != status || want != "-" && strings.TrimSpace(string(got)) != want {
		w.t.Errorf("%s %s with %q:\ngot    %d %s\nwanted %d %s", method, body, headers, resp.StatusCode, got, status, want)
	}
	return resp
}

func (w *web) broken(want ...string) {
	w.t.Helper()
	l := line{t: w.t, s: w.s}
	l.broken(want...)
}

func opening(date string) string {
	return `{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{"protocolVersion":"` + date + `","capabilities":` + allCaps + `,"clientInfo":{"name":"t","version":"1"}}}`
}

// session opens a session and returns the headers that requests of the session need.
func (w *web) session(date string) []string {
	w.t.Helper()
	resp := w.want(200, "-", "POST", "/mcp", opening(date))
	headers := []string{"Mcp-Session-Id: " + resp.Header.Get("Mcp-Session-Id")}
	if editionOf(date).has(versionHeader) {
		headers = append(headers, "Mcp-Protocol-Version: "+date)
	}
	w.want(202, "", "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers...)
	return headers
}

func TestSessionRules(t *testing.T) {
	for _, ed := range editions() {
		if !ed.has(httpSessions) {
			continue
		}
		date := ed.date
		t.Run(date, func(t *testing.T) {
			w := onHTTP(t, "strict-"+date, nil)
			null := `"id":null,`
			if !ed.has(nullIDs) {
				null = ""
			}
			ping := ask(date, "1", "ping", "")
			w.want(400, refused("1", "-32600", "a session of "+date+" begins with initialize"), "POST", "/mcp", ask("2026-07-28", "1", "tools/list", "")) // a modern probe
			w.want(400, refused("1", "-32600", "the request has 0 Mcp-Session-Id headers instead of one"), "POST", "/mcp", ping)
			h := w.session(date)
			w.want(200, `{"jsonrpc":"2.0","id":1,"result":{}}`, "POST", "/mcp", ping, h...)
			w.want(404, refused("2", "-32600", "unknown session"), "POST", "/mcp", ask(date, "2", "ping", ""), append(h, "Mcp-Session-Id: nobody")...)
			w.want(406, "Accept must list application/json and text/event-stream", "POST", "/mcp", ping, append(h, "Accept: application/json")...)
			w.want(406, "-", "POST", "/mcp", ping, append(h, "Accept: */*")...)
			w.want(415, "-", "POST", "/mcp", ping, append(h, "Content-Type: text/plain")...)
			w.want(403, "-", "POST", "/mcp", ping, append(h, "Origin: https://evil.example")...)
			w.want(403, "-", "POST", "/mcp", ping, append(h, "Host: evil.example")...)
			w.want(405, "-", "PUT", "/mcp", ping, h...)
			w.want(404, "-", "POST", "/other", ping, h...)
			w.want(400, `{"jsonrpc":"2.0",`+null+`"error":{"code":-32600,"message":"the message is not allowed"}}`, "POST", "/mcp", `{"jsonrpc":"2.0","id":9,"result":{}}`, h...)
			w.want(400, "-", "POST", "/mcp", `{"jsonrpc":"2.0"`, h...)
			w.want(400, refused(`"hi"`, "-32600", "initialize must not have an Mcp-Session-Id header"), "POST", "/mcp", opening(date), h...)
			broken := []string{
				"HTTP POST: the request has 0 Mcp-Session-Id headers instead of one",
				"HTTP: Accept does not list text/event-stream",
				"HTTP: Accept does not list application/json",
				"HTTP: the Content-Type is not application/json",
				"HTTP: the Origin https://evil.example is not this machine",
				"HTTP: the Host evil.example is not this machine",
				"response: no request with the id 9 waits for a response",
				"message: not valid JSON: unexpected end at offset 16",
				"initialize: initialize must not have an Mcp-Session-Id header",
			}
			if ed.has(versionHeader) {
				w.want(400, refused("3", "-32600", `MCP-Protocol-Version is \"\", but the session uses `+date), "POST", "/mcp", ask(date, "3", "ping", ""), append(h, "Mcp-Protocol-Version:")...)
				w.want(400, refused("3", "-32600", `MCP-Protocol-Version is \"2024-11-05\", but the session uses `+date), "POST", "/mcp", ask(date, "3", "ping", ""), append(h, "Mcp-Protocol-Version: 2024-11-05")...)
				broken = append(broken, `HTTP POST: MCP-Protocol-Version is "", but the session uses `+date, `HTTP POST: MCP-Protocol-Version is "2024-11-05", but the session uses `+date)
			}
			w.want(400, "-", "GET", "/mcp", "", append(h, "Last-Event-Id: 77.1")...)
			broken = append(broken, "HTTP GET: this session has no event 77.1")
			w.want(200, "", "DELETE", "/mcp", "", h...)
			w.want(404, "-", "POST", "/mcp", ping, h...)
			w.broken(broken...)
		})
	}
}

// events reads the ids and the data of the events in a response.
type events struct {
	t  *testing.T
	in *bufio.Scanner
}

func (w *web) events(ctx context.Context, method, path, body string, headers ...string) *events {
	w.t.Helper()
	resp := w.do(ctx, method, path, body, headers...)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Fatalf("%d %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	return &events{w.t, bufio.NewScanner(resp.Body)}
}

func (e *events) next() (id, data string, ok bool) {
	for e.in.Scan() {
		switch name, value, _ := strings.Cut(e.in.Text(), ": "); name {
		case "id":
			id = value
		case "data":
			data = value
		case "":
			return id, data, true
		}
	}
	return "", "", false
}

func (e *events) want(id, data string) {
	e.t.Helper()
	if gotID, got, ok := e.next(); !ok || gotID != id || got != data {
		e.t.Errorf("got    %s %s (%v)\nwanted %s %s", gotID, got, ok, id, data)
	}
}

func (e *events) over() {
	e.t.Helper()
	if _, data, ok := e.next(); ok {
		e.t.Errorf("unexpected event: %s", data)
	}
}

// TestResumption checks that a client can resume a closed stream after an event. The resumed stream
// has only messages of that stream.
func TestResumption(t *testing.T) {
	for _, date := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(date, func(t *testing.T) {
			w := onHTTP(t, "strict-"+date, map[string]string{"drop": "2"})
			h := w.session(date)
			primed := editionOf(date).has(primed)
			call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{"steps":3,"ms":1},"_meta":{"progressToken":7}}}`
			step := func(i string) string {
				return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":` + i + `,"total":3,"message":"step ` + i + ` of 3"}}`
			}
			e := w.events(t.Context(), "POST", "/mcp", call, h...)
			if primed {
				e.want("3.0", "") // initialize and notifications/initialized used the streams 1 and 2
			}
			e.want("3.1", step("1"))
			e.want("3.2", step("2"))
			if primed {
				e.want("", "") // the event with the field retry
			}
			e.over()
			e = w.events(t.Context(), "GET", "/mcp", "", append(h, "Last-Event-Id: 3.1")...)
			if primed {
				e.want("3.1", "")
			}
			e.want("3.2", step("2"))
			e.want("3.3", step("3"))
			e.want("3.4", result(date, "1", words("waited")))
			e.over()
			w.broken()
		})
	}
}

// TestBatchesOverHTTP checks that the server answers a batch with one array, which is either the
// whole body or the last event of a stream.
func TestBatchesOverHTTP(t *testing.T) {
	const date = "2025-03-26"
	w := onHTTP(t, "strict-"+date, nil)
	h := w.session(date)
	w.want(200, "["+`{"jsonrpc":"2.0","id":1,"result":{}},`+result(date, "2", words("1"))+"]", "POST", "/mcp", "["+ask(date, "1", "ping", "")+","+call(date, "2", "count", "")+"]", h...)
	w.want(202, "", "POST", "/mcp", `[{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}]`, h...)
	w.want(400, "-", "POST", "/mcp", `[]`, h...)
	e := w.events(t.Context(), "POST", "/mcp", "["+ask(date, "3", "ping", "")+","+call(date, "4", "roots", "")+"]", h...)
	e.want("6.1", `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	w.want(202, "", "POST", "/mcp", `[{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}]`, h...)
	e.want("6.2", `[{"jsonrpc":"2.0","id":3,"result":{}},`+result(date, "4", words(""))+"]")
	e.over()
	w.broken("message: invalid message: batch is empty")
}

// TestStandingStream checks that the GET stream has the messages that do not belong to a request,
// even those from before the stream was opened.
func TestStandingStream(t *testing.T) {
	const date = "2025-06-18"
	w := onHTTP(t, "strict-"+date, nil)
	h := w.session(date)
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	w.want(200, "-", "POST", "/mcp", call(date, "1", "grow", ""), h...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := w.events(ctx, "GET", "/mcp", "", h...)
	e.want("0.1", changed)
	w.want(200, "-", "POST", "/mcp", call(date, "2", "grow", ""), h...)
	e.want("0.2", changed)
	later := w.events(ctx, "GET", "/mcp", "", h...) // replaces the first stream
	e.over()
	w.want(200, "-", "POST", "/mcp", call(date, "3", "grow", ""), h...)
	later.want("0.3", changed)
	w.want(200, "", "DELETE", "/mcp", "", h...)
	later.over()
	w.broken()
}

// TestHeaderRules checks that a server of 2026-07-28 refuses requests whose headers do not match
// the body.
func TestHeaderRules(t *testing.T) {
	const date = modernDate
	w := onHTTP(t, "strict-"+date, nil)
	h := func(method string, more ...string) []string {
		return append([]string{"Mcp-Protocol-Version: " + date, "Mcp-Method: " + method}, more...)
	}
	bad := func(id, text string) string {
		return refused(id, "-32020", "Header mismatch: "+text)
	}
	list := ask(date, "1", "prompts/list", "")
	region := func(args string) string { return call(date, "2", "headers", args) }
	w.want(200, "-", "POST", "/mcp", list, h("prompts/list")...)
	w.want(200, "-", "POST", "/mcp", list, h("prompts/list", "Mcp-Session-Id: x", "Last-Event-Id: 1")...) // the server ignores these headers
	w.want(405, "-", "GET", "/mcp", "")
	w.want(405, "-", "DELETE", "/mcp", "")
	w.want(200, result(date, "2", words("us-west1")), "POST", "/mcp", region(`"region":"us-west1"`), h("tools/call", "Mcp-Name: headers", "Mcp-Param-Region: us-west1")...)
	w.want(200, result(date, "2", words("=?base64?w7w=?=")), "POST", "/mcp", region(`"region":"ü"`), h("tools/call", "Mcp-Name: =?base64?aGVhZGVycw==?=", "Mcp-Param-Region: =?base64?w7w=?=")...)
	w.want(200, result(date, "2", words("no header")), "POST", "/mcp", region(``), h("tools/call", "Mcp-Name: headers")...)
	w.want(200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"refused as asked","data":{"why":"asked"}}}`, "POST", "/mcp", call(date, "1", "refuse", ""), h("tools/call", "Mcp-Name: refuse")...)
	w.want(400, bad(`"hi"`, "MCP-Protocol-Version is missing; this server supports 2026-07-28 and nothing else"), "POST", "/mcp", opening("2025-06-18"))
	w.broken()

	w.want(400, bad("1", "the request has 0 MCP-Protocol-Version headers instead of one"), "POST", "/mcp", list, "Mcp-Method: prompts/list")
	w.want(400, bad("1", `MCP-Protocol-Version is \"2025-06-18\", but the body has \"2026-07-28\"`), "POST", "/mcp", list, "Mcp-Protocol-Version: 2025-06-18", "Mcp-Method: prompts/list")
	w.want(400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2025-06-18"}}}`,
		"POST", "/mcp", ask("2025-06-18", "1", "prompts/list", ""), "Mcp-Protocol-Version: 2025-06-18", "Mcp-Method: prompts/list")
	w.want(400, bad("1", `Mcp-Method is \"\", but the body has \"prompts/list\"`), "POST", "/mcp", list, "Mcp-Protocol-Version: "+date)
	w.want(400, bad("1", `Mcp-Method is \"Prompts/List\", but the body has \"prompts/list\"`), "POST", "/mcp", list, h("Prompts/List")...)
	w.want(400, bad("2", `the request has 0 Mcp-Name headers instead of one`), "POST", "/mcp", region(``), h("tools/call")...)
	w.want(400, bad("2", `Mcp-Name is \"echo\", but the body has \"headers\"`), "POST", "/mcp", region(``), h("tools/call", "Mcp-Name: echo")...)
	w.want(400, bad("2", `the request has 0 Mcp-Param-Region headers instead of one`), "POST", "/mcp", region(`"region":"a"`), h("tools/call", "Mcp-Name: headers")...)
	w.want(400, bad("2", `Mcp-Param-Region is \"b\", but the body has \"a\"`), "POST", "/mcp", region(`"region":"a"`), h("tools/call", "Mcp-Name: headers", "Mcp-Param-Region: b")...)
	w.want(400, bad("2", `Mcp-Param-Region is present, but the body has no value for it`), "POST", "/mcp", region(``), h("tools/call", "Mcp-Name: headers", "Mcp-Param-Region: b")...)
	w.want(400, bad("2", `Mcp-Param-Region is not valid base64`), "POST", "/mcp", region(`"region":"a"`), h("tools/call", "Mcp-Name: headers", "Mcp-Param-Region: =?base64?!?=")...)
	w.want(404, refused("1", "-32601", date+" has no method ping"), "POST", "/mcp", ask(date, "1", "ping", ""), h("ping")...)
	w.want(400, refused("1", "-32602", "params._meta is missing or not an object"), "POST", "/mcp", ask("2025-06-18", "1", "prompts/list", ""), h("prompts/list")...)
	w.want(400, "-", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"roots","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, h("tools/call", "Mcp-Name: roots")...)
	w.want(400, "-", "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if n := len(w.s.Violations()); n != 13 {
		t.Errorf("%d violations:\n%s", n, strings.Join(w.s.Violations(), "\n"))
	}
}

// TestListenOverHTTP checks that the response to subscriptions/listen is a stream, which ends with
// a cancellation and a result when the server closes.
func TestListenOverHTTP(t *testing.T) {
	const date = modernDate
	w := onHTTP(t, "strict-"+date, nil)
	v := "Mcp-Protocol-Version: " + date
	e := w.events(t.Context(), "POST", "/mcp", ask(date, "5", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), v, "Mcp-Method: subscriptions/listen")
	const id = `"_meta":{"io.modelcontextprotocol/subscriptionId":5}`
	e.want("", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{`+id+`,"notifications":{"toolsListChanged":true}}}`)
	w.want(200, result(date, "1", words("grown")), "POST", "/mcp", call(date, "1", "grow", ""), v, "Mcp-Method: tools/call", "Mcp-Name: grow")
	e.want("", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{`+id+`}}`)
	_ = w.s.Close()
	e.want("", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{`+id+`,"requestId":5,"reason":"the server closes"}}`)
	if _, data, ok := e.next(); !ok || !strings.HasPrefix(data, `{"jsonrpc":"2.0","id":5,"result":{"resultType":"complete"`) {
		t.Errorf("%s", data)
	}
	e.over()
}

// TestEventTransport checks HTTP+SSE, the only HTTP transport of 2024-11-05.
func TestEventTransport(t *testing.T) {
	const date = "2024-11-05"
	w := onHTTP(t, "strict-"+date, nil)
	w.want(404, "-", "POST", "/mcp", opening(date))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := w.events(ctx, "GET", "/sse", "")
	_, path, _ := e.next()
	if u, err := url.Parse(path); err != nil || u.Path != "/messages" {
		t.Fatalf("the endpoint is %q", path)
	}
	w.want(202, "", "POST", path, opening(date))
	if _, data, _ := e.next(); !strings.HasPrefix(data, `{"jsonrpc":"2.0","id":"hi","result":{"protocolVersion":"2024-11-05"`) {
		t.Errorf("%s", data)
	}
	w.want(202, "", "POST", path, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	w.want(202, "", "POST", path, call(date, "1", "roots", ""))
	e.want("", `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	w.want(202, "", "POST", path, `{"jsonrpc":"2.0","id":1,"result":{"roots":[{"uri":"file:///a"}]}}`)
	e.want("", result(date, "1", words("file:///a")))
	w.want(404, "-", "POST", "/messages?session=nobody", opening(date))
	w.want(405, "-", "POST", "/sse", opening(date))
	w.broken()
	w.want(400, "-", "POST", path, `{"a"`)
	w.broken("HTTP POST: the body is not JSON")
}
