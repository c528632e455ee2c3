package conn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/handshake"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/mcp/mirror"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/work"
)

// Options configure a conversation with a server. The zero value works: it ignores
// notifications outside of calls and refuses server requests outside of calls.
type Options struct {
	Name string // the server's configured name, for errors and logs
	// Given, Credentials and Clean are those of failure.Facts, for the errors of calls.
	Given, Credentials bool
	Clean              func(string) string

	// Info and Capabilities describe us, or the client that we speak for, as
	// Implementation and ClientCapabilities objects. Nil capabilities mean none.
	Info, Capabilities []byte

	// Notice gets notifications that belong to no call. only is the one conversation that
	// they can concern, 0 for any. It runs on the goroutine that reads the connection and
	// must not block.
	Notice func(m *jsonrpc.Message, only uint64)
	// Events gets a Loss for each message that is not delivered, because it may be one
	// client's or another's or because no client should see it. It also gets a Handshake
	// step when a call is retried because the server was not ready. Nil publishes nothing.
	Events *event.Publisher
	// Ask answers a server request that could not be attributed to a call. The error
	// mcp.ErrCannotAsk refuses it. Ask may block.
	Ask func(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error)

	// Idle is the timeout of a call without any message from the server, Hard the timeout
	// of a call in total. Zero means 60 s and 10 min; a negative value disables the
	// timeout.
	Idle, Hard time.Duration
	// Times, if not nil, returns both timeouts at the start of each call.
	Times func() (idle, hard time.Duration)

	// Posts says that each message on the pipe is an HTTP request of its own, as with
	// HTTP+SSE. That request may outlast the answer.
	Posts bool

	// Params returns the tool arguments to mirror into headers, and whether the tool is
	// known. A nil Params knows no tool.
	Params func(ctx context.Context, f *mcp.ClientInfo, tool string) ([]mirror.Param, bool)

	// Sessions is what the sessions of one server share. Nil means that this is the only
	// session; its ids count from 1.
	Sessions *Sessions

	Log *slog.Logger
}

// Conn is our conversation with one server, after its handshake.
type Conn struct {
	opts    Options
	link    clientTransport
	opening atomic.Pointer[handshake.Outcome] // nil until the handshake is done

	lacks map[string]bool // not declared by the server; read-only
	ready atomic.Bool     // the server has answered a call, so calls no longer wait for it to be ready

	life     context.Context // ends with the link
	end      context.CancelCauseFunc
	sessions *Sessions // of the same server, including this one
	used     used      // ids
	running  atomic.Int64
	asking   work.Group
	slots    chan struct{} // one per open server request

	questionBytes atomic.Int64 // of the open server requests

	mu      sync.Mutex
	closing bool
	asked   map[jsonrpc.ID]context.CancelCauseFunc // open server requests, which the server may cancel

	backlog      [][]byte // answers that wait for the server to read; see respond
	backlogBytes int
}

// clientTransport is what pipeConn and httpConn have in common.
type clientTransport interface {
	// call sends a request and returns its answer. Meanwhile it passes the call's messages
	// to the flow, on the calling goroutine.
	call(ctx context.Context, out *transport.Outgoing, f *flow) (*jsonrpc.Message, error)
	// mates returns the other calls in flight that a server request may belong to that
	// arrived for f, oldest first: all are of one client, and the request does not say which
	// call needs it.
	mates(m *jsonrpc.Message, f *flow) []*flow
	// post sends a notification or a response.
	post(ctx context.Context, out *transport.Outgoing) error
	// tell queues a notification or a response without waiting for the server. It drops the
	// message if the queue is full.
	tell(body []byte) error
	// cancels reports whether a cancelled call needs a notification: closing the stream
	// does not cancel it.
	cancels() bool
	// stalled returns for how long the server has not read although messages wait for it,
	// and whether it has read part of a message.
	stalled() (d time.Duration, midway bool)
	// sent returns how many calls have been sent completely and have no answer, not
	// counting listens.
	sent() int
	// withdraw fails the calls of which nothing has been sent, for as long as the server
	// does not read.
	withdraw()
	// silence returns the time since the server last sent anything. It returns false if
	// that cannot be told because each call has its own stream.
	silence() (time.Duration, bool)
	close() error
}

