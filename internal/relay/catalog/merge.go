package catalog

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// maxRepeated is the maximum length in bytes of a text from a client or a server inside an error
// message or a log record.
const maxRepeated = 128

type mergedListKey struct {
	method   string
	audience Audience
}

// mergedList combines the lists of all servers for one method and one audience. It is immutable, but for seen and tools.
type mergedList struct {
	method string
	kind   Kind
	first  map[string]int // for each offered name or URI: the index in items of the first item with this name
	items  []item         // in the order of the servers; the items of one server are in the server's order
	// shadowed is the number of items whose offered name or URI an earlier item already has. A
	// client sees a shadowed item only if the client's filter hides the earlier items.
	shadowed int
	rejected []rejectedItem // at most maxRejected items
	seen     seenItems
	tools    struct {
		once  sync.Once
		index *toolIndex
	}
}

// seenItems keeps what mergedList.shown has found, since a filter with many rules takes longer for a long list than
// the rest of the answer.
type seenItems struct {
	mu sync.Mutex
	by map[Filter]string
}

// maxSeen is how many filters a list remembers.
const maxSeen = 64

// item is one item of a merged list.
type item struct {
	offered string // the name or URI that clients see
	json    []byte
	target  Target
	server  string
	// mayBeTask is true for a tool of a modern server that supports tasks, if the tool does not
	// declare whether it can be called as a task.
	mayBeTask bool
	since     uint64 // when the server first offered it; see hold
	// next is the index of the next item with the same offered name or URI. It is 0 if there is no
	// such item.
	next int
}

// Target is the server's item to which an offered name or URI refers.
type Target struct {
	Server Source
	Name   string // the server's own name for the item
	// Quoted is Name as a JSON string. It is nil for a URI that clients see unchanged. It must not be
	// modified.
	Quoted []byte
	// SignsIn says that the item is not the server's: it is the tool SignIn.
	SignsIn bool
}

// rejectedItem is an item that clients do not see, or that they see under an unusual name.
type rejectedItem struct {
	server, method string
	RejectedItem
	lost bool // true if clients do not see the item
}

// These constants limit the memory for rejected items.
const (
	maxRejected = 100  // in one merged list
	maxReported = 1000 // the maximum number of items in Catalog.reported; a larger map is cleared
)

func (l *mergedList) reject(u Source, name, why string, lost bool) {
	if len(l.rejected) < maxRejected {
		l.rejected = append(l.rejected, rejectedItem{u.Name(), l.method, RejectedItem{excerpt.Cut(name, maxRepeated), why}, lost})
	}
}

// add adds an item to the list. If the list already has items with the same offered name, add
// returns the first of them. A client then sees the new item only if the client's filter hides all
// of them. add does not add an item if the list already has an item with the same offered name, the
// same server and the same own name.
func (l *mergedList) add(x item) (by *item) {
	at, taken := l.first[x.offered]
	if !taken {
		l.first[x.offered] = len(l.items)
		l.items = append(l.items, x)
		return nil
	}
	for i := at; ; i = l.items[i].next {
		if have := &l.items[i]; have.server == x.server && have.target.Name == x.target.Name {
			return &l.items[at] // not added: both items have the same name and server, so no filter can distinguish them
		} else if have.next == 0 {
			have.next = len(l.items)
			break
		}
	}
	l.items = append(l.items, x)
	l.shadowed++
	return &l.items[at]
}

// find returns the first item with the given offered name that show does not hide. It returns nil
// if there is no such item.
func (l *mergedList) find(offered string, show Filter) *item {
	at, ok := l.first[offered]
	if !ok {
		return nil
	}
	for {
		x := &l.items[at]
		if x.shown(l.kind, show) {
			return x
		}
		if at = x.next; at == 0 {
			return nil
		}
	}
}

// shown reports whether a client with the filter show sees the item. The tool SignIn is shown to all who see
// the server.
func (x *item) shown(kind Kind, show Filter) bool {
	if x.target.SignsIn {
		return shows(show, KindServer, x.server, "")
	}
	return shows(show, kind, x.server, x.target.Name)
}

