package runtime

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
)

// Report describes the state of a Project.
type Report struct {
	Configured time.Time        // the time of the last Apply
	Draining   bool             // the process stops, or the project was removed
	Endpoints  []EndpointReport // the merged endpoint, then the endpoints of single servers, sorted by name
	Servers    []ServerReport   // the servers in the order of the configuration
	Lists      []catalog.ListReport
	Parked     []bridge.ParkedReport
	Questions  int            // the number of questions that wait for people
	Listens    map[string]int // the number of open listens of each party
}

// EndpointReport describes one endpoint.
type EndpointReport struct {
	Path          string
	Server        string         // the only server of the endpoint; "" for those of all servers
	Conversations map[string]int // the number of sessions with clients, by transport
	Requests      int            // the number of running requests without a session
}

// ServerReport describes one server.
type ServerReport struct {
	upstream.Report
	// Clean masks the server's secrets in a text that comes from the server or the network.
	Clean func(string) string
}

// Report returns the state of all endpoints and servers. It sends no requests to servers and does
// not wait for them.
func (p *Project) Report() *Report {
	p.mu.Lock()
	g, order, masks := p.gateway, p.order, p.cleaners
	out := &Report{Configured: p.since, Draining: p.draining}
	mounts := map[string]*mount{"": p.joined, findName: p.find}
	maps.Copy(mounts, p.single)
	p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(mounts)) {
		m := mounts[name]
		e := EndpointReport{Path: m.endpoint.Path(), Server: strings.TrimPrefix(name, findName)}
		e.Conversations, e.Requests = m.clients.Conversations()
		out.Endpoints = append(out.Endpoints, e)
	}
	for _, x := range order {
		out.Servers = append(out.Servers, ServerReport{x.Report(), masks.of(x.Name())})
	}
	out.Lists, out.Parked, out.Questions, out.Listens = g.Lists(), p.bridge.ParkedCalls(), p.questions.Waiting(), p.listens.ByParty()
	return out
}

// Statuses returns the state of each server in the order of the configuration.
func (p *Project) Statuses() []upstream.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]upstream.Status, len(p.order))
	for i, u := range p.order {
		out[i] = u.Status()
	}
	return out
}

// Configured returns the time of the last Apply, and whether Drain has been called.
func (p *Project) Configured() (since time.Time, draining bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since, p.draining
}
