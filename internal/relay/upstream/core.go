package upstream

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/relay/conn"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// core is what all parts of an Upstream share: the description of the server, which never changes, the
// connections to the rest of the program, the lifetime, and the door to the state.
type core struct {
	spec Spec
	opts Options

	// newCore creates the following failures in advance. They are needed inside update, but Clean must
	// not be called there.
	unresponsive, stalled, removed, cancelled, stoppedFailure *failure.Failure

	times    atomic.Pointer[Times]
	sessions *conn.Sessions
	numbers  atomic.Uint64 // the number of the newest session
	forms    knownForms

	life context.Context
	end  context.CancelCauseFunc
	work work.Group // the goroutines for opens, session ends and listens; closed inside update

	graceful context.Context // until this context ends, children can exit by themselves; after that, Dragoman kills them
	kill     context.CancelFunc

	mu    sync.Mutex
	state state // only update touches it
}

func newCore(spec Spec, o Options) *core {
	c := &core{spec: spec, opts: o, sessions: o.Sessions}
	if c.opts.Clean == nil {
		c.opts.Clean = func(text string) string { return text }
	}
	if c.opts.Log == nil {
		c.opts.Log = slog.New(slog.DiscardHandler)
	}
	c.numbers.Store(firstNumber())
	c.times.Store(&Times{Start: spec.Start, Idle: spec.Idle, Hard: spec.Hard, Ping: spec.Ping})
	if c.sessions == nil {
		c.sessions = conn.NewSessions()
	}
	c.sessions.OnBroadcast(func() {
		c.opts.Log.Warn("server sends every session's messages to all sessions", "server", spec.Name,
			"effect", "while several clients call it, only server requests and log messages that name their call are delivered")
	})
	c.life, c.end = context.WithCancelCause(context.Background())
	c.graceful, c.kill = context.WithCancel(context.Background())
	c.unresponsive = failure.Of(nil, failure.Facts{
		Class: failure.Silent, Server: spec.Name, Cause: "timeout", Sentence: reasonUnresponsive,
		Action: "read the log of the server; Dragoman restarts the server if it still does not answer",
	})
	c.removed = failure.Of(nil, failure.Facts{Server: spec.Name, Cause: "removed"})
	c.stoppedFailure = failure.Of(nil, failure.Facts{Server: spec.Name, Cause: "stopped"})
	c.cancelled = failure.Of(nil, failure.Facts{Server: spec.Name, Cause: "cancelled"})
	c.stalled = failure.Of(nil, failure.Facts{Class: failure.Stalled, Server: spec.Name, Cause: "stalled", Sentence: reasonStalled})
	c.update(func(st *state) { c.init(st) })
	return c
}

// init sets the first state.
func (c *core) init(st *state) {
	st.name = c.spec.Name
	if c.opts.Seats != nil {
		st.left = func(key string) { c.opts.Seats.Rise(c.seatOf(key)) }
	}
	st.pools = registry{byKey: make(map[string]*pool), links: make(map[string]*link)}
	st.dial.adapter = c.spec.Adapter
	st.ops.opens, st.ops.endOpens = context.WithCancelCause(c.life)
	st.health.status = Status{Name: c.spec.Name, State: Idle, Since: time.Now()}
	if c.spec.Unusable == nil {
		return
	}
	f := c.failureOf(c.spec.Unusable)
	e := c.unavailable(c.spec.Unusable, f.Cause)
	e.Retryable = false
	c.explain(e, f)
	st.health.lastErr = e
	st.health.setFault(f)
	st.health.setFailed(Broken, f)
}

// publishLoss publishes a loss. The caller must not be inside update.
func (c *core) publishLoss(what, why string) {
	c.opts.Events.Publish(event.Event{Kind: event.Loss, Level: slog.LevelDebug, Server: c.spec.Name, Name: what, Detail: why})
}
