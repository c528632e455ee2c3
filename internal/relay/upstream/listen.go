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

	// Upstream.mu guards the following fields. When acked is closed, honoured and err are set.
	honoured mcp.SubscriptionFilter
	err      error
	refused  bool           // the server does not support subscriptions/listen
	acks     int            // number of acknowledgements from the server
	received map[string]int // the number of received notifications, by method and URI; see listenSet
}

// errNoListen is the error of a listen that the server does not support. keepListening does not try
// again after this error.
var errNoListen = errors.New("the server does not support subscriptions/listen")

// noListenFor is how long an HTTP server that does not support subscriptions/listen gets no further
// listens. A server on a pipe gets no further listens in the same session.
const noListenFor = time.Hour

// hasNoListenLocked reports whether the server of a session is known not to support
// subscriptions/listen.
func (u *Upstream) hasNoListenLocked(s *session) bool {
	return !s.noListen.IsZero() && (u.spec.piped() || time.Since(s.noListen) < noListenFor)
}

// noteListen records that the server of s does not support subscriptions/listen, if r is the error
// -32601 for this method. r is nil if no answer arrived.
func (u *Upstream) noteListen(s *session, method string, r *mcp.Reply) {
	if method != mcp.MethodListen || r == nil || r.Code() != jsonrpc.CodeMethodNotFound {
		return
	}
	u.mu.Lock()
	first := s.noListen.IsZero()
	s.noListen = time.Now()
	u.mu.Unlock()
	if first {
		u.opts.Log.Info("server does not support subscriptions/listen, so changes are not reported", "server", u.spec.Name, "cause", errNoListen.Error())
	}
}

// answerListen answers subscriptions/listen for a server that is known not to support it. It
// returns nil if the request must be sent to the server.
func (u *Upstream) answerListen(s *session, method string) *mcp.Reply {
	if method != mcp.MethodListen {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.hasNoListenLocked(s) {
		return nil
	}
	return mcp.Fail(&jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + mcp.MethodListen})
}

// unionLocked returns the union of all subscriptions on a link.
func (u *Upstream) unionLocked(l *link) mcp.SubscriptionFilter {
	all := mcp.SubscriptionFilter{URIs: map[string]bool{}}
	if u.opts.Changed != nil && l.session != nil {
		// If Options.Changed is set, the catalog needs all notifications about changed lists, to
		// keep its lists up to date.
		caps := l.session.server.Hello().Capabilities
		all.Tools, all.Prompts, all.Resources = says(caps, "tools", "listChanged"), says(caps, "prompts", "listChanged"), says(caps, "resources", "listChanged")
	}
	for _, p := range u.pools {
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
func (u *Upstream) relisten(ctx context.Context, on *link) {
	u.mu.Lock()
	if on == nil || on.session == nil || u.closed {
		u.mu.Unlock()
		return
	}
	union := u.unionLocked(on)
	key := string(union.JSON())
	old := on.listen
	none := u.hasNoListenLocked(on.session)
	if old != nil && old.union == key && old.refused == none && !on.listenSet.ended {
		u.mu.Unlock()
		u.awaitAck(ctx, old)
		return
	}
	var next *listening
	switch {
	case union.Empty():
		u.stopListenLocked(on, errReplaced)
	case none:
		next = &listening{union: key, acked: make(chan struct{}), cancel: func(error) {}, err: errNoListen, refused: true}
		close(next.acked)
	default:
		next = &listening{union: key, acked: make(chan struct{})}
		var life context.Context
		life, next.cancel = context.WithCancelCause(u.life)
		u.work.Go(func() {
			if old != nil {
				u.awaitAck(life, old) // the server may answer the old listen with the error that it does not support listens
			}
			u.keepListening(life, on, next)
		})
	}
	on.listen = next
	if next != nil {
		on.listenSet.ended = false
		on.listenSet.open(next, u.spec.piped())
	}
	if next != nil && old != nil {
		u.work.Go(func() { u.replace(on, old, next) })
	}
	u.mu.Unlock()
	if next != nil {
		u.awaitAck(ctx, next)
	}
}

// stopListenLocked ends all listens on a link.
func (u *Upstream) stopListenLocked(on *link, cause error) {
	for _, l := range on.listenSet.all() {
		l.cancel(cause)
	}
	on.listen, on.listenSet = nil, listenSet{}
}

var errReplaced = errors.New("replaced by a newer subscriptions/listen")

func (u *Upstream) awaitAck(ctx context.Context, l *listening) {
	t := time.NewTimer(5 * time.Second)
	defer t.Stop()
	select {
	case <-l.acked:
	case <-ctx.Done():
	case <-t.C:
	}
}

// keepListening keeps a listen open, and opens it again if it breaks.
func (u *Upstream) keepListening(ctx context.Context, on *link, l *listening) {
	pauses := work.Backoff{Ceiling: time.Minute}
	for {
		before := u.acksOf(l)
		err := u.listenOnce(ctx, on, l)
		if u.superseded(on, l) {
			return
		}
		if ctx.Err() != nil || errors.Is(err, errEraChanged) || errors.Is(err, errNoListen) {
			return // the next session or subscription starts another listen
		}
		level := slog.LevelDebug // the server has not acknowledged the listen
		if u.acksOf(l) != before {
			// Notifications may have been lost while the listen was broken.
			level = slog.LevelInfo
			pauses.Reset()
			u.listsMayHaveChanged()
		}
		u.opts.Log.Log(ctx, level, "subscriptions/listen ended", "server", u.spec.Name, "cause", reason(err))
		if work.Sleep(ctx, pauses.Fail()) != nil {
			return
		}
	}
}

// superseded reports whether a listen that has ended is not the newest one of its link. Such a listen
// is not opened again, so superseded removes it from the set.
func (u *Upstream) superseded(on *link, l *listening) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if on.listen == l {
		return false
	}
	on.listenSet.retire(l, false)
	on.listenSet.kept = slices.DeleteFunc(on.listenSet.kept, func(k *listening) bool { return k == l })
	return true
}

// listsMayHaveChanged forgets the tools, and reports that any list may have changed. If the server
// has no session, the next open reports it.
func (u *Upstream) listsMayHaveChanged() {
	u.forgetTools()
	if u.opts.Changed != nil && u.hasSession() {
		u.opts.Changed("")
	}
}

func (u *Upstream) acksOf(l *listening) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return l.acks
}

