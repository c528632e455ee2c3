package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// hub keeps the subscriptions: it passes the server's notifications to the subscribers, and
// subscribes at the server to what they want.
type hub struct {
	*core
	broker interface {
		acquire(context.Context, *mcp.ClientInfo, mcp.Need) (hold, error)
		ownPool(st *state, f *mcp.ClientInfo, scope string) *pool
		outsideCalls(*state, *pool, *session) ([]*Subscriber, error)
	}
	lister   interface{ forgetTools(scope string) }
	watchdog interface{ checkSoon(*session) }
}

// Subscriber receives the notifications from a server on behalf of a client. A legacy client has a
// Subscriber during its conversation, and a modern client during its listen.
type Subscriber struct {
	hub     *hub
	pool    *pool
	info    *mcp.ClientInfo
	deliver func(*jsonrpc.Message)
	asker   mcp.Subscriber // nil for clients that cannot be asked

	// The following fields belong to the state of the Upstream.
	want  mcp.SubscriptionFilter
	index int // the index in pool.subscribers
}

// subscribe registers the client f for notifications. The function deliver is called with each
// notification on the goroutine that reads from the server, and must not block. asker answers
// server requests outside calls. If asker is nil, these requests are refused.
func (h *hub) subscribe(f *mcp.ClientInfo, deliver func(*jsonrpc.Message), asker mcp.Subscriber) *Subscriber {
	scope := h.scopeOf(f)
	return get(h.core, func(st *state) *Subscriber {
		p := h.broker.ownPool(st, f, scope)
		w := &Subscriber{hub: h, pool: p, info: f, deliver: deliver, asker: asker, index: len(p.subscribers)}
		p.subscribers = append(p.subscribers, w)
		return w
	})
}

// Close removes the subscriber. It unsubscribes from the resources that no other subscriber in the
// pool watches.
func (w *Subscriber) Close() {
	h := w.hub
	h.update(func(st *state) {
		st.pools.leave(w)
		uris := make([]string, 0, len(w.want.URIs))
		for uri := range w.want.URIs {
			if !w.pool.watched(uri) {
				uris = append(uris, uri)
			}
		}
		h.relistenSoon(st, st.pools.links[w.pool.scope])
		st.pools.endForsaken(w.pool)
		if len(uris) == 0 || st.ops.closed || len(w.pool.sessions) == 0 {
			return // without a session, there are no subscriptions at the server
		}
		h.work.Go(func() {
			ctx, stop := context.WithTimeout(h.life, 10*time.Second)
			defer stop()
			for _, uri := range uris {
				_, _ = h.subscription(ctx, w, mcp.MethodUnsubscribe, uri)
			}
			h.resume(w, uris) // whoever has subscribed meanwhile may have been faster
		})
	})
}

// rescope moves the subscribers whose clients have got another credential scope, because somebody has
// signed in or out. In their new scope they watch what they watched before.
func (h *hub) rescope() {
	var all []*Subscriber
	h.update(func(st *state) {
		for _, p := range st.pools.byKey {
			all = append(all, p.subscribers...)
		}
	})
	now := make(map[*Subscriber]string, len(all))
	for _, w := range all {
		now[w] = h.scopeOf(w.info)
	}
	h.update(func(st *state) {
		for _, w := range all {
			if scope := now[w]; w.pool.scope != scope && !st.ops.closed && w.open() {
				h.move(st, w, scope)
			}
		}
	})
}

// open reports whether the subscriber is not closed.
func (w *Subscriber) open() bool {
	return w.index < len(w.pool.subscribers) && w.pool.subscribers[w.index] == w
}

func (h *hub) move(st *state, w *Subscriber, scope string) {
	from := w.pool
	st.pools.move(w, h.broker.ownPool(st, w.info, scope))
	h.relistenSoon(st, st.pools.links[from.scope])
	h.relistenSoon(st, st.pools.links[scope])
	st.pools.endForsaken(from)
	if len(w.want.URIs) > 0 {
		uris := slices.Collect(maps.Keys(w.want.URIs))
		h.work.Go(func() { h.resume(w, uris) })
	}
}

// Lists sets the lists whose changes are reported to w. Unlike Watch, Lists does not wait for the
// server.
func (w *Subscriber) Lists(tools, prompts, resources bool) {
	h := w.hub
	h.update(func(st *state) {
		w.want.Tools, w.want.Prompts, w.want.Resources = tools, prompts, resources
		h.relistenSoon(st, st.pools.links[w.pool.scope])
	})
}

