package catalog

import (
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
)

// PageEdit describes how EditPage changes a page of one server's list. The zero PageEdit only
// removes tools that clients must not use.
type PageEdit struct {
	Server string
	Show   Filter // nil shows all items
	// Lost is called for each tool that EditPage removes because its x-mcp-header is invalid. It
	// may be nil.
	Lost func(tool, why string)
	// OfferTasks makes EditPage add the field mayBeTask to each tool that does not declare whether
	// it can be called as a task. Without this field, a legacy client must not call the tool as a
	// task (2025-11-25 §Tasks, "Tool-Level Negotiation"). The server decides whether a call becomes
	// a task.
	OfferTasks bool
}

// EditPage adds edits to a reply that contains a page of one server's list. The edits remove the
// items that the client of c must not see. EditPage must be called only once for a reply.
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
	// A filtered page is valid for this client only. All pages of a list must have the same cache
	// scope (2026-07-28 §Caching, "Interaction with Pagination"). If any page may be filtered, all
	// pages must be private.
	if cut || p.Show != nil || mirrors && paged(c, reply) {
		keepPrivate(reply)
	}
	for item := range jsonrpc.Elements(raw, list) {
		if !cut && offers(item) {
			reply.Edits.Object(mcp.WhyToolTask, raw, item, nil, mayBeTask)
		}
	}
}

// drops returns the reason why EditPage must remove an item, or NoReason if the item stays.
func (p *PageEdit) drops(kind Kind, raw []byte, item jsonrpc.Span, mirrors bool) jsonrpc.Reason {
	if p.Show != nil && !p.Show.Shows(kind, p.Server, nameOf(kind, raw, item)) {
		return mcp.WhyHidden
	}
	if !mirrors {
		return jsonrpc.NoReason
	}
	// Dragoman is the client of this server. A client must not accept a tool with an invalid
	// x-mcp-header (2026-07-28 §Streamable HTTP, "Schema Extension").
	_, err := mirror.ParseParams(raw, jsonrpc.Find(raw, item, "inputSchema"))
	if err == nil {
		return jsonrpc.NoReason
	}
	if p.Lost != nil {
		p.Lost(nameOf(kind, raw, item), "its x-mcp-header is invalid: "+err.Error())
	}
	return mcp.WhyUnusable
}

// mayBeTask is the field that declares that a tool may be called as a task.
var mayBeTask = jsonrpc.Field{Key: "execution", Value: []byte(`{"taskSupport":"optional"}`)}

// paged reports whether a list has more pages than the page in reply.
func paged(c *mcp.Call, reply *mcp.Reply) bool {
	return !c.Msg.Param("cursor").IsZero() || !reply.Msg.ResultMember("nextCursor").IsZero()
}

// keepPrivate sets the cache scope of a list result to private, even if the server declared the
// result public. A filtered result is valid for one client only (2026-07-28 §Caching, "Choosing a
// Cache Scope").
func keepPrivate(reply *mcp.Reply) {
	if scope := reply.Msg.ResultMember("cacheScope"); !scope.IsZero() {
		reply.Edits.Replace(mcp.WhyCaching, scope, []byte(`"private"`))
	}
}
