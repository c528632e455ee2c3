package fake

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// phase is how far a conversation with a handshake has come.
type phase int

const (
	unopened  phase = iota // nothing but initialize and ping
	answered               // initialize has its result; initialized is due
	operating              // everything
)

// conversation is what a client and a server have to do with each other: a
// session of the revisions that have one; without it a pipe, or one HTTP request.
type conversation struct {
	s    *Server
	ed   *edition
	out  outlet         // of messages that belong to no request
	pipe *pipe          // nil over HTTP
	wg   sync.WaitGroup // requests that wait

	// Guarded by s.mu from here on.
	ended   bool // nothing may begin any more
	phase   phase
	id      string // of the HTTP session
	caps    []byte // the client's capabilities, as it declared them
	level   mcp.LogLevel
	calls   int // of count
	used    map[jsonrpc.ID]bool
	running map[jsonrpc.ID]*exchange
	asked   map[jsonrpc.ID]chan *jsonrpc.Message
	lastAsk int64
	watched map[string]bool // URIs
	listens []*listen

	// Of an HTTP session.
	standing   *stream            // of what belongs to no request
	streams    map[string]*stream // by id, for who resumes one
	lastStream int
}

// exchange is one request on its way to an answer. It belongs to the goroutine
// that serves the request.
type exchange struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	c      *conversation
	m      *jsonrpc.Message
	method *method
	tool   *tool
	out    outlet
	header http.Header // nil on a pipe

	caps  []byte       // the client's capabilities, "" for none
	level mcp.LogLevel // the least severe log message that is wanted; 0 none
	token []byte       // of progress, nil when none is wanted

	// Of the revisions with rounds of input: the answers so far, how many of them
	// the tool has taken again, and whether those of this request are among them.
	past     [][]byte
	spent    int
	answered bool
}

// converse begins a conversation whose messages beside requests go to out.
func (s *Server) converse(out outlet) *conversation {
	c := &conversation{
		s: s, ed: s.part.ed, out: out,
		used: map[jsonrpc.ID]bool{}, running: map[jsonrpc.ID]*exchange{},
		asked: map[jsonrpc.ID]chan *jsonrpc.Message{}, watched: map[string]bool{},
	}
	// 2025-11-25 §Logging, "Setting Log Level": until the client has set one, the
	// server chooses.
	c.level, _ = mcp.ParseLogLevel("info")
	s.mu.Lock()
	s.state.conversations[c] = true
	s.mu.Unlock()
	return c
}

// end cancels what is running and waits for it.
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

// spawn runs f beside others, unless the conversation has ended.
func (c *conversation) spawn(f func()) bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if !c.ended {
		c.wg.Go(f)
	}
	return !c.ended
}

// hear takes one message of the client, or one batch, over a pipe.
func (c *conversation) hear(ctx context.Context, raw []byte, out outlet) {
	c.s.capture.write(request, raw)
	c.heard(ctx, raw, out)
}

// heard is hear for what was captured before.
func (c *conversation) heard(ctx context.Context, raw []byte, out outlet) {
	if c.ed.has(batches) && jsonrpc.IsBatch(raw) {
		c.hearBatch(ctx, raw, out)
		return
	}
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxMessage})
	c.twisted(&heard{ctx, c, raw, m, out}, func() {
		if err != nil {
			c.tell(out, nil, c.s.unreadable(err))
			return
		}
		if x, _ := c.take(ctx, m, nil, out); x != nil {
			c.serve(x)
		}
	})
}

// twisted shows a message to the profile's twist first.
func (c *conversation) twisted(h *heard, next func()) {
	if hear := c.s.part.twist.hear; hear != nil {
		hear(h, next)
		return
	}
	next()
}

// unreadable is the answer to bytes that are no message.
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

