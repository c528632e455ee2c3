package fake

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Call sends a request and waits for the outcome. params is an object without _meta, or nil. If the
// server answers input_required, Call answers the questions and resends the request until the
// server returns a complete result. If ctx ends, Call cancels the request as the revision and the
// transport specify. Errors from the server are in the Reply, not in the returned error.
func (c *Client) Call(ctx context.Context, method string, params []byte, o CallOptions) (*Reply, error) {
	if o.LogLevel != "" && !c.e.has(perRequest) {
		return nil, fmt.Errorf("a client of %s cannot set a log level for one request", c.e.date)
	}
	if len(params) == 0 && c.e.has(perRequest) {
		params = []byte("{}")
	}
	whole := &Reply{}
	for again := params; ; {
		r, err := c.exchange(ctx, method, again, o)
		if err != nil {
			return nil, err
		}
		whole.Rounds++
		whole.Result, whole.Err = r.Result, r.Err
		whole.Progress = append(whole.Progress, r.Progress...)
		whole.Logs = append(whole.Logs, r.Logs...)
		if r.Err != nil || !c.e.has(inputRounds) || !isInputRequired(r.Result) {
			return whole, nil
		}
		if whole.Rounds == maxRounds {
			return nil, fmt.Errorf("the server still asks for input during %s after %d rounds", method, maxRounds)
		}
		if again, err = c.answerRound(ctx, params, r.Result); err != nil {
			return nil, err
		}
	}
}

func isInputRequired(result []byte) bool {
	t, _ := jsonrpc.Text(result, jsonrpc.Find(result, jsonrpc.Whole(result), "resultType"))
	return t == "input_required"
}

// answerRound answers the questions of an input_required result. It returns the params of the
// retry: the params of the call, the answers, and the unchanged requestState (2026-07-28 §Multi
// Round-Trip Requests, "Client Requirements").
func (c *Client) answerRound(ctx context.Context, params, result []byte) ([]byte, error) {
	whole := jsonrpc.Whole(result)
	var e jsonrpc.Edits
	var fields []jsonrpc.Field
	requests := jsonrpc.Find(result, whole, "inputRequests")
	answers := []byte{'{'}
	for m := range jsonrpc.Members(result, requests) {
		key, _ := jsonrpc.Text(result, m.Key)
		a := Ask{Params: jsonrpc.Find(result, m.Value, "params").Of(result)}
		a.Method, _ = jsonrpc.Text(result, jsonrpc.Find(result, m.Value, "method"))
		if wrong := c.checkAsk(a); wrong != "" {
			c.violate("input request %s: %s", clip(key), wrong)
		}
		c.mu.Lock()
		c.asks = append(c.asks, a)
		c.mu.Unlock()
		answer, refused := c.o.Answer(ctx, a)
		if refused != nil {
			return nil, fmt.Errorf("the client refused %s: %w", a.Method, refused)
		}
		if len(answers) > 1 {
			answers = append(answers, ',')
		}
		answers = append(answers, m.Key.Of(result)...)
		answers = append(append(answers, ':'), answer...)
	}
	if len(answers) > 1 {
		fields = append(fields, jsonrpc.Field{Key: "inputResponses", Value: append(answers, '}')})
	} else if err := work.Sleep(ctx, 50*time.Millisecond); err != nil {
		return nil, err // ctx ended during the pause before a retry without answers
	}
	if state := jsonrpc.Find(result, whole, "requestState"); !state.IsZero() {
		fields = append(fields, jsonrpc.Field{Key: "requestState", Value: state.Of(result)})
	}
	e.Object(jsonrpc.NoReason, params, jsonrpc.Whole(params), nil, fields...)
	return jsonrpc.Splice(nil, params, &e), nil
}

