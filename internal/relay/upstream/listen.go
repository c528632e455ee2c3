package upstream

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// listening is one subscriptions/listen request to a modern server, on behalf of all subscribers on
// a link (2026-07-28 §Subscriptions).
type listening struct {
	union  string // the subscription filter of the request, as JSON
	cancel context.CancelCauseFunc
	acked  chan struct{} // closed when the server has acknowledged the listen, or when the listen has ended

	// The following fields belong to the state of the Upstream. When acked is closed, honoured and err are set.
	honoured mcp.SubscriptionFilter
	err      error
	refused  bool           // the server does not support subscriptions/listen
	acks     int            // number of acknowledgements from the server
	broken   bool           // it has ended, and wasn't acknowledged again yet
	received map[string]int // the number of received notifications, by method and URI; see listenSet
}

// errNoListen is the error of a listen that the server does not support. keepListening does not try
// again after this error.
var errNoListen = errors.New("the server does not support subscriptions/listen")

// noListenFor is how long an HTTP server that does not support subscriptions/listen gets no further
// listens. A server on a pipe gets no further listens in the same session.
const noListenFor = time.Hour

// hasNoListen reports whether the server of a session is known not to support
// subscriptions/listen.
func (h *hub) hasNoListen(_ *state, s *session) bool {
	return !s.noListen.IsZero() && (h.spec.piped() || time.Since(s.noListen) < noListenFor)
}

// noteListen records that the server of s does not support subscriptions/listen, if r is the error
// -32601 for this method. r is nil if no answer arrived.
func (h *hub) noteListen(s *session, method string, r *mcp.Reply) {
	if method != mcp.MethodListen || r == nil || r.Code() != jsonrpc.CodeMethodNotFound {
		return
	}
	h.update(func(st *state) {
		if s.noListen.IsZero() {
			st.log(slog.LevelInfo, "server does not support subscriptions/listen, so changes are not reported", "cause", errNoListen.Error())
		}
		s.noListen = time.Now()
	})
}

// answerListen answers subscriptions/listen for a server that is known not to support it. It
// returns nil if the request must be sent to the server.
func (h *hub) answerListen(s *session, method string) *mcp.Reply {
	if method != mcp.MethodListen {
		return nil
	}
	if !get(h.core, func(st *state) bool { return h.hasNoListen(st, s) }) {
		return nil
	}
	return mcp.Fail(&jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + mcp.MethodListen})
}

// union returns the union of all subscriptions on a link.
func (h *hub) union(st *state, l *link) mcp.SubscriptionFilter {
	all := mcp.SubscriptionFilter{URIs: map[string]bool{}}
	if h.opts.Changed != nil && l.session != nil {
		// If Options.Changed is set, the catalog needs all notifications about changed lists, to
		// keep its lists up to date.
		caps := l.session.server.Hello().Capabilities
		all.Tools, all.Prompts, all.Resources = isTrue(caps, "tools", "listChanged"), isTrue(caps, "prompts", "listChanged"), isTrue(caps, "resources", "listChanged")
	}
	for _, p := range st.pools.byKey {
		if len(p.sessions) > 0 || p.scope != l.scope {
			continue // the subscribers of this pool use a legacy session or another link
		}
		for _, w := range p.subscribers {
			all.Tools = all.Tools || w.want.Tools
			all.Prompts = all.Prompts || w.want.Prompts
			all.Resources = all.Resources || w.want.Resources
			for uri := range w.want.URIs {
				all.URIs[uri] = true
			}
		}
	}
	return all
}

// relisten replaces the listen if the union of the subscriptions on the link has changed, or if a
// listen on a pipe was ended. It opens the new listen before it closes the old one, so that no
// notification is lost. It waits until the
// server has acknowledged the listen, but at most a few seconds.
func (h *hub) relisten(ctx context.Context, on *link) {
	if on == nil {
		return
	}
	l := get(h.core, func(st *state) *listening {
		if on.session == nil || st.ops.closed {
			return nil
		}
		return h.renewed(st, on)
	})
	if l != nil {
		h.awaitAck(ctx, l)
	}
}

