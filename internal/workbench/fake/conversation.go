package fake

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// phase is the state of the handshake in a conversation.
type phase int

const (
	unopened  phase = iota // only initialize and ping are allowed
	answered               // the server has answered initialize and waits for initialized
	operating              // everything is allowed
)

// conversation is the state of the connection to one client: a pipe, an HTTP session or an HTTP+SSE
// stream. In revisions without sessions, each HTTP request has its own conversation.
type conversation struct {
	s    *Server
	ed   *edition
	out  outlet         // receives the messages that do not belong to a request
	pipe *pipe          // the pipe; nil over HTTP
	wg   sync.WaitGroup // counts the goroutines that spawn started

	// s.mu guards the following fields.
	ended   bool // end was called; spawn starts no more goroutines
	phase   phase
	id      string // the id of the HTTP session
	caps    []byte // the capabilities that the client declared
	level   mcp.LogLevel
	calls   int // the number of calls of the tool "count"
	used    map[jsonrpc.ID]bool
	running map[jsonrpc.ID]*exchange
	asked   map[jsonrpc.ID]chan *jsonrpc.Message
	lastAsk int64
	watched map[string]bool // the subscribed URIs
	listens []*listen

	// The following fields are only for HTTP sessions.
	standing   *stream            // the GET stream
	streams    map[string]*stream // the streams that can be resumed, by id
	lastStream int
}

// exchange is one request that the server is serving. While the method run is running, only its
// goroutine may change the exchange.
type exchange struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	c      *conversation
	m      *jsonrpc.Message
	method *method
	tool   *tool
	out    outlet
	header http.Header // the headers of the HTTP request; nil on a pipe

	caps  []byte       // the client's capabilities; nil if the client declared none
	level mcp.LogLevel // the lowest level of the log messages that the client wants; 0 if it wants none
	token []byte       // the progress token; nil if the client does not want progress

	// The following fields are for revisions with input rounds: the client's answers so far, the
	// number of answers that the tool has used, and whether past contains the answers in this request.
	past     [][]byte
	spent    int
	answered bool
}

// converse starts a conversation. Messages that do not belong to a request go to out.
func (s *Server) converse(out outlet) *conversation {
	c := &conversation{
		s: s, ed: s.part.ed, out: out,
		used: map[jsonrpc.ID]bool{}, running: map[jsonrpc.ID]*exchange{},
		asked: map[jsonrpc.ID]chan *jsonrpc.Message{}, watched: map[string]bool{},
	}
	// 2025-11-25 §Logging, "Setting Log Level": the server may choose the level until the
	// client sets it.
	c.level, _ = mcp.ParseLogLevel("info")
	s.mu.Lock()
	s.state.conversations[c] = true
	s.mu.Unlock()
	return c
}

// end ends the conversation. It cancels all running requests and waits until they have ended.
func (c *conversation) end(cause error) {
	c.s.mu.Lock()
	delete(c.s.state.conversations, c)
	c.ended = true
	var all []*exchange
	for _, x := range c.running {
		all = append(all, x)
	}
	c.s.mu.Unlock()
	for _, x := range all {
		x.cancel(cause)
	}
	c.wg.Wait()
}

// spawn runs f in a new goroutine. It does nothing and returns false if the conversation has
// ended.
func (c *conversation) spawn(f func()) bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if !c.ended {
		c.wg.Go(f)
	}
	return !c.ended
}

// receive handles one message or batch that a client sent on a pipe.
func (c *conversation) receive(ctx context.Context, raw []byte, out outlet) {
	c.s.capture.write(request, raw)
	c.process(ctx, raw, out)
}

// process does the same as receive, but does not write the message to the capture.
func (c *conversation) process(ctx context.Context, raw []byte, out outlet) {
	if c.ed.has(batches) && jsonrpc.IsBatch(raw) {
		c.receiveBatch(ctx, raw, out)
		return
	}
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxMessage})
	c.applyTwist(&arrival{c, raw, m, out}, func() {
		if err != nil {
			c.send(out, nil, c.s.unreadable(err))
			return
		}
		if x, _ := c.take(ctx, m, nil, out); x != nil {
			c.serve(x)
		}
	})
}

