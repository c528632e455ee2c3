package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// ConnectOptions are the options of Connect. Server, Log and Events must be set.
type ConnectOptions struct {
	Server config.Server
	Log    *slog.Logger
	Events *event.Publisher
	// Answer answers a Question of the server. It may be called concurrently, even for one call. If
	// Answer is nil, the client does not declare elicitation.
	Answer func(context.Context, Question) Answer
	// Pages means that Answer can also ask a person to visit a page; see Question.URL.
	Pages bool
	// Roots are the file URIs of the folders that the client reports to the server. If there are
	// none, the client does not declare roots.
	Roots []string
	// Refused, if set, is called when the server sends a request that needs a capability that the
	// client has not declared. method is the method of this request.
	Refused func(method string)
	// Rules is the configuration that has the server, or nil if none does. Calls that its rules want to be
	// confirmed are asked about through Answer. Those that they deny aren't refused: whoever opens a session
	// can open the server without us as well.
	Rules   *config.Snapshot
	Gate    Gate
	Version string
	// Credentials is Hooks.Credentials.
	Credentials func(config.Server) upstream.Credentials
}

// Question is a request from a server for input from a person (2025-06-18 and later, §Elicitation).
// All fields are copied unchanged from the request.
type Question struct {
	Message string
	Schema  []byte // the schema of the form, a JSON object; nil if there is no form
	URL     string // the http or https URL of the page to visit; "" for a form
}

// Answer is the answer to a Question. Action is "accept", "decline" or "cancel". Content is the
// content of an accepted form as a JSON object.
type Answer struct {
	Action  string
	Content []byte
}

// Session is a session with a server, for commands. It is a legacy client of a gateway in this
// process. So the command gets server requests directly, whatever revision the server uses. Connect
// creates a Session. The caller must call Close.
type Session struct {
	upstream *upstream.Upstream
	host     *gateway.Single
	facts    *mcp.ClientInfo
	answer   func(context.Context, Question) Answer
	roots    []string
	refused  func(method string)
	detach   func()
}

// Connect opens a session with a server. The error says why the server could not be opened.
func Connect(ctx context.Context, o ConnectOptions) (*Session, error) {
	s := &Session{answer: o.Answer, roots: o.Roots, refused: o.Refused}
	s.upstream = NewUpstream(o.Server, Hooks{Log: o.Log, Events: o.Events, Version: o.Version, Credentials: o.Credentials})
	s.facts = &mcp.ClientInfo{Revision: mcp.LatestLegacy, Info: info(o.Version), Conversation: 1}
	s.facts.Capabilities = capabilities(o)
	if o.Rules != nil {
		o.Gate.Policy = append(policy.Chain{confirm{rulesOf(event.DefaultProject, o.Rules, localUser)}}, o.Gate.Policy...)
	}
	s.host = o.Gate.Single(&bridge.Bridge{OneClient: true}, ForGateway(s.upstream), &gateway.ListenQuota{}, o.Server)
	if _, err := s.host.Hello(ctx, s.facts); err != nil {
		s.Close()
		return nil, err
	}
	s.detach = s.host.Subscribe(s.facts, &sessionCaller{s: s})
	return s, nil
}

// localUser is how rules know who needs no key; see access.Gate.Caller.
func localUser(*identity.Principal) policy.Caller {
	return policy.Caller{Roles: []identity.Role{identity.Caller, identity.Admin}}
}

// capabilities returns the capabilities that the client declares to the server.
func capabilities(o ConnectOptions) []byte {
	out := []byte{'{'}
	switch {
	case o.Answer != nil && o.Pages:
		out = append(out, `"elicitation":{"form":{},"url":{}}`...)
	case o.Answer != nil:
		out = append(out, `"elicitation":{"form":{}}`...)
	}
	if len(o.Roots) > 0 {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, `"roots":{}`...)
	}
	return append(out, '}')
}

// Description contains what a server reports about itself, and the transport to the server.
type Description struct {
	Revision  mcp.Revision
	Transport string // "stdio", "http", "sse" or "inmem"
	// Info is the Implementation object of the server, and Capabilities is its capabilities object.
	// Both are unchanged. Instructions is "" if the server has none.
	Info, Capabilities []byte
	Instructions       string
}

