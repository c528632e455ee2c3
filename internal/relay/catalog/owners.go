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
)

// owners remembers the servers of resources that are in no list: of those that a result of the
// server names, and of those that the server was asked for. Each server has a share of its own, so
// that one that names very many URIs forgets only its own. The zero value is ready to use.
type owners struct {
	mu     sync.Mutex
	shares map[Source]*share
	count  uint64 // counts what is learned
}

// share is what is remembered of one server: when it first named a URI, and when, by owners.count, its
// result named one to a client last.
type share struct {
	named recent[string, firstNamed]
	told  recent[namedKey, uint64]
}

// firstNamed is when a server named a URI first: by owners.count, and by Catalog.epoch.
type firstNamed struct{ n, since uint64 }

// namer is a server that has named a URI.
type namer struct {
	server Source
	firstNamed
}

// namedKey is a URI that a result for one client names.
type namedKey struct {
	conversation uint64
	uri          string
}

// namedTo is the server whose result named a URI last to one client. several is true if another one did
// so before.
type namedTo struct {
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
func (c *Catalog) learn(uri string, u Source, conversation uint64) {
	if uri == "" || len(uri) > maxLearnedURI {
		return
	}
	c.mu.Lock()
	c.sealed = true
	since := c.epoch
	c.mu.Unlock()
	c.owners.learn(uri, u, conversation, since)
}

func (o *owners) learn(uri string, u Source, conversation, since uint64) {
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
		x.named.set(uri, firstNamed{o.count, since})
	}
	if conversation != 0 {
		x.told.set(namedKey{conversation, uri}, o.count)
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

// find returns what is known about a URI: the servers that have named it, the first one first, and the
// one that named it to a client.
func (o *owners) find(uri string, conversation uint64) (all []namer, t namedTo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := uint64(0)
	for u, x := range o.shares {
		if at := x.named.get(uri); at.n > 0 {
			all = append(all, namer{u, at})
		}
		if at := x.told.get(namedKey{conversation, uri}); at > 0 {
			t.several = t.several || t.last != nil
			if at > last {
				t.last, last = u, at
			}
		}
	}
	slices.SortFunc(all, func(a, b namer) int { return cmp.Compare(a.n, b.n) })
	return all, t
}

// forget forgets the server of a URI, because the server no longer has the resource.
func (o *owners) forget(uri string, u Source) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x := o.shares[u]; x != nil && x.named.get(uri).n > 0 {
		x.named.set(uri, firstNamed{})
	}
}

// learn remembers that a result for the client named a URI of a server. If another server has listed
// the URI before anybody named it, this one names what the other one has.
func (v View) learn(uri string, u Source) {
	if n, _ := v.c.owners.find(uri, 0); len(n) > 0 || !v.c.listedByAnother(v.c.audience(v.client), uri, u) {
		v.c.learn(uri, u, v.conversation())
	}
}

// beforeNaming reads the lists that were never read, before a result names URIs to the client. Otherwise,
// its server could name what others list. Like all readings, one that takes long is not waited for again.
func (v View) beforeNaming(ctx context.Context) {
	c := v.c
	c.mu.Lock()
	unread := slices.ContainsFunc(c.Sources, func(u Source) bool {
		return !c.wasReadLocked(mcp.MethodListResources, u.Name()) || !c.wasReadLocked(mcp.MethodListTemplates, u.Name())
	})
	c.mu.Unlock()
	if unread && len(c.Sources) > 1 {
		v.offers(ctx, c.audience(v.client))
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
	for _, method := range [...]string{mcp.MethodListResources, mcp.MethodListSkills} {
		if have := c.held[heldName{method, uri}].server; have != "" && have != u.Name() && c.offersLocked(method, have, uri) {
			return true
		}
		if slices.ContainsFunc(c.Sources, func(other Source) bool { return other != u && c.seenLocked(method, other, a).has(KindResource, uri) }) {
			return true
		}
	}
	return false
}

// byName returns the server of a URI that results have named, or nil if none has, or if the claims
// decide. lister is the server that lists the URI, or nil.
//
// If several servers have named it, nobody can say for sure which one a client means, so we take the
// best sign there is. A client that got the URI from one server means that one. If it got it from
// several or from none, a server that lists it or has a template for it is likely to have it. Otherwise,
// a client that got it from several servers is likely to mean the last result. Without any sign, or if
// the client got the URI from one server and another one lists it, we refuse: a server could name any
// URI, and then get what the client meant for another one.
func (s *search) byName(ctx context.Context, lister Source) (Source, error) {
	named, t := s.c.owners.find(s.uri, s.conversation())
	named = slices.DeleteFunc(named, func(x namer) bool { return !s.shown(x.server, s.uri) })
	all := make([]Source, len(named))
	for i, x := range named {
		all[i] = x.server
	}
	if !slices.Contains(all, t.last) {
		t = namedTo{}
	}
	switch {
	case lister != nil && t.last == nil:
		return s.listedLater(ctx, lister, all)
	case lister != nil && (t.last == lister || t.several):
		return lister, nil
	case lister != nil:
		return nil, ambiguous(s.uri, []Source{t.last, lister})
	case len(all) == 0:
		return nil, nil
	case t.last != nil && !t.several:
		return t.last, nil
	}
	claims := s.claims(ctx, s.a, s.uri)
	if t.last == nil {
		if u, decided, err := s.contested(ctx, all, claimedBefore(claims, named[0].since)); decided {
			return u, err
		}
	}
	if len(all) == 1 {
		return all[0], nil
	}
	for _, x := range claims {
		if x.strength == fixedTemplate && slices.Contains(all, x.server) {
			return x.server, nil
		}
	}
	if t.last != nil {
		return t.last, nil
	}
	return nil, ambiguous(s.uri, all)
}

// claimedBefore returns the servers whose templates match a URI, and were offered before a result named
// it. The folder of a skill is too weak to count here.
func claimedBefore(all []claim, named uint64) (servers []Source) {
	for _, x := range all {
		if x.since <= named && x.strength != folderOfSkill && !slices.Contains(servers, x.server) {
			servers = append(servers, x.server)
		}
	}
	return servers
}

// contested decides about a URI that results have named to others than this client, although a template
// of another server matched it before. A client with a session got it from no result that we know of, so
// the templates decide. We can't say that of a client without a session. It gets the URI from the only
// server that has it, and else we refuse: both, the one who names what it likes, and the one with a
// template for everything, could want to get what is meant for the other one.
func (s *search) contested(ctx context.Context, named, before []Source) (u Source, decided bool, err error) {
	if len(before) == 0 || !slices.ContainsFunc(named, func(u Source) bool { return u != before[0] }) {
		return nil, false, nil
	}
	if s.conversation() != 0 {
		return nil, true, nil
	}
	for _, u := range named {
		if !slices.Contains(before, u) {
			before = append(before, u)
		}
	}
	if s.ask && s.c.Holds != nil {
		s.firstHolder(ctx, before, 0, true)
		before = slices.DeleteFunc(before, func(u Source) bool { return s.answers[u] == saidNo })
	}
	switch len(before) {
	case 0:
		return nil, false, nil
	case 1:
		return before[0], true, nil
	}
	return nil, true, ambiguous(s.uri, before)
}

// listedLater decides about a URI that a server lists, and that no result has named to this client. A client
// that fills in an older template of another server means that one, and a client that has read the list means
// the lister. So we ask both, and refuse if both have it. We don't wait for the lister, but nobody gets what
// an older server may have that does not answer. If no server may be asked, the older one counts, unless we
// know only of the lister that it has the resource. named are the servers that have it, as far as we know.
func (s *search) listedLater(ctx context.Context, lister Source, named []Source) (Source, error) {
	older := s.olderTemplates(lister)
	switch {
	case len(older) == 0 || s.c.Holds == nil:
		return lister, nil
	case !s.ask && slices.Contains(named, lister) && !slices.Contains(named, older[0]):
		return lister, nil
	case !s.ask:
		return older[0], nil
	}
	s.firstHolder(ctx, append(slices.Clone(older), lister), 0, true)
	owner := lister
	for _, u := range older {
		if s.answers[u] == saidNothing {
			return nil, s.unavailable([]Source{u})
		}
		if s.answers[u] == saidYes {
			owner = u
			break
		}
	}
	switch {
	case owner != lister && s.answers[lister] == saidYes:
		return nil, ambiguous(s.uri, []Source{owner, lister})
	case s.answers[owner] == saidYes:
		s.c.learn(s.uri, owner, 0)
	}
	return owner, nil
}

// olderTemplates returns the servers with fixed templates that match a URI, and that were offered before
// the lister offered anything for it, the first one first. It reads no lists.
func (s *search) olderTemplates(lister Source) (servers []Source) {
	c := s.c
	if len(c.Sources) < 2 {
		return nil
	}
	c.mu.Lock()
	listed := c.epoch
	for _, method := range [...]string{mcp.MethodListResources, mcp.MethodListSkills} {
		if have, ok := c.held[heldName{method, s.uri}]; ok && have.server == lister.Name() {
			listed = min(listed, have.since)
		}
	}
	matching := make(map[heldName]hold)
	for key, have := range c.held {
		if key.method != mcp.MethodListTemplates {
			continue
		}
		strength := strengthOf(key.method, key.offered, s.uri)
		counts := strength == fixedTemplate || strength == wideTemplate && have.server == lister.Name()
		if counts && c.offersLocked(key.method, have.server, key.offered) {
			matching[key] = have
		}
	}
	c.mu.Unlock()
	since := make(map[string]uint64) // by server
	for key, have := range matching {
		if at, ok := since[have.server]; (!ok || have.since < at) && s.Shows(KindTemplate, have.server, key.offered) {
			since[have.server] = have.since
		}
	}
	if at, ok := since[lister.Name()]; ok {
		listed = min(listed, at)
	}
	for _, u := range c.Sources {
		if at, ok := since[u.Name()]; ok && at < listed && s.shown(u, s.uri) && len(servers) < maxAsked {
			servers = append(servers, u)
		}
	}
	slices.SortStableFunc(servers, func(a, b Source) int { return cmp.Compare(since[a.Name()], since[b.Name()]) })
	return servers
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

// ownFolder reports whether a folder has a segment of its own, behind the host: git://host/repo/ has
// one, and git://host/ and file:/// do not (RFC 3986 §3).
func ownFolder(folder string) bool {
	_, rest, ok := strings.Cut(folder, "://")
	_, path, _ := strings.Cut(rest, "/")
	return ok && strings.IndexByte(path, '/') > 0
}
