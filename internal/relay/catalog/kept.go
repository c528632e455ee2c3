package catalog

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Keeper is a [Source] whose lists outlive the process. While the server starts, clients see the lists
// that an earlier process read. Only the lists of the audience everybody are kept: they were read for
// no particular client, so nobody sees the items of somebody else. The methods may do I/O.
type Keeper interface {
	// Recall returns the items of a list as the server sent them, without those that the Vet hid, and
	// when they were read. read is zero if there is no such list. The only item of the list "" is the server's capabilities.
	Recall(method string) (items [][]byte, read time.Time)
	// Keep replaces the kept list.
	Keep(method string, items [][]byte, read time.Time)
}

// recallAll recalls a list of all servers, once, before the first reading of one of them. The servers
// hold the names in the kept lists from the beginning, so after a restart no other server gets them by
// being ready earlier. A server cannot keep a name by listing it in vain: see withoutTakenLocked.
func (c *Catalog) recallAll(method string) {
	c.mu.Lock()
	again := c.recalled[method]
	if c.recalled == nil {
		c.recalled = make(map[string]bool)
	}
	c.recalled[method] = true
	c.mu.Unlock()
	if again {
		return
	}
	for _, u := range c.Sources {
		c.recall(u, method)
	}
	if method == "" {
		return
	}
	if kindOf(method).key() != "name" && method != mcp.MethodListSkills {
		c.recallAll(mcp.MethodListSkills) // the URIs below a skill's root change together
	}
	c.mu.Lock()
	c.holdLocked(c.mergeLocked(everybody, method))
	c.mu.Unlock()
}

// withoutTakenLocked returns what a server listed without the names that another server holds. These are
// not kept, because the order of the configuration would decide about them after a restart.
func (c *Catalog) withoutTakenLocked(method string, u Source, all [][]byte) [][]byte {
	if method == "" {
		return all
	}
	kind := kindOf(method)
	return slices.DeleteFunc(slices.Clone(all), func(raw []byte) bool {
		x := item{offered: nameOfItem(kind, raw), server: u.Name()}
		x.target.Name = x.offered
		if kind.key() == "name" {
			x.offered = c.Names.Join(c.prefix(u), x.offered)
		}
		return c.heldByAnotherLocked(everybody, method, &x)
	})
}

// recall shows clients the kept list of a server, if no list of the server was read yet. It does so
// once for each list.
func (c *Catalog) recall(u Source, method string) {
	k, ok := u.(Keeper)
	if !ok {
		return
	}
	c.mu.Lock()
	p := c.listLocked(serverListKey{method, u.Name(), Audience{}})
	again := p.recalled || p.have
	p.recalled = true
	c.mu.Unlock()
	if again {
		return
	}
	items, read := k.Recall(method)
	if read.IsZero() || len(items) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case p.have || p.failed != "":
		return // a reading for which nobody waited was faster
	case method == "":
		p.hello = &mcp.ServerInfo{Capabilities: items[0]}
	default:
		v := c.vet(method, u.Name(), mcp.Unknown, items)
		p.items, p.names, p.hidden, p.left = v.items, nil, v.hidden, v.left
	}
	p.kept = read
	c.offerLocked()
	c.forgetMergedLocked(method, u, Audience{})
}

// keep keeps what a reading for the audience everybody got.
func keep(u Source, method string, got answer, read time.Time) {
	k, ok := u.(Keeper)
	switch {
	case !ok || !got.complete:
	case method != "":
		k.Keep(method, got.passed, read)
	case got.hello.Capabilities != nil:
		k.Keep(method, [][]byte{got.hello.Capabilities}, read)
	}
}

// dropKeptLocked stops showing the kept list of a server after a failed reading. It reports whether
// clients saw items of the list. A server that was only not ready in time may still become ready, so
// its list stays.
func (c *Catalog) dropKeptLocked(u Source, method string, err error) (seen bool) {
	p := c.lists[serverListKey{method, u.Name(), Audience{}}]
	if p == nil || p.kept.IsZero() || notReadyYet(err) {
		return false
	}
	seen = len(p.items) > 0
	p.items, p.names, p.hidden, p.left, p.hello, p.kept = nil, nil, nil, nil, nil, time.Time{}
	c.forgetMergedLocked(method, u, Audience{})
	return seen
}

// notReadyYet reports whether an error says only that a server needs more time.
func notReadyYet(err error) bool {
	var e *mcp.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &e) && (e.Cause == "timeout" || e.Cause == "not_ready")
}

// keptLocked reports whether the clients of a list see the kept list of the server.
func (c *Catalog) keptLocked(key serverListKey) bool {
	p := c.lists[serverListKey{key.method, key.server, key.audience.fallback()}]
	return p != nil && !p.kept.IsZero()
}
