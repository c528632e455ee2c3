package admin

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
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
func (a *API) FindItems(q ItemQuery) FoundItems {
	list := a.itemsOf(q.Server, q.Method)
	c, _ := a.opts.Project.Config(q.Server)
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
// if method does not list resources, resource templates or prompts.
func (a *API) ReadItems(ctx context.Context, server, method string) {
	if lists := a.opts.Project.Lists(); lists != nil && slices.Contains([]string{mcp.MethodListResources, mcp.MethodListTemplates, mcp.MethodListPrompts}, method) {
		lists.Refresh(ctx, server, method)
	}
}