// applyTwist passes a message to the twist of the profile. The twist may call next, which handles
// the message as a strict server does. Without a twist, applyTwist calls next.
func (c *conversation) applyTwist(h *arrival, next func()) {
	if receive := c.s.part.twist.receive; receive != nil {
		receive(h, next)
		return
	}
	next()
}

// unreadable records a violation and returns the error response to input that is not a message.
func (s *Server) unreadable(err error) []byte {
	var bad *jsonrpc.Error
	if !errors.As(err, &bad) {
		bad = refusal(jsonrpc.CodeInternal, "the message could not be read")
	}
	s.violate("message", "%s", bad.Message)
	id := bad.ID
	if id == "" && s.part.ed.has(nullIDs) {
		id = "null"
	}
	return jsonrpc.AppendError(nil, id, bad)
}

// take handles one message. It returns a valid request as x, and the caller must serve x. It
// answers invalid requests itself. ok is false if the revision does not allow the message.
func (c *conversation) take(ctx context.Context, m *jsonrpc.Message, header http.Header, out outlet) (x *exchange, ok bool) {
	switch m.Kind {
	case jsonrpc.Request:
		x = &exchange{c: c, m: m, out: out, header: header}
		x.ctx, x.cancel = context.WithCancelCause(ctx)
		if bad := c.admit(x); bad != nil {
			x.cancel(nil)
			c.send(out, m, jsonrpc.AppendError(nil, m.ID, bad))
			return nil, false
		}
		return x, true
	case jsonrpc.Notification:
		return nil, c.note(m, header != nil)
	default:
		return nil, c.answer(m)
	}
}

// serve runs a request. A request that may wait runs in a goroutine of its own.
func (c *conversation) serve(x *exchange) {
	if x.waits() {
		c.spawn(x.run)
		return
	}
	x.run()
}

func (x *exchange) waits() bool {
	return x.method.waits || x.tool != nil && (x.tool.waits || x.c.s.part.twist.call != nil)
}

// run serves the request and sends the response.
func (x *exchange) run() {
	defer x.cancel(nil)
	result, err := x.perform()
	x.c.retire(x)
	cause := context.Cause(x.ctx)
	if errors.Is(cause, errCancelled) || err != nil && cause != nil {
		// 2025-11-25 §Cancellation, "Behavior Requirements": a cancelled request gets no
		// response. A request that ends because the server ends does not get a response either.
		if st, ok := x.out.(*stream); ok && !st.standing {
			st.end()
		}
		return
	}
	x.c.send(x.out, x.m, x.wrap(result, err))
}

func (x *exchange) perform() (string, error) {
	if before := x.c.s.part.twist.call; before != nil && x.tool != nil {
		if err := before(x); err != nil {
			return "", err
		}
	}
	return x.method.run(x)
}

// wrap builds a response from the members of a result or from an error.
func (x *exchange) wrap(members string, err error) []byte {
	var fault toolError
	var rounds *inputRequired
	var made *asTask
	var bad *jsonrpc.Error
	kind := mcp.ResultComplete
	switch {
	case err == nil:
	case errors.As(err, &fault):
		members = textResult(string(fault)) + `,"isError":true`
	case errors.As(err, &rounds):
		members, kind = rounds.members, mcp.ResultInputRequired
	case errors.As(err, &made):
		members, kind = made.members, mcp.ResultTask
	case errors.As(err, &bad):
		return jsonrpc.AppendError(nil, x.m.ID, bad)
	default:
		return jsonrpc.AppendError(nil, x.m.ID, refusal(jsonrpc.CodeInternal, "%v", err))
	}
	if x.c.ed.has(resultTypes) {
		// See 2026-07-28 §Base, "ResultType" and "Per-response protocol fields", and §Caching.
		head := `"resultType":` + quote(kind) + `,"_meta":{` + x.resultMeta() + `}`
		if x.method.cached && kind == mcp.ResultComplete {
			head += `,"ttlMs":0,"cacheScope":"private"`
		}
		if members != "" {
			head += ","
		}
		members = head + members
	}
	return jsonrpc.AppendResult(nil, x.m.ID, []byte("{"+members+"}"))
}

