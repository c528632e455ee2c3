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
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
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
	// in failure.Facts.
	Given, Credentials bool
	Clean              func(string) string

	// Info is an Implementation object and Capabilities is a ClientCapabilities object. They describe
	// Dragoman, or the client for which Dragoman connects. Nil Capabilities mean no capabilities.
	Info, Capabilities []byte

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

	// Posts means that each message on the pipe is a separate HTTP request, as with HTTP+SSE. The
	// HTTP request of a call may end after the call.
	Posts bool

	// Params returns the tool arguments to mirror into headers, and whether the tool is known.
	// If Params is nil, all tools are unknown.
	Params func(ctx context.Context, f *mcp.ClientInfo, tool string) ([]mirror.Param, bool)

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

	mu      sync.Mutex
	closing bool
	asked   map[jsonrpc.ID]context.CancelCauseFunc // open server requests, by id; the server may cancel them

	backlog      [][]byte // messages for a server that does not read; see respond
	backlogBytes int
}

// clientTransport contains the methods that pipeConn and httpConn have in common.
type clientTransport interface {
	// call sends a request and returns the answer. Before the answer arrives, call passes the other
	// messages of the call to f. It does this on the goroutine of its caller.
	call(ctx context.Context, out *transport.Outgoing, f *flow) (*jsonrpc.Message, error)
	// mates returns the other calls in flight that the server request m may belong to, oldest
	// first. m was attributed to the call of f. All returned calls belong to the same client as f.
	// If m names its call, mates returns nil.
	mates(m *jsonrpc.Message, f *flow) []*flow
	// post sends a notification or a response.
	post(ctx context.Context, out *transport.Outgoing) error
	// tell queues a notification or a response without waiting for the server. If the queue is
	// full, tell drops the message and returns an error.
	tell(body []byte) error
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
	s := &Conn{opts: o, sessions: o.Sessions, slots: make(chan struct{}, maxQuestions)}
	if s.sessions == nil {
		s.sessions = &Sessions{}
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	if s.opts.Log == nil {
		s.opts.Log = slog.New(slog.DiscardHandler)
	}
	return s
}

// Opening returns the outcome of the handshake.
func (s *Conn) Opening() *handshake.Outcome { return s.opening.Load() }

// Revision returns the negotiated revision.
func (s *Conn) Revision() mcp.Revision { return s.opening.Load().Revision }

// Hello returns the server information from the handshake.
func (s *Conn) Hello() *mcp.ServerInfo { return &s.opening.Load().Hello }

// Gone returns a channel that is closed when the connection has ended. Err returns the reason.
func (s *Conn) Gone() <-chan struct{} { return s.life.Done() }

// Err returns why the connection has ended, or nil while it is open.
func (s *Conn) Err() error { return context.Cause(s.life) }

// Running returns the number of calls in flight. It does not include subscriptions/listen calls.
func (s *Conn) Running() int { return int(s.running.Load()) }

// Silence returns the time since the server last sent anything. Over HTTP, it returns false, because
// each call has its own stream.
func (s *Conn) Silence() (time.Duration, bool) { return s.link.silence() }

// Stalled returns how long messages have been waiting for the server while the server read nothing. It
// returns 0 if no messages are waiting, and over HTTP. midway is true if the server has read only a part
// of a message.
func (s *Conn) Stalled() (d time.Duration, midway bool) { return s.link.stalled() }

// Sent returns the number of calls that were sent completely and have no answer yet. It does not
// include subscriptions/listen calls. Over HTTP, it returns 0.
func (s *Conn) Sent() int { return s.link.sent() }

// Withdraw fails all calls of which no byte was sent. New calls also fail until the server reads
// again. The errors of these calls wrap transport.ErrStalled and have the outcome mcp.NotSent. Over
// HTTP, Withdraw does nothing.
func (s *Conn) Withdraw() { s.link.withdraw() }

// Call sends one call to the server and returns the answer. It blocks until the answer arrives, the
// call times out, or ctx or the connection ends. The error is an *mcp.Error. If the server answers
// with an error response, Call returns the response as a Reply. Call is safe for concurrent use.
func (s *Conn) Call(ctx context.Context, c *mcp.Attempt, caller mcp.Caller) (*mcp.Reply, error) {
	if c.Msg.Method != mcp.MethodListen { // subscriptions/listen is not counted, because it may last as long as the connection
		s.running.Add(1)
		defer s.running.Add(-1)
	}
	opened := s.opening.Load()
	if reply := s.suppress(opened, c); reply != nil {
		return reply, nil
	}
	if s.ready.Load() || opened.Revision.Modern() {
		return s.attempt(ctx, opened, c, caller)
	}
	return s.untilReady(ctx, opened, c, caller)
}

// attempt sends the call once.
func (s *Conn) attempt(ctx context.Context, opened *handshake.Outcome, c *mcp.Attempt, caller mcp.Caller) (*mcp.Reply, error) {
	n := s.newID()
	f := &flow{server: s, call: c, caller: caller, n: n}
	ctx, stop := f.limit(ctx)
	defer stop()
	f.ctx = ctx

	rev := opened.Revision
	stamp := dialect.Stamp{ID: jsonrpc.IntID(n), Info: c.Client.Info, Capabilities: c.Capabilities(), Level: c.Level}
	if !c.Token.IsZero() {
		stamp.Token = []byte(stamp.ID)
	}
	out := transport.Outgoing{ID: stamp.ID, Method: c.Msg.Method, Name: c.Name, Rules: &opened.Rules}
	if out.Rules.MirrorHeaders && s.opts.Params != nil && c.Msg.Method == mcp.MethodCallTool {
		specs, known := s.opts.Params(ctx, c.Client, c.Name)
		if known {
			out.Params = mirror.HeadersFor(specs, c.Args)
		} else {
			// 2026-07-28 §Streamable HTTP: headers that are not recognised are forwarded. Without the
			// tool's schema, Dragoman recognises no header.
			out.Params, out.Forwarded = c.Headers, true
		}
	}
	buf := jsonrpc.GetBuffer(len(c.Msg.Raw) + 320)
	out.Body = dialect.Request(*buf, rev, c, &stamp)
	defer jsonrpc.PutBuffer(buf, out.Body)
	if p := opened.Dialect; p != nil && p.MaxMessage > 0 && len(out.Body) >= p.MaxMessage {
		return nil, s.tooLong(c, p, len(out.Body))
	}
	out.Trail, out.Passage = c.Trail, c.Trail.Sent(jsonrpc.ServerWire, out.Body)
	answer, err := s.send(ctx, &out, f)
	f.finish()
	if err == nil && answer.Cut != nil && (c.Method == nil || answer.Cut.Key != c.Method.ListKey) {
		// The result is not the list that Dragoman asked for, so it must be whole.
		err = &transport.BadAnswer{ID: stamp.ID, Err: answer.Cut.Err}
	}
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, transport.ErrNotSent) && !opened.Dialect.Suppresses(mcp.NoteCancelled) {
			s.cancel(c.Trail, n)
		}
		if why := unusable(err); why != "" {
			s.opts.Log.Warn("answer is not valid", "server", s.opts.Name, "method", excerpt.Name(c.Msg.Method), "cause", why)
		}
		failed := s.failure(ctx, c, err)
		if c.Trail != nil {
			c.Trail.Failed(out.Passage, excerpt.Cut(failed.Message, maxFailed))
		}
		return nil, failed
	}
	cut := answer.Cut
	if opened.Dialect != nil {
		answer = opened.Dialect.Answer(c.Trail, c.Msg.Method, answer)
	}
	return &mcp.Reply{Msg: answer, From: rev, Server: opened.Hello.Info, Status: f.status, Cut: cut}, nil
}

