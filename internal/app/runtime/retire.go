package runtime

import (
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
)

// leaving contains the generations, servers and endpoints that an Apply has replaced or removed, or those
// of a removed project.
type leaving struct {
	cause       error // with which the requests end that are still running when their time is over
	generations []held
	gateways    []*gateway.Merged
	singles     []*gateway.Single
	servers     []*server // servers that are no longer configured
	shared      []*server // servers of default that the project no longer uses
	mounts      []*mount  // endpoints that are no longer configured
	then        func()    // called when all of this is closed, if there are servers or endpoints; may be nil
}

// held is a replaced generation, with the servers that its calls may use.
type held struct {
	*Generation
	servers []*server
}

// add adds a generation. It ignores a nil generation.
func (l *leaving) add(g *Generation, servers []*server) {
	if g != nil {
		l.generations = append(l.generations, held{g, servers})
	}
}

// retire closes the objects in l in the background, after the calls that use them have ended. The
// wait for removed servers is limited; see remove.
func (p *Project) retire(l leaving) {
	for _, x := range slices.Concat(l.servers, l.shared) {
		x.release() // the configuration no longer uses the server
	}
	closed := make(chan struct{})
	if len(l.generations) == 0 {
		close(closed)
	} else {
		p.runtime.retired.Go(func() {
			defer close(closed)
			for _, g := range l.generations {
				<-g.Idle()
			}
			for _, g := range l.gateways {
				g.Close()
			}
			for _, g := range l.generations {
				for _, x := range g.servers {
					x.release()
				}
			}
		})
	}
	if len(l.servers) > 0 || len(l.mounts) > 0 {
		p.runtime.retired.Go(func() {
			p.remove(l)
			if l.then != nil {
				<-closed
				l.then()
			}
		})
	}
}

// remove closes servers and endpoints. Before that, remove waits until no call uses the servers any
// more, but at most for Options.Drain.
func (p *Project) remove(l leaving) {
	limit := p.runtime.opts.Drain
	if limit <= 0 {
		limit = DrainLimit
	}
	late := time.NewTimer(limit)
	defer late.Stop()
wait:
	for _, x := range l.servers {
		select {
		case <-x.idle:
		case <-late.C:
			p.log.Warn("ending the running calls to removed servers", "after", limit.String())
			break wait
		case <-p.runtime.endpoints.Context().Done():
			break wait
		}
	}
	var wait sync.WaitGroup
	for _, m := range l.mounts {
		// Beside the servers: an endpoint is closed when its requests have ended, and some end only
		// with their server.
		wait.Go(func() { p.runtime.endpoints.Remove(m.endpoint, l.cause) })
	}
	closeServers(l.servers, StopLimit)
	wait.Wait()
}

// errServerRemoved and errProjectRemoved tell clients why their requests and sessions end.
var (
	errServerRemoved = &mcp.Error{
		Origin: mcp.FromGateway, Cause: "removed", Outcome: mcp.OutcomeUnknown,
		Message: "the server was removed from Dragoman's configuration before it answered",
	}
	errProjectRemoved = &mcp.Error{
		Origin: mcp.FromGateway, Cause: "removed", Outcome: mcp.OutcomeUnknown,
		Message: "the project was removed before the server answered",
	}
)

func closeServers(all []*server, limit time.Duration) {
	upstreams := make([]*upstream.Upstream, len(all))
	for i, x := range all {
		upstreams[i] = x.Upstream
	}
	CloseAll(upstreams, limit)
}
