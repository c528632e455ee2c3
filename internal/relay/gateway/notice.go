package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
)

// notices records which client gets which notifications: legacy clients while they are
// connected, and modern clients while they have an open subscriptions/listen. The zero value
// is ready to use.
type notices struct {
	mu             sync.Mutex
	attached       map[uint64]*attachment // the key is mcp.ClientInfo.Conversation
	localListeners map[*localListener]struct{}
	own            ListenQuota     // used if the endpoint does not share a quota with other endpoints
	ctx            context.Context // cancelled by Drain or EndListens; created on first use
	end            context.CancelCauseFunc
}

// attachment is a legacy client that gets notifications.
type attachment struct {
	to   []attachedTo
	uris map[watched]bool // the resources that the client has subscribed to; at most maxURIs
	over bool             // true if another gateway takes over the client; see TakeWatched
}

// watched is a resource, under the server's own URI.
type watched struct{ server, uri string }

type attachedTo struct {
	server string
	w      Subscriber
}

func (a *attachment) find(server string) Subscriber {
	if a == nil {
		return nil
	}
	for _, x := range a.to {
		if x.server == server {
			return x.w
		}
	}
	return nil
}

// localListener is a client that is notified when the catalog announces a change of a merged list, and when
// somebody has signed in.
type localListener struct {
	client *mcp.ClientInfo
	want   mcp.SubscriptionFilter
	signIn mcp.SubscriptionFilter // the lists of which it hears when somebody has signed in
	view   *catalog.View          // nil at the endpoint of a single server
	find   *finding               // nil if the client lists all tools
	notify func(method string)
}

// listenGrace is how long Dragoman waits for the servers before it acknowledges a
// subscriptions/listen.
const listenGrace = 1500 * time.Millisecond

// rename replaces the names in a server's notification by the names that clients know.
type rename = func(server string, m *jsonrpc.Message, e *jsonrpc.Edits)

// ownerOf returns the server of a resource and the server's own URI. The server is nil if there is
// none.
type ownerOf = func(uri string) (Upstream, string)

// maxURIs bounds the resources that one listen or one legacy client may watch.
const maxURIs = mcp.MaxWatched

// errReplaced ends listens whose clients can go on with another gateway, which has other lists.
var errReplaced = errors.New("the endpoint was replaced")

// life returns the context that Drain and EndListens cancel.
func (n *notices) life() context.Context {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lifeLocked()
}

func (n *notices) lifeLocked() context.Context {
	if n.ctx == nil {
		n.ctx, n.end = context.WithCancelCause(context.Background())
	}
	return n.ctx
}

// Drain ends all listens with a result, as a server that shuts down should (2026-07-28
// §Subscriptions, "Graceful Closure"). Drain does not wait.
func (n *notices) Drain() { n.endListens(nil) }

// EndListens does the same because another gateway takes over, which goes on with the listens; see
// [mcp.Reply.Replaced]. The lists of that one may differ, so each listener is told of a change of every list
// that it has asked for, as legacy clients are then. EndListens does not wait.
func (n *notices) EndListens() { n.endListens(errReplaced) }

func (n *notices) endListens(cause error) {
	n.mu.Lock()
	n.lifeLocked()
	end := n.end
	n.mu.Unlock()
	end(cause)
}

// announce implements catalog.Catalog.Announce.
func (n *notices) announce(method, server string, to catalog.Audience) {
	for _, h := range n.listeners() {
		switch {
		case h.view == nil, !h.view.Sees(server, to),
			method == mcp.NoteToolsChanged && !h.want.Tools,
			method == mcp.NotePromptsChanged && !h.want.Prompts,
			method == mcp.NoteResourcesChanged && !h.want.Resources,
			!h.find.hears(method):
		default:
			h.notify(method)
		}
	}
}

func (n *notices) listeners() []*localListener {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]*localListener, 0, len(n.localListeners))
	for h := range n.localListeners {
		all = append(all, h)
	}
	return all
}

// signedIn tells the clients with a credential scope at a server that all lists may have changed. Those whose
// subject it is hear of it too: if they have signed out, they have the scope of everybody now.
func (n *notices) signedIn(u Upstream, scope string) {
	for _, h := range n.listeners() {
		if u.Scope(h.client) != scope && (h.client.Who == nil || h.client.Who.Subject != scope) {
			continue
		}
		for _, method := range h.signIn.Lists() {
			h.notify(method)
		}
	}
}

func (n *notices) addListener(h *localListener) (stop func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.localListeners == nil {
		n.localListeners = make(map[*localListener]struct{})
	}
	n.localListeners[h] = struct{}{}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.localListeners, h)
	}
}