// cancel sends the server a cancellation of a call (§Cancellation, in all revisions except modern
// ones over HTTP). It does not wait for the server.
func (s *Conn) cancel(t *jsonrpc.Trail, n int64) {
	if !s.link.cancels() {
		return
	}
	params := append(append([]byte(`{"requestId":`), jsonrpc.IntID(n)...), `,"reason":"the client cancelled the request or the timeout expired"}`...)
	note := jsonrpc.AppendNotification(nil, mcp.NoteCancelled, params)
	t.Sent(jsonrpc.ServerWire, note)
	s.respond(note)
}

// maxFailed is the maximum length, in bytes, of the error text that a trail keeps for a failed
// attempt.
const maxFailed = 512

// send sends a call, unless ctx has already ended.
func (s *Conn) send(ctx context.Context, out *transport.Outgoing, f *flow) (*jsonrpc.Message, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", transport.ErrNotSent, context.Cause(ctx))
	}
	return s.link.call(ctx, out, f)
}

// Forward sends a client's notification unchanged. It drops a notification that the dialect of the
// server does not support.
func (s *Conn) Forward(ctx context.Context, raw []byte, method string) error {
	if s.Opening().Dialect.Suppresses(method) {
		s.publishLoss(nil, method, "the server does not support this notification")
		return nil
	}
	return s.link.post(ctx, &transport.Outgoing{Body: raw, Method: method, Rules: s.rules()})
}

func (s *Conn) rules() *transport.Rules {
	if opened := s.opening.Load(); opened != nil {
		return &opened.Rules
	}
	return &transport.Rules{}
}

// End marks the connection as ended and returns immediately. The owner must still call Close.
func (s *Conn) End(cause error) { s.end(cause) }

// Close ends the connection and waits for all of its goroutines. If there is a child process
// behind the connection, the owner must stop it.
func (s *Conn) Close(cause error) error {
	if cause == nil {
		cause = errClosed
	}
	s.end(cause)
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	err := s.link.close()
	s.asking.Wait()
	return err
}
