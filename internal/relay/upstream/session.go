package upstream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/conn"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
	"github.com/dragoman-mcp/dragoman/internal/transport/sse"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
)

// session is one session with the server. On stdio, it includes the child process.
type session struct {
	steps  *stepLog
	server *conn.Conn
	child  *stdio.Process // the child process; nil if there is none
	shared bool           // calls share a pipe, and server requests do not always name their call
	pipe   bool           // the session uses a pipe, perhaps with an adapter; false over Streamable HTTP
	// legacyFirst says that the handshake began with initialize, for a legacy client. If the server
	// has then chosen a legacy revision, it may also support the modern era.
	legacyFirst bool
	number      uint64       // the number of the session, unique among the sessions of the server; see mcp.TaskRef
	tasks       mcp.TaskForm // the form of the server's tasks; set before the session is used
	ending      sync.Once
	watched     atomic.Bool // the watch timer is running
	served      atomic.Bool // the session has answered a call from a client
	unanswered  atomic.Bool // unresponsiveSince is set

	// Upstream.mu guards the following fields.
	pool              *pool     // nil for the link to a modern server
	link              *link     // nil for a legacy session
	opened, idle      time.Time // when the session was opened, and when its last lease was released
	taken             bool      // the session has been used for a call; only relevant with isolation "call"
	users             int       // number of leases
	calls             int       // number of leases with Need.ForCall
	owner             uint64
	reap              *time.Timer       // timer that ends an idle session; nil while the session is in use
	over              bool              // the session has ended, and cleanUp has taken it out of service
	check             *time.Timer       // timer of the next check; see checkLaterLocked
	checked           time.Time         // time of the last check
	ping              *time.Timer       // timer of the next ping; nil if the session is not pinged; see ping.go
	pinged            time.Time         // when the last ping ended; zero for none
	outdated          bool              // the session is out of service; see outdateLocked
	outdatedBy        error             // the cause with which an outdated session ends
	noListen          time.Time         // when the server last answered that it does not support subscriptions/listen; zero for never
	keep              time.Time         // the session has tasks, so Dragoman does not end it as idle before this time
	taskOwners        map[string]uint64 // for each task of a legacy server: the conversation that created it; see tasks.go
	level             mcp.LogLevel      // the log level that Dragoman has set on the server; 0 for none
	watch             *time.Timer       // the watch timer; nil if it is not running
	watchedFrom       time.Time
	stall             *time.Timer      // timer that checks whether the server reads; nil while the session is idle
	stuck             bool             // the server does not read its input; see stall.go
	aside             bool             // new calls do not use the session; see setAsideLocked
	missed            bool             // a call needed the session while it was set aside
	unresponsiveSince time.Time        // when the server became unresponsive; zero if it is responsive
	unresponsive      *failure.Failure // why the server is unresponsive; nil if it is responsive
}

// shut ends the session and its child process, and waits until both have ended. When ctx ends, shut
// kills the child.
func (s *session) shut(ctx context.Context, cause error) {
	s.ending.Do(func() {
		_ = s.server.Close(cause)
		if s.child != nil {
			_ = s.child.Stop(ctx)
		}
	})
}

