package gateway

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/relay/questions"
)

// Single presents one server with its own server information, names and URIs.
type Single struct {
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
	Listens  *ListenQuota
	Upstream Upstream
	// Expose hides items from all clients. Nil shows all items.
	Expose catalog.Filter
	// Vet judges each item of a list that the server sends to a client. Nil lets all items pass.
	Vet catalog.Vet
	// Withheld returns the error for an item that is held, or nil, for a client that may see the item. It may read
	// lists; see catalog.View.Withheld. Nil holds nothing.
	Withheld func(ctx context.Context, f *mcp.ClientInfo, kind catalog.Kind, name, asked string) error
	// Renames are other names of the server's tools and prompts. Nil means none.
	Renames *catalog.Renames
	// Filter returns the filter for a principal. This filter applies after Expose. If Filter or its
	// result is nil, the principal sees everything that Expose does not hide. Filter is called for
	// each request and must not block.
	Filter func(who *identity.Principal) catalog.Filter
	// Questions has what waits for people, because clients can't show it. Nil means that nobody answers such questions.
	Questions *questions.Box
	// SignIn asks people to sign in to the server. Nil asks nobody.
	SignIn *SignIn
	// Shortener shortens the results of tools. Nil leaves them as they are.
	Shortener *Shortener
	// Kept keeps what the server said of itself to somebody who had signed in, for the next process. It may be
	// nil.
	Kept catalog.Keeper

	notices
	known knownHellos // filled if people can sign in to the server
}

// Hello returns the server's own server information. If somebody has to sign in to the server first, see
// greet.
func (g *Single) Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	f = lent(g.Questions, f)
	if !g.SignIn.CanSignIn(g.Upstream.Name()) {
		return g.Upstream.Hello(ctx, f)
	}
	began := time.Now()
	h, err := g.Upstream.Hello(ctx, f)
	switch {
	case err == nil && g.SignIn.Signer.SignedIn(f.Who, g.Upstream.Name()):
		g.known.set(g.Upstream.Scope(f), h, g.Kept)
	case g.SignIn.needed(err) != nil:
		h, err = g.greet(ctx, f, began, err)
	}
	g.SignIn.greets(f, h)
	return h, err
}

// Call answers one request and publishes the outcome as an event.
func (g *Single) Call(ctx context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
	return g.Run(ctx, c, k, nil)
}

// Run does the same as Call, but if the policy lets the request pass, do answers it instead of the
// server. A nil function leaves it to the server.
func (g *Single) Run(ctx context.Context, c *mcp.Call, k mcp.Caller, do func(context.Context) (*mcp.Reply, error)) (*mcp.Reply, error) {
	x := runner{bridge: g.Bridge, policy: g.Policy, audit: g.Audit, project: g.Project, listens: g.Listens, notices: &g.notices, signer: g.SignIn, questions: g.Questions, shortener: g.Shortener, instead: do}
	return x.answer(ctx, g, c, k)
}

// resolve implements resolver. The route sends all requests to the server. resolve refuses requests
// for hidden items.
func (g *Single) resolve(ctx context.Context, c *mcp.Call) (*route, error) {
	r := newRoute(c)
	r.Sole = true
	r.setServer(g.Upstream)
	r.show = catalog.Both(g.Expose, filterFor(g.Filter, c.Client))
	shows := func(kind catalog.Kind, server, name string) bool {
		return r.show == nil || r.show.Shows(kind, server, name)
	}
	if c.Method != nil && c.Method.Task {
		all := g.all(r.show)
		if all == nil {
			r.Server = "" // as for a task of no server
		}
		return r, r.findTask(g.Bridge, all, shows)
	}
	if g.Shortener.read(r, g.Project, shows) {
		return r, nil
	}
	r.vet, r.renames = g.Vet, g.Renames
	if c.Msg.Method == mcp.MethodCallTool && c.Name == catalog.SignIn && g.SignIn != nil && g.shown(r.show) && g.SignIn.hasHanded(keyOf(r.Server, c.Client)) {
		r.signsIn = true
		return r, nil
	}
	if err := r.findOwnName(); err != nil {
		return r, err
	}
	if r.show != nil {
		if err := hidden(r, r.show); err != nil {
			return r, err
		}
	}
	if g.Withheld != nil {
		x, err := named(r)
		if x.kind != 0 {
			err = g.Withheld(ctx, c.Client, x.kind, x.name, x.asked)
		}
		if err != nil {
			return r, err
		}
	}
	switch c.Msg.Method {
	case mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates, mcp.MethodListSkills:
		r.do = doPage
	case mcp.MethodListen:
		r.do, r.all, r.owner, r.names = doListen, g.all(r.show), g.owner(r.show), g.Bridge.TaskNames(c.Client, true)
	case mcp.MethodSetLevel:
		r.do = doSetLevel
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		r.do = doSubscribe
	}
	return r, nil
}

