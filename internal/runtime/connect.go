package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/bridge"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/upstream"
)

// ConnectOptions are the options of Connect. Server, Log and Events must be set.
type ConnectOptions struct {
	Server config.Server
	Log    *slog.Logger
	Events *event.Publisher
	// Answer answers a request of the server for input. It gets the request's message and the
	// schema of the form to fill in. content is the form as JSON when action is "accept". If
	// Answer is nil, the server is told that the client cannot be asked.
	Answer  func(message string, schema []byte) (content []byte, action string)
	Version string
}

// Session is a conversation with a server, for commands. It is a legacy client of our own
// gateway, so the server's requests reach the command directly, whatever revision the
// server speaks. Connect makes a Session; Close must be called at the end.
type Session struct {
	upstream *upstream.Upstream
	host     *gateway.Single
	facts    *mcp.ClientInfo
	answer   func(message string, schema []byte) ([]byte, string)
	detach   func()
	untap    func() // stops the goroutine that fills trace

	mu    sync.Mutex
	trace string
}

// Connect opens a conversation with a server. If that fails, the error says why.
func Connect(ctx context.Context, o ConnectOptions) (*Session, error) {
	s := &Session{answer: o.Answer}
	s.untap = o.Events.Tap(event.Of(event.Handshake), func(e event.Event) {
		s.mu.Lock()
		s.trace += e.Detail
		s.mu.Unlock()
	})
	s.upstream = NewUpstream(o.Server, Hooks{Log: o.Log, Events: o.Events, Version: o.Version})
	s.facts = &mcp.ClientInfo{Revision: mcp.LatestLegacy, Info: info(o.Version), Conversation: 1}
	if o.Answer != nil {
		s.facts.Capabilities = []byte(`{"elicitation":{"form":{}}}`)
	}
	s.host = &gateway.Single{Bridge: &bridge.Bridge{}, Listens: &gateway.ListenQuota{}, Upstream: ForGateway(s.upstream)}
	if _, err := s.host.Hello(ctx, s.facts); err != nil {
		s.Close()
		return nil, err
	}
	s.detach = s.host.Subscribe(s.facts, &sessionSink{s: s})
	return s, nil
}

// Trace returns how the conversation was opened, one line for each step.
func (s *Session) Trace() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trace
}

// Close ends the conversation, stops the server, and waits for both.
func (s *Session) Close() {
	if s.detach != nil {
		s.detach()
	}
	s.host.Bridge.Close()
	CloseAll([]*upstream.Upstream{s.upstream}, StopLimit)
	s.untap()
}

// List is the result of Session.List: all pages of a list.
type List struct {
	Items [][]byte // raw JSON objects
	// Starting and Failed are the servers behind a gateway whose items are not in the list:
	// those that may still come, and those that could not be listed.
	Starting, Failed []string
	// Changes says whether the server sends notifications when the list changes.
	Changes bool
}

// maxMissing is the largest number of missing servers that a list names.
const maxMissing = 64

// List returns all pages of "tools", "resources", "prompts" or "templates".
func (s *Session) List(ctx context.Context, kind string) (List, error) {
	method, ok := map[string]string{
		"tools": mcp.MethodListTools, "resources": mcp.MethodListResources,
		"prompts": mcp.MethodListPrompts, "templates": mcp.MethodListTemplates,
	}[kind]
	if !ok {
		return List{}, fmt.Errorf("%q is not the name of a list: use tools, resources, prompts or templates", kind)
	}
	h, err := s.host.Hello(ctx, s.facts)
	if err != nil {
		return List{}, err
	}
	var out List
	if info := mcp.LookupMethod(method); info != nil {
		whole := jsonrpc.Whole(h.Capabilities)
		changed := jsonrpc.Find(h.Capabilities, jsonrpc.Find(h.Capabilities, whole, info.Capability), "listChanged")
		out.Changes = jsonrpc.KindOf(h.Capabilities, changed) == 't'
	}
	items, complete, err := s.upstream.ListPages(ctx, s.facts, method, func(page *jsonrpc.Message) {
		missing := jsonrpc.Find(page.Raw, page.ResultMember(mcp.KeyMeta), mcp.KeyMissing)
		out.Starting = namesIn(page.Raw, jsonrpc.Find(page.Raw, missing, "starting"))
		out.Failed = namesIn(page.Raw, jsonrpc.Find(page.Raw, missing, "failed"))
	})
	if err == nil && !complete {
		err = errors.New("the list does not end: the server keeps returning the same cursors")
	}
	out.Items = items
	return out, err
}

func namesIn(raw []byte, array jsonrpc.Span) (names []string) {
	for at := range jsonrpc.Elements(raw, array) {
		if name, ok := jsonrpc.Text(raw, at); ok && len(names) < maxMissing {
			names = append(names, name)
		}
	}
	return names
}

// Call calls a tool with args, a valid JSON object, and returns the raw result. If the
// server answers with an error, the error is a *jsonrpc.Error.
func (s *Session) Call(ctx context.Context, tool string, args []byte, onProgress func(progress, total float64, message string)) ([]byte, error) {
	params := jsonrpc.AppendQuote([]byte(`{"name":`), tool)
	if args == nil {
		args = []byte("{}")
	}
	params = append(append(params, `,"arguments":`...), args...)
	if onProgress != nil {
		params = append(params, `,"_meta":{"progressToken":1}`...)
	}
	m := jsonrpc.NewRequest("1", mcp.MethodCallTool, append(params, '}'))
	reply, err := s.host.Call(ctx, mcp.NewCall(m, m.Param(mcp.KeyMeta), s.facts), &sessionSink{s: s, progress: onProgress})
	if err != nil {
		return nil, err
	}
	if reply.Msg.Kind == jsonrpc.Failure {
		return nil, wireError(reply.Msg)
	}
	return reply.Msg.Result.Of(reply.Msg.Raw), nil
}

func wireError(m *jsonrpc.Message) *jsonrpc.Error {
	e := &jsonrpc.Error{}
	e.Code, _ = jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, m.Error, "code"))
	e.Message, _ = jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, m.Error, "message"))
	e.Data = jsonrpc.Find(m.Raw, m.Error, "data").Of(m.Raw)
	return e
}

// sessionSink is the client side of a Session.
type sessionSink struct {
	s        *Session
	progress func(progress, total float64, message string)
}

func (k *sessionSink) ClientInfo() *mcp.ClientInfo { return k.s.facts }

func (k *sessionSink) Notify(n *mcp.Note) {
	m := n.Msg
	if k.progress == nil || m.Method != mcp.NoteProgress {
		return
	}
	number := func(key string) float64 {
		f, _ := strconv.ParseFloat(string(m.Param(key).Of(m.Raw)), 64)
		return f
	}
	text, _ := jsonrpc.Text(m.Raw, m.Param("message"))
	k.progress(number("progress"), number("total"), text)
}

func (k *sessionSink) Ask(_ context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	if m.Method != mcp.MethodElicit || k.s.answer == nil {
		return nil, mcp.ErrCannotAsk
	}
	text, _ := jsonrpc.Text(m.Raw, m.Param("message"))
	content, action := k.s.answer(text, m.Param("requestedSchema").Of(m.Raw))
	result := jsonrpc.AppendQuote([]byte(`{"action":`), action)
	if action == "accept" && content != nil {
		result = append(append(result, `,"content":`...), content...)
	}
	return jsonrpc.NewResult(m.ID, append(result, '}')), nil
}
