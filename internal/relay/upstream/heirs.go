package upstream

import (
	"context"
	"encoding/binary"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
)

// A session over HTTP is at the server, and its id is all that a process needs to go on with it, besides what the server
// has said of itself. So whoever gets a seat goes on with the session of whoever had it. If the server doesn't know it any
// more, the first call finds out, and gets another session as ever.

// mostLeft is the length up to which the answer to initialize is kept for other processes.
const mostLeft = 16 << 10

// heir is the client of a session with which another process may go on, or has been.
type heir struct {
	*streamhttp.Client
	seats  Seats
	seat   string
	answer []byte // the result of initialize, if another process has begun the session
}

// Do implements conn.Poster.
func (h *heir) Do(ctx context.Context, out *transport.Outgoing, in transport.Inbox) (*jsonrpc.Message, error) {
	if h.answer != nil && out.Method == mcp.MethodInitialize {
		return jsonrpc.NewResult(out.ID, h.answer), nil
	}
	return h.Client.Do(ctx, out, in)
}

// Post implements conn.Poster.
func (h *heir) Post(ctx context.Context, out *transport.Outgoing) error {
	if h.answer != nil && out.Method == mcp.NoteInitialized {
		return nil
	}
	return h.Client.Post(ctx, out)
}

// Terminate implements conn.Poster.
func (h *heir) Terminate(ctx context.Context, rules *transport.Rules) error {
	if h.seats.Gave(h.seat, h.Session()) {
		return nil
	}
	return h.Client.Terminate(ctx, rules)
}

// inheriting makes p the way to go on with the session that t has, if the server is still at the same address.
func (d *dialer) inheriting(t target, client *streamhttp.Client, p *plan) *heir {
	h := &heir{Client: client, seats: d.opts.Seats, seat: d.seatOf(t.pool.key)}
	if url, id, answer, ok := unpackLeft(t.left); ok && url == d.spec.URL {
		h.answer = answer
		client.SetSession(id)
		p.offer.Known, p.offer.SkipProbe, p.legacyFirst = mcp.LatestLegacy, true, false
	}
	return h
}

// inherit begins to go on with the session that another process had for the calls of a client. Those wait for it, although
// the pool may have a session of its own, in which lists were read.
func (b *broker) inherit(f *mcp.ClientInfo, key string) {
	scope := b.scopeOf(f)
	b.update(func(st *state) {
		left := b.opts.Seats.Left(b.seatOf(key))
		if left == nil || st.ops.closed || st.ops.stopped || st.ops.operating != nil {
			return
		}
		p := b.ownPool(st, f, scope)
		if len(p.sessions) > 0 && p.sessions[0].owner != 0 {
			return // clients with a session of their own use it, and count on what the server remembers there
		}
		if p.opening == nil && len(p.sessions) < maxSessionsPerPool && b.makeRoom(st, p) {
			b.beginOpen(st, p, f, purposeInherit, left)
		}
	})
}

// inherits reports whether the open goes on with the session of another process.
func (o *opening) inherits() bool { return o != nil && o.left != nil }

// endInheriting puts the session that another process had in front of all others. If there's none, calls use another one.
func (b *broker) endInheriting(st *state, o *opening, r openResult) {
	p := o.pool
	if last := len(p.sessions) - 1; r.err == nil && last > 0 && p.sessions[last] == r.session {
		p.sessions = append([]*session{r.session}, p.sessions[:last]...)
		if p.watches() {
			b.work.Go(func() { b.hub.restore(p, nil) }) // what watched was in the session that was first
		}
	}
}

// bequeath notes the session that holds the state of a pool, for whoever gets the seat next.
func (b *broker) bequeath(key string) {
	s := get(b.core, func(st *state) *session {
		if p := st.pools.byKey[key]; p != nil && len(p.sessions) > 0 {
			return p.sessions[0]
		}
		return nil
	})
	if s == nil || s.heir == nil || s.server.Revision().Modern() || s.server.Opening().Dialect != nil {
		return
	}
	if id := s.heir.Session(); id != "" {
		b.opts.Seats.Note(b.seatOf(key), id, func() []byte { return packLeft(b.spec.URL, id, s.server.Hello().Raw) })
	}
}

// packLeft returns what another process needs to go on with a session.
func packLeft(url, id string, answer []byte) (b []byte) {
	if len(answer) == 0 || len(answer) > mostLeft {
		return nil
	}
	for _, text := range []string{url, id} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return append(b, answer...)
}

// unpackLeft is the inverse of packLeft. Another version of the program may have packed it.
func unpackLeft(b []byte) (url, id string, answer []byte, ok bool) {
	for _, text := range []*string{&url, &id} {
		length, n := binary.Uvarint(b)
		if n <= 0 || length > uint64(len(b)-n) {
			return "", "", nil, false
		}
		*text, b = string(b[n:n+int(length)]), b[n+int(length):]
	}
	return url, id, b, id != "" && jsonrpc.KindOf(b, jsonrpc.Whole(b)) == '{'
}
