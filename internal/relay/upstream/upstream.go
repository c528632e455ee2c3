package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/conn"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Isolation says which clients may share a session of a legacy server.
type Isolation string

// These are the values of Isolation. The zero value means Auto.
const (
	Auto    Isolation = "auto"   // one pool per principal and capability set
	Shared  Isolation = "shared" // one session for all clients
	PerCall Isolation = "call"   // a new session for every call
)

// Spec describes a server. A Spec must not be modified after it is passed to New.
type Spec struct {
	Name string

	// Command starts a child process on stdio. If it is empty, URL is used.
	Command string
	Args    []string
	Env     map[string]string // environment variables in addition to the inherited ones
	Dir     string
	// Inherit reports whether the child inherits a variable of Dragoman's environment that is not a
	// basic variable; see stdio.Environ. If Inherit is nil, the child inherits only basic
	// variables.
	Inherit func(name string) bool

	// Pipe opens a pipe to an in-process server or to a test. If Pipe is not nil, it is called for
	// each session, and Command and URL are not used. The session owns the pipe and closes it.
	Pipe func(ctx context.Context) (transport.Pipe, error)

	// Adapter converts the child's protocol to MCP. It is nil if the child speaks MCP.
	Adapter Adapter
	// AdapterFor returns the adapter for a dialect that a handshake has detected (see
	// handshake.Error), or nil if there is no adapter for the dialect. AdapterFor may be nil.
	AdapterFor func(dialect string) Adapter

	// Unusable is the reason why Dragoman cannot open the server with its configuration. It is nil
	// if the configuration can be used. If Unusable is not nil, the server is in the state Broken
	// from the start, and Dragoman does not try to open it.
	Unusable error

	URL    string
	Shown  string // the part of Command or URL that users may see; if it is "", users see only the name
	Header []Header
	// Given says that the server was configured on the command line and not in a file. Advice to
	// the user then mentions flags.
	Given bool
	// Credentials authorise the requests of each principal to an HTTP server. If it is nil, only Header
	// is used.
	Credentials Credentials
	Kind        string // "http" or "sse"; "" means that the transport is detected
	// CAFile is a PEM file of certificate authorities that are trusted in addition to those of
	// the system, or "". The file is read for each session, so that it can be replaced.
	CAFile string

	Isolation Isolation
	// OneClient says that only one client uses the server. Dragoman then declares this client's own
	// capabilities to the server.
	OneClient bool
	Pin       mcp.Revision // the only allowed revision; if it is Unknown, the revision is negotiated

	// Dialect is the dialect that the operator has configured. If it is nil, Dragoman detects which
	// of Dialects the server speaks. If Dialects is also nil, Dragoman uses the built-in dialects
	// instead.
	Dialect  *dialect.Profile
	Dialects []*dialect.Profile

	// Message is the maximum length in bytes of one message from the server. 0 means 16 MiB.
	Message int

	// Start is the timeout for opening a session, including the handshake. 0 means 30 s. Idle and
	// Hard are the timeouts of a call; see conn.Options. SetTimes changes all three.
	Start, Idle, Hard time.Duration
	// Silence applies to servers on a pipe. If a call is running and the server sends nothing for
	// this time, Dragoman pings the server. 0 means 5 s.
	Silence time.Duration
	// Ping is the interval at which idle legacy sessions are pinged. 0 means never. SetTimes also
	// changes Ping.
	Ping time.Duration
}

// Times are the timeouts of a server, and the interval of its pings; see Spec.
type Times struct{ Start, Idle, Hard, Ping time.Duration }

// SetTimes changes the timeouts of future handshakes and calls, and the interval of pings.
func (u *Upstream) SetTimes(t Times) {
	if before := u.times.Swap(&t); before == nil || before.Ping == t.Ping {
		return
	}
	u.mu.Lock()
	defer u.unlock()
	u.pingNoted = false
	for _, s := range u.sessionsLocked() {
		u.startPingsLocked(s)
		u.checkInAMinuteLocked(s)
	}
}