// findOwnName makes Name the server's own name of the tool, the prompt or the resource that a request at the endpoint
// of one server is for, and replaces the name that a rule has given to it.
func (r *route) findOwnName() error {
	kind, at := catalog.KindTool, r.Msg.Param("name")
	switch r.Msg.Method {
	case mcp.MethodCallTool:
	case mcp.MethodGetPrompt:
		kind = catalog.KindPrompt
	case mcp.MethodComplete:
		kind, at, r.Name, _ = referred(r.Call)
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe, mcp.MethodGetSkill, mcp.MethodReadDirectory:
		r.Name, _ = jsonrpc.Text(r.Msg.Raw, r.Msg.Param("uri"))
		return nil
	default:
		return nil
	}
	shown := r.Name
	own, ok := r.renames.Own(kind, r.Server, shown)
	if !ok {
		return catalog.Unknown(kind, shown)
	}
	if r.Name = own; own != shown {
		r.Edits.Replace(mcp.WhyRenamed, at, jsonrpc.AppendQuote(nil, own))
	}
	return nil
}

// shown reports whether the filter show, which may be nil, shows the server at all. Who may not see it gets here
// only in a session that was opened before.
func (g *Single) shown(show catalog.Filter) bool {
	return show == nil || show.Shows(catalog.KindServer, g.Upstream.Name(), "")
}

// all returns the server if the filter show, which may be nil, shows it.
func (g *Single) all(show catalog.Filter) []Upstream {
	if !g.shown(show) {
		return nil
	}
	return []Upstream{g.Upstream}
}

// owner returns a function that finds the server of a URI. This function returns nil if the filter
// show hides the URI. If show is nil, owner returns nil, because no URI is hidden.
func (g *Single) owner(show catalog.Filter) ownerOf {
	if show == nil {
		return nil
	}
	return func(uri string) (Upstream, string) {
		if !show.Shows(catalog.KindResource, g.Upstream.Name(), uri) {
			return nil, ""
		}
		return g.Upstream, uri
	}
}

var errReference error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.ref must name a prompt or a resource"}

// referred returns the item that a request completion/complete refers to, and where its name is. A reference to both
// a prompt and a resource isn't ok: one could be shown to the client, and the other meant for the server.
func referred(c *mcp.Call) (kind catalog.Kind, at jsonrpc.Span, name string, ok bool) {
	raw, ref := c.Msg.Raw, c.Msg.Param("ref")
	at = jsonrpc.Find(raw, ref, "uri")
	if prompt := jsonrpc.Find(raw, ref, "name"); !prompt.IsZero() {
		name, ok = jsonrpc.Text(raw, prompt)
		return catalog.KindPrompt, prompt, name, ok && at.IsZero()
	}
	name, ok = jsonrpc.Text(raw, at)
	if strings.Contains(name, "{") {
		return catalog.KindTemplate, at, name, ok
	}
	return catalog.KindResource, at, name, ok
}

// namedItem is an item that a request uses.
type namedItem struct {
	kind  catalog.Kind // 0 for none whose definition may be held
	name  string       // the server's own
	asked string       // the one that the client has sent
}

