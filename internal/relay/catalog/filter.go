package catalog

import (
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Kind is the kind of an item that a Filter can hide.
type Kind uint8

// The zero value is not a valid kind.
const (
	_ Kind = iota
	// KindServer means the server itself. The item name is "". If a filter hides a server, clients
	// do not see the server's instructions, capabilities, notifications and tasks, and do not see
	// its name in the list of missing servers.
	KindServer
	KindTool
	KindPrompt
	KindResource // a resource; its URI is its name
	KindTemplate // a resource template; its URI template is its name
)

// kindOf returns the kind of items that a method lists.
func kindOf(method string) Kind {
	switch method {
	case mcp.MethodListTools:
		return KindTool
	case mcp.MethodListPrompts:
		return KindPrompt
	case mcp.MethodListResources, mcp.MethodListSkills:
		return KindResource // the URI of a skill is the URI of a resource
	case mcp.MethodListTemplates:
		return KindTemplate
	}
	return 0
}

// method returns the method of the specification itself that lists the items of a kind.
func (k Kind) method() string {
	switch k {
	case KindTool:
		return mcp.MethodListTools
	case KindPrompt:
		return mcp.MethodListPrompts
	case KindResource:
		return mcp.MethodListResources
	}
	return mcp.MethodListTemplates
}

// key returns the key of the JSON member that contains the name of an item.
func (k Kind) key() string {
	switch k {
	case KindResource:
		return "uri"
	case KindTemplate:
		return "uriTemplate"
	}
	return "name"
}

// Filter decides which items a client sees. Lists do not contain hidden items. A request for a
// hidden item gets the same answer as a request for an item that does not exist. A nil Filter shows
// all items.
type Filter interface {
	// Shows reports whether the filter shows an item. name is the server's own name for the item.
	// Shows is called for each item whenever a client reads a list. Shows must be fast, must not
	// block, and its result must depend only on its arguments. If a filter is comparable, a list remembers what it
	// shows, so an equal one must show the same.
	Shows(kind Kind, server, name string) bool
}

// Both returns a filter that shows the items that both filters show.
func Both(a, b Filter) Filter {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return both{a, b}
}

type both struct{ a, b Filter }

func (f both) Shows(kind Kind, server, name string) bool {
	return f.a.Shows(kind, server, name) && f.b.Shows(kind, server, name)
}

// shows calls Filter.Shows. It returns true if the filter is nil.
func shows(f Filter, kind Kind, server, name string) bool {
	return f == nil || f.Shows(kind, server, name)
}

// splitItems divides the items of a server's list into the items that a filter shows and the items
// that it hides.
func splitItems(f Filter, kind Kind, server string, items [][]byte) (shown, hidden [][]byte) {
	if f == nil {
		return items, nil
	}
	shown = make([][]byte, 0, len(items))
	for _, raw := range items {
		if f.Shows(kind, server, nameOfItem(kind, raw)) {
			shown = append(shown, raw)
		} else {
			hidden = append(hidden, raw)
		}
	}
	return shown, hidden
}

// NameOf returns the server's own name or URI of an item, or "" if it has none.
func NameOf(kind Kind, raw []byte) string { return nameOfItem(kind, raw) }

func nameOfItem(kind Kind, raw []byte) string { return nameOf(kind, raw, jsonrpc.Whole(raw)) }

// nameOf returns the server's own name for an item, or "" if the item has no name.
func nameOf(kind Kind, raw []byte, item jsonrpc.Span) string {
	name, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, item, kind.key()))
	return name
}
