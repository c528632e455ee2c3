package catalog

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/tokens"
	"github.com/dragoman-mcp/dragoman/internal/relay/ranking"
)

// Item is one item of a server in the index of all servers. It must not be modified.
type Item struct {
	Server string
	Name   string // the server's own name or URI; "" if the item has none
	// Offered is the name at the endpoint of all servers. The URI of a resource is the server's own.
	Offered string
	JSON    []byte // as the server sent it, with the edits of Catalog.Vet
	Tokens  int    // estimated number of tokens in a model's context; only for tools
	Key     string // sorts the items by their offered names, and is unique
	// Hidden is the reason, as a clause, why no client sees the item at the endpoint of all servers. It is
	// "" if some do. Everywhere means that none does at the endpoint of its server either.
	Hidden     string
	Everywhere bool
	// Needs has the capabilities of which a client must declare at least one to see the item. It is
	// empty, but not nil, if they are not known. It is nil if clients without capabilities see the item,
	// or if their list has not been read and all other lists have the item.
	Needs []string
	at    int // its place among the items of the server
}

// index keeps the items of all servers for one kind. After a list has changed, it reads only the items of
// this list again. The zero value is ready to use.
type index struct {
	mu    sync.Mutex            // held only for short assignments
	list  *mergedList           // from which all was made
	lists []uint64              // the versions of the servers' lists from which all was made
	parts map[string]*indexPart // the items of each server, before they are compared with those of others
	all   []*Item               // sorted by Key; replaced, and never changed
}

type indexPart struct {
	version uint64
	items   []Item
	once    sync.Once
	index   *ranking.Index // made when it's first needed
	places  map[*ranking.Tool]int
}

// Search returns the tools that fit a query, the best first, as All yields them. It ranks them as for clients in
// search mode, but looks at all of them. What is secret of a server is masked before it looks.
func (c *Catalog) Search(query string) (found []*Item) {
	all := slices.Collect(c.All(KindTool))
	x := &c.indexes[KindTool]
	x.mu.Lock()
	parts := x.parts
	x.mu.Unlock()
	items := make(map[string][]*Item, len(parts))
	for server, part := range parts {
		items[server] = make([]*Item, len(part.items))
	}
	for _, y := range all {
		if list := items[y.Server]; y.at < len(list) {
			list[y.at] = y
		}
	}
	var in []*ranking.Index
	places := make(map[*ranking.Tool]*Item, len(all))
	for server, part := range parts {
		in = append(in, part.ranked(c, server))
		for t, at := range part.places {
			places[t] = items[server][at]
		}
	}
	for _, h := range ranking.Search(query, in, nil, len(all)) {
		if y := places[h.Tool]; y != nil {
			found = append(found, y)
		}
	}
	return found
}

// ranked returns the index of a server's tools.
func (p *indexPart) ranked(c *Catalog, server string) *ranking.Index {
	p.once.Do(func() {
		clean := func(text string) string { return text }
		if c.Clean != nil {
			clean = c.Clean(server)
		}
		tools := make([]ranking.Tool, len(p.items))
		for i := range p.items {
			y := &p.items[i]
			tools[i] = ranking.Tool{Name: y.Offered, Bare: y.Name, Server: server, Hint: c.Hints[server], Definition: []byte(excerpt.MaskJSON(string(y.JSON), clean))}
			if jsonrpc.Valid(tools[i].Definition, jsonrpc.Limits{}) != nil {
				tools[i].Definition = []byte("{}")
			}
		}
		p.index, p.places = ranking.New(tools), make(map[*ranking.Tool]int, len(tools))
		for i, t := range p.index.Tools() {
			p.places[t] = i
		}
	})
	return p.index
}

// All yields all items of a kind, sorted by Key, from the lists that were read last. It also has those
// that no client sees, and those that only clients with some capabilities see, but not what a server
// has shown to a client with credentials of its own. It is for operators, and sends no requests.
func (c *Catalog) All(kind Kind) iter.Seq[*Item] {
	l := c.mergedList(everybody, kind.method())
	return slices.Values(c.indexes[kind].of(c, l, c.Items(kind.method())))
}

