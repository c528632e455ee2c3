package conn

import (
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// abandonedCall is a call on a pipe whose client no longer waits. The server may still send
// messages about the call, because the server has not read the cancellation yet or ignores the
// cancellation.
type abandonedCall struct {
	n            int64
	conversation uint64 // conversation of the client; 0 if Dragoman cannot distinguish the client from other clients
	until        time.Time
}

// abandonedFor is how long a pipeConn remembers an abandoned call. maxAbandoned is the maximum number
// of remembered calls.
const (
	abandonedFor = 10 * time.Second
	maxAbandoned = 256
)

// rememberAbandoned records an abandoned call.
func (st *pipeState) rememberAbandoned(n int64, a *mcp.Attempt) {
	if a == nil || !counts(a) {
		return
	}
	g := abandonedCall{n: n, conversation: a.Client.Conversation, until: time.Now().Add(abandonedFor)}
	if len(st.abandoned) == maxAbandoned {
		// The last entry represents all further calls, which may belong to any client.
		st.abandoned[maxAbandoned-1] = abandonedCall{until: g.until}
		return
	}
	st.abandoned = append(st.abandoned, g)
}

// forgetAbandoned removes an abandoned call whose answer has arrived late.
func (st *pipeState) forgetAbandoned(n int64) {
	if i := slices.IndexFunc(st.abandoned, func(g abandonedCall) bool { return g.n == n }); i >= 0 && n != 0 {
		st.abandoned = slices.Delete(st.abandoned, i, i+1)
	}
}

// recentlyAbandoned returns the abandoned calls about which the server may still send messages.
func (st *pipeState) recentlyAbandoned() []abandonedCall {
	if len(st.abandoned) > 0 {
		now := time.Now()
		st.abandoned = slices.DeleteFunc(st.abandoned, func(g abandonedCall) bool { return now.After(g.until) })
	}
	return st.abandoned
}

// log delivers a log message. A log message does not say which call it belongs to. So log delivers the
// message only if all calls in flight, and all recently abandoned calls, belong to one client. If no
// call is in flight, Options.Notice gets the message.
func (c *pipeConn) log(m *jsonrpc.Message) {
	if c.server.sessions.Broadcasts() {
		c.logOfAll(m)
		return
	}
	p, only, certain := c.about()
	switch {
	case !certain:
		c.server.publishLoss(nil, m.Method, "calls of several clients are running, and the message does not say which call it belongs to")
	case p != nil:
		c.add(p, m, c.takeUnattributed)
	case c.server.opts.Notice != nil:
		c.server.opts.Notice(m, only)
	}
}

// noteOnCall delivers a notification that no revision defines to the call of a modern client. Such a
// client gets it in no other way: each notification of a server belongs to a request in flight or to
// a subscription (2026-07-28 §stdio, "Receiving Messages"). All legacy clients get it in any case.
func (c *pipeConn) noteOnCall(m *jsonrpc.Message) {
	if !belongsToCall(m.Method) || m.Method == mcp.NoteElicitComplete || c.server.sessions.Broadcasts() {
		return
	}
	modern := false
	c.update(func(st *pipeState) {
		for _, p := range st.pending {
			modern = modern || p.call != nil && counts(p.call) && p.call.Client.Revision.Modern()
		}
	})
	if !modern {
		return
	}
	switch p, _, certain := c.about(); {
	case !certain:
		c.server.publishLoss(nil, m.Method, "calls of several clients are running, and the notification does not say which call it belongs to")
	case p != nil:
		c.add(p, m, func(*jsonrpc.Message) {})
	}
}

// logOfAll does the same as log for a server that broadcasts. It takes the calls of all sessions
// into account.
func (c *pipeConn) logOfAll(m *jsonrpc.Message) {
	var own attribution
	c.addCallsTo(&own)
	switch where := c.server.sessions.ownerOfLog(&own); where {
	case unclear:
		c.server.publishLoss(nil, m.Method, "the server sends its messages to all sessions, and this message does not say which call it belongs to")
	case here:
		c.add(c.waiting(own.all.number()), m, c.takeUnattributed)
	case nowhere:
		c.takeUnattributed(m)
	case elsewhere:
		// The session that runs the call has received its own copy of the message.
	}
}

// about returns the call that a message belongs to if the message does not name its call. p is nil if
// no call is in flight. The result only is the one conversation that the message may belong to, or 0
// if it may belong to any conversation. certain is false if the message may belong to calls of several
// clients.
func (c *pipeConn) about() (p *pending, only uint64, certain bool) {
	c.update(func(st *pipeState) { p, only, certain = st.about() })
	return p, only, certain
}

func (st *pipeState) about() (p *pending, only uint64, certain bool) {
	var t attribution
	st.addCalls(&t)
	if t.all.mixed {
		return nil, 0, false
	}
	if p = st.pending[t.all.number()]; p != nil {
		only = p.call.Client.Conversation
	}
	for i, g := range st.recentlyAbandoned() {
		if p == nil && i == 0 {
			only = g.conversation
		}
		if g.conversation == 0 || g.conversation != only {
			return nil, 0, false
		}
	}
	return p, only, true
}
