package upstream

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
	"github.com/dragoman-mcp/dragoman/internal/relay/conn"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
	"github.com/dragoman-mcp/dragoman/internal/transport/sse"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
)

// dialer opens sessions: it starts the server or connects to it, and performs the handshake.
type dialer struct {
	*core
	broker interface {
		cleanUp(*session)
		putIntoService(*state, *pool, *mcp.ClientInfo, *session)
		outdate(st *state, s *session, cause error)
	}
	hub interface { // gets what the server sends outside calls
		deliverNotification(p *pool, s *session, m *jsonrpc.Message, only uint64)
		askSubscriber(context.Context, *pool, *session, *jsonrpc.Message) (*jsonrpc.Message, error)
		restore(*pool, *link)
	}
	lister interface {
		paramsOf(ctx context.Context, f *mcp.ClientInfo, tool string) ([]mirror.Param, bool, error)
		forgetTools(scope string)
	}
	watchdog interface{ checkSoon(*session) }

	refusals refusals
	cut      atomic.Bool // the log already says that Dragoman truncated the instructions
}

// dialState is what the server has shown about how it is opened, and the last attempt.
type dialState struct {
	era       mcp.Revision
	noLegacy  bool    // the server is modern and does not support the legacy era
	adapter   Adapter // converts the child's protocol; nil if the child speaks MCP
	skipProbe bool
	silent    bool // the server does not answer the probe
	sse       bool // the server speaks HTTP+SSE
	hung      bool // the last attempt took briefHold or longer, and failed

	trace    handshake.Trace
	tracedAt time.Time

	checking  *eraCheck // the running era check, or nil
	nextCheck time.Time // no era check starts before this time
	checks    int       // number of consecutive era checks without a change
}

// forget removes all that the server has shown, except the last attempt. The parameter a is the
// configured adapter.
func (d *dialState) forget(a Adapter) {
	d.era, d.noLegacy, d.skipProbe, d.silent, d.sse = mcp.Unknown, false, false, false, false
	d.adapter = a
	d.checks, d.nextCheck = 0, time.Time{}
}

// target says for whom a session is opened, and why.
type target struct {
	pool    *pool
	client  *mcp.ClientInfo // the first client that needs the session; nil for Dragoman itself
	purpose string          // what the session is needed for; see purposeOf
	left    []byte          // what another process has left of a session with which this one goes on, or nil
}

