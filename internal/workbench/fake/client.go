package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Where says how a client reaches a server: through In and Out if In is not nil, else with Command
// if it is not empty, else at URL.
type Where struct {
	// Command is the command that starts the server as a child process on stdio.
	Command []string
	// Env lists environment variables as K=V. They are added to the environment of this process.
	Env []string
	// In and Out connect to a running server, with one message per line. In is the output of the
	// server, and Out is its input. The client closes both.
	In  io.ReadCloser
	Out io.WriteCloser
	// URL is the endpoint of a running server. The transport is HTTP+SSE in 2024-11-05, and
	// Streamable HTTP in later revisions.
	URL string
}

// ClientOptions configures a strict client. With the zero value, the client declares every
// capability of its revision and answers every server request.
type ClientOptions struct {
	// Without lists the capabilities that the client does not declare: sampling, elicitation, url,
	// roots, tasks, extensions.
	Without []string
	// Answer answers server requests. Several goroutines of the client may call it at the same
	// time. Nil means Obliging.
	Answer func(ctx context.Context, a Ask) ([]byte, *jsonrpc.Error)
	// Capture receives each message as one line. It may be nil.
	Capture io.Writer
	// Stderr receives a child's stderr; nil discards it.
	Stderr io.Writer
	// Version is the version in the client's clientInfo; "" means "0".
	Version string
	// Set overrides settings of the profile, by name.
	Set map[string]string
}

// Ask is one request from a server.
type Ask struct {
	Method string
	Params []byte // the params object; nil if the request has no params
}

// Notice is one notification from the server.
type Notice struct {
	Method string
	Params []byte // the params object; nil if the notification has no params
	// Serial is the number of the notification in its conversation, starting at 1.
	Serial int
}

// Reply is the outcome of a call: a result or an error from the server.
type Reply struct {
	Result []byte         // an object; nil if the call failed
	Err    *jsonrpc.Error // nil if the call succeeded
	// Rounds is the number of requests that the call sent. It is more than 1 if the server
	// answered input_required (2026-07-28 §Multi Round-Trip Requests).
	Rounds int
	// Progress holds the progress notifications with the token of the call. Logs holds the log
	// messages of the call; it is empty in revisions without per-request logging.
	Progress, Logs []Notice
}

// CallOptions are the optional settings of a call. The zero value sets none.
type CallOptions struct {
	// If Progress is set, the call sends a progress token. OnProgress is called for each progress
	// notification, on the goroutine that reads from the server. OnProgress must not block, and
	// may be nil.
	Progress   bool
	OnProgress func(Notice)
	// LogLevel requests log messages for this call, in revisions with per-request logging
	// (2026-07-28 §Logging). In other revisions, Call returns an error if LogLevel is set.
	LogLevel string
	// If Break is greater than 0, the client closes the response stream after that number of events
	// with an id, and then resumes the stream. Break has no effect if the revision or the transport
	// has no resumable streams.
	Break int
	// Meta holds members that the call adds to _meta, as JSON without the braces.
	Meta string

	probe *edition // the revision of a server/discover request before initialize; nil for other requests
}

// Limits of one client. If the server exceeds maxNotices or maxOpenAsks, the client records a
// violation. If it exceeds maxRounds, Call returns an error.
const (
	maxNotices  = 10_000
	maxRounds   = 16
	maxOpenAsks = 32
)

// clientPatience is the timeout for closing the conversation in Close, and for sending a
// cancellation.
const clientPatience = 5 * time.Second

// wire carries the messages of one conversation. send and cancel may be called by several
// goroutines.
type wire interface {
	// send sends a message. f is the pending request, or nil for other messages. After an error,
	// it is unknown whether the server got the message. The end of ctx does not cancel the
	// request; the method cancel does.
	send(ctx context.Context, msg []byte, f *pendingRequest) error
	// cancel cancels a request if the transport itself has a signal for cancellation. If done is
	// false, the caller must send notifications/cancelled instead.
	cancel(f *pendingRequest) (done bool)
	// close ends the conversation and waits for its goroutines.
	close(ctx context.Context) error
}

// Client is a strict client of one revision. All methods are safe for concurrent
// use.
type Client struct {
	role
	o    ClientOptions
	caps []byte // the declared capabilities
	wire wire

	ctx    context.Context // Close cancels it; used for actions that no caller started
	stop   context.CancelCauseFunc
	asking sync.WaitGroup

	tape *capture

	mu         sync.Mutex
	ids        int64
	pending    map[jsonrpc.ID]*pendingRequest
	cancelled  map[jsonrpc.ID]bool        // cancelled requests whose response may still arrive
	tokens     map[string]*pendingRequest // the calls with a progress token, by the token as JSON text
	lastToken  int64                      // the last numeric token
	lateTokens map[string]bool            // progress tokens of cancelled calls; notifications with them may still arrive
	open       map[jsonrpc.ID]bool        // server requests that the client has not answered yet
	ready      bool                       // the server has answered initialize, or in a modern revision server/discover
	server     greeting
	level      mcp.LogLevel // the log level of the session; 0 until the client sets it
	watched    map[string]bool
	listens    map[jsonrpc.ID]*Subscription
	mirrors    map[string][]headerArg // the arguments that the client must also send as headers, by tool name
	notices    []Notice
	asks       []Ask
	violations []string
	// overwhelmed is true after the server has sent more notifications than the client keeps.
	overwhelmed bool
	news        chan struct{} // closed and replaced at each notification and when the conversation ends
	dead        error         // the reason why the conversation has ended
}

