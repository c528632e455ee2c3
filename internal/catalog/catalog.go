package catalog

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/work"
)

// Source is a server as the catalog reads it. It is safe for concurrent use.
type Source interface {
	// Name returns its configured name.
	Name() string
	// Hello returns the server information. It opens the server for f if necessary.
	Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error)
	// List walks a list to its end; complete is false when a bound cut it off.
	List(ctx context.Context, f *mcp.ClientInfo, method string) (items [][]byte, complete bool, err error)
}

// Catalog keeps the last good list of each server for each audience, and the merged
// lists. A request waits for a server at most until the grace of a reading is over, so a
// slow or dead server delays nobody for long. The exported fields are set before the
// first use and not written to after it; their zero values work.
type Catalog struct {
	Sources []Source // in the order of the configuration
	Names   Names
	// Prefixes are the prefixes of the servers whose prefix is not their name.
	Prefixes map[string]string
	// Expose hides items from all clients; nil shows all. They are not kept, so that they
	// are not counted, reported or announced either.
	Expose   Filter
	Identity Identity
	// Grace is how long a merged answer waits for a server, counted from when it was
	// first needed. Zero means 1.5 s.
	Grace time.Duration
	// The callbacks run without a lock and must not block; a nil one is not called. Lost
	// receives items that are left out, Renamed items whose offered name is not the usual
	// one. Announce tells the clients of an audience that a list has changed; note
	// is the method of the notification. What is announced to the zero Audience concerns
	// all clients, because others see its lists when there is no room for their own.
	Lost     func(server, method, why string)
	Renamed  func(server, method, name, why string)
	Announce func(note string, to Audience)

	mu        sync.Mutex
	audiences map[Audience]*knownAudience // without everybody
	listeners map[Audience]int            // clients that hear of changes
	lists     map[serverListKey]*serverList
	merged    map[mergedListKey]*mergedList // absent when to be made anew
	// slowFailures are servers whose last failed reading took long. A server that fails
	// at once may be waited for again; these are not before they have answered.
	slowFailures map[string]bool
	told         map[rejectedItem]struct{} // what Lost and Renamed were told
	ctx          context.Context           // ends with Drain; made on first use
	end          context.CancelFunc
	work         work.Group // readings
}

// lifeLocked returns the context that ends with Drain.
func (c *Catalog) lifeLocked() context.Context {
	if c.ctx == nil {
		c.ctx, c.end = context.WithCancel(context.Background())
	}
	return c.ctx
}

// Drain cancels readings and starts no more. It does not wait.
func (c *Catalog) Drain() {
	c.mu.Lock()
	c.lifeLocked()
	end := c.end
	c.mu.Unlock()
	end()
}

// Close drains the catalog and waits for its readings. It may be called again.
func (c *Catalog) Close() {
	c.Drain()
	c.work.Wait()
}

// Listen counts a client that hears of changes, until stop is called. While an audience
// has one, its lists are read again when a server says that they may have changed.
func (c *Catalog) Listen(a Audience) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listeners == nil {
		c.listeners = make(map[Audience]int)
	}
	c.listeners[a]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.listeners[a]--; c.listeners[a] == 0 {
			delete(c.listeners, a)
		}
	}
}

// Changed says that a server's lists may have changed: kind is "tools", "prompts",
// "resources", or "" for all lists and the server information. For "", clients have not
// been notified of a particular change, so lists that were needed before are read again,
// and announced if they differ. A list that could not be read so far counts as empty.
func (c *Catalog) Changed(server, kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind == "" {
		delete(c.slowFailures, server)
	}
	var again []serverListKey
	for key, p := range c.lists {
		if key.server == server && (kind == "" || key.method != "" && strings.HasPrefix(key.method, kind)) {
			p.fresh, p.changed = false, true
			if kind == "" && (p.have || p.reading != nil && !p.reading.finished.IsZero()) {
				again = append(again, key)
			}
		}
	}
	c.readAgainLocked(again)
}

// readAgainLocked reads lists again; those that differ are announced. It skips audiences
// without listeners, except everybody: their lists are read when one of their clients
// asks, and no session is opened for them now.
func (c *Catalog) readAgainLocked(again []serverListKey) {
	for _, key := range again {
		at := slices.IndexFunc(c.Sources, func(u Source) bool { return u.Name() == key.server })
		a := c.knownLocked(key.audience)
		if at < 0 || a == nil || a != everybody && c.listeners[key.audience] == 0 {
			continue
		}
		if _, r := c.readLocked(a, key.method, c.Sources[at]); r != nil {
			r.tell = true
		}
	}
}

// Warm begins to read what clients will ask for first, of the servers that want chooses.
// It does not wait.
func (c *Catalog) Warm(want func(server string) bool) {
	var wanted []Source
	for _, u := range c.Sources {
		if want(u.Name()) {
			wanted = append(wanted, u)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range wanted {
		c.readLocked(everybody, "", u)
		c.readLocked(everybody, mcp.MethodListTools, u)
	}
}

// prefix returns what the names of a server's items begin with.
func (c *Catalog) prefix(u Source) string {
	if p := c.Prefixes[u.Name()]; p != "" {
		return p
	}
	return u.Name()
}
