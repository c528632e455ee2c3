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

// Where says where a server is found.
type Where struct {
	// Command starts it as a child on standard streams; empty means URL.
	Command []string
	// Env are variables to add to this process's own, as K=V.
	Env []string
	// In and Out are a server that runs already, one message a line, in place of a
	// command: what it says, and what it is told. The client closes both.
	In  io.ReadCloser
	Out io.WriteCloser
	// URL is the endpoint of a server that runs: that of Streamable HTTP, or where the
	// revision does not have that, of HTTP+SSE.
	URL string
}

// ClientOptions are what a strict client is played with. The zero value declares
// whatever the revision has and answers every question.
type ClientOptions struct {
	// Without are capabilities not to declare: sampling, elicitation, url, roots,
	// tasks.
	Without []string
	// Answer answers what the server asks. It is called on a goroutine of the
	// client, several at a time. Nil means Obliging.
	Answer func(ctx context.Context, a Ask) ([]byte, *jsonrpc.Error)
	// Capture gets each message as one line; nil for none.
	Capture io.Writer
	// Stderr gets the standard error of a child; nil throws it away.
	Stderr io.Writer
	// Version is the version in the client's identity.
	Version string
	// Set changes settings of the profile, by name.
	Set map[string]string
}

// Ask is one question of a server.
type Ask struct {
	Method string
	Params []byte // an object; nil for none
	// Key is that of the question within its round, "" for a live request.
	Key string
}

// Notice is one notification of the server.
type Notice struct {
	Method string
	Params []byte // an object; nil for none
	// Serial counts the notices of a conversation from 1.
	Serial int
}

// Reply is how a call ended: with a result or an error of the server.
type Reply struct {
	Result []byte         // an object; nil when it failed
	Err    *jsonrpc.Error // nil when it did not fail
	// Rounds counts the requests that it took; above 1 where the server asked by
	// input_required (2026-07-28 §Multi Round-Trip Requests).
	Rounds int
	// Progress and Logs are the notices that belong to this call: those with its
	// token, and where the revision logs per request those of its request.
	Progress, Logs []Notice
}

// CallOptions are what else a call may say. The zero value says nothing.
type CallOptions struct {
	// Progress sends a progress token. OnProgress, if any, is told of each notice
	// on the goroutine that reads; it must not block.
	Progress   bool
	OnProgress func(Notice)
	// LogLevel wants the messages of this request, where that is how it is done
	// (2026-07-28 §Logging); otherwise it is an error.
	LogLevel string
	// Break cuts the response's stream after that many events with an id and
	// resumes it, where the revision and the transport can; 0 never does.
	Break int
	// Meta are members to add to _meta, as they stand between its braces.
	Meta string

	probe *edition // of a question before initialize: the revision that it is of
}

// Bounds of one client. What goes beyond them is a violation, not a crash.
const (
	maxNotices  = 10_000
	maxRounds   = 16
	maxOpenAsks = 32
)

// clientPatience bounds what a client waits for when it closes.
const clientPatience = 5 * time.Second

// road carries the messages of one conversation. Both methods may be called by
// several goroutines.
type road interface {
	// send sends a message; f is what a request is waited for with, nil for
	// anything else. Its error means that the message has not arrived. Cancelling
	// ctx cancels no request, f does that.
	send(ctx context.Context, msg []byte, f *flight) error
	// cancel tells that an answer is no longer wanted, if the road and not a
	// message says so; done reports that it did.
	cancel(f *flight) (done bool)
	// close ends the conversation and waits for what was started.
	close(ctx context.Context) error
}

// Client is a strict client of one revision. All methods are safe for concurrent
// use.
type Client struct {
	role
	o    ClientOptions
	caps []byte // what it declares
	road road

	ctx    context.Context // of what the client does by itself; ended by Close
	stop   context.CancelCauseFunc
	asking sync.WaitGroup

	tape *capture

	mu         sync.Mutex
	ids        int64
	flights    map[jsonrpc.ID]*flight
	cancelled  map[jsonrpc.ID]bool // requests whose answer may still come
	tokens     map[string]*flight  // of calls with progress, by JSON text
	lastToken  int64               // of those that are numbers
	lateTokens map[string]bool     // of cancelled calls, whose progress may still come
	open       map[jsonrpc.ID]bool // questions of the server in progress
	ready      bool                // initialized has been sent, or there is no such thing
	server     greeting
	level      mcp.LogLevel // of the session; 0 while none was set
	watched    map[string]bool
	listens    map[jsonrpc.ID]*Subscription
	mirrors    map[string][]headerArg // of tools, the arguments that headers mirror
	notices    []Notice
	asks       []Ask
	violations []string
	// overwhelmed says that there have been more notices than are kept.
	overwhelmed bool
	news        chan struct{} // closed and replaced at each notice
	dead        error         // why the conversation is over
}

// greeting is how the server introduced itself.
type greeting struct {
	raw  []byte // the result of initialize or server/discover
	caps jsonrpc.Span
}