// Bounds of the open requests of one server: a user may take long to answer. A single
// request may be as long as a message.
const (
	maxQuestions     = 64
	maxQuestionBytes = 16 << 20 // of all of them together
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

// Hello returns what the server said about itself in the handshake.
func (s *Conn) Hello() *mcp.ServerInfo { return &s.opening.Load().Hello }

// Gone is closed when the connection has ended; Err says why.
func (s *Conn) Gone() <-chan struct{} { return s.life.Done() }

// Err returns why the connection has ended, nil while it is open.
func (s *Conn) Err() error { return context.Cause(s.life) }

// Running returns how many calls are in flight, not counting listens.
func (s *Conn) Running() int { return int(s.running.Load()) }

// Silence returns the time since the server last sent anything. It returns false over HTTP,
// where calls do not share a stream and the time means nothing.
func (s *Conn) Silence() (time.Duration, bool) { return s.link.silence() }

// Stalled returns for how long the server has not read although messages wait for it, and
// whether it has read part of a message. It is 0 if nothing waits, and over HTTP, where
// each call has its own connection.
func (s *Conn) Stalled() (d time.Duration, midway bool) { return s.link.stalled() }

// Sent returns how many calls have been sent completely and have no answer, not counting
// listens.
func (s *Conn) Sent() int { return s.link.sent() }

// Withdraw fails all calls of which nothing has been sent, and new calls until the server
// reads again. Their error is ErrStalled, and they count as not sent.
func (s *Conn) Withdraw() { s.link.withdraw() }

// Call relays one call. It blocks until the answer, the end of ctx, the end of the
// connection or a timeout. The error is a *mcp.Error; an error response of the server is a
// Reply. Safe for concurrent use.
func (s *Conn) Call(ctx context.Context, c *mcp.Attempt, caller mcp.Caller) (*mcp.Reply, error) {
	if c.Msg.Method != mcp.MethodListen { // a listen has no end
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
			out.Params = mirror.HeadersFor(specs, c.Msg.Raw, c.Msg.Param("arguments"))
		} else {
			// 2026-07-28 §Streamable HTTP: unrecognised headers are forwarded.
			out.Params = c.Headers
		}
	}
	buf := jsonrpc.GetBuffer(len(c.Msg.Raw) + 320)
	out.Body = dialect.Request(*buf, rev, c, &stamp)
	defer jsonrpc.PutBuffer(buf, out.Body)
	if p := opened.Dialect; p != nil && p.MaxMessage > 0 && len(out.Body) >= p.MaxMessage {
		return nil, s.tooLong(c, p, len(out.Body))
	}
	answer, err := s.send(ctx, &out, f)
	f.finish()
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, transport.ErrNotSent) && !opened.Dialect.Suppresses(mcp.NoteCancelled) {
			s.cancel(n)
		}
		if why := unusable(err); why != "" {
			s.opts.Log.Warn("answer cannot be used", "server", s.opts.Name, "method", excerpt.Name(c.Msg.Method), "cause", why)
		}
		return nil, s.failure(ctx, c, err)
	}
	if opened.Dialect != nil {
		answer = opened.Dialect.Answer(c.Trail, c.Msg.Method, answer)
	}
	return &mcp.Reply{Msg: answer, From: rev, Server: opened.Hello.Info, Status: f.status}, nil
}

// cancel sends the server a cancellation of a call (§Cancellation, all revisions; modern
// ones on pipes only). It does not wait for the server.
func (s *Conn) cancel(n int64) {
	if !s.link.cancels() {
		return
	}
	params := append(append([]byte(`{"requestId":`), jsonrpc.IntID(n)...), `,"reason":"the client has given up or the time is over"}`...)
	s.respond(jsonrpc.AppendNotification(nil, mcp.NoteCancelled, params))
}

// send sends a call unless its context has ended already.
func (s *Conn) send(ctx context.Context, out *transport.Outgoing, f *flow) (*jsonrpc.Message, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", transport.ErrNotSent, context.Cause(ctx))
	}
	return s.link.call(ctx, out, f)
}

// Forward sends a client's notification unchanged.
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

// End marks the conversation as ended and waits for nothing. The owner still has to call
// Close.
func (s *Conn) End(cause error) { s.end(cause) }

// Close ends the conversation and waits for all of its goroutines. It closes the
// connection; stopping a child process behind it is up to its owner.
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
