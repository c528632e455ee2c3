package downstream

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/spans"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Endpoint accepts clients. Its fields must not change after the first Accept.
type Endpoint struct {
	Handler Handler
	// Rules returns what counts now. It's asked at each handshake and each modern request, so that a
	// reload takes effect without a restart; a legacy session keeps the revision that it has. It must
	// not block. Nil means the zero Rules.
	Rules func() *Rules
	// Events publishes each handshake, and each loss that the revision of a client causes. If
	// Events is nil, nothing is published.
	Events *event.Publisher
	// Calls stores the calls of clients. If Calls is nil, they are not stored.
	Calls *calls.Ring
	// Budget bounds the total bytes of the messages of all clients. Nil means no bound. ServePipe
	// counts the requests on a pipe. The transport counts the requests over HTTP.
	Budget *transport.Budget
	Log    *slog.Logger
	// Traces starts a span for each call. Nil means that calls are not traced.
	Traces *spans.Tracer

	singles  atomic.Int64 // number of running requests that belong to no conversation
	visitors visitors
	mu       sync.Mutex
	open     map[string]int        // number of conversations by transport
	sessions map[*Session]struct{} // all conversations
}

// Rules say how an Endpoint receives its clients. They are not changed after Endpoint.Rules has
// returned them.
type Rules struct {
	// Revisions lists the revisions that clients may use, newest first. Nil means all. A modern
	// request with another revision is refused. If Strict is set, initialize with another revision
	// is refused too. If Strict is not set, a client that sends such an initialize gets the newest
	// legacy revision in the list, if there is one.
	Revisions []mcp.Revision
	Strict    bool
	// ManifestClient limits the time to answer an initialize without params. A client that sends
	// such an initialize never sends tools/list and gives up soon. So the answer contains the tools
	// that are ready within this time. 0 means 8 s.
	ManifestClient time.Duration
}

var noRules = &Rules{}

// rules returns what counts now.
func (r *Endpoint) rules() *Rules {
	if r.Rules == nil {
		return noRules
	}
	return r.Rules()
}

// Conversations returns the number of conversations by transport. requests is the number of
// running requests that are independent of a conversation, such as modern HTTP requests.
func (r *Endpoint) Conversations() (byTransport map[string]int, requests int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.open), int(r.singles.Load())
}

// count adds a conversation if n is 1, and removes it if n is -1.
func (r *Endpoint) count(c *Session, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open, r.sessions = make(map[string]int), make(map[*Session]struct{})
	}
	r.open[c.transport] += n
	if n > 0 {
		r.sessions[c] = struct{}{}
	} else {
		delete(r.sessions, c)
	}
}

// conversations is the number of the last conversation in the process. Endpoints share servers,
// and server requests are routed to clients by these numbers. So the numbers must be unique
// across all endpoints.
var conversations atomic.Uint64

// Accept starts a conversation with a client; see transport.Acceptor.
func (r *Endpoint) Accept(p transport.Peer, out transport.Outbox) transport.Conversation {
	if out == nil {
		one := &independent{Session: Session{endpoint: r, who: p.Who, remote: p.Remote}}
		one.only = &one.caller
		return &one.Session
	}
	c := &Session{endpoint: r, who: p.Who, remote: p.Remote, out: out}
	c.number = conversations.Add(1)
	c.transport = p.Transport
	c.active.begin()
	r.count(c, 1)
	return c
}

// independent is the Session of an independent request, and the caller of this request.
type independent struct {
	Session
	caller requestCaller
}

// Session handles one conversation with a client. A conversation is a legacy session, or a pipe on
// which both eras may be used. A Session can also handle a single independent request, such as a
// modern HTTP request.
type Session struct {
	endpoint  *Endpoint
	who       *identity.Principal
	remote    string
	transport string
	out       transport.Outbox // nil for an independent request
	only      *requestCaller   // for the independent request, until it begins
	number    uint64
	manifest  atomic.Bool // the client sent initialize without params; see manifest.go

	settled    atomic.Pointer[mcp.ClientInfo] // what info becomes when initialize is answered
	info       atomic.Pointer[mcp.ClientInfo] // set by initialize, or by an earlier legacy request; nil before
	modernInfo atomic.Pointer[mcp.ClientInfo] // from the last modern request of the conversation; nil before the first one
	active     activity                       // activity of the conversation

	mu       sync.Mutex
	closed   error // why the conversation has ended; nil while it is open
	inflight map[jsonrpc.ID]*inflight
	arriving map[*inflight]struct{}
	asks     map[int64]*ask
	lastAsk  int64
	detach   func()
	extras   *extras // what the client has set, if another process can go on with the session; nil for nothing
}