// relistenSoon runs relisten on another goroutine.
func (h *hub) relistenSoon(st *state, l *link) {
	if l == nil || l.session == nil || st.ops.closed || l.relistening {
		return
	}
	l.relistening = true
	h.work.Go(func() {
		h.update(func(st *state) {
			l.relistening = false
		})
		h.relisten(h.life, l)
	})
}

// Subscribe watches a resource. If the server is modern, or if another subscriber in the pool
// already watches the resource, the reply comes from Dragoman. Otherwise it comes from the server.
func (w *Subscriber) Subscribe(ctx context.Context, uri string) (*mcp.Reply, error) {
	h := w.hub
	var already, added bool
	h.update(func(*state) { already, added = w.pool.watched(uri), w.add(uri) })
	switch {
	case !added:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
			Message: fmt.Sprintf("too many subscribed resources: the limit is %d resources, with at most %d bytes of URIs", mcp.MaxWatched, mcp.MaxWatchedBytes)}
	case already:
		return mcp.Answer([]byte("{}")), nil
	}
	r, err := h.subscription(ctx, w, mcp.MethodSubscribe, uri)
	if err != nil || r.Code() != 0 {
		h.update(func(st *state) {
			delete(w.want.URIs, uri)
		})
	}
	return r, err
}

// Resume watches resources to which the client subscribed before the configuration changed, or at another
// replica. It does not wait for the server. When the server is available, a goroutine subscribes to the resources
// that no other subscriber in the pool watches. If the server refuses a resource, the goroutine
// publishes a loss.
func (w *Subscriber) Resume(uris []string) {
	h := w.hub
	h.update(func(st *state) {
		var ask []string
		for _, uri := range uris {
			if already := w.pool.watched(uri); w.add(uri) && !already {
				ask = append(ask, uri)
			}
		}
		if len(ask) > 0 && !st.ops.closed {
			h.work.Go(func() { h.resume(w, ask) })
		}
	})
}

// resume subscribes to resources at the server. For each resource, it tries again until the server
// answers, or until no client watches the resource any more.
func (h *hub) resume(w *Subscriber, uris []string) {
	pauses := work.Backoff{Ceiling: time.Minute}
	for len(uris) > 0 {
		uri := uris[0]
		if !get(h.core, func(*state) bool { return w.pool.watched(uri) }) {
			uris = uris[1:]
			continue
		}
		ctx, stop := context.WithTimeout(h.life, 30*time.Second)
		r, err := h.subscription(ctx, w, mcp.MethodSubscribe, uri)
		stop()
		var refused *jsonrpc.Error
		switch {
		case errors.As(err, &refused), err == nil && r.Code() != 0:
			h.update(func(st *state) {
				delete(w.want.URIs, uri)
			})
			h.publishLoss(mcp.MethodSubscribe, "the server refused to renew a client's subscription")
		case err != nil:
			h.opts.Log.Info("subscriptions are not restored yet", "server", h.spec.Name, "cause", err.Error())
			if work.Sleep(h.life, pauses.Fail()) != nil {
				return
			}
			continue
		}
		uris = uris[1:]
	}
}

// add makes w watch the resource uri. It returns false if w already watches too many resources.
func (w *Subscriber) add(uri string) bool {
	size := len(uri)
	for have := range w.want.URIs {
		if have == uri {
			return true
		}
		size += len(have)
	}
	if len(w.want.URIs) >= mcp.MaxWatched || size > mcp.MaxWatchedBytes {
		return false
	}
	if w.want.URIs == nil {
		w.want.URIs = make(map[string]bool)
	}
	w.want.URIs[uri] = true
	return true
}

// Unsubscribe stops watching a resource.
func (w *Subscriber) Unsubscribe(ctx context.Context, uri string) (*mcp.Reply, error) {
	h := w.hub
	still := get(h.core, func(*state) bool {
		delete(w.want.URIs, uri)
		return w.pool.watched(uri)
	})
	if still {
		return mcp.Answer([]byte("{}")), nil
	}
	r, err := h.subscription(ctx, w, mcp.MethodUnsubscribe, uri)
	h.update(func(st *state) {
		if w.pool.watched(uri) && !st.ops.closed {
			h.work.Go(func() { h.resume(w, []string{uri}) }) // as in Close
		}
	})
	return r, err
}

