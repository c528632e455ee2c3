package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Subscriber receives the notifications from a server on behalf of a client. A legacy client has a
// Subscriber during its conversation, and a modern client during its listen.
type Subscriber struct {
	upstream *Upstream
	pool     *pool
	info     *mcp.ClientInfo
	want     mcp.SubscriptionFilter
	deliver  func(*jsonrpc.Message)
	asker    mcp.Subscriber // nil for clients that cannot be asked
	index    int            // the index in pool.subscribers; Upstream.mu guards it
}

// leaveLocked removes w from the pool. It may change the order of the other subscribers.
func (p *pool) leaveLocked(w *Subscriber) {
	last := len(p.subscribers) - 1
	if w.index > last || p.subscribers[w.index] != w {
		return
	}
	p.subscribers[w.index] = p.subscribers[last]
	p.subscribers[w.index].index = w.index
	p.subscribers[last] = nil
	p.subscribers = p.subscribers[:last]
}

// Subscribe registers the client f for notifications. The function deliver is called with each
// notification on the goroutine that reads from the server, and must not block. asker answers
// server requests outside calls. If asker is nil, these requests are refused.
func (u *Upstream) Subscribe(f *mcp.ClientInfo, deliver func(*jsonrpc.Message), asker mcp.Subscriber) *Subscriber {
	scope := u.Scope(f)
	u.mu.Lock()
	defer u.mu.Unlock()
	key := u.keyLocked(f, scope)
	p := u.pools[key]
	if p == nil {
		p = u.newPoolLocked(key, f, scope)
	}
	w := &Subscriber{upstream: u, pool: p, info: f, deliver: deliver, asker: asker, index: len(p.subscribers)}
	p.subscribers = append(p.subscribers, w)
	return w
}

// Close removes the subscriber. It unsubscribes from the resources that no other subscriber in the
// pool watches.
func (w *Subscriber) Close() {
	u := w.upstream
	u.mu.Lock()
	w.pool.leaveLocked(w)
	uris := make([]string, 0, len(w.want.URIs))
	for uri := range w.want.URIs {
		if !w.pool.watchedLocked(uri) {
			uris = append(uris, uri)
		}
	}
	defer u.mu.Unlock()
	u.relistenSoonLocked(u.links[w.pool.scope])
	u.tidyLocked(w.pool)
	if len(uris) == 0 || u.closed || len(w.pool.sessions) == 0 {
		return // without a session, there are no subscriptions at the server
	}
	u.work.Go(func() {
		ctx, stop := context.WithTimeout(u.life, 10*time.Second)
		defer stop()
		for _, uri := range uris {
			_, _ = u.subscription(ctx, w, mcp.MethodUnsubscribe, uri)
		}
	})
}

// Lists sets the lists whose changes are reported to w. Unlike Watch, Lists does not wait for the
// server.
func (w *Subscriber) Lists(tools, prompts, resources bool) {
	u := w.upstream
	u.mu.Lock()
	defer u.mu.Unlock()
	w.want.Tools, w.want.Prompts, w.want.Resources = tools, prompts, resources
	u.relistenSoonLocked(u.links[w.pool.scope])
}

// relistenSoonLocked runs relisten on another goroutine.
func (u *Upstream) relistenSoonLocked(l *link) {
	if l == nil || l.session == nil || u.closed || l.relistening {
		return
	}
	l.relistening = true
	u.work.Go(func() {
		u.mu.Lock()
		l.relistening = false
		u.mu.Unlock()
		u.relisten(u.life, l)
	})
}

// Subscribe watches a resource. If the server is modern, or if another subscriber in the pool
// already watches the resource, the reply comes from Dragoman. Otherwise it comes from the server.
func (w *Subscriber) Subscribe(ctx context.Context, uri string) (*mcp.Reply, error) {
	u := w.upstream
	u.mu.Lock()
	already := w.pool.watchedLocked(uri)
	if !w.roomLocked(uri) {
		u.mu.Unlock()
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
			Message: fmt.Sprintf("too many subscribed resources: the limit is %d resources, with at most %d bytes of URIs", mcp.MaxWatched, mcp.MaxWatchedBytes)}
	}
	if w.want.URIs == nil {
		w.want.URIs = make(map[string]bool)
	}
	w.want.URIs[uri] = true
	u.mu.Unlock()
	if already {
		return mcp.Answer([]byte("{}")), nil
	}
	r, err := u.subscription(ctx, w, mcp.MethodSubscribe, uri)
	if err != nil || r.Code() != 0 {
		u.mu.Lock()
		delete(w.want.URIs, uri)
		u.mu.Unlock()
	}
	return r, err
}

