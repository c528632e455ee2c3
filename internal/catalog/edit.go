package catalog

import (
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/mcp/mirror"
)

// PageEdit says what EditPage changes in a page of a list that one server wrote. The zero
// PageEdit removes tools that clients must not use, and nothing else.
type PageEdit struct {
	Server string
	Show   Filter // nil shows all
	// Lost is told of tools that are left out because of their x-mcp-header; it may be
	// nil.
	Lost func(tool, why string)
	// OfferTasks says of the tools that they may be called as tasks, where the server
	// does not say. A legacy client must not do it otherwise (2025-11-25 §Tasks,
	// "Tool-Level Negotiation"). Whether a call becomes a task is the server's decision.
	OfferTasks bool
}

// EditPage adds to a reply the edits that make of a server's own list what the client of
// c may see. It must be called once for a reply.
func EditPage(c *mcp.Call, reply *mcp.Reply, p PageEdit) {
	raw, list := reply.Msg.Raw, reply.Msg.ResultMember(c.Method.ListKey)
	kind := kindOf(c.Method.Name)
	mirrors := kind == KindTool && reply.From.Can(mcp.MirroredHeaders)
	if p.Show == nil && !mirrors && !p.OfferTasks {
		return
	}
	offers := func(item jsonrpc.Span) bool {
		return kind == KindTool && p.OfferTasks && jsonrpc.Find(raw, item, "execution").IsZero()
	}
	kept, why := []byte{'['}, jsonrpc.NoReason
	for item := range jsonrpc.Elements(raw, list) {
		if r := p.drops(kind, raw, item, mirrors); r != jsonrpc.NoReason {
			why = r
			continue
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		if offers(item) {
			kept = appendMayBeTask(kept, item.Of(raw))
		} else {
			kept = append(kept, item.Of(raw)...)
		}
	}
	cut := why != jsonrpc.NoReason
	if cut {
		reply.Edits.Replace(why, list, append(kept, ']'))
	}
	// A filtered page is for this client alone. All pages have one scope (2026-07-28
	// §Caching, "Interaction with Pagination"), and another page may be cut.
	if cut || p.Show != nil || mirrors && paged(c, reply) {
		keepPrivate(reply)
	}
	for item := range jsonrpc.Elements(raw, list) {
		if !cut && offers(item) {
			reply.Edits.Object(mcp.WhyToolTask, raw, item, nil, mayBeTask)
		}
	}
}

// drops returns the reason why an item is left out, NoReason if it is not.
func (p *PageEdit) drops(kind Kind, raw []byte, item jsonrpc.Span, mirrors bool) jsonrpc.Reason {
	if p.Show != nil && !p.Show.Shows(kind, p.Server, nameOf(kind, raw, item)) {
		return mcp.WhyHidden
	}
	if !mirrors {
		return jsonrpc.NoReason
	}
	// Towards such a server we are the client that must not accept the tool
	// (2026-07-28 §Streamable HTTP, "Schema Extension").
	_, err := mirror.ParseParams(raw, jsonrpc.Find(raw, item, "inputSchema"))
	if err == nil {
		return jsonrpc.NoReason
	}
	if p.Lost != nil {
		p.Lost(nameOf(kind, raw, item), "its x-mcp-header is invalid: "+err.Error())
	}
	return mcp.WhyUnusable
}

// mayBeTask says of a tool that it may be called as a task.
var mayBeTask = jsonrpc.Field{Key: "execution", Value: []byte(`{"taskSupport":"optional"}`)}

// paged reports whether a list has more pages than the one in reply.
func paged(c *mcp.Call, reply *mcp.Reply) bool {
	return !c.Msg.Param("cursor").IsZero() || !reply.Msg.ResultMember("nextCursor").IsZero()
}

// keepPrivate takes back a server's word that a result is for everybody: what was
// filtered is what one client sees (2026-07-28 §Caching, "Choosing a Cache Scope").
func keepPrivate(reply *mcp.Reply) {
	if scope := reply.Msg.ResultMember("cacheScope"); !scope.IsZero() {
		reply.Edits.Replace(mcp.WhyCaching, scope, []byte(`"private"`))
	}
}