// shown says which items a client with the filter show sees: a bit for each, or "" for all.
func (l *mergedList) shown(show Filter) string {
	if show == nil && l.shadowed == 0 {
		return ""
	}
	if show == nil || !reflect.ValueOf(show).Comparable() {
		return l.look(show)
	}
	l.seen.mu.Lock()
	bits, ok := l.seen.by[show]
	l.seen.mu.Unlock()
	if ok {
		return bits
	}
	bits = l.look(show) // without the lock, so that nobody waits for it
	l.seen.mu.Lock()
	defer l.seen.mu.Unlock()
	if l.seen.by == nil || len(l.seen.by) >= maxSeen {
		l.seen.by = make(map[Filter]string)
	}
	l.seen.by[show] = bits
	return bits
}

// look does the same as shown, but asks the filter.
func (l *mergedList) look(show Filter) string {
	bits, all := make([]byte, (len(l.items)+7)/8), true
	for i := range l.items {
		x := &l.items[i]
		if x.shown(l.kind, show) && (l.shadowed == 0 || l.find(x.offered, show) == x) {
			bits[i/8] |= 1 << (i % 8)
		} else {
			all = false
		}
	}
	if all {
		return ""
	}
	return string(bits)
}

// only returns the items that shown has chosen. The caller must not modify them.
func (l *mergedList) only(shown string) []item {
	if shown == "" {
		return l.items
	}
	out := make([]item, 0, len(l.items))
	for i := range l.items {
		if shown[i/8]&(1<<(i%8)) != 0 {
			out = append(out, l.items[i])
		}
	}
	return out
}

// list returns the merged list of a method for an audience. It first reads the server lists that
// are not fresh, and waits for them for at most the grace time.
func (c *Catalog) list(ctx context.Context, a *knownAudience, method string) *mergedList {
	c.refresh(ctx, a, method)
	if (method == mcp.MethodListResources || method == mcp.MethodListTemplates) && c.hasSkills(a, method) {
		c.refresh(ctx, a, mcp.MethodListSkills) // the URIs below a skill's root change together
	}
	return c.mergedList(a, method)
}

// mergedList returns the merged list of a method for an audience, as the server lists are now. When
// it merges them, it reports the items that clients do not see.
func (c *Catalog) mergedList(a *knownAudience, method string) *mergedList {
	c.mu.Lock()
	l, tell := c.mergedListLocked(a, method)
	c.mu.Unlock()
	c.report(tell)
	return l
}

// mergedListLocked does the same, but returns what the caller must pass to report later. It keeps no list
// that is merged early, and no server holds its names because of it.
func (c *Catalog) mergedListLocked(a *knownAudience, method string) (l *mergedList, tell []rejectedItem) {
	key := mergedListKey{method, a.Audience}
	if l = c.merged[key]; l != nil {
		return l, nil
	}
	l = c.mergeLocked(a, method)
	if c.earlyLocked(a, method) {
		return l, nil
	}
	c.holdLocked(l)
	if c.merged == nil {
		c.merged = make(map[mergedListKey]*mergedList)
	}
	if c.knownLocked(a.Audience) == a {
		c.merged[key] = l
	}
	return l, c.newRejectedLocked(l.rejected)
}

// earlyLocked reports whether a server still has time to list its items before the others get its names.
// A list is merged nevertheless if its client gives up, or for an operator.
func (c *Catalog) earlyLocked(a *knownAudience, method string) bool {
	return slices.ContainsFunc(c.Sources, func(u Source) bool {
		p := c.seenLocked(method, u, a)
		if p != nil && (p.have || p.failed != "" || !p.kept.IsZero()) {
			return false
		}
		own := c.lists[serverListKey{method, u.Name(), a.at(u.Name())}]
		return slices.ContainsFunc([]*serverList{p, own}, func(p *serverList) bool {
			return p != nil && p.reading != nil && p.reading.finished.IsZero() && time.Since(p.reading.started) < c.grace()
		})
	})
}

// report reports items that clients do not see, or that they see under an unusual name.
func (c *Catalog) report(all []rejectedItem) {
	for _, x := range all {
		if x.lost {
			c.lost(x.server, x.method, LeftOut(x.Name, x.Why))
		} else if c.Renamed != nil {
			c.Renamed(x.server, x.method, x.Name, x.Why)
		}
	}
}