// renewed returns the newest listen of a link that has a session. If this listen does not suit the
// subscriptions, renewed opens another one first. It returns nil if nobody subscribes to anything.
func (h *hub) renewed(st *state, on *link) *listening {
	union := h.union(st, on)
	key := string(union.JSON())
	old := on.listen
	none := h.hasNoListen(st, on.session)
	if old != nil && old.union == key && old.refused == none && !on.listenSet.ended {
		return old
	}
	if union.Empty() {
		on.stopListen(errReplaced)
		return nil
	}
	next := &listening{union: key, acked: make(chan struct{})}
	if none {
		next.cancel, next.err, next.refused = func(error) {}, errNoListen, true
		close(next.acked)
	} else {
		var life context.Context
		life, next.cancel = context.WithCancelCause(h.life)
		h.work.Go(func() {
			if old != nil {
				h.awaitAck(life, old) // the server may answer the old listen with the error that it does not support listens
			}
			h.keepListening(life, on, next)
		})
	}
	on.listen = next
	on.listenSet.ended = false
	on.listenSet.open(next, h.spec.piped())
	if old != nil {
		h.work.Go(func() { h.replace(on, old, next) })
	}
	return next
}

// stopListen ends all listens on a link.
func (l *link) stopListen(cause error) {
	for _, open := range l.listenSet.all() {
		open.cancel(cause)
	}
	l.listen, l.listenSet = nil, listenSet{}
}

var errReplaced = errors.New("replaced by a newer subscriptions/listen")

func (h *hub) awaitAck(ctx context.Context, l *listening) {
	t := time.NewTimer(5 * time.Second)
	defer t.Stop()
	select {
	case <-l.acked:
	case <-ctx.Done():
	case <-t.C:
	}
}

// steadyFor is how long a listen must have lasted so that the next pause is short again. Some servers
// end each listen at once.
const steadyFor = 10 * time.Second

// keepListening keeps a listen open, and opens it again if it breaks. If the server has acknowledged
// nothing of what we want, and ends the listen, keepListening lets it be: servers with the official Go
// SDK do so, and would do it again each time.
func (h *hub) keepListening(ctx context.Context, on *link, l *listening) {
	pauses := work.Backoff{Ceiling: time.Minute}
	for {
		before, began := h.acksOf(l), time.Now()
		err := h.listenOnce(ctx, on, l)
		if h.superseded(on, l) {
			return
		}
		if ctx.Err() != nil || errors.Is(err, errEraChanged) || errors.Is(err, errNoListen) {
			return // the next session or subscription starts another listen
		}
		level := slog.LevelDebug // the server has not acknowledged the listen
		if h.acksOf(l) != before {
			if err == nil && get(h.core, func(*state) bool { return l.honoured.Empty() }) {
				h.opts.Log.DebugContext(ctx, "server sends none of the wanted notifications", "server", h.spec.Name, "wanted", l.union)
				return
			}
			// Notifications are lost until the server has acknowledged the listen again. Until then, whoever needs a
			// list reads it, and then we read again what clients have.
			level = slog.LevelInfo
			if time.Since(began) >= steadyFor {
				pauses.Reset()
			}
			h.update(func(*state) { l.broken = true })
			h.lister.forgetTools("")
			for _, kind := range []string{"tools", "prompts", "resources"} {
				h.changed(kind)
			}
		}
		h.opts.Log.Log(ctx, level, "subscriptions/listen ended", "server", h.spec.Name, "cause", reason(err))
		if work.Sleep(ctx, pauses.Fail()) != nil {
			return
		}
	}
}

