package runtime

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// VisitOptions are the options of Project.Visit.
type VisitOptions struct {
	// Who is the visitor, and Remote the address that it has come from. The rules, the limits and the audit see them
	// as they see those of every other client. Without Who, Visit returns ErrNobody.
	Who    *identity.Principal
	Remote string
	// Revision is the revision that the visitor uses. Unknown means mcp.LatestLegacy.
	Revision mcp.Revision
	// Info is the visitor's Implementation object, and Capabilities is its capabilities object.
	Info, Capabilities []byte
	// Level is the level of the log messages that the visitor wants, such as info; "" for what the server sends unasked.
	Level string
	// Heard, if set, receives all notifications and server requests for the visitor. It must not
	// block. Each server request must be answered with Visitor.Answer or Visitor.Refuse. A visitor of a revision in
	// which results ask for input hears of each such request, as if the server had sent it.
	Heard func(*jsonrpc.Message)
	// Wire, if set, receives the bytes of each message that the visitor sends or gets, in their order. It must not block,
	// nor keep raw.
	Wire func(sent bool, raw []byte)
}

// Visitor is a client in this process, connected to an endpoint of a project. Dragoman
// handles it like any other client, so its calls appear in the metrics, in the log and in the list
// of calls. Project.Visit creates a Visitor, and the caller must call Close. Visitor is safe for
// concurrent use.
type Visitor struct {
	project      *Project
	server       string // see Visit
	revision     mcp.Revision
	meta         []jsonrpc.Field // what each request says of the visitor, if its revision wants that
	conversation transport.Conversation
	looks        bool             // it only lists; see Project.Look
	hello        *jsonrpc.Message // the answer to its handshake; nil if its revision has none
	heard        func(*jsonrpc.Message)
	wire         func(sent bool, raw []byte)
	lastID       atomic.Int64

	mu   sync.Mutex
	asks map[jsonrpc.ID]chan []byte // the open requests for input; see round
}

// ErrNobody is the error for a visitor of whom nobody has said who it is.
var ErrNobody = errors.New("nobody knows who has started this")

// SearchEndpoint stands for the endpoint at which clients search their tools, where Visit wants a server.
const SearchEndpoint = findName

// Visit makes a client of the endpoint of a server; "" is the project's endpoint, and SearchEndpoint the one at which
// clients search. If the revision has a handshake, Visit makes it. If the server is not configured, or not for the
// visitor, the error is ErrNoServer. If the server cannot be opened, the error is a *jsonrpc.Error.
func (p *Project) Visit(ctx context.Context, server string, o VisitOptions) (*Visitor, error) {
	if o.Revision == mcp.Unknown {
		o.Revision = mcp.LatestLegacy
	}
	if o.Who == nil {
		return nil, ErrNobody
	}
	m, refused := p.enterAt(o.Who, server)
	if refused != nil {
		return nil, ErrNoServer
	}
	v := &Visitor{project: p, server: server, revision: o.Revision, looks: o.Who.Looks(), heard: o.Heard, wire: o.Wire}
	v.conversation = m.clients.Accept(transport.Peer{Transport: "inmem", Who: o.Who, Remote: o.Remote, Endpoint: server}, outbox{v})
	if o.Revision.Can(mcp.PerRequestMeta) {
		v.meta = []jsonrpc.Field{
			{Key: mcp.KeyVersion, Value: jsonrpc.AppendQuote(nil, o.Revision.String())},
			{Key: mcp.KeyClientInfo, Value: orObject(o.Info)},
			{Key: mcp.KeyClientCaps, Value: orObject(o.Capabilities)},
		}
		if o.Level != "" {
			v.meta = append(v.meta, jsonrpc.Field{Key: mcp.KeyLogLevel, Value: jsonrpc.AppendQuote(nil, o.Level)})
		}
		return v, nil
	}
	if err := v.shakeHands(ctx, &o); err != nil {
		v.Close()
		return nil, err
	}
	return v, nil
}

// enterAt does the same as enter for an endpoint as Visit knows it.
func (p *Project) enterAt(who *identity.Principal, server string) (*mount, *Refused) {
	if server == SearchEndpoint {
		return p.enter(who, "", true)
	}
	return p.enter(who, server, false)
}

// shakeHands opens the session of a visitor whose revision has sessions.
func (v *Visitor) shakeHands(ctx context.Context, o *VisitOptions) error {
	params := append([]byte(`{"protocolVersion":"`), o.Revision.String()...)
	params = append(append(params, `","capabilities":`...), orObject(o.Capabilities)...)
	params = append(append(append(params, `,"clientInfo":`...), orObject(o.Info)...), '}')
	answer, err := v.Call(ctx, mcp.MethodInitialize, params)
	if err == nil && answer.Kind == jsonrpc.Failure {
		err = wireError(answer)
	}
	if err != nil {
		return err
	}
	v.hello = answer
	v.oneWay(ctx, jsonrpc.NewNotification(mcp.NoteInitialized, nil))
	if o.Level != "" {
		_, err = v.Call(ctx, mcp.MethodSetLevel, append(jsonrpc.AppendQuote([]byte(`{"level":`), o.Level), '}'))
	}
	return err
}