// inflight is a client's request that has no answer yet.
type inflight struct {
	id     jsonrpc.ID
	ctx    context.Context
	cancel context.CancelCauseFunc
	listen bool // the request is subscriptions/listen, which runs until the client cancels it or disconnects
	over   bool // the client has cancelled the request; guarded by Session.mu
	// record is the record of the request's call. It is nil before the call begins and after it has
	// ended. Guarded by Session.mu.
	record *calls.Record
}

func newInflight(ctx context.Context, m *jsonrpc.Message) *inflight {
	f := &inflight{id: m.ID, listen: m.Method == mcp.MethodListen}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	return f
}

// Expect registers a request, and returns the function that serves the request. A cancellation can
// find the registered request even before the function runs; see transport.Expecter. Expect
// registers requests instead of ids, because a client may reuse the id of a cancelled request
// before that request was served.
func (c *Session) Expect(ctx context.Context, in transport.Incoming) func(transport.Responder) {
	if c.out == nil || in.Msg.Method == mcp.MethodInitialize { // initialize cannot be cancelled
		return func(r transport.Responder) { c.Request(ctx, in, r) }
	}
	f := newInflight(ctx, in.Msg)
	c.mu.Lock()
	if c.arriving == nil {
		c.arriving = make(map[*inflight]struct{})
	}
	c.arriving[f] = struct{}{}
	c.mu.Unlock()
	return func(r transport.Responder) {
		defer f.cancel(nil)
		defer func() { // requests such as ping never call enter, which removes f for other requests
			c.mu.Lock()
			delete(c.arriving, f)
			c.mu.Unlock()
		}()
		c.request(f.ctx, in, r, f)
	}
}

// ClientInfo returns what is known about a legacy client. It is nil until initialize, or another
// legacy request, sets it.
func (c *Session) ClientInfo() *mcp.ClientInfo { return c.info.Load() }

// Request serves one request; see transport.Conversation.
func (c *Session) Request(ctx context.Context, in transport.Incoming, r transport.Responder) {
	c.request(ctx, in, r, nil)
}

// request serves one request. expected is what Expect registered for the request, or nil.
func (c *Session) request(ctx context.Context, in transport.Incoming, r transport.Responder, expected *inflight) {
	if c.out == nil {
		c.endpoint.singles.Add(1)
		defer c.endpoint.singles.Add(-1)
	} else {
		c.active.note(true)
	}
	opening, bad := in.Opening, (*jsonrpc.Error)(nil)
	if opening.Revision == mcp.Unknown {
		opening, bad = mcp.Classify(in.Msg, in.Version, in.HTTP)
		if bad == nil && opening.Revision.Modern() {
			bad = mcp.CheckModern(in.Msg, opening)
		}
	}
	if bad != nil {
		c.refused(in.Msg, bad)
		c.fail(in.Msg.ID, r, bad)
		return
	}
	if opening.Revision.Modern() {
		c.modern(ctx, in, opening, r, expected)
		return
	}
	c.legacy(ctx, in, opening, r, expected)
}

// enter adds a request to c.inflight. It does nothing for an independent request. expected is what
// Expect registered for the request, or nil. The function leave removes the request and reports
// whether the client has cancelled it. Further calls of leave return the same result.
func (c *Session) enter(ctx context.Context, m *jsonrpc.Message, expected *inflight) (_ context.Context, _ *inflight, leave func() (cancelled bool), _ *jsonrpc.Error) {
	if c.out == nil {
		return ctx, nil, func() bool { return false }, nil
	}
	f := expected
	if f == nil {
		f = newInflight(ctx, m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.arriving, f)
	if c.closed != nil {
		f.cancel(c.closed)
		return ctx, nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the connection of the client has ended"}
	}
	leave = func() bool {
		c.mu.Lock()
		if c.inflight[f.id] == f {
			delete(c.inflight, f.id)
		}
		over := f.over
		c.mu.Unlock()
		f.cancel(nil)
		return over
	}
	if f.over {
		// The client has cancelled the request, and its id is already free.
		return f.ctx, f, leave, nil
	}
	if _, dup := c.inflight[f.id]; dup {
		f.cancel(nil)
		// §Base, all revisions: an id must not be reused while it is in flight.
		return ctx, nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "a request with this id is still running"}
	}
	if c.inflight == nil {
		c.inflight = make(map[jsonrpc.ID]*inflight)
	}
	c.inflight[f.id] = f
	return f.ctx, f, leave, nil
}

