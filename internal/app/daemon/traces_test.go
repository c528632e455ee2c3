//go:build unix

package daemon

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// seenSpan is a span as a collector gets it.
type seenSpan struct {
	trace, id, parent, name, state string
	kind                           uint64
	failed                         bool
	attrs                          map[string]string
	events                         []string // the name, then the attributes
	link                           string   // the span that is linked
}

// collector is an OpenTelemetry collector on a loopback address.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	spans  []seenSpan
	bodies string
	header http.Header
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bodies += string(body)
		c.header = r.Header
		if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		for _, resource := range parts(body, 1) {
			for _, scope := range parts(resource, 2) {
				for _, s := range parts(scope, 2) {
					c.spans = append(c.spans, readSpan(s))
				}
			}
		}
	}))
	t.Cleanup(c.Server.Close)
	return c
}

// env is the environment of a Dragoman that sends its spans to c.
func (c *collector) env(name string) (string, bool) {
	v, ok := map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20of-the-collector", "OTEL_BSP_SCHEDULE_DELAY": "10",
	}[name]
	return v, ok
}

// legs waits for n spans of a trace and returns that of the client's request, and those of our requests to servers.
func (c *collector) legs(t *testing.T, trace string, n int) (in seenSpan, out []seenSpan) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("%+v\n%+v", in, out)
		}
	}()
	await(t, fmt.Sprintf("%d spans of %s", n, trace), 10*time.Second, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		in, out = seenSpan{}, nil
		for _, s := range c.spans {
			switch {
			case s.trace != trace:
			case s.kind == 2:
				in = s
			default:
				out = append(out, s)
			}
		}
		return in.id != "" && len(out) == n-1
	})
	return in, out
}

// parts returns the values of a field of a message, as they are.
func parts(b []byte, want protowire.Number) (all [][]byte) {
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		b = b[n:]
		size := protowire.ConsumeFieldValue(num, kind, b)
		value := b[:size]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(b)
		}
		if num == want {
			all = append(all, value)
		}
		b = b[size:]
	}
	return all
}

func part(b []byte, want protowire.Number) []byte {
	if all := parts(b, want); len(all) > 0 {
		return all[0]
	}
	return nil
}

func readSpan(b []byte) seenSpan {
	s := seenSpan{
		trace: hex.EncodeToString(part(b, 1)), id: hex.EncodeToString(part(b, 2)), state: string(part(b, 3)), parent: hex.EncodeToString(part(b, 4)),
		name: string(part(b, 5)), failed: part(b, 15) != nil, link: hex.EncodeToString(part(part(b, 13), 2)), attrs: map[string]string{},
	}
	s.kind, _ = protowire.ConsumeVarint(part(b, 6))
	pairs := func(all [][]byte, add func(key, value string)) {
		for _, a := range all {
			value := part(a, 2)
			text := string(part(value, 1))
			if n := part(value, 3); n != nil {
				x, _ := protowire.ConsumeVarint(n)
				text = fmt.Sprint(x)
			}
			add(string(part(a, 1)), text)
		}
	}
	pairs(parts(b, 9), func(key, value string) { s.attrs[key] = value })
	for _, e := range parts(b, 11) {
		text := string(part(e, 2))
		pairs(parts(e, 3), func(key, value string) {
			if key != "dragoman.took_ms" {
				text += " " + value
			}
		})
		s.events = append(s.events, text)
	}
	return s
}

// tracedHTTP is a server of 2026-07-28 over HTTP. Its tool answers with the trace context that it got in _meta and in
// the header.
type tracedHTTP struct{ refused bool }