// superseded reports whether a listen that has ended is not the newest one of its link. Such a listen
// is not opened again, so superseded removes it from the set.
func (h *hub) superseded(on *link, l *listening) bool {
	return get(h.core, func(*state) bool {
		if on.listen == l {
			return false
		}
		on.listenSet.retire(l, false)
		on.listenSet.kept = slices.DeleteFunc(on.listenSet.kept, func(k *listening) bool { return k == l })
		return true
	})
}

// listsMayHaveChanged forgets the tools, and reports that any list may have changed. If the server
// has no session, the next open reports it.
func (h *hub) listsMayHaveChanged() {
	h.lister.forgetTools("")
	if h.opts.Changed != nil && get(h.core, func(st *state) bool { return st.pools.hasSession() }) {
		h.opts.Changed("")
	}
}

func (h *hub) acksOf(l *listening) int {
	return get(h.core, func(*state) int { return l.acks })
}

func reason(err error) string {
	if err == nil {
		return "the server ended the subscription"
	}
	return err.Error()
}

func (h *hub) listenOnce(ctx context.Context, on *link, l *listening) error {
	held, err := h.broker.acquire(ctx, on.who, mcp.Need{Method: mcp.MethodListen})
	if err != nil {
		return err
	}
	defer held.release()
	s := held.s
	if !s.server.Revision().Can(mcp.Listen) {
		return errEraChanged
	}
	params := append(append([]byte(`{"notifications":`), l.union...), '}')
	r := h.answerListen(s, mcp.MethodListen)
	if r == nil {
		r, err = s.server.Call(ctx, h.ownCall(mcp.MethodListen, params, nil), &listenCaller{h: h, on: on, l: l})
	}
	switch {
	case err != nil || r.Code() == 0:
	case r.Code() == jsonrpc.CodeMethodNotFound:
		err = errNoListen
		h.noteListen(s, mcp.MethodListen, r)
	default:
		err = errors.New("the server refused subscriptions/listen")
	}
	if !errors.Is(err, errNoListen) && ctx.Err() == nil {
		h.watchdog.checkSoon(s)
	}
	h.update(func(st *state) {
		if errors.Is(err, errNoListen) {
			l.refused, l.honoured, l.err = true, mcp.SubscriptionFilter{}, err
		}
		l.ack(mcp.SubscriptionFilter{}, err)
	})
	return err
}

// ack sets honoured and err, and closes acked. Only the first call has an effect.
func (l *listening) ack(honoured mcp.SubscriptionFilter, err error) {
	select {
	case <-l.acked:
	default:
		l.honoured, l.err = honoured, err
		close(l.acked)
	}
}

// listenCaller receives the notifications of a listen.
type listenCaller struct {
	h  *hub
	on *link
	l  *listening
}

func (s *listenCaller) Notify(n *mcp.Note) {
	m := n.Msg
	if m.Method == mcp.NoteAcknowledged {
		got, _ := mcp.ParseSubscriptionFilter(m.Raw, m.Param("notifications"))
		again := get(s.h.core, func(*state) (again bool) {
			if s.h.spec.piped() {
				s.on.listenSet.acknowledged(s.l)
			}
			s.l.acks++
			s.l.ack(got, nil)
			again, s.l.broken = s.l.broken, false
			return again
		})
		if again {
			s.h.listsMayHaveChanged()
		}
		return
	}
	if get(s.h.core, func(*state) bool { return s.on.listenSet.first(s.l, m) }) {
		s.h.deliverModern(s.on, m, 0)
	}
}

func (s *listenCaller) Ask(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error) {
	return nil, mcp.ErrCannotAsk
}

// deliverModern delivers a notification from a modern server to subscribers. If the parameter only
// is not 0, it is the number of the only conversation that may get the notification.
func (h *hub) deliverModern(on *link, m *jsonrpc.Message, only uint64) {
	kind := changedList(m.Method)
	if kind == "tools" {
		h.lister.forgetTools(on.scope)
	}
	var to []*Subscriber
	h.update(func(st *state) {
		for _, p := range st.pools.byKey {
			if len(p.sessions) > 0 || p.scope != on.scope {
				continue
			}
			to = append(to, p.audience(m, only)...)
		}
	})
	h.changed(kind)
	for _, w := range to {
		if m.Method != mcp.NoteMessage || w.hearsLog(m, false) {
			w.deliver(m)
		}
	}
}

