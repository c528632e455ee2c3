package catalog

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// View is the part of a catalog that one client may see. It is a small value. Creating it sends no
// requests. For each request of a client, Dragoman finds items and servers only through the
// client's view.
type View struct {
	c      *Catalog
	client *mcp.ClientInfo
	show   Filter
}

// View returns the view of a client. show filters the items. If show is nil, the client sees all
// items that Catalog.Expose shows.
func (c *Catalog) View(f *mcp.ClientInfo, show Filter) View { return View{c, f, show} }

// Shows reports whether the client may see an item of a server. It does not check whether the item
// exists.
func (v View) Shows(kind Kind, server, name string) bool {
	return shows(v.c.Expose, kind, server, name) && shows(v.show, kind, server, name)
}

// Listen adds the client to the listeners of its audience; see Catalog.Listen.
func (v View) Listen() (stop func()) {
	_, scope := v.c.scopes(v.client)
	return v.c.Listen(AudienceOf(v.client, scope))
}

// Servers returns the servers that the client may see, in the order of the configuration. The
// slice must not be modified.
func (v View) Servers() []Source {
	if v.show == nil && v.c.Expose == nil {
		return v.c.Sources
	}
	out := make([]Source, 0, len(v.c.Sources))
	for _, u := range v.c.Sources {
		if v.Shows(KindServer, u.Name(), "") {
			out = append(out, u)
		}
	}
	return out
}

// NotFound returns the error for a tool or prompt that Find does not find. If the name has the
// prefix of a server whose list was never read, the name may be correct. In this case, the error is
// the reason why the last reading failed. The error is the same for all names with that prefix. If
// servers without a prefix were never read, the error names them.
func (v View) NotFound(kind Kind, name string) error {
	if server, why, cause := v.unread(kind.method(), name); server != "" {
		e := &mcp.Error{
			Origin: mcp.FromGateway, Upstream: server, Cause: "unavailable", Outcome: mcp.NotSent, Retryable: true,
			Message: why, Op: "find " + kind.noun(),
		}
		if cause != nil {
			e.Failure, e.Exposed = cause.Failure, cause.Exposed
		}
		return e
	}
	unknown := Unknown(kind, name)
	if late := v.unlisted(kind.method()); len(late) > 0 {
		unknown.Message += ". It may belong to a server whose list could not be read yet: " + late
	}
	return unknown
}

func (k Kind) noun() string {
	if k == KindPrompt {
		return "prompt"
	}
	return "tool"
}

// Unknown returns the error for a tool or a prompt that does not exist.
func Unknown(kind Kind, name string) *jsonrpc.Error {
	// An unknown tool must get this error code (2025-11-25 and 2026-07-28 §Tools, "Error
	// Handling"). The same applies to prompts.
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("Unknown %s: %s", kind.noun(), excerpt.Cut(name, maxRepeated))}
}

// Missing returns the error for a resource that does not exist, with the code of the client's
// revision (2025-11-25 §Resources, "Error Handling": -32002; 2026-07-28: -32602).
func Missing(f *mcp.ClientInfo, uri string) error {
	code := int64(jsonrpc.CodeInvalidParams)
	if f.Revision.Can(mcp.ResourceNotFoundCode) {
		code = mcp.CodeResourceNotFound
	}
	data := append(jsonrpc.AppendQuote([]byte(`{"uri":`), uri), '}')
	return &jsonrpc.Error{Code: code, Message: "Resource not found", Data: data}
}

// Owner returns the server to which Dragoman sends requests for a URI, and the server's own URI. This
// is the server that lists the URI, or else the server that named the URI in a result, or the one with
// a template that matches it (see byTemplate), or with a skill that contains it. For the URI of a page
// or a skill, it is the server that keeps it, or that it names. If there is none of them, and only one
// server has resources, Owner returns that server. Otherwise, it asks the servers. A server is never asked for a resource that is hidden.
func (v View) Owner(ctx context.Context, uri string) (Target, error) { return v.owner(ctx, uri, true) }

// KnownOwner does the same as Owner, but asks no server. It is for requests with many URIs.
func (v View) KnownOwner(ctx context.Context, uri string) (Target, error) {
	return v.owner(ctx, uri, false)
}

func (v View) owner(ctx context.Context, uri string, ask bool) (Target, error) {
	if uri == "" {
		return Target{}, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.uri must be a string"}
	}
	a := v.c.audience(v.client)
	if exclusive(uri) != "" {
		return v.exclusiveOwner(ctx, a, uri, ask)
	}
	u, err := v.byName(ctx, a, uri, v.lister(ctx, a, uri))
	if err != nil {
		return Target{}, err
	}
	if u == nil {
		u = v.byTemplate(ctx, a, uri, nil)
	}
	if u == nil {
		u = v.bySkill(ctx, a, uri)
	}
	if u == nil {
		u = v.soleWithResources(ctx, a)
	}
	if u == nil && ask {
		u = v.ask(ctx, a, uri)
	}
	if u == nil {
		if claim := v.byScheme(ctx, a, uri); len(claim) == 1 {
			u = claim[0] // nobody else wants it
		}
	}
	if u == nil || !v.Shows(KindServer, u.Name(), "") || !v.Shows(KindResource, u.Name(), uri) {
		return Target{}, Missing(v.client, uri)
	}
	return Target{Server: u, Name: uri}, nil
}