func reason(err error) string {
	if err == nil {
		return "the server ended the subscription"
	}
	return err.Error()
}

func (u *Upstream) listenOnce(ctx context.Context, on *link, l *listening) error {
	lease, err := u.acquire(ctx, on.who, mcp.Need{Method: mcp.MethodListen})
	if err != nil {
		return err
	}
	defer lease.Release()
	s := lease.s
	if !s.server.Revision().Can(mcp.Listen) {
		return errEraChanged
	}
	params := append(append([]byte(`{"notifications":`), l.union...), '}')
	r := u.answerListen(s, mcp.MethodListen)
	if r == nil {
		r, err = s.server.Call(ctx, u.ownCall(mcp.MethodListen, params, nil), &listenCaller{u: u, on: on, l: l})
	}
	switch {
	case err != nil || r.Code() == 0:
	case r.Code() == jsonrpc.CodeMethodNotFound:
		err = errNoListen
		u.noteListen(s, mcp.MethodListen, r)
	default:
		err = errors.New("the server refused subscriptions/listen")
	}
	if !errors.Is(err, errNoListen) && ctx.Err() == nil {
		u.checkSoon(s)
	}
	u.mu.Lock()
	if errors.Is(err, errNoListen) {
		l.refused, l.honoured, l.err = true, mcp.SubscriptionFilter{}, err
	}
	l.ackLocked(mcp.SubscriptionFilter{}, err)
	u.mu.Unlock()
	return err
}

// ackLocked sets honoured and err, and closes acked. Only the first call has an effect. The caller
// must hold Upstream.mu.
func (l *listening) ackLocked(honoured mcp.SubscriptionFilter, err error) {
	select {
	case <-l.acked:
	default:
		l.honoured, l.err = honoured, err
		close(l.acked)
	}
}

// listenCaller receives the notifications of a listen.
type listenCaller struct {
	u  *Upstream
	on *link
	l  *listening
}

func (s *listenCaller) Notify(n *mcp.Note) {
	m := n.Msg
	if m.Method == mcp.NoteAcknowledged {
		got, _ := mcp.ParseSubscriptionFilter(m.Raw, m.Param("notifications"))
		s.u.mu.Lock()
		if s.u.spec.piped() {
			s.on.listenSet.acknowledged(s.l)
		}
		s.l.acks++
		s.l.ackLocked(got, nil)
		s.u.mu.Unlock()
		return
	}
	s.u.mu.Lock()
	first := s.on.listenSet.first(s.l, m)
	s.u.mu.Unlock()
	if first {
		s.u.deliverModern(s.on, m, 0)
	}
}