// listenFor answers resources/subscribe and resources/unsubscribe of a legacy client. A modern
// server does not have these methods, so listenFor adapts the listen to the server instead.
func (h *hub) listenFor(ctx context.Context, on *link, method, uri string) (*mcp.Reply, error) {
	h.relisten(ctx, on)
	refused := get(h.core, func(*state) bool {
		l := on.listen
		return l != nil && (l.err != nil || isClosed(l.acked) && !l.honoured.URIs[uri])
	})
	if method == mcp.MethodSubscribe && refused {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the server does not support subscriptions to this resource"}
	}
	return mcp.Answer([]byte("{}")), nil
}

// isTrue reports whether the value at a path in the capabilities is true.
func isTrue(caps []byte, path ...string) bool {
	at := jsonrpc.Whole(caps)
	for _, k := range path {
		at = jsonrpc.Find(caps, at, k)
	}
	return string(at.Of(caps)) == "true"
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Watch sets the subscriptions of w, and returns those that the server supports. It is called once, for
// a new Subscriber without any. A modern server states what it supports in its acknowledgement. For a
// legacy server, Watch subscribes to each resource, and finds in its capabilities what it supports.
func (w *Subscriber) Watch(ctx context.Context, want mcp.SubscriptionFilter) (mcp.SubscriptionFilter, error) {
	h := w.hub
	h.update(func(st *state) {
		w.want.Tools, w.want.Prompts, w.want.Resources = want.Tools, want.Prompts, want.Resources
	})
	held, err := h.broker.acquire(ctx, w.info, mcp.Need{Method: mcp.MethodListen})
	if err != nil {
		return mcp.SubscriptionFilter{}, err
	}
	defer held.release()
	s := held.s
	switch {
	case s.server.Revision().Can(mcp.Listen):
		h.update(func(st *state) {
			w.want.URIs = maps.Clone(want.URIs)
		})
		h.relisten(ctx, s.link)
	case isTrue(s.server.Hello().Capabilities, "resources", "subscribe"):
		for _, uri := range slices.Sorted(maps.Keys(want.URIs)) {
			if _, err := w.Subscribe(ctx, uri); err != nil {
				return mcp.SubscriptionFilter{}, err
			}
		}
	}
	return get(h.core, func(*state) mcp.SubscriptionFilter { return w.honoured(s) }), nil
}

// honoured returns what w will be told of. Each list that the server has may change, also if the server says nothing of
// it: rules and the configuration say what clients see of it.
func (w *Subscriber) honoured(s *session) mcp.SubscriptionFilter {
	caps := s.server.Hello().Capabilities
	has := func(list string) bool { return !jsonrpc.Find(caps, jsonrpc.Whole(caps), list).IsZero() }
	got := mcp.SubscriptionFilter{Tools: has("tools"), Prompts: has("prompts"), Resources: has("resources"), URIs: map[string]bool{}}
	var l *listening
	if s.link != nil {
		l = s.link.listen
	}
	for uri := range w.want.URIs {
		switch {
		case !s.server.Revision().Can(mcp.Listen) || l == nil:
			got.URIs[uri] = isTrue(caps, "resources", "subscribe")
		case l.refused: // the server sends no notifications, even if its capabilities declare them
		case isClosed(l.acked) && l.err == nil:
			got.URIs[uri] = l.honoured.URIs[uri]
		default:
			got.URIs[uri] = isTrue(caps, "resources", "subscribe")
		}
	}
	got.Tools, got.Prompts, got.Resources = got.Tools && w.want.Tools, got.Prompts && w.want.Prompts, got.Resources && w.want.Resources
	for uri, ok := range got.URIs {
		if !ok {
			delete(got.URIs, uri)
		}
	}
	return got
}
