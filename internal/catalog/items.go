package catalog

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// versions is the last version number that a list in this process got. All catalogs share it, so
// two different lists never have the same version.
var versions atomic.Uint64

// Items is one list of one server, for operators. It includes the items that the configuration
// hides from clients. It is the same list that a ListReport describes. It must not be modified.
type Items struct {
	Server string
	Have   bool // the list has been read
	// Version changes whenever the items change. No other list has the same version.
	Version uint64
	Shown   [][]byte // items that Catalog.Expose shows, as the server sent them and in its order
	Hidden  [][]byte // items that Catalog.Expose hides
	// Hello is the server information. It is nil if the server has not been opened.
	Hello *mcp.ServerInfo
}

// Items returns the list of each server for a method, in the order of the configuration. It
// sends no requests and does not wait.
func (c *Catalog) Items(method string) []Items {
	out := make([]Items, len(c.Sources))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, u := range c.Sources {
		out[i].Server = u.Name()
		if p, _ := c.reportedLocked(method, u.Name()); p != nil {
			out[i].Have, out[i].Version, out[i].Shown, out[i].Hidden = p.have, p.version, p.items, p.hidden
		}
		if p, _ := c.reportedLocked("", u.Name()); p != nil {
			out[i].Hello = p.hello
		}
	}
	return out
}

// Refresh reads one list of one server if it is not fresh. It waits until the list is read, ctx
// ends or the grace time is over. It opens the server if necessary.
func (c *Catalog) Refresh(ctx context.Context, server, method string) {
	at := slices.IndexFunc(c.Sources, func(u Source) bool { return u.Name() == server })
	if at < 0 || mcp.LookupMethod(method) == nil {
		return
	}
	c.mu.Lock()
	_, r := c.readLocked(everybody, method, c.Sources[at])
	c.mu.Unlock()
	if r != nil {
		c.await(ctx, []*reading{r})
	}
}

// Offered returns the name under which clients of the merged list see a tool or prompt of a
// server. If another item already has that name, clients do not see this item.
func (c *Catalog) Offered(server, name string) string {
	prefix := server
	if p, ok := c.Prefixes[server]; ok {
		prefix = p
	}
	return c.Names.Join(prefix, name)
}
