// Package democlients has the two clients of `dragoman serve --demo`. The legacy client speaks 2025-06-18
// and has a session, and the modern client speaks 2026-07-28. They call the servers of package demo through
// Dragoman, so that a user who has no client yet sees every kind of call within ten seconds.
//
// Each client follows a fixed script. Errors are part of the scripts, so they are neither returned nor
// logged.
package democlients

import (
	"context"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// LegacyClient and ModernClient are the names of the demo clients in clientInfo.
const (
	LegacyClient = "demo-legacy-client"
	ModernClient = "demo-modern-client"
)

// legacyRevision and modernRevision are the revisions of the demo clients.
const (
	legacyRevision = mcp.R20250618
	modernRevision = mcp.R20260728
)

// Each client makes one call per step. In the first round of its script, a step takes firstStep, so
// that a user sees every kind of call within ten seconds. Later, a step takes laterStep, and the two
// clients together make 30 calls a minute.
const (
	firstStep = time.Second
	laterStep = 4 * time.Second
	thinking  = 400 * time.Millisecond // how long a client waits before it answers a question
	patience  = time.Second            // the time after which the modern client cancels a call
	mostWait  = 20 * time.Second       // the timeout of one call with all its requests
)

// PlayOptions are the options of Play. Endpoint is required.
type PlayOptions struct {
	Endpoint string // the URL of an endpoint that offers the demo servers
	Version  string // the version in the clientInfo of both clients
	// Transport sends the requests. If Transport is nil, Play creates a transport that uses no proxy.
	// At the end, Play closes the idle connections of the transport.
	Transport http.RoundTripper
}

// Play acts as two clients of an endpoint until ctx ends. Some calls of the scripts succeed, some lose
// something in translation, and some are cancelled or fail. In some calls, the server reports progress
// or asks a question. When Play returns, all its goroutines and requests have ended.
func Play(ctx context.Context, o PlayOptions) {
	if o.Transport == nil {
		o.Transport = &http.Transport{MaxConnsPerHost: 4, IdleConnTimeout: 30 * time.Second}
	}
	web := &http.Client{Transport: o.Transport}
	defer web.CloseIdleConnections()
	var running work.Group
	defer running.Wait()
	running.Go(func() { play(ctx, legacyScript, (&legacyClient{wire: wire{web, o.Endpoint}, version: o.Version}).send) })
	running.Go(func() { play(ctx, modernScript, (&modernClient{wire: wire{web, o.Endpoint}, version: o.Version}).send) })
}

// move is one call of a script.
type move struct {
	method string
	params string            // the members of params without _meta, as JSON without the braces
	header map[string]string // additional HTTP headers; only the modern client sends them
	answer string            // the form content with which the client answers a question of the server; "" if there is no question
	cancel bool              // the modern client cancels the call after patience
}

// legacyScript has the calls of the legacy client.
var legacyScript = []move{
	{method: mcp.MethodCallTool, params: `"name":"modern__add","arguments":{"a":1,"b":41}`},
	{method: mcp.MethodCallTool, params: `"name":"modern__forecast","arguments":{"city":"Łódź"}`}, // Dragoman drops structuredContent, because it is not an object
	{method: mcp.MethodCallTool, params: `"name":"modern__confirm","arguments":{"action":"paint the shed blue"}`, answer: `{"sure":true}`},
	{method: mcp.MethodCallTool, params: `"name":"legacy__greet","arguments":{"who":"Ada"}`},          // the tool returns an error, because the argument has the wrong name
	{method: mcp.MethodReadResource, params: `"uri":"demo://echo/%zz"`},                               // the server answers with an error
	{method: mcp.MethodCallTool, params: `"name":"legacy__count","arguments":{"to":3,"delayMs":200}`}, // the server reports progress
	{method: mcp.MethodGetPrompt, params: `"name":"legacy__haiku","arguments":{"topic":"bridges"}`},
	{method: mcp.MethodCallTool, params: `"name":"modern__weather","arguments":{"city":"Zürich"}`},
	{method: mcp.MethodCallTool, params: `"name":"legacy__ask_name","arguments":{}`, answer: `{"name":"Ada"}`}, // the server asks the client a question during the call
}

// modernScript has the calls of the modern client.
var modernScript = []move{
	{method: mcp.MethodCallTool, params: `"name":"legacy__greet","arguments":{"name":"Grace"}`},
	{method: mcp.MethodCallTool, params: `"name":"legacy__ask_name","arguments":{}`, answer: `{"name":"Grace"}`},
	{method: mcp.MethodCallTool, params: `"name":"modern__weather","arguments":{"city":"Bern"}`, header: map[string]string{"Mcp-Param-City": "Bern"}},
	{method: mcp.MethodCallTool, params: `"name":"modern__add","arguments":{"a":"one","b":2}`}, // the tool returns an error
	{method: mcp.MethodCallTool, params: `"name":"legacy__count","arguments":{"to":20,"delayMs":500}`, cancel: true},
	{method: mcp.MethodCallTool, params: `"name":"modern__slow","arguments":{"seconds":1}`}, // the server reports progress
	{method: mcp.MethodCallTool, params: `"name":"legacy__wave","arguments":{}`},            // the tool does not exist
	{method: mcp.MethodCallTool, params: `"name":"modern__forecast","arguments":{"city":"Kraków"}`},
}

// play sends the moves of a script again and again until ctx ends. A move begins one step after the
// previous move began. If the previous move takes longer than one step, the next move begins
// immediately after the previous move.
func play(ctx context.Context, script []move, send func(context.Context, *move)) {
	next := time.Now()
	step := firstStep
	for {
		for i := range script {
			send(ctx, &script[i])
			if next = next.Add(step); next.Before(time.Now()) {
				next = time.Now()
			}
			if work.Sleep(ctx, time.Until(next)) != nil {
				return
			}
		}
		step = laterStep
	}
}

// description returns the clientInfo of a client.
func description(name, title, version string) string {
	return `{"name":` + quote(name) + `,"title":` + quote(title) + `,"version":` + quote(version) + `}`
}

// legacyClient is a client with a session. It is not safe for concurrent use.
type legacyClient struct {
	wire
	version string
	session string // "" if there is no session
	last    int64  // the last request id
}

// send makes one call. If there is no session, send first opens a session.
func (c *legacyClient) send(ctx context.Context, m *move) {
	ctx, stop := context.WithTimeout(ctx, mostWait)
	defer stop()
	if c.session == "" && !c.open(ctx) {
		return
	}
	c.last++
	id := jsonrpc.IntID(c.last)
	body := `{"jsonrpc":"2.0","id":` + string(id) + `,"method":` + quote(m.method) + `,"params":{` + m.params + `,"_meta":{"progressToken":` + string(id) + `}}}`
	_, status := c.post(ctx, body, c.headers(), id, func(asked *jsonrpc.Message) {
		answer := jsonrpc.AppendResult(nil, asked.ID, []byte(`{"action":"accept","content":`+m.answer+`}`))
		if m.answer == "" || asked.Method != mcp.MethodElicit {
			answer = jsonrpc.AppendError(nil, asked.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this client can only answer forms"})
		}
		if work.Sleep(ctx, thinking) == nil {
			c.post(ctx, string(answer), c.headers(), "", nil)
		}
	})
	if status == http.StatusNotFound {
		c.session = "" // the session has ended; the next call opens a new session (2025-06-18 §Transports, "Session Management")
	}
}

// open performs the handshake. It returns false if the handshake fails.
func (c *legacyClient) open(ctx context.Context) bool {
	c.last++
	id := jsonrpc.IntID(c.last)
	reply, _ := c.post(ctx, `{"jsonrpc":"2.0","id":`+string(id)+`,"method":"initialize","params":{"protocolVersion":`+quote(legacyRevision.String())+`,"capabilities":{"elicitation":{}},"clientInfo":`+
		description(LegacyClient, "Demo: a legacy client", c.version)+`}}`, nil, id, nil)
	if reply.session == "" {
		return false
	}
	c.session = reply.session
	c.post(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, c.headers(), "", nil)
	c.last++
	id = jsonrpc.IntID(c.last)
	c.post(ctx, `{"jsonrpc":"2.0","id":`+string(id)+`,"method":"tools/list"}`, c.headers(), id, nil)
	return true
}

func (c *legacyClient) headers() map[string]string {
	return map[string]string{"Mcp-Session-Id": c.session, "MCP-Protocol-Version": legacyRevision.String()}
}

// modernClient is a client without a session. It is not safe for concurrent use.
type modernClient struct {
	wire
	version string
	listed  bool  // the client has read the list of tools
	last    int64 // the last request id
}

// send makes one call. If the server asks a question, send repeats the call with m.answer.
func (c *modernClient) send(ctx context.Context, m *move) {
	ctx, stop := context.WithTimeout(ctx, mostWait)
	defer stop()
	if !c.listed {
		_, ok := c.request(ctx, &move{method: mcp.MethodListTools}, "")
		c.listed = ok
	}
	if m.cancel {
		// A client cancels a request by closing the stream of the response (2026-07-28
		// §Cancellation).
		var give context.CancelFunc
		ctx, give = context.WithTimeout(ctx, patience)
		defer give()
	}
	answer, ok := c.request(ctx, m, "")
	if !ok || m.answer == "" {
		return
	}
	raw := answer.Raw
	if kind, _ := jsonrpc.Text(raw, answer.ResultMember("resultType")); kind != mcp.ResultInputRequired {
		return
	}
	again := ""
	for question := range jsonrpc.Members(raw, answer.ResultMember("inputRequests")) {
		if again != "" {
			again += ","
		}
		again += string(question.Key.Of(raw)) + `:{"action":"accept","content":` + m.answer + `}`
	}
	again = `,"inputResponses":{` + again + `}`
	if state := answer.ResultMember("requestState"); !state.IsZero() {
		again += `,"requestState":` + string(state.Of(raw))
	}
	if work.Sleep(ctx, thinking) == nil {
		c.request(ctx, m, again)
	}
}

// request sends one request and returns the answer. ok is true if the answer is a result. more has
// additional members of params, each with a comma before it.
func (c *modernClient) request(ctx context.Context, m *move, more string) (answer *jsonrpc.Message, ok bool) {
	c.last++
	id := jsonrpc.IntID(c.last)
	params := m.params + more
	if params != "" {
		params += ","
	}
	body := `{"jsonrpc":"2.0","id":` + string(id) + `,"method":` + quote(m.method) + `,"params":{` + params +
		`"_meta":{"progressToken":` + string(id) + `,"io.modelcontextprotocol/protocolVersion":` + quote(modernRevision.String()) + `,"io.modelcontextprotocol/clientInfo":` +
		description(ModernClient, "Demo: a modern client", c.version) + `,"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`
	header := map[string]string{"MCP-Protocol-Version": modernRevision.String(), "Mcp-Method": m.method}
	if name, ok := jsonrpc.ValueOf([]byte(body)).Get("params", "name").Text(); ok {
		header["Mcp-Name"] = name
	}
	for k, v := range m.header {
		header[k] = v
	}
	reply, _ := c.post(ctx, body, header, id, nil)
	return reply.answer, reply.answer != nil && reply.answer.Kind == jsonrpc.Result
}

func quote(s string) string { return string(jsonrpc.AppendQuote(nil, s)) }