// admit counts a new subscriptions/listen. The parameter all is the shared quota. If it is nil,
// admit uses the endpoint's own quota. The caller must call leave when the listen ends.
func (n *notices) admit(all *ListenQuota, c *mcp.Call) (leave func(), err error) {
	if all == nil {
		all = &n.own
	}
	return all.admit(c)
}

// listen serves a subscriptions/listen request until the client cancels the request or the gateway
// drains. If a.owner is nil, a.all contains a single server, and all resources are on that server.
func (n *notices) listen(ctx context.Context, r *bridge.Bridge, a *route, k mcp.Caller) (*mcp.Reply, error) {
	c, from, sole := a.Call, a.all, a.Sole
	want, err := mcp.ParseSubscriptionFilter(c.Msg.Raw, c.Msg.Param("notifications"))
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	if want.OverLimit() {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
			Message: fmt.Sprintf("too many resources in one subscriptions/listen: the limit is %d resources, with at most %d bytes of URIs", maxURIs, mcp.MaxWatchedBytes)}
	}
	q := &queue{wake: make(chan struct{}, 1)}
	tasks, err := listenToTasks(ctx, r, c, q, from, sole)
	if err != nil {
		return nil, err
	}
	defer tasks.leave()
	wants, asked := splitByServer(want, from, a.owner)
	all, leave := n.watchAll(ctx, c, from, wants, func(u Upstream, m *jsonrpc.Message) {
		if a.find.hears(m.Method) {
			q.put(u, m)
		}
	})
	defer leave()
	honoured := mcp.SubscriptionFilter{URIs: map[string]bool{}}
	late := time.NewTimer(listenGrace)
	defer late.Stop()
	patience := late.C
	if sole {
		patience = nil // wait for the only server without a time limit, so that the client gets the server's error
	}
	// Dragoman acknowledges these changes for a server that fails or is slow. When the server
	// connects later, the merged lists change, and the client is notified.
	absent := mcp.SubscriptionFilter{Tools: want.Tools, Prompts: want.Prompts, Resources: want.Resources}
	for i, w := range all {
		var got mcp.SubscriptionFilter
		select {
		case <-w.done:
			if w.err != nil && sole && !a.mayCome(w.err) {
				return nil, w.err
			}
			if got = w.got; w.err != nil {
				got = absent
			}
		case <-ctx.Done():
		case <-patience:
			late.Reset(0) // the timer must also fire for the next server
			got = absent
		}
		honoured.Tools = honoured.Tools || got.Tools
		honoured.Prompts = honoured.Prompts || got.Prompts
		honoured.Resources = honoured.Resources || got.Resources
		for uri := range got.URIs {
			for _, uri := range asked(i, uri) {
				honoured.URIs[uri] = true
			}
		}
	}
	l := &localListener{client: c.Client, want: honoured, signIn: honoured, find: a.find, notify: func(method string) {
		q.put(nil, jsonrpc.NewNotification(method, nil))
	}}
	if !sole {
		l.view = &a.view
	}
	defer n.addListener(l)()
	x := &listening{c: c, k: k, queue: q, names: a.names, want: honoured, id: []byte(c.Msg.ID)}
	x.meta = append(append([]byte(`{"`+mcp.KeySubscriptionID+`":`), x.id...), '}')
	ack := append(append([]byte(`{"_meta":`), x.meta...), `,"notifications":`...)
	ack = append(append(ack, tasks.filter(honoured.JSON())...), '}')
	k.Notify(mcp.NewNote(mcp.NoteAcknowledged, ack))
	return n.deliver(ctx, x)
}

// listening is a subscriptions/listen that was acknowledged.
type listening struct {
	c        *mcp.Call
	k        mcp.Caller
	queue    *queue
	names    rename
	want     mcp.SubscriptionFilter // what was acknowledged, without tasks
	id, meta []byte                 // the id of the request, and the _meta that names it
}

// deliver sends what is queued for a listen, until it ends.
func (n *notices) deliver(ctx context.Context, x *listening) (*mcp.Reply, error) {
	rest := time.NewTimer(pace) // the pause between two writes, which limits the rate of notifications
	defer rest.Stop()
	for {
		select {
		case <-x.queue.wake:
			for _, y := range x.queue.take() {
				x.k.Notify(forListener(y.from, y.m, x.id, x.names))
			}
			rest.Reset(pace)
			select {
			case <-rest.C:
			case <-n.life().Done():
			case <-ctx.Done():
			}
		case <-n.life().Done():
			return x.end(context.Cause(n.life())), nil
		case <-ctx.Done():
			if n.life().Err() != nil {
				return x.end(context.Cause(n.life())), nil
			}
			return nil, &mcp.Error{Origin: mcp.FromClient, Cause: "cancelled", Message: "the subscription was ended", Err: context.Cause(ctx)}
		}
	}
}

