package gateway

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/finder"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/relay/questions"
)

// maxRepeated is the maximum length in bytes of a client's text in an error message or an event.
const maxRepeated = 128

// Merged presents many servers as one server. Tools and prompts have names of the form
// server__name. A request for a URI goes to the server that has the URI. Lists are merged. A server
// that is slow or has failed is missing from the lists, but does not delay them.
type Merged struct {
	Bridge *bridge.Bridge
	// Policy allows or refuses each call before it is sent. An empty policy allows every call.
	Policy policy.Chain
	// Audit hears of every request. Nil means no auditor.
	Audit policy.Auditor
	// Project is the name of the endpoint's project, for policy and events. The default is
	// event.DefaultProject.
	Project string
	// Listens bounds the subscriptions/listen requests of all endpoints together. If Listens is
	// nil, the endpoint has a quota of its own.
	Listens   *ListenQuota
	Upstreams []Upstream // in the order of the configuration
	// Own has the items of the endpoint itself, which keep their names and come before those of the
	// servers. Nil means that there are none.
	Own   Upstream
	Names catalog.Names
	// Prefixes contains the prefix of each server whose prefix is not the server's name. If the
	// prefix is "", the server's items keep their own names.
	Prefixes map[string]string
	// Expose hides items from all clients. Nil shows all items.
	Expose catalog.Filter
	// Vet judges each item when a list is read. Nil lets all items pass.
	Vet catalog.Vet
	// Withholds means that Vet may hold items. Then the list with an item is read before the item is used, if it
	// wasn't read yet; see catalog.View.Withheld.
	Withholds bool
	// Renames are other names of tools and prompts. Nil means none.
	Renames *catalog.Renames
	// Filter returns the filter for a principal. This filter applies after Expose. If Filter or its
	// result is nil, the principal sees everything that Expose does not hide. Filter is called for
	// each request and must not block.
	Filter   func(who *identity.Principal) catalog.Filter
	Identity catalog.Identity
	// Clean is catalog.Catalog.Clean.
	Clean func(server string) func(text string) string
	// URIs is shared with the gateways that serve the same clients before and after this one. If it
	// is nil, the gateway has its own.
	URIs *catalog.URIs
	// Before is the gateway that served the same clients until now, or nil. Names and URIs stay with the
	// servers that had them first there.
	Before *Merged
	// Questions has what waits for people, because clients can't show it. Nil means that nobody answers such questions.
	Questions *questions.Box
	// SignIn asks people to sign in to servers. Nil asks nobody.
	SignIn *SignIn
	// Find says how clients find tools.
	Find Find
	// Shortener shortens the results of tools. Nil leaves them as they are.
	Shortener *Shortener
	// Grace is how long a request for a merged list waits for a server. The time starts when the
	// server's list is first needed. Zero means 1.5 s.
	Grace time.Duration

	notices
	viewers viewers
	checks  finder.Checks
	looking work.Group // the goroutines that look whether clients that search must hear of a change
	made    sync.Once
	lists   *catalog.Catalog // created from the fields above when the method catalog is first called
	all     []Upstream       // Own and Upstreams; created with lists
}

// catalog returns the merged lists of the servers.
func (g *Merged) catalog() *catalog.Catalog {
	g.made.Do(func() {
		g.all = g.Upstreams
		prefixes := g.Prefixes
		if g.Own != nil {
			g.all = append([]Upstream{g.Own}, g.Upstreams...)
			prefixes = maps.Clone(prefixes)
			if prefixes == nil {
				prefixes = make(map[string]string)
			}
			prefixes[g.Own.Name()] = ""
		}
		g.lists = &catalog.Catalog{
			Names: g.Names, Prefixes: prefixes, Expose: g.Expose, Vet: g.Vet, Renames: g.Renames, Clean: g.Clean, Hints: g.Find.Hints, Identity: g.Identity, Grace: g.Grace, URIs: g.URIs,
			Lost: g.Bridge.ReportLoss, Renamed: g.renamed, Announce: g.announce, Holds: holds, SignsIn: make(map[string]bool),
		}
		for _, u := range g.all {
			g.lists.Sources = append(g.lists.Sources, u)
			g.lists.SignsIn[u.Name()] = g.SignIn.CanSignIn(u.Name())
		}
		if g.Before != nil {
			g.lists.Inherit(g.Before.catalog())
			g.Before = nil // not a chain of all gateways that ever were
		}
	})
	return g.lists
}

