package conn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/spans"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Options configure the connection to a server. With the zero value, the connection ignores
// notifications, and refuses server requests that do not belong to a call.
type Options struct {
	Name string // the server's configured name, for errors and logs
	// Given, Credentials and Clean are used for the errors of calls. They have the same meaning as
	// in failure.Facts. Clean also masks what the log says of the server's messages.
	Given, Credentials bool
	Clean              func(string) string

	// Info is an Implementation object and Capabilities is a ClientCapabilities object. They describe
	// Dragoman, or the client for which Dragoman connects. Nil Capabilities mean no capabilities.
	Info, Capabilities []byte
	// Extension is the extension with which Dragoman authorizes itself to this server; "" for none. Those
	// with which clients authorize themselves to Dragoman end here.
	Extension string

	// Notice gets notifications that do not belong to a call. The parameter only is the one
	// conversation that the notification may belong to, or 0 if it may belong to any conversation.
	// Notice runs on the goroutine that reads the connection, and must not block.
	Notice func(m *jsonrpc.Message, only uint64)
	// Events gets a Loss for each message that Dragoman does not deliver, because the message may
	// belong to several clients, or because no client should get it. Events also gets a Handshake
	// step for each call that is retried because the server was not ready. Events may be nil.
	Events *event.Publisher
	// Ask answers a server request that could not be attributed to a call. If Ask is nil or returns an
	// error, the request is refused. Ask may block.
	Ask func(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error)

	// Own refuses elicitations that lead to Dragoman itself. It may be nil.
	Own *mcp.Own

	// Idle is the maximum time of a call without a message from the server. Hard is the maximum
	// time of a call in total. Zero means 60 s for Idle, and 10 min for Hard. A negative value
	// disables the timeout.
	Idle, Hard time.Duration
	// Times returns the current values of both timeouts. If Times is nil, Idle and Hard are used.
	Times func() (idle, hard time.Duration)

	// Posts means that each message is a separate HTTP request, as with HTTP+SSE, where the HTTP
	// request of a call may end after the call. OpenHTTP sets Posts.
	Posts bool

	// Answered is called when a server request that went to a client has been answered or refused. It must
	// not block, and may be nil.
	Answered func(method string)

	// Vouchers signs who has sent a call. Only a server of ours may have one; nil means that this is none.
	Vouchers identity.VoucherKey

	// Params returns the tool arguments to mirror into headers, and whether the tool is known. The
	// error says why clients must leave out the tool. If Params is nil, all tools are unknown.
	Params func(ctx context.Context, f *mcp.ClientInfo, tool string) (params []mirror.Param, known bool, err error)

	// Sessions is the state that all sessions of one server share. Nil means that this session is the
	// only one, and that its request ids start at 1.
	Sessions *Sessions

	Log *slog.Logger
}

// Conn is the connection to one server, after its handshake.
type Conn struct {
	opts    Options
	link    clientTransport
	opening atomic.Pointer[handshake.Outcome] // nil until the handshake is done

	lacks map[string]bool // capabilities that the server has not declared; read-only
	ready atomic.Bool     // whether the server has answered a call with a result; see untilReady

	life     context.Context // ends with the connection
	end      context.CancelCauseFunc
	sessions *Sessions // shared by all sessions of the server
	used     used      // the request ids of this session
	running  atomic.Int64
	asking   work.Group
	slots    chan struct{} // contains one element per open server request

	questionBytes atomic.Int64 // total bytes of the open server requests

	mu    sync.Mutex
	state connState // only update touches it
}

// clientTransport contains the methods that pipeConn and httpConn have in common.
type clientTransport interface {
	// call sends a request and returns the answer. Before the answer arrives, call passes the other
	// messages of the call to f. It does this on the goroutine of its caller.
	call(ctx context.Context, out *transport.Outgoing, f *flow) (*jsonrpc.Message, error)
	// peers returns the other calls in flight that the server request m may belong to, oldest
	// first. m was attributed to the call of f. All returned calls belong to the same client as f.
	// If m names its call, peers returns nil.
	peers(m *jsonrpc.Message, f *flow) []*flow
	// post sends a notification or a response.
	post(ctx context.Context, out *transport.Outgoing) error
	// notify queues a notification or a response without waiting for the server. If the queue is
	// full, notify drops the message and returns an error.
	notify(body []byte) error
	// cancels reports whether Dragoman must send a notification to cancel a call. No notification
	// is necessary if closing the stream cancels the call.
	cancels() bool
	// stalled returns how long the server has not read although messages are waiting for it,
	// and whether it has read only a part of a message.
	stalled() (d time.Duration, midway bool)
	// sent returns the number of calls that were sent completely and have no answer yet. It does
	// not include subscriptions/listen calls.
	sent() int
	// withdraw fails all calls of which no byte was sent. New calls also fail until the server
	// reads again.
	withdraw()
	// silence returns the time since the server last sent anything. Over HTTP, it returns false,
	// because each call has its own stream.
	silence() (time.Duration, bool)
	close() error
}

