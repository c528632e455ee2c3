package runtime

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
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
	// Revision is the revision that the visitor uses. Unknown means mcp.LatestLegacy. For a modern
	// revision, Visit returns ErrModern.
	Revision mcp.Revision
	// Info is the visitor's Implementation object, and Capabilities is its capabilities object.
	Info, Capabilities []byte
	// Heard, if set, receives all notifications and server requests for the visitor. It must not
	// block. Each server request must be answered with Visitor.Answer or Visitor.Refuse.
	Heard func(*jsonrpc.Message)
}

// Visitor is a legacy client in this process, connected to the endpoint of one server. Dragoman
// handles it like any other client, so its calls appear in the metrics, in the log and in the list
// of calls. Project.Visit creates a Visitor, and the caller must call Close. Visitor is safe for
// concurrent use.
type Visitor struct {
	project      *Project
	server       string
	conversation transport.Conversation
	heard        func(*jsonrpc.Message)
	lastID       atomic.Int64
}

// ErrModern is the error for a visitor with a modern revision.
var ErrModern = errors.New("a session needs a legacy revision")

// ErrNobody is the error for a visitor of whom nobody has said who it is.
var ErrNobody = errors.New("nobody knows who has started this")

// Visit opens a session with a server. If the server is not configured, or not for the visitor, the error is ErrNoServer.
// If the server cannot be opened, the error is a *jsonrpc.Error.
func (p *Project) Visit(ctx context.Context, server string, o VisitOptions) (*Visitor, error) {
	if o.Revision == mcp.Unknown {
		o.Revision = mcp.LatestLegacy
	}
	if o.Revision.Modern() {
		return nil, ErrModern
	}
	if o.Who == nil {
		return nil, ErrNobody
	}
	p.mu.Lock()
	m := p.single[server]
	p.mu.Unlock()
	if show := p.filter(o.Who); m == nil || show != nil && !show.Shows(catalog.KindServer, server, "") {
		return nil, ErrNoServer
	}
	v := &Visitor{project: p, server: server, heard: o.Heard}
	v.conversation = m.clients.Accept(transport.Peer{Transport: "inmem", Who: o.Who, Remote: o.Remote, Endpoint: server}, outbox{v})
	params := append([]byte(`{"protocolVersion":"`), o.Revision.String()...)
	params = append(append(params, `","capabilities":`...), orObject(o.Capabilities)...)
	params = append(append(append(params, `,"clientInfo":`...), orObject(o.Info)...), '}')
	answer, err := v.Call(ctx, mcp.MethodInitialize, params)
	if err == nil && answer.Kind == jsonrpc.Failure {
		err = wireError(answer)
	}
	if err != nil {
		v.Close()
		return nil, err
	}
	_ = v.conversation.OneWay(ctx, transport.Incoming{Msg: jsonrpc.NewNotification(mcp.NoteInitialized, nil)})
	return v, nil
}

func orObject(b []byte) []byte {
	if len(b) == 0 {
		return []byte("{}")
	}
	return b
}

// Close ends the session and cancels its running calls.
func (v *Visitor) Close() { v.conversation.Close(mcp.ErrCancelled) }

// Call sends a request and waits for the answer. params must be a valid JSON object. It names tools and prompts as the
// server does, whatever name a rule gives them. The answer is
// a result or an error response, in the same form as for other clients. If ctx ends, Call cancels
// the request and returns the cause of ctx.
func (v *Visitor) Call(ctx context.Context, method string, params []byte) (*jsonrpc.Message, error) {
	id := jsonrpc.IntID(v.lastID.Add(1))
	m := jsonrpc.NewRequest(id, method, v.renamed(method, params))
	r := &visitCall{v: v}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	serve := transport.Expect(life, v.conversation, transport.Incoming{Msg: m})
	cancelled := make(chan struct{})
	withdraw := context.AfterFunc(ctx, func() {
		defer close(cancelled)
		note := jsonrpc.NewNotification(mcp.NoteCancelled, append(append([]byte(`{"requestId":`), id...), '}'))
		_ = v.conversation.OneWay(life, transport.Incoming{Msg: note})
	})
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

// renamed returns the params of a request with the name that clients see.
func (v *Visitor) renamed(method string, params []byte) []byte {
	kind := catalog.KindTool
	switch method {
	case mcp.MethodCallTool:
	case mcp.MethodGetPrompt:
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
	_ = v.conversation.OneWay(ctx, transport.Incoming{Msg: jsonrpc.NewResult(id, result)})
}

// Refuse answers a server request with an error.
func (v *Visitor) Refuse(ctx context.Context, id jsonrpc.ID, e *jsonrpc.Error) {
	_ = v.conversation.OneWay(ctx, transport.Incoming{Msg: jsonrpc.NewFailure(id, e)})
}

// receive passes a copy of the message b to v.heard if b is a request or a notification.
func (v *Visitor) receive(b []byte) error {
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
	m, err := jsonrpc.Scan(bytes.Clone(b), jsonrpc.Limits{Bytes: len(b) + 1, Tolerant: true})
	if err != nil {
		return errors.New("an answer of " + strconv.Itoa(len(b)) + " bytes cannot be read: " + err.Error())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = m
	return nil
}
