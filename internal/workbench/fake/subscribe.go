package fake

import (
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

func subscribe(x *exchange) (string, error) {
	uri, err := x.uri()
	if err != nil {
		return "", err
	}
	x.c.s.mu.Lock()
	defer x.c.s.mu.Unlock()
	if len(x.c.watched) >= maxQueued {
		return "", refusal(jsonrpc.CodeInternal, "the client is already subscribed to %d resources, which is the maximum", maxQueued)
	}
	x.c.watched[uri] = true
	return "", nil
}

func unsubscribe(x *exchange) (string, error) {
	uri, err := x.uri()
	if err != nil {
		return "", err
	}
	x.c.s.mu.Lock()
	was := x.c.watched[uri]
	delete(x.c.watched, uri)
	x.c.s.mu.Unlock()
	if !was {
		x.c.s.violate(x.m.Method, "the client had not subscribed to %s", uri)
	}
	return "", nil
}

// listen is one subscription in the revisions without sessions.
type listen struct {
	x     *exchange
	tools bool
	uris  []string

	mu      sync.Mutex
	acked   bool
	pending [][]byte // notifications that wait for the acknowledgement; bounded
}

// listenTo serves a subscription until the client cancels it or the server ends (2026-07-28
// §Subscriptions).
func listenTo(x *exchange) (string, error) {
	raw, filter := x.m.Raw, x.m.Param("notifications")
	l := &listen{x: x, tools: jsonrpc.KindOf(raw, jsonrpc.Find(raw, filter, "toolsListChanged")) == 't'}
	for e := range jsonrpc.Elements(raw, jsonrpc.Find(raw, filter, "resourceSubscriptions")) {
		if uri, _ := jsonrpc.Text(raw, e); contents(uri) != "" && len(l.uris) < maxQueued {
			l.uris = append(l.uris, uri)
		}
	}
	s := x.c.s
	s.mu.Lock()
	x.c.listens = append(x.c.listens, l)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		x.c.listens = slices.DeleteFunc(x.c.listens, func(o *listen) bool { return o == l })
	}()
	l.notify(mcp.NoteAcknowledged, `,"notifications":`+l.filter(raw, filter))
	l.flush()
	<-x.ctx.Done()
	return l.close()
}

// filter returns the part of a filter that the server supports. It omits changes of prompts and of
// the list of resources, because this server never changes them.
func (l *listen) filter(raw []byte, asked jsonrpc.Span) string {
	var parts []string
	if l.tools {
		parts = append(parts, `"toolsListChanged":true`)
	}
	if !jsonrpc.Find(raw, asked, "resourceSubscriptions").IsZero() {
		var uris []string
		for _, u := range l.uris {
			uris = append(uris, quote(u))
		}
		parts = append(parts, `"resourceSubscriptions":[`+strings.Join(uris, ",")+`]`)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// close ends the subscription. If Server.Close is the reason, close sends a cancellation and the
// result (2026-07-28 §Subscriptions, "Graceful Closure"; §Cancellation).
func (l *listen) close() (string, error) {
	x := l.x
	cause := causeOf(x)
	if cause == errClosed {
		l.notify(mcp.NoteCancelled, `,"requestId":`+string(x.m.ID)+`,"reason":"the server closes"`)
		x.c.send(x.out, x.m, x.wrap("", nil))
	}
	return "", cause
}

// note returns a notification of the subscription. The parameter more contains further members of
// the notification's params.
func (l *listen) note(method, more string) []byte {
	params := `{"_meta":{` + quote(mcp.KeySubscriptionID) + `:` + string(l.x.m.ID) + `}` + more + `}`
	return jsonrpc.AppendNotification(nil, method, []byte(params))
}

func (l *listen) notify(method, more string) { l.x.c.send(l.x.out, l.x.m, l.note(method, more)) }

// deliver sends a notification of the subscription. If the subscription is not acknowledged yet,
// deliver stores the notification, and the method flush sends it later.
func (l *listen) deliver(method, more string) {
	l.mu.Lock()
	if !l.acked {
		if len(l.pending) < maxQueued {
			l.pending = append(l.pending, l.note(method, more))
		}
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	l.notify(method, more)
}

// flush sends the notifications that waited for the acknowledgement.
func (l *listen) flush() {
	for {
		l.mu.Lock()
		waited := l.pending
		l.pending = nil
		l.acked = len(waited) == 0
		l.mu.Unlock()
		if len(waited) == 0 {
			return
		}
		for _, msg := range waited {
			l.x.c.send(l.x.out, l.x.m, msg)
		}
	}
}

// recipients returns the recipients of a notification. In revisions with a handshake, these are the
// conversations for which wants returns true. In other revisions, these are the subscriptions for
// which isFor returns true.
func (s *Server) recipients(wants func(*conversation) bool, isFor func(*listen) bool) (cs []*conversation, ls []*listen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.state.conversations {
		if c.ed.has(handshake) && c.phase == operating && wants(c) {
			cs = append(cs, c)
		}
		for _, l := range c.listens {
			if isFor(l) {
				ls = append(ls, l)
			}
		}
	}
	return cs, ls
}

func grow(x *exchange, _ jsonrpc.Span) (string, error) {
	s := x.c.s
	s.mu.Lock()
	s.state.grown = !s.state.grown
	now := s.state.grown
	s.mu.Unlock()
	cs, ls := s.recipients(func(*conversation) bool { return true }, func(l *listen) bool { return l.tools })
	for _, c := range cs {
		c.send(c.out, nil, jsonrpc.AppendNotification(nil, mcp.NoteToolsChanged, nil))
	}
	for _, l := range ls {
		l.deliver(mcp.NoteToolsChanged, "")
	}
	if now {
		return textResult("grown"), nil
	}
	return textResult("shrunk"), nil
}

func touch(x *exchange, args jsonrpc.Span) (string, error) {
	uri := x.text(args, "uri")
	cs, ls := x.c.s.recipients(func(c *conversation) bool { return c.watched[uri] }, func(l *listen) bool { return slices.Contains(l.uris, uri) })
	for _, c := range cs {
		c.send(c.out, nil, jsonrpc.AppendNotification(nil, mcp.NoteResourceUpdated, []byte(`{"uri":`+quote(uri)+`}`)))
	}
	for _, l := range ls {
		l.deliver(mcp.NoteResourceUpdated, `,"uri":`+quote(uri))
	}
	return textResult("touched"), nil
}
