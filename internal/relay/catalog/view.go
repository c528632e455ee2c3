package catalog

import (
	"context"
	"fmt"
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
// servers without a prefix were never read, the error names them. If the item is held, the error says why; see
// View.Withheld.
func (v View) NotFound(kind Kind, name string) error {
	e := &mcp.Error{Origin: mcp.FromGateway, Cause: "unavailable", Outcome: mcp.NotSent, Retryable: true, Op: "find " + kind.noun()}
	c := v.c
	server, why, cause := v.unread(kind.method(), func(u Source) bool { return strings.HasPrefix(name, clean(c.prefix(u)+c.Names.separator())) })
	if held := v.withheld(kind, name); held != nil {
		return held
	}
	if server == "" {
		all := v.unlisted(kind.method())
		if len(all) == 0 {
			return Unknown(kind, name)
		}
		why = fmt.Sprintf("the %s %s may belong to a server that has not listed what it has: %s", kind.noun(), excerpt.Cut(name, maxRepeated), someOf(all))
		if len(all) == 1 {
			server, _, cause = v.unread(kind.method(), func(u Source) bool { return u.Name() == all[0] })
		}
	}
	e.Upstream, e.Message = server, why
	if cause != nil {
		e.Failure, e.Exposed = cause.Failure, cause.Exposed
	}
	return e
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

// Info returns the server information that the client gets from Dragoman. The capabilities are the
// capabilities of all servers that the client may see; see union.
func (v View) Info(ctx context.Context) *mcp.ServerInfo {
	hellos, names := v.hellos(ctx)
	extensions, left := mergedExtensions(names, hellos)
	v.c.reportOnce(left)
	info := v.c.Identity.hello(ctx, v.client, names, hellos)
	if extensions != nil {
		caps := info.Capabilities
		var e jsonrpc.Edits
		e.Object(mcp.WhyCapabilities, caps, jsonrpc.Whole(caps), nil, jsonrpc.Field{Key: "extensions", Value: extensions})
		info.Capabilities = jsonrpc.Splice(nil, caps, &e)
	}
	return info
}

// KnownInstructions returns the instructions that the client would get if Dragoman's own were those of own. It reads
// nothing from servers: unread has the names of those whose instructions aren't known yet.
func (v View) KnownInstructions(ctx context.Context, own Identity) (text string, unread []string) {
	hellos, names := v.mask(v.c.knownHellos(v.c.audience(v.client)))
	for i, h := range hellos {
		if h == nil && v.Shows(KindServer, names[i], "") {
			unread = append(unread, names[i])
		}
	}
	quoted := own.instructions(ctx, v.client, names, hellos)
	text, _ = jsonrpc.Text(quoted, jsonrpc.Whole(quoted))
	return text, unread
}
