package runtime

import (
	"maps"
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// defaultProject is the name of the only project so far. A path that does not begin with /p/ is for
// this project.
const defaultProject = "default"

// project is a set of servers and their endpoints. Runtime.mu guards the fields of a project,
// except joined.
type project struct {
	name    string
	joined  *mount // the endpoint of all servers; exists as long as the Runtime
	gateway *gateway.Merged
	uris    catalog.URIs               // what clients call the pages and skills of the servers
	single  map[string]*mount          // the endpoints of single servers, by server name
	singles map[string]*gateway.Single // the handlers of the endpoints in single, by server name
}

// mount is an endpoint with the handle that serves its clients.
type mount struct {
	handle   *Handle
	clients  *downstream.Endpoint
	endpoint *Endpoint
	servers  []*server // the servers that the current generation of handle uses; only Apply uses this field
}

// replace makes h the handler for clients. The parameter to contains the servers that h can reach.
// replace returns the old generation, which is nil on the first call, and the servers of that
// generation.
func (m *mount) replace(h downstream.Handler, to []*server) (*Generation, []*server) {
	for _, x := range to {
		x.hold()
	}
	before := m.servers
	m.servers = to
	return m.handle.Replace(h), before
}

// move is a new handler for a mount, with the servers that the handler can reach.
type move struct {
	m  *mount
	h  downstream.Handler
	to []*server
}

// newProject returns a project without servers.
func (r *Runtime) newProject(name string) *project {
	return &project{name: name, joined: r.newMount(""), single: make(map[string]*mount), singles: make(map[string]*gateway.Single)}
}

// newMount returns a mount.
func (r *Runtime) newMount(name string) *mount {
	m := &mount{handle: &Handle{}}
	m.clients = &downstream.Endpoint{
		Handler: m.handle, Events: r.opts.Events, Calls: r.opts.Calls, Log: r.opts.Log,
		Rules: r.rules.Load, Budget: r.opts.Budget,
	}
	m.endpoint = NewEndpoint(name, m.clients, EndpointOptions{
		Guard: r.opts.Guard, Principal: r.opts.Principal, Places: r.opts.Places, Forward: r.opts.Forward, MaxBody: r.maxBody.Load, Prefix: r.opts.Config.PublicPath(), Allow: r.newcomers.allow, Budget: r.opts.Budget, Log: r.opts.Log,
	})
	r.endpoints.Add(m.endpoint)
	return m
}

// planLocked creates the handlers of a project for a configuration. enabled[i] contains the
// settings of order[i]. planLocked returns a move for each mount that needs a new handler. It adds
// to l the objects that are no longer used.
func (r *Runtime) planLocked(p *project, s *config.Snapshot, order []*server, enabled []config.Server, l *leaving) (moves []move) {
	g := &gateway.Merged{
		Bridge: r.bridge, Policy: r.opts.Policy, Audit: r.opts.Audit, Project: p.name, Listens: &r.listens, Names: catalog.Names{Separator: s.Separator}, Identity: r.identity(s, p.name),
		Prefixes: make(map[string]string), Expose: exposedOf(enabled...), Vet: Vet(enabled...), Clean: r.Clean, URIs: &p.uris, Before: p.gateway,
	}
	var names []string
	for i, x := range order {
		names = append(names, x.Name())
		g.Upstreams = append(g.Upstreams, x)
		if prefix := enabled[i].Prefix; prefix != x.Name() && (prefix != "" || enabled[i].Unprefixed) {
			g.Prefixes[x.Name()] = prefix
		}
	}
	p.uris.Retain(names)
	if p.gateway != nil {
		l.gateways = append(l.gateways, p.gateway)
	}
	p.gateway = g
	moves = []move{{p.joined, g, order}}
	gone := p.singles
	p.singles = make(map[string]*gateway.Single)
	for i, x := range order {
		m := p.single[x.Name()]
		if m == nil {
			m = r.newMount(x.Name())
			p.single[x.Name()] = m
		}
		if h := gone[x.Name()]; h != nil && h.Upstream == gateway.Upstream(x) && sameExposed(h.Expose, exposedOf(enabled[i])) {
			p.singles[x.Name()] = h
			delete(gone, x.Name())
			continue
		}
		h := &gateway.Single{Bridge: r.bridge, Policy: r.opts.Policy, Audit: r.opts.Audit, Project: p.name, Listens: &r.listens, Upstream: x, Expose: exposedOf(enabled[i]), Vet: Vet(enabled[i])}
		p.singles[x.Name()] = h
		moves = append(moves, move{m, h, []*server{x}})
	}
	l.singles = slices.AppendSeq(l.singles, maps.Values(gone))
	for name, m := range p.single {
		if p.singles[name] == nil {
			l.mounts = append(l.mounts, m)
			delete(p.single, name)
		}
	}
	return moves
}