func (s *tracedHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
	if err != nil || r.Method != "POST" {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	answer := func(result string) { _, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(result))) }
	switch name, _ := jsonrpc.Text(m.Raw, m.Param("name")); {
	case m.Method == mcp.MethodDiscover:
		answer(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"traced","version":"1"}}`)
	case m.Method == mcp.MethodListTools:
		answer(`{"resultType":"complete","tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"lossy","inputSchema":{"type":"object"}},{"name":"again","inputSchema":{"type":"object"}},{"name":"fails","inputSchema":{"type":"object"}},{"name":"sick","inputSchema":{"type":"object"}}]}`)
	case name == "lossy":
		answer(`{"resultType":"complete","content":[{"type":"audio","data":"AAAA","mimeType":"audio/wav"}]}`)
	case name == "fails":
		_, _ = w.Write(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the password is swordfish"}))
	case name == "sick":
		answer(`{"resultType":"complete","isError":true,"content":[{"type":"text","text":"the password is swordfish"}]}`)
	case name == "again" && !s.refused:
		s.refused = true
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "a header is missing: swordfish"}))
	default:
		text := string(m.Param(mcp.KeyMeta).Of(m.Raw)) + " header " + r.Header.Get("Traceparent") + " " + r.Header.Get("Tracestate") + " " + r.Header.Get("Baggage")
		answer(`{"resultType":"complete","content":[{"type":"text","text":` + string(jsonrpc.AppendQuote(nil, text)) + `}]}`)
	}
}

// tracedServers returns one server of each era and transport.
func tracedServers(t *testing.T) []*upstreamUnderTest {
	web := httptest.NewServer(&tracedHTTP{})
	t.Cleanup(web.Close)
	over, problem := config.Complete(config.Server{Name: "web", URL: web.URL + "/mcp"})
	if problem != nil {
		t.Fatal(problem)
	}
	return []*upstreamUnderTest{child(t, "old", "legacy"), child(t, "new", "modern"), {Server: over}}
}

// tracedMeta returns the _meta of the last traced call that a server on stdio got.
func (u *upstreamUnderTest) tracedMeta() string {
	all := u.entries("traced")
	return append([]string{""}, all...)[len(all)]
}

// tracedCall is how a client sends a call of the tool echo with a trace context.
type tracedCall struct {
	name     string
	revision string
	send     func(r *rig, path, tool, parent string) string // returns what the server got
}

const tracedArgs = `{"password":"swordfish"}`

var tracedCalls = []tracedCall{
	{"modern, in _meta", modernVersion, func(r *rig, path, tool, parent string) string {
		context := `"traceparent":"` + parent + `","tracestate":"a=1","baggage":"k=v",`
		body := strings.Replace(modernBody("1", "tools/call", `"name":"`+tool+`","arguments":`+tracedArgs), `"_meta":{`, `"_meta":{`+context, 1)
		return toolText(r.post(path, body, append(modernHeader("tools/call", tool), "Traceparent", "00-11111111111111111111111111111111-2222222222222222-01")...).message(r.t))
	}},
	{"legacy, in _meta", "2025-11-25", func(r *rig, path, tool, parent string) string {
		session := r.initialize(path, "2025-11-25", "{}")
		body := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + tracedArgs + `,"_meta":{"traceparent":"` + parent + `","tracestate":"a=1","baggage":"k=v"}}}`
		return toolText(r.post(path, body, "Mcp-Session-Id", session).message(r.t))
	}},
	{"legacy, in the header", "2025-06-18", func(r *rig, path, tool, parent string) string {
		session := r.initialize(path, "2025-06-18", "{}")
		return toolText(r.post(path, toolCall("2", tool, tracedArgs), "Mcp-Session-Id", session, "Traceparent", parent, "Tracestate", "a=1", "Baggage", "k=v").message(r.t))
	}},
}

