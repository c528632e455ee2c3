package runtime

import (
	"time"

	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
)

// leaving contains the generations, servers and endpoints that an Apply has replaced or removed.
type leaving struct {
	generations []held
	gateways    []*gateway.Merged
	singles     []*gateway.Single
	servers     []*server // servers that are no longer configured
	mounts      []*mount  // endpoints that are no longer configured
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
func (r *Runtime) retire(l leaving) {
	for _, x := range l.servers {
		x.release() // the configuration no longer uses the server
	}
	if len(l.generations) > 0 {
		r.retired.Go(func() {
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
		r.retired.Go(func() { r.remove(l.servers, l.mounts) })
	}
}

// remove closes servers, and then their endpoints. Before that, remove waits until no call uses the
// servers any more, but at most for Options.Drain.
func (r *Runtime) remove(servers []*server, mounts []*mount) {
	limit := r.opts.Drain
	if limit <= 0 {
		limit = DrainLimit
	}
	late := time.NewTimer(limit)
	defer late.Stop()
wait:
	for _, x := range servers {
		select {
		case <-x.idle:
		case <-late.C:
			r.opts.Log.Warn("ending the running calls to removed servers", "after", limit.String())
			break wait
		case <-r.endpoints.Context().Done():
			break wait
		}
	}
	closeServers(servers, StopLimit)
	for _, m := range mounts {
		r.endpoints.Remove(m.endpoint)
	}
}

func closeServers(all []*server, limit time.Duration) {
	upstreams := make([]*upstream.Upstream, len(all))
	for i, x := range all {
		upstreams[i] = x.Upstream
	}
	CloseAll(upstreams, limit)
}
