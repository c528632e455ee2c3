package catalog

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Source is a server whose lists the catalog reads. It is safe for concurrent use.
type Source interface {
	// Name returns the configured name of the server.
	Name() string
	// Scope returns the credential scope of a client. Clients of different scopes never see each
	// other's lists. "" is the scope of all clients without credentials of their own.
	Scope(f *mcp.ClientInfo) string
	// Hello returns the server information. If necessary, it opens a session with the server for
	// the client f.
	Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error)
	// List reads all pages of a list. complete is false if List stopped early because of a limit.
	List(ctx context.Context, f *mcp.ClientInfo, method string) (items [][]byte, complete bool, err error)
}

// Catalog keeps the last valid list of each server for each audience, and the merged lists. A
// request waits for each server for at most the time Grace, so a slow or dead server delays the
// request only briefly. The exported fields must be set before the first use of the Catalog and
// must not change later. Their zero values work.
type Catalog struct {
	Sources []Source // in the order of the configuration
	Names   Names
	// Prefixes contains the prefix of each server whose prefix differs from its name. A server with
	// the prefix "" keeps its own item names.
	Prefixes map[string]string
	// Expose hides items from all clients. The catalog drops hidden items, so it does not count,
	// report or announce them. Nil shows all items.
	Expose Filter
	// Vet judges each item once, when a list is read. Nil lets all items pass.
	Vet      Vet
	Renames  *Renames
	Identity Identity
	// Clean returns the function that masks a server's secrets in what Search looks at. Nil masks
	// nothing.
	Clean func(server string) func(text string) string
	// Hints is what people say that servers are for, by server.
	Hints map[string]string
	// URIs decides under which URIs clients see pages and skills. The catalogs of one endpoint share
	// it when the configuration changes. If it is nil, the catalog has its own.
	URIs *URIs
	// Grace is the longest time that a request for a merged list waits for a server. The time
	// starts when the server's list is first needed. Zero means 1.5 s.
	Grace time.Duration
	// The catalog calls the callbacks without holding a lock. They must not block. A nil callback
	// is not called. Lost gets items that the catalog left out, and Renamed gets items that clients
	// see under an unusual name. Announce must notify the clients that may see the list of a server
	// that has changed, which was read for the audience to; see View.Sees. note is the method of the
	// notification.
	Lost     func(server, method, why string)
	Renamed  func(server, method, name, why string)
	Announce func(note, server string, to Audience)
	// Holds reports whether a server has a resource, for a client. It may send requests. The error is
	// nil if the server answered. If Holds is nil, no server is asked.
	Holds func(ctx context.Context, u Source, f *mcp.ClientInfo, uri string) (has bool, err error)
	// SignsIn contains the servers to which people can sign in.
	SignsIn map[string]bool

	mu        sync.Mutex
	audiences map[Audience]*knownAudience // all audiences except the audience everybody
	listeners map[Audience]int            // for each audience: the number of clients that get notifications of changed lists
	lists     map[serverListKey]*serverList
	indexes   [KindTemplate + 1]index
	merged    map[mergedListKey]*mergedList // a list that is not in this map is merged when a client next needs it
	pages     pageCache
	ranked    ranked
	// slowFailures contains the servers whose last reading took a long time and failed. Requests do
	// not wait for a server in this map. When a reading of the server succeeds, the catalog removes
	// the server from the map. Requests still wait for servers whose readings fail quickly.
	slowFailures map[string]bool
	held         map[heldName]hold
	epoch        uint64 // tells what was offered first: later offers have a higher one; see holdLocked
	sealed       bool   // true if something was offered in this epoch, so that the next list begins another one
	owners       owners
	recalled     map[string]bool    // the methods of recallAll
	earlier      map[[2]string]bool // the lists that earlier catalogs have read, by method and server
	ownURIs      URIs
	reported     map[rejectedItem]struct{} // items that the catalog has already passed to Lost or Renamed
	ctx          context.Context           // created on first use; Drain cancels it
	end          context.CancelFunc
	work         work.Group // the goroutines that read lists
}

// lifeLocked returns the context that Drain cancels.
func (c *Catalog) lifeLocked() context.Context {
	if c.ctx == nil {
		c.ctx, c.end = context.WithCancel(context.Background())
	}
	return c.ctx
}

// Drain cancels all readings and prevents new ones. It does not wait until the readings have ended.
func (c *Catalog) Drain() {
	c.mu.Lock()
	c.lifeLocked()
	end := c.end
	c.mu.Unlock()
	end()
}

// Close drains the catalog and waits until its readings have ended. It may be called more than
// once.
func (c *Catalog) Close() {
	c.Drain()
	c.work.Wait()
}

// Listen adds one listener to an audience. A listener is a client that gets notifications of
// changed lists. stop removes the listener. While an audience has a listener, the catalog reads a
// list of the audience again when a server reports that the list may have changed.
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

// Changed records that a server's lists may have changed. kind is "tools", "prompts", "resources",
// or "" for all lists and the server information. If kind is "", the server has not announced which
// list has changed. Therefore, Changed starts new readings of the lists that the catalog has
// already read or tried to read. It announces each list that differs from the list that clients saw
// before. If no earlier reading of a list succeeded, clients saw an empty list.
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

// readAgainLocked reads lists again and announces those that have changed. It skips the lists of an
// audience without listeners, because reading them could open a session that nobody needs. The
// catalog reads these lists when a client requests them. readAgainLocked never skips the lists of
// everybody.
func (c *Catalog) readAgainLocked(again []serverListKey) {
	for _, key := range again {
		at := slices.IndexFunc(c.Sources, func(u Source) bool { return u.Name() == key.server })
		a := c.readerLocked(key, true)
		if at < 0 || a == nil {
			continue
		}
		if _, r := c.readLocked(a, key.method, c.Sources[at]); r != nil {
			r.tell = true
		}
	}
}

// Warm starts to read the lists that clients usually request first. It reads them from the servers
// for which want returns true. It does not wait for the readings.
func (c *Catalog) Warm(want func(server string) bool) {
	var wanted []Source
	for _, u := range c.Sources {
		if want(u.Name()) {
			wanted = append(wanted, u)
		}
	}
	c.recallAll("")
	c.recallAll(mcp.MethodListTools)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range wanted {
		c.readLocked(everybody, "", u)
		c.readLocked(everybody, mcp.MethodListTools, u)
	}
}

// prefix returns the prefix for the names of a server's items.
func (c *Catalog) prefix(u Source) string { return c.prefixOf(u.Name()) }

func (c *Catalog) prefixOf(server string) string {
	if p, ok := c.Prefixes[server]; ok {
		return p
	}
	return server
}
