package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// ItemQuery selects resources, resource templates or prompts for FindItems.
type ItemQuery struct {
	Server string
	Method string // the MCP method that returns the list, such as resources/list
	Text   string // an item must contain all these words; "" selects all items
	From   int    // the number of items to skip at the beginning
	Limit  int    // 0 means 50
}

// FoundItems is one page of items.
type FoundItems struct {
	Items []Item
	Total int  // the number of items on all pages
	Read  bool // whether Dragoman has read the list; if false, the items are unknown
}

// mostSearched is the maximum number of items in one list that FindItems searches.
const mostSearched = 5000

// FindItems returns one page of a server's list. The items that clients do not see are at the end of
// the list. FindItems uses only what Dragoman has already read, and sends nothing to servers.
func (a *catalogAPI) FindItems(q ItemQuery) FoundItems {
	list := a.project.items(q.Server, q.Method)
	c, _ := a.project.Config(q.Server)
	all := slices.Concat(list.Shown, list.Hidden)
	item := func(i int) Item { return a.item(c, q.Method, all[i], i < len(list.Shown)) }
	out := FoundItems{Read: list.Have, Total: len(all)}
	limit := cmp.Or(max(q.Limit, 0), usualPage)
	words := strings.Fields(strings.ToLower(excerpt.Cut(q.Text, maxQuery)))
	if len(words) == 0 {
		from := min(max(q.From, 0), len(all))
		for i := from; i < min(from+limit, len(all)); i++ {
			out.Items = append(out.Items, item(i))
		}
		return out
	}
	out.Total = 0
	for i := range all[:min(len(all), mostSearched)] {
		x := item(i)
		text := strings.ToLower(strings.Join([]string{x.Name, x.Title, x.Description, x.URI, x.URITemplate, x.MIMEType}, " "))
		if slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) }) {
			continue
		}
		if out.Total++; out.Total > q.From && len(out.Items) < limit {
			out.Items = append(out.Items, x)
		}
	}
	return out
}

// ReadItems starts to read a list of a server if the list is not fresh, and waits briefly for the
// result. It opens the server if necessary. ReadItems does nothing if the server does not exist, or
// if method does not list tools, resources, resource templates or prompts.
func (a *catalogAPI) ReadItems(ctx context.Context, server, method string) {
	if lists := a.project.Lists(); lists != nil && slices.Contains([]string{mcp.MethodListTools, mcp.MethodListResources, mcp.MethodListTemplates, mcp.MethodListPrompts}, method) {
		lists.Refresh(ctx, server, method)
	}
}

// readItems answers the routes of the lists of a server, except its tools.
func (a *catalogAPI) readItems(r *http.Request, method string) (any, *Problem) {
	name := r.PathValue("name")
	if bad := a.project.noServer(name); bad != nil {
		return nil, bad
	}
	a.project.refresh(r.Context(), name, method)
	list := a.project.items(name, method)
	type entry struct {
		raw   []byte
		shown bool
		key   string
	}
	var all []entry
	for _, raw := range list.Shown {
		all = append(all, entry{raw, true, fmt.Sprintf("%08d", len(all))})
	}
	for _, raw := range list.Hidden {
		all = append(all, entry{raw, false, fmt.Sprintf("%08d", len(all))})
	}
	p, bad := pageOf(r, all, func(x *entry) string { return x.key })
	if bad != nil {
		return nil, bad
	}
	c, _ := a.project.Config(name)
	out := Items{Items: []Item{}, Total: len(all), Read: list.Have, Next: p.next}
	for _, x := range p.items {
		out.Items = append(out.Items, a.item(c, method, x.raw, x.shown))
	}
	return out, nil
}

// item converts a resource, a template or a prompt to an Item.
func (a *catalogAPI) item(c config.Server, method string, raw []byte, exposed bool) Item {
	clean := a.project.Clean(c.Name)
	text := func(key string, limit int) string {
		s, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, jsonrpc.Whole(raw), key))
		return shownText(clean, jsonrpc.Shown(s), limit)
	}
	x := Item{
		Server: c.Name, Name: text("name", maxAbout), Title: text("title", maxTitle), Description: text("description", maxDescription),
		MIMEType: text("mimeType", maxTitle), State: shown,
	}
	kind, filter, key := "resources", c.Expose.Resources, "uri"
	switch method {
	case mcp.MethodListPrompts:
		kind, filter, key = "prompts", c.Expose.Prompts, "name"
		if lists := a.project.Lists(); lists != nil {
			x.Offered = lists.Offered(catalog.KindPrompt, c.Name, x.Name)
		}
		for e := range jsonrpc.Elements(raw, jsonrpc.Find(raw, jsonrpc.Whole(raw), "arguments")) {
			of := func(key string) string {
				s, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, e, key))
				return shownText(clean, jsonrpc.Shown(s), maxDescription)
			}
			x.Arguments = append(x.Arguments, ToolArgument{
				Name: of("name"), Required: jsonrpc.KindOf(raw, jsonrpc.Find(raw, e, "required")) == 't', Type: "string", About: of("description"),
			})
		}
	case mcp.MethodListTemplates:
		key = "uriTemplate"
		x.URITemplate = text(key, maxAbout)
	default:
		x.URI = text(key, maxAbout)
		if n, ok := jsonrpc.Int(raw, jsonrpc.Find(raw, jsonrpc.Whole(raw), "size")); ok {
			x.Size = &n
		}
	}
	if !exposed {
		x.State = hidden
		name, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, jsonrpc.Whole(raw), key))
		x.Hidden = a.project.hiddenAt(hiddenBy(c, kind, filter, name))
	}
	return x
}