// open starts the server or connects to it, and performs the handshake for the client f. If the
// purpose is purposeCheckEra, it ignores the stored era of the server.
func (u *Upstream) open(ctx context.Context, p *pool, f *mcp.ClientInfo, purpose string) (*session, error) {
	defer u.step("")
	limit := u.times.Load().Start
	if limit <= 0 {
		limit = defaultStart
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s, err := u.dial(ctx, p, f, purpose, false)
	var before handshake.Trace // the traces of earlier attempts
	for try := 0; try < 2 && errors.Is(err, handshake.ErrDiedOnProbe); try++ {
		// If crashesOnProbe is false, the server has answered a probe before, so the exit has
		// another cause. Try again. If the server exits a second time, another server may have
		// replaced it, so remove the stored era.
		u.mu.Lock()
		if crashesOnProbe(err) {
			u.skipProbe = true
		} else if try > 0 {
			u.era = mcp.Unknown
			u.mu.Unlock()
			break
		}
		u.mu.Unlock()
		before = append(before, traceOf(err)...)
		s, err = u.dial(ctx, p, f, purpose, false)
	}
	if errors.Is(err, handshake.ErrRefusedAfterProbe) {
		before = append(before, traceOf(err)...)
		s, err = u.dialUnprobed(ctx, p, f, purpose, err)
	}
	if u.recognise(err) {
		s, err = u.dial(ctx, p, f, purpose, false)
	}
	if errors.Is(err, handshake.ErrTrySSE) && u.spec.Kind == "" {
		u.mu.Lock()
		u.sse = true
		u.mu.Unlock()
		first := err
		if s, err = u.dial(ctx, p, f, purpose, false); err == nil {
			before = append(before, traceOf(first)...)
		} else {
			u.mu.Lock()
			u.sse = false
			u.mu.Unlock()
			err = first
		}
	}
	if err != nil {
		if last := traceOf(err); last != nil {
			u.publishTrace(append(before, last...), mcp.Unknown, err)
		}
		return nil, u.openError(err, u.lookAround(ctx, err))
	}
	u.publishTrace(append(before, s.server.Opening().Trace...), s.server.Revision(), nil)
	u.warnCut(s)
	u.work.Go(func() { u.cleanUp(s) })
	return s, nil
}

// dialUnprobed starts a server again that has refused initialize with the error refusal, because the
// probe may be the reason. If the server accepts initialize now, Dragoman does not probe it again.
func (u *Upstream) dialUnprobed(ctx context.Context, p *pool, f *mcp.ClientInfo, purpose string, refusal error) (*session, error) {
	s, err := u.dial(ctx, p, f, purpose, true)
	if err == nil && s.server.Revision().Legacy() {
		u.mu.Lock()
		u.skipProbe = true
		u.mu.Unlock()
		u.opts.Log.Info("server refuses initialize after server/discover, so Dragoman sends initialize first from now on",
			"server", u.spec.Name, "cause", refusal.Error())
	}
	return s, err
}

// warnCut logs once that the server's instructions were truncated.
func (u *Upstream) warnCut(s *session) {
	for _, f := range s.server.Opening().Findings {
		if f.Code == handshake.FoundLongInstructions && !u.cut.Swap(true) {
			u.opts.Log.Warn("server instructions truncated", "server", u.spec.Name, "cause", f.Text)
			u.publishLoss("instructions", "longer than 64 KiB, so the text was truncated")
		}
	}
}

// traceOf returns the trace of a failed handshake, or nil if err is not the error of a handshake.
func traceOf(err error) handshake.Trace {
	var failed *handshake.Error
	if errors.As(err, &failed) {
		return failed.Trace
	}
	return nil
}

// publishTrace stores the trace of the last handshake. It publishes the trace with the negotiated
// revision, and with the outcome Failed if err is not nil.
func (u *Upstream) publishTrace(t handshake.Trace, rev mcp.Revision, err error) {
	u.mu.Lock()
	u.trace, u.tracedAt = t, time.Now()
	u.mu.Unlock()
	if !u.opts.Events.Wants(event.Handshake) {
		return
	}
	e := event.Event{Kind: event.Handshake, Level: slog.LevelDebug, Server: u.spec.Name, To: rev, Outcome: event.OK, Detail: t.String()}
	if err != nil {
		e.Outcome = mcp.Failed
	}
	u.opts.Events.Publish(e)
}

// recognise sets the adapter for the dialect that a failed handshake has detected. It reports
// whether the server now has an adapter.
func (u *Upstream) recognise(err error) bool {
	var e *handshake.Error
	if !errors.As(err, &e) || e.Dialect == "" || u.spec.AdapterFor == nil || u.spec.Command == "" {
		return false
	}
	u.publishTrace(e.Trace, mcp.Unknown, err)
	a := u.spec.AdapterFor(e.Dialect)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.adapter == nil {
		u.adapter = a
	}
	return u.adapter != nil // a concurrent open may have set the adapter
}

// crashesOnProbe reports whether a server that exited on the probe will probably exit on the next
// probe.
func crashesOnProbe(err error) bool {
	var e *handshake.Error
	return errors.As(err, &e) && e.Remember()
}

// step publishes the current step of an open, for callers that wait for the open. If text is "",
// the open has ended.
func (u *Upstream) step(text string) {
	u.opts.Events.Publish(event.Event{Kind: event.Lifecycle, Level: slog.LevelDebug, Server: u.spec.Name, Detail: text})
}

// displayName returns the part of the command or URL that users may see. If there is none, it
// returns the name of the server.
func (u *Upstream) displayName() string {
	if u.spec.Shown != "" {
		return u.spec.Shown
	}
	return u.spec.Name
}

// dial makes one attempt to open the server over the known or configured transport. If unprobed is
// true, the attempt sends no probe.
func (u *Upstream) dial(ctx context.Context, p *pool, f *mcp.ClientInfo, purpose string, unprobed bool) (*session, error) {
	legacyFirst := false
	u.mu.Lock()
	offer := handshake.Offer{
		Pin: u.spec.Pin, Known: u.era, SkipProbe: unprobed || u.skipProbe, InitializeFirst: u.silent, Timeout: u.times.Load().Start,
		Dialect: u.spec.Dialect, Dialects: u.spec.Dialects,
	}
	overSSE := u.sse || u.spec.Kind == "sse"
	// Over Streamable HTTP, a server whose era is not known is probed first. A probe is cheap
	// there, and some modern servers accept initialize but then refuse all legacy requests.
	known := u.spec.piped() || overSSE || u.era != mcp.Unknown
	if f != nil && f.Revision.Legacy() && known && !u.noLegacy && u.spec.Pin == mcp.Unknown {
		// Try the client's own era first, without a probe. A server that does not support
		// initialize returns an error.
		legacyFirst = true
		offer.Known = mcp.LatestLegacy
	}
	if purpose == purposeCheckEra {
		// On a pipe, begin with initialize: a server that accepts initialize is treated as legacy,
		// even if it also supports the modern era. Over Streamable HTTP, begin with the probe, for
		// the reason given above.
		overSSE = u.spec.Kind == "sse"
		legacyFirst = u.spec.piped() || overSSE
		offer.Known, offer.InitializeFirst = mcp.Unknown, false
		if legacyFirst {
			offer.Known = mcp.LatestLegacy
		}
	}
	adapter := u.adapter
	if adapter != nil {
		offer.Pin = mcp.LatestLegacy // the only revision that adapters support
	}
	u.mu.Unlock()
	signer := u.signer(f)
	steps := &stepLog{u: u, purpose: purpose}
	if adapter == nil { // an adapter publishes the steps of its own handshake with the child
		offer.Watch = steps.watch()
	}
	s := &session{steps: steps, shared: adapter == nil, pipe: true, legacyFirst: legacyFirst, number: u.numbers.Add(1)}
	facts := u.facts()
	o := conn.Options{
		Name: u.spec.Name, Given: facts.Given, Credentials: facts.Credentials, Clean: facts.Clean,
		Info: u.opts.Info, Capabilities: u.capabilities(f),
		Times:  func() (idle, hard time.Duration) { t := u.times.Load(); return t.Idle, t.Hard },
		Log:    u.opts.Log,
		Notice: func(m *jsonrpc.Message, only uint64) { u.deliverNotification(p, s, m, only) },
		Ask: func(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
			return s.askRelated(ctx, nil, m, func(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
				return u.askSubscriber(ctx, p, m)
			})
		},
		Params: u.paramsOf, Events: u.opts.Events, Sessions: u.sessions, Own: u.opts.Own,
	}
	if f != nil && len(f.Info) > 2 {
		o.Info = f.Info
	}
	cas, err := httplink.LoadCAs(u.spec.CAFile)
	if err != nil {
		return nil, err
	}
	switch {
	case u.spec.Pipe != nil:
		u.step("connecting to " + u.displayName())
		var pipe transport.Pipe
		if pipe, err = u.spec.Pipe(ctx); err == nil {
			s.server, err = conn.OpenPipe(ctx, pipe, offer, o)
		}
	case u.spec.Command != "":
		err = u.spawn(ctx, s, adapter, offer, o)
	case overSSE:
		u.step("connecting to " + u.displayName() + " over HTTP+SSE")
		offer.SkipProbe = true
		o.Posts = true
		var pipe transport.Pipe
		if pipe, err = sse.Dial(ctx, u.spec.URL, sse.ClientOptions{CAs: cas, Header: u.header(), Credentials: signer, Limits: u.limits()}); err == nil {
			s.server, err = conn.OpenPipe(ctx, pipe, offer, o)
		}
	default:
		u.step("connecting to " + u.displayName())
		var c *streamhttp.Client
		if c, err = streamhttp.NewClient(u.spec.URL, streamhttp.ClientOptions{CAs: cas, Header: u.header(), Credentials: signer, Limits: u.limits(), Logger: u.opts.Log.With("server", u.spec.Name), Dropped: func(string) { u.sessions.NoteOdd() }, Interrupted: func() { u.checkSoon(s) }}); err == nil {
			s.shared, s.pipe = false, false
			s.server, err = conn.OpenHTTP(ctx, c, offer, o)
		}
	}
	if err != nil {
		return nil, err
	}
	s.tasks = s.server.Hello().Tasks()
	u.forms.add(s.tasks)
	return s, nil
}

// limits returns the limits for messages from the server.
func (u *Upstream) limits() jsonrpc.Limits {
	return jsonrpc.Limits{Bytes: u.spec.Message, Names: mcp.MethodName, Lists: mcp.ListKey}
}

func (u *Upstream) header() []transport.HeaderField {
	out := make([]transport.HeaderField, len(u.spec.Header))
	for i, h := range u.spec.Header {
		out[i] = transport.HeaderField{Name: h.Name, Value: h.Value}
	}
	return out
}

func (u *Upstream) spawn(ctx context.Context, s *session, a Adapter, offer handshake.Offer, o conn.Options) error {
	if a != nil {
		if err := a.Admit(ctx); err != nil {
			return &notAdmitted{err}
		}
	}
	u.step("starting " + u.displayName())
	child, err := stdio.Start(ctx, u.process(a))
	if err != nil {
		return err
	}
	var pipe transport.Pipe = child.Pipe()
	if a != nil {
		pipe = a.Adapt(pipe)
		if x, ok := pipe.(Stepper); ok {
			offer.Inner = x.Steps
		}
	}
	s.server, err = conn.OpenPipe(ctx, pipe, offer, o)
	if err != nil {
		return u.withChild(err, child)
	}
	s.child = child
	return nil
}

// process returns the stdio.Spec that starts the server's child process. a is the adapter of the
// server, or nil.
func (u *Upstream) process(a Adapter) stdio.Spec {
	env := stdio.Environ(u.spec.Env, u.spec.Inherit)
	if a != nil {
		for _, v := range a.Environ() {
			name, _, _ := strings.Cut(v, "=")
			if !slices.ContainsFunc(env, func(have string) bool { return strings.HasPrefix(have, name+"=") }) {
				env = append(env, v)
			}
		}
	}
	return stdio.Spec{
		Command: u.spec.Command, Args: u.spec.Args, Env: env, Dir: u.spec.Dir,
		Options: stdio.Options{Limits: u.limits()}, OnStderr: u.stderr(),
	}
}

// notAdmitted is the error of an open if Adapter.Admit has refused to start the child.
type notAdmitted struct{ error }

func (e *notAdmitted) Unwrap() error { return e.error }

// wanted reports whether Dragoman ended the session on purpose, and not because of a fault of the
// server.
func wanted(cause error) bool {
	for _, ours := range []error{conn.ErrStopped, conn.ErrRestarted, errCallOver, errEraChanged, errNotNeeded, errIdleSession, errStopped} {
		if errors.Is(cause, ours) {
			return true
		}
	}
	return false
}

// cleanUp waits for the end of a session and takes the session out of service. If the session has
// ended by itself, cleanUp also records and logs the failure, and restores subscriptions.
func (u *Upstream) cleanUp(s *session) {
	<-s.server.Gone()
	cause := s.server.Err()
	first := u.ended(s, cause, "")
	u.mu.Lock()
	s.over = true
	s.stopCheck()
	s.stopPings()
	u.unwatchLocked(s)
	if s.stall != nil {
		s.stall.Stop()
		s.stall = nil
	}
	s.leaveLink()
	p := s.pool
	if p != nil {
		p.removeLocked(s)
		u.tidyLocked(p)
	}
	u.leaving = slices.DeleteFunc(u.leaving, func(x *session) bool { return x == s })
	unexpected := !u.closed && !s.outdated && !wanted(cause)
	var pause time.Duration
	if unexpected && !s.opened.IsZero() { // openLocked handles the end of a session that was never in use
		u.faultLocked(first)
		switch {
		case u.hasSessionLocked():
		case u.spec.Isolation == PerCall:
			u.setFailedLocked(Idle, first) // the next call opens another session
		default:
			pause = u.endedLocked(s, first)
		}
	}
	u.up = u.up && !(unexpected && len(u.sessionsLocked()) == 0)
	u.mu.Unlock()
	exit := ""
	if unexpected && s.child != nil {
		exit = u.exitOf(s.child, exitGrace)
	}
	s.shut(u.graceful, cause)
	if !unexpected {
		return
	}
	f := u.ended(s, cause, exit)
	u.replaceFailure(first, f)
	u.logEnd(s, f, pause)
	u.restore(p, s.link)
}

// endedAtOnce returns the error of an open whose session has ended before its first use. It waits
// for the end of the child process.
func (u *Upstream) endedAtOnce(s *session) error {
	cause, exit := s.server.Err(), ""
	if s.child != nil {
		exit = u.exitOf(s.child, exitGrace)
	}
	s.shut(u.graceful, cause)
	return u.endError(s, u.ended(s, cause, exit))
}
