package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Limits of the data that a peer accepts and stores.
const (
	maxMessage    = 4 << 20 // the maximum size of a message in bytes, in both directions
	maxViolations = 1000
	maxUsedIDs    = 1 << 16 // the maximum number of ids that a session stores to detect reused ids
	maxWaiting    = 256     // the maximum number of running requests in one conversation
	maxQueued     = 256     // the maximum number of subscribed resources, and of notifications that wait for an acknowledgement
)

// The reasons why requests and conversations end.
var (
	errClosed    = errors.New("the fake is closed")
	errGone      = errors.New("the other side has disconnected")
	errCancelled = errors.New("the request is cancelled")
)

// ErrDied means that a server ended because its profile simulates a crash.
var ErrDied = errors.New("the fake server crashed, as its profile says")

// Options configures a server. The zero value selects the defaults of the profile.
type Options struct {
	// Set overrides settings of the profile, by name.
	Set map[string]string
	// Capture receives each message in both directions as one line of JSON:
	// {"capture":{"direction":"request","payload":…}}. "request" means a message to the
	// server. Text that is not JSON is captured as a string. Nil captures nothing.
	Capture io.Writer
	// Version is the version that the peer reports; "" means "0".
	Version string
}

// part describes a server to simulate: its edition and how it differs from a strict server.
type part struct {
	ed    *edition
	page  int // the number of items on a page of a list
	drop  int // the number of events after which the server closes the stream of the tool "wait"; 0 means never
	twist twist
}

// twist is the change that a profile of the kind Dialect or Fault makes to a strict server. The zero
// value changes nothing.
type twist struct {
	// open runs before the server reads the first message from a pipe. Over HTTP, it runs before
	// the server handles the first request, and c is nil.
	open func(ctx context.Context, c *conversation)
	// receive handles each message. next passes the message to the strict server.
	receive func(h *arrival, next func())
	// say returns the bytes to send in place of msg, or nil to send nothing. m is the request to
	// which msg belongs, or nil.
	say func(c *conversation, m *jsonrpc.Message, msg []byte) []byte
	// call runs before each tool call. The tool runs after call has returned. If call returns an
	// error, the tool does not run, and the error is the outcome of the tool call.
	call func(x *exchange) error
	// endless makes lists endless. With "new", each page has a different cursor. With "same", all
	// pages have the same cursor.
	endless string
	// tools are the tools that the server has in addition to those of a strict server.
	tools []tool
}

// arrival is one received message.
type arrival struct {
	c   *conversation
	raw []byte
	m   *jsonrpc.Message // nil if raw is not a message
	out outlet
}

// outlet sends messages to a client. It is safe for concurrent use. Messages that are sent after
// the connection has ended are lost.
type outlet interface{ send(msg []byte) }

// Server simulates one server profile. Its methods are safe for concurrent use.
type Server struct {
	version string
	part    *part
	methods map[string]*method
	tools   []tool // sorted by name
	capture *capture

	ctx    context.Context // ends when the server ends
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // counts the running calls of ServePipe and of the HTTP handler
	opened sync.Once      // guards the call of twist.open over HTTP

	mu    sync.Mutex
	state state
}

// state is the data of a server that changes. Server.mu guards it.
type state struct {
	ended         bool // the server has ended, so begin returns false
	violations    []string
	calls         int // the number of calls of the tool "count", for clients without a session
	cancelled     int // the number of cancelled calls of the tool "wait"
	tasks         []*task
	grown         bool
	conversations map[*conversation]bool
	sessions      map[string]*conversation // the HTTP sessions, by Mcp-Session-Id or the id of an event stream
	lastSession   int
}

// NewServer returns a server for the named profile. If the profile or a setting is unknown,
// the error lists the known profiles or settings.
func NewServer(name string, o Options) (*Server, error) {
	p, parameter, ok := find(ServerSide, name)
	if !ok {
		return nil, unknownProfile(ServerSide, name)
	}
	set, err := mergeSettings(&p, parameter, o.Set)
	if err != nil {
		return nil, err
	}
	pt, err := p.server(set)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", p.Name, err)
	}
	return newServer(pt, o), nil
}

func newServer(pt *part, o Options) *Server {
	s := &Server{version: o.Version, part: pt, capture: newCapture(o.Capture)}
	if s.version == "" {
		s.version = "0"
	}
	s.methods = methodsOf(pt.ed)
	s.tools = toolsOf(pt.ed, pt.twist.tools)
	s.state.conversations = map[*conversation]bool{}
	s.state.sessions = map[string]*conversation{}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// Close ends all requests and goroutines of the server, and waits for them. It may be called
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

// begin reports whether new work may start. If so, the caller must call done when the work ends.
func (s *Server) begin() (done func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.ended {
		return nil, false
	}
	s.wg.Add(1)
	return s.wg.Done, true
}

// Violations returns the violations by clients, oldest first. It has at most 1000 entries.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.state.violations...)
}

// violate records a violation by a client.
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

// refuse records a violation and returns the error to send to the client.
func (s *Server) refuse(where string, code int64, format string, args ...any) *jsonrpc.Error {
	s.violate(where, format, args...)
	return refusal(code, format, args...)
}

func refusal(code int64, format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Dead returns a channel that is closed when the server has ended, by Close or by a
// simulated crash.
func (s *Server) Dead() <-chan struct{} { return s.ctx.Done() }

// die ends the server as a crash would. Messages that the server sent before the crash still arrive.
func (s *Server) die() {
	s.mu.Lock()
	s.state.ended = true
	s.mu.Unlock()
	s.cancel(ErrDied)
}
