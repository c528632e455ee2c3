package codex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
)

// Options say how a worker is treated. The zero value works.
type Options struct {
	Server string // the configured name, for logs and traces

	// Silence is how long version 2 of the handshake may go unanswered before
	// version 1 is tried on the same pipe. 0 means 5 s.
	Silence time.Duration
	// Initialized makes the handshake end with the notification initialized. The
	// workers that we know do without, and some answer it with an error.
	Initialized bool
	// WrongParams are signs, beside those that are known, by which a worker refuses
	// version 2 for what it does not know in it.
	WrongParams []dialect.Sign
	// Restarts is how many starts may fail in a row before no further one is made
	// for Rest. 0 means 5 and 10 minutes; a negative Restarts sets no limit.
	Restarts int
	Rest     time.Duration

	// Message bounds one message of a worker, in bytes, and so what a turn can say.
	// 0 means 16 MiB.
	Message int

	// Trace hears how each handshake with a worker went, a line for each step.
	Trace func(server, trace string)
	// Clean takes secrets out of what a worker has said, before it is logged or
	// traced. Nil leaves it as it is.
	Clean func(text string) string
	Log   *slog.Logger
}

// Reason says in a word why a worker is ready or not.
type Reason string

// The reasons. Only HandshakeComplete means that turns can be run.
const (
	WorkerLaunching      Reason = "worker_launching" // no process yet, or it has not been spoken to
	HandshakePending     Reason = "handshake_pending"
	HandshakeComplete    Reason = "handshake_complete"
	HandshakeFailed      Reason = "handshake_failed"
	RestartLimitExceeded Reason = "restart_limit_exceeded"
)

// ErrRestartLimit is wrapped by the error of Admit when too many starts have
// failed in a row.
var ErrRestartLimit = errors.New(string(RestartLimitExceeded))

// steady is how long a worker has to live, or one turn to succeed, before its end
// says nothing about its start.
const steady = time.Minute

// maxPause bounds the pause before a start that follows a failed one.
const maxPause = time.Minute

// Server is one configured worker over all of its restarts, and over the several
// processes that different kinds of client may need. New makes it; it owns
// nothing that would have to be closed.
type Server struct {
	o Options

	mu        sync.Mutex
	reason    Reason
	alive     int // workers whose handshake is complete
	failures  int // starts that failed in a row
	notBefore time.Time
	older     bool // the last worker knew conversations and no threads
	mute      bool // the last worker did not answer version 2
	past      past
}

// New returns a Server that nothing has been started for.
func New(o Options) *Server {
	if o.Silence <= 0 {
		o.Silence = 5 * time.Second
	}
	if o.Restarts == 0 {
		o.Restarts = 5
	}
	if o.Rest <= 0 {
		o.Rest = 10 * time.Minute
	}
	if o.Message <= 0 {
		o.Message = 16 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clean == nil {
		o.Clean = func(text string) string { return text }
	}
	return &Server{o: o, reason: WorkerLaunching}
}

// Readiness says how the worker is; of several processes one that is ready counts.
func (s *Server) Readiness() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alive > 0 {
		return string(HandshakeComplete)
	}
	return string(s.reason)
}

// Admit is to be called before each start. After starts that failed it waits, for
// a second at first and twice as long each time, up to a minute; once there were
// too many of them it refuses with ErrRestartLimit. Its only other error is that
// of ctx.
func (s *Server) Admit(ctx context.Context) error {
	s.mu.Lock()
	wait, failures := time.Until(s.notBefore), s.failures
	if wait > 0 && s.exceededLocked() {
		s.reason = RestartLimitExceeded
		s.mu.Unlock()
		return fmt.Errorf("%w: %d starts failed in a row, so the next one is tried in %s", ErrRestartLimit, failures, wait.Round(time.Second))
	}
	s.reason = WorkerLaunching
	s.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Server) exceededLocked() bool { return s.o.Restarts > 0 && s.failures >= s.o.Restarts }

func (s *Server) set(r Reason) {
	s.mu.Lock()
	s.reason = r
	s.mu.Unlock()
}

// opened counts a worker whose handshake is complete.
func (s *Server) opened() {
	s.mu.Lock()
	s.reason = HandshakeComplete
	s.alive++
	s.mu.Unlock()
}

// proved forgets the failures: a worker has done what it is there for.
func (s *Server) proved() {
	s.mu.Lock()
	s.failures = 0
	s.mu.Unlock()
}

// ended hears of the end of a worker: whether its handshake had been completed,
// and whether the end counts as a failed start.
func (s *Server) ended(complete, failed bool) {
	s.mu.Lock()
	failures, exceeded := s.endedLocked(complete, failed)
	s.mu.Unlock()
	if exceeded {
		s.o.Log.Warn("codex worker is not started again for a while", "server", s.o.Server,
			"reason", string(RestartLimitExceeded), "failures", failures, "pause", s.o.Rest.String())
	}
}

func (s *Server) endedLocked(complete, failed bool) (failures int, exceeded bool) {
	if complete {
		s.alive--
		s.reason = WorkerLaunching
	} else {
		s.reason = HandshakeFailed
	}
	if !failed {
		return 0, false
	}
	s.failures++
	s.notBefore = time.Now().Add(min(time.Second<<min(s.failures-1, 6), maxPause))
	if s.exceededLocked() {
		s.notBefore = time.Now().Add(s.o.Rest)
		s.reason = RestartLimitExceeded
		return s.failures, true
	}
	return s.failures, false
}

func (s *Server) isMute() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mute
}

func (s *Server) setMute(mute bool) {
	s.mu.Lock()
	s.mute = mute
	s.mu.Unlock()
}

func (s *Server) isOlder() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.older
}

func (s *Server) setOlder(older bool) {
	s.mu.Lock()
	s.older = older
	s.mu.Unlock()
}

// past remembers of conversations what a worker that has not opened them needs to
// go on with them. It keeps the newest.
type past struct {
	of    map[string]conversation
	order []string
}

// The bounds of what is remembered of conversations: how many, and of each how many
// bytes. One that is longer is not remembered; it can be gone on with while its worker
// lives.
const (
	maxPast      = 256
	maxPastBytes = 8 << 10
)

// conversation is what an older worker wants to be told again.
type conversation struct {
	rollout, model, cwd, policy, sandbox string
}

func (s *Server) remember(id string, c conversation) {
	if len(id)+len(c.rollout)+len(c.model)+len(c.cwd)+len(c.policy)+len(c.sandbox) > maxPastBytes {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.past
	if p.of == nil {
		p.of = make(map[string]conversation)
	}
	if _, known := p.of[id]; !known {
		if len(p.order) == maxPast {
			delete(p.of, p.order[0])
			p.order = p.order[1:]
		}
		p.order = append(p.order, id)
	}
	p.of[id] = c
}

func (s *Server) recall(id string) conversation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.past.of[id]
}
