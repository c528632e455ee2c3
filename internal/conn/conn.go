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

// Options say how a conversation with a server is led. The zero value
// works: nothing is heard outside of calls, and questions outside of calls are
// refused.
type Options struct {
	Name string // the server's configured name, for errors and logs

	// Info and Capabilities describe us, or the client that we speak for, as
	// Implementation and ClientCapabilities objects. Nil capabilities mean none.
	Info, Capabilities []byte

	// Notice hears notifications that belong to no call; only is the one conversation
	// that they can concern, 0 for any. It runs on the goroutine that reads the link
	// and must not block.
	Notice func(m *jsonrpc.Message, only uint64)
	// Events gets what is delivered to nobody, because it may be one client's or
	// another's or because no client should see it; and as a step of the handshake that a
	// call was sent again because the server was not ready for it. Nil publishes nothing.
	Events *event.Publisher
	// Ask answers a server's request that could not be attributed to a call.
	// mcp.ErrCannotAsk refuses it. It may block.
	Ask func(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error)

	// Idle ends a call on which nothing has happened for this long, Hard one that
	// has run this long in all. Zero means 60 s and 10 min; negative disables.
	Idle, Hard time.Duration
	// Times, unless nil, is asked for both at the beginning of each call.
	Times func() (idle, hard time.Duration)

	// Posts says that each message on the pipe is a request of its own, as with
	// HTTP+SSE, which may last for longer than the answer takes.
	Posts bool

	// Params returns what a tool wants mirrored into headers, and whether the tool
	// is known at all. Nil knows none.
	Params func(ctx context.Context, f *mcp.ClientInfo, tool string) ([]mirror.Param, bool)

	// Sessions is what the server's sessions share. Nil is a server with this one
	// session, whose ids are counted from 1.
	Sessions *Sessions

	Log *slog.Logger
}

// Conn is our conversation with one server, after its handshake.
type Conn struct {
	opts    Options
	link    clientTransport
	opening atomic.Pointer[handshake.Outcome] // nil until the handshake is done

	lacks map[string]bool // capabilities that the server has not declared; not written to
	ready atomic.Bool     // it has answered a call, so that it is not waited for any more

	life     context.Context // the conversation's own; ends with its link
	end      context.CancelCauseFunc
	sessions *Sessions // of the same server, this one included
	used     used      // ids
	running  atomic.Int64
	asking   work.Group
	slots    chan struct{} // one per question that is open

	questionBytes atomic.Int64 // of the questions that are open

	mu      sync.Mutex
	closing bool
	asked   map[jsonrpc.ID]context.CancelCauseFunc // questions that the server may take back

	backlog      [][]byte // answers that wait for the server, see respond
	backlogBytes int
}

// clientTransport is what the two kinds of clientTransport have in common for a conversation.
type clientTransport interface {
	// call sends a request and returns its answer. While it runs, what belongs to
	// it is given to the flow, by the goroutine that called.
	call(ctx context.Context, out *transport.Outgoing, f *flow) (*jsonrpc.Message, error)
	// post sends a notification or a response.
	post(ctx context.Context, out *transport.Outgoing) error
	// tell sends a notification or a response, without waiting for the server. It drops
	// the message when too many wait already.
	tell(body []byte) error
	// cancels reports whether the server has to be told that a call was given up:
	// hanging up does not say so.
	cancels() bool
	// stalled returns for how long the server has read nothing although something
	// waits for it, and whether it has read a part of a message.
	stalled() (d time.Duration, midway bool)
	// sent returns how many calls, listens aside, have been sent whole and have no
	// answer.
	sent() int
	// withdraw gives up the calls of which nothing has been sent, as long as the
	// server does not read.
	withdraw()
	// silence returns for how long nothing was heard, and false where the link cannot
	// tell: each call has a stream of its own there.
	silence() (time.Duration, bool)
	close() error
}

// The bounds of the requests of one server that are open at once: a person may look at
// a question for long. A single one may be as long as a message.
const (
	maxQuestions     = 64
	maxQuestionBytes = 16 << 20 // of all of them together
)

