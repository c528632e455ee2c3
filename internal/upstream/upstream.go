package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/conn"
	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/handshake"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/work"
)

// Isolation says who may share a session of a legacy server.
type Isolation string

// The isolations. The zero value is Auto.
const (
	Auto    Isolation = "auto"   // one pool per principal and capability set
	Shared  Isolation = "shared" // one session for everybody
	PerCall Isolation = "call"   // a fresh session for every call
)

// Spec describes a server. It is not written to after New.
type Spec struct {
	Name string

	// Command starts a child on stdio; otherwise URL names an endpoint.
	Command string
	Args    []string
	Env     map[string]string // beside the allow list
	Dir     string

	// Pipe, unless nil, is called for each session in place of starting Command or
	// dialling URL: for a server within this process, and for tests. The session
	// owns what it returns and closes it.
	Pipe func(ctx context.Context) (transport.Pipe, error)

	// Adapter makes MCP of what the child speaks; nil where it speaks MCP itself.
	Adapter Adapter
	// AdapterFor returns the adapter for a dialect that a handshake has recognised
	// (see handshake.Error), nil where there is none. It may be nil.
	AdapterFor func(dialect string) Adapter

	URL    string
	Shown  string // what people may see of Command or URL; "" for the bare name
	Header []Header
	// Credentials sign the requests of each principal; nil leaves it at Header.
	Credentials Credentials
	Kind        string // "http", "sse", or "" to find out

	Isolation Isolation
	// OneClient says that one client alone uses the server, as it does on a pipe: what
	// it declares reaches the server as it wrote it.
	OneClient bool
	Pin       mcp.Revision // Unknown negotiates

	// Dialect is the one that the operator chose, nil finds out; Dialects are those
	// that are looked for then, nil for the built-in ones.
	Dialect  *dialect.Profile
	Dialects []*dialect.Profile

	// Message bounds one message of the server, in bytes; 0 means 16 MiB.
	Message int

	// Start bounds spawning and the handshake, 0 means 30 s. Idle and Hard bound a
	// call; see conn.Options. SetTimes changes them.
	Start, Idle, Hard time.Duration
	// Silence is how long a server on a pipe may say nothing while a call waits
	// before it is asked whether it is still there; 0 means 15 s.
	Silence time.Duration
}

// Times are the deadlines of a server; see Spec.
type Times struct{ Start, Idle, Hard time.Duration }

// SetTimes changes the deadlines of what begins from now on.
func (u *Upstream) SetTimes(t Times) { u.times.Store(&t) }

// piped reports whether the server is known to be at the other end of a pipe that
// is no HTTP: it has no headers, and no transport is to be found out.
func (s *Spec) piped() bool { return s.Command != "" || s.Pipe != nil }

// Adapter stands between a child that speaks no MCP and the conversation with it.
// Its methods are safe for concurrent use: a server may have several children.
type Adapter interface {
	// Admit is called before each start. It may wait, and its error, a sentence,
	// refuses the start.
	Admit(ctx context.Context) error
	// Adapt takes over the pipe to a child that was just started and returns one
	// that speaks MCP of a legacy revision. Closing that closes both. Each question
	// on it names its call by the progress token of the call, be there one or not,
	// so that calls of several clients may share it.
	Adapt(p transport.Pipe) transport.Pipe
	// Readiness says in a word how the children are.
	Readiness() string
}

// Header is a configured HTTP header.
type Header struct{ Name, Value string }

// Options say who hears of an upstream's life. The zero value works.
type Options struct {
	// Info is the Implementation object by which we introduce ourselves when no
	// client stands behind a session yet.
	Info []byte
	// Changed hears that a list of the server has changed: "tools", "prompts" or
	// "resources", or "" for anything, as after a restart. It must not block.
	Changed func(kind string)
	// Events gets how each handshake went, what is being done while somebody waits for the
	// server, and what could not be said in the words of the other side. Nil publishes
	// nothing.
	Events *event.Publisher
	// Clean takes secrets out of what the server, its program or the network says,
	// before anybody is told of it. Nil leaves all as it is.
	Clean func(text string) string
	// Sessions counts the ids of the server's sessions. Nil makes one that starts at
	// random; tests that compare bytes give one that starts at 1.
	Sessions *conn.Sessions
	Log      *slog.Logger
}

