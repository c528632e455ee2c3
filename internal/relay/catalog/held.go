package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// heldName is a name or URI that clients see in the lists of a method.
type heldName struct{ method, offered string }

// hold is the server that keeps a name, and since when; see Catalog.epoch.
type hold struct {
	server string
	since  uint64
}

// maxHeld is the maximum number of names of one server in Catalog.held. Names in merged lists are kept
// beyond that.
const maxHeld = 10_000

// prefixedBy returns the name of the server whose prefix begins an offered name of another server
// without a prefix. Without this rule, such a server could take the place of the other one's tools,
// also while clients use them. It returns "" if there is no such server.
func (c *Catalog) prefixedBy(u Source, offered string) string {
	if c.prefix(u) != "" {
		return "" // Names.Join keeps the names of servers with different prefixes apart
	}
	for _, other := range c.Sources {
		if p := c.prefix(other); p != "" && strings.HasPrefix(offered, clean(p+c.Names.separator())) {
			return other.Name()
		}
	}
	return ""
}

// contested reports whether several servers have the same prefix, so that they can offer the same
// names.
func (c *Catalog) contested(prefix string) bool {
	n := 0
	for _, u := range c.Sources {
		if c.prefix(u) == prefix {
			n++
		}
	}
	return n > 1
}

// forbiddenLocked returns the reason why a server may not offer an item to an audience, or "".
func (c *Catalog) forbiddenLocked(a *knownAudience, x *item, method string) string {
	switch method {
	case mcp.MethodListTools, mcp.MethodListPrompts:
		if other := c.prefixedBy(x.target.Server, x.offered); other != "" {
			return fmt.Sprintf("the name begins with the prefix of server %q, so only that server may use it", other)
		}
	case mcp.MethodListResources, mcp.MethodListSkills:
		return c.takenLocked(a, x, method)
	}
	return ""
}

// takenLocked returns the reason why a server may not list a URI of a plain scheme, or "": another
// server lists it in the list of the other method, or named it in a result before this server listed
// it. A list that is late proves nothing: the server may have added the URI meanwhile. Before a result
// names its first URI, we read the lists, so no server is late because of us; see View.learn.
func (c *Catalog) takenLocked(a *knownAudience, x *item, method string) string {
	uri := x.target.Name
	if len(c.Sources) < 2 || exclusive(uri) != "" {
		return ""
	}
	other := mcp.MethodListSkills
	if method == other {
		other = mcp.MethodListResources
	}
	mine, have := c.held[heldName{method, uri}], c.held[heldName{other, uri}]
	if mine.server != x.server && have.server != "" && have.server != x.server && c.offersToLocked(a, other, have.server, uri) {
		return fmt.Sprintf("server %q already lists the same URI", have.server)
	}
	n, _ := c.owners.find(uri, 0)
	if len(n) == 0 || n[0].server == x.target.Server || mine.server == x.server {
		return ""
	}
	return fmt.Sprintf("a result of server %q named the same URI first", n[0].server.Name())
}

// Inherit takes over from the catalog that served the same clients before a change of the
// configuration which server had a name or URI first. Otherwise the order in the file would decide
// again, and calls of connected clients could go to another server. A server with new settings is
// still the same one. Inherit must be called before the catalog is used.
func (c *Catalog) Inherit(before *Catalog) {
	before.mu.Lock()
	c.held, c.epoch, c.sealed = maps.Clone(before.held), before.epoch, true
	c.earlier = make(map[[2]string]bool)
	maps.Copy(c.earlier, before.earlier) // also of lists that nobody has asked that catalog for
	for key := range before.lists {
		at := [2]string{key.method, key.server}
		c.earlier[at] = before.wasReadLocked(key.method, key.server)
	}
	before.mu.Unlock()
	c.owners.inherit(&before.owners, c.Sources)
}

// wasReadLocked reports whether a list of a server was read for any audience.
func (c *Catalog) wasReadLocked(method, server string) bool {
	if c.earlier[[2]string{method, server}] {
		return true
	}
	for key, p := range c.lists {
		if key.method == method && key.server == server && p.have {
			return true
		}
	}
	return false
}

// heldByAnotherLocked reports whether another server already offers the name or URI of x to the
// clients of an audience. It keeps its server until this server no longer has it, even if a server
// that comes first in the configuration offers it later.
func (c *Catalog) heldByAnotherLocked(a *knownAudience, method string, x *item) bool {
	have, ok := c.held[heldName{method, x.offered}]
	return ok && have.server != x.server && c.offersToLocked(a, method, have.server, x.target.Name)
}

// offersToLocked reports whether a server offers an item with this name to an audience.
func (c *Catalog) offersToLocked(a *knownAudience, method, server, name string) bool {
	for _, u := range c.Sources {
		if u.Name() != server {
			continue
		}
		p := c.seenLocked(method, u, a)
		if c.unreadLocked(method, server, p) {
			return true
		}
		return p.has(kindOf(method), name)
	}
	return false
}