// open starts the server or connects to it, and performs the handshake for the client of t. If the
// purpose is purposeCheckEra, it ignores the stored era of the server.
func (d *dialer) open(ctx context.Context, t target) (*session, error) {
	defer d.step("")
	limit := d.times.Load().Start
	if limit <= 0 {
		limit = defaultStart
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if d.spec.Runner != "" && d.spec.OneClient {
		defer d.noteDownload().Stop()
	}
	s, before, err := d.dialUntilSettled(ctx, t)
	if err != nil {
		if last := traceOf(err); last != nil {
			d.publishTrace(append(before, last...), mcp.Unknown, err)
		}
		return nil, d.openError(err, d.lookAround(ctx, err))
	}
	d.publishTrace(append(before, s.server.Opening().Trace...), s.server.Revision(), nil)
	d.warnCut(s)
	d.work.Go(func() { d.broker.cleanUp(s) })
	return s, nil
}

// dialUntilSettled dials until there is a session, or until an attempt shows no other way to open the
// server. It also returns the traces of all attempts but the last one.
func (d *dialer) dialUntilSettled(ctx context.Context, t target) (s *session, before handshake.Trace, err error) {
	s, err = d.dial(ctx, t, false)
	for try := 0; try < 2 && errors.Is(err, handshake.ErrDiedOnProbe) && d.mayDieAgain(err, try); try++ {
		before = append(before, traceOf(err)...)
		s, err = d.dial(ctx, t, false)
	}
	if errors.Is(err, handshake.ErrRefusedAfterProbe) {
		before = append(before, traceOf(err)...)
		s, err = d.dialUnprobed(ctx, t, err)
	}
	if d.recognise(err) {
		s, err = d.dial(ctx, t, false)
	}
	if errors.Is(err, handshake.ErrTrySSE) && d.spec.Kind == "" {
		d.update(func(st *state) { st.dial.sse = true })
		first := err
		if s, err = d.dial(ctx, t, false); err == nil {
			before = append(before, traceOf(first)...)
		} else {
			d.update(func(st *state) { st.dial.sse = false })
			err = first
		}
	}
	return s, before, err
}

// mayDieAgain reports whether a server that exited on the probe is started once more. The parameter try
// counts the starts for this reason.
func (d *dialer) mayDieAgain(err error, try int) bool {
	return get(d.core, func(st *state) bool {
		switch {
		case crashesOnProbe(err):
			st.dial.skipProbe = true
		case try > 0:
			// The server has answered a probe before, so the exit has another cause. We have tried
			// again, and the server has exited a second time: another server may have replaced it.
			st.dial.era = mcp.Unknown
			return false
		}
		return true
	})
}

// dialUnprobed starts a server again that has refused initialize with the error refusal, because the
// probe may be the reason. If the server accepts initialize now, Dragoman does not probe it again.
func (d *dialer) dialUnprobed(ctx context.Context, t target, refusal error) (*session, error) {
	s, err := d.dial(ctx, t, true)
	if err == nil && s.server.Revision().Legacy() {
		d.update(func(st *state) {
			st.dial.skipProbe = true
			st.log(slog.LevelInfo, "server refuses initialize after server/discover; from now on it gets initialize first", "cause", refusal.Error())
		})
	}
	return s, err
}

// warnCut logs once that the server's instructions were truncated.
func (d *dialer) warnCut(s *session) {
	for _, f := range s.server.Opening().Findings {
		if f.Code == handshake.FoundLongInstructions && !d.cut.Swap(true) {
			d.opts.Log.Warn("server instructions truncated", "server", d.spec.Name, "cause", f.Text)
			d.publishLoss("instructions", "longer than 64 KiB, so the text was truncated")
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
func (d *dialer) publishTrace(t handshake.Trace, rev mcp.Revision, err error) {
	d.update(func(st *state) {
		st.dial.trace, st.dial.tracedAt = t, time.Now()
	})
	if !d.opts.Events.Wants(event.Handshake) {
		return
	}
	e := event.Event{Kind: event.Handshake, Level: slog.LevelDebug, Server: d.spec.Name, To: rev, Outcome: event.OK, Detail: t.String()}
	if err != nil {
		e.Outcome = mcp.Failed
	}
	d.opts.Events.Publish(e)
}

// recognise sets the adapter for the dialect that a failed handshake has detected. It reports
// whether the server now has an adapter.
func (d *dialer) recognise(err error) bool {
	var e *handshake.Error
	if !errors.As(err, &e) || e.Dialect == "" || d.spec.AdapterFor == nil || d.spec.Command == "" {
		return false
	}
	d.publishTrace(e.Trace, mcp.Unknown, err)
	a := d.spec.AdapterFor(e.Dialect)
	return get(d.core, func(st *state) bool {
		if st.dial.adapter == nil { // a concurrent open may have set the adapter
			st.dial.adapter = a
		}
		return st.dial.adapter != nil
	})
}

// crashesOnProbe reports whether a server that exited on the probe will probably exit on the next
// probe.
func crashesOnProbe(err error) bool {
	var e *handshake.Error
	return errors.As(err, &e) && e.Remember()
}

// step publishes the current step of an open, for callers that wait for the open. If text is "",
// the open has ended.
func (c *core) step(text string) {
	c.opts.Events.Publish(event.Event{Kind: event.Lifecycle, Level: slog.LevelDebug, Server: c.spec.Name, Detail: text})
}

// displayName returns the part of the command or URL that users may see. If there is none, it
// returns the name of the server.
func (c *core) displayName() string {
	if c.spec.Shown != "" {
		return c.spec.Shown
	}
	return c.spec.Name
}

// plan is how one attempt opens the server.
type plan struct {
	offer       handshake.Offer
	overSSE     bool
	legacyFirst bool // see session.legacyFirst
	adapter     Adapter
}

// plan decides how to open the server, from what the server has shown so far. If unprobed is true,
// the attempt sends no probe.
func (d *dialer) plan(st *state, t target, unprobed bool) plan {
	known := &st.dial
	p := plan{overSSE: known.sse || d.spec.Kind == "sse", adapter: known.adapter}
	p.offer = handshake.Offer{
		Pin: d.spec.Pin, Known: known.era, SkipProbe: unprobed || known.skipProbe, InitializeFirst: known.silent, Timeout: d.times.Load().Start,
		Dialect: d.spec.Dialect, Dialects: d.spec.Dialects,
	}
	// Over Streamable HTTP, a server whose era is not known is probed first. A probe is cheap
	// there, and some modern servers accept initialize but then refuse all legacy requests.
	tryable := d.spec.piped() || p.overSSE || known.era != mcp.Unknown
	if f := t.client; f != nil && f.Revision.Legacy() && tryable && !known.noLegacy && d.spec.Pin == mcp.Unknown {
		// Try the client's own era first, without a probe. A server that does not support
		// initialize returns an error.
		p.legacyFirst = true
		p.offer.Known = mcp.LatestLegacy
	}
	if t.purpose == purposeCheckEra {
		// On a pipe, begin with initialize: a server that accepts initialize is treated as legacy,
		// even if it also supports the modern era. Over Streamable HTTP, begin with the probe, for
		// the reason given above.
		p.overSSE = d.spec.Kind == "sse"
		p.legacyFirst = d.spec.piped() || p.overSSE
		p.offer.Known, p.offer.InitializeFirst = mcp.Unknown, false
		if p.legacyFirst {
			p.offer.Known = mcp.LatestLegacy
		}
	}
	if p.adapter != nil {
		p.offer.Pin = mcp.LatestLegacy // the only revision that adapters support
	}
	return p
}

// dial makes one attempt to open the server over the known or configured transport. If unprobed is
// true, the attempt sends no probe.
func (d *dialer) dial(ctx context.Context, t target, unprobed bool) (*session, error) {
	p := get(d.core, func(st *state) plan { return d.plan(st, t, unprobed) })
	steps := &stepLog{core: d.core, purpose: t.purpose}
	if p.adapter == nil { // an adapter publishes the steps of its own handshake with the child
		p.offer.Watch = steps.watch()
	}
	s := &session{steps: steps, shared: p.adapter == nil, pipe: true, legacyFirst: p.legacyFirst, number: d.numbers.Add(1), roots: newRootsRound()}
	o := d.connOptions(t, s)
	var err error
	switch {
	case d.spec.Pipe != nil:
		d.step("connecting to " + d.displayName())
		var pipe transport.Pipe
		if pipe, err = d.spec.Pipe(ctx); err == nil {
			s.server, err = conn.OpenPipe(ctx, pipe, p.offer, o)
		}
	case d.spec.Command != "":
		err = d.spawn(ctx, s, p, o)
	case p.overSSE:
		err = d.connectSSE(ctx, s, p, o, d.signer(t.client))
	default:
		err = d.connectHTTP(ctx, t, s, p, o)
	}
	if err != nil {
		return nil, err
	}
	s.tasks = s.server.Hello().Tasks()
	d.forms.add(s.tasks)
	return s, nil
}

// connOptions returns the options of the connection for the session s.
func (d *dialer) connOptions(t target, s *session) conn.Options {
	facts := d.facts()
	o := conn.Options{
		Name: d.spec.Name, Given: facts.Given, Credentials: facts.Credentials, Clean: facts.Clean,
		Info: d.opts.Info, Capabilities: d.capabilities(t.client), Extension: d.extension(),
		Times:  func() (idle, hard time.Duration) { t := d.times.Load(); return t.Idle, t.Hard },
		Log:    d.opts.Log,
		Notice: func(m *jsonrpc.Message, only uint64) { d.hub.deliverNotification(t.pool, s, m, only) },
		Ask: func(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
			return s.askRelated(ctx, nil, m, func(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
				return d.hub.askSubscriber(ctx, t.pool, s, m)
			})
		},
		Answered: func(method string) {
			if method == mcp.MethodListRoots {
				s.roots.settle()
			}
		},
		Params: d.lister.paramsOf, Events: d.opts.Events, Sessions: d.sessions, Own: d.opts.Own,
	}
	if f := t.client; f != nil && len(f.Info) > 2 {
		o.Info = f.Info
	}
	return o
}

func (d *dialer) connectSSE(ctx context.Context, s *session, p plan, o conn.Options, by httplink.Signer) error {
	cas, err := httplink.LoadCAs(d.spec.CAFile)
	if err != nil {
		return err
	}
	d.step("connecting to " + d.displayName() + " over HTTP+SSE")
	p.offer.SkipProbe, o.Posts = true, true
	pipe, err := sse.Dial(ctx, d.spec.URL, sse.ClientOptions{CAs: cas, Header: d.header(), Credentials: by, Limits: d.limits()})
	if err != nil {
		return err
	}
	s.server, err = conn.OpenPipe(ctx, pipe, p.offer, o)
	return err
}

func (d *dialer) connectHTTP(ctx context.Context, t target, s *session, p plan, o conn.Options) error {
	cas, err := httplink.LoadCAs(d.spec.CAFile)
	if err != nil {
		return err
	}
	d.step("connecting to " + d.displayName())
	client, err := streamhttp.NewClient(d.spec.URL, streamhttp.ClientOptions{
		CAs: cas, Header: d.header(), Credentials: d.signer(t.client), Limits: d.limits(), Logger: d.opts.Log.With("server", d.spec.Name),
		Dropped: func(string) { d.sessions.NoteOdd() }, Interrupted: func() { d.watchdog.checkSoon(s) },
	})
	if err != nil {
		return err
	}
	s.shared, s.pipe = false, false
	var post conn.Poster = client
	if d.opts.Seats != nil {
		s.heir = d.inheriting(t, client, &p)
		s.legacyFirst, post = p.legacyFirst, s.heir
	}
	s.server, err = conn.OpenHTTP(ctx, post, p.offer, o)
	return err
}

// limits returns the limits for messages from the server.
func (c *core) limits() jsonrpc.Limits {
	return jsonrpc.Limits{Bytes: c.spec.Message, Names: mcp.MethodName, Lists: mcp.ListKey}
}

func (c *core) header() []transport.HeaderField {
	out := make([]transport.HeaderField, len(c.spec.Header))
	for i, h := range c.spec.Header {
		out[i] = transport.HeaderField{Name: h.Name, Value: h.Value}
	}
	return out
}

func (d *dialer) spawn(ctx context.Context, s *session, p plan, o conn.Options) error {
	a := p.adapter
	if a != nil {
		if err := a.Admit(ctx); err != nil {
			return &notAdmitted{err}
		}
	}
	step := "starting " + d.displayName()
	if d.spec.Runner != "" {
		step += ", which may have to download the package"
	}
	d.step(step)
	start := d.process(a)
	if d.spec.Vouched && stdio.Starts(start, d.spec.Self) {
		o.Vouchers = identity.NewVoucherKey()
		start.Env = append(slices.DeleteFunc(start.Env, func(v string) bool { return strings.HasPrefix(v, identity.VoucherVariable+"=") }), identity.VoucherVariable+"="+o.Vouchers.String())
	}
	child, err := stdio.Start(ctx, start)
	if err != nil {
		return err
	}
	var pipe transport.Pipe = child.Pipe()
	if a != nil {
		pipe = a.Adapt(pipe)
		if x, ok := pipe.(Stepper); ok {
			p.offer.Inner = x.Steps
		}
	}
	s.server, err = conn.OpenPipe(ctx, pipe, p.offer, o)
	if err != nil {
		return d.withChild(err, child)
	}
	s.child = child
	return nil
}

// noteDownload logs after a while that a package runner may be downloading the package. The only client
// waits for its initialize meanwhile, and many clients give up after a minute or less.
func (d *dialer) noteDownload() *time.Timer {
	return time.AfterFunc(longDownload, func() {
		d.opts.Log.Info("server is still starting", "server", d.spec.Name, "cause", d.spec.downloading(),
			"action", "if the client gives up, run the command once in a terminal, so that the package is there the next time")
	})
}

// process returns the stdio.Spec that starts the server's child process. a is the adapter of the
// server, or nil.
func (c *core) process(a Adapter) stdio.Spec {
	env := stdio.Environ(c.spec.Env, c.spec.Inherit)
	if a != nil {
		for _, v := range a.Environ() {
			name, _, _ := strings.Cut(v, "=")
			if !slices.ContainsFunc(env, func(have string) bool { return strings.HasPrefix(have, name+"=") }) {
				env = append(env, v)
			}
		}
	}
	return stdio.Spec{
		Command: c.spec.Command, Args: c.spec.Args, Env: env, Dir: c.spec.Dir,
		Options: stdio.Options{Limits: c.limits()}, OnStderr: c.stderr(),
	}
}

// notAdmitted is the error of an open if Adapter.Admit has refused to start the child.
type notAdmitted struct{ error }

func (e *notAdmitted) Unwrap() error { return e.error }