func (c *Session) modern(ctx context.Context, in transport.Incoming, o mcp.Opening, r transport.Responder, expected *inflight) {
	m := in.Msg
	if method := mcp.LookupMethod(m.Method); method != nil && !method.In(o.Revision) {
		// Refuse methods that the revision has removed, even if the server supports them
		// (2026-07-28 §Changelog).
		c.fail(m.ID, r, mcp.MethodNotFound(m.Method))
		return
	}
	speaks := c.endpoint.rules().speaks()
	if !slices.Contains(speaks, o.Revision) {
		bad := mcp.UnsupportedAmong(m.ID, o.Revision.String(), speaks)
		c.refused(m, bad)
		c.fail(m.ID, r, bad)
		return
	}
	ctx, flight, leave, bad := c.enter(ctx, m, expected)
	if bad != nil {
		c.fail(m.ID, r, bad)
		return
	}
	defer leave()
	call := mcp.NewCall(m, o.Meta, c.clientOf(m, o))
	c.noteModern(call.Client)
	call.Headers, call.HTTP, call.Failed = in.Params, in.HTTP, in.Failed
	call.Level = call.Client.LogLevel
	if m.Method == mcp.MethodDiscover {
		start := time.Now()
		h, err := c.endpoint.Handler.Hello(ctx, call.Client)
		c.opened(m, call.Client, start, err)
		leave()
		if err != nil {
			c.failHandshake(call, r, err)
			return
		}
		own := *h
		own.Versions = mcp.Dates(speaks) // the revisions of the endpoint, not those of the server
		_ = r.Finish(jsonrpc.AppendResult(nil, m.ID, dialect.Hello(o.Revision, &own)), 0)
		return
	}
	s := c.only
	if s != nil {
		c.only = nil
	} else {
		s = new(requestCaller)
	}
	s.client, s.call, s.responder, s.request, s.flight = c, call, r, in.Request, flight
	c.serve(ctx, call, s, leave)
}

// clientOf reads the client information from a modern request.
func (c *Session) clientOf(m *jsonrpc.Message, o mcp.Opening) *mcp.ClientInfo {
	var at [3]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, o.Meta, clientKeys, at[:])
	f := &mcp.ClientInfo{
		Revision:     o.Revision,
		Info:         at[0].Of(m.Raw),
		Capabilities: at[1].Of(m.Raw),
		Who:          c.who,
		Conversation: c.number,
		Remote:       c.remote,
	}
	if !at[2].IsZero() {
		s, _ := jsonrpc.Text(m.Raw, at[2])
		f.LogLevel, _ = mcp.ParseLogLevel(s)
	}
	return f
}

var clientKeys = []string{mcp.KeyClientInfo, mcp.KeyClientCaps, mcp.KeyLogLevel}

func (c *Session) legacy(ctx context.Context, in transport.Incoming, o mcp.Opening, r transport.Responder, expected *inflight) {
	m := in.Msg
	info := c.info.Load()
	switch {
	case m.Method == mcp.MethodInitialize:
		c.initialize(ctx, m, o, r)
		return
	case m.Method == mcp.MethodPing:
		_ = r.Finish(jsonrpc.AppendResult(nil, m.ID, []byte("{}")), 0)
		return
	case info == nil:
		// Reference servers answer any request before initialize, and some clients rely on that.
		// o.Revision is then the revision for clients that do not name one.
		info = c.adopt(o.Revision)
	}
	var flight *inflight
	leave, bad := func() bool { return false }, (*jsonrpc.Error)(nil)
	if !in.HTTP || info.Info != nil || expected != nil {
		// A request over HTTP without a session is not registered: the client cannot cancel it, and
		// many such clients use the same id for all requests. The ids need not be unique, because
		// each request has its own HTTP response.
		ctx, flight, leave, bad = c.enter(ctx, m, expected)
	}
	if bad != nil {
		c.fail(m.ID, r, bad)
		return
	}
	defer leave()
	call := mcp.NewCall(m, o.Meta, info)
	call.Failed = in.Failed
	switch m.Method {
	case mcp.MethodSetLevel:
		c.setLevel(m, info)
	case mcp.MethodSubscribe:
		// Some clients never send notifications/initialized, but a client that subscribes wants
		// notifications.
		c.attach()
	}
	c.serve(ctx, call, &requestCaller{client: c, call: call, responder: r, request: in.Request, flight: flight, live: true}, leave)
}