func (x *exchange) resultMeta() string {
	meta := quote(mcp.KeyServerInfo) + ":" + x.c.s.identity()
	if x.method.name == mcp.MethodListen {
		meta += "," + quote(mcp.KeySubscriptionID) + ":" + string(x.m.ID)
	}
	return meta
}

// identity returns the server's Implementation object.
func (s *Server) identity() string {
	title := ""
	if s.part.ed.has(titles) {
		title = `,"title":"Fake"`
	}
	return `{"name":"fake"` + title + `,"version":` + quote(s.version) + `}`
}

// send sends a message that belongs to the request m. m is nil if the message belongs to no request.
func (c *conversation) send(out outlet, m *jsonrpc.Message, msg []byte) {
	if say := c.s.part.twist.say; say != nil {
		if msg = say(c, m, msg); msg == nil {
			return
		}
	}
	out.send(msg)
}

// notify sends a notification that belongs to the request of the exchange.
func (x *exchange) notify(method, params string) {
	x.c.send(x.out, x.m, jsonrpc.AppendNotification(nil, method, []byte(params)))
}

// abandon removes a running request from its conversation and returns it. It returns nil if no such
// request is running. If the request calls a tool whose field long is true, abandon increments the
// number of cancelled calls.
func (c *conversation) abandon(id jsonrpc.ID) *exchange {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	x := c.running[id]
	delete(c.running, id)
	if x != nil && x.tool != nil && x.tool.long {
		c.s.state.cancelled++
	}
	return x
}

// retire removes a request that has ended from the running requests.
func (c *conversation) retire(x *exchange) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.running[x.m.ID] == x {
		delete(c.running, x.m.ID)
	}
}

// receiveBatch handles a batch. It sends the responses as one array, and all other messages as single
// messages (2025-03-26 §Base, "Batching"; JSON-RPC 2.0 §6).
func (c *conversation) receiveBatch(ctx context.Context, raw []byte, out outlet) {
	xs, b, bad := c.takeBatch(ctx, raw, nil, out)
	if bad != nil {
		c.send(out, nil, bad)
		return
	}
	finish := func() {
		b.serve(xs)
		if all := b.array(); all != nil {
			out.send(all)
		}
	}
	if slices.ContainsFunc(xs, (*exchange).waits) {
		c.spawn(finish)
		return
	}
	finish()
}

// takeBatch calls take for each message of a batch. The caller must serve the returned requests and
// send the responses in the returned batch. If raw is not a valid batch, takeBatch returns only an
// error response.
func (c *conversation) takeBatch(ctx context.Context, raw []byte, header http.Header, out outlet) ([]*exchange, *batch, []byte) {
	items, err := jsonrpc.ScanBatch(raw, jsonrpc.Limits{Bytes: maxMessage})
	if err != nil {
		return nil, nil, c.s.unreadable(err)
	}
	b := &batch{through: out}
	var xs []*exchange
	for _, it := range items {
		switch {
		case it.Err != nil:
			b.send(c.s.unreadable(it.Err))
		case it.Message.Method == mcp.MethodInitialize:
			// 2025-03-26 §Lifecycle, "Initialization": initialize must not be in a batch.
			b.send(jsonrpc.AppendError(nil, it.Message.ID, c.s.refuse(it.Message.Method, jsonrpc.CodeInvalidRequest, "initialize must not be part of a batch")))
		default:
			if x, _ := c.take(ctx, it.Message, header, b); x != nil {
				xs = append(xs, x)
			}
		}
	}
	return xs, b, nil
}

// batch is an outlet that collects the responses to a batch and sends all other messages to through.
type batch struct {
	through outlet
	mu      sync.Mutex
	answers []string
}

func (b *batch) send(msg []byte) {
	m, err := jsonrpc.Scan(msg, jsonrpc.Limits{Tolerant: true})
	if err == nil && (m.Kind == jsonrpc.Request || m.Kind == jsonrpc.Notification) {
		b.through.send(msg)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers = append(b.answers, string(msg))
}

// serve runs the requests one at a time.
func (b *batch) serve(xs []*exchange) {
	for _, x := range xs {
		x.run()
	}
}

// array returns the responses as an array, or nil if the batch has no responses.
func (b *batch) array() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.answers) == 0 {
		return nil
	}
	return []byte("[" + strings.Join(b.answers, ",") + "]")
}