// end returns the result of a listen that Dragoman ends (2026-07-28 §Subscriptions, "Graceful
// Closure"). If the client does not use HTTP, there is no stream to close. Then endResult also
// sends a cancellation (§Cancellation: a server that ends a subscription must send one).
func (x *listening) end(cause error) *mcp.Reply {
	replaced := cause == errReplaced
	if replaced {
		for _, method := range x.want.Lists() {
			x.k.Notify(forListener(nil, jsonrpc.NewNotification(method, nil), x.id, x.names))
		}
	}
	if !x.c.HTTP && !replaced {
		params := append(append([]byte(`{"requestId":`), x.id...), `,"reason":"the server stops","_meta":`...)
		x.k.Notify(mcp.NewNote(mcp.NoteCancelled, append(append(params, x.meta...), '}')))
	}
	reply := mcp.Answer(append(append([]byte(`{"resultType":"complete","_meta":`), x.meta...), '}'))
	reply.Replaced = replaced
	return reply
}

// watching is the subscription at one server for a listen.
type watching struct {
	done chan struct{} // closed when got and err are set
	got  mcp.SubscriptionFilter
	err  error
}

// watchAll subscribes at all servers at the same time, so that a slow server does not delay the
// others. The function leave ends all subscriptions and waits until they have ended.
func (n *notices) watchAll(ctx context.Context, c *mcp.Call, from []Upstream, wants []mcp.SubscriptionFilter, put func(Upstream, *jsonrpc.Message)) (all []*watching, leave func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	var standing []Subscriber
	for i, u := range from {
		w := &watching{done: make(chan struct{})}
		st := u.Subscribe(c.Client, func(m *jsonrpc.Message) { put(u, m) }, nil)
		all, standing = append(all, w), append(standing, st)
		running.Go(func() {
			defer close(w.done)
			w.got, w.err = st.Watch(ctx, wants[i])
		})
	}
	return all, func() {
		cancel()
		running.Wait()
		for _, st := range standing {
			st.Close()
		}
	}
}

// splitByServer returns what to subscribe to at each server: list changes at all servers, and
// each resource at its own server. asked returns the URIs by which the client means a resource of the
// server with this index.
func splitByServer(want mcp.SubscriptionFilter, from []Upstream, owner ownerOf) (out []mcp.SubscriptionFilter, asked func(i int, own string) []string) {
	out = make([]mcp.SubscriptionFilter, len(from))
	for i := range from {
		out[i] = want
		if owner != nil {
			out[i].URIs = make(map[string]bool)
		}
	}
	if owner == nil {
		return out, func(_ int, own string) []string { return []string{own} }
	}
	names := make(map[watched][]string)
	for uri := range want.URIs {
		at, own := owner(uri)
		for i, u := range from {
			if u == at {
				out[i].URIs[own] = true
				key := watched{u.Name(), own}
				names[key] = append(names[key], uri)
			}
		}
	}
	return out, func(i int, own string) []string { return names[watched{from[i].Name(), own}] }
}

// nameOf returns the name of the server that sent a notification, or "" if Dragoman created the
// notification.
func nameOf(u Upstream) string {
	if u == nil {
		return ""
	}
	return u.Name()
}

// forListener returns a notification as a client with an open listen must get it: with the names
// that the client knows, and with the id of the listen.
func forListener(u Upstream, m *jsonrpc.Message, id []byte, as rename) *mcp.Note {
	n := &mcp.Note{Msg: m}
	e := &n.Edits
	as(nameOf(u), m, e)
	field := jsonrpc.Field{Key: mcp.KeySubscriptionID, Value: id}
	meta := m.Param(mcp.KeyMeta)
	switch {
	case !meta.IsZero():
		e.Object(mcp.WhySubscription, m.Raw, meta, nil, field)
	case !m.Params.IsZero():
		e.Object(mcp.WhySubscription, m.Raw, m.Params, nil, jsonrpc.Field{Key: mcp.KeyMeta, Value: jsonrpc.ObjectOf(field)})
	default:
		params := jsonrpc.ObjectOf(jsonrpc.Field{Key: mcp.KeyMeta, Value: jsonrpc.ObjectOf(field)})
		e.Object(mcp.WhySubscription, m.Raw, jsonrpc.Whole(m.Raw), nil, jsonrpc.Field{Key: "params", Value: params})
	}
	return n
}