// piped reports whether the server is on a pipe and not on HTTP. A server on a pipe has no headers,
// and its transport does not have to be detected.
func (s *Spec) piped() bool { return s.Command != "" || s.Pipe != nil }

// Stepper is implemented by a pipe from Adapter.Adapt that performs a handshake of its own with the
// child. Steps returns the steps so far. Errors and the trace of the server then name these steps, and
// not the messages of MCP that only the adapter has seen.
type Stepper interface{ Steps() handshake.Trace }

// Adapter converts between the protocol of a child and MCP. Its methods are safe for concurrent
// use, since a server may have several children.
type Adapter interface {
	// Admit is called before each start. It may block. If it returns an error, the child is not
	// started. The error must be a sentence.
	Admit(ctx context.Context) error
	// Adapt takes ownership of p, the pipe to a new child. It returns a pipe on which the messages
	// have the form of a legacy revision of MCP. Closing the returned pipe also closes p. Each
	// server request on the returned pipe must have the progress token of its call, even if the
	// client sent no token. With this token, Dragoman can attribute the request, so several clients
	// may share the pipe.
	Adapt(p transport.Pipe) transport.Pipe
	// Environ returns additional environment variables for each child, in the form NAME=VALUE. If
	// the configuration sets a variable of the same name, or the child inherits one, that variable
	// takes precedence.
	Environ() []string
	// Readiness describes the state of the children in one word.
	Readiness() string
	// Negotiated returns the protocol version of the last handshake with a child. cause says why
	// this is not the newest version, or why the handshake failed. Both results may be "".
	Negotiated() (version, cause string)
	// Handshakes counts the handshakes with children, by protocol version and cause. There are only
	// a few different versions and causes.
	Handshakes() map[[2]string]uint64
}

// Header is a configured HTTP header.
type Header struct{ Name, Value string }

// Options connect an upstream to the rest of the program. The zero value is valid.
type Options struct {
	// Info is the Implementation object that Dragoman sends to the server in a session without a
	// client.
	Info []byte
	// Changed is called after a list of the server has changed. kind is "tools", "prompts" or
	// "resources". If any list may have changed, for example after a restart, kind is "". Changed
	// must not block.
	Changed func(kind string)
	// Events receives the events of the server, such as handshakes, the steps of each open, and
	// losses. If it is nil, nothing is published.
	Events *event.Publisher
	// Exposed says that clients may be on other machines. Errors for clients then do not contain
	// output of the server's process.
	Exposed bool
	// Clean removes secrets from text that comes from the server, its process or the network,
	// before the text is logged or shown. If Clean is nil, the text is not changed.
	Clean func(text string) string
	// Stderr is called with each line on stderr of the server's processes; see
	// stdio.Spec.OnStderr. Several goroutines may call it. It may be nil.
	Stderr func(line []byte)
	// Sessions assigns the request ids of the server's sessions. If it is nil, the ids start at a
	// random number. Tests that compare bytes use a Sessions that starts at 1.
	Sessions *conn.Sessions
	// Starts limits how many servers start at the same time. Nil means no limit.
	Starts *Starts
	// Own refuses elicitations that lead to Dragoman itself. It may be nil.
	Own *mcp.Own
	Log *slog.Logger
}