// Describe returns the Description of the server.
func (s *Session) Describe(ctx context.Context) (Description, error) {
	h, err := s.host.Hello(ctx, s.facts)
	if err != nil {
		return Description{}, err
	}
	r := s.upstream.Report()
	text, _ := jsonrpc.Text(h.Instructions, jsonrpc.Whole(h.Instructions))
	revision := h.Revision
	if r.Revision != mcp.Unknown {
		revision = r.Revision // as in the status: a server of both eras may speak an older one with this client
	}
	return Description{Revision: revision, Transport: r.Transport, Info: h.Info, Capabilities: h.Capabilities, Instructions: text}, nil
}

// Close ends the session and stops the server. It waits until both have ended.
func (s *Session) Close() {
	if s.detach != nil {
		s.detach()
	}
	s.host.Bridge.Close()
	CloseAll([]*upstream.Upstream{s.upstream}, StopLimit)
}

// List is the result of Session.List: all pages of a list.
type List struct {
	Items [][]byte // the items as raw JSON objects
	// If the server is itself a gateway, Starting and Failed name those servers of the gateway
	// whose items are missing from the list. The servers in Starting may still get ready. The lists
	// of the servers in Failed could not be read.
	Starting, Failed []string
	// Changes is true if the server sends notifications when the list changes.
	Changes bool
	// LeftOut has the items that Dragoman left out of the list: by name, with the reason as a clause.
	LeftOut map[string]string
}

// maxMissing is the maximum length of List.Starting and of List.Failed.
const maxMissing = 64

// ListMethod returns the method that lists "tools", "resources", "prompts" or "templates". It
// returns "" for any other kind.
func ListMethod(kind string) string {
	switch kind {
	case "tools":
		return mcp.MethodListTools
	case "resources":
		return mcp.MethodListResources
	case "prompts":
		return mcp.MethodListPrompts
	case "templates":
		return mcp.MethodListTemplates
	}
	return ""
}

