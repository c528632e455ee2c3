package catalog

import (
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Kind is what a Filter decides about.
type Kind uint8

// The kinds. The zero value is none of them.
const (
	_ Kind = iota
	// KindServer is a server itself, with the name "": its instructions, capabilities,
	// notifications and tasks, and its name where a list says which servers are missing.
	KindServer
	KindTool
	KindPrompt
	KindResource // by URI
	KindTemplate // by URI template
)

// kindOf returns the kind of the items that a method lists.
func kindOf(method string) Kind {
	switch method {
	case mcp.MethodListTools:
		return KindTool
	case mcp.MethodListPrompts:
		return KindPrompt
	case mcp.MethodListResources:
		return KindResource
	case mcp.MethodListTemplates:
		return KindTemplate
	}
	return 0
}

// method returns the method that lists the items of a kind.
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

// key returns the member that names an item of the kind.
func (k Kind) key() string {
	switch k {
	case KindResource:
		return "uri"
	case KindTemplate:
		return "uriTemplate"
	}
	return "name"
}

// Filter decides what a client sees. An item that is hidden is not listed, and a request
// for it is answered as one for an item that does not exist. A nil Filter shows all.
type Filter interface {
	// Shows reports whether an item is shown; name is the server's own. It is called
	// for each item of a list whenever the list is read: it must be cheap, must not
	// block, and must depend on its arguments alone.
	Shows(kind Kind, server, name string) bool
}

// Both returns a filter that shows what both filters show.
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

// shows is Filter.Shows for a filter that may be nil.
func shows(f Filter, kind Kind, server, name string) bool {
	return f == nil || f.Shows(kind, server, name)
}

// shownItems returns the items of a server's list that a filter shows.
func shownItems(f Filter, kind Kind, server string, items [][]byte) [][]byte {
	if f == nil {
		return items
	}
	out := make([][]byte, 0, len(items))
	for _, raw := range items {
		if f.Shows(kind, server, nameOf(kind, raw, jsonrpc.Whole(raw))) {
			out = append(out, raw)
		}
	}
	return out
}

// nameOf returns the name of an item as its server wrote it, "" if it has none.
func nameOf(kind Kind, raw []byte, item jsonrpc.Span) string {
	name, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, item, kind.key()))
	return name
}
