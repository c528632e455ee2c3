package runtime

import (
	"context"
	"errors"
	"iter"

	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// This file contains the operations on servers, and the data that operators get in addition to
// Report.

// ErrNoServer is the error of operations on a server that is disabled or not configured.
var ErrNoServer = errors.New("the server is disabled or not configured")

// ErrShared is the error of operations on a server that a project only uses.
var ErrShared = errors.New("the server belongs to the project default, which others use, too; do this in default")

// Operation is what an operator can do with a server.
type Operation string

// These are the operations; see the methods of upstream.Upstream with the same names.
const (
	OpStart   Operation = "start"
	OpStop    Operation = "stop"
	OpRestart Operation = "restart"
	OpProbe   Operation = "probe"
)

// Operate begins an operation on one server and does not wait for its end. It does not affect other
// servers. by says how the operator did it and who that was, such as "in the console (ada)". A server that is stopped
// with OpStop stays stopped until the next operation, or until an Apply changes its settings.
func (p *Project) Operate(name string, op Operation, by string) error {
	x := p.server(name)
	switch {
	case x == nil:
		return ErrNoServer
	case x.home != p.name:
		return ErrShared
	case op == OpStart:
		return x.Start(by)
	case op == OpStop:
		return x.Stop(by)
	case op == OpRestart:
		return x.Restart(by)
	case op == OpProbe:
		return x.Probe(by)
	}
	return errors.New("unknown operation")
}

// server returns the current server with the given name, or nil if there is none.
func (p *Project) server(name string) *server {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.order {
		if x.Name() == name {
			return x
		}
	}
	return nil
}

// ClientReport describes a client and the endpoint that it uses.
type ClientReport struct {
	downstream.ClientReport
	Path   string // the URL path of the endpoint
	Server string // the only server of the endpoint; "" for those of all servers
}

// ClientReports returns the clients of all endpoints of the project, grouped by endpoint.
func (p *Project) ClientReports() (out []ClientReport) {
	p.mu.Lock()
	mounts := []*mount{p.joined, p.find}
	names := []string{"", ""}
	for _, x := range p.order {
		if m := p.single[x.Name()]; m != nil {
			mounts, names = append(mounts, m), append(names, x.Name())
		}
	}
	p.mu.Unlock()
	for i, m := range mounts {
		for _, c := range m.clients.Clients() {
			out = append(out, ClientReport{c, m.endpoint.Path(), names[i]})
		}
	}
	return out
}

// Lists provides the lists of the servers for operators.
type Lists struct {
	project *Project
	gateway *gateway.Merged
}

// Lists returns the lists of the current configuration. It returns nil before the first
// Apply.
func (p *Project) Lists() *Lists {
	p.mu.Lock()
	g := p.gateway
	p.mu.Unlock()
	if g == nil {
		return nil
	}
	return &Lists{p, g}
}

// Of returns the last known list of each server for a list method such as tools/list. The servers
// are in the order of the configuration. Of sends no requests.
func (l *Lists) Of(method string) []catalog.Items { return l.gateway.Items(method) }

// All yields all items of a kind, also those that clients do not see, sorted by their offered names. It
// sends no requests.
func (l *Lists) All(kind catalog.Kind) iter.Seq[*catalog.Item] { return l.gateway.All(kind) }

// Search returns the tools that fit a query, the best first, also those that clients do not see. It sends no requests.
func (l *Lists) Search(query string) []*catalog.Item { return l.gateway.Search(query) }

// SearchTokens estimates the tokens of what a client lists that searches.
func (l *Lists) SearchTokens() int { return l.gateway.SearchTokens() }

// Refresh reads one list of one server, if the server is ready and the list is not fresh, and waits
// a short time for the result. It does not open a server.
func (l *Lists) Refresh(ctx context.Context, server, method string) {
	if x := l.project.server(server); x != nil && x.Status().State == upstream.Ready {
		l.gateway.Refresh(ctx, server, method)
	}
}

// Offered returns the name that a server's tool or prompt has in the merged list.
func (l *Lists) Offered(kind catalog.Kind, server, name string) string {
	return l.gateway.Offered(kind, server, name)
}

// Config returns the configuration of a server. It returns false if the server is disabled or not
// configured.
func (p *Project) Config(name string) (config.Server, bool) {
	s := p.Current()
	if s == nil {
		return config.Server{}, false
	}
	c, ok := s.Server(name)
	return c, ok && !c.Disabled
}