// TestTraces checks both legs of a call: between clients and servers of both eras, with the context in _meta and in the
// header, through serve and run, with servers on stdio and over HTTP. No argument and no credential may leave.
func TestTraces(t *testing.T) {
	t.Parallel()
	c, servers := newCollector(t), tracedServers(t)
	all := serve(t, snapshot(servers...), func(o *ServeOptions) { o.Env = c.env })
	n := 0
	check := func(t *testing.T, r *rig, path, tool string, s *upstreamUnderTest, call tracedCall) {
		n++
		trace, own := fmt.Sprintf("%032x", 0xabc00+n), "00f067aa0ba902b7"
		got := call.send(r, path, tool, "00-"+trace+"-"+own+"-01")
		if s.URL == "" {
			got = s.tracedMeta()
		}
		in, legs := c.legs(t, trace, 2)
		out := legs[0]
		sent := "00-" + trace + "-" + out.id + "-01"
		if !strings.Contains(got, `"traceparent":"`+sent+`"`) || !strings.Contains(got, `"tracestate":"a=1"`) || !strings.Contains(got, `"baggage":"k=v"`) {
			t.Errorf("the server got %s, want %s", got, sent)
		}
		if s.URL != "" && !strings.Contains(got, "header "+sent+" a=1 k=v") {
			t.Errorf("the server got the header %s, want %s", got, sent)
		}
		if in.parent != own || out.parent != in.id || in.state != "a=1" || in.failed || out.failed || in.name != "tools/call echo" || out.name != in.name || (in.link != "") != (call.revision == modernVersion) {
			t.Errorf("%+v\n%+v", in, out)
		}
		want := map[string]string{"mcp.method.name": "tools/call", "gen_ai.tool.name": "echo", "gen_ai.operation.name": "execute_tool", "mcp.protocol.version": call.revision, "network.transport": "tcp", "dragoman.server": s.Name, "dragoman.outcome": "ok", "dragoman.project": "default"}
		for key, value := range want {
			if in.attrs[key] != value {
				t.Errorf("%s is %q, want %q", key, in.attrs[key], value)
			}
		}
		era, transport := map[string]string{"old": "2025-11-25"}[s.Name], "pipe"
		if era == "" {
			era = modernVersion
		}
		if s.URL != "" {
			transport = "tcp"
		}
		if out.attrs["mcp.protocol.version"] != era || out.attrs["network.transport"] != transport || out.attrs["jsonrpc.request.id"] == "" {
			t.Errorf("%+v", out.attrs)
		}
	}
	for _, s := range servers {
		alone := launch(t, func(ctx context.Context, log *slog.Logger, ready func(string)) error {
			return Run(ctx, RunOptions{Server: s.Server, Listen: "127.0.0.1:0", Log: log, Ready: ready, Version: "test", Env: c.env})
		})
		for _, call := range tracedCalls {
			t.Run(s.Name+", "+call.name, func(t *testing.T) {
				check(t, all, "/mcp", s.Name+"__echo", s, call)
				check(t, all, "/s/"+s.Name+"/mcp", "echo", s, call)
				check(t, alone, "/mcp", "echo", s, call)
			})
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.header.Get("Authorization"); got != "Bearer of-the-collector" {
		t.Errorf("Authorization: %q", got)
	}
	if strings.Contains(c.bodies, "swordfish") {
		t.Error("an argument is in a span")
	}
	if log := all.log.String(); strings.Contains(log, "of-the-collector") || !strings.Contains(log, "calls are traced") {
		t.Errorf("the log: %s", log)
	}
}

// TestTracesOnPipes checks a client of run on stdio, which sends no context: each call begins a trace.
func TestTracesOnPipes(t *testing.T) {
	t.Parallel()
	c, u := newCollector(t), child(t, "u", "legacy")
	p := pipeTo(t, func(ctx context.Context, log *slog.Logger, in io.Reader, out io.WriteCloser) error {
		return Run(ctx, RunOptions{Server: u.Server, Log: log, Stdin: in, Stdout: out, Version: "test", Env: c.env})
	})
	p.initialize(`{"elicitation":{}}`)
	p.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	p.answerTo("2")
	p.send(toolCall("3", "echo", "{}"))
	p.answerTo("3")
	got := u.tracedMeta()
	_, parent, _ := strings.Cut(got, `"traceparent":"00-`)
	trace, _, _ := strings.Cut(parent, "-")
	if in, out := c.legs(t, trace, 2); in.parent != "" || in.attrs["network.transport"] != "pipe" || in.attrs["jsonrpc.request.id"] != "3" || out[0].parent != in.id {
		t.Errorf("%s: %+v %+v", got, in, out)
	}
	p.send(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"ask","arguments":{"password":"swordfish"},"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}}`)
	for {
		m := p.read()
		if m.Kind == jsonrpc.Request {
			p.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept","content":{"pin":"swordfish"}}}`)
		} else if string(m.ID) == "4" {
			break
		}
	}
	if in, _ := c.legs(t, "0af7651916cd43dd8448eb211c80319c", 2); !slices.Equal(in.events, []string{"dragoman.question elicitation/create ok"}) {
		t.Errorf("%+v", in)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.name == "tools/list" && s.kind == 3 && s.parent == "" {
			t.Errorf("%+v", s)
		}
	}
	if len(c.spans) != 6 || strings.Contains(c.bodies, "swordfish") {
		t.Errorf("%d spans: %q", len(c.spans), c.bodies)
	}
}

// TestTraceEvents checks that losses, questions, retries and failures are in the spans, without what peers say.
func TestTraceEvents(t *testing.T) {
	t.Parallel()
	c, servers := newCollector(t), tracedServers(t)
	r := serve(t, snapshot(servers...), func(o *ServeOptions) {
		o.Env = func(name string) (string, bool) {
			if strings.HasPrefix(name, "OTEL_EXPORTER") {
				return "", false
			}
			return c.env(name)
		}
		o.Config.Traces = config.Traces{Endpoint: c.URL, Header: []config.Field{{Name: "X-Key", Value: config.NewSecret("of-the-file")}}}
	})
	session := r.initialize("/mcp", "2024-11-05", `{}`)
	for i, x := range []struct {
		tool, outcome, fails string
		spans                int
		events               []string
	}{
		{"web__lossy", "ok", "", 2, []string{"dragoman.loss content.audio the client's revision does not have audio, so the audio is sent as an embedded resource"}},
		{"web__again", "ok", "", 3, []string{"dragoman.retry"}},
		{"web__fails", "failed", "-32602", 2, nil},
		{"web__sick", "tool_error", "tool_error", 2, nil},
		{"nowhere__x", "refused", "-32602", 1, nil},
	} {
		trace := fmt.Sprintf("%032x", 0xdef00+i)
		r.post("/mcp", toolCall("2", x.tool, tracedArgs), "Mcp-Session-Id", session, "Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
		in, out := c.legs(t, trace, x.spans)
		if in.attrs["dragoman.outcome"] != x.outcome || in.attrs["error.type"] != x.fails || in.failed != (x.fails != "") || !slices.Equal(in.events, x.events) {
			t.Errorf("%s: %+v", x.tool, in)
		}
		if x.outcome == "refused" && in.name != "tools/call" {
			t.Errorf("a client's invention is in a name: %s", in.name)
		}
		if len(out) == 2 && out[0].failed == out[1].failed {
			t.Errorf("%+v", out)
		}
	}

	// A question to a modern client ends one call, and the retry is another one. The leg to the server lasts over both.
	const params, asked, answered = `"name":"old__ask","arguments":` + tracedArgs, "000000000000000000000000000fab01", "000000000000000000000000000fab02"
	ask := func(trace, body string) *jsonrpc.Message {
		header := append(modernHeader("tools/call", "old__ask"), "Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
		return r.post("/mcp", canElicit(body), header...).message(t)
	}
	state, key := inputRequestOf(t, ask(asked, modernBody("1", "tools/call", params)))
	if in, _ := c.legs(t, asked, 1); in.attrs["dragoman.outcome"] != "parked" || !slices.Equal(in.events, []string{"dragoman.question"}) || in.failed {
		t.Errorf("%+v", in)
	}
	ask(answered, modernBody("2", "tools/call", retryOf(params, state, key, "{}")))
	first, legs := c.legs(t, asked, 2)
	if in, _ := c.legs(t, answered, 1); legs[0].parent != first.id || in.attrs["dragoman.outcome"] != "ok" || in.attrs["dragoman.call"] != first.attrs["dragoman.call"] {
		t.Errorf("%+v %+v", in, legs)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Contains(c.bodies, "swordfish") || c.header.Get("X-Key") != "of-the-file" {
		t.Errorf("%q %v", c.bodies, c.header)
	}
}