// subscription starts or stops watching a resource at the server. To a legacy server, it sends a
// request with the given method. To a modern server, it sends a listen with the new union of all
// subscriptions.
func (h *hub) subscription(ctx context.Context, w *Subscriber, method, uri string) (*mcp.Reply, error) {
	held, err := h.broker.acquire(ctx, w.info, mcp.Need{Method: method})
	if err != nil {
		return nil, err
	}
	defer held.release()
	s := held.s
	if s.server.Revision().Can(mcp.Listen) {
		return h.listenFor(ctx, s.link, method, uri)
	}
	params := append(jsonrpc.AppendQuote([]byte(`{"uri":`), uri), '}')
	return s.server.Call(ctx, h.ownCall(method, params, w.info), mcp.NoCaller{})
}

// ownCall returns a call that Dragoman itself makes, on behalf of the client f. If f is nil, the
// call contains Dragoman's own client info (2026-07-28 §Base, "Per-request protocol fields":
// required on every request).
func (c *core) ownCall(method string, params []byte, f *mcp.ClientInfo) *mcp.Attempt {
	g := mcp.ClientInfo{Revision: mcp.LatestLegacy, Info: c.opts.Info}
	if f != nil {
		g = *f
		g.LogLevel = 0
		if len(g.Info) <= 2 {
			g.Info = c.opts.Info
		}
	}
	if !g.Revision.Legacy() {
		// Dragoman's own requests have the form of a legacy client's requests. The codec converts
		// them.
		g.Revision = mcp.LatestLegacy
	}
	m := jsonrpc.NewRequest("1", method, params)
	call := mcp.NewCall(m, m.Param(mcp.KeyMeta), &g)
	call.Ours = true
	return mcp.NewAttempt(call)
}

// deliverNotification handles a notification from a legacy session, or from a modern server outside
// all listens. For the parameter only, see deliverModern.
func (h *hub) deliverNotification(p *pool, s *session, m *jsonrpc.Message, only uint64) {
	kind := changedList(m.Method)
	if kind == "tools" {
		h.lister.forgetTools(p.scope)
	}
	var modern *link
	var to []*Subscriber
	leveled := false
	h.update(func(st *state) {
		if s.current() {
			modern = s.link
			return
		}
		leveled = s.level != 0
		to = p.audience(m, only)
		if kind != "" {
			// Clients whose pool has no session have read the lists through another session.
			for _, q := range st.pools.byKey {
				if q != p && q.scope == p.scope && len(q.sessions) == 0 {
					to = append(to, q.audience(m, only)...)
				}
			}
		}
		if m.Method == mcp.NoteTaskStatus && !h.spec.OneClient {
			// The id of a task gives access to the task, so only its owner gets it. Clients must not
			// depend on these notifications (2025-11-25 §Tasks, "Task Status Notification").
			id, _ := jsonrpc.Text(m.Raw, m.Param("taskId"))
			owner, known := s.taskOwners[id]
			to = slices.DeleteFunc(to, func(w *Subscriber) bool { return !known || w.info.Conversation != owner })
		}
	})
	if modern != nil {
		h.deliverModern(modern, m, only)
		return
	}
	if m.Method == mcp.NoteMessage {
		to = slices.DeleteFunc(to, func(w *Subscriber) bool { return !w.hearsLog(m, leveled) })
	}
	if m.Method == mcp.NoteTaskStatus && len(to) > 0 {
		m = s.withSession(nil, m, m.Param("taskId"))
	}
	h.changed(kind)
	for _, w := range to {
		w.deliver(m)
	}
	if len(to) == 0 && m.Method == mcp.NoteMessage {
		h.publishLoss(m.Method, "the message does not say which call it belongs to")
	}
}

// changed says that the server has announced a change of its lists of a kind, if kind is not "". It must
// do so before a client hears of the change, because the client asks for the list at once, and hears of
// no further change.
func (h *hub) changed(kind string) {
	if kind != "" && h.opts.Changed != nil {
		h.opts.Changed(kind)
	}
}

func changedList(method string) string {
	switch method {
	case mcp.NoteToolsChanged:
		return "tools"
	case mcp.NotePromptsChanged:
		return "prompts"
	case mcp.NoteResourcesChanged:
		return "resources"
	}
	return ""
}

