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

// Options configure the connection to a server. The zero value works: it ignores notifications
// and refuses server requests outside calls.
type Options struct {
	Name string // the server's configured name, for errors and logs
	// Given, Credentials and Clean are used for the errors of calls. They have the same meaning as
	// in failure.Facts.
	Given, Credentials bool
	Clean              func(string) string

	// Info and Capabilities describe Dragoman, or the client on whose behalf it connects, as
	// Implementation and ClientCapabilities objects. Nil capabilities mean none.
	Info, Capabilities []byte

	// Notice gets notifications that do not belong to a call. The parameter only is the one
	// conversation that the notification may concern, or 0 for any. Notice runs on the goroutine
	// that reads the connection, and must not block.
	Notice func(m *jsonrpc.Message, only uint64)
	// Events gets a Loss for each message that is not delivered, because it may belong to several
	// clients, or because no client should get it. It also gets a Handshake step when a call is
	// retried because the server was not ready. If it is nil, nothing is published.
	Events *event.Publisher
	// Ask answers a server request that could not be attributed to a call. If it returns
	// mcp.ErrCannotAsk, the request is refused. Ask may block.
	Ask func(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error)

	// Idle is the maximum time of a call without a message from the server. Hard is the maximum
	// time of a call in total. Zero means 60 s for Idle, and 10 min for Hard. A negative value
	// disables the timeout.
	Idle, Hard time.Duration
	// Times returns both timeouts at the start of each call. If it is nil, Idle and Hard are
	// used.
	Times func() (idle, hard time.Duration)

	// Posts says that each message on the pipe is a separate HTTP request, as with HTTP+SSE.
	// Such a request may last longer than the call.
	Posts bool

	// Params returns the tool arguments to mirror into headers, and whether the tool is known.
	// If Params is nil, all tools are unknown.
	Params func(ctx context.Context, f *mcp.ClientInfo, tool string) ([]mirror.Param, bool)

	// Sessions is the state that all sessions of one server share. Nil means that this is the
	// only session. Its ids then start at 1.
	Sessions *Sessions

	Log *slog.Logger
}

// Conn is the connection to one server, after its handshake.
type Conn struct {
	opts    Options
	link    clientTransport
	opening atomic.Pointer[handshake.Outcome] // nil until the handshake is done

	lacks map[string]bool // capabilities that the server has not declared; read-only
	ready atomic.Bool     // the server has answered a call, so calls need not wait until it is ready

	life     context.Context // ends with the connection
	end      context.CancelCauseFunc
	sessions *Sessions // shared by all sessions of the server
	used     used      // the request ids of this session
	running  atomic.Int64
	asking   work.Group
	slots    chan struct{} // contains one element per open server request

	questionBytes atomic.Int64 // bytes of the open server requests

	mu      sync.Mutex
	closing bool
	asked   map[jsonrpc.ID]context.CancelCauseFunc // open server requests, by id; the server may cancel them

	backlog      [][]byte // answers for a server that does not read; see respond
	backlogBytes int
}

// clientTransport contains the methods that pipeConn and httpConn have in common.
type clientTransport interface {
	// call sends a request and returns its answer. It passes the messages of the call to the
	// flow, on the goroutine of the caller.
	call(ctx context.Context, out *transport.Outgoing, f *flow) (*jsonrpc.Message, error)
	// mates returns the other calls in flight that the server request m may belong to, oldest
	// first. m arrived on the flow f, but does not name its call. All these calls belong to the
	// same client.
	mates(m *jsonrpc.Message, f *flow) []*flow
	// post sends a notification or a response.
	post(ctx context.Context, out *transport.Outgoing) error
	// tell queues a notification or a response without waiting for the server. If the queue is
	// full, it drops the message.
	tell(body []byte) error
	// cancels reports whether a cancelled call needs a notification. It does not need one if
	// closing the stream cancels the call.
	cancels() bool
	// stalled returns how long the server has not read although messages are waiting for it,
	// and whether it has read a part of a message.
	stalled() (d time.Duration, midway bool)
	// sent returns the number of calls that were sent completely and have no answer. Open
	// subscriptions/listen do not count.
	sent() int
	// withdraw fails the calls of which nothing was sent. New calls fail too until the server
	// reads again.
	withdraw()
	// silence returns the time since the server last sent anything. It returns false if that is
	// not known, because each call has its own stream.
	silence() (time.Duration, bool)
	close() error
}

// These constants bound the open requests of one server, since a user may take long to answer.
// A single request may be as long as a message.
const (
	maxQuestions     = 64
	maxQuestionBytes = 16 << 20 // bytes of all open requests together
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

// Running returns the number of calls in flight. Open subscriptions/listen do not count.
func (s *Conn) Running() int { return int(s.running.Load()) }

// Silence returns the time since the server last sent anything. It returns false over HTTP,
// where each call has its own stream and the time has no meaning.
func (s *Conn) Silence() (time.Duration, bool) { return s.link.silence() }

// Stalled returns how long the server has not read although messages are waiting for it, and
// whether it has read a part of a message. It returns 0 if no messages are waiting, and over
// HTTP, where each call has its own connection.
func (s *Conn) Stalled() (d time.Duration, midway bool) { return s.link.stalled() }

// Sent returns the number of calls that were sent completely and have no answer. Open
// subscriptions/listen do not count.
func (s *Conn) Sent() int { return s.link.sent() }

// Withdraw fails all calls of which nothing was sent. New calls fail too until the server reads
// again. Their error is ErrStalled, and they count as not sent.
func (s *Conn) Withdraw() { s.link.withdraw() }

// Call relays one call. It blocks until the answer, the end of ctx, the end of the connection
// or a timeout. The error is an *mcp.Error. If the server answers with an error response, Call
// returns it as a Reply. Call is safe for concurrent use.
func (s *Conn) Call(ctx context.Context, c *mcp.Attempt, caller mcp.Caller) (*mcp.Reply, error) {
	if c.Msg.Method != mcp.MethodListen { // subscriptions/listen does not count, because it never ends by itself
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
			// 2026-07-28 §Streamable HTTP: headers that are not recognised are forwarded.
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
	if opened.Dialect != nil {
		answer = opened.Dialect.Answer(c.Trail, c.Msg.Method, answer)
	}
	return &mcp.Reply{Msg: answer, From: rev, Server: opened.Hello.Info, Status: f.status}, nil
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

// send sends a call, unless its context has already ended.
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

// End marks the connection as ended. It does not wait. The owner must still call Close.
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
