package catalog

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// versions is the highest version number that a list in this process has. All catalogs share this
// counter, so two different lists never have the same version.
var versions atomic.Uint64

// Items is one list of one server, for operators. It includes the items that the configuration
// hides from clients. It must not be modified.
type Items struct {
	Server string
	Have   bool // whether the catalog has read the list for clients without capabilities
	// Version changes whenever the items change. No other list has the same version. Version is 0
	// if Have is false.
	Version uint64
	Shown   [][]byte     // items that Catalog.Expose shows, in the form and order in which the server sent them
	Hidden  [][]byte     // items that Catalog.Expose hides
	Left    []HiddenItem // items that Catalog.Vet hides
	// Hello is the server information. It is nil if the catalog has not received it.
	Hello *mcp.ServerInfo
	// Others are the lists for clients with capabilities, ordered by the capabilities. A server may
	// show some items only to clients that can answer server requests. Lists that were read with a
	// client's own credentials are not in it.
	Others []OtherList
}

// OtherList is the list of a server for clients that declare certain capabilities.
type OtherList struct {
	Capabilities  []string // sorted names, such as elicitation
	Version       uint64   // see Items.Version
	Shown, Hidden [][]byte
}

// othersLocked returns the lists of each server for clients with capabilities.
func (c *Catalog) othersLocked(method string) map[string][]OtherList {
	out := map[string][]OtherList{}
	for key, other := range c.lists {
		if key.method != method || key.audience.caps == "" || key.audience.scope != "" || !other.have {
			continue
		}
		out[key.server] = append(out[key.server], OtherList{Capabilities: key.audience.capabilities(), Version: other.version, Shown: other.items, Hidden: other.hidden})
	}
	for _, all := range out {
		slices.SortFunc(all, func(a, b OtherList) int {
			return cmp.Or(slices.Compare(a.Capabilities, b.Capabilities), cmp.Compare(a.Version, b.Version))
		})
	}
	return out
}

// Items returns the list of each server for a method, in the order of the configuration. It sends
// no requests and does not wait.
func (c *Catalog) Items(method string) []Items {
	out := make([]Items, len(c.Sources))
	c.mu.Lock()
	defer c.mu.Unlock()
	others := c.othersLocked(method)
	for i, u := range c.Sources {
		out[i].Server = u.Name()
		p := c.lists[serverListKey{method, u.Name(), Audience{}}]
		if p != nil && !p.have {
			p = nil
		}
		if p != nil {
			out[i].Have, out[i].Version, out[i].Shown, out[i].Hidden, out[i].Left = true, p.version, p.items, p.hidden, p.left
		}
		out[i].Others = others[u.Name()]
		if p := c.reportedLocked("", u.Name()); p != nil && p.have {
			out[i].Hello = p.hello
		}
	}
	return out
}

// Refresh reads one list of one server if the list is not fresh. It waits until the list is read,
// ctx ends or the grace time is over. If necessary, it opens a session with the server.
func (c *Catalog) Refresh(ctx context.Context, server, method string) {
	at := slices.IndexFunc(c.Sources, func(u Source) bool { return u.Name() == server })
	if at < 0 || mcp.LookupMethod(method) == nil {
		return
	}
	c.recallAll(method)
	c.mu.Lock()
	_, r := c.readLocked(everybody, method, c.Sources[at])
	c.mu.Unlock()
	if r != nil {
		c.await(ctx, []*reading{r}, false)
	}
}

// Unread is a server whose lists nobody knows.
type Unread struct {
	Server string
	Why    string // "" if it still reads
}

// ReadLists reads lists of all servers that aren't fresh, and waits for them until ctx ends. If necessary, it opens
// sessions. It returns the servers of which no audience has ever got one of the lists in this process.
func (c *Catalog) ReadLists(ctx context.Context, methods ...string) (out []Unread) {
	var all []*reading
	for _, method := range methods {
		all = append(all, c.readAll(everybody, method)...)
	}
	for _, r := range all {
		select {
		case <-r.done:
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.Sources {
		for _, method := range methods {
			if !c.wasReadLocked(method, u.Name()) {
				x := Unread{Server: u.Name()}
				if p := c.reportedLocked(method, u.Name()); p != nil {
					x.Why = p.failed
				}
				out = append(out, x)
				break
			}
		}
	}
	return out
}

// Offered returns the name under which clients see a tool or prompt of a server in the merged list.
// If another item already has this name, clients do not see the tool or prompt.
func (c *Catalog) Offered(kind Kind, server, name string) string {
	shown, _ := c.Renames.Shown(kind, server, name)
	return c.Names.Join(c.prefixOf(server), shown)
}