// greeting is the server's answer to initialize or server/discover.
type greeting struct {
	raw  []byte // the result object
	caps jsonrpc.Span
}

// pendingRequest is a request that waits for its response.
type pendingRequest struct {
	id      jsonrpc.ID
	method  string
	name    string // the value of params.name, params.uri or params.taskId; "" if there is none
	params  []byte
	token   string
	level   mcp.LogLevel // the log level for this request only
	opts    CallOptions
	cut     context.CancelFunc // ends the HTTP exchange of the request; nil on other transports
	done    chan struct{}
	once    sync.Once
	reply   Reply
	err     error // why the request ended without a response; nil if the server answered it
	reached float64
	events  bool // a progress notification has arrived
	listen  *Subscription
}

// end calls set and completes the request. Only the first call of end has an effect.
func (f *pendingRequest) end(set func()) (first bool) {
	f.once.Do(func() {
		set()
		first = true
		close(f.done)
	})
	return first
}

// strictClients returns the strict client profiles.
func strictClients() []Profile {
	var out []Profile
	for _, e := range editions() {
		out = append(out, Profile{
			Name: "strict-" + e.date, Kind: Strict, Side: ClientSide, Settings: playSettings,
			client: func(s *settings) (*role, error) { return s.role(e, habits{}) },
			About:  "A client of " + e.date + " that tries every feature and reports what the revision does not allow.",
		})
	}
	return out
}

// OpenClient opens a conversation with the server in the profile's revision and returns as soon as
// the client may send requests. It fails if the server does not support the revision. The error
// names the step that failed. Only ctx limits how long OpenClient takes. The caller must close the
// client.
func OpenClient(ctx context.Context, profile string, at Where, o ClientOptions) (*Client, error) {
	r, err := roleOf(profile, o.Set)
	if err != nil {
		return nil, err
	}
	e := r.e
	if o.Answer == nil {
		o.Answer = func(_ context.Context, a Ask) ([]byte, *jsonrpc.Error) { return Obliging(a) }
	}
	if o.Version == "" {
		o.Version = "0"
	}
	c := &Client{
		role: *r, o: o, caps: e.clientCaps(o.Without), tape: newCapture(o.Capture), lateTokens: map[string]bool{},
		pending: map[jsonrpc.ID]*pendingRequest{}, cancelled: map[jsonrpc.ID]bool{},
		tokens: map[string]*pendingRequest{}, open: map[jsonrpc.ID]bool{},
		watched: map[string]bool{}, listens: map[jsonrpc.ID]*Subscription{}, mirrors: map[string][]headerArg{},
		news: make(chan struct{}),
	}
	if c.habits.fromZero {
		c.ids, c.lastToken = -1, -1
	}
	c.ctx, c.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	switch {
	case at.In != nil:
		c.wire = c.join(at.In, at.Out)
	case len(at.Command) > 0:
		c.wire, err = c.spawn(at)
	case !e.has(streamable):
		c.wire, err = c.dialEvents(ctx, at.URL)
	default:
		c.wire = c.dialHTTP(at.URL)
	}
	if err == nil {
		free := context.AfterFunc(ctx, func() { c.hangUp(context.Cause(ctx)) })
		err = c.greet(ctx)
		free()
	}
	if err != nil {
		_ = c.Close()
		if seen := c.Violations(); len(seen) > 0 {
			err = fmt.Errorf("%w; before that, the client found this violation: %s", err, seen[0])
		}
		return nil, err
	}
	return c, nil
}

