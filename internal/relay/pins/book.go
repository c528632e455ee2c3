package pins

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// Mode says what a changed definition means.
type Mode uint8

// The modes. The zero value is none of them.
const (
	Off  Mode = iota + 1 // nothing is remembered
	Warn                 // a change is reported, and that's all
	Hold                 // a changed definition is held until somebody approves it
)

// Modes are the names of the modes in settings, the first for Off.
func Modes() []string { return []string{"off", "warn", "hold"} }

// String returns the name of the mode.
func (m Mode) String() string { return Modes()[m-1] }

// ID names what has a definition.
type ID struct {
	Server string
	Kind   string // "tool", "prompt" or "template"
	Name   string // the server's own name, or the URI template
}

// State is what is known about one definition.
type State string

// The states of a [Pin]. A definition that has changed, and about which nobody has decided yet, has none.
const (
	Trusted  State = "trusted" // the first one that was seen
	Approved State = "approved"
	Rejected State = "rejected"
)

// Pin is a definition that was trusted, approved or rejected. One ID may have several, since what a server lists
// may depend on its client's capabilities.
type Pin struct {
	ID
	Sum        Sum
	State      State
	Definition []byte // without secrets; nil if it's too long to be kept, or where only states matter
	Since      time.Time
	Actor      string // who decided; the subject of a principal
}

// Change is a definition that has changed, and that nobody has approved.
type Change struct {
	ID
	Sum        Sum
	Definition []byte
	Since      time.Time // when it was first seen
	Rejected   bool      // somebody has decided already; an approval takes that back
	first      uint64    // and as which of all changes
	last       uint64    // when it was last seen
}

// These constants bound a Book. Of what doesn't fit, nothing is trusted.
const (
	maxPerServer = 20_000 // what has a definition
	maxChanges   = 4      // of one ID, of which the newest count
)

// Book has the pins of one project. Create one with [NewBook].
type Book struct {
	mu      sync.Mutex
	known   map[ID]*entry
	servers map[string]int // how many IDs each has
	seen    uint64
	fresh   []Pin
	news    []Change // changes that nobody was told of
}

// entry is what a Book knows of one ID.
type entry struct {
	states  map[Sum]State
	changes []*Change // also those that were rejected
	told    int       // how many changes somebody was told of, since somebody last decided
	// raw is a hash of the bytes that were judged last, and sum their Sum, which takes a hundred times as long.
	raw uint64
	sum Sum
}

var rawSeed = maphash.MakeSeed()

// NewBook returns a book with the given pins.
func NewBook(all []Pin) *Book {
	b := &Book{known: make(map[ID]*entry), servers: make(map[string]int)}
	for i := range all {
		b.addLocked(&all[i])
	}
	return b
}

func (b *Book) addLocked(p *Pin) {
	e := b.known[p.ID]
	if e == nil {
		e = &entry{states: make(map[Sum]State, 1)}
		b.known[p.ID] = e
		b.servers[p.Server]++
	}
	e.states[p.Sum] = p.State
}

// Judge reports whether a definition is one to trust: the first that was seen, or one that was approved. now
// is the time.
func (b *Book) Judge(id ID, raw []byte, now time.Time) bool {
	quick := maphash.Bytes(rawSeed, raw)
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.known[id]
	var sum Sum
	if e != nil && e.raw == quick {
		sum = e.sum
	} else {
		b.mu.Unlock()
		sum = SumOf(raw)
		b.mu.Lock()
		if e = b.known[id]; e != nil {
			e.raw, e.sum = quick, sum
		}
	}
	if e == nil {
		if b.servers[id.Server] >= maxPerServer {
			return false
		}
		p := Pin{ID: id, Sum: sum, State: Trusted, Since: now, Definition: slices.Clone(raw)}
		b.addLocked(&p)
		b.fresh = append(b.fresh, p)
		return true
	}
	if e.trusts(sum) {
		return true
	}
	b.changedLocked(e, id, sum, raw, now)
	return false
}

// trusts reports whether a definition was the first one, or was approved.
func (e *entry) trusts(sum Sum) bool { return e.states[sum] == Trusted || e.states[sum] == Approved }

