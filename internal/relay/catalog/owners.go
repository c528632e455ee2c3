package catalog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// These constants bound what is remembered about resources that are in no list, and the search for
// their servers.
const (
	maxOwners     = 2000 // of one server, in each of the two maps of a recent
	maxLearned    = 200  // from one result
	maxLearnedURI = 2048 // bytes
	maxAsked      = 32   // servers in one search
	askLimit      = 10 * time.Second
	missedRest    = 2 * time.Second // how long a search without success is not repeated
)

// owners remembers the servers of resources that are in no list: of those that a result of the
// server names, and of those that the server was asked for. Each server has a share of its own, so
// that one that names very many URIs forgets only its own. The zero value is ready to use.
type owners struct {
	mu     sync.Mutex
	shares map[Source]*share
	count  uint64 // counts what is learned
	missed map[string]time.Time
}

// share is what is remembered of one server: when it first named a URI, and when, by owners.count, its
// result named one to a client last.
type share struct {
	named recent[string, firstNamed]
	told  recent[telling, uint64]
}

// firstNamed is when a server named a URI first, by owners.count and by the clock.
type firstNamed struct {
	n  uint64
	at time.Time
}

// naming says which servers have named a URI, the first one first, and when the first one did.
type naming struct {
	servers []Source
	at      time.Time
}

// telling is a URI that a result for one client names.
type telling struct {
	conversation uint64
	uri          string
}

// told is the server whose result named a URI last to one client. several is true if another one did
// so before.
type told struct {
	last    Source
	several bool
}

// recent is a map that forgets its oldest entries.
type recent[K comparable, V any] struct{ young, old map[K]V }

func (r *recent[K, V]) get(key K) V {
	if x, ok := r.young[key]; ok {
		return x
	}
	return r.old[key]
}

func (r *recent[K, V]) clone() recent[K, V] {
	return recent[K, V]{maps.Clone(r.young), maps.Clone(r.old)}
}

// set replaces an entry. When young is full, it becomes old.
func (r *recent[K, V]) set(key K, x V) {
	if _, ok := r.young[key]; !ok && len(r.young) >= maxOwners {
		r.old, r.young = r.young, nil
	}
	if r.young == nil {
		r.young = make(map[K]V)
	}
	r.young[key] = x
}

// learn remembers that a server has a URI. conversation is the client to which its result named it, or
// 0 if this is not known.
func (o *owners) learn(uri string, u Source, conversation uint64) {
	if uri == "" || len(uri) > maxLearnedURI {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	x := o.shares[u]
	if x == nil {
		x = &share{}
		if o.shares == nil {
			o.shares = make(map[Source]*share)
		}
		o.shares[u] = x
	}
	o.count++
	if x.named.get(uri).n == 0 {
		x.named.set(uri, firstNamed{o.count, time.Now()})
	}
	if conversation != 0 {
		x.told.set(telling{conversation, uri}, o.count)
	}
}

// inherit takes over what another one remembers of servers with the names of sources.
func (o *owners) inherit(before *owners, sources []Source) {
	before.mu.Lock()
	defer before.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count, o.shares = before.count, make(map[Source]*share)
	for _, u := range sources {
		for old, x := range before.shares {
			if old.Name() == u.Name() {
				o.shares[u] = &share{named: x.named.clone(), told: x.told.clone()}
			}
		}
	}
}

// find returns what is known about a URI.
func (o *owners) find(uri string, conversation uint64) (n naming, t told) {
	o.mu.Lock()
	defer o.mu.Unlock()
	first, last := map[Source]firstNamed{}, uint64(0)
	for u, x := range o.shares {
		if at := x.named.get(uri); at.n > 0 {
			first[u] = at
			n.servers = append(n.servers, u)
		}
		if at := x.told.get(telling{conversation, uri}); at > 0 {
			t.several = t.several || t.last != nil
			if at > last {
				t.last, last = u, at
			}
		}
	}
	slices.SortFunc(n.servers, func(a, b Source) int {
		return cmp.Compare(first[a].n, first[b].n)
	})
	if len(n.servers) > 0 {
		n.at = first[n.servers[0]].at
	}
	return n, t
}

// forget forgets the server of a URI, because the server no longer has the resource.
func (o *owners) forget(uri string, u Source) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x := o.shares[u]; x != nil && x.named.get(uri).n > 0 {
		x.named.set(uri, firstNamed{})
	}
}

// miss records that a search found no server. wasMissed reports whether this was a short time ago.
func (o *owners) miss(search string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.missed == nil || len(o.missed) >= maxOwners {
		o.missed = make(map[string]time.Time)
	}
	o.missed[search] = time.Now()
}

func (o *owners) wasMissed(search string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, ok := o.missed[search]
	return ok && time.Since(at) < missedRest
}

// learn remembers that a result for the client named a URI of a server. If another server has listed
// the URI before anybody named it, this one names what the other one has.
func (v View) learn(uri string, u Source) {
	if n, _ := v.c.owners.find(uri, 0); len(n.servers) > 0 || !v.c.listedByAnother(v.c.audience(v.client), uri, u) {
		v.c.owners.learn(uri, u, v.conversation())
	}
}

func (v View) conversation() uint64 {
	if v.client == nil {
		return 0
	}
	return v.client.Conversation
}

func (c *Catalog) listedByAnother(a *knownAudience, uri string, u Source) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.Sources, func(other Source) bool {
		return other != u && (c.seenLocked(mcp.MethodListResources, other, a).has(KindResource, uri) || c.seenLocked(mcp.MethodListSkills, other, a).has(KindResource, uri))
	})
}

