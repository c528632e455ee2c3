package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Where says how a client reaches a server.
type Where struct {
	// Command starts the server as a child process on stdio; if it is empty, URL is used.
	Command []string
	// Env lists environment variables as K=V. They are added to those of this process.
	Env []string
	// In and Out connect to a running server, with one message per line. In is the output of the
	// server, and Out is its input. The client closes both.
	In  io.ReadCloser
	Out io.WriteCloser
	// URL is the endpoint of a running server. The transport is Streamable HTTP, or HTTP+SSE in the
	// revision that has no other HTTP transport.
	URL string
}

// ClientOptions configure a strict client. The zero value declares every capability of
// the revision and answers every request.
type ClientOptions struct {
	// Without lists capabilities not to declare: sampling, elicitation, url, roots,
	// tasks.
	Without []string
	// Answer answers server requests. It is called on the client's goroutines, possibly
	// several at once. Nil means Obliging.
	Answer func(ctx context.Context, a Ask) ([]byte, *jsonrpc.Error)
	// Capture receives each message as one line. It may be nil.
	Capture io.Writer
	// Stderr receives a child's stderr; nil discards it.
	Stderr io.Writer
	// Version is the version in the client's identity.
	Version string
	// Set overrides settings of the profile, by name.
	Set map[string]string
}

// Ask is one request from a server.
type Ask struct {
	Method string
	Params []byte // an object; nil for none
	// Key is the question's key within its round; "" for a request outside of rounds.
	Key string
}

// Notice is one notification from the server.
type Notice struct {
	Method string
	Params []byte // the params object; nil for none
	// Serial is the number of the notification in its conversation, starting at 1.
	Serial int
}

// Reply is the outcome of a call: a result or an error from the server.
type Reply struct {
	Result []byte         // an object; nil if the call failed
	Err    *jsonrpc.Error // nil if the call succeeded
	// Rounds is the number of requests sent. It is more than 1 if the server answered
	// input_required (2026-07-28 §Multi Round-Trip Requests).
	Rounds int
	// Progress and Logs are the notifications that belong to this call. Progress has those with the
	// token of the call. Logs has the log messages of the call, in revisions with per-request
	// logging.
	Progress, Logs []Notice
}

// CallOptions are the optional settings of a call. The zero value sets none.
type CallOptions struct {
	// If Progress is set, the call sends a progress token. OnProgress is called for each progress
	// notification, on the reading goroutine. OnProgress must not block, and may be nil.
	Progress   bool
	OnProgress func(Notice)
	// LogLevel requests log messages for this call, in revisions with per-request logging
	// (2026-07-28 §Logging). In other revisions, setting it is an error.
	LogLevel string
	// Break is the number of events with an id after which the client closes the response stream
	// and resumes it, if the revision and the transport support that. 0 means never.
	Break int
	// Meta has members to add to _meta, as JSON without the braces.
	Meta string

	probe *edition // the revision of a probe before initialize; nil for other requests
}

// Limits of one client. If the server exceeds a limit, the client records a violation.
const (
	maxNotices  = 10_000
	maxRounds   = 16
	maxOpenAsks = 32
)

// clientPatience is the timeout for Close.
const clientPatience = 5 * time.Second

// wire carries the messages of one conversation. send and cancel may be called by several
// goroutines.
type wire interface {
	// send sends a message. f is the pending request, or nil for other messages. An error
	// means that the message was not delivered. The end of ctx does not cancel the request;
	// the method cancel does.
	send(ctx context.Context, msg []byte, f *pendingRequest) error
	// cancel cancels a request if the transport itself has a signal for that. If done is
	// false, the caller must send a notification instead.
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

	ctx    context.Context // ends when Close is called; used for actions that no caller started
	stop   context.CancelCauseFunc
	asking sync.WaitGroup

	tape *capture

	mu         sync.Mutex
	ids        int64
	pending    map[jsonrpc.ID]*pendingRequest
	cancelled  map[jsonrpc.ID]bool        // cancelled requests whose response may still arrive
	tokens     map[string]*pendingRequest // calls with progress, by token as JSON text
	lastToken  int64                      // the last numeric token
	lateTokens map[string]bool            // tokens of cancelled calls, whose progress may still arrive
	open       map[jsonrpc.ID]bool        // server requests that are being answered
	ready      bool                       // initialized was sent, or the revision does not have a handshake
	server     greeting
	level      mcp.LogLevel // the level of the session; 0 until it is set
	watched    map[string]bool
	listens    map[jsonrpc.ID]*Subscription
	mirrors    map[string][]headerArg // the arguments that headers repeat, by tool
	notices    []Notice
	asks       []Ask
	violations []string
	// overwhelmed is true after the server has sent more notifications than the client keeps.
	overwhelmed bool
	news        chan struct{} // closed and replaced at each notification
	dead        error         // the reason why the conversation has ended
}

// greeting is the answer with which the server introduces itself.
type greeting struct {
	raw  []byte // the result of initialize or server/discover
	caps jsonrpc.Span
}

// pendingRequest is a request that waits for its response.
type pendingRequest struct {
	id      jsonrpc.ID
	method  string
	name    string // the value of params.name or params.uri
	params  []byte
	token   string
	level   mcp.LogLevel // the log level for this request only
	opts    CallOptions
	cut     context.CancelFunc // ends the HTTP exchange of the request; nil for none
	done    chan struct{}
	once    sync.Once
	reply   Reply
	err     error // an error of the transport
	reached float64
	events  bool // a progress notification has arrived
	listen  *Subscription
}

// end completes the request. Only the first call has an effect.
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
// requests may be sent. It fails if the server does not support the revision. The error names the
// step that failed. Only ctx limits how long OpenClient takes. The caller must close the client.
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

// greet opens the conversation: initialize and initialized (§Lifecycle of the four legacy
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

// Offers reports whether the server declared the capability at the path.
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

// Notices returns the notifications so far, oldest first.
func (c *Client) Notices() []Notice {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.notices)
}

// Asks returns the server requests so far, oldest first.
func (c *Client) Asks() []Ask {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asks)
}

// Violations returns the server's violations of the rules of the revision, oldest first. It returns
// at most 100.
func (c *Client) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// Await returns the first notification that has a greater number than the parameter after, and for
// which want returns true. It waits for such a notification until ctx or the conversation ends.
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
// that the client started. Further calls have no effect.
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

// endWith ends every pending request. Only the reason of the first call counts.
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