// has reports whether the list has an item with this name. The list may be nil. The first call makes
// an index, so that a server with very many names of others does not take all our time.
func (p *serverList) has(kind Kind, name string) bool {
	if p == nil {
		return false
	}
	if p.names == nil {
		p.names = make(map[string]struct{}, len(p.items))
		for _, raw := range p.items {
			p.names[nameOfItem(kind, raw)] = struct{}{}
		}
	}
	_, ok := p.names[name]
	return ok
}

// offersLocked reports whether a server has an item with this name, which it holds, for any audience.
func (c *Catalog) offersLocked(method, server, name string) bool {
	for key, p := range c.lists {
		if key.method == method && key.server == server && (p.cutOff || p.has(kindOf(method), name)) {
			return true
		}
	}
	return c.unreadLocked(method, server, c.lists[serverListKey{method, server, Audience{}}])
}

// unreadLocked reports whether we cannot say what a server no longer offers: an earlier catalog read the
// list, and this one has not tried yet, or the list was cut off. What the server offered before is still
// its own then. p is the list in this catalog, and may be nil.
func (c *Catalog) unreadLocked(method, server string, p *serverList) bool {
	cut := p != nil && p.cutOff
	if !cut && (!c.earlier[[2]string{method, server}] || p != nil && (p.have || p.failed != "")) {
		return false
	}
	return slices.ContainsFunc(c.Sources, func(u Source) bool { return u.Name() == server })
}

// unreadHolderLocked returns the server that held a name before, if its list has not been read since, or
// was cut off before this name, or nil.
func (c *Catalog) unreadHolderLocked(a *knownAudience, name heldName) Source {
	have, ok := c.held[name]
	if !ok {
		return nil
	}
	at := slices.IndexFunc(c.Sources, func(u Source) bool { return u.Name() == have.server })
	if at < 0 {
		return nil
	}
	p := c.seenLocked(name.method, c.Sources[at], a)
	if !c.unreadLocked(name.method, have.server, p) || p.has(kindOf(name.method), name.offered) {
		return nil
	}
	return c.Sources[at]
}

// offerLocked begins another epoch if something was offered in this one. It is called when a list of a
// server has changed, before anybody sees it.
func (c *Catalog) offerLocked() {
	if c.sealed {
		c.epoch++
		c.sealed = false
	}
}

// holdLocked remembers which servers offer the names and URIs of a merged list, and since when. What
// clients see for the first time after the same change, in any of the lists, was offered at the same
// time. So the order of the configuration decides between servers that start together, and not which of
// them is faster.
func (c *Catalog) holdLocked(l *mergedList) {
	if len(c.Sources) < 2 && (len(c.Sources) == 0 || c.prefix(c.Sources[0]) != "") {
		return
	}
	if c.held == nil {
		c.held = make(map[heldName]hold)
	}
	c.sealed = true
	c.holdListLocked(l, c.held)
	if len(c.held) > maxHeld {
		c.forgetHeldLocked(l)
	}
	for i := range l.items {
		x := &l.items[i]
		if x.since = c.epoch; c.held[heldName{l.method, x.offered}].server == x.server {
			x.since = c.held[heldName{l.method, x.offered}].since
		}
	}
}

// holdNameLocked does so for one name that a call gets. It does not begin another epoch, because the other
// names may still be offered at the same time.
func (c *Catalog) holdNameLocked(l *mergedList, name string) {
	if i, ok := l.first[name]; ok {
		if c.held == nil {
			c.held = make(map[heldName]hold)
		}
		c.holdListLocked(&mergedList{kind: l.kind, method: l.method, items: l.items[i : i+1], first: map[string]int{name: 0}}, c.held)
	}
}

// forgetHeldLocked forgets names of servers that hold more than maxHeld, or were removed. Most of these
// names are gone. Names in the merged lists, of which l is the newest, must stay, or another server could
// take them. A server cannot make us forget the names of another one, whose list we may not have read yet.
func (c *Catalog) forgetHeldLocked(l *mergedList) {
	count := make(map[string]int)
	for _, have := range c.held {
		count[have.server]++
	}
	for _, u := range c.Sources {
		if count[u.Name()] <= maxHeld {
			delete(count, u.Name())
		}
	}
	if len(count) == 0 {
		return
	}
	old := maps.Clone(c.held)
	maps.DeleteFunc(c.held, func(_ heldName, have hold) bool { return count[have.server] > 0 })
	for _, have := range c.merged {
		c.holdListLocked(have, old)
	}
	c.holdListLocked(l, old)
}

// holdListLocked does so for one list. old contains what was held before.
func (c *Catalog) holdListLocked(l *mergedList, old map[heldName]hold) {
	contested := map[string]bool{}
	for _, u := range c.Sources {
		p := c.prefix(u)
		contested[p] = contested[p] || p == "" || c.contested(p) // a server without a prefix may be added later
	}
	for offered, i := range l.first {
		x, key := &l.items[i], heldName{l.method, offered}
		if l.kind.key() == "name" && !contested[c.prefixOf(x.server)] {
			continue
		}
		have, ok := old[key]
		if !ok || have.server != x.server && !c.offersLocked(l.method, have.server, x.target.Name) {
			have = hold{x.server, c.epoch}
		}
		c.held[key] = have
	}
}
