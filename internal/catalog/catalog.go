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

// Source is a server, as the catalog reads it. It is safe for concurrent use.
type Source interface {
	// Name returns the configured name of the server.
	Name() string
	// Hello returns the server information. It opens the server for f if necessary.
	Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error)
	// List reads all pages of a list. complete is false if a bound ended the reading early.
	List(ctx context.Context, f *mcp.ClientInfo, method string) (items [][]byte, complete bool, err error)
}

// Catalog keeps the last good list of each server for each audience, and the merged lists. A
// request waits for a server for at most the time Grace, so a slow or dead server does not
// delay it for long. The exported fields are set before the first use and must not change after
// it. Their zero values work.
type Catalog struct {
	Sources []Source // in the order of the configuration
	Names   Names
	// Prefixes contains the prefix of each server whose prefix is not its name. "" means that
	// its items keep their own names.
	Prefixes map[string]string
	// Expose hides items from all clients. The catalog does not keep hidden items, so they are
	// not counted, reported or announced either. Nil shows all items.
	Expose   Filter
	Identity Identity
	// Grace is how long a merged answer waits for a server. The time starts when the server's
	// list is first needed. Zero means 1.5 s.
	Grace time.Duration
	// The callbacks run without a lock and must not block. A nil callback is not called. Lost
	// gets items that are left out, and Renamed items that are offered under an unusual name.
	// Announce must tell the clients of an audience that a list has changed; the parameter note is
	// the method of the notification. If the audience is the zero Audience, Announce must tell all
	// clients, because some clients see the lists of that audience instead of their own.
	Lost     func(server, method, why string)
	Renamed  func(server, method, name, why string)
	Announce func(note string, to Audience)

	mu        sync.Mutex
	audiences map[Audience]*knownAudience // all audiences except the audience everybody
	listeners map[Audience]int            // number of clients that get notifications of changes
	lists     map[serverListKey]*serverList
	merged    map[mergedListKey]*mergedList // a missing entry is merged again on the next use
	// slowFailures contains the servers whose last reading took long and failed. Requests do not
	// wait for such a server until it answers again. They still wait for a server that fails at
	// once.
	slowFailures map[string]bool
	told         map[rejectedItem]struct{} // items that were already passed to Lost or Renamed
	ctx          context.Context           // ends with Drain; created on first use
	end          context.CancelFunc
	work         work.Group // the goroutines that read lists
}

// lifeLocked returns the context that ends with Drain.
func (c *Catalog) lifeLocked() context.Context {
	if c.ctx == nil {
		c.ctx, c.end = context.WithCancel(context.Background())
	}
	return c.ctx
}

// Drain cancels all readings and prevents new ones. It does not wait.
func (c *Catalog) Drain() {
	c.mu.Lock()
	c.lifeLocked()
	end := c.end
	c.mu.Unlock()
	end()
}

// Close drains the catalog and waits for its readings to end. It may be called more than once.
func (c *Catalog) Close() {
	c.Drain()
	c.work.Wait()
}

// Listen counts one client that gets notifications of changes, until stop is called. While an
// audience has such a client, its lists are read again when a server reports that they may have
// changed.
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

// Changed records that a server's lists may have changed. kind is "tools", "prompts",
// "resources", or "" for all lists and the server information. If kind is "", clients have not been
// notified of a particular change. In this case the lists that were needed before are read again,
// and announced if they differ. For this comparison, a list that could not be read before counts as
// empty.
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

// readAgainLocked reads lists again and announces those that differ. It skips audiences without
// listeners, except everybody. The skipped lists are read when a client asks, so no session is
// opened for them now.
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

// Warm starts to read the lists that clients request first, from the servers for which want returns
// true. It does not wait.
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

// prefix returns the prefix of the names of a server's items.
func (c *Catalog) prefix(u Source) string {
	if p, ok := c.Prefixes[u.Name()]; ok {
		return p
	}
	return u.Name()
}
