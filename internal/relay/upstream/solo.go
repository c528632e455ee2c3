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

const reasonSolo = "a second process of the server exited at its start, so all clients share the first one"

// goSoloLocked handles an open for the pool p that has failed with err. If the server exited although
// the same principal has another session with it, goSoloLocked records that the server can only run
// once, and returns true. Then why, the description of err, is logged.
func (u *Upstream) goSoloLocked(p *pool, err error, why *failure.Failure) bool {
	var e *mcp.Error
	if !u.spec.piped() || u.spec.Isolation == PerCall || !errors.As(err, &e) || e.Cause != string(handshake.CauseExited) {
		return false
	}
	for _, q := range u.pools {
		for _, s := range q.sessions {
			if q.seat == p.seat && q.scope == p.scope && s.inService() && s.server.Err() == nil {
				u.solo = true
				u.faultLocked(why)
				u.logLocked(slog.LevelWarn, "server can only run once", why.Attrs()...)
				return true
			}
		}
	}
	return false
}

// soloPoolLocked returns the pool whose session a client shares because the server can only run once.
// It returns nil if the client uses its own pool p, which may be nil.
func (u *Upstream) soloPoolLocked(p *pool, f *mcp.ClientInfo, scope string) *pool {
	if !u.solo || p != nil && len(p.sessions) > 0 {
		return nil
	}
	if !u.hasSessionLocked() {
		u.solo = false
		return nil
	}
	seat := ""
	if f != nil && u.spec.Isolation != Shared {
		seat = f.Who.SeatKey()
	}
	var first *pool
	for _, q := range u.pools {
		if q.seat == seat && q.scope == scope && len(q.sessions) > 0 && (first == nil || q.key < first.key) {
			first = q
		}
	}
	return first
}

// sharesLocked reports whether the clients of a pool share one session.
func (u *Upstream) sharesLocked() bool { return u.spec.Isolation == Shared || u.solo }

// reportSoloLocked adds the reason to the status if clients share the only process of the server.
func (u *Upstream) reportSoloLocked(st *Status) {
	if u.solo && st.State == Ready && st.Reason == "" {
		st.Reason = reasonSolo
	}
}