// audience returns the subscribers of a pool that get a notification. For a log message, see also
// hearsLog.
func (p *pool) audience(m *jsonrpc.Message, only uint64) []*Subscriber {
	var uri string
	if m.Method == mcp.NoteResourceUpdated {
		uri, _ = jsonrpc.Text(m.Raw, m.Param("uri"))
	}
	var to []*Subscriber
	for _, w := range p.subscribers {
		if (only == 0 || w.info.Conversation == only) && w.wants(m, uri) {
			to = append(to, w)
		}
	}
	return to
}

func (w *Subscriber) wants(m *jsonrpc.Message, uri string) bool {
	switch m.Method {
	case mcp.NoteToolsChanged:
		return w.want.Tools
	case mcp.NotePromptsChanged:
		return w.want.Prompts
	case mcp.NoteResourcesChanged:
		return w.want.Resources
	case mcp.NoteResourceUpdated:
		if w.want.URIs[uri] {
			return true
		}
		// The URI may be the URI of a sub-resource of a watched resource (all revisions, schema of
		// ResourceUpdatedNotification).
		for have := range w.want.URIs {
			if strings.HasPrefix(uri, strings.TrimSuffix(have, "/")+"/") {
				return true
			}
		}
		return false
	}
	if m.Method == mcp.NoteTaskStatus && (!w.info.Revision.Can(mcp.ExperimentalTasks) || w.info.Who.Key() != "" && w.hub.spec.Isolation == Shared) {
		// The notification is about a task for which Dragoman itself waits, or about a task of an
		// unknown client. Clients must not depend on such notifications.
		return false
	}
	// All other notifications go to all legacy clients of the session.
	return w.asker != nil
}

// hearsLog reports whether the level of w's client allows a log message. The parameter leveled says
// that a client has set the log level of the session.
func (w *Subscriber) hearsLog(m *jsonrpc.Message, leveled bool) bool {
	f := w.asker.ClientInfo()
	if f == nil || f.LogLevel == 0 && leveled {
		// This client has not set a log level, so another client has set the level of the session.
		return false
	}
	return mcp.WantsLog(f.Revision, f.LogLevel, m)
}

// askers returns those clients in a pool that can be asked.
func (h *hub) askers(p *pool) []mcp.Subscriber {
	return get(h.core, func(*state) (all []mcp.Subscriber) {
		for _, w := range p.subscribers {
			if w.asker != nil {
				all = append(all, w.asker)
			}
		}
		return all
	})
}

