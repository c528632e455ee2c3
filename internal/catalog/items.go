package catalog

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// versions numbers the contents of all lists of the process, so that a version never means
// two contents, whichever catalog has the list.
var versions atomic.Uint64

// Items is one list of one server for operators: also what the configuration hides from
// clients. It stands for the same list as a ListReport. It must not be changed.
type Items struct {
	Server string
	Have   bool // it has been read
	// Version changes whenever the items change, and is the same for no other list.
	Version uint64
	Shown   [][]byte // as the server sent them, in its order
	Hidden  [][]byte // those that Catalog.Expose hides
	// Hello is what the server says about itself; nil if it has not been opened.
	Hello *mcp.ServerInfo
}

// Items returns the list of each server for a method, in the order of the configuration. It
// reads nothing and does not wait.
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

// Refresh reads one list of one server if it is not fresh, and waits for that until ctx ends
// or the grace of the reading is over. The server is opened if necessary.
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
// server, unless another item has that name.
func (c *Catalog) Offered(server, name string) string {
	prefix := server
	if p := c.Prefixes[server]; p != "" {
		prefix = p
	}
	return c.Names.Join(prefix, name)
}
