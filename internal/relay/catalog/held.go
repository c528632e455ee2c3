package catalog

import "strings"

// heldName is a name or URI that clients see in the lists of a method.
type heldName struct{ method, offered string }

// hold is the server that keeps a name, and since when: the number of the merge that found it.
type hold struct {
	server string
	since  uint64
}

// maxHeld is the maximum number of names in Catalog.held.
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
		if u.Name() == server {
			return c.seenLocked(method, u, a).has(kindOf(method), name)
		}
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

// offersLocked reports whether a server has an item with this name for any audience.
func (c *Catalog) offersLocked(method, server, name string) bool {
	for key, p := range c.lists {
		if key.method == method && key.server == server && p.has(kindOf(method), name) {
			return true
		}
	}
	return false
}

// holdLocked remembers which servers offer the names and URIs of a merged list, and since when.
func (c *Catalog) holdLocked(l *mergedList) {
	if len(c.Sources) < 2 {
		return
	}
	if c.held == nil {
		c.held = make(map[heldName]hold)
	}
	c.merges++
	c.holdListLocked(l, c.held)
	if len(c.held) > maxHeld {
		// Most of these names are gone. Names in the merged lists must stay, or a server could take
		// them by offering very many others.
		old := c.held
		c.held = make(map[heldName]hold)
		for _, have := range c.merged {
			c.holdListLocked(have, old)
		}
		c.holdListLocked(l, old)
	}
	for i := range l.items {
		x := &l.items[i]
		if x.since = c.merges; c.held[heldName{l.method, x.offered}].server == x.server {
			x.since = c.held[heldName{l.method, x.offered}].since
		}
	}
}

// holdListLocked does so for one list. old contains what was held before.
func (c *Catalog) holdListLocked(l *mergedList, old map[heldName]hold) {
	contested := map[string]bool{}
	for _, u := range c.Sources {
		p := c.prefix(u)
		contested[p] = contested[p] || c.contested(p)
	}
	for offered, i := range l.first {
		x, key := &l.items[i], heldName{l.method, offered}
		if l.kind.key() == "name" && !contested[c.prefixOf(x.server)] {
			continue
		}
		have, ok := old[key]
		if !ok || have.server != x.server && !c.offersLocked(l.method, have.server, x.target.Name) {
			have = hold{x.server, c.merges}
		}
		c.held[key] = have
	}
}