// Upstream manages one server. New creates it and Close ends it.
type Upstream struct {
	spec Spec
	opts Options

	forms      knownForms
	toolMemory toolMemory
	refusals   refusals

	// New creates the following failures in advance. They are needed under mu, but Clean must not
	// be called under mu.
	unresponsive, stalled, removed, cancelled, stoppedFailure *failure.Failure

	times    atomic.Pointer[Times]
	cut      atomic.Bool // the log already says that Dragoman truncated the instructions
	sessions *conn.Sessions
	numbers  atomic.Uint64 // the number of the newest session

	life context.Context
	end  context.CancelCauseFunc
	work work.Group // the goroutines for opens, session ends and listens; Close closes work under mu

	graceful context.Context // until this context ends, children can exit by themselves; after that, Dragoman kills them
	kill     context.CancelFunc

	mu              sync.Mutex
	pools           map[string]*pool
	canon           canon
	links           map[string]*link // links to a modern server, by credential scope
	era             mcp.Revision
	noLegacy        bool // the server is modern and does not support the legacy era
	adapter         Adapter
	solo            bool // the server can only run once; see goSoloLocked
	skipProbe       bool
	silent          bool // the server does not answer the probe
	hung            bool // the last attempt to open the server took briefHold or longer, and failed
	sse             bool
	status          Status
	backoff         work.Backoff // counts consecutive failed opens and early ends of sessions
	notBefore       time.Time    // before this time, calls do not open the server
	lastErr         error        // the error for calls before notBefore
	kept            bool         // the server is kept open; see KeepOpen
	healTimer       *time.Timer  // timer of the next attempt in the background, or nil
	nextTry         time.Time    // time of the next attempt in the background, or zero
	opened          time.Time    // when a session was last opened; zero after a failure
	awaySince       time.Time    // since when the server has been needed but not ready; zero if it is ready
	tries           int          // number of attempts since awaySince; concurrent opens are one attempt
	closed          bool
	pingNoted       bool // the log already says that the server is not pinged
	up              bool // the server is open
	starts          int  // number of starts
	fault           Fault
	lastEnd         endLog // the last end of the server; see countEnd
	trace           handshake.Trace
	tracedAt        time.Time
	tools           map[string]*toolSpecs // the cached tools; setLocked returns the keys
	leftOut         leftOut               // items that clients do not see
	lines           []logLine             // queued log lines, which unlock writes
	forwardings     []forwarding
	forwardingBytes int
	isForwarding    bool       // a goroutine sends the queued notifications
	eraChecking     *eraCheck  // the running era check, or nil
	nextEraCheck    time.Time  // no era check starts before this time
	eraChecks       int        // number of consecutive era checks without a change
	leaving         []*session // sessions that are out of service and in no pool, but have not ended yet
	operated
}

// State describes a server in one word.
type State string

// These are the values of State.
const (
	Idle     State = "idle"     // the server is not open; the next call opens it
	Starting State = "starting" // the server is being opened
	Ready    State = "ready"
	// Broken means that the last open failed, or that the server is kept open and has ended; see
	// Status.Reason. A new attempt does not change the state until it succeeds.
	Broken State = "failed"
	// Unresponsive means that the server does not answer a ping, or does not read its input; see
	// Status.Reason. Dragoman pings a server if calls are waiting and no message arrives. If
	// Spec.Ping is set, it also pings an idle server.
	Unresponsive State = "unresponsive"
	// Stopped means that an operator has stopped the server. Only Start, Restart and Probe open
	// it again.
	Stopped State = "stopped"
)

// Status describes the state of a server for users.
type Status struct {
	Name  string
	State State
	// Since is when the state began. A server that is ready stays in this state while sessions
	// for other clients are opened and closed.
	Since  time.Time
	Reason string // one sentence that explains the state, such as why the server failed; may be ""
	// Failure describes Reason in more detail. It may be nil. It must not be modified.
	Failure  *failure.Failure
	Attempts int       // number of consecutive failures; 0 if the server is ready or stopped
	Retry    time.Time // when the next attempt in the background begins, or else when calls may open the server again; zero for neither
	Revision mcp.Revision
	Sessions int
	Running  int // number of calls in flight
	// Unasked counts the answers that match no open request. Odd counts the messages that could not
	// be used, except those that Unasked and Late count. Broadcasts says that the server sends
	// messages for one session to all of its sessions.
	Unasked    int64
	Odd        int64
	Late       int64 // progress notifications for requests that had already ended
	Broadcasts bool
	// Readiness is the result of Adapter.Readiness, or "" without an adapter. Version and Cause
	// are the results of Adapter.Negotiated.
	Readiness, Version, Cause string
	// Handshakes is the result of Adapter.Handshakes, or nil without an adapter.
	Handshakes map[[2]string]uint64
}