// renamed publishes an event that says that clients see an item under an unusual name. The
// parameter why is the reason.
func (g *Merged) renamed(server, list, name, why string) {
	g.Bridge.Events.Publish(event.Event{Kind: event.Rename, Level: slog.LevelWarn, Server: server, Method: list, Name: name, Detail: why})
}

// view returns a client's view of the lists.
func (g *Merged) view(f *mcp.ClientInfo) catalog.View {
	return g.catalog().View(f, filterFor(g.Filter, f))
}

// filterFor returns the filter for a client's principal.
func filterFor(of func(*identity.Principal) catalog.Filter, f *mcp.ClientInfo) catalog.Filter {
	if of == nil {
		return nil
	}
	if f == nil {
		return of(nil)
	}
	return of(f.Who)
}

// shown returns Own and the servers, in the order of the configuration, as far as a client may see them.
func (g *Merged) shown(v catalog.View) []Upstream {
	all := v.Servers()
	if len(all) == len(g.all) {
		return g.all
	}
	out := make([]Upstream, len(all))
	for i, u := range all {
		out[i] = u.(Upstream)
	}
	return out
}

// Hello returns Dragoman's server information, with the capabilities of all servers that the client
// may see.
func (g *Merged) Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	return g.hello(ctx, f, false)
}

// hello does the same for an address at which clients always search, or for any other.
func (g *Merged) hello(ctx context.Context, f *mcp.ClientInfo, always bool) (*mcp.ServerInfo, error) {
	f = lent(g.Questions, f)
	v := g.view(f)
	h := v.Info(ctx)
	if g.finds(always) && g.searches(f, v.KnownTools(), always) {
		h.Instructions = ownInstructions(h.Instructions)
	}
	g.SignIn.greets(f, h)
	return h, nil
}

// Call answers one request and publishes the outcome as an event.
func (g *Merged) Call(ctx context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
	return g.answer(ctx, g, c, k)
}

func (g *Merged) answer(ctx context.Context, by resolver, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
	x := runner{bridge: g.Bridge, policy: g.Policy, audit: g.Audit, project: g.Project, listens: g.Listens, notices: &g.notices, signer: g.SignIn, questions: g.Questions, shortener: g.Shortener}
	return x.answer(ctx, by, c, k)
}

// resolve implements resolver. An unknown name and a hidden name get the same error.
func (g *Merged) resolve(ctx context.Context, c *mcp.Call) (*route, error) {
	return g.resolveFor(ctx, c, false)
}