// forLegacyClient returns a notification as a legacy client must get it: with the names that the
// client knows, and without the subscription id of another listen.
func forLegacyClient(u Upstream, m *jsonrpc.Message, as rename) *mcp.Note {
	n := &mcp.Note{Msg: m}
	e := &n.Edits
	as(nameOf(u), m, e)
	meta := m.Param(mcp.KeyMeta)
	if !jsonrpc.Find(m.Raw, meta, mcp.KeySubscriptionID).IsZero() {
		e.Object(mcp.WhySubscription, m.Raw, meta, func(k []byte) bool { return string(k) == mcp.KeySubscriptionID })
	}
	return n
}

// withoutSenderMeta returns a client's notification without the _meta keys that describe the
// sender. These keys are valid only between the client and Dragoman (2026-07-28 §Base, "_meta").
func withoutSenderMeta(m *jsonrpc.Message) []byte {
	meta := m.Param(mcp.KeyMeta)
	if jsonrpc.KindOf(m.Raw, meta) != '{' {
		return m.Raw
	}
	var e jsonrpc.Edits
	e.Object(mcp.WhySender, m.Raw, meta, mcp.IsPerRequestKey)
	if e.Len() == 0 {
		return m.Raw
	}
	return jsonrpc.Splice(make([]byte, 0, len(m.Raw)), m.Raw, &e)
}

// attachTo is what a legacy client is attached to.
type attachTo struct {
	bridge *bridge.Bridge
	from   []Upstream
	as     rename
	// view is the client's view, if it is connected to the merged endpoint. Then the client is also notified
	// of changes that the catalog announces, and task ids identify the server, even if the client sees only
	// one server.
	view   *catalog.View
	signIn mcp.SubscriptionFilter // the lists of which the client hears when somebody has signed in
	find   *finding               // how the client finds tools; nil if it lists all of them
}

// attach registers a legacy client with its servers.
func (n *notices) attach(f *mcp.ClientInfo, s mcp.Subscriber, to attachTo) (detach func()) {
	out := &notifier{to: s, as: to.as}
	deaf, lists := s.(interface{ HearsNoLists() bool })
	lists = !lists || !deaf.HearsNoLists() // a command that ends after one call subscribes to nothing
	for _, u := range to.from {
		n.register(f, out, u, to).Lists(lists, lists, lists)
	}
	stop := n.addListener(&localListener{client: f, want: mcp.SubscriptionFilter{Tools: lists, Prompts: lists, Resources: lists}, signIn: to.signIn, view: to.view, find: to.find, notify: func(method string) {
		out.put(nil, jsonrpc.NewNotification(method, nil))
	}})
	return func() {
		stop()
		n.mu.Lock()
		mine := n.attached[f.Conversation]
		delete(n.attached, f.Conversation)
		n.mu.Unlock()
		if mine != nil {
			for _, x := range mine.to {
				x.w.Close()
			}
		}
		out.close()
	}
}

// register registers a legacy client with one server. It has no effect if the client is registered
// already.
func (n *notices) register(f *mcp.ClientInfo, out *notifier, u Upstream, to attachTo) Subscriber {
	n.mu.Lock()
	w := n.attached[f.Conversation].find(u.Name())
	n.mu.Unlock()
	if w != nil {
		return w
	}
	sole, r := to.view == nil, to.bridge
	h := noteFilter{r, f, sole}
	asker := r.TaskSubscriber(&filteredSubscriber{out.to, h, u.Name()}, u.Name(), f, sole)
	w = u.Subscribe(f, func(m *jsonrpc.Message) {
		if h.passes(u.Name(), m) && to.find.hears(m.Method) {
			out.put(u, m)
		}
	}, asker)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.attached == nil {
		n.attached = make(map[uint64]*attachment)
	}
	a := n.attached[f.Conversation]
	if a == nil {
		a = &attachment{to: make([]attachedTo, 0, 1)}
		n.attached[f.Conversation] = a
	}
	a.to = append(a.to, attachedTo{u.Name(), w})
	return w
}