// hasSkills reports whether a server declares the extension for skills.
func (c *Catalog) hasSkills(a *knownAudience, method string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.Sources, func(u Source) bool {
		p := c.seenLocked(method, u, a)
		return p != nil && p.hello != nil && mcp.LookupMethod(mcp.MethodListSkills).OfferedBy(p.hello.Capabilities)
	})
}

// reportOnce reports each loss that concerns no single server, once.
func (c *Catalog) reportOnce(left []string) {
	if len(left) == 0 {
		return
	}
	all := make([]rejectedItem, len(left))
	for i, why := range left {
		all[i] = rejectedItem{RejectedItem: RejectedItem{Why: why}, lost: true}
	}
	c.mu.Lock()
	tell := c.newRejectedLocked(all)
	c.mu.Unlock()
	for _, x := range tell {
		c.lost("", mcp.MethodInitialize, x.Why)
	}
}

func (c *Catalog) lost(server, method, why string) {
	if c.Lost != nil {
		c.Lost(server, method, why)
	}
}

// LeftOut returns a clause that says that a list does not contain an item, and why.
func LeftOut(name, why string) string {
	return fmt.Sprintf("%q is left out: %s", excerpt.Cut(name, maxRepeated), why)
}

// newRejectedLocked returns the rejected items that it has not returned before. Each new merge of
// the lists rejects the same items again, but each item must be reported only once.
func (c *Catalog) newRejectedLocked(all []rejectedItem) (out []rejectedItem) {
	if c.reported == nil || len(c.reported) > maxReported {
		c.reported = make(map[rejectedItem]struct{})
	}
	for _, x := range all {
		if _, known := c.reported[x]; !known {
			c.reported[x] = struct{}{}
			out = append(out, x)
		}
	}
	return out
}

// hellos returns the server information of each server for an audience, in the order of Sources. An
// element is nil if the catalog does not have the information of the server yet.
func (c *Catalog) hellos(ctx context.Context, a *knownAudience) []*mcp.ServerInfo {
	c.refresh(ctx, a, "")
	return c.knownHellos(a)
}

// knownHellos does the same as hellos, but reads nothing.
func (c *Catalog) knownHellos(a *knownAudience) []*mcp.ServerInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*mcp.ServerInfo, len(c.Sources))
	for i, u := range c.Sources {
		if p := c.seenLocked("", u, a); p != nil {
			out[i] = p.hello
		}
		if out[i] == nil && c.mustSignInLocked(a, "", u) {
			out[i] = everything
		}
	}
	return out
}

func has(object []byte, key string) bool {
	return !jsonrpc.Find(object, jsonrpc.Whole(object), key).IsZero()
}

// mergeLocked merges the servers' lists for one method and one audience.
func (c *Catalog) mergeLocked(a *knownAudience, method string) *mergedList {
	l := &mergedList{method: method, kind: kindOf(method), first: make(map[string]int)}
	key := l.kind.key()
	if key != "name" {
		c.findRootsLocked(a)
	}
	var late []item
	for _, u := range c.Sources {
		p := c.seenLocked(method, u, a)
		if x := c.signInItemLocked(a, method, u); x != nil {
			l.add(*x)
		}
		if p == nil {
			continue
		}
		hello := c.seenLocked("", u, a)
		for _, x := range p.left {
			l.reject(u, nameOfItem(l.kind, x.JSON), x.Why, true)
		}
		directed := method == mcp.MethodListTools && hello != nil && hello.hello != nil && hello.hello.Tasks() == mcp.DirectedTasks
		for _, raw := range p.items {
			at := jsonrpc.Find(raw, jsonrpc.Whole(raw), key)
			name, ok := jsonrpc.Text(raw, at)
			if !ok || name == "" {
				l.reject(u, "", "the item has no "+key, true)
				continue
			}
			if !utf8.ValidString(name) {
				l.reject(u, jsonrpc.Shown(name), "the "+key+" is not valid Unicode: it contains half of a surrogate pair", true)
				continue
			}
			if _, ok := c.Renames.Shown(l.kind, u.Name(), name); !ok {
				l.reject(u, name, nameGiven, true)
				continue
			}
			x := item{offered: name, json: raw, server: u.Name(), target: Target{Server: u, Name: name}}
			changed := c.present(&x, method, raw, at)
			x.mayBeTask = directed && !has(x.json, "execution")
			if why := c.forbiddenLocked(a, &x, method); why != "" {
				l.reject(u, name, why, true)
				continue
			}
			if _, taken := l.first[x.offered]; !taken && c.heldByAnotherLocked(a, method, &x) {
				late = append(late, x)
				continue
			}
			if by := l.add(x); by != nil {
				l.reject(u, name, taken(by, u.Name(), name), true)
				continue
			}
			if shown, _ := c.Renames.Shown(l.kind, u.Name(), name); key == "name" && x.offered != c.Names.plain(c.prefix(u), shown) {
				l.reject(u, name, "the name is too long, is ambiguous, or contains characters that clients refuse; clients see the item as "+x.offered, false)
			}
			if changed != "" {
				l.reject(u, name, changed, false)
			}
		}
	}
	c.addLateLocked(a, l, late)
	return l
}