// askSubscriber handles a server request outside calls in the session s of the pool p. If the pool has
// exactly one client that can be asked, it sends the request to this client. If there are several, it
// refuses the request. If there is none, it waits a short time for a client before it refuses the
// request. A request for roots makes the session that of one client; see roots.go.
func (h *hub) askSubscriber(ctx context.Context, p *pool, s *session, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	for waited := 0; ; waited++ {
		all, err := h.mayAnswer(p, s, m.Method)
		switch {
		case err != nil:
			return nil, err
		case len(all) == 1:
			return all[0].Ask(ctx, m)
		case len(all) > 1:
			return nil, mcp.SeveralAsk
		case waited == 100:
			return nil, mcp.NobodyToAsk
		}
		// Some servers request the roots right after the handshake, when the client has not yet
		// finished its own handshake with Dragoman.
		if err := work.Sleep(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// mayAnswer returns the clients that may answer a server request outside calls in the session s.
func (h *hub) mayAnswer(p *pool, s *session, method string) (all []mcp.Subscriber, err error) {
	if method != mcp.MethodListRoots || !mcp.DeclaresRoots(p.declared) {
		return h.askers(p), nil
	}
	h.update(func(st *state) {
		to := p.subscribers
		if h.separatesRoots(st) {
			to, err = h.broker.outsideCalls(st, p, s)
		}
		for _, w := range to {
			if w.asker != nil {
				all = append(all, w.asker)
			}
		}
	})
	return all, err
}

// restore renews the subscriptions after a session has ended: those of the pool p, or those on the
// link l if p is nil. It retries until the server is available.
func (h *hub) restore(p *pool, l *link) {
	if p == nil {
		if l != nil && !get(h.core, func(st *state) bool { return h.union(st, l).Empty() }) {
			h.relisten(h.life, l)
		}
		return
	}
	pauses := work.Backoff{Ceiling: time.Minute}
	for !h.resubscribe(p) {
		if get(h.core, func(st *state) bool { return st.ops.stopped }) {
			return // Upstream.Start opens the server and restores the subscriptions
		}
		if work.Sleep(h.life, pauses.Fail()) != nil {
			return
		}
	}
}

// resubscribe subscribes again to all resources that the subscribers in the pool watch. It reports
// whether the server was available.
func (h *hub) resubscribe(p *pool) bool {
	watched := map[string]*Subscriber{}
	h.update(func(*state) {
		for _, w := range p.subscribers {
			for uri := range w.want.URIs {
				watched[uri] = w
			}
		}
	})
	for uri, w := range watched {
		ctx, stop := context.WithTimeout(h.life, 30*time.Second)
		_, err := h.subscription(ctx, w, mcp.MethodSubscribe, uri)
		stop()
		if err != nil {
			h.opts.Log.Info("subscriptions are not restored yet", "server", h.spec.Name, "cause", err.Error())
			return false
		}
	}
	return true
}

// raiseLevel sets the log level of a legacy session to the level that a call needs, unless the
// session already has a sufficient level.
func (h *hub) raiseLevel(ctx context.Context, s *session, a *mcp.Attempt) {
	if a.Level == 0 || s.server.Revision().Modern() {
		return
	}
	enough := get(h.core, func(*state) bool {
		enough := s.level != 0 && s.level <= a.Level
		if !enough {
			s.level = a.Level
		}
		return enough
	})
	if enough || !hasLog(s) {
		return
	}
	_, _ = h.sendLevel(ctx, s, a.Level, a.Client)
}

// replayLevel sets the log level of a new session to the most verbose level that the clients in the
// pool have set.
func (h *hub) replayLevel(s *session, p *pool) {
	if s.server.Revision().Modern() || !hasLog(s) {
		return
	}
	level := h.lowestLevel(p, nil)
	h.update(func(*state) { s.level = level })
	if level == 0 {
		return
	}
	ctx, stop := context.WithTimeout(h.life, 5*time.Second)
	defer stop()
	_, _ = h.sendLevel(ctx, s, level, nil)
}

// lowestLevel returns the most verbose log level that a client in the pool has set, or 0 if none has.
// It leaves out the client except.
func (h *hub) lowestLevel(p *pool, except *mcp.ClientInfo) (level mcp.LogLevel) {
	for _, a := range h.askers(p) {
		f := a.ClientInfo()
		if f == nil || f.LogLevel == 0 || except != nil && f.Conversation == except.Conversation {
			continue
		}
		if level == 0 || f.LogLevel < level {
			level = f.LogLevel
		}
	}
	return level
}

// sendLevel sends logging/setLevel on behalf of the client f, which may be nil.
func (h *hub) sendLevel(ctx context.Context, s *session, level mcp.LogLevel, f *mcp.ClientInfo) (*mcp.Reply, error) {
	params := append(jsonrpc.AppendQuote([]byte(`{"level":`), level.String()), '}')
	return s.server.Call(ctx, h.ownCall(mcp.MethodSetLevel, params, f), mcp.NoCaller{})
}

// hasLog reports whether a server has declared logging. Only such a server gets
// logging/setLevel.
func hasLog(s *session) bool {
	caps := s.server.Hello().Capabilities
	return !jsonrpc.Find(caps, jsonrpc.Whole(caps), "logging").IsZero()
}

// setLevel answers logging/setLevel. A legacy server gets the most verbose level of all clients
// in the pool. Each client still gets only the messages that its own level allows.
func (h *hub) setLevel(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	level, ok := mcp.ParseLogLevel(text(c.Msg, "level"))
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "level must be a log level, such as info"}
	}
	held, err := h.broker.acquire(ctx, c.Client, mcp.Need{Method: mcp.MethodSetLevel})
	if err != nil {
		return nil, err
	}
	defer held.release()
	s := held.s
	if s.server.Revision().Modern() {
		return mcp.Answer([]byte("{}")), nil
	}
	if !hasLog(s) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + mcp.MethodSetLevel}
	}
	if others := h.lowestLevel(s.pool, c.Client); others != 0 {
		level = min(level, others)
	}
	h.update(func(*state) { s.level = level })
	return h.sendLevel(ctx, s, level, c.Client)
}

func text(m *jsonrpc.Message, key string) string {
	s, _ := jsonrpc.Text(m.Raw, m.Param(key))
	return s
}