// changedLocked remembers a change for whoever decides.
func (b *Book) changedLocked(e *entry, id ID, sum Sum, raw []byte, now time.Time) {
	b.seen++
	for _, c := range e.changes {
		if c.Sum == sum {
			c.last = b.seen
			return
		}
	}
	c := &Change{ID: id, Sum: sum, Definition: slices.Clone(raw), Since: now, first: b.seen, last: b.seen}
	if e.changes = append(e.changes, c); len(e.changes) > maxChanges {
		e.changes = slices.Delete(e.changes, 0, 1)
	}
	if e.told < maxChanges && e.states[sum] != Rejected { // a server that changes with each list isn't reported each time
		e.told++
		b.news = append(b.news, *c)
	}
}

// Fresh returns what was seen for the first time since the last call, and the changes that nobody was told of.
func (b *Book) Fresh() (first []Pin, changed []Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first, changed, b.fresh, b.news = b.fresh, b.news, nil, nil
	return first, changed
}

// Again takes back what Fresh has returned and nobody could keep.
func (b *Book) Again(first []Pin) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fresh = append(first, b.fresh...)
}

// Waits reports whether Fresh has something to return.
func (b *Book) Waits() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.fresh)+len(b.news) > 0
}

// Settled reports whether nobody has to decide about a definition, and nobody has rejected one that the server sent
// for it.
func (b *Book) Settled(id ID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.known[id]
	if e == nil || slices.ContainsFunc(e.changes, e.isCurrent) {
		return false
	}
	for _, state := range e.states {
		if state == Rejected {
			return false
		}
	}
	return true
}

// Changes returns all changes about which somebody should decide or has decided to reject them, sorted. If a
// definition has changed again, the one before isn't among them: a change counts as long as no other one was first
// seen after it was last seen.
func (b *Book) Changes() (all []Change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.known {
		for _, c := range e.changes {
			if e.isCurrent(c) {
				all = append(all, e.shown(c))
			}
		}
	}
	slices.SortFunc(all, func(x, y Change) int {
		return cmp.Or(cmp.Compare(x.Server, y.Server), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name), cmp.Compare(x.first, y.first))
	})
	return all
}

// isCurrent reports whether a change counts. One that waits isn't outdated by one that was rejected, which is for
// nobody to use.
func (e *entry) isCurrent(c *Change) bool {
	waits := e.states[c.Sum] != Rejected
	return !slices.ContainsFunc(e.changes, func(o *Change) bool {
		return o.first > c.last && !(waits && e.states[o.Sum] == Rejected)
	})
}

// shown returns a change for people.
func (e *entry) shown(c *Change) Change {
	out := *c
	out.Rejected = e.states[c.Sum] == Rejected
	return out
}

// Change returns the change with a hash, if it's one of Changes.
func (b *Book) Change(id ID, sum Sum) (Change, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.known[id]; e != nil {
		for _, c := range e.changes {
			if c.Sum == sum && e.isCurrent(c) {
				return e.shown(c), true
			}
		}
	}
	return Change{}, false
}

// Decide makes a pin of a change that was approved or rejected, once that is kept.
func (b *Book) Decide(p Pin) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.known[p.ID]
	if e == nil {
		return
	}
	e.states[p.Sum], e.told = p.State, 0
	e.changes = slices.DeleteFunc(e.changes, func(c *Change) bool { return e.trusts(c.Sum) })
}

// Replace makes all the pins of the book, besides those that Fresh has not returned yet. It reports whether
// anything is decided differently now.
func (b *Book) Replace(all []Pin) (differs bool) {
	next := NewBook(all)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.fresh {
		if next.known[b.fresh[i].ID] == nil {
			next.addLocked(&b.fresh[i])
		}
	}
	for id, e := range next.known {
		was := b.known[id]
		if was == nil {
			continue
		}
		e.told = was.told
		for _, c := range was.changes {
			if !e.trusts(c.Sum) {
				e.changes = append(e.changes, c)
			}
		}
		for sum, state := range was.states {
			differs = differs || e.states[sum] != state
		}
		differs = differs || len(e.states) != len(was.states)
	}
	b.known, b.servers = next.known, next.servers
	return differs
}