// Resume watches resources to which the client subscribed before the configuration changed. It does
// not wait for the server. When the server is available, a goroutine subscribes to the resources
// that no other subscriber in the pool watches. If the server refuses a resource, the goroutine
// publishes a loss.
func (w *Subscriber) Resume(uris []string) {
	u := w.upstream
	u.mu.Lock()
	defer u.mu.Unlock()
	var ask []string
	for _, uri := range uris {
		if !w.roomLocked(uri) {
			continue
		}
		if !w.pool.watchedLocked(uri) {
			ask = append(ask, uri)
		}
		if w.want.URIs == nil {
			w.want.URIs = make(map[string]bool)
		}
		w.want.URIs[uri] = true
	}
	if len(ask) > 0 && !u.closed {
		u.work.Go(func() { u.resume(w, ask) })
	}
}

// resume subscribes to resources at the server. For each resource, it tries again until the server
// answers, or until no client watches the resource any more.
func (u *Upstream) resume(w *Subscriber, uris []string) {
	pauses := work.Backoff{Ceiling: time.Minute}
	for len(uris) > 0 {
		uri := uris[0]
		u.mu.Lock()
		wanted := w.pool.watchedLocked(uri)
		u.mu.Unlock()
		if !wanted {
			uris = uris[1:]
			continue
		}
		ctx, stop := context.WithTimeout(u.life, 30*time.Second)
		r, err := u.subscription(ctx, w, mcp.MethodSubscribe, uri)
		stop()
		var refused *jsonrpc.Error
		switch {
		case errors.As(err, &refused), err == nil && r.Code() != 0:
			u.mu.Lock()
			delete(w.want.URIs, uri)
			u.mu.Unlock()
			u.publishLoss(mcp.MethodSubscribe, "the server refused to renew a client's subscription after the configuration changed")
		case err != nil:
			u.opts.Log.Info("subscriptions are not restored yet", "server", u.spec.Name, "cause", err.Error())
			if work.Sleep(u.life, pauses.Fail()) != nil {
				return
			}
			continue
		}
		uris = uris[1:]
	}
}

// roomLocked reports whether w may watch the resource uri, in addition to the resources that it
// already watches.
func (w *Subscriber) roomLocked(uri string) bool {
	size := len(uri)
	for have := range w.want.URIs {
		if have == uri {
			return true
		}
		size += len(have)
	}
	return len(w.want.URIs) < mcp.MaxWatched && size <= mcp.MaxWatchedBytes
}

// Unsubscribe stops watching a resource.
func (w *Subscriber) Unsubscribe(ctx context.Context, uri string) (*mcp.Reply, error) {
	u := w.upstream
	u.mu.Lock()
	delete(w.want.URIs, uri)
	still := w.pool.watchedLocked(uri)
	u.mu.Unlock()
	if still {
		return mcp.Answer([]byte("{}")), nil
	}
	return u.subscription(ctx, w, mcp.MethodUnsubscribe, uri)
}

func (p *pool) watchedLocked(uri string) bool {
	for _, w := range p.subscribers {
		if w.want.URIs[uri] {
			return true
		}
	}
	return false
}

// subscription starts or stops watching a resource at the server. To a legacy server, it sends a
// request with the given method. To a modern server, it sends a listen with the new union of all
// subscriptions.
func (u *Upstream) subscription(ctx context.Context, w *Subscriber, method, uri string) (*mcp.Reply, error) {
	lease, err := u.acquire(ctx, w.info, mcp.Need{Method: method})
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	s := lease.s
	if s.server.Revision().Can(mcp.Listen) {
		return u.listenFor(ctx, s.link, method, uri)
	}
	params := append(jsonrpc.AppendQuote([]byte(`{"uri":`), uri), '}')
	return s.server.Call(ctx, u.ownCall(method, params, w.info), mcp.NoCaller{})
}

// ownCall returns a call that Dragoman itself makes, on behalf of the client f. If f is nil, the
// call contains Dragoman's own client info (2026-07-28 §Base, "Per-request protocol fields":
// required on every request).
func (u *Upstream) ownCall(method string, params []byte, f *mcp.ClientInfo) *mcp.Attempt {
	g := mcp.ClientInfo{Revision: mcp.LatestLegacy, Info: u.opts.Info}
	if f != nil {
		g = *f
		g.LogLevel = 0
		if len(g.Info) <= 2 {
			g.Info = u.opts.Info
		}
	}
	if !g.Revision.Legacy() {
		// Dragoman's own requests have the form of a legacy client's requests. The codec converts
		// them.
		g.Revision = mcp.LatestLegacy
	}
	m := jsonrpc.NewRequest("1", method, params)
	c := mcp.NewCall(m, m.Param(mcp.KeyMeta), &g)
	c.Ours = true
	return mcp.NewAttempt(c)
}