// resolveFor does the same for an address at which clients always search, or for any other.
func (g *Merged) resolveFor(ctx context.Context, c *mcp.Call, always bool) (*route, error) {
	r := newRoute(c)
	r.view = g.view(c.Client)
	if c.Method != nil && c.Method.Task {
		return r, r.findTask(g.Bridge, g.shown(r.view), r.view.Shows)
	}
	if g.Shortener.read(r, g.Project, r.view.Shows) {
		return r, nil
	}
	var err error
	switch c.Msg.Method {
	case mcp.MethodListTools:
		r.do = doPage
		g.listFew(ctx, r, always)
	case mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates:
		r.do = doPage
	case mcp.MethodCallTool:
		if g.mayFind(r, always) {
			err = g.findTools(ctx, r)
		} else {
			err = r.findItem(ctx, catalog.KindTool)
		}
	case mcp.MethodGetPrompt:
		err = r.findItem(ctx, catalog.KindPrompt)
	case mcp.MethodReadResource, mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		if c.Msg.Method != mcp.MethodReadResource {
			r.do = doSubscribe
		}
		find := r.view.Owner
		if c.Msg.Method == mcp.MethodUnsubscribe {
			find = r.view.KnownOwner
		}
		r.Name, err = r.findOwner(ctx, c.Msg.Param("uri"), find)
	case mcp.MethodComplete:
		err = r.findReferred(ctx)
	case mcp.MethodSetLevel:
		r.do, r.all = doSetLevel, g.shown(r.view)
	case mcp.MethodListen:
		r.do, r.all, r.names, r.find = doListen, g.shown(r.view), g.names(c.Client), g.findingFor(c.Client, r.view, always)
		r.owner = func(uri string) (Upstream, string) {
			t, err := r.view.KnownOwner(ctx, uri)
			if err != nil {
				return nil, ""
			}
			return upstreamOf(t), t.Name
		}
	case mcp.MethodListSkills:
		r.do = doPage
		err = r.view.Declared(ctx, c.Msg.Method)
	case mcp.MethodGetSkill, mcp.MethodReadDirectory:
		err = r.findSkill(ctx)
	default:
		if len(g.Upstreams) == 1 && r.view.Shows(catalog.KindServer, g.Upstreams[0].Name(), "") {
			r.setServer(g.Upstreams[0])
			break
		}
		var u catalog.Source
		if u, err = r.view.Extended(ctx, c.Msg.Method); err == nil {
			r.setServer(u.(Upstream))
		}
	}
	if err == nil && g.Withholds && !r.signsIn {
		if x, _ := named(r); x.kind != 0 {
			err = r.view.Withheld(ctx, x.kind, r.Server, x.name, x.asked)
		}
	}
	return r, err
}

// findItem finds the tool or prompt that the request names, and makes it the target of the route.
func (r *route) findItem(ctx context.Context, kind catalog.Kind) error {
	if r.Name == "" {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.name must be a string"}
	}
	t, ok := r.view.Find(ctx, kind, r.Name)
	if !ok {
		return r.notFound(kind, r.Name)
	}
	r.rename(r.Msg.Param("name"), t)
	r.Name = t.Name
	return nil
}

// notFound returns the error for a name that no list has. If it may be that of a server that has not listed
// what it has, this is the server of the route, since its list may need somebody to sign in.
func (r *route) notFound(kind catalog.Kind, name string) error {
	err := r.view.NotFound(kind, name)
	r.blame(err)
	return err
}

// blame makes the server and the item of an error those of the route, so that whoever hears of the call knows them.
func (r *route) blame(err error) {
	var e *mcp.Error
	if errors.As(err, &e) && e.Upstream != "" {
		for _, u := range r.view.Servers() {
			if u.Name() == e.Upstream {
				r.setServer(u.(Upstream))
			}
		}
		r.Name = cmp.Or(e.Item, r.Name)
	}
}

// findOwner finds the server that has the URI at a position of the request, and makes it the server
// of the route. It returns the server's own URI.
func (r *route) findOwner(ctx context.Context, at jsonrpc.Span, find func(context.Context, string) (catalog.Target, error)) (string, error) {
	uri, _ := jsonrpc.Text(r.Msg.Raw, at)
	t, err := find(ctx, uri)
	if err != nil {
		if held := r.view.WithheldURI(uri); held != nil {
			err = held
			r.blame(err)
		}
		return uri, err
	}
	r.goTo(at, t)
	return t.Name, nil
}

// findSkill finds the server of the skill or folder that the request names.
func (r *route) findSkill(ctx context.Context) error {
	if err := r.view.Declared(ctx, r.Msg.Method); err != nil {
		return err
	}
	var err error
	r.Name, err = r.findOwner(ctx, r.Msg.Param("uri"), r.view.Owner)
	if wrong, ok := errors.AsType[*jsonrpc.Error](err); ok {
		wrong.Code = jsonrpc.CodeInvalidParams // in both eras (SEP-2640)
	}
	return err
}