// Upstream is one server that we look after. New makes it, Close ends it.
type Upstream struct {
	spec Spec
	opts Options

	forms    knownForms
	times    atomic.Pointer[Times]
	cut      atomic.Bool // it was told that the server's instructions are
	sessions *conn.Sessions
	numbers  atomic.Uint64 // the last one that a session was given

	life context.Context
	end  context.CancelCauseFunc
	work work.Group // opens, session ends, listens; closed with closed, under mu

	polite context.Context // ends when children are no longer asked but killed
	hurry  context.CancelFunc

	mu              sync.Mutex
	pools           map[string]*pool
	canon           canon
	links           map[string]*link // to a modern server, by credential scope
	era             mcp.Revision
	noLegacy        bool // a modern server that speaks nothing else
	adapter         Adapter
	skipProbe       bool
	silent          bool // it leaves the probe unanswered
	sse             bool
	status          Status
	failures        int       // opens that failed in a row
	notBefore       time.Time // no open before then
	lastErr         error
	closed          bool
	up              bool // has been opened, and not gone since
	starts          int  // how often it has come up
	fault           Fault
	trace           handshake.Trace
	tracedAt        time.Time
	tools           map[string]*toolSpecs // by the canonical capabilities of the clients that have them
	leftOut         map[string]string     // tools that are not listed, and why
	lines           []logLine             // of the log, that unlock writes
	forwardings     []forwarding
	forwardingBytes int
	isForwarding    bool        // a goroutine is at them
	looking         *secondLook // at the server's era; nil while nobody looks
	nextLook        time.Time   // no second look before then
	looks           int         // second looks in a row that found no change
	leaving         []*session  // of an era that is over: in no pool, their calls still run
}

// State is a word for how a server is.
type State string

// The states.
const (
	Idle     State = "idle"     // not needed so far
	Starting State = "starting" // an open is under way
	Ready    State = "ready"
	Broken   State = "failed" // the last open failed; see Reason
	// Unresponsive: calls wait, nothing was heard for a while, and a ping has no
	// answer; or the server does not read what is sent to it. See Reason.
	Unresponsive State = "unresponsive"
)

// Status is how a server is, for people.
type Status struct {
	Name     string
	State    State
	Since    time.Time
	Reason   string // of a failure, a sentence
	Revision mcp.Revision
	Sessions int
	Running  int // calls in flight
	// Unasked counts the answers that nobody waited for. Broadcasts says that the server
	// sends to all of its sessions what is meant for one.
	// Odd counts its other messages that nobody could use.
	Unasked    int64
	Odd        int64
	Broadcasts bool
	// Readiness is the word of the server's Adapter, "" without one.
	Readiness string
}

// New returns an upstream that starts nothing yet.
func New(spec Spec, o Options) *Upstream {
	u := &Upstream{spec: spec, opts: o, pools: make(map[string]*pool), links: make(map[string]*link), adapter: spec.Adapter}
	if u.opts.Clean == nil {
		u.opts.Clean = func(text string) string { return text }
	}
	if u.opts.Log == nil {
		u.opts.Log = slog.New(slog.DiscardHandler)
	}
	u.numbers.Store(firstNumber())
	u.SetTimes(Times{Start: spec.Start, Idle: spec.Idle, Hard: spec.Hard})
	u.sessions = o.Sessions
	if u.sessions == nil {
		u.sessions = conn.NewSessions()
	}
	u.sessions.OnBroadcast(func() {
		u.opts.Log.Warn("server sends messages meant for one session to all sessions", "server", u.spec.Name,
			"effect", "while several clients call it, questions and log messages that do not name their call are not delivered")
	})
	u.life, u.end = context.WithCancelCause(context.Background())
	u.polite, u.hurry = context.WithCancel(context.Background())
	u.status = Status{Name: spec.Name, State: Idle, Since: time.Now()}
	return u
}

// Name returns the configured name.
func (u *Upstream) Name() string { return u.spec.Name }

// Status returns how the server is now.
func (u *Upstream) Status() Status {
	u.mu.Lock()
	s := u.statusLocked()
	adapter := u.adapter
	u.mu.Unlock()
	if adapter != nil {
		s.Readiness = adapter.Readiness()
	}
	return s
}

func (u *Upstream) statusLocked() Status {
	s := u.status
	s.Unasked, s.Odd, s.Broadcasts = u.sessions.Unasked(), u.sessions.Odd(), u.sessions.Broadcasts()
	count := func(x *session) {
		s.Sessions++
		s.Running += x.server.Running()
		if silent, _ := x.server.Silence(); !x.deaf.IsZero() && silent >= time.Since(x.deaf) && s.State == Ready {
			s.State, s.Since, s.Reason = Unresponsive, x.deaf, reasonDeaf
		}
	}
	for _, l := range u.linksLocked() {
		count(l.session)
	}
	for _, p := range u.pools {
		for _, x := range p.sessions {
			count(x)
		}
	}
	for _, x := range u.leaving {
		s.Sessions++
		s.Running += x.server.Running()
	}
	u.sayStallsLocked(&s)
	return s
}

func (u *Upstream) setStateLocked(st State, reason string) {
	if u.status.State != st || u.status.Reason != reason {
		u.status.State, u.status.Reason, u.status.Since = st, reason, time.Now()
	}
}