// byName returns the server of a URI that results have named, or nil if none has. lister is the server
// that lists the URI, or nil.
//
// If several servers have named it, nobody can say for sure which one a client means, so we take the
// best sign there is. A client that got the URI from one server means that one. If it got it from
// several or from none, a server that lists it or has a template for it is likely to have it. Otherwise, a client that got it from several servers
// is likely to mean the last result. Without any sign, or if the client got the URI from one server
// and another one lists it, we refuse: a server could name any URI, and
// then get what the client meant for another one.
func (v View) byName(ctx context.Context, a *knownAudience, uri string, lister Source) (Source, error) {
	n, t := v.c.owners.find(uri, v.conversation())
	all := slices.DeleteFunc(slices.Clone(n.servers), func(u Source) bool {
		return !v.Shows(KindServer, u.Name(), "") || !v.Shows(KindResource, u.Name(), uri)
	})
	if !slices.Contains(all, t.last) {
		t = told{}
	}
	switch {
	case lister != nil && (t.last == nil || t.last == lister || t.several):
		return lister, nil
	case lister != nil:
		return nil, ambiguous(uri, []Source{t.last, lister})
	case len(all) == 0:
		return nil, nil
	case len(all) == 1:
		return all[0], nil
	case t.last != nil && !t.several:
		return t.last, nil
	}
	if u := v.byTemplate(ctx, a, uri, all); u != nil {
		return u, nil
	}
	if t.last != nil {
		return t.last, nil
	}
	return nil, ambiguous(uri, all)
}

// ambiguous returns the error for a URI that may belong to several servers.
func ambiguous(uri string, all []Source) error {
	names := make([]string, len(all))
	for i, u := range all {
		names[i] = u.Name()
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(
		"the resource %s may belong to any of these servers, so use the endpoint of one of them: %s", excerpt.Cut(uri, maxRepeated), strings.Join(names, ", "))}
}

// ask asks the servers that the client may see which of them has a resource, and remembers the
// answer. If several have it, one with a template for the scheme is chosen, and else the first in the
// configuration. But for an exclusive URI, ask then returns nil, because nobody can tell which one is
// meant.
func (v View) ask(ctx context.Context, a *knownAudience, uri string) Source {
	if v.c.Holds == nil || strings.Contains(uri, "{") {
		return nil // a URI template is not a URI (RFC 6570)
	}
	var all []Source
	search := uri
	for i, h := range v.c.hellos(ctx, a) {
		u := v.c.Sources[i]
		if h != nil && has(h.Capabilities, "resources") && v.Shows(KindServer, u.Name(), "") && v.Shows(KindResource, u.Name(), uri) && len(all) < maxAsked {
			all, search = append(all, u), search+"\x00"+u.Name()
		}
	}
	if len(all) == 0 || v.c.owners.wasMissed(search) {
		return nil
	}
	claim := v.byScheme(ctx, a, uri)
	rank := func(u Source) int {
		if slices.Contains(claim, u) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(x, y Source) int { return rank(x) - rank(y) })
	owner := v.firstHolder(ctx, all, uri)
	switch {
	case owner != nil && exclusive(uri) != "":
		v.c.showURI(owner.Name(), uri, true)
	case owner != nil:
		v.c.owners.learn(uri, owner, 0)
	default:
		v.c.owners.miss(search)
	}
	return owner
}

// firstHolder asks servers at the same time, and waits no longer than the result needs.
func (v View) firstHolder(ctx context.Context, all []Source, uri string) (owner Source) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	type answer struct {
		at  int
		has bool
	}
	answers := make(chan answer, len(all))
	for i, u := range all {
		asking.Go(func() { answers <- answer{i, v.c.Holds(ctx, u, v.client, uri)} })
	}
	answered, have := make([]bool, len(all)), make([]bool, len(all))
	for range all {
		got := <-answers
		answered[got.at], have[got.at] = true, got.has
		if exclusive(uri) != "" {
			if got.has && owner != nil {
				return nil
			} else if got.has {
				owner = all[got.at]
			}
			continue
		}
		for i := 0; i < len(all) && answered[i]; i++ {
			if have[i] {
				return all[i]
			}
		}
	}
	return owner
}

// skills returns the merged list of skills, or nil if no server has any.
func (v View) skills(ctx context.Context, a *knownAudience) *mergedList {
	if v.Declared(ctx, mcp.MethodListSkills) != nil {
		return nil
	}
	return v.c.list(ctx, a, mcp.MethodListSkills)
}

// bySkill returns the server with a skill whose folder contains the URI. A skill's files need not be
// in a list of resources, and a skill may have any scheme (SEP-2640, "Skill URIs"; those of skill:// are
// in URIs). But every server can list a skill at file:///home/SKILL.md. So a folder needs a whole
// segment behind the host, and it is only a guess about what no server lists, links or has a template
// for.
func (v View) bySkill(ctx context.Context, a *knownAudience, uri string) (owner Source) {
	l := v.skills(ctx, a)
	if l == nil {
		return nil
	}
	length := 0
	for i := range l.items {
		x := &l.items[i]
		folder := x.offered[:strings.LastIndexByte(x.offered, '/')+1]
		if len(folder) > length && ownFolder(folder) && strings.HasPrefix(uri+"/", folder) && l.find(x.offered, v.show) == x {
			owner, length = x.target.Server, len(folder)
		}
	}
	if slices.ContainsFunc(v.byScheme(ctx, a, uri), func(u Source) bool { return u != owner }) {
		return nil
	}
	return owner
}

// ownFolder reports whether a folder has a segment of its own, behind the host: git://host/repo/ has
// one, and git://host/ and file:/// do not (RFC 3986 §3).
func ownFolder(folder string) bool {
	_, rest, ok := strings.Cut(folder, "://")
	_, path, _ := strings.Cut(rest, "/")
	return ok && strings.IndexByte(path, '/') > 0
}
