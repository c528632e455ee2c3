package upstream

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// A legacy server may remember things for as long as a session lasts. Clients over HTTP that have no session of their own,
// such as those of the modern era, share one per principal and capabilities, and each of their requests may reach another
// process. So these agree which one has the session; see docs/adr/0068.

// Seats says which of several processes has a server's sessions for some clients. Implementations are safe for concurrent
// use.
type Seats interface {
	// Sit returns nil if it's this process, which keeps the seat at least until leave is called. Otherwise the error wraps
	// a *transport.Elsewhere, and nothing may be sent to the server. Sit may wait for some seconds.
	Sit(ctx context.Context, seat string) (leave func(), err error)
	// Rise gives a seat up whose sessions have ended, unless somebody still needs it. It does nothing if this process
	// doesn't have the seat, and doesn't block. Nor do the methods that follow.
	Rise(seat string)
	// Note keeps what another process needs to go on with a session, if the session isn't the one that it was told last.
	Note(seat, session string, what func() []byte)
	// Left returns what was noted by the process that had the seat before, once, or nil.
	Left(seat string) []byte
	// Gave reports whether another process goes on with a session that was noted here.
	Gave(seat, session string) bool
}

// Sit makes sure that the next call of a client belongs to this process, and keeps it so until leave is called. If
// another process has the client's session, the error wraps a *transport.Elsewhere.
func (u *Upstream) Sit(ctx context.Context, f *mcp.ClientInfo) (leave func(), err error) {
	key, needed := u.broker.seatKey(f)
	if !needed {
		return func() {}, nil
	}
	seat := u.seatOf(key)
	rise, err := u.opts.Seats.Sit(ctx, seat)
	if err != nil {
		return nil, err
	}
	u.broker.inherit(f, key)
	return func() {
		u.broker.bequeath(key)
		rise()
		if !u.broker.has(key) { // no session, or it's a modern server
			u.opts.Seats.Rise(seat)
		}
	}, nil
}

// seatOf returns the seat of the pool with a key.
func (c *core) seatOf(key string) string { return c.opts.Home + "\x00" + c.spec.Name + "\x00" + key }

// seatKey returns the key of the pool that a client's calls use, and whether it matters which process they come to. While
// we don't know what the server speaks, it does.
func (b *broker) seatKey(f *mcp.ClientInfo) (key string, needed bool) {
	if b.opts.Seats == nil || f == nil || f.Conversation != 0 || b.spec.Isolation == Shared || b.spec.Isolation == PerCall {
		return "", false
	}
	scope := b.scopeOf(f)
	b.update(func(st *state) {
		if needed = !b.spec.Pin.Modern() && !st.dial.era.Modern() && !st.pools.hasLink(); needed {
			key = b.key(st, f, scope)
		}
	})
	return key, needed
}

// has reports whether there's a session that a pool with this key uses, or somebody is about to open one.
func (b *broker) has(key string) bool {
	return get(b.core, func(st *state) bool {
		return st.pools.byKey[key] != nil || st.pools.solo && st.pools.hasSession()
	})
}