// holds implements catalog.Catalog.Holds: it reads the resource and drops the result.
func holds(ctx context.Context, u catalog.Source, f *mcp.ClientInfo, uri string) (has bool, err error) {
	lease, err := u.(Upstream).Acquire(ctx, f, mcp.Need{Method: mcp.MethodReadResource})
	if err != nil {
		return false, err
	}
	defer lease.Release()
	m := jsonrpc.NewRequest("1", mcp.MethodReadResource, append(jsonrpc.AppendQuote([]byte(`{"uri":`), uri), '}'))
	c := mcp.NewCall(m, m.Param(mcp.KeyMeta), f)
	c.Ours = true
	reply, err := lease.Call(ctx, mcp.NewAttempt(c), mcp.NoCaller{})
	if err != nil {
		return false, err
	}
	return reply.Msg.Kind == jsonrpc.Result, nil
}

// findReferred finds the prompt or resource that completion/complete refers to, and sets the server
// of the route.
func (r *route) findReferred(ctx context.Context) error {
	kind, at, name, ok := referred(r.Call)
	if !ok {
		return errReference
	}
	if kind == catalog.KindPrompt {
		t, ok := r.view.Find(ctx, kind, name)
		if !ok {
			return r.notFound(kind, name)
		}
		r.rename(at, t)
		r.Name = t.Name
		return nil
	}
	var err error
	r.Name, err = r.findOwner(ctx, at, r.view.Referred)
	return err
}

// names returns a function that replaces what a server's notifications name with what the client f
// calls it.
func (g *Merged) names(f *mcp.ClientInfo) rename {
	tasks := g.Bridge.TaskNames(f, false)
	return func(server string, m *jsonrpc.Message, e *jsonrpc.Edits) {
		tasks(server, m, e)
		g.catalog().PresentNote(server, m, e)
		if m.Method == mcp.NoteElicitComplete {
			mcp.NameElicitation(e, m.Raw, m.Params, server)
		}
	}
}

// Notify forwards a client's notification to all servers that the client may see. A notification that
// only a vendor's extension defines goes where the vendor's requests go, since it may say what only
// this server may know. It is dropped if there is no such server.
func (g *Merged) Notify(_ context.Context, f *mcp.ClientInfo, m *jsonrpc.Message) {
	f = lent(g.Questions, f)
	v := g.view(f)
	to := g.shown(v)
	if !mcp.IsClientNote(m.Method) && len(g.Upstreams) > 1 {
		u, why := v.KnownExtended(m.Method)
		if u == nil {
			g.Bridge.ReportLoss("", excerpt.Cut(m.Method, maxRepeated), why)
			return
		}
		to = []Upstream{u.(Upstream)}
	}
	raw := withoutSenderMeta(m)
	for _, u := range to {
		u.Forward(f, raw, m.Method)
	}
}

// Subscribe sends a legacy client the notifications of all servers that the client may see, until
// detach is called.
func (g *Merged) Subscribe(f *mcp.ClientInfo, s mcp.Subscriber) (detach func()) {
	return g.subscribeFor(f, s, false)
}

// subscribeFor does the same for an address at which clients always search, or for any other.
func (g *Merged) subscribeFor(f *mcp.ClientInfo, s mcp.Subscriber, always bool) (detach func()) {
	f = lent(g.Questions, f)
	v := g.view(f)
	stop := v.Listen()
	leave := g.attach(f, s, attachTo{g.Bridge, g.shown(v), g.names(f), &v, g.SignIn.hears(f), g.findingFor(f, v, always)})
	return func() {
		leave()
		stop()
	}
}

