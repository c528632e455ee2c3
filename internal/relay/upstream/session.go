package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/conn"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
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
	roots       *rootsRound // the first question for roots
	heir        *heir       // the client of Streamable HTTP, if other processes may go on with the session

	// broker.putIntoService sets at most one of these two, before anybody can hold the session. They don't change
	// later, so they may be read outside update.
	pool *pool // nil for the link to a modern server
	link *link // nil for a legacy session

	// The following fields belong to the state of the Upstream.
	lending
	vitals
	noListen time.Time    // when the server last answered that it does not support subscriptions/listen; zero for never
	level    mcp.LogLevel // the log level that Dragoman has set on the server; 0 for none
}

// lending is what the broker knows of a session.
type lending struct {
	opened, idle time.Time         // when the session was opened, and when its last hold was released
	taken        bool              // the session has been used for a call; only relevant with isolation "call"
	users        int               // number of holds
	calls        int               // number of holds for calls of clients; see broker.use
	owner        uint64            // the conversation of the last call; 0 before the first one
	opener       uint64            // the conversation for which the session was opened, or 0
	from         *opening          // the open whose result is the session; nil once it has been used
	reap         *time.Timer       // timer that ends an idle session; nil while the session is in use
	keep         time.Time         // the session has tasks, so Dragoman does not end it as idle before this time
	taskOwners   map[string]uint64 // for each task of a legacy server: the conversation that created it; see tasks.go
	aside        bool              // new calls do not use the session; see setAside
	missed       bool              // a call needed the session while it was set aside
	outdated     bool              // the session is out of service; see outdate
	outdatedBy   error             // the cause with which an outdated session ends
	over         bool              // the session has ended, and cleanUp has taken it out of service
}

// vitals is what the watchdog knows of a session.
type vitals struct {
	watch             *time.Timer // the watch timer; nil if it is not running
	watchedFrom       time.Time
	unresponsiveSince time.Time        // when the server became unresponsive; zero if it is responsive
	unresponsive      *failure.Failure // why the server is unresponsive; nil if it is responsive
	stall             *time.Timer      // timer that checks whether the server reads; nil while the session is idle
	stuck             bool             // the server does not read its input; see stall.go
	check             *time.Timer      // timer of the next check; see checkLater
	checked           time.Time        // time of the last check
	ping              *time.Timer      // timer of the next ping; nil if the session is not pinged; see ping.go
	pinged            time.Time        // when the last ping ended; zero for none
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

// awaited reports whether the session was opened for a call that has not taken it yet.
func (s *session) awaited() bool { return s.from != nil && s.from.waiters > 0 }

// stopReap stops the timer that ends an idle session.
func (s *session) stopReap() {
	if s.reap != nil {
		s.reap.Stop()
		s.reap = nil
	}
}

// wanted reports whether Dragoman ended the session on purpose, and not because of a fault of the
// server.
func wanted(cause error) bool {
	for _, ours := range []error{conn.ErrStopped, conn.ErrRestarted, errCallOver, errEraChanged, errNotNeeded, errIdleSession, errOthersRoots, errStopped} {
		if errors.Is(cause, ours) {
			return true
		}
	}
	return false
}

// cleanUp waits for the end of a session and takes the session out of service. If the session has
// ended by itself, cleanUp also records and logs the failure, and restores subscriptions.
func (b *broker) cleanUp(s *session) {
	<-s.server.Gone()
	cause := s.server.Err()
	first := b.endFailure(s, cause, "")
	unexpected, pause := false, time.Duration(0)
	b.update(func(st *state) {
		b.takeOut(st, s)
		if unexpected = !st.ops.closed && !s.outdated && !wanted(cause); unexpected {
			pause = b.healer.sessionEnded(st, s, first)
		}
	})
	exit := ""
	if unexpected && s.child != nil {
		exit = b.exitOf(s.child, exitGrace)
	}
	s.shut(b.graceful, cause)
	if !unexpected {
		return
	}
	f := b.endFailure(s, cause, exit)
	b.healer.explainEnd(s, first, f, pause)
	b.hub.restore(s.pool, s.link)
}

// takeOut takes a session that has ended out of service.
func (b *broker) takeOut(st *state, s *session) {
	s.over = true
	s.stopTimers()
	st.pools.remove(s)
	st.pools.leaving = slices.DeleteFunc(st.pools.leaving, func(x *session) bool { return x == s })
}
