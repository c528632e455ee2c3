package runtime

import (
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// renames returns the names that rules give to tools and prompts, or nil if they give none. If the lists of the project
// and of default give the same one to two of a server, the project's counts.
func (r *rules) renames() *catalog.Renames {
	var all *catalog.Renames
	for server, list := range r.as {
		for i := range list {
			x := &list[i]
			_, item, _ := strings.Cut(x.Match[0], "/")
			if x.As.Name == "" || list.As(server, item) != x.As {
				continue // a rule before it is about the item
			}
			kind, name := policy.Item(item)
			if all == nil {
				all = &catalog.Renames{}
			}
			if kind == "prompt" {
				all.Add(catalog.KindPrompt, server, name, x.As.Name)
			} else {
				all.Add(catalog.KindTool, server, name, x.As.Name)
			}
		}
	}
	return all
}

// vet returns a vet that judges as another one does, and then changes what clients see as the rules say.
func (r *rules) vet(judge catalog.Vet) catalog.Vet {
	if len(r.as) == 0 {
		return judge
	}
	return func(kind catalog.Kind, server string, from mcp.Revision, raw []byte) (catalog.Verdict, jsonrpc.EditList) {
		v, edits := judge(kind, server, from, raw)
		if list := r.as[server]; list != nil && v.Hide == "" {
			if as := list.As(server, itemName(kind, catalog.NameOf(kind, raw))); as != nil {
				edit(&edits, kind, raw, as)
			}
		}
		return v, edits
	}
}

// edit adds what a rule says of an item to edits, but for the name, which is the catalog's.
func edit(edits *jsonrpc.EditList, kind catalog.Kind, raw []byte, as *policy.As) {
	whole := jsonrpc.Whole(raw)
	var set []jsonrpc.Field
	for _, f := range []struct{ key, text string }{{"title", as.Title}, {"description", as.Description}} {
		if f.text != "" {
			set = append(set, jsonrpc.Field{Key: f.key, Value: jsonrpc.AppendQuote(nil, f.text)})
		}
	}
	var hints []jsonrpc.Field
	if kind == catalog.KindTool {
		for _, h := range as.Hints {
			hints = append(hints, jsonrpc.Field{Key: h.Name, Value: strconv.AppendBool(nil, h.Is)})
		}
	}
	have := jsonrpc.Find(raw, whole, "annotations")
	switch {
	case len(hints) == 0:
	case jsonrpc.KindOf(raw, have) == '{':
		edits.Object(mcp.WhyVetted, raw, have, nil, hints...)
	default:
		var e jsonrpc.Edits
		none := []byte("{}")
		e.Object(mcp.WhyVetted, none, jsonrpc.Whole(none), nil, hints...)
		set = append(set, jsonrpc.Field{Key: "annotations", Value: jsonrpc.Splice(nil, none, &e)})
	}
	edits.Object(mcp.WhyVetted, raw, whole, nil, set...)
}