func orObject(b []byte) []byte {
	if len(b) == 0 {
		return []byte("{}")
	}
	return b
}

// Close ends the session and cancels its running calls.
func (v *Visitor) Close() { v.conversation.Close(mcp.ErrCancelled) }

// Call sends a request and waits for the answer. params must be a valid JSON object. At the endpoint of a server it
// names tools and prompts as the server does, whatever name a rule gives them, and elsewhere as clients do. The answer is
// a result or an error response, in the same form as for other clients. If ctx ends, Call cancels
// the request and returns the cause of ctx. If the result asks for input, Call sends the request again with the answers.
func (v *Visitor) Call(ctx context.Context, method string, params []byte) (*jsonrpc.Message, error) {
	params = v.renamed(method, params)
	for again := params; ; {
		answer, err := v.send(ctx, method, v.described(again))
		if err != nil || !v.revision.Can(mcp.InputRequired) || !answer.At(answer.ResultMember("resultType")).Is(mcp.ResultInputRequired) {
			return answer, err
		}
		if again, err = v.round(ctx, params, answer); err != nil {
			return nil, err
		}
	}
}

// send sends a request once, and waits for the answer.
func (v *Visitor) send(ctx context.Context, method string, params []byte) (*jsonrpc.Message, error) {
	if v.looks && !slices.Contains(looking, method) {
		return nil, ErrOnlyLooks
	}
	id := jsonrpc.IntID(v.lastID.Add(1))
	m := jsonrpc.NewRequest(id, method, params)
	r := &visitCall{v: v}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	serve := transport.Expect(life, v.conversation, transport.Incoming{Msg: m})
	cancelled := make(chan struct{})
	withdraw := context.AfterFunc(ctx, func() {
		defer close(cancelled)
		v.oneWay(life, jsonrpc.NewNotification(mcp.NoteCancelled, append(append([]byte(`{"requestId":`), id...), '}')))
	})
	v.wired(true, m.Raw)
	serve(r)
	if !withdraw() {
		<-cancelled
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.answer != nil:
		return r.answer, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, mcp.ErrCancelled
}

// oneWay sends a notification or an answer.
func (v *Visitor) oneWay(ctx context.Context, m *jsonrpc.Message) {
	v.wired(true, m.Raw)
	_ = v.conversation.OneWay(ctx, transport.Incoming{Msg: m})
}

func (v *Visitor) wired(sent bool, raw []byte) {
	if v.wire != nil {
		v.wire(sent, raw)
	}
}

// described returns the params of a request with what they say of the visitor.
func (v *Visitor) described(params []byte) []byte {
	if len(v.meta) == 0 {
		return params
	}
	var e jsonrpc.Edits
	whole := jsonrpc.Whole(params)
	if at := jsonrpc.Find(params, whole, mcp.KeyMeta); jsonrpc.KindOf(params, at) == '{' {
		e.Object(jsonrpc.NoReason, params, at, nil, v.meta...)
	} else {
		meta, inner := []byte("{}"), jsonrpc.Edits{}
		inner.Object(jsonrpc.NoReason, meta, jsonrpc.Whole(meta), nil, v.meta...)
		e.Object(jsonrpc.NoReason, params, whole, nil, jsonrpc.Field{Key: mcp.KeyMeta, Value: jsonrpc.Splice(nil, meta, &inner)})
	}
	return jsonrpc.Splice(nil, params, &e)
}

// emptyRound is how long a visitor waits before it repeats a request whose result asks for nothing.
const emptyRound = 50 * time.Millisecond

// ErrNoRefusal is the error of a call whose result asks for something that the visitor has refused: an answer can't say
// that.
var ErrNoRefusal = errors.New("the request of the server was refused, and a client of this revision can say so only by giving up the call")

// round waits for the answers to the requests in a result. It returns the params of the request that has them: those of
// the call, the answers, and the requestState as it came (2026-07-28 §Multi Round-Trip Requests, "Client Requirements").
func (v *Visitor) round(ctx context.Context, params []byte, asking *jsonrpc.Message) ([]byte, error) {
	var fields []jsonrpc.Field
	answers := []byte{'{'}
	type open struct {
		key    []byte
		id     jsonrpc.ID
		answer chan []byte
	}
	var all []open
	defer func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, x := range all {
			delete(v.asks, x.id)
		}
	}()
	for key, ask := range asking.At(asking.ResultMember("inputRequests")).Members() {
		method, _ := ask.Get("method").Text()
		x := open{key.Raw(), jsonrpc.IntID(v.lastID.Add(1)), make(chan []byte, 1)}
		all = append(all, x)
		v.mu.Lock()
		if v.asks == nil {
			v.asks = make(map[jsonrpc.ID]chan []byte)
		}
		v.asks[x.id] = x.answer
		v.mu.Unlock()
		if v.heard == nil {
			return nil, ErrNoRefusal
		}
		v.heard(jsonrpc.NewRequest(x.id, method, orObject(ask.Get("params").Raw())))
	}
	for _, x := range all {
		select {
		case result := <-x.answer:
			if result == nil {
				return nil, ErrNoRefusal
			}
			if len(answers) > 1 {
				answers = append(answers, ',')
			}
			answers = append(append(append(answers, x.key...), ':'), result...)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if len(all) > 0 {
		fields = append(fields, jsonrpc.Field{Key: "inputResponses", Value: append(answers, '}')})
	} else if err := work.Sleep(ctx, emptyRound); err != nil {
		return nil, err
	}
	if state := asking.ResultMember("requestState"); !state.IsZero() {
		fields = append(fields, jsonrpc.Field{Key: "requestState", Value: state.Of(asking.Raw)})
	}
	var e jsonrpc.Edits
	e.Object(jsonrpc.NoReason, params, jsonrpc.Whole(params), nil, fields...)
	return jsonrpc.Splice(nil, params, &e), nil
}

// renamed returns the params of a request with the name that clients see at the endpoint of a server.
func (v *Visitor) renamed(method string, params []byte) []byte {
	kind := catalog.KindTool
	switch {
	case v.server == "" || v.server == SearchEndpoint:
		return params
	case method == mcp.MethodCallTool:
	case method == mcp.MethodGetPrompt:
		kind = catalog.KindPrompt
	default:
		return params
	}
	at := jsonrpc.Find(params, jsonrpc.Whole(params), "name")
	own, _ := jsonrpc.Text(params, at)
	shown, ok := v.project.policy.Load().renames().Shown(kind, v.server, own)
	if !ok || shown == own {
		return params
	}
	var e jsonrpc.Edits
	e.Replace(mcp.WhyRenamed, at, jsonrpc.AppendQuote(nil, shown))
	return jsonrpc.Splice(nil, params, &e)
}

// Answer answers a server request with a result object.
func (v *Visitor) Answer(ctx context.Context, id jsonrpc.ID, result []byte) {
	if !v.answered(id, result) {
		v.oneWay(ctx, jsonrpc.NewResult(id, result))
	}
}

// Refuse answers a server request with an error. If the request came in a result, the call ends with ErrNoRefusal.
func (v *Visitor) Refuse(ctx context.Context, id jsonrpc.ID, e *jsonrpc.Error) {
	if !v.answered(id, nil) {
		v.oneWay(ctx, jsonrpc.NewFailure(id, e))
	}
}

// answered passes an answer on to round. It returns false if the request did not come in a result.
func (v *Visitor) answered(id jsonrpc.ID, result []byte) bool {
	if !v.revision.Can(mcp.InputRequired) {
		return false
	}
	v.mu.Lock()
	answer := v.asks[id]
	delete(v.asks, id)
	v.mu.Unlock()
	if answer != nil {
		answer <- result // there is room for the only answer
	}
	return true
}

// receive passes a copy of the message b to v.heard if b is a request or a notification.
func (v *Visitor) receive(b []byte) error {
	v.wired(false, b)
	m, err := jsonrpc.Scan(bytes.Clone(b), jsonrpc.Limits{Bytes: len(b) + 1})
	if err != nil {
		return err
	}
	if v.heard != nil && (m.Kind == jsonrpc.Request || m.Kind == jsonrpc.Notification) {
		v.heard(m)
	}
	return nil
}

// outbox receives the messages that are sent outside of calls.
type outbox struct{ v *Visitor }

func (o outbox) Send(b []byte) error { return o.v.receive(b) }

// visitCall is the Responder of one call.
type visitCall struct {
	v *Visitor

	mu     sync.Mutex
	answer *jsonrpc.Message
}

func (r *visitCall) Event(b []byte) error { return r.v.receive(b) }

// Finish implements transport.Responder.
func (r *visitCall) Finish(b []byte, _ int64) error {
	if b == nil {
		return nil
	}
	r.v.wired(false, b)
	m, err := jsonrpc.Scan(bytes.Clone(b), jsonrpc.Limits{Bytes: len(b) + 1, Tolerant: true})
	if err != nil {
		return errors.New("an answer of " + strconv.Itoa(len(b)) + " bytes cannot be read: " + err.Error())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = m
	return nil
}
