package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// Bounds of what a peer keeps.
const (
	maxMessage    = 4 << 20 // bytes of one message, of either side
	maxViolations = 1000
	maxUsedIDs    = 1 << 16 // ids of a session that are remembered; later ones are not checked
	maxWaiting    = 256     // requests of a conversation that wait at a time
	maxQueued     = 256     // messages that nobody fetches yet
)

// Why what is running has to end.
var (
	errClosed    = errors.New("the fake is closed")
	errGone      = errors.New("the other side is gone")
	errCancelled = errors.New("the request is cancelled")
)

// ErrDied is what a server ends with whose profile is to die.
var ErrDied = errors.New("the fake has died, as it was told to")

// Options are what a peer is played with. The zero value plays a profile's
// defaults.
type Options struct {
	// Set changes settings of the profile, by name.
	Set map[string]string
	// Capture is written each message to, in both directions, as one line of JSON:
	// {"capture":{"direction":"request","payload":…}}, where a request goes towards
	// the server. One that is no JSON is captured as a string. Nil captures nothing.
	Capture io.Writer
	// Version is the version that the peer gives itself; "" means "0".
	Version string
}

// part is how a server is played: a revision, and what is changed of it.
type part struct {
	ed    *edition
	page  int // entries in one page of a list
	drop  int // events after which the stream of a wait is closed; 0 never
	twist twist
}

// twist is what a dialect or a fault changes of the strict server that it is
// made of. The zero twist changes nothing.
type twist struct {
	// open runs before a pipe's first message is read, and before the first HTTP
	// request is looked at; c is nil then.
	open func(ctx context.Context, c *conversation)
	// hear sees each message that has arrived. next plays the strict server.
	hear func(h *heard, next func())
	// say returns what is sent in place of msg, nil for nothing. m is the request
	// that it belongs to, nil for none.
	say func(c *conversation, m *jsonrpc.Message, msg []byte) []byte
	// call runs before each call of a tool, which waits for it. Its error ends the
	// call.
	call func(x *exchange) error
	// endless makes lists go on for ever: with "new" cursors or always the "same".
	endless string
	// tools are there beside those of a strict server.
	tools []tool
}

// heard is one message on its arrival.
type heard struct {
	ctx context.Context
	c   *conversation
	raw []byte
	m   *jsonrpc.Message // nil when it is none
	out outlet
}

// outlet takes messages towards a client. Safe for concurrent use; what is sent
// after its end is lost.
type outlet interface{ send(msg []byte) }

// Server plays one server profile. Its methods are safe for concurrent use.
type Server struct {
	name, version string
	part          *part
	methods       map[string]*method
	tools         []tool // sorted by name
	capture       *capture

	ctx    context.Context // the server's life
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // pipes, handlers and what they have started
	opened sync.Once      // the twist's open, over HTTP

	mu    sync.Mutex
	state state
}

// state is all that a server remembers, guarded by its mu.
type state struct {
	ended         bool // nothing may begin any more
	violations    []string
	calls         int // of count, for those without a session
	cancelled     int // waits
	tasks         []*task
	grown         bool
	conversations map[*conversation]bool
	sessions      map[string]*conversation // of HTTP, by Mcp-Session-Id or the id of an event stream
	lastSession   int
}

// NewServer returns a server that plays the profile of a name. The error names an
// unknown profile or setting and what there is in its place.
func NewServer(name string, o Options) (*Server, error) {
	p, parameter, ok := find(ServerSide, name)
	if !ok {
		return nil, unknownProfile(ServerSide, name)
	}
	set, err := settle(&p, parameter, o.Set)
	if err != nil {
		return nil, err
	}
	pt, err := p.server(set)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", p.Name, err)
	}
	s := &Server{name: name, version: o.Version, part: pt, capture: newCapture(o.Capture)}
	if s.version == "" {
		s.version = "0"
	}
	s.methods = methodsOf(pt.ed)
	s.tools = toolsOf(pt.ed, pt.twist.tools)
	s.state.conversations = map[*conversation]bool{}
	s.state.sessions = map[string]*conversation{}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s, nil
}

// Close ends everything that the server runs and waits for it. It may be called
// more than once.
func (s *Server) Close() error {
	s.mu.Lock()
	s.state.ended = true
	s.mu.Unlock()
	s.cancel(errClosed)
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.state.conversations))
	s.mu.Unlock()
	for _, c := range all {
		c.end(errClosed)
	}
	s.wg.Wait()
	return nil
}

// begin reports whether something may begin; done is to be called at its end.
func (s *Server) begin() (done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.ended {
		return nil, false
	}
	s.wg.Add(1)
	return s.wg.Done, true
}

// Violations returns what the other sides have done that the revision does not
// allow, oldest first; what comes after the first 1000 is left out.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.state.violations...)
}

// violate remembers what a client did that the revision does not allow.
func (s *Server) violate(where, format string, args ...any) {
	if where == "" {
		where = "message"
	}
	line := clip(where) + ": " + fmt.Sprintf(format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.state.violations) < maxViolations {
		s.state.violations = append(s.state.violations, line)
	}
}

// refuse is violate for what can be answered.
func (s *Server) refuse(where string, code int64, format string, args ...any) *jsonrpc.Error {
	s.violate(where, format, args...)
	return refusal(code, format, args...)
}

func refusal(code int64, format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Dead returns a channel that is closed when the server has ended: by Close, or
// because its profile is to die.
func (s *Server) Dead() <-chan struct{} { return s.ctx.Done() }

// die ends the server as a crash would: what was sent before still arrives.
func (s *Server) die() {
	s.mu.Lock()
	s.state.ended = true
	s.mu.Unlock()
	s.cancel(ErrDied)
}
