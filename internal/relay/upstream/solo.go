package upstream

import (
	"errors"
	"log/slog"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
)

// Some programs can only run once: they need a port, the profile of a browser, or a lock file. The
// first process runs well, and the second one exits at its start. Then all clients share the first
// process, as with isolation "shared", until the last session of the server has ended. Principals are
// still kept apart. A server with isolation "call" fails instead, because its operator has asked for
// separate processes.

const (
	reasonSolo       = "a second process of the server exited at its start, so all clients share the first one"
	reasonSoloRooted = reasonSolo + ", and it works with the roots of one of them"
)

// goSolo handles an open for the pool p that has failed with err. If the server exited although
// the same principal has another session with it, goSolo records that the server can only run
// once, and returns true. Then why, the description of err, is logged.
func (b *broker) goSolo(st *state, p *pool, err error, why *failure.Failure) bool {
	var e *mcp.Error
	if !b.spec.piped() || b.spec.Isolation == PerCall || !errors.As(err, &e) || e.Cause != string(handshake.CauseExited) {
		return false
	}
	for _, q := range st.pools.byKey {
		for _, s := range q.sessions {
			if q.seat == p.seat && q.scope == p.scope && s.inService() && s.server.Err() == nil {
				st.pools.solo = true
				st.health.setFault(why)
				st.log(slog.LevelWarn, "server can only run once", why.Attrs()...)
				return true
			}
		}
	}
	return false
}

// soloPool returns the pool whose session a client shares because the server can only run once.
// It returns nil if the client uses its own pool p, which may be nil.
func (b *broker) soloPool(st *state, p *pool, f *mcp.ClientInfo, scope string) *pool {
	if !st.pools.solo || p != nil && len(p.sessions) > 0 {
		return nil
	}
	if !st.pools.hasSession() {
		st.pools.solo = false
		return nil
	}
	seat := ""
	if f != nil && b.spec.Isolation != Shared {
		seat = f.Who.SeatKey()
	}
	var first *pool
	for _, q := range st.pools.byKey {
		if q.seat == seat && q.scope == scope && len(q.sessions) > 0 && (first == nil || q.key < first.key) {
			first = q
		}
	}
	return first
}

// shares reports whether the clients of a pool share one session.
func (c *core) shares(st *state) bool { return c.spec.Isolation == Shared || st.pools.solo }

// reportSolo adds the reason to the status if clients share the only process of the server.
func (r *registry) reportSolo(to *Status) {
	if r.solo && to.State == Ready && to.Reason == "" {
		if to.Reason = reasonSolo; r.rooted {
			to.Reason = reasonSoloRooted
		}
	}
}