// named returns the item that a request uses.
func named(r *route) (x namedItem, err error) {
	c := r.Call
	switch c.Msg.Method {
	case mcp.MethodCallTool:
		asked := c.Name
		if r.Via != "" {
			asked, _ = c.Msg.At(c.Msg.Param("arguments")).Get("name").Text()
		}
		return namedItem{catalog.KindTool, r.Name, asked}, nil
	case mcp.MethodGetPrompt:
		return namedItem{catalog.KindPrompt, r.Name, c.Name}, nil
	case mcp.MethodReadResource, mcp.MethodSubscribe:
		uri, _ := jsonrpc.Text(c.Msg.Raw, c.Msg.Param("uri"))
		return namedItem{catalog.KindResource, cmp.Or(r.Name, uri), uri}, nil
	case mcp.MethodComplete:
		kind, _, asked, ok := referred(c)
		if !ok {
			return x, errReference
		}
		return namedItem{kind, r.Name, asked}, nil
	}
	return x, nil
}

// hidden returns the error that refuses a request for a hidden item. It returns nil if the filter
// show does not hide the item.
func hidden(r *route, show catalog.Filter) error {
	c, server := r.Call, r.Server
	switch c.Msg.Method {
	case mcp.MethodCallTool:
		if !show.Shows(catalog.KindTool, server, r.Name) {
			return catalog.Unknown(catalog.KindTool, c.Name)
		}
	case mcp.MethodGetPrompt:
		if !show.Shows(catalog.KindPrompt, server, r.Name) {
			return catalog.Unknown(catalog.KindPrompt, c.Name)
		}
	case mcp.MethodReadResource:
		if !show.Shows(catalog.KindResource, server, c.Name) {
			return catalog.Missing(c.Client, c.Name)
		}
	case mcp.MethodGetSkill, mcp.MethodReadDirectory:
		if uri, ok := jsonrpc.Text(c.Msg.Raw, c.Msg.Param("uri")); ok && !show.Shows(catalog.KindResource, server, uri) {
			return catalog.Missing(c.Client, uri)
		}
	case mcp.MethodComplete:
		switch kind, _, name, ok := referred(c); {
		case !ok:
			return errReference
		case show.Shows(kind, server, r.Name):
		case kind == catalog.KindPrompt:
			return catalog.Unknown(kind, name)
		default:
			return catalog.Missing(c.Client, name)
		}
	}
	return nil
}

// Notify forwards a client's notification to the server.
func (g *Single) Notify(_ context.Context, f *mcp.ClientInfo, m *jsonrpc.Message) {
	f = lent(g.Questions, f)
	if g.shown(catalog.Both(g.Expose, filterFor(g.Filter, f))) {
		g.Upstream.Forward(f, withoutSenderMeta(m), m.Method)
	}
}

// Subscribe sends a legacy client the server's notifications, until detach is called.
func (g *Single) Subscribe(f *mcp.ClientInfo, s mcp.Subscriber) (detach func()) {
	f = lent(g.Questions, f)
	var from []Upstream
	if g.shown(catalog.Both(g.Expose, filterFor(g.Filter, f))) {
		from = []Upstream{g.Upstream}
	}
	return g.attach(f, s, attachTo{bridge: g.Bridge, from: from, as: g.Bridge.TaskNames(f, true), signIn: g.SignIn.hears(f)})
}

// SignedIn tells the clients with a credential scope that they may list what the server has, because somebody
// has signed in, or has signed out.
func (g *Single) SignedIn(scope string) { g.notices.signedIn(g.Upstream, scope) }

// Resubscribe implements downstream.Handler.
func (g *Single) Resubscribe(_ context.Context, f *mcp.ClientInfo, uris []string) {
	g.Resume(f, Watched{g.Upstream.Name(): slices.Clone(uris)})
}

// Resume subscribes an attached client to the resources that the client watched through another
// gateway; see TakeWatched. Resume does not wait for the server.
func (g *Single) Resume(f *mcp.ClientInfo, all Watched) {
	f = lent(g.Questions, f)
	show := catalog.Both(g.Expose, filterFor(g.Filter, f))
	g.resume(f, g.Bridge, all, func(server, uri string) bool {
		return show == nil || show.Shows(catalog.KindResource, server, uri)
	})
}