// of returns the items of the given lists. l is the merged list for clients without capabilities.
func (x *index) of(c *Catalog, l *mergedList, items []Items) []*Item {
	versions := make([]uint64, len(items))
	for i := range items {
		versions[i] = items[i].version()
	}
	x.mu.Lock()
	known, all, same := x.parts, x.all, x.list == l && slices.Equal(x.lists, versions)
	x.mu.Unlock()
	if same {
		return all
	}
	parts := make(map[string]*indexPart, len(items))
	all = nil
	for i := range items {
		server := items[i].Server
		part := known[server]
		if part == nil || part.version != versions[i] {
			part = &indexPart{version: versions[i], items: c.indexItems(l.kind, &items[i])}
		}
		parts[server] = part
		seen := make(map[string]bool, len(part.items))
		for j := range part.items {
			y := part.items[j]
			if y.Hidden == "" {
				y.Hidden = l.hides(&y, seen[y.Name], items[i].Have && y.Needs == nil)
				seen[y.Name] = true
			}
			y.Key = fmt.Sprintf("%s\x00%s\x00%06d", y.Offered, server, j)
			all = append(all, &y)
		}
	}
	slices.SortFunc(all, func(a, b *Item) int { return cmp.Compare(a.Key, b.Key) })
	x.mu.Lock()
	defer x.mu.Unlock()
	x.list, x.lists, x.parts, x.all = l, versions, parts, all
	return all
}

// hides returns the reason why no client sees an item that its server lists and that is not hidden, or
// "". again means that the server lists the name a second time, and merged that the list was made with
// this item.
func (l *mergedList) hides(x *Item, again, merged bool) string {
	by := l.find(x.Offered, nil)
	if by != nil && (again || by.server != x.Server || by.target.Name != x.Name) {
		return taken(by, x.Server, x.Name)
	}
	for _, r := range l.rejected {
		if by == nil && r.lost && r.server == x.Server && r.Name == excerpt.Cut(x.Name, maxRepeated) {
			return r.Why
		}
	}
	if by == nil && merged && l.kind.key() == "name" {
		return fmt.Sprintf("it is left out, like more than %d other items", maxRejected)
	}
	return ""
}

// version returns a number that changes whenever the items change for any client.
func (p *Items) version() uint64 {
	v := p.Version
	for i := range p.Others {
		v = (v ^ p.Others[i].Version) * 1099511628211 // as in FNV-1a, so that a change of any list changes v
	}
	return v
}

// indexItems returns the items of a server.
func (c *Catalog) indexItems(kind Kind, list *Items) (out []Item) {
	add := func(raw []byte, hidden string, needs []string) {
		x := Item{at: len(out), Server: list.Server, Name: nameOfItem(kind, raw), JSON: raw, Hidden: hidden, Everywhere: hidden != "", Needs: needs}
		if x.Offered = x.Name; kind.key() == "name" && x.Name != "" {
			x.Offered = c.Offered(kind, list.Server, x.Name)
			if _, ok := c.Renames.Shown(kind, list.Server, x.Name); !ok && hidden == "" {
				x.Hidden, x.Everywhere = "a rule gives its name to another item", true
			}
		}
		if x.Name == "" {
			x.Hidden = "the item has no " + kind.key()
		}
		if kind == KindTool {
			x.Tokens = tokens.Tool(raw, jsonrpc.Whole(raw))
		}
		out = append(out, x)
	}
	each(list.Shown, list.Hidden, func(raw []byte, why string) { add(raw, why, nil) })
	for _, x := range list.Left {
		add(x.JSON, x.Why, nil)
	}
	list.eachOther(kind, add)
	return out
}

// each calls f with the items that the configuration shows, and with those that it hides and why.
func each(shown, hidden [][]byte, f func(raw []byte, why string)) {
	for _, raw := range shown {
		f(raw, "")
	}
	for _, raw := range hidden {
		f(raw, "the configuration hides it")
	}
}

// eachOther calls add for each item that is missing in the list for clients without capabilities.
func (p *Items) eachOther(kind Kind, add func(raw []byte, why string, needs []string)) {
	names := func(out map[string]bool, all ...[][]byte) map[string]bool {
		for _, raw := range slices.Concat(all...) {
			out[nameOfItem(kind, raw)] = true
		}
		return out
	}
	known, lists := names(map[string]bool{}, p.Shown, p.Hidden), make([]map[string]bool, len(p.Others))
	for _, x := range p.Left {
		names(known, [][]byte{x.JSON})
	}
	for i := range p.Others {
		lists[i] = names(map[string]bool{}, p.Others[i].Shown, p.Others[i].Hidden)
	}
	for i := range p.Others {
		each(p.Others[i].Shown, p.Others[i].Hidden, func(raw []byte, why string) {
			name := nameOfItem(kind, raw)
			if known[name] {
				return
			}
			known[name] = true
			if !p.Have && !slices.ContainsFunc(lists, func(l map[string]bool) bool { return !l[name] }) {
				add(raw, why, nil)
				return
			}
			// Keep each capability that all clients with this item declare, and that no other client
			// declares.
			needs := slices.Clone(p.Others[i].Capabilities)
			for j := range p.Others {
				needs = slices.DeleteFunc(needs, func(c string) bool { return slices.Contains(p.Others[j].Capabilities, c) != lists[j][name] })
			}
			add(raw, why, append([]string{}, needs...))
		})
	}
}