var errStopped = fmt.Errorf("%w, or Dragoman is stopping", conn.ErrRemoved)

// Close ends all sessions and their children and waits for them. ctx bounds the
// politeness, not the end: when it is over children are killed.
func (u *Upstream) Close(ctx context.Context) {
	defer context.AfterFunc(ctx, u.hurry)()
	u.mu.Lock()
	u.closed = true
	for _, s := range u.sessionsLocked() {
		if s.reap != nil {
			s.reap.Stop()
		}
		u.work.Go(func() { s.shut(u.polite, errStopped) })
	}
	u.work.Close()
	u.mu.Unlock()
	u.end(errStopped)
	u.work.Wait()
	u.hurry()
}

func (u *Upstream) sessionsLocked() []*session {
	var all []*session
	for _, l := range u.linksLocked() {
		all = append(all, l.session)
	}
	for _, p := range u.pools {
		all = append(all, p.sessions...)
	}
	return append(all, u.leaving...)
}

// Hello returns what the server said of itself, opening it for the client f when
// it is not open yet; f may be nil. While the server is away the last word that
// it gave is not repeated: the error says what is wrong.
func (u *Upstream) Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	l, err := u.acquire(ctx, f, false)
	if err != nil {
		return nil, err
	}
	defer l.Release()
	return l.s.server.Hello(), nil
}

// isOver reports whether the error of a call says that its session takes no further
// ones.
func isOver(err error) bool {
	var e *mcp.Error
	return errors.Is(err, conn.ErrSessionLost) || errors.Is(err, conn.ErrLinkOver) || errors.As(err, &e) && e.Cause == "exited"
}

// missesHeader reports whether a modern server refused a call for a mirrored
// header. It has run nothing then.
func (u *Upstream) missesHeader(s *session, c *mcp.Attempt, r *mcp.Reply) bool {
	return r.Code() == mcp.CodeHeaderMismatch && c.Msg.Method == mcp.MethodCallTool &&
		s.server.Revision().Can(mcp.MirroredHeaders) && u.spec.Command == ""
}

// lost publishes a loss. Do not call it while holding mu.
func (u *Upstream) lost(what, why string) {
	u.opts.Events.Publish(event.Event{Kind: event.Loss, Level: slog.LevelDebug, Server: u.spec.Name, Name: what, Detail: why})
}

// forwarding is a client's notification on its way to the sessions that it
// concerns.
type forwarding struct {
	to     []*session
	raw    []byte
	method string
}

// The bounds of what waits for a server that takes no notifications.
const (
	maxForwardings     = 64
	maxForwardingBytes = 1 << 20 // and one more, however long
	forwardTimeout     = 10 * time.Second
)

// Forward passes on a client's notification to the sessions that it concerns, in
// order. It does not wait for the server: the reader of a client's pipe calls it.
// Modern servers have no such sessions: what a client tells of its own changes is
// a loss there, since each request describes the client anew.
func (u *Upstream) Forward(f *mcp.ClientInfo, raw []byte, method string) {
	if why := u.queueForwarding(f, u.scopeOf(f), raw, method); why != "" {
		u.lost(method, why)
	}
}

func (u *Upstream) queueForwarding(f *mcp.ClientInfo, scope string, raw []byte, method string) (lost string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	x := forwarding{raw: raw, method: method}
	if p := u.pools[u.keyLocked(f, scope)]; p != nil {
		x.to = append(x.to, p.sessions...)
	}
	switch {
	case u.closed:
		return ""
	case len(x.to) == 0 && u.useModernLocked(f, scope):
		return "the server's revision has no notifications of clients"
	case len(x.to) == 0:
		return ""
	case len(u.forwardings) >= maxForwardings, u.forwardingBytes >= maxForwardingBytes:
		return "the server takes no notifications"
	}
	u.forwardingBytes += len(raw)
	u.forwardings = append(u.forwardings, x)
	if !u.isForwarding {
		u.isForwarding = true
		u.work.Go(u.forwardAll)
	}
	return ""
}

// forwardAll sends what waits until nothing does.
func (u *Upstream) forwardAll() {
	for {
		u.mu.Lock()
		if len(u.forwardings) == 0 || u.closed {
			u.forwardings, u.forwardingBytes, u.isForwarding = nil, 0, false
			u.mu.Unlock()
			return
		}
		x := u.forwardings[0]
		u.forwardings[0] = forwarding{}
		u.forwardings = u.forwardings[1:]
		u.forwardingBytes -= len(x.raw)
		u.mu.Unlock()
		for _, s := range x.to {
			ctx, stop := context.WithTimeout(u.life, forwardTimeout)
			err := s.server.Forward(ctx, x.raw, x.method)
			stop()
			if err != nil {
				u.opts.Log.Debug("notification was not delivered", "server", u.spec.Name, "method", x.method, "cause", err.Error())
			}
		}
	}
}