// These constants limit the open server requests of one Conn, because a user may take long to answer
// a request. If no other request is open, a request may be longer than maxQuestionBytes.
const (
	maxQuestions     = 64
	maxQuestionBytes = 16 << 20 // total bytes of all open server requests
)

func newConn(o Options) *Conn {
	c := &Conn{opts: o, sessions: o.Sessions, slots: make(chan struct{}, maxQuestions)}
	c.state.asked = make(map[jsonrpc.ID]func(error))
	if c.sessions == nil {
		c.sessions = &Sessions{}
	}
	c.life, c.end = context.WithCancelCause(context.Background())
	if c.opts.Log == nil {
		c.opts.Log = slog.New(slog.DiscardHandler)
	}
	if c.opts.Clean == nil {
		c.opts.Clean = func(text string) string { return text }
	}
	return c
}

// shown returns a name for the log. It's masked before it's cut, so that no part of a secret remains.
func (c *Conn) shown(name string) string { return excerpt.Name(c.opts.Clean(name)) }

// Opening returns the outcome of the handshake.
func (c *Conn) Opening() *handshake.Outcome { return c.opening.Load() }

// Revision returns the negotiated revision.
func (c *Conn) Revision() mcp.Revision { return c.opening.Load().Revision }

// Hello returns the server information from the handshake.
func (c *Conn) Hello() *mcp.ServerInfo { return &c.opening.Load().Hello }

// Gone returns a channel that is closed when the connection has ended. Err returns the reason.
func (c *Conn) Gone() <-chan struct{} { return c.life.Done() }

// Err returns why the connection has ended, or nil while it is open.
func (c *Conn) Err() error { return context.Cause(c.life) }

// Running returns the number of calls in flight. It does not include subscriptions/listen calls.
func (c *Conn) Running() int { return int(c.running.Load()) }

// Silence returns the time since the server last sent anything. Over HTTP, it returns false, because
// each call has its own stream.
func (c *Conn) Silence() (time.Duration, bool) { return c.link.silence() }

// Stalled returns how long messages have been waiting for the server while the server read nothing. It
// returns 0 if no messages are waiting, and over HTTP. midway is true if the server has read only a part
// of a message.
func (c *Conn) Stalled() (d time.Duration, midway bool) { return c.link.stalled() }

// Sent returns the number of calls that were sent completely and have no answer yet. It does not
// include subscriptions/listen calls. Over HTTP, it returns 0.
func (c *Conn) Sent() int { return c.link.sent() }

// Withdraw fails all calls of which no byte was sent. New calls also fail until the server reads
// again. The errors of these calls wrap transport.ErrStalled and have the outcome mcp.NotSent. Over
// HTTP, Withdraw does nothing.
func (c *Conn) Withdraw() { c.link.withdraw() }

// Call sends one call to the server and returns the answer. It blocks until the answer arrives, the
// call times out, or ctx or the connection ends. The error is an *mcp.Error. If the server answers
// with an error response, Call returns the response as a Reply. Call is safe for concurrent use.
func (c *Conn) Call(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	if a.Msg.Method != mcp.MethodListen { // subscriptions/listen is not counted, because it may last as long as the connection
		c.running.Add(1)
		defer c.running.Add(-1)
	}
	opened := c.opening.Load()
	if reply := c.suppress(opened, a); reply != nil {
		return reply, nil
	}
	if c.ready.Load() || opened.Revision.Modern() {
		return c.attempt(ctx, opened, a, k)
	}
	return c.untilReady(ctx, opened, a, k)
}

// attempt sends the call once.
func (c *Conn) attempt(ctx context.Context, opened *handshake.Outcome, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	if a.Span != nil {
		return c.traced(ctx, opened, a, k)
	}
	return c.exchange(ctx, opened, a, k, nil)
}

