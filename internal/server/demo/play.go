package demo

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	protocol "github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// LegacyClient and ModernClient are the names of the demo clients in clientInfo.
const (
	LegacyClient = "demo-legacy-client"
	ModernClient = "demo-modern-client"
)

// Each client makes one call per step. In the first round of its script, a step takes firstStep, so
// that a user sees every kind of call within ten seconds. Later, a step takes laterStep, and the two
// clients together make 30 calls a minute.
const (
	firstStep = time.Second
	laterStep = 4 * time.Second
	thinking  = 400 * time.Millisecond // how long a client waits before it answers a question
	patience  = time.Second            // the time after which a client cancels a call
	mostWait  = 20 * time.Second       // the timeout of one call with all its requests
)

// Clients returns the names of the demo clients.
func Clients() []string { return []string{LegacyClient, ModernClient} }

// Play acts as two clients of an endpoint that offers the demo servers, until ctx ends. Some calls of the scripts succeed, some lose
// something in translation, and some are cancelled or fail. In some calls, the server reports progress
// or asks a question. When Play returns, all its goroutines and requests have ended.
func Play(ctx context.Context, endpoint, version string) {
	transport := &http.Transport{MaxConnsPerHost: 4, IdleConnTimeout: 30 * time.Second} // it uses no proxy
	defer transport.CloseIdleConnections()
	playOver(ctx, endpoint, version, transport)
}

func playOver(ctx context.Context, endpoint, version string, transport http.RoundTripper) {
	web := &http.Client{Transport: transport}
	var running work.Group
	defer running.Wait()
	for _, c := range []struct {
		name, title string
		revision    protocol.Revision
		script      []move
	}{
		{LegacyClient, "Demo: a legacy client", protocol.R20250618, legacyScript},
		{ModernClient, "Demo: a modern client", protocol.R20260728, modernScript},
	} {
		running.Go(func() {
			p := newPlayer(&mcp.Implementation{Name: c.name, Title: c.title, Version: version}, c.revision, &mcp.StreamableClientTransport{
				Endpoint: endpoint, HTTPClient: web, DisableStandaloneSSE: true, MaxRetries: -1,
			})
			p.play(ctx, c.script)
			p.leave()
		})
	}
}

// move is one call of a script. One of tool, uri and prompt names what it calls.
type move struct {
	tool, uri, prompt string

	args   map[string]any // the arguments of the tool or the prompt
	answer map[string]any // the form content with which the client answers a question of the server; nil if there is no question
	cancel bool           // the client cancels the call after patience
}

// legacyScript has the calls of the legacy client.
var legacyScript = []move{
	{tool: "modern__add", args: map[string]any{"a": 1, "b": 41}},
	{tool: "modern__forecast", args: map[string]any{"city": "Łódź"}}, // Dragoman drops structuredContent, because it is not an object
	{tool: "modern__confirm", args: map[string]any{"action": "paint the shed blue"}, answer: map[string]any{"sure": true}},
	{tool: "legacy__greet", args: map[string]any{"who": "Ada"}}, // the tool returns an error, because the argument has the wrong name
	{uri: "demo://echo/%zz"}, // the server answers with an error
	{tool: "legacy__count", args: map[string]any{"to": 3, "delayMs": 200}}, // the server reports progress
	{prompt: "legacy__haiku", args: map[string]any{"topic": "bridges"}},
	{tool: "modern__weather", args: map[string]any{"city": "Zürich"}},
	{tool: "legacy__ask_name", answer: map[string]any{"name": "Ada"}}, // the server asks the client a question during the call
}

// modernScript has the calls of the modern client.
var modernScript = []move{
	{tool: "legacy__greet", args: map[string]any{"name": "Grace"}},
	{tool: "legacy__ask_name", answer: map[string]any{"name": "Grace"}},
	{tool: "modern__weather", args: map[string]any{"city": "Bern"}},
	{tool: "modern__add", args: map[string]any{"a": "one", "b": 2}}, // the tool returns an error
	{tool: "legacy__count", args: map[string]any{"to": 20, "delayMs": 500}, cancel: true},
	{tool: "modern__slow", args: map[string]any{"seconds": 1}}, // the server reports progress
	{tool: "legacy__wave"}, // the tool does not exist
	{tool: "modern__forecast", args: map[string]any{"city": "Kraków"}},
}

// player is one demo client. It is not safe for concurrent use.
type player struct {
	client    *mcp.Client
	transport *mcp.StreamableClientTransport
	revision  protocol.Revision
	session   *mcp.ClientSession   // nil if there is no connection
	now       atomic.Pointer[move] // the last call that began
	calls     int
}

func newPlayer(who *mcp.Implementation, revision protocol.Revision, transport *mcp.StreamableClientTransport) *player {
	p := &player{transport: transport, revision: revision}
	p.client = mcp.NewClient(who, &mcp.ClientOptions{
		Capabilities:       &mcp.ClientCapabilities{}, // without it, the SDK also declares roots
		ElicitationHandler: p.answer,
	})
	return p
}

// answer answers a question of the server after some time, as a user does.
func (p *player) answer(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	content := p.now.Load().answer
	if content == nil {
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	return &mcp.ElicitResult{Action: "accept", Content: content}, work.Sleep(ctx, thinking)
}

// play makes the calls of a script again and again until ctx ends. A move begins one step after the
// previous move began. If the previous move takes longer than one step, the next move begins
// immediately after the previous move.
func (p *player) play(ctx context.Context, script []move) {
	next := time.Now()
	step := firstStep
	for {
		for i := range script {
			p.send(ctx, &script[i])
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

// send makes one call. If there is no connection, send first opens one.
func (p *player) send(ctx context.Context, m *move) {
	ctx, stop := context.WithTimeout(ctx, mostWait)
	defer stop()
	if p.session == nil {
		session, err := p.client.Connect(ctx, p.transport, &mcp.ClientSessionOptions{ProtocolVersion: p.revision.String()})
		if err != nil {
			return
		}
		p.session = session
		_, _ = session.ListTools(ctx, nil) // the list says which arguments the SDK repeats in HTTP headers
	}
	if m.cancel {
		ctx, stop = context.WithTimeout(ctx, patience)
		defer stop()
	}
	p.now.Store(m)
	err := p.call(ctx, m)
	var answered *jsonrpc.Error
	if err != nil && !errors.As(err, &answered) && ctx.Err() == nil {
		p.leave() // Dragoman has ended the session, for example; the next call opens a new one
	}
}

func (p *player) call(ctx context.Context, m *move) (err error) {
	p.calls++
	switch {
	case m.uri != "":
		read := &mcp.ReadResourceParams{URI: m.uri}
		read.SetProgressToken(p.calls)
		_, err = p.session.ReadResource(ctx, read)
	case m.prompt != "":
		get := &mcp.GetPromptParams{Name: m.prompt, Arguments: map[string]string{}}
		for name, value := range m.args {
			get.Arguments[name] = value.(string)
		}
		get.SetProgressToken(p.calls)
		_, err = p.session.GetPrompt(ctx, get)
	default:
		call := &mcp.CallToolParams{Name: m.tool, Arguments: m.args}
		call.SetProgressToken(p.calls)
		_, err = p.session.CallTool(ctx, call)
	}
	return err
}

// leave closes the connection if there is one.
func (p *player) leave() {
	if p.session != nil {
		_ = p.session.Close()
		p.session = nil
	}
}