// greet opens the conversation. It sends initialize and initialized (§Lifecycle of the four legacy
// revisions), or server/discover (2026-07-28 §Versioning).
func (c *Client) greet(ctx context.Context) error {
	if c.habits.wantsOAuth {
		if err := c.lookForOAuth(ctx); err != nil {
			return err
		}
	}
	if c.habits.probes {
		if err := c.probe(ctx); err != nil {
			return err
		}
	}
	method, params := mcp.MethodDiscover, []byte(nil)
	if c.e.has(handshake) {
		method = mcp.MethodInitialize
		params = fmt.Appendf(nil, `{"protocolVersion":%s,"capabilities":%s,"clientInfo":%s}`, quote(c.e.date), c.caps, c.identity())
	}
	r, err := c.Call(ctx, method, params, CallOptions{})
	if err == nil && r.Err != nil {
		err = r.Err
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	whole := jsonrpc.Whole(r.Result)
	if c.e.has(handshake) {
		if got, _ := jsonrpc.Text(r.Result, jsonrpc.Find(r.Result, whole, "protocolVersion")); got != c.e.date {
			return fmt.Errorf("initialize: the server speaks %s, which a client of %s does not speak", clip(got), c.e.date)
		}
	} else {
		var dates []string
		for v := range jsonrpc.Elements(r.Result, jsonrpc.Find(r.Result, whole, "supportedVersions")) {
			date, _ := jsonrpc.Text(r.Result, v)
			dates = append(dates, date)
		}
		if !slices.Contains(dates, c.e.date) {
			return fmt.Errorf("server/discover: the server lists only the versions %q, not %s", dates, c.e.date)
		}
	}
	c.mu.Lock()
	c.server = greeting{r.Result, jsonrpc.Find(r.Result, whole, "capabilities")}
	c.ready = true
	c.mu.Unlock()
	if !c.e.has(handshake) {
		return nil
	}
	if !c.habits.forgetful {
		if err := c.Notify(ctx, mcp.NoteInitialized, nil); err != nil {
			return fmt.Errorf("%s: %w", mcp.NoteInitialized, err)
		}
	}
	if h, ok := c.wire.(*httpWire); ok && c.e.has(httpSessions) {
		h.listen()
	}
	return nil
}

func (c *Client) identity() string {
	return `{"name":"fake-client","version":` + quote(c.o.Version) + `}`
}

// Revision returns the revision that the client speaks.
func (c *Client) Revision() mcp.Revision { return c.e.rev }

// Greeting returns the result of initialize or server/discover.
func (c *Client) Greeting() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server.raw
}

// Offers reports whether the server declared the capability at the path, such as "tools",
// "listChanged".
func (c *Client) Offers(path ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offersLocked(path...)
}

func (c *Client) offersLocked(path ...string) bool {
	at := c.server.caps
	for _, name := range path {
		at = jsonrpc.Find(c.server.raw, at, name)
	}
	k := jsonrpc.KindOf(c.server.raw, at)
	return k == '{' || k == 't'
}

// Notices returns the notifications that have arrived so far, oldest first.
func (c *Client) Notices() []Notice {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.notices)
}

// Asks returns the server requests that have arrived so far, oldest first.
func (c *Client) Asks() []Ask {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asks)
}

// Violations returns the server's violations of the revision, oldest first. It returns at most
// maxViolations.
func (c *Client) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// Await returns the first notification whose Serial is greater than after and for which want
// returns true. If no such notification has arrived, Await waits for one until ctx or the
// conversation ends.
func (c *Client) Await(ctx context.Context, after int, want func(Notice) bool) (Notice, error) {
	for {
		c.mu.Lock()
		seen, news, dead := c.notices, c.news, c.dead
		c.mu.Unlock()
		for _, n := range seen[min(after, len(seen)):] {
			if want(n) {
				return n, nil
			}
		}
		after = max(after, len(seen))
		if dead != nil {
			return Notice{}, dead
		}
		select {
		case <-news:
		case <-ctx.Done():
			return Notice{}, context.Cause(ctx)
		}
	}
}

// Serial returns the number of the last notification. It returns 0 if no notification has arrived.
func (c *Client) Serial() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.notices)
}

var errClientClosed = errors.New("the client was closed")

// Close ends the conversation as the revision requires, and waits for all goroutines and processes
// that the client started.
func (c *Client) Close() error {
	c.endWith(errClientClosed)
	ctx, cancel := context.WithTimeout(c.ctx, clientPatience)
	defer cancel()
	var err error
	if c.wire != nil {
		err = c.wire.close(ctx)
	}
	c.stop(errClientClosed)
	c.asking.Wait()
	return err
}

// endWith ends the conversation. Every pending request fails with the error why. Only the first
// call of endWith has an effect.
func (c *Client) endWith(why error) {
	c.mu.Lock()
	if c.dead != nil {
		c.mu.Unlock()
		return
	}
	c.dead = why
	var waiting []*pendingRequest
	for id, f := range c.pending {
		waiting = append(waiting, f)
		delete(c.pending, id)
	}
	close(c.news)
	c.news = make(chan struct{})
	c.mu.Unlock()
	for _, f := range waiting {
		f.end(func() { f.err = why })
	}
}

// over reports whether the conversation has ended.
func (c *Client) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead != nil
}

// violate records a violation by the server.
func (c *Client) violate(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violateLocked(format, args...)
}

func (c *Client) violateLocked(format string, args ...any) {
	if len(c.violations) < maxViolations {
		c.violations = append(c.violations, fmt.Sprintf(format, args...))
	}
}