// lister returns the server that lists a URI, as a resource or as a skill, or nil.
func (v View) lister(ctx context.Context, a *knownAudience, uri string) Source {
	if t, ok := v.find(ctx, a, KindResource, uri); ok {
		return t.Server
	}
	if l := v.skills(ctx, a); l != nil {
		if x := l.find(uri, v.show); x != nil {
			return x.target.Server
		}
	}
	return nil
}

// exclusiveOwner does the same as owner for the URI of a page or a skill. This is the server that the
// URI names, or the one that keeps the URI; see [URIs]. Neither a page nor a skill need be in a list
// (SEP-1865, "Resource Discovery"; SEP-2640, "Listing Skills").
func (v View) exclusiveOwner(ctx context.Context, a *knownAudience, uri string, ask bool) (Target, error) {
	c := v.c
	u, inner, named := own(uri, c.Sources)
	if named = named && len(c.Sources) > 1; !named {
		u, inner = v.keeper(ctx, a, uri), uri
		if u == nil {
			u = v.byTemplate(ctx, a, uri, nil)
		}
		if u == nil {
			u = v.soleWithResources(ctx, a)
		}
		if u == nil && ask {
			u = v.ask(ctx, a, uri)
		}
	}
	if u == nil || !v.Shows(KindServer, u.Name(), "") || !v.Shows(KindResource, u.Name(), inner) {
		return Target{}, Missing(v.client, uri)
	}
	t := Target{Server: u, Name: inner}
	if named {
		t.Quoted = jsonrpc.AppendQuote(nil, inner)
	}
	return t, nil
}

// keeper returns the server that keeps a URI. It first reads the lists that may name the URI.
func (v View) keeper(ctx context.Context, a *knownAudience, uri string) Source {
	c := v.c
	if exclusive(uri) == pages {
		c.list(ctx, a, mcp.MethodListTools)
	} else if v.Declared(ctx, mcp.MethodListSkills) == nil {
		c.list(ctx, a, mcp.MethodListSkills)
	}
	c.list(ctx, a, mcp.MethodListResources)
	holder := c.uris().holder(uri)
	if at := slices.IndexFunc(c.Sources, func(u Source) bool { return u.Name() == holder }); at >= 0 {
		return c.Sources[at]
	}
	return nil
}

// byTemplate returns the server with a template that matches a URI and has a fixed first segment, or
// nil. If several match, it is the template that was offered first, or else the first in the
// configuration. The length of the fixed text does not count: with a longer one, a server could take
// single URIs of another one. among limits the servers; nil means all.
func (v View) byTemplate(ctx context.Context, a *knownAudience, uri string, among []Source) (owner Source) {
	since := uint64(0)
	for x := range v.matching(ctx, a, uri) {
		head, _, _ := strings.Cut(x.offered, "{")
		if fixed(head) && (owner == nil || x.since < since) && (among == nil || slices.Contains(among, x.target.Server)) {
			owner, since = x.target.Server, x.since
		}
	}
	return owner
}

// byScheme returns the servers with a template that matches a URI, but that fixes no more than its
// scheme, such as note://{id}. Anybody can offer that, so these servers only come first when all of
// them are asked.
func (v View) byScheme(ctx context.Context, a *knownAudience, uri string) (all []Source) {
	for x := range v.matching(ctx, a, uri) {
		head, _, _ := strings.Cut(x.offered, "{")
		if strings.Contains(head, ":") && !slices.Contains(all, x.target.Server) {
			all = append(all, x.target.Server)
		}
	}
	return all
}

// matching yields the templates that match a URI.
func (v View) matching(ctx context.Context, a *knownAudience, uri string) iter.Seq[*item] {
	l := v.c.list(ctx, a, mcp.MethodListTemplates)
	return func(yield func(*item) bool) {
		for i := range l.items {
			x := &l.items[i]
			t, variable := templateOf(x.server, x.offered)
			if (variable && t.matches(uri) || x.offered == uri) && l.find(x.offered, v.show) == x && !yield(x) {
				return
			}
		}
	}
}

// soleWithResources returns the only server that has resources. It returns nil if no server or more
// than one server has resources. It assumes that a server has resources if its capabilities are not
// known yet.
func (v View) soleWithResources(ctx context.Context, a *knownAudience) (sole Source) {
	for i, h := range v.c.hellos(ctx, a) {
		u := v.c.Sources[i]
		if h != nil && !has(h.Capabilities, "resources") || !v.Shows(KindServer, u.Name(), "") {
			continue
		}
		if sole != nil {
			return nil
		}
		sole = u
	}
	return sole
}

// Info returns the server information that the client gets from Dragoman. The capabilities are the
// capabilities of all servers that the client may see; see union.
func (v View) Info(ctx context.Context) *mcp.ServerInfo {
	hellos, names := v.hellos(ctx)
	extensions, left := mergedExtensions(names, hellos)
	v.c.tellOnce(left)
	info := v.c.Identity.hello(ctx, v.client, names, hellos)
	if extensions != nil {
		caps := info.Capabilities
		var e jsonrpc.Edits
		e.Object(mcp.WhyCapabilities, caps, jsonrpc.Whole(caps), nil, jsonrpc.Field{Key: "extensions", Value: extensions})
		info.Capabilities = jsonrpc.Splice(nil, caps, &e)
	}
	return info
}