// New returns an upstream. It does not start the server.
func New(spec Spec, o Options) *Upstream {
	u := &Upstream{spec: spec, opts: o, pools: make(map[string]*pool), links: make(map[string]*link), adapter: spec.Adapter}
	if u.opts.Clean == nil {
		u.opts.Clean = func(text string) string { return text }
	}
	if u.opts.Log == nil {
		u.opts.Log = slog.New(slog.DiscardHandler)
	}
	u.numbers.Store(firstNumber())
	u.SetTimes(Times{Start: spec.Start, Idle: spec.Idle, Hard: spec.Hard, Ping: spec.Ping})
	u.sessions = o.Sessions
	if u.sessions == nil {
		u.sessions = conn.NewSessions()
	}
	u.sessions.OnBroadcast(func() {
		u.opts.Log.Warn("server sends messages for one session to all sessions", "server", u.spec.Name,
			"effect", "while several clients call the server, Dragoman delivers only server requests and log messages that name their call")
	})
	u.life, u.end = context.WithCancelCause(context.Background())
	u.graceful, u.kill = context.WithCancel(context.Background())
	u.opens, u.endOpens = context.WithCancelCause(u.life)
	u.unresponsive = failure.Of(nil, failure.Facts{
		Class: failure.Silent, Server: spec.Name, Cause: "timeout", Sentence: reasonUnresponsive,
		Action: "read the log of the server; Dragoman restarts the server if it still does not answer",
	})
	u.removed = failure.Of(nil, failure.Facts{Server: spec.Name, Cause: "removed"})
	u.stoppedFailure = failure.Of(nil, failure.Facts{Server: spec.Name, Cause: "stopped"})
	u.cancelled = failure.Of(nil, failure.Facts{Server: spec.Name, Cause: "cancelled"})
	u.stalled = failure.Of(nil, failure.Facts{Class: failure.Stalled, Server: spec.Name, Cause: "stalled", Sentence: reasonStalled})
	u.status = Status{Name: spec.Name, State: Idle, Since: time.Now()}
	if spec.Unusable != nil {
		f := u.failureOf(spec.Unusable)
		e := u.unavailable(spec.Unusable, f.Cause)
		e.Retryable = false
		u.explain(e, f)
		u.lastErr = e
		u.faultLocked(f)
		u.setFailedLocked(Broken, f)
	}
	return u
}

// Name returns the configured name.
func (u *Upstream) Name() string { return u.spec.Name }

// Status returns the current state of the server.
func (u *Upstream) Status() Status {
	u.mu.Lock()
	s := u.statusLocked()
	adapter := u.adapter
	u.mu.Unlock()
	if adapter != nil {
		s.Readiness, s.Handshakes = adapter.Readiness(), adapter.Handshakes()
		s.Version, s.Cause = adapter.Negotiated()
	}
	return s
}

func (u *Upstream) statusLocked() Status {
	s := u.status
	s.Late = u.sessions.LateProgress()
	s.Unasked, s.Odd, s.Broadcasts = u.sessions.Unasked(), u.sessions.Odd(), u.sessions.Broadcasts()
	if s.State != Ready && s.State != Stopped {
		s.Attempts = u.backoff.Failures()
		s.Retry = u.nextTry
		if s.Retry.IsZero() && time.Now().Before(u.notBefore) {
			s.Retry = u.notBefore
		}
	}
	for _, x := range u.sessionsLocked() {
		s.Sessions++
		s.Running += x.server.Running()
	}
	u.reportSoloLocked(&s)
	u.reportHungLocked(&s)
	u.reportStallsLocked(&s)
	return s
}

func (u *Upstream) setStateLocked(st State, reason string) {
	if u.status.State != st || u.status.Reason != reason {
		u.status.State, u.status.Reason, u.status.Since = st, reason, time.Now()
	}
	u.status.Failure = nil
}

// setFailedLocked sets the state, with the failure f as its reason.
func (u *Upstream) setFailedLocked(st State, f *failure.Failure) {
	u.setStateLocked(st, f.Sentence)
	u.status.Failure = f
}