// Resubscribe implements downstream.Handler.
func (g *Merged) Resubscribe(ctx context.Context, f *mcp.ClientInfo, uris []string) {
	v, all := g.view(lent(g.Questions, f)), Watched{}
	for _, uri := range uris {
		t, err := v.Owner(ctx, uri)
		if err != nil {
			g.Bridge.ReportLoss("", mcp.MethodSubscribe, "a client is subscribed to a resource that no server has now")
			continue
		}
		all[t.Server.Name()] = append(all[t.Server.Name()], t.Name)
	}
	g.Resume(f, all)
}

// Resume subscribes an attached client to the resources that the client watched through another
// gateway; see TakeWatched. Resume does not wait for the servers.
func (g *Merged) Resume(f *mcp.ClientInfo, all Watched) {
	f = lent(g.Questions, f)
	v := g.view(f)
	g.resume(f, g.Bridge, all, func(server, uri string) bool { return v.Shows(catalog.KindResource, server, uri) })
}

// Lists describes the lists that the catalog keeps. They are sorted by server, in the order of the
// configuration, and then by method.
func (g *Merged) Lists() []catalog.ListReport { return g.catalog().Report() }

// Items returns the list of each server for a method, for operators; see catalog.Catalog.Items.
func (g *Merged) Items(method string) []catalog.Items { return g.catalog().Items(method) }

// All yields all items of a kind, for operators; see catalog.Catalog.All.
func (g *Merged) All(kind catalog.Kind) iter.Seq[*catalog.Item] { return g.catalog().All(kind) }

// Search returns the tools that fit a query, for operators; see catalog.Catalog.Search.
func (g *Merged) Search(query string) []*catalog.Item { return g.catalog().Search(query) }

// Refresh reads one list of one server; see catalog.Catalog.Refresh.
func (g *Merged) Refresh(ctx context.Context, server, method string) {
	g.catalog().Refresh(ctx, server, method)
}

// ReadLists reads lists of all servers; see catalog.Catalog.ReadLists.
func (g *Merged) ReadLists(ctx context.Context, methods ...string) []catalog.Unread {
	return g.catalog().ReadLists(ctx, methods...)
}

// Offered returns the name under which clients see a server's tool or prompt; see
// catalog.Catalog.Offered.
func (g *Merged) Offered(kind catalog.Kind, server, name string) string {
	return g.catalog().Offered(kind, server, name)
}

// Changed records that a server's lists may have changed. kind is "tools", "prompts", "resources",
// or "" for all lists and the server information. If kind is "", nobody has notified the clients of
// the change. So the catalog reads the server's lists again if they were read before, and announces
// the lists that differ.
func (g *Merged) Changed(server, kind string) { g.catalog().Changed(server, kind) }

// SignedIn records that a credential scope at a server has got credentials, or has lost them. Its clients are
// told that the lists may have changed.
func (g *Merged) SignedIn(server, scope string) {
	g.catalog().Renewed(server, scope)
	for _, u := range g.Upstreams {
		if u.Name() == server {
			g.notices.signedIn(u, scope)
		}
	}
}

// Warm starts to read the lists that clients request first, from each server for which want returns
// true. Warm does not wait.
func (g *Merged) Warm(want func(server string) bool) { g.catalog().Warm(want) }

// EndListens ends all subscriptions/listen requests, because another gateway takes over; see
// notices.EndListens. Calls continue, and lists are still read from servers. EndListens does not wait.
func (g *Merged) EndListens() { g.notices.EndListens() }

// Drain ends all subscriptions/listen requests with a result, and stops reading lists from servers.
// Drain does not wait.
func (g *Merged) Drain() {
	g.notices.Drain()
	g.catalog().Drain()
}

// Close drains the gateway, and waits until its background work has ended.
func (g *Merged) Close() {
	g.Drain()
	g.looking.Wait()
	g.catalog().Close()
}

// View returns what a client sees of the lists, as far as show lets it.
func (g *Merged) View(f *mcp.ClientInfo, show catalog.Filter) catalog.View {
	return g.catalog().View(f, show)
}