func newServer(o Options) *Conn {
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

// Opening returns how the handshake went.
func (s *Conn) Opening() *handshake.Outcome { return s.opening.Load() }

// Revision returns the revision that is spoken.
func (s *Conn) Revision() mcp.Revision { return s.opening.Load().Revision }

// Hello returns what the server said of itself.
func (s *Conn) Hello() *mcp.ServerInfo { return &s.opening.Load().Hello }

// Gone is closed when the link has ended; Err says why.
func (s *Conn) Gone() <-chan struct{} { return s.life.Done() }

// Err returns why the link has ended, nil while it stands.
func (s *Conn) Err() error { return context.Cause(s.life) }

// Running returns how many calls are in flight, listens aside.
func (s *Conn) Running() int { return int(s.running.Load()) }

// Silence returns for how long nothing at all was heard of the server, and false
// where that says nothing, because its calls share no pipe.
func (s *Conn) Silence() (time.Duration, bool) { return s.link.silence() }

// Stalled returns for how long the server has read nothing although something waits
// for it, and whether it has read a part of a message. It is 0 where all is read, and
// over HTTP, where each call has a connection of its own.
func (s *Conn) Stalled() (d time.Duration, midway bool) { return s.link.stalled() }

// Sent returns how many calls, listens aside, have been sent whole and have no answer.
func (s *Conn) Sent() int { return s.link.sent() }

// Withdraw gives up all calls of which nothing has been sent, and those to come as
// long as the server reads nothing: they fail as not sent, with ErrStalled.
func (s *Conn) Withdraw() { s.link.withdraw() }

// Call relays one call and blocks until its answer, the end of ctx, the end of
// the link or the deadline. The error is a *mcp.Error, a server's own error is a
// Reply. Safe for concurrent use.
func (s *Conn) Call(ctx context.Context, c *mcp.Attempt, sink mcp.Caller) (*mcp.Reply, error) {
	if c.Msg.Method != mcp.MethodListen { // which would go on for ever
		s.running.Add(1)
		defer s.running.Add(-1)
	}
	opened := s.opening.Load()
	if reply := s.suppress(opened, c); reply != nil {
		return reply, nil
	}
	if s.ready.Load() || opened.Revision.Modern() {
		return s.attempt(ctx, opened, c, sink)
	}
	return s.untilReady(ctx, opened, c, sink)
}

// attempt is Call once.
func (s *Conn) attempt(ctx context.Context, opened *handshake.Outcome, c *mcp.Attempt, sink mcp.Caller) (*mcp.Reply, error) {
	n := s.newID()
	f := &flow{server: s, call: c, sink: sink, n: n}
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
			// 2026-07-28 §Streamable HTTP: what is not recognised is forwarded.
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

// cancel tells the server that nobody waits for a call any more (§Cancellation, all
// revisions; on pipes the modern ones too). It does not wait for the server.
func (s *Conn) cancel(n int64) {
	if !s.link.cancels() {
		return
	}
	params := append(append([]byte(`{"requestId":`), jsonrpc.IntID(n)...), `,"reason":"the client has given up or the time is over"}`...)
	s.respond(jsonrpc.AppendNotification(nil, mcp.NoteCancelled, params))
}

// send sends a call that its client has not given up already.
func (s *Conn) send(ctx context.Context, out *transport.Outgoing, f *flow) (*jsonrpc.Message, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", transport.ErrNotSent, context.Cause(ctx))
	}
	return s.link.call(ctx, out, f)
}

// Notify sends a notification in the server's own words; params may be nil.
func (s *Conn) Notify(ctx context.Context, method string, params []byte) error {
	if s.Opening().Dialect.Suppresses(method) {
		return nil
	}
	return s.link.post(ctx, &transport.Outgoing{
		Body: jsonrpc.AppendNotification(nil, method, params), Method: method, Rules: s.rules(),
	})
}

// Forward sends a client's notification as it is.
func (s *Conn) Forward(ctx context.Context, raw []byte, method string) error {
	if s.Opening().Dialect.Suppresses(method) {
		s.lose(nil, method, "the server's dialect has no such notification")
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

// End says that the conversation is over without waiting for anything; whoever
// owns it still has to Close it.
func (s *Conn) End(cause error) { s.end(cause) }

// Close ends the conversation and waits until nothing of it runs. The link is
// closed; a child behind it is its owner's to stop.
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