// subscribe answers resources/subscribe and resources/unsubscribe. A resource that the filter show
// hides gets the same error as a resource that does not exist. If show is nil, all resources are
// shown.
func (n *notices) subscribe(ctx context.Context, a *mcp.Attempt, u Upstream, show catalog.Filter) (*mcp.Reply, error) {
	uri := a.Name
	if _, ok := jsonrpc.Text(a.Msg.Raw, a.Msg.Param("uri")); !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "uri must be a string"}
	}
	resource := watched{u.Name(), uri}
	hides := show != nil && !show.Shows(catalog.KindResource, u.Name(), uri)
	n.mu.Lock()
	at := n.attached[a.Client.Conversation]
	w := at.find(u.Name())
	over := at != nil && at.over
	full := w != nil && !over && !hides && a.Msg.Method == mcp.MethodSubscribe && !at.countLocked(resource)
	n.mu.Unlock()
	switch {
	case w == nil:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the session is not ready for subscriptions; send notifications/initialized first"}
	case over:
		return nil, &mcp.Error{Origin: mcp.FromGateway, Outcome: mcp.NotSent, Retryable: true, Cause: "reloaded",
			Message: "the configuration changed during the request; send the request again", Upstream: u.Name()}
	case full:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("too many subscribed resources: the limit is %d for one client", maxURIs)}
	case hides:
		return nil, catalog.Missing(a.Client, uri)
	case a.Msg.Method == mcp.MethodSubscribe:
		reply, err := w.Subscribe(ctx, uri)
		if err != nil || reply.Code() != 0 {
			n.uncount(at, resource)
		}
		return reply, err
	}
	n.uncount(at, resource)
	return w.Unsubscribe(ctx, uri)
}

// countLocked records that the client watches a resource. It returns false if the client already
// watches the maximum number of resources.
func (a *attachment) countLocked(x watched) bool {
	if len(a.uris) >= maxURIs && !a.uris[x] {
		return false
	}
	if a.uris == nil {
		a.uris = make(map[watched]bool)
	}
	a.uris[x] = true
	return true
}

// Watched contains the resources that a legacy client has subscribed to. The key is the server.
type Watched map[string][]string

// TakeWatched returns the resources that an attached client has subscribed to through this gateway,
// so that another gateway can serve the client. After that, this gateway refuses new subscriptions
// of the client. The client still gets notifications for its old subscriptions until the client is
// detached.
func (n *notices) TakeWatched(f *mcp.ClientInfo) Watched {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.attached[f.Conversation]
	if a == nil {
		return nil
	}
	a.over = true
	out := make(Watched)
	for x := range a.uris {
		out[x.server] = append(out[x.server], x.uri)
	}
	return out
}

// resume subscribes an attached client to the resources that the client watched through another
// gateway or process. If a resource's server no longer exists or the resource is now hidden, resume publishes
// a loss. resume does not wait for servers, and modifies the slices in the map all.
func (n *notices) resume(f *mcp.ClientInfo, b *bridge.Bridge, all Watched, show func(server, uri string) bool) {
	for server, uris := range all {
		total := len(uris)
		uris = slices.DeleteFunc(uris, func(uri string) bool { return !show(server, uri) })
		n.mu.Lock()
		a := n.attached[f.Conversation]
		w := a.find(server)
		uris = slices.DeleteFunc(uris, func(uri string) bool { return w == nil || !a.countLocked(watched{server, uri}) })
		n.mu.Unlock()
		if a == nil {
			return // the client has disconnected
		}
		if len(uris) > 0 {
			w.Resume(uris)
		}
		if len(uris) < total {
			b.ReportLoss(server, mcp.MethodSubscribe, "a client is subscribed to a resource that is no longer in the configuration")
		}
	}
}

func (n *notices) uncount(a *attachment, x watched) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(a.uris, x)
}

// queue contains the notifications that wait for a listening client. A later notification about the
// same list, resource or task replaces an earlier one. So the queue has at most one entry for each
// list, resource and task that the client watches.
type queue struct {
	wake chan struct{} // capacity 1

	mu   sync.Mutex
	list []queued
	pace listPace
}

type queued struct {
	from Upstream
	m    *jsonrpc.Message
}

func (q *queue) put(u Upstream, m *jsonrpc.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.list {
		if q.list[i].stands(u, m) {
			if len(m.Raw) <= max(alwaysFits, len(q.list[i].m.Raw)) {
				q.list[i].from, q.list[i].m = u, m // if m is too long, keep the queued notification, which has the same meaning
			}
			return
		}
	}
	if len(q.list) >= 2*maxURIs || !fits(q.list, m) {
		return
	}
	q.list = append(q.list, queued{u, m})
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns the notifications that may be sent now. If other notifications must wait, take
// signals the reader of the queue to call take again.
func (q *queue) take() []queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	var due []queued
	if due, q.list = q.pace.split(q.list, time.Now()); len(q.list) > 0 {
		q.signal()
	}
	return due
}