// replaceFailure replaces the failure before with the more detailed failure now: in the last fault,
// in the status, and in the error for later calls.
func (u *Upstream) replaceFailure(before, now *failure.Failure) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.fault.Failure == before {
		u.fault.Text, u.fault.Failure = now.Sentence, now
	}
	if u.status.Failure == before {
		u.status.Reason, u.status.Failure = now.Sentence, now
	}
	var e *mcp.Error
	if errors.As(u.lastErr, &e) && e.Failure == before {
		later := *e
		u.explain(&later, now)
		u.lastErr = &later
	}
}

var errStopped = fmt.Errorf("%w, or Dragoman is stopping", conn.ErrRemoved)

// Close ends all sessions and child processes, and waits until they have ended. When ctx ends,
// Close kills the remaining children.
func (u *Upstream) Close(ctx context.Context) {
	defer context.AfterFunc(ctx, u.kill)()
	u.mu.Lock()
	u.closed = true
	u.stopHealingLocked()
	for _, s := range u.sessionsLocked() {
		if s.reap != nil {
			s.reap.Stop()
		}
		s.stopCheck()
		s.stopPings()
		u.work.Go(func() { s.shut(u.graceful, errStopped) })
	}
	u.work.Close()
	u.mu.Unlock()
	u.end(errStopped)
	u.work.Wait()
	u.kill()
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

// Hello returns the server information from the handshake. If necessary, it opens the server for
// the client f, which may be nil. While the server is unavailable, Hello returns an error with the
// reason. It never returns information from an earlier handshake.
func (u *Upstream) Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	l, err := u.acquire(ctx, f, mcp.Need{})
	if err != nil {
		return nil, err
	}
	defer l.Release()
	return l.s.server.Hello(), nil
}

// isOver reports whether the error of a call says that the session does not accept more calls.
func isOver(err error) bool {
	var e *mcp.Error
	return errors.Is(err, conn.ErrSessionLost) || errors.Is(err, conn.ErrLinkOver) || errors.As(err, &e) && e.Cause == "exited"
}

// missesHeader reports whether a modern server refused a call because a mirrored header was missing
// or wrong. Such a call was not executed.
func (u *Upstream) missesHeader(s *session, a *mcp.Attempt, r *mcp.Reply) bool {
	return r.Code() == mcp.CodeHeaderMismatch && a.Msg.Method == mcp.MethodCallTool &&
		s.server.Revision().Can(mcp.MirroredHeaders) && u.spec.Command == ""
}

// publishLoss publishes a loss. The caller must not hold mu.
func (u *Upstream) publishLoss(what, why string) {
	u.opts.Events.Publish(event.Event{Kind: event.Loss, Level: slog.LevelDebug, Server: u.spec.Name, Name: what, Detail: why})
}

// forwarding is a notification from a client, in the queue for the client's sessions.
type forwarding struct {
	to     []*session
	raw    []byte
	method string
}

// These constants bound the queue of notifications for a server that does not read its input, and
// the time to send one notification.
const (
	maxForwardings     = 64
	maxForwardingBytes = 1 << 20 // the last notification in the queue may exceed this limit
	forwardTimeout     = 10 * time.Second
)

// Forward queues a notification from the client f for the client's sessions. The notifications are
// sent in the order in which they were queued. Forward does not wait for the server, because it is
// called on the goroutine that reads from the client. A modern server has no sessions, so Forward
// drops a notification for such a server and publishes a loss. Each request to a modern server
// describes the client anyway.
func (u *Upstream) Forward(f *mcp.ClientInfo, raw []byte, method string) {
	if why := u.queueForwarding(f, u.Scope(f), raw, method); why != "" {
		u.publishLoss(method, why)
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
		return "the server's revision does not have notifications from the client"
	case len(x.to) == 0:
		return ""
	case len(u.forwardings) >= maxForwardings, u.forwardingBytes >= maxForwardingBytes:
		return "the server does not read its input"
	}
	u.forwardingBytes += len(raw)
	u.forwardings = append(u.forwardings, x)
	if !u.isForwarding {
		u.isForwarding = true
		u.work.Go(u.forwardAll)
	}
	return ""
}

// forwardAll sends the queued notifications until the queue is empty.
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
				u.opts.Log.Debug("notification not delivered", "server", u.spec.Name, "method", x.method, "cause", err.Error())
			}
		}
	}
}