// exchange sends one request and waits for its response.
func (c *Client) exchange(ctx context.Context, method string, params []byte, o CallOptions) (*Reply, error) {
	f, msg, err := c.launch(method, params, o)
	if err != nil {
		return nil, err
	}
	c.tape.write(request, msg)
	if err := c.wire.send(ctx, msg, f); err != nil {
		if ctx.Err() != nil && f.end(func() { f.err = context.Cause(ctx) }) {
			c.abandon(f) // the server may have got the request
		}
		c.retire(f)
		return nil, fmt.Errorf("send %s: %w", method, err)
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		if f.end(func() { f.err = context.Cause(ctx) }) {
			c.abandon(f)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	r := f.reply
	return &r, nil
}

// launch builds a request and registers it as pending.
func (c *Client) launch(method string, params []byte, o CallOptions) (*pendingRequest, []byte, error) {
	level, _ := mcp.ParseLogLevel(o.LogLevel)
	f := &pendingRequest{method: method, opts: o, level: level, done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead != nil {
		return nil, nil, c.dead
	}
	if o.probe != nil {
		f.id = probeID
	} else {
		c.ids++
		f.id = jsonrpc.IntID(c.ids)
	}
	meta := ""
	add := func(member string) {
		if meta != "" && member != "" {
			meta += ","
		}
		meta += member
	}
	if c.e.has(perRequest) {
		add(quote(mcp.KeyVersion) + ":" + quote(c.e.date))
		add(quote(mcp.KeyClientInfo) + ":" + c.identity())
		add(quote(mcp.KeyClientCaps) + ":" + string(c.caps))
		if level != 0 {
			add(quote(mcp.KeyLogLevel) + ":" + quote(o.LogLevel))
		}
	}
	if c.habits.names && c.ready {
		add(quote(mcp.KeyLogLevel) + `:"info"`)
	}
	if o.Progress {
		f.token = quote("token " + string(f.id))
		if c.habits.fromZero {
			c.lastToken++
			f.token = strconv.FormatInt(c.lastToken, 10)
		}
		c.tokens[f.token] = f
		add(quote(mcp.KeyProgressToken) + ":" + f.token)
	}
	add(o.Meta)
	if meta != "" {
		if len(params) == 0 {
			params = []byte("{}")
		}
		var e jsonrpc.Edits
		e.Object(jsonrpc.NoReason, params, jsonrpc.Whole(params), nil, jsonrpc.Field{Key: mcp.KeyMeta, Value: []byte("{" + meta + "}")})
		params = jsonrpc.Splice(nil, params, &e)
	}
	f.params = params
	if m := mcp.LookupMethod(method); m != nil && m.NameKey != "" {
		f.name, _ = jsonrpc.Text(params, jsonrpc.Find(params, jsonrpc.Whole(params), m.NameKey))
	}
	c.pending[f.id] = f
	return f, jsonrpc.AppendRequest(nil, f.id, method, params), nil
}

// retire removes a request that has ended, with its progress token and its subscription.
func (c *Client) retire(f *pendingRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retireLocked(f)
}

func (c *Client) retireLocked(f *pendingRequest) {
	delete(c.pending, f.id)
	delete(c.tokens, f.token)
	delete(c.listens, f.id)
}

var errNotWanted = errors.New("cancelled")

// abandon cancels a request by closing its stream (2026-07-28 §Streamable HTTP, "Cancellation") or
// with notifications/cancelled. It sends no notification for a probe, or for initialize, which must
// not be cancelled (§Cancellation of the legacy revisions).
func (c *Client) abandon(f *pendingRequest) {
	c.mu.Lock()
	c.retireLocked(f)
	c.cancelled[f.id] = true
	if f.token != "" {
		c.lateTokens[f.token] = true
	}
	c.mu.Unlock()
	if c.wire.cancel(f) || f.method == mcp.MethodInitialize || f.opts.probe != nil {
		return
	}
	ctx, done := context.WithTimeout(c.ctx, clientPatience)
	defer done()
	_ = c.Notify(ctx, mcp.NoteCancelled, fmt.Appendf(nil, `{"requestId":%s,"reason":"no longer wanted"}`, f.id))
	if f.cut != nil {
		f.cut() // close the stream, because the response may never come
	}
}

// Notify sends a notification. params is an object, or nil.
func (c *Client) Notify(ctx context.Context, method string, params []byte) error {
	msg := jsonrpc.AppendNotification(nil, method, params)
	c.tape.write(request, msg)
	return c.wire.send(ctx, msg, nil)
}

// SetLevel sets the session's log level (§Logging of the legacy revisions).
func (c *Client) SetLevel(ctx context.Context, level string) (*Reply, error) {
	l, ok := mcp.ParseLogLevel(level)
	if !ok || !c.e.has(handshake) {
		return nil, fmt.Errorf("a client of %s cannot set the log level of a session to %q", c.e.date, level)
	}
	c.mu.Lock()
	was := c.level
	if was == 0 || l < was {
		c.level = l // log messages at the new level may arrive before the server's answer
	}
	c.mu.Unlock()
	r, err := c.Call(ctx, mcp.MethodSetLevel, []byte(`{"level":`+quote(level)+`}`), CallOptions{})
	if err == nil && r.Err == nil {
		c.mu.Lock()
		c.level = l
		c.mu.Unlock()
	}
	return r, err
}

// Filter selects the changes that a client wants to be notified of.
type Filter struct {
	Tools, Prompts, Resources bool     // changes of these lists
	URIs                      []string // updates of the resources with these URIs
}

func (f *Filter) json() string {
	var parts []string
	for _, p := range []struct {
		on   bool
		name string
	}{{f.Tools, "toolsListChanged"}, {f.Prompts, "promptsListChanged"}, {f.Resources, "resourcesListChanged"}} {
		if p.on {
			parts = append(parts, quote(p.name)+":true")
		}
	}
	if len(f.URIs) > 0 {
		var uris []string
		for _, u := range f.URIs {
			uris = append(uris, quote(u))
		}
		parts = append(parts, `"resourceSubscriptions":[`+strings.Join(uris, ",")+`]`)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// Subscription is a subscription to changes. Client.Notices returns the notifications of all
// subscriptions.
type Subscription struct {
	c      *Client
	filter Filter
	f      *pendingRequest // the subscriptions/listen request; nil in the legacy revisions
	acked  chan struct{}
	once   bool // the server has acknowledged the subscription; guarded by the client's mutex
	agreed Filter
}

// Subscribe subscribes to changes and returns after the server has confirmed the subscription. In
// the legacy revisions, the client sends one resources/subscribe for each URI, and changes of lists
// need no subscription. In 2026-07-28, the client sends subscriptions/listen.
func (c *Client) Subscribe(ctx context.Context, want Filter) (*Subscription, error) {
	s := &Subscription{c: c, filter: want, acked: make(chan struct{})}
	if c.e.has(handshake) {
		for _, uri := range want.URIs {
			c.watch(uri, true)
			r, err := c.Call(ctx, mcp.MethodSubscribe, []byte(`{"uri":`+quote(uri)+`}`), CallOptions{})
			if err == nil && r.Err != nil {
				err = r.Err
			}
			if err != nil {
				return nil, fmt.Errorf("subscribe to %s: %w", uri, err)
			}
		}
		s.agreed = want
		return s, nil
	}
	f, msg, err := c.launch(mcp.MethodListen, []byte(`{"notifications":`+want.json()+`}`), CallOptions{})
	if err != nil {
		return nil, err
	}
	s.f, f.listen = f, s
	c.mu.Lock()
	c.listens[f.id] = s
	c.mu.Unlock()
	c.tape.write(request, msg)
	if err := c.wire.send(ctx, msg, f); err != nil {
		c.retire(f)
		return nil, fmt.Errorf("send %s: %w", f.method, err)
	}
	select {
	case <-s.acked:
		return s, nil
	case <-f.done:
		if f.err == nil && f.reply.Err != nil {
			return nil, f.reply.Err
		}
		if f.err == nil {
			return nil, fmt.Errorf("%s was answered before it was acknowledged", f.method)
		}
		return nil, fmt.Errorf("%s ended before it was acknowledged: %w", f.method, f.err)
	case <-ctx.Done():
		if f.end(func() { f.err = context.Cause(ctx) }) {
			c.abandon(f)
		}
		return nil, context.Cause(ctx)
	}
}

// Agreed returns the changes that the server agreed to report.
func (s *Subscription) Agreed() Filter {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.agreed
}

// Close ends the subscription. Notifications may still arrive for a while.
func (s *Subscription) Close(ctx context.Context) error {
	if s.f != nil {
		if s.f.end(func() { s.f.err = errNotWanted }) {
			s.c.abandon(s.f)
		}
		return nil
	}
	for _, uri := range s.filter.URIs {
		r, err := s.c.Call(ctx, mcp.MethodUnsubscribe, []byte(`{"uri":`+quote(uri)+`}`), CallOptions{})
		if err == nil && r.Err != nil {
			err = r.Err
		}
		if err != nil {
			return fmt.Errorf("unsubscribe from %s: %w", uri, err)
		}
		s.c.watch(uri, false)
	}
	return nil
}

func (c *Client) watch(uri string, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if on {
		c.watched[uri] = true
	} else {
		delete(c.watched, uri)
	}
}
