package catalog

import "strings"

// heldName is a name that clients see in the lists of a method.
type heldName struct{ method, offered string }

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

// heldByAnotherLocked reports whether another server already offers the name of x to the clients of
// an audience. A name keeps its server until this server no longer has the name, even if a server
// that comes first in the configuration offers the name later.
func (c *Catalog) heldByAnotherLocked(a *knownAudience, method string, x *item) bool {
	holder, ok := c.held[heldName{method, x.offered}]
	if !ok || holder == x.server {
		return false
	}
	for _, u := range c.Sources {
		if u.Name() == holder {
			return c.seenLocked(method, u, a).has(kindOf(method), x.target.Name)
		}
	}
	return false
}

// has reports whether the list has an item with this name. The list may be nil.
func (p *serverList) has(kind Kind, name string) bool {
	if p == nil {
		return false
	}
	for _, raw := range p.items {
		if nameOfItem(kind, raw) == name {
			return true
		}
	}
	return false
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

// holdLocked remembers which servers offer the names of a merged list.
func (c *Catalog) holdLocked(l *mergedList) {
	if l.kind.key() != "name" {
		return
	}
	contested := map[string]bool{}
	for _, u := range c.Sources {
		p := c.prefix(u)
		contested[p] = contested[p] || c.contested(p)
	}
	hold := func(l *mergedList) {
		for offered, i := range l.first {
			x, key := &l.items[i], heldName{l.method, offered}
			if !contested[c.prefixOf(x.server)] {
				continue
			}
			if have, ok := c.held[key]; !ok || have != x.server && !c.offersLocked(l.method, have, x.target.Name) {
				c.held[key] = x.server
			}
		}
	}
	if c.held == nil {
		c.held = make(map[heldName]string)
	}
	hold(l)
	if len(c.held) > maxHeld {
		// Most of these names are gone. Names in the merged lists must stay, or a server could take
		// them by offering very many others.
		clear(c.held)
		for _, have := range c.merged {
			if have.kind.key() == "name" {
				hold(have)
			}
		}
		hold(l)
	}
}
