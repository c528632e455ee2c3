package codex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	events "github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// Options configure a Server. The zero value works.
type Options struct {
	Server string // the configured name of the server, for logs and traces

	// Silence is how long to wait for an answer to version 2 of the handshake. After this time, the
	// bridge offers version 1 on the same pipe. 0 means 5 s.
	Silence time.Duration
	// Initialized makes the bridge send the notification initialized after the handshake. The known
	// workers do not need this notification, and some answer it with an error.
	Initialized bool
	// WrongParams are additional signs to look for in errors. An error with such a sign means that
	// the worker refuses version 2 because of unknown members.
	WrongParams []dialect.Sign
	// Restarts is the number of failed starts in a row after which the Server makes a pause of the
	// length Rest. If Restarts is 0, it is 5. If it is negative, there is no limit. If Rest is not
	// positive, it is 10 minutes.
	Restarts int
	Rest     time.Duration

	// Message is the maximum length in bytes of one message from a worker. It also limits the text
	// of a turn. 0 means 16 MiB.
	Message int

	// Events gets the result of each handshake with a worker. If Events is nil, the Server
	// publishes no events.
	Events *events.Publisher
	// Clean removes secrets from a worker's output before the output is logged or traced. If Clean
	// is nil, the output is unchanged.
	Clean func(text string) string
	Log   *slog.Logger
}

// Reason is a code that says whether a worker is ready or why it is not.
type Reason string

// With HandshakeComplete, the worker can run turns. With every other Reason, it cannot.
const (
	WorkerLaunching      Reason = "worker_launching" // no process has started, or no handshake has begun
	HandshakePending     Reason = "handshake_pending"
	HandshakeComplete    Reason = "handshake_complete"
	HandshakeFailed      Reason = "handshake_failed"
	RestartLimitExceeded Reason = "restart_limit_exceeded"
)

// ErrRestartLimit means that too many starts in a row have failed. The error of Admit wraps it.
var ErrRestartLimit = errors.New(string(RestartLimitExceeded))

// steady is how long a worker must run so that its exit does not count as a failed start.
const steady = time.Minute

// maxPause is the maximum delay before the next start after a failed start.
const maxPause = time.Minute

// Server represents one configured worker. It represents all processes of this worker: a new
// process after each restart, and separate processes for different kinds of clients. New creates a
// Server. A Server does not have to be closed.
type Server struct {
	o Options

	older      atomic.Bool // the last worker has conversations instead of threads
	silentOnV2 atomic.Bool // the last worker did not answer version 2

	mu        sync.Mutex
	reason    Reason
	alive     int          // number of workers whose handshake is complete
	pauses    work.Backoff // counts the starts that failed in a row
	notBefore time.Time
	past      past

	// version and cause describe the last handshake. handshakes counts all handshakes.
	version, cause string
	handshakes     map[[2]string]uint64
}

// New returns a Server without a running worker.
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
	return &Server{o: o, reason: WorkerLaunching, pauses: work.Backoff{Ceiling: maxPause}}
}

// Readiness returns the state of the worker. If at least one of several processes is ready, the
// state is HandshakeComplete.
func (s *Server) Readiness() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alive > 0 {
		return string(HandshakeComplete)
	}
	return string(s.reason)
}

// Environ returns the environment variable that tells wrappers around Codex that another program
// starts them. Without this variable, wrappers print nothing and wait.
func (s *Server) Environ() []string { return []string{"CODEX_WORKER_SUPERVISED=true"} }

// Negotiated returns the version of the last handshake, "v1" or "v2". cause says why the version is
// not "v2", or why the handshake failed. After a failed handshake the version is "".
func (s *Server) Negotiated() (version, cause string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, s.cause
}

// Handshakes counts the handshakes with all workers, by version and cause. The version is "v1",
// "v2" or "none". The cause is "" for version 2, or else "-32602", "-32600", "silence", "schema",
// "refused" or "exited".
func (s *Server) Handshakes() map[[2]string]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.handshakes)
}

// negotiated records a handshake. class is the cause as one word; see Handshakes.
func (s *Server) negotiated(version, cause, class string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.cause = version, cause
	if s.handshakes == nil {
		s.handshakes = map[[2]string]uint64{}
	}
	s.handshakes[[2]string{cmp.Or(version, "none"), class}]++
}

// Admit must be called before each start. After a failed start, Admit waits up to a minute.
// work.Backoff determines how long. After Options.Restarts failed starts in a row, Admit returns an
// error that wraps ErrRestartLimit until the pause Options.Rest has ended. Its only other error is
// the error of ctx.
func (s *Server) Admit(ctx context.Context) error {
	s.mu.Lock()
	wait, failures := time.Until(s.notBefore), s.pauses.Failures()
	if wait > 0 && s.exceededLocked() {
		s.reason = RestartLimitExceeded
		s.mu.Unlock()
		return fmt.Errorf("%w: %d starts failed in a row; the next start is in %s", ErrRestartLimit, failures, wait.Round(time.Second))
	}
	s.reason = WorkerLaunching
	s.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	return work.Sleep(ctx, wait)
}

func (s *Server) exceededLocked() bool {
	return s.o.Restarts > 0 && s.pauses.Failures() >= s.o.Restarts
}

func (s *Server) set(r Reason) {
	s.mu.Lock()
	s.reason = r
	s.mu.Unlock()
}

// opened records that a worker has completed its handshake.
func (s *Server) opened() {
	s.mu.Lock()
	s.reason = HandshakeComplete
	s.alive++
	s.mu.Unlock()
}

// proved resets the number of failed starts after a successful turn.
func (s *Server) proved() {
	s.mu.Lock()
	s.pauses.Reset()
	s.mu.Unlock()
}

// ended records the end of a worker. complete says whether the handshake of the worker was
// complete. failed says whether the end counts as a failed start.
func (s *Server) ended(complete, failed bool) {
	s.mu.Lock()
	failures, exceeded := s.endedLocked(complete, failed)
	s.mu.Unlock()
	if exceeded {
		s.o.Log.Warn("codex worker failed too often; waiting before the next start", "server", s.o.Server,
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
	s.notBefore = time.Now().Add(s.pauses.Fail())
	if s.exceededLocked() {
		s.notBefore = time.Now().Add(s.o.Rest)
		s.reason = RestartLimitExceeded
		return s.pauses.Failures(), true
	}
	return s.pauses.Failures(), false
}

// past stores what a new worker needs to continue the conversations of a previous worker. It keeps
// only the newest conversations.
type past struct {
	of    map[string]conversation
	order []string
}

// These constants limit the number of stored conversations and the bytes stored for each
// conversation. A conversation that needs more bytes is not stored, so a client can continue it
// only while the same worker runs.
const (
	maxPast      = 256
	maxPastBytes = 8 << 10
)

// conversation contains the settings that a worker with the older protocol needs again to resume a
// conversation.
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
