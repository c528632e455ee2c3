package runtime

import (
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/upstream"
)

// settled is how long a call of a replaced generation may take to reach its server. One
// that takes longer finds that the server was removed.
const settled = 2 * time.Second

// retire waits until the calls of removed servers are over, and ends those that take too
// long. A call that began before the reload may not have reached its server yet; while
// one may be on its way nothing is ended.
func (r *Runtime) retire(old []*upstream.Upstream, replaced []*Generation, mounts []*mount) {
	limit := r.opts.Drain
	if limit <= 0 {
		limit = DrainLimit
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	began := time.Now()
	used := func(g *Generation) bool {
		select {
		case <-g.Idle():
			return false
		default:
			return time.Since(began) < settled
		}
	}
	busy := func(u *upstream.Upstream) bool { return u.Status().Running > 0 }
wait:
	for len(old) > 0 && slices.ContainsFunc(replaced, used) || slices.ContainsFunc(old, busy) {
		select {
		case <-look.C:
		case <-late.C:
			r.opts.Log.Warn("calls of servers that were removed are cut off", "after", limit.String())
			break wait
		case <-r.endpoints.Context().Done():
			break wait
		}
	}
	CloseAll(old, StopLimit)
	for _, m := range mounts {
		r.endpoints.Remove(m.endpoint)
	}
}