// List returns all pages of "tools", "resources", "prompts" or "templates".
func (s *Session) List(ctx context.Context, kind string) (List, error) {
	method := ListMethod(kind)
	if method == "" {
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
	complete := true
	err = s.readList(ctx, method, func(ctx context.Context) (err error) {
		out.Items, complete, err = s.upstream.ListPages(ctx, s.facts, method, func(page *jsonrpc.Message) {
			missing := jsonrpc.Find(page.Raw, page.ResultMember(mcp.KeyMeta), mcp.KeyMissing)
			out.Starting = namesIn(page.Raw, jsonrpc.Find(page.Raw, missing, "starting"))
			out.Failed = namesIn(page.Raw, jsonrpc.Find(page.Raw, missing, "failed"))
		})
		return err
	})
	if err == nil && !complete {
		err = errors.New("the list does not end: the server returns the same cursors again")
	}
	out.Items, out.LeftOut = passing(s.host.Vet, method, s.upstream.Name(), h.Revision, out.Items)
	for name, why := range s.upstream.Report().LeftOut[method] {
		if out.LeftOut == nil {
			out.LeftOut = make(map[string]string)
		}
		out.LeftOut[name] = why
	}
	return out, err
}

// readList calls read, which reads all pages of a list, if the gate lets the request pass.
func (s *Session) readList(ctx context.Context, method string, read func(context.Context) error) error {
	m := jsonrpc.NewRequest("1", method, []byte("{}"))
	_, err := s.host.Run(ctx, mcp.NewCall(m, jsonrpc.Span{}, s.facts), &sessionCaller{s: s}, func(ctx context.Context) (*mcp.Reply, error) {
		if err := read(ctx); err != nil {
			return nil, err
		}
		return mcp.Answer([]byte("{}")), nil
	})
	return err
}

func namesIn(raw []byte, array jsonrpc.Span) (names []string) {
	for at := range jsonrpc.Elements(raw, array) {
		if name, ok := jsonrpc.Text(raw, at); ok && len(names) < maxMissing {
			names = append(names, name)
		}
	}
	return names
}

// Call calls a tool and returns the raw result. args must be a valid JSON object, or nil for no
// arguments. If the server answers with an error, Call returns a *jsonrpc.Error. If ctx ends, Call
// also cancels the request that it sent to the server.
func (s *Session) Call(ctx context.Context, tool string, args []byte, onProgress func(progress, total float64, message string)) ([]byte, error) {
	params := jsonrpc.AppendQuote([]byte(`{"name":`), tool)
	if args == nil {
		args = []byte("{}")
	}
	params = append(append(params, `,"arguments":`...), args...)
	if onProgress != nil {
		params = append(params, `,"_meta":{"progressToken":1}`...)
	}
	return s.request(ctx, mcp.MethodCallTool, append(params, '}'), onProgress)
}

// Request sends a request other than tools/call, such as resources/read, and returns the raw
// result. params must be a valid JSON object. Request returns the same errors as Call.
func (s *Session) Request(ctx context.Context, method string, params []byte) ([]byte, error) {
	return s.request(ctx, method, params, nil)
}

// request does the work of Call and Request. onProgress may be nil.
func (s *Session) request(ctx context.Context, method string, params []byte, onProgress func(progress, total float64, message string)) ([]byte, error) {
	m := jsonrpc.NewRequest("1", method, params)
	reply, err := s.host.Call(ctx, mcp.NewCall(m, m.Param(mcp.KeyMeta), s.facts), &sessionCaller{s: s, progress: onProgress})
	if err != nil {
		return nil, err
	}
	if reply.Msg.Kind == jsonrpc.Failure {
		return nil, wireError(reply.Msg)
	}
	return reply.Msg.Result.Of(reply.Msg.Raw), nil
}

// wireError returns the error in a response.
func wireError(m *jsonrpc.Message) *jsonrpc.Error {
	e := &jsonrpc.Error{}
	e.Code, _ = jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, m.Error, "code"))
	e.Message, _ = jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, m.Error, "message"))
	e.Data = jsonrpc.Find(m.Raw, m.Error, "data").Of(m.Raw)
	return e
}

// sessionCaller is the client of the Session's gateway. It gets the notifications and the server
// requests.
type sessionCaller struct {
	s        *Session
	progress func(progress, total float64, message string)
}

func (k *sessionCaller) ClientInfo() *mcp.ClientInfo { return k.s.facts }

// HearsNoLists says that Notify does nothing with the news that a list has changed. So the gateway doesn't
// subscribe to them at the server.
func (k *sessionCaller) HearsNoLists() bool { return true }

func (k *sessionCaller) Notify(n *mcp.Note) {
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

func (k *sessionCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	text := func(key string) string {
		s, _ := jsonrpc.Text(m.Raw, m.Param(key))
		return s
	}
	switch {
	case m.Method == mcp.MethodElicit && k.s.answer != nil:
		q := Question{Message: text("message"), URL: text("url")}
		if schema := m.Param("requestedSchema"); !schema.IsZero() && text("mode") != "url" {
			q.Schema, q.URL = schema.Of(m.Raw), ""
		}
		a := k.s.answer(ctx, q)
		result := jsonrpc.AppendQuote([]byte(`{"action":`), a.Action)
		if a.Action == "accept" && a.Content != nil {
			result = append(append(result, `,"content":`...), a.Content...)
		}
		return jsonrpc.NewResult(m.ID, append(result, '}')), nil
	case m.Method == mcp.MethodListRoots && len(k.s.roots) > 0:
		result := []byte(`{"roots":[`)
		for i, uri := range k.s.roots {
			if i > 0 {
				result = append(result, ',')
			}
			result = append(jsonrpc.AppendQuote(append(result, `{"uri":`...), uri), '}')
		}
		return jsonrpc.NewResult(m.ID, append(result, "]}"...)), nil
	}
	if k.s.refused != nil {
		k.s.refused(m.Method)
	}
	return nil, mcp.ErrCannotAsk
}