func (s *listenCaller) Ask(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error) {
	return nil, mcp.ErrCannotAsk
}

// deliverModern delivers a notification from a modern server to subscribers. If the parameter only
// is not 0, it is the number of the only conversation that may get the notification.
func (u *Upstream) deliverModern(on *link, m *jsonrpc.Message, only uint64) {
	kind := changedList(m.Method)
	if kind == "tools" {
		u.forgetTools()
	}
	u.mu.Lock()
	var to []*Subscriber
	for _, p := range u.pools {
		if len(p.sessions) > 0 || p.scope != on.scope {
			continue
		}
		to = append(to, u.audienceLocked(p, m, only, false)...)
	}
	u.mu.Unlock()
	for _, w := range to {
		w.deliver(m)
	}
	if kind != "" && u.opts.Changed != nil {
		u.opts.Changed(kind)
	}
}

// listenFor answers resources/subscribe and resources/unsubscribe of a legacy client. A modern
// server does not have these methods, so listenFor adapts the listen to the server instead.
func (u *Upstream) listenFor(ctx context.Context, on *link, method, uri string) (*mcp.Reply, error) {
	u.relisten(ctx, on)
	u.mu.Lock()
	l := on.listen
	u.mu.Unlock()
	if method == mcp.MethodSubscribe && l != nil {
		u.mu.Lock()
		refused := l.err != nil || isClosed(l.acked) && !l.honoured.URIs[uri]
		u.mu.Unlock()
		if refused {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the server does not support subscriptions to this resource"}
		}
	}
	return mcp.Answer([]byte("{}")), nil
}

// says reports whether the value at a path in the capabilities is true.
func says(caps []byte, path ...string) bool {
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

// Watch sets the subscriptions of w, and returns those that the server supports. A modern server
// states them in its acknowledgement. For a legacy server, Watch subscribes to each resource, and
// uses the server's capabilities to find what the server supports.
func (w *Subscriber) Watch(ctx context.Context, want mcp.SubscriptionFilter) (mcp.SubscriptionFilter, error) {
	u := w.upstream
	u.mu.Lock()
	w.want.Tools, w.want.Prompts, w.want.Resources = want.Tools, want.Prompts, want.Resources
	u.mu.Unlock()
	lease, err := u.acquire(ctx, w.info, mcp.Need{Method: mcp.MethodListen})
	if err != nil {
		return mcp.SubscriptionFilter{}, err
	}
	defer lease.Release()
	s := lease.s
	switch {
	case s.server.Revision().Can(mcp.Listen):
		u.mu.Lock()
		w.want.URIs = maps.Clone(want.URIs)
		u.mu.Unlock()
		u.relisten(ctx, s.link)
	case says(s.server.Hello().Capabilities, "resources", "subscribe"):
		for _, uri := range slices.Sorted(maps.Keys(want.URIs)) {
			if _, err := w.Subscribe(ctx, uri); err != nil {
				return mcp.SubscriptionFilter{}, err
			}
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return w.honouredLocked(s), nil
}

func (w *Subscriber) honouredLocked(s *session) mcp.SubscriptionFilter {
	caps := s.server.Hello().Capabilities
	can := func(path ...string) bool { return says(caps, path...) }
	got := mcp.SubscriptionFilter{URIs: map[string]bool{}}
	var l *listening
	if s.link != nil {
		l = s.link.listen
	}
	if s.server.Revision().Can(mcp.Listen) && l != nil && l.refused {
		return got // the server sends no notifications, even if its capabilities declare them
	}
	if s.server.Revision().Can(mcp.Listen) && l != nil && isClosed(l.acked) && l.err == nil {
		got.Tools, got.Prompts, got.Resources = l.honoured.Tools, l.honoured.Prompts, l.honoured.Resources
		for uri := range w.want.URIs {
			got.URIs[uri] = l.honoured.URIs[uri]
		}
	} else {
		got.Tools, got.Prompts, got.Resources = can("tools", "listChanged"), can("prompts", "listChanged"), can("resources", "listChanged")
		for uri := range w.want.URIs {
			got.URIs[uri] = can("resources", "subscribe")
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
