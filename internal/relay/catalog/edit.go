package catalog

import (
	"bytes"
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// PageEdit describes how EditPage changes a page of one server's list. The zero PageEdit changes
// nothing.
type PageEdit struct {
	Server string
	Show   Filter // nil shows all items
	Vet    Vet
	// Renames are other names of the server's tools and prompts.
	Renames *Renames
	// Lost is called for each item that Vet or Renames hide. It may be nil.
	Lost func(name, why string)
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
	if p.OfferTasks = p.OfferTasks && c.Method.Name == mcp.MethodListTools; p.Show == nil && p.Vet == nil && p.Renames == nil && !p.OfferTasks {
		return
	}
	var items [][]byte
	var offers []jsonrpc.Span
	why := jsonrpc.NoReason
	for at := range jsonrpc.Elements(raw, list) {
		item, changed := p.edit(c.Method.Name, reply.From, at.Of(raw))
		if changed != jsonrpc.NoReason {
			why = changed
		}
		if item == nil {
			continue
		}
		if p.OfferTasks && !has(item, "execution") {
			offers = append(offers, at)
			item = appendMayBeTask(nil, item)
		}
		items = append(items, item)
	}
	if why != jsonrpc.NoReason {
		reply.Edits.Replace(why, list, slices.Concat([]byte{'['}, bytes.Join(items, []byte{','}), []byte{']'}))
	} else {
		for _, at := range offers {
			reply.Edits.Object(mcp.WhyToolTask, raw, at, nil, mayBeTask)
		}
	}
	// A filtered page is valid for this client only, while a Vet judges for everybody. All pages of a
	// list must have the same cache scope (2026-07-28 §Caching, "Interaction with Pagination"). If any
	// page may be filtered, all pages must be private.
	if p.Show != nil {
		keepPrivate(reply)
	}
}

// edit returns an item as the client sees it, or nil if the client does not see it, and the reason if it
// has changed.
func (p *PageEdit) edit(method string, from mcp.Revision, raw []byte) ([]byte, jsonrpc.Reason) {
	kind := kindOf(method)
	if !shows(p.Show, kind, p.Server, nameOfItem(kind, raw)) {
		return nil, mcp.WhyHidden
	}
	item, hide := p.Vet.Judge(method, p.Server, from, raw)
	own := nameOfItem(kind, raw)
	shown, ok := p.Renames.Shown(kind, p.Server, own)
	if !ok && hide == "" {
		hide = nameGiven
	}
	if shown != own && hide == "" {
		var e jsonrpc.Edits
		e.Replace(mcp.WhyVetted, jsonrpc.Find(item, jsonrpc.Whole(item), kind.key()), jsonrpc.AppendQuote(nil, shown))
		item = jsonrpc.Splice(nil, item, &e)
	}
	switch {
	case hide != "":
		if p.Lost != nil {
			p.Lost(nameOfItem(kind, raw), hide)
		}
		return nil, mcp.WhyUnusable
	case len(item) != len(raw) || &item[0] != &raw[0]:
		return item, mcp.WhyVetted
	}
	return item, jsonrpc.NoReason
}

// mayBeTask is the field that declares that a tool may be called as a task.
var mayBeTask = jsonrpc.Field{Key: "execution", Value: []byte(`{"taskSupport":"optional"}`)}

// keepPrivate sets the cache scope of a list result to private, even if the server declared the
// result public. A filtered result is valid for one client only (2026-07-28 §Caching, "Choosing a
// Cache Scope").
func keepPrivate(reply *mcp.Reply) {
	if scope := reply.Msg.ResultMember("cacheScope"); !scope.IsZero() {
		reply.Edits.Replace(mcp.WhyCaching, scope, []byte(`"private"`))
	}
}