// exchange is attempt for a call whose leg to the server is leg, which is nil if the call is not traced.
func (c *Conn) exchange(ctx context.Context, opened *handshake.Outcome, a *mcp.Attempt, k mcp.Caller, leg *spans.Span) (*mcp.Reply, error) {
	n := c.newID()
	f := &flow{server: c, call: a, caller: k, n: n}
	f.begin(ctx)
	defer f.end()
	ctx = f.ctx

	rev := opened.Revision
	stamp, out := &f.stamp, &f.out
	*stamp = dialect.Stamp{ID: jsonrpc.IntID(n), Info: a.Client.Info, Capabilities: mcp.ForHop(a.Capabilities(), c.opts.Extension), Level: a.Level}
	if !a.Token.IsZero() {
		stamp.Token = []byte(stamp.ID)
	}
	if c.opts.Vouchers != nil {
		stamp.Trusts = true
		if v, ok := c.opts.Vouchers.Vouch(a.Client.Who); ok {
			stamp.Voucher = mcp.VoucherValue(v)
		}
	}
	*out = transport.Outgoing{ID: stamp.ID, Method: a.Msg.Method, Rules: &opened.Rules}
	if a.Method != nil && a.Method.NameKey != "" { // 2026-07-28 §Streamable HTTP has Mcp-Name for no other method
		out.Name = a.Name
	}
	if leg != nil {
		c.carry(leg, stamp, out)
	}
	if refused := c.mirrorParams(ctx, a, out); refused != nil {
		return refused, nil
	}
	buf := jsonrpc.GetBuffer(len(a.Msg.Raw) + 320)
	out.Body = dialect.Request(*buf, rev, a, stamp)
	defer jsonrpc.PutBuffer(buf, out.Body)
	if p := opened.Dialect; p != nil && p.MaxMessage > 0 && len(out.Body) >= p.MaxMessage {
		return nil, c.tooLong(a, p, len(out.Body))
	}
	out.Trail, out.Passage = a.Trail, a.Trail.Sent(trails.ServerWire, out.Body)
	answer, err := c.send(ctx, out, f)
	f.finish()
	if err == nil && answer.Cut != nil && (a.Method == nil || answer.Cut.Key != a.Method.ListKey) {
		// The result is not the list that Dragoman asked for, so it must be whole.
		err = &transport.BadAnswer{ID: stamp.ID, Err: answer.Cut.Err}
	}
	if err != nil {
		if ctx.Err() != nil && err != errClosed && !errors.Is(err, transport.ErrNotSent) && !opened.Dialect.Suppresses(mcp.NoteCancelled) {
			c.cancel(a.Trail, n)
		}
		if why := unusable(err); why != "" {
			c.opts.Log.Warn("answer is not valid", "server", c.opts.Name, "method", c.shown(a.Msg.Method), "cause", c.opts.Clean(why))
		}
		failed := c.failure(ctx, a, err)
		if a.Trail != nil {
			a.Trail.Failed(out.Passage, excerpt.Cut(failed.Message, maxFailed))
		}
		return nil, failed
	}
	cut := answer.Cut
	if opened.Dialect != nil {
		answer = opened.Dialect.Answer(a.Trail, a.Msg.Method, answer)
	}
	return &mcp.Reply{Msg: answer, From: rev, Server: opened.Hello.Info, Status: f.status, Cut: cut}, nil
}

// mirrorParams adds the headers that mirror the arguments of a tool call, where the revision has them. It returns the
// answer to a call of a tool that is left out.
func (c *Conn) mirrorParams(ctx context.Context, a *mcp.Attempt, out *transport.Outgoing) *mcp.Reply {
	if !out.Rules.MirrorHeaders || c.opts.Params == nil || a.Msg.Method != mcp.MethodCallTool {
		return nil
	}
	specs, known, err := c.opts.Params(ctx, a.Client, a.Name)
	switch {
	case err != nil:
		return mcp.Fail(leftOut(a, err))
	case known:
		out.Params = mirror.HeadersFor(specs, a.Args)
	default:
		// 2026-07-28 §Streamable HTTP: headers that are not recognised are forwarded. Without the
		// tool's schema, Dragoman recognises no header.
		out.Params, out.Forwarded = a.Headers, true
	}
	return nil
}

// cancel sends the server a cancellation of a call (§Cancellation, in all revisions except modern
// ones over HTTP). It does not wait for the server.
func (c *Conn) cancel(t *trails.Trail, n int64) {
	if !c.link.cancels() {
		return
	}
	params := append(append([]byte(`{"requestId":`), jsonrpc.IntID(n)...), `,"reason":"the client cancelled the request or the timeout expired"}`...)
	note := jsonrpc.AppendNotification(nil, mcp.NoteCancelled, params)
	t.Sent(trails.ServerWire, note)
	c.respond(note)
}

// maxFailed is the maximum length, in bytes, of the error text that a trail keeps for a failed
// attempt.
const maxFailed = 512

// send sends a call, unless ctx has already ended.
func (c *Conn) send(ctx context.Context, out *transport.Outgoing, f *flow) (*jsonrpc.Message, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", transport.ErrNotSent, context.Cause(ctx))
	}
	return c.link.call(ctx, out, f)
}

// Forward sends a client's notification unchanged. It drops a notification that the dialect of the
// server does not support.
func (c *Conn) Forward(ctx context.Context, raw []byte, method string) error {
	if c.Opening().Dialect.Suppresses(method) {
		c.publishLoss(nil, method, "the server does not support this notification")
		return nil
	}
	return c.link.post(ctx, &transport.Outgoing{Body: raw, Method: method, Rules: c.rules()})
}

func (c *Conn) rules() *transport.Rules {
	if opened := c.opening.Load(); opened != nil {
		return &opened.Rules
	}
	return &transport.Rules{}
}

// End marks the connection as ended and returns immediately. The owner must still call Close.
func (c *Conn) End(cause error) { c.end(cause) }

// Close ends the connection and waits for all of its goroutines. If there is a child process
// behind the connection, the owner must stop it.
func (c *Conn) Close(cause error) error {
	if cause == nil {
		cause = errClosed
	}
	c.end(cause)
	c.update(func(st *connState) { st.closing = true })
	err := c.link.close()
	c.asking.Wait()
	return err
}