// adopt stores and returns client information for a client that has not sent initialize.
func (c *Session) adopt(rev mcp.Revision) *mcp.ClientInfo {
	f := &mcp.ClientInfo{Revision: rev, Who: c.who, Conversation: c.number, Remote: c.remote}
	if !c.info.CompareAndSwap(nil, f) {
		return c.info.Load()
	}
	return f
}

func (c *Session) setLevel(m *jsonrpc.Message, old *mcp.ClientInfo) {
	s, _ := jsonrpc.Text(m.Raw, m.Param("level"))
	if level, ok := mcp.ParseLogLevel(s); ok {
		f := *old
		f.LogLevel = level
		c.info.Store(&f)
	}
}

// serve runs a call to its end. It removes the call from the table of requests in flight before
// it answers, because a client may reuse the id as soon as it has the answer.
func (c *Session) serve(ctx context.Context, call *mcp.Call, s *requestCaller, leave func() (cancelled bool)) {
	if call.Number == 0 {
		call.Number = c.endpoint.Events.NextCall()
	}
	if c.endpoint.Traces != nil {
		c.startSpan(call, &s.request)
	}
	record, sent, cancelled, moved := c.endpoint.Calls.Begin(call, &s.request), 0, false, false
	c.follow(s.flight, record)
	defer func() {
		c.follow(s.flight, nil)
		if moved {
			record.Drop()
		} else {
			record.End(sent, cancelled)
		}
		if call.Span != nil {
			call.Span.End()
		}
	}()
	var reply *mcp.Reply
	var err error
	if utf8.ValidString(call.Name) {
		reply, err = c.endpoint.Handler.Call(ctx, call, s)
	} else {
		// Dragoman routes calls by their names, so names must be valid text.
		err = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params." + call.Method.NameKey + " is not valid Unicode: it contains half of a surrogate pair"}
	}
	if err != nil {
		var to *transport.Elsewhere
		if errors.As(err, &to) && s.forward(to) {
			moved = to.Again // whoever serves it has it among its calls
			leave()
			return
		}
		err = endingError(ctx, err)
		reply = mcp.Fail(err)
		var e *mcp.Error
		if errors.As(err, &e) && e.TooMany {
			s.postpone(e.RetryAfter)
		}
	}
	if leave() {
		// §Cancellation, all revisions: a cancelled request gets no answer.
		s.finish(nil, 0)
		cancelled = true
		return
	}
	// The answer stays in memory until the client has read it, so the budget counts its bytes.
	if m := call.Msg.Method; s.live && reply.Code() == 0 && (m == mcp.MethodSetLevel || m == mcp.MethodSubscribe || m == mcp.MethodUnsubscribe) {
		c.note(call)
	}
	size := int64(len(reply.Msg.Raw))
	c.endpoint.Budget.Hold(size)
	defer c.endpoint.Budget.Give(size)
	buf := jsonrpc.GetBuffer(len(reply.Msg.Raw) + 256)
	out := dialect.Reply(*buf, call, reply)
	s.finish(out, dialect.Code(call, reply))
	jsonrpc.PutBuffer(buf, out)
	c.publishLosses(call, reply.Losses)
	sent = len(out)
}

// follow sets the record of the request f. Both may be nil.
func (c *Session) follow(f *inflight, record *calls.Record) {
	if f == nil || c.endpoint.Calls == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f.record = record
}

// publishLosses publishes the losses of a call. call is nil for losses outside calls.
func (c *Session) publishLosses(call *mcp.Call, all mcp.Losses) {
	for _, l := range all {
		call.TraceLoss(l.What, l.Why)
		e := event.Event{Kind: event.Loss, Level: slog.LevelDebug, Who: c.who, Name: l.What, Detail: l.Why}
		if call != nil {
			e.Method, e.Call, e.From = call.Msg.Method, call.Number, call.Client.Revision
		}
		c.endpoint.Events.Publish(e)
	}
}

