package catalog

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// These constants bound what is remembered about resources that are in no list, and the search for
// their servers.
const (
	maxOwners     = 5000 // in each of the two maps of owners
	maxLearned    = 200  // from one result
	maxLearnedURI = 2048 // bytes
	maxAsked      = 32   // servers in one search
	askLimit      = 10 * time.Second
	missedRest    = 2 * time.Second // how long a search without success is not repeated
)

// owners remembers the servers of resources that are in no list: of those that a result of the
// server names, and of those that the server was asked for. The zero value is ready to use.
type owners struct {
	mu         sync.Mutex
	young, old map[string]Source // when young is full, it becomes old
	missed     map[string]time.Time
}

// learn remembers the server of a URI. The first server that names a URI keeps it, so that no other
// server can take its place.
func (o *owners) learn(uri string, u Source) {
	if uri == "" || len(uri) > maxLearnedURI {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.findLocked(uri) != nil {
		return
	}
	if len(o.young) >= maxOwners {
		o.old, o.young = o.young, nil
	}
	if o.young == nil {
		o.young = make(map[string]Source)
	}
	o.young[uri] = u
}

func (o *owners) find(uri string) Source {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.findLocked(uri)
}

func (o *owners) findLocked(uri string) Source {
	if u := o.young[uri]; u != nil {
		return u
	}
	return o.old[uri]
}

// forget forgets the server of a URI, because the server no longer has the resource.
func (o *owners) forget(uri string, u Source) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range []map[string]Source{o.young, o.old} {
		if m[uri] == u {
			delete(m, uri)
		}
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
		v.c.owners.learn(uri, owner)
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
