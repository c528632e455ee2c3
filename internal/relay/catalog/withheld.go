package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Withheld returns the error for a request that names an item of a server whose [Verdict] is Held, or nil. name is
// the server's own name, and asked the one that the client has sent, which the error repeats. What counts is the list that the client's audience sees: if no reading of it has
// succeeded in this process, or the server has announced a change since, Withheld reads it first. If it never
// could be read, nobody knows what the server would do, so that is an error too. A list that was read before
// counts if it can't be read again.
//
// A resource is held if the template is that it comes from, unless the server lists it.
func (v View) Withheld(ctx context.Context, kind Kind, server, name, asked string) error {
	c, at := v.c, slices.IndexFunc(v.c.Sources, func(u Source) bool { return u.Name() == server })
	if at < 0 {
		return nil
	}
	method := kind.method()
	if kind == KindResource {
		method = KindTemplate.method()
	}
	p, err := c.current(ctx, c.audience(v.client), method, c.Sources[at])
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range p.left {
		if x := &p.left[i]; x.names(kind, name) && !(kind == KindResource && c.listsLocked(server, name)) {
			return refusal(kind, server, name, asked, x.Why)
		}
	}
	return nil
}

// WithheldURI returns the same for a URI or a template for which there is no server. It reads no list.
func (v View) WithheldURI(uri string) error {
	if strings.Contains(uri, "{") {
		return v.withheld(KindTemplate, uri)
	}
	return v.withheld(KindResource, uri)
}

// withheld returns the same for a name that the client doesn't see in any list, or nil. It reads none.
func (v View) withheld(kind Kind, offered string) error {
	method := kind.method()
	if kind == KindResource {
		method = KindTemplate.method()
	}
	known, a := v.Servers(), v.c.audience(v.client)
	v.c.mu.Lock()
	defer v.c.mu.Unlock()
	for _, u := range known {
		p := v.c.seenLocked(method, u, a)
		for i := 0; p != nil && i < len(p.left); i++ {
			x, name := &p.left[i], offered
			if kind.key() == "name" {
				name = nameOfItem(kind, x.JSON)
				if shown, ok := v.c.Renames.Shown(kind, u.Name(), name); !ok || v.c.Names.Join(v.c.prefix(u), shown) != offered {
					continue
				}
			}
			if x.names(kind, name) && v.Shows(kind, u.Name(), name) {
				return refusal(kind, u.Name(), name, offered, x.Why)
			}
		}
	}
	return nil
}

// heldBy reports whether a template of a server that matches the URI is held, so that the server may not be asked for
// it. own means that the template is one that would lead to the server if it weren't held.
func (s *search) heldBy(u Source) (held, own bool) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	p := s.c.seenLocked(mcp.MethodListTemplates, u, s.a)
	for i := 0; p != nil && i < len(p.left); i++ {
		if x := &p.left[i]; x.names(KindResource, s.uri) && !s.c.listsLocked(u.Name(), s.uri) {
			held = true
			own = own || strengthOf(mcp.MethodListTemplates, nameOfItem(KindTemplate, x.JSON), s.uri) == fixedTemplate
		}
	}
	return held, own
}

// names reports whether an item is held, and is the one with a server's own name.
func (x *HiddenItem) names(kind Kind, name string) bool {
	if !x.Held {
		return false
	}
	if kind != KindResource {
		return nameOfItem(kind, x.JSON) == name
	}
	t, ok := templateOf("", nameOfItem(KindTemplate, x.JSON))
	return ok && t.matches(name)
}

func refusal(kind Kind, server, name, asked, why string) error {
	noun := kind.noun()
	if kind == KindTemplate || kind == KindResource {
		noun = "resource"
	}
	return &mcp.Error{
		Origin: mcp.FromGateway, Upstream: server, Item: name, Cause: "held", Outcome: mcp.NotSent, Op: "use " + noun,
		Message: fmt.Sprintf("the %s %s is held: %s", noun, excerpt.Cut(asked, maxRepeated), why),
	}
}

// listsLocked reports whether a server lists a URI, to any audience.
func (c *Catalog) listsLocked(server, uri string) bool {
	for key, p := range c.lists {
		if key.server == server && key.method == KindResource.method() && slices.ContainsFunc(p.items, func(raw []byte) bool { return nameOfItem(KindResource, raw) == uri }) {
			return true
		}
	}
	return false
}

// current returns the list of a server for an audience as a reading of this process has it, and reads it if it was
// never read or if the server has announced a change.
func (c *Catalog) current(ctx context.Context, a *knownAudience, method string, u Source) (*serverList, error) {
	c.mu.Lock()
	p := c.listLocked(serverListKey{method, u.Name(), a.at(u.Name())})
	if p.have && p.fresh {
		c.mu.Unlock()
		return p, nil
	}
	have := p.have
	_, r := c.readLocked(a, method, u)
	c.mu.Unlock()
	if r != nil {
		var grace <-chan time.Time
		if have {
			grace = time.After(c.grace())
		}
		select {
		case <-r.done:
		case <-grace:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case p.have:
		return p, nil
	case p.cause != nil:
		return nil, p.cause
	}
	return nil, &mcp.Error{
		Origin: mcp.FromGateway, Upstream: u.Name(), Cause: "unavailable", Outcome: mcp.NotSent, Retryable: true, Op: "read " + method,
		Message: fmt.Sprintf("what server %q has could not be read, so nobody knows whether it has changed: %s", u.Name(), p.failed),
	}
}