// nameGiven is why clients don't see an item.
const nameGiven = "a rule gives its name to another item of the server"

// addLateLocked adds the items whose names another server had first. A client sees one of them only if the
// other server no longer has the name, or if the client's filter hides that server.
func (c *Catalog) addLateLocked(a *knownAudience, l *mergedList, late []item) {
	for _, x := range late {
		if _, taken := l.first[x.offered]; !taken {
			if by := c.unreadHolderLocked(a, heldName{l.method, x.offered}); by != nil {
				l.reject(x.target.Server, x.target.Name, fmt.Sprintf("server %q had an item with the same name, and its list has not been read to its end since", by.Name()), true)
				continue
			}
		}
		if by := l.add(x); by != nil {
			l.reject(x.target.Server, x.target.Name, fmt.Sprintf("server %q already offers an item with the same name", by.server), true)
		}
	}
}

// present sets the name or URI under which clients see an item, and the item as they see it. The
// parameter at is the position of the name or URI in raw. changed is the reason why clients see
// another URI in the item, or "".
func (c *Catalog) present(x *item, method string, raw []byte, at jsonrpc.Span) (changed string) {
	var e jsonrpc.Edits
	if kindOf(method).key() == "name" {
		shown, _ := c.Renames.Shown(kindOf(method), x.server, x.target.Name)
		x.offered = c.Names.Join(c.prefix(x.target.Server), shown)
		x.target.Quoted = quoted(x.target.Name, at.Of(raw))
		e.Replace(mcp.WhyName, at, jsonrpc.AppendQuote(nil, x.offered))
	} else if x.offered = c.showURI(x.server, x.target.Name, true); x.offered != x.target.Name {
		x.target.Quoted = quoted(x.target.Name, at.Of(raw))
	}
	itemURIs(method, raw, func(at jsonrpc.Span) {
		if why := c.showAt(x.server, raw, at, true, &e); changed == "" {
			changed = why
		}
	})
	if e.Len() > 0 {
		x.json = jsonrpc.Splice(make([]byte, 0, len(raw)+32), raw, &e)
	}
	return changed
}

// findRootsLocked records the skills of the servers, before other lists name their files.
func (c *Catalog) findRootsLocked(a *knownAudience) {
	for _, u := range c.Sources {
		if p := c.seenLocked(mcp.MethodListSkills, u, a); p != nil {
			for _, raw := range p.items {
				c.uris().addRoot(u.Name(), nameOfItem(KindResource, raw))
			}
		}
	}
}

// quoted returns name as a JSON string. raw is the server's own JSON string for the name. If raw
// has the same bytes as the result, quoted returns raw.
func quoted(name string, raw []byte) []byte {
	if own := jsonrpc.AppendQuote(nil, name); !bytes.Equal(own, raw) {
		return own
	}
	return raw
}

// taken returns the reason why clients do not see an item of a server. The reason is that the
// earlier item by has the same offered name. name is the own name of the hidden item.
func taken(by *item, server, name string) string {
	switch {
	case by.server != server:
		return fmt.Sprintf("server %q has an item with the same name and comes first", by.server)
	case by.target.Name == name:
		return "the server lists this name twice; clients see only the first item"
	}
	return fmt.Sprintf("the item would get the same name as %q of the same server", excerpt.Cut(by.target.Name, maxRepeated))
}
