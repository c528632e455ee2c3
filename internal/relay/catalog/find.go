package catalog

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// findLimit bounds how long Find waits for servers of which each may have the name, all together. If only
// one may have it, Find waits until it has listed its items, or until it fails.
const findLimit = 20 * time.Second

// Find returns the target of an offered name. It returns false if the client sees no item with this
// name. Find also searches the list for clients without capabilities, so that a call does not have to
// wait until the list of the client's own audience is read. This is correct because a name has the same
// target for all audiences, and the server decides whether the client may use the item. If the name
// is unknown, Find waits for the servers that may have an item with this name and whose lists were
// never read. It does not wait for URIs, since servers may have more of them than they list; see Owner.
func (v View) Find(ctx context.Context, kind Kind, name string) (Target, bool) {
	return v.find(ctx, v.c.audience(v.client), kind, name)
}

func (v View) find(ctx context.Context, a *knownAudience, kind Kind, name string) (Target, bool) {
	c, method := v.c, kind.method()
	if x := v.known(a, method, name); x != nil {
		return x.target, true
	}
	if kind.key() != "name" {
		if x := c.list(ctx, a, method).find(name, v.show); x != nil {
			return x.target, true
		}
		return Target{}, false
	}
	return v.newNameSearch(a, kind, name).run(ctx)
}

// known returns the item with an offered name, if a list that was merged before has it, or nil.
func (v View) known(a *knownAudience, method, name string) *item {
	c := v.c
	c.mu.Lock()
	have := [...]*mergedList{c.merged[mergedListKey{method, a.Audience}], c.merged[mergedListKey{method, a.fallback()}]}
	c.mu.Unlock()
	for _, l := range have {
		if l == nil {
			continue
		}
		if x := l.find(name, v.show); x != nil {
			return x
		}
	}
	return nil
}

// nameSearch looks for the server of a name that no merged list has yet.
type nameSearch struct {
	v    View
	a    *knownAudience
	kind Kind
	name string
	all  []*reading    // of the servers whose lists are not fresh
	late []*lateServer // those of them whose lists were never read, in the order of the configuration
}

// lateServer is a server whose list was never read.
type lateServer struct {
	u     Source
	r     *reading
	wants bool // it may have the name
	hung  bool // its last reading took long and failed
	ended bool // the reading has ended, or is not waited for any longer
}

func (v View) newNameSearch(a *knownAudience, kind Kind, name string) *nameSearch {
	s := &nameSearch{v: v, a: a, kind: kind, name: name}
	c, method := v.c, kind.method()
	c.recallAll(method)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.Sources {
		hung := c.slowFailures[u.Name()] // before a new reading starts
		p, r := c.readLocked(a, method, u)
		if r != nil {
			s.all = append(s.all, r)
		}
		if r != nil && !p.have {
			wants := c.Names.mayBe(c.prefix(u), name) && v.Shows(KindServer, u.Name(), "")
			s.late = append(s.late, &lateServer{u: u, r: r, wants: wants, hung: hung})
		}
	}
	return s
}

// wanted returns the servers that may have the name, and whose lists may still arrive.
func (s *nameSearch) wanted() (all []*lateServer) {
	for _, l := range s.late {
		if l.wants && !l.ended {
			all = append(all, l)
		}
	}
	return all
}

// look merges the lists that are there, and finds the name. If over is false, the grace time is not over:
// then it merges only if the lists that are still missing come after the others in the configuration, and
// were not read before a reload either. Otherwise, a server could lose a name to another one.
func (s *nameSearch) look(over bool) (Target, bool) {
	c, method := s.v.c, s.kind.method()
	c.mu.Lock()
	if !over && !s.settledLocked() {
		c.mu.Unlock()
		return Target{}, false
	}
	l, tell := c.mergedListLocked(s.a, method)
	if !over {
		c.holdNameLocked(l, s.name) // the list may be early, but nobody can get this name any more
	}
	c.mu.Unlock()
	c.report(tell)
	if x := l.find(s.name, s.v.show); x != nil {
		return x.target, true
	}
	return Target{}, false
}

func (s *nameSearch) settledLocked() bool {
	missing := false
	for _, u := range s.v.c.Sources {
		p := s.v.c.seenLocked(s.kind.method(), u, s.a)
		known := p != nil && (p.have || !p.kept.IsZero())
		pending := !known && slices.ContainsFunc(s.late, func(l *lateServer) bool { return l.u == u && !l.ended })
		if known && missing || pending && s.v.c.unreadLocked(s.kind.method(), u.Name(), p) {
			return false
		}
		missing = missing || pending
	}
	return true
}

// run waits until the name has a server, first for the grace time, as a list does, and then for the
// servers that may have the name. It waits for all of them at the same time, so most of them may hang.
func (s *nameSearch) run(ctx context.Context) (Target, bool) {
	if t, ok := s.look(false); ok {
		return t, true
	}
	waiting, cancel := context.WithCancel(mcp.WithCall(mcp.WithPurpose(ctx, "lists"), s.v.client))
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	read, grace := make(chan *lateServer, len(s.late)), make(chan struct{})
	for _, l := range s.late {
		all.Go(func() {
			select {
			case <-l.r.done:
				read <- l
			case <-waiting.Done():
			}
		})
	}
	all.Go(func() {
		defer close(grace)
		s.v.c.await(waiting, s.all, false)
	})
	// The readings are in no hurry, so their servers may still wait until others have started. But a call
	// waits for them now. The results do not matter, as the readings get the same ones.
	return s.await(ctx, read, grace, func(late []*lateServer) {
		for _, l := range late {
			all.Go(func() { _, _ = l.u.Hello(waiting, s.a.factsAt(l.u.Name())) })
		}
	})
}

// await does the waiting of run. It calls hurry for the servers that may have the name. If there are
// several, this is after the grace time: until then they start as for a list, and leave the places for
// calls to calls whose server is known.
func (s *nameSearch) await(ctx context.Context, read <-chan *lateServer, grace <-chan struct{}, hurry func([]*lateServer)) (Target, bool) {
	var brief, limit <-chan time.Time
	one := len(s.wanted()) == 1
	if one {
		hurry(s.wanted())
	} else {
		brief, limit = time.After(s.v.c.grace()), time.After(findLimit)
	}
	for over := false; ; {
		t, ok := s.look(over)
		if ok || over && len(s.wanted()) == 0 {
			return t, ok
		}
		select {
		case l := <-read:
			l.ended = true
		case <-grace:
			over, grace = true, nil
			if _, ok = s.look(over); !ok && !one {
				hurry(s.wanted())
			}
		case <-brief:
			for _, l := range s.late {
				l.ended = l.ended || l.hung // it had its time before
			}
		case <-limit:
			return Target{}, false
		case <-ctx.Done():
			return Target{}, false
		}
	}
}