// take looks at one message. It answers what is to be refused, deals with
// notifications and answers, and returns a request that is to be served; ok is
// false for what the revision does not allow.
func (c *conversation) take(ctx context.Context, m *jsonrpc.Message, header http.Header, out outlet) (x *exchange, ok bool) {
	switch m.Kind {
	case jsonrpc.Request:
		x = &exchange{c: c, m: m, out: out, header: header}
		x.ctx, x.cancel = context.WithCancelCause(ctx)
		if bad := c.admit(x); bad != nil {
			x.cancel(nil)
			c.tell(out, m, jsonrpc.AppendError(nil, m.ID, bad))
			return nil, false
		}
		return x, true
	case jsonrpc.Notification:
		return nil, c.note(m, header != nil)
	default:
		return nil, c.answer(m)
	}
}

// serve runs a request: at once, or beside others when it waits.
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

// run serves the request to its end.
func (x *exchange) run() {
	defer x.cancel(nil)
	result, err := x.perform()
	x.c.retire(x)
	cause := context.Cause(x.ctx)
	if errors.Is(cause, errCancelled) || err != nil && cause != nil {
		// 2025-11-25 §Cancellation, "Behavior Requirements": no answer to a request
		// that was cancelled. There is none to give either when everything ends.
		if st, ok := x.out.(*stream); ok && !st.standing {
			st.end()
		}
		return
	}
	x.c.tell(x.out, x.m, x.wrap(result, err))
}

func (x *exchange) perform() (string, error) {
	if before := x.c.s.part.twist.call; before != nil && x.tool != nil {
		if err := before(x); err != nil {
			return "", err
		}
	}
	return x.method.run(x)
}

// wrap makes an answer of a result's members or of an error.
func (x *exchange) wrap(members string, err error) []byte {
	var said toolError
	var rounds *inputRequired
	var made *asTask
	var bad *jsonrpc.Error
	kind := mcp.ResultComplete
	switch {
	case err == nil:
	case errors.As(err, &said):
		members = textResult(string(said)) + `,"isError":true`
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
		// 2026-07-28 §Base, "ResultType", "Per-response protocol fields"; §Caching.
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

// identity returns what the server says it is.
func (s *Server) identity() string {
	title := ""
	if s.part.ed.has(titles) {
		title = `,"title":"Fake"`
	}
	return `{"name":"fake"` + title + `,"version":` + quote(s.version) + `}`
}

// tell sends a message that belongs to the request m, or to none.
func (c *conversation) tell(out outlet, m *jsonrpc.Message, msg []byte) {
	if say := c.s.part.twist.say; say != nil {
		if msg = say(c, m, msg); msg == nil {
			return
		}
	}
	out.send(msg)
}

// notify sends a notification on the way of the request.
func (x *exchange) notify(method, params string) {
	x.c.tell(x.out, x.m, jsonrpc.AppendNotification(nil, method, []byte(params)))
}

// abandon takes a request that is still running out of its conversation, nil when
// it is not. A call of a tool that is long counts as cancelled.
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

// retire forgets a request that has ended.
func (c *conversation) retire(x *exchange) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.running[x.m.ID] == x {
		delete(c.running, x.m.ID)
	}
}

// hearBatch takes a batch: its answers come as one array, whatever else is said
// meanwhile does not (2025-03-26 §Base, "Batching"; JSON-RPC 2.0 §6).
func (c *conversation) hearBatch(ctx context.Context, raw []byte, out outlet) {
	xs, b, bad := c.takeBatch(ctx, raw, nil, out)
	if bad != nil {
		c.tell(out, nil, bad)
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

// takeBatch is take for a batch. The requests among it are to be served by serve.
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
			// 2025-03-26 §Lifecycle, "Initialization": it must not be in a batch.
			b.send(jsonrpc.AppendError(nil, it.Message.ID, c.s.refuse(it.Message.Method, jsonrpc.CodeInvalidRequest, "initialize must not be part of a batch")))
		default:
			if x, _ := c.take(ctx, it.Message, header, b); x != nil {
				xs = append(xs, x)
			}
		}
	}
	return xs, b, nil
}

// batch collects the answers to a batch, and lets everything else through.
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

// serve runs the requests one after the other, in their order.
func (b *batch) serve(xs []*exchange) {
	for _, x := range xs {
		x.run()
	}
}

// array returns the answers, nil when there is none.
func (b *batch) array() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.answers) == 0 {
		return nil
	}
	return []byte("[" + strings.Join(b.answers, ",") + "]")
}
