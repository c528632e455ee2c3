package access

import (
	"fmt"
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// Reach says what who may use in a project; see runtime.Options.Reach. The local user may use everything:
// whoever has no key is the local user only at an open gate. The MCP endpoints are for callers, and the runs of the
// console and the API for operators.
func (g *Gate) Reach(who *identity.Principal, project string) (show catalog.Filter, ok bool) {
	if who.IsLocal() {
		return nil, true
	}
	if who != nil && who.Run != "" && !who.Looks() {
		return g.reachOfRun(who, project)
	}
	if who != nil && who.Via == viaToken {
		return nil, slices.Contains(g.rolesOfToken(who, project), identity.Caller)
	}
	k := g.keys.Load().Of(who)
	switch {
	case k == nil, k.Project != project, g.people.Load().role(k) != identity.Caller:
		return nil, false
	case len(k.Servers) == 0 && len(k.Tools) == 0:
		return nil, true
	}
	return (*part)(k), true
}

// Barred says why who may not use the MCP endpoints of a project in which they have another role, as a sentence; see
// runtime.Options.Barred. It says nothing to those without a role, so nobody learns from it which projects there are.
func (g *Gate) Barred(who *identity.Principal, project string) string {
	roles := g.Roles(who, project)
	if len(roles) == 0 || slices.Contains(roles, identity.Caller) {
		return ""
	}
	what := "your sign-in has"
	if g.keys.Load().Of(who) != nil {
		what = "the API key has"
	}
	return fmt.Sprintf("%s the role %s in this project, which is for the console and the API; MCP clients need the role %s: ask an admin of the project for a key with it",
		what, roles[0], identity.Caller)
}

// reachOfRun is Reach for who has started a run.
func (g *Gate) reachOfRun(who *identity.Principal, project string) (show catalog.Filter, ok bool) {
	if !slices.ContainsFunc(g.Roles(who, project), func(r identity.Role) bool { return r.Includes(identity.Operator) }) {
		return nil, false
	}
	if k := g.keys.Load().Of(who); k != nil && len(k.Servers)+len(k.Tools) > 0 {
		return (*part)(k), true
	}
	return nil, true
}

// part is the filter for a key that is for some servers or some tools.
type part Key

// Shows implements catalog.Filter. A key that names tools is for nothing else: prompts and resources may
// tell what the tools would not.
func (k *part) Shows(kind catalog.Kind, server, name string) bool {
	if len(k.Servers) > 0 && !slices.ContainsFunc(k.Servers, func(p string) bool { return pattern.Glob(p, server) }) {
		return false
	}
	if len(k.Tools) == 0 {
		return true
	}
	switch kind {
	case catalog.KindServer:
		return slices.ContainsFunc(k.Tools, func(p string) bool { return policy.MayName(p, server) })
	case catalog.KindTool:
		return slices.ContainsFunc(k.Tools, func(p string) bool { return pattern.Glob(p, server+"/"+name) })
	}
	return false
}

// Unmatched returns the patterns of a wish that none of some servers matches.
func (w *Wish) Unmatched(servers []string) (patterns []string) {
	for _, p := range w.Servers {
		if !slices.ContainsFunc(servers, func(s string) bool { return pattern.Glob(p, s) }) {
			patterns = append(patterns, p)
		}
	}
	for _, p := range w.Tools {
		if !slices.ContainsFunc(servers, func(s string) bool { return policy.MayName(p, s) }) {
			patterns = append(patterns, p)
		}
	}
	return patterns
}

// Caller says how the rules of a project know who; see runtime.Options.Caller. A key is also whom it acts for, with
// all roles of that person: what it may use less than they may is said by its own servers and tools.
func (g *Gate) Caller(who *identity.Principal, project string) policy.Caller {
	c := policy.Caller{Roles: g.Roles(who, project)}
	if who == nil || who.IsLocal() {
		return c
	}
	people := g.people.Load()
	if k := g.keys.Load().Of(who); k != nil {
		c.Key = k.Name
		if k.Owner == "" || k.Project != project {
			return c
		}
		c.Roles = append(slices.Clone(c.Roles), people.roles(who.Subject, project)...)
	}
	c.Person = people.Name(who.Subject)
	return c
}

// Caller says how the rules of a project know a person who has no key at hand.
func (p *People) Caller(x *store.Person, project string) policy.Caller {
	return policy.Caller{Person: x.Name, Roles: x.Roles[project]}
}