// flight is one request that waits for its answer.
type flight struct {
	id      jsonrpc.ID
	method  string
	name    string // params.name or params.uri
	params  []byte
	token   string
	level   mcp.LogLevel // wanted for this request alone
	opts    CallOptions
	cut     context.CancelFunc // ends its HTTP exchange; nil for none
	done    chan struct{}
	once    sync.Once
	reply   Reply
	err     error // the road's
	reached float64
	events  bool // a progress notice has come
	listen  *Subscription
}

// end ends the flight, once; only the first call counts.
func (f *flight) end(set func()) (first bool) {
	f.once.Do(func() {
		set()
		first = true
		close(f.done)
	})
	return first
}

// strictClients are the profiles of this file.
func strictClients() []Profile {
	var out []Profile
	for _, e := range editions() {
		out = append(out, Profile{
			Name: "strict-" + e.date, Kind: Strict, Side: ClientSide, Settings: playSettings,
			client: func(s *settings) (*role, error) { return s.role(e, habits{}) },
			About:  "A client of " + e.date + " that tries all of it and reports whatever that revision does not allow.",
		})
	}
	return out
}

// OpenClient opens a conversation with the server as the profile's revision says,
// and returns when requests may be sent. Its error says at which step it failed;
// a server that does not speak the revision is one. It is bounded by ctx alone. The
// client must be closed.
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
		flights: map[jsonrpc.ID]*flight{}, cancelled: map[jsonrpc.ID]bool{},
		tokens: map[string]*flight{}, open: map[jsonrpc.ID]bool{},
		watched: map[string]bool{}, listens: map[jsonrpc.ID]*Subscription{}, mirrors: map[string][]headerArg{},
		news: make(chan struct{}),
	}
	if c.habits.fromZero {
		c.ids, c.lastToken = -1, -1
	}
	c.ctx, c.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	switch {
	case at.In != nil:
		c.road = c.join(at.In, at.Out)
	case len(at.Command) > 0:
		c.road, err = c.spawn(at)
	case !e.has(streamable):
		c.road, err = c.dialEvents(ctx, at.URL)
	default:
		c.road = c.dialHTTP(at.URL)
	}
	if err == nil {
		free := context.AfterFunc(ctx, func() { c.hangUp(context.Cause(ctx)) })
		err = c.greet(ctx)
		free()
	}
	if err != nil {
		_ = c.Close()
		if seen := c.Violations(); len(seen) > 0 {
			err = fmt.Errorf("%w; before that it saw: %s", err, seen[0])
		}
		return nil, err
	}
	return c, nil
}

// greet opens the conversation: initialize and initialized (§Lifecycle of the four
// legacy revisions), or server/discover (2026-07-28 §Versioning).
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
			return fmt.Errorf("initialize: the server speaks %s, which a client of %s does not", clip(got), c.e.date)
		}
	} else {
		var dates []string
		for v := range jsonrpc.Elements(r.Result, jsonrpc.Find(r.Result, whole, "supportedVersions")) {
			date, _ := jsonrpc.Text(r.Result, v)
			dates = append(dates, date)
		}
		if !slices.Contains(dates, c.e.date) {
			return fmt.Errorf("server/discover: the server speaks %q", dates)
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
	if h, ok := c.road.(*httpRoad); ok && c.e.has(httpSessions) {
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

// Offers reports whether the server declared a capability, as a path of names.
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

// Notices returns the notices so far, oldest first.
func (c *Client) Notices() []Notice {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.notices)
}

// Asks returns the questions so far, oldest first.
func (c *Client) Asks() []Ask {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asks)
}

// Violations returns what the server did that the revision does not allow, in the
// order in which it was seen; at most 100.
func (c *Client) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// Await returns the first notice after the serial number after that want is true
// of; it waits for one until ctx or the conversation ends.
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

// Serial returns the serial number of the last notice, 0 before the first.
func (c *Client) Serial() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.notices)
}

var errClientClosed = errors.New("the client was closed")

// Close ends the conversation as the revision says and waits for everything that
// the client started. The second call does nothing.
func (c *Client) Close() error {
	c.over(errClientClosed)
	ctx, cancel := context.WithTimeout(c.ctx, clientPatience)
	defer cancel()
	var err error
	if c.road != nil {
		err = c.road.close(ctx)
	}
	c.stop(errClientClosed)
	c.asking.Wait()
	return err
}

// over ends every request that waits; the first reason counts.
func (c *Client) over(why error) {
	c.mu.Lock()
	if c.dead != nil {
		c.mu.Unlock()
		return
	}
	c.dead = why
	var waiting []*flight
	for id, f := range c.flights {
		waiting = append(waiting, f)
		delete(c.flights, id)
	}
	close(c.news)
	c.news = make(chan struct{})
	c.mu.Unlock()
	for _, f := range waiting {
		f.end(func() { f.err = why })
	}
}

// violate takes down what the server must not do.
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