func encode(call *mcp.Call, reply *mcp.Reply) []byte {
	return dialect.Reply(make([]byte, 0, len(reply.Msg.Raw)+256), call, reply)
}

func (c *Session) fail(id jsonrpc.ID, r transport.Responder, e *jsonrpc.Error) {
	_ = r.Finish(jsonrpc.AppendError(nil, id, e), e.Code)
}

// OneWay handles a notification or a response; see transport.Conversation.
func (c *Session) OneWay(ctx context.Context, in transport.Incoming) error {
	m := in.Msg
	if c.out != nil {
		c.active.note(false)
	}
	if m.Kind == jsonrpc.Result || m.Kind == jsonrpc.Failure {
		c.takeResponse(m, in.Request)
		return nil
	}
	switch m.Method {
	case mcp.NoteCancelled:
		c.cancelRequest(m, in.Request)
	case mcp.NoteInitialized:
		c.attach()
	case mcp.NoteProgress:
		c.takeProgress(m)
	default:
		f := c.info.Load()
		if f == nil || m.Method == noteShutdown && c.manifest.Load() {
			return nil
		}
		c.endpoint.Handler.Notify(ctx, f, m)
	}
	return nil
}

// cancelRequest cancels the request that a notification names, and frees its id. It ignores
// unknown and finished requests (§Cancellation, all revisions).
func (c *Session) cancelRequest(m *jsonrpc.Message, from transport.Request) {
	id := jsonrpc.ID(m.Param("requestId").Of(m.Raw))
	var all []*inflight
	c.mu.Lock()
	if f := c.inflight[id]; f != nil {
		delete(c.inflight, id)
		all = append(all, f)
	}
	for f := range c.arriving {
		if f.id == id {
			delete(c.arriving, f)
			all = append(all, f)
		}
	}
	for _, f := range all {
		f.over = true
		// The lock must be held here. Once the method follow has removed the record from f, the
		// record may be in use for another call.
		f.record.Received(m.Raw, &from)
	}
	c.mu.Unlock()
	for _, f := range all {
		f.cancel(mcp.ErrCancelled)
	}
}

func (c *Session) attach() {
	f := c.info.Load()
	if f == nil || c.out == nil {
		return
	}
	c.mu.Lock()
	if c.closed != nil || c.detach != nil {
		c.mu.Unlock()
		return
	}
	c.detach = func() {}
	c.mu.Unlock()
	detach := c.endpoint.Handler.Subscribe(f, sessionSubscriber{c})
	c.mu.Lock()
	if c.closed == nil {
		c.detach, detach = detach, nil
	}
	c.mu.Unlock()
	if detach != nil {
		detach()
	}
}

// endListens ends all open subscriptions/listen requests, which otherwise run until the client
// disconnects.
func (c *Session) endListens(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.inflight {
		if f.listen {
			f.cancel(cause)
		}
	}
}

var errDisconnected = errors.New("the client has disconnected")

// Close ends the conversation; see transport.Conversation.
func (c *Session) Close(cause error) {
	if cause == nil {
		cause = errDisconnected
	}
	c.mu.Lock()
	if c.closed != nil {
		c.mu.Unlock()
		return
	}
	c.closed = cause
	inflight, asks, detach := c.inflight, c.asks, c.detach
	c.inflight, c.asks, c.detach = nil, nil, nil
	c.mu.Unlock()
	if c.out != nil {
		c.endpoint.count(c, -1)
	}
	for _, f := range inflight {
		f.cancel(cause)
	}
	for _, a := range asks {
		a.resolve(nil, transport.Request{}, cause)
	}
	if detach != nil {
		detach()
	}
}

// endingError returns the error for a call that failed with err. If Dragoman itself has ended ctx, for
// example because it stops, the returned error says why, and keeps what err says about the outcome of
// the call.
func endingError(ctx context.Context, err error) error {
	why := mcp.EndedBy(ctx)
	if why == nil {
		return err
	}
	var e *mcp.Error
	var wire *jsonrpc.Error
	switch {
	case errors.As(err, &e) && e != why:
		if e.Cause != "cancelled" {
			return err
		}
		end := *why
		end.Upstream, end.Outcome, end.Retryable = e.Upstream, e.Outcome, e.Outcome == mcp.NotSent
		end.Op, end.Err = e.Op, err
		return &end
	case e == nil && errors.As(err, &wire):
		return err
	}
	return why
}