// deliverNotification handles a notification from a legacy session, or from a modern server outside
// all listens. For the parameter only, see deliverModern.
func (u *Upstream) deliverNotification(p *pool, s *session, m *jsonrpc.Message, only uint64) {
	kind := changedList(m.Method)
	if kind == "tools" {
		u.forgetTools()
	}
	u.mu.Lock()
	if s.current() {
		u.mu.Unlock()
		u.deliverModern(s.link, m, only)
		return
	}
	to := u.audienceLocked(p, m, only, s.level != 0)
	if kind != "" {
		// Clients whose pool has no session have read the lists through another session.
		for _, q := range u.pools {
			if q != p && q.scope == p.scope && len(q.sessions) == 0 {
				to = append(to, u.audienceLocked(q, m, only, false)...)
			}
		}
	}
	if m.Method == mcp.NoteTaskStatus && !u.spec.OneClient {
		// The id of a task gives access to the task, so only its owner gets it. Clients must not
		// depend on these notifications (2025-11-25 §Tasks, "Task Status Notification").
		id, _ := jsonrpc.Text(m.Raw, m.Param("taskId"))
		owner, known := s.taskOwners[id]
		own := to[:0]
		for _, w := range to {
			if known && w.info.Conversation == owner {
				own = append(own, w)
			}
		}
		to = own
	}
	u.mu.Unlock()
	if m.Method == mcp.NoteTaskStatus && len(to) > 0 {
		m = s.withSession(nil, m, m.Param("taskId"))
	}
	for _, w := range to {
		w.deliver(m)
	}
	if len(to) == 0 && m.Method == mcp.NoteMessage {
		u.publishLoss(m.Method, "the message does not say which call it belongs to")
	}
	if kind != "" && u.opts.Changed != nil {
		u.opts.Changed(kind)
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

// audienceLocked returns the subscribers of a pool that get a notification. The parameter leveled
// says that a client has set the log level of the session.
func (u *Upstream) audienceLocked(p *pool, m *jsonrpc.Message, only uint64, leveled bool) []*Subscriber {
	var uri string
	if m.Method == mcp.NoteResourceUpdated {
		uri, _ = jsonrpc.Text(m.Raw, m.Param("uri"))
	}
	var to []*Subscriber
	for _, w := range p.subscribers {
		if (only == 0 || w.info.Conversation == only) && w.wants(m, uri, leveled) {
			to = append(to, w)
		}
	}
	return to
}

func (w *Subscriber) wants(m *jsonrpc.Message, uri string, leveled bool) bool {
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
	case mcp.NoteMessage:
		if w.asker == nil {
			return false
		}
		f := w.asker.ClientInfo()
		if f == nil || f.LogLevel == 0 && leveled {
			// This client has not set a log level, so another client has set the level of the
			// session.
			return false
		}
		return mcp.WantsLog(f.Revision, f.LogLevel, m)
	}
	if m.Method == mcp.NoteTaskStatus && (!w.info.Revision.Can(mcp.ExperimentalTasks) || w.info.Who.Key() != "" && w.upstream.spec.Isolation == Shared) {
		// The notification is about a task for which Dragoman itself waits, or about a task of an
		// unknown client. Clients must not depend on such notifications.
		return false
	}
	// All other notifications go to all legacy clients of the session.
	return w.asker != nil
}

// askSubscriber handles a server request outside calls. If the pool has exactly one client that can
// be asked, it sends the request to this client. If there are several, it refuses the request. If
// there is none, it waits a short time for a client before it refuses the request.
func (u *Upstream) askSubscriber(ctx context.Context, p *pool, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	var one mcp.Subscriber
	for waited := 0; ; waited++ {
		u.mu.Lock()
		n := 0
		for _, w := range p.subscribers {
			if w.asker != nil {
				one = w.asker
				n++
			}
		}
		u.mu.Unlock()
		if n == 1 {
			return one.Ask(ctx, m)
		}
		switch {
		case n > 1:
			return nil, mcp.SeveralAsk
		case waited == 20:
			return nil, mcp.NobodyToAsk
		}
		// Some servers request the roots right after the handshake, when the client has not yet
		// finished its own handshake with Dragoman.
		if err := work.Sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// restore renews the subscriptions after a session has ended: those of the pool p, or those on the
// link l if p is nil. It retries until the server is available.
func (u *Upstream) restore(p *pool, l *link) {
	if p == nil {
		u.mu.Lock()
		wanted := l != nil && !u.unionLocked(l).Empty()
		u.mu.Unlock()
		if wanted {
			u.relisten(u.life, l)
		}
		return
	}
	pauses := work.Backoff{Ceiling: time.Minute}
	for !u.resubscribe(p) {
		if u.isStopped() {
			return // Upstream.Start opens the server and restores the subscriptions
		}
		if work.Sleep(u.life, pauses.Fail()) != nil {
			return
		}
	}
}

// resubscribe subscribes again to all resources that the subscribers in the pool watch. It reports
// whether the server was available.
func (u *Upstream) resubscribe(p *pool) bool {
	u.mu.Lock()
	watched := map[string]*Subscriber{}
	for _, w := range p.subscribers {
		for uri := range w.want.URIs {
			watched[uri] = w
		}
	}
	u.mu.Unlock()
	for uri, w := range watched {
		ctx, stop := context.WithTimeout(u.life, 30*time.Second)
		_, err := u.subscription(ctx, w, mcp.MethodSubscribe, uri)
		stop()
		if err != nil {
			u.opts.Log.Info("subscriptions are not restored yet", "server", u.spec.Name, "cause", err.Error())
			return false
		}
	}
	return true
}

// raiseLevel sets the log level of a legacy session to the level that a call needs, unless the
// session already has a sufficient level.
func (u *Upstream) raiseLevel(ctx context.Context, s *session, a *mcp.Attempt) {
	if a.Level == 0 || s.server.Revision().Modern() {
		return
	}
	u.mu.Lock()
	enough := s.level != 0 && s.level <= a.Level
	if !enough {
		s.level = a.Level
	}
	u.mu.Unlock()
	if enough || !hasLog(s) {
		return
	}
	params := append(jsonrpc.AppendQuote([]byte(`{"level":`), a.Level.String()), '}')
	_, _ = s.server.Call(ctx, u.ownCall(mcp.MethodSetLevel, params, a.Client), mcp.NoCaller{})
}

// replayLevel sets the log level of a new session to the most verbose level that the clients in the
// pool have set.
func (u *Upstream) replayLevel(s *session, p *pool) {
	if s.server.Revision().Modern() || !hasLog(s) {
		return
	}
	var level mcp.LogLevel
	u.mu.Lock()
	for _, w := range p.subscribers {
		if w.asker == nil {
			continue
		}
		if f := w.asker.ClientInfo(); f != nil && f.LogLevel != 0 && (level == 0 || f.LogLevel < level) {
			level = f.LogLevel
		}
	}
	s.level = level
	u.mu.Unlock()
	if level == 0 {
		return
	}
	ctx, stop := context.WithTimeout(u.life, 5*time.Second)
	defer stop()
	params := append(jsonrpc.AppendQuote([]byte(`{"level":`), level.String()), '}')
	_, _ = s.server.Call(ctx, u.ownCall(mcp.MethodSetLevel, params, nil), mcp.NoCaller{})
}

// hasLog reports whether a server has declared logging. Only such a server gets
// logging/setLevel.
func hasLog(s *session) bool {
	caps := s.server.Hello().Capabilities
	return !jsonrpc.Find(caps, jsonrpc.Whole(caps), "logging").IsZero()
}

// SetLevel answers logging/setLevel. A legacy server gets the most verbose level of all clients
// in the pool. Each client still gets only the messages that its own level allows.
func (u *Upstream) SetLevel(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	level, ok := mcp.ParseLogLevel(text(c.Msg, "level"))
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "level must be a log level, such as info"}
	}
	lease, err := u.acquire(ctx, c.Client, mcp.Need{Method: mcp.MethodSetLevel})
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	s := lease.s
	if s.server.Revision().Modern() {
		return mcp.Answer([]byte("{}")), nil
	}
	if !hasLog(s) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + mcp.MethodSetLevel}
	}
	u.mu.Lock()
	for _, w := range s.pool.subscribers {
		if w.asker == nil {
			continue
		}
		if f := w.asker.ClientInfo(); f != nil && f.Conversation != c.Client.Conversation && f.LogLevel != 0 {
			level = min(level, f.LogLevel)
		}
	}
	s.level = level
	u.mu.Unlock()
	params := append(jsonrpc.AppendQuote([]byte(`{"level":`), level.String()), '}')
	return s.server.Call(ctx, u.ownCall(mcp.MethodSetLevel, params, c.Client), mcp.NoCaller{})
}

func text(m *jsonrpc.Message, key string) string {
	s, _ := jsonrpc.Text(m.Raw, m.Param(key))
	return s
}
