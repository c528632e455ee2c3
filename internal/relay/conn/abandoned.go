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

// rememberAbandonedLocked records an abandoned call.
func (l *pipeConn) rememberAbandonedLocked(n int64, call *mcp.Attempt) {
	if call == nil || !counts(call) {
		return
	}
	g := abandonedCall{n: n, conversation: call.Client.Conversation, until: time.Now().Add(abandonedFor)}
	if len(l.abandoned) == maxAbandoned {
		// The last entry represents all further calls, which may belong to any client.
		l.abandoned[maxAbandoned-1] = abandonedCall{until: g.until}
		return
	}
	l.abandoned = append(l.abandoned, g)
}

// forgetAbandonedLocked removes an abandoned call whose answer has arrived late.
func (l *pipeConn) forgetAbandonedLocked(n int64) {
	if i := slices.IndexFunc(l.abandoned, func(g abandonedCall) bool { return g.n == n }); i >= 0 && n != 0 {
		l.abandoned = slices.Delete(l.abandoned, i, i+1)
	}
}

// abandonedLocked returns the abandoned calls about which the server may still send messages.
func (l *pipeConn) abandonedLocked() []abandonedCall {
	if len(l.abandoned) > 0 {
		now := time.Now()
		l.abandoned = slices.DeleteFunc(l.abandoned, func(g abandonedCall) bool { return now.After(g.until) })
	}
	return l.abandoned
}

// log delivers a log message. A log message does not say which call it belongs to. So log delivers the
// message only if all calls in flight, and all recently abandoned calls, belong to one client. If no
// call is in flight, Options.Notice gets the message.
func (l *pipeConn) log(m *jsonrpc.Message) {
	if l.server.sessions.Broadcasts() {
		l.logOfAll(m)
		return
	}
	p, only, certain := l.about()
	switch {
	case !certain:
		l.server.publishLoss(nil, m.Method, "calls of several clients are running, and the message does not say which call it belongs to")
	case p != nil:
		l.add(p, m, l.takeUnattributed)
	case l.server.opts.Notice != nil:
		l.server.opts.Notice(m, only)
	}
}

// noteOnCall delivers a notification that no revision defines to the call of a modern client. Such a
// client gets it in no other way: each notification of a server belongs to a request in flight or to
// a subscription (2026-07-28 §stdio, "Receiving Messages"). All legacy clients get it in any case.
func (l *pipeConn) noteOnCall(m *jsonrpc.Message) {
	if !belongsToCall(m.Method) || m.Method == mcp.NoteElicitComplete || l.server.sessions.Broadcasts() {
		return
	}
	modern := false
	l.mu.Lock()
	for _, p := range l.pending {
		modern = modern || p.call != nil && counts(p.call) && p.call.Client.Revision.Modern()
	}
	l.mu.Unlock()
	if !modern {
		return
	}
	switch p, _, certain := l.about(); {
	case !certain:
		l.server.publishLoss(nil, m.Method, "calls of several clients are running, and the notification does not say which call it belongs to")
	case p != nil:
		l.add(p, m, func(*jsonrpc.Message) {})
	}
}

// logOfAll does the same as log for a server that broadcasts. It takes the calls of all sessions
// into account.
func (l *pipeConn) logOfAll(m *jsonrpc.Message) {
	var own attribution
	l.addCallsTo(&own)
	switch where := l.server.sessions.ownerOfLog(&own); where {
	case unclear:
		l.server.publishLoss(nil, m.Method, "the server sends its messages to all sessions, and this message does not say which call it belongs to")
	case here:
		l.add(l.waiting(own.all.number()), m, l.takeUnattributed)
	case nowhere:
		l.takeUnattributed(m)
	case elsewhere:
		// The session that runs the call has received its own copy of the message.
	}
}

// about returns the call that a message belongs to if the message does not name its call. p is nil if
// no call is in flight. The result only is the one conversation that the message may belong to, or 0
// if it may belong to any conversation. certain is false if the message may belong to calls of several
// clients.
func (l *pipeConn) about() (p *pending, only uint64, certain bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var t attribution
	l.addCallsLocked(&t)
	if t.all.mixed {
		return nil, 0, false
	}
	if p = l.pending[t.all.number()]; p != nil {
		only = p.call.Client.Conversation
	}
	for i, g := range l.abandonedLocked() {
		if p == nil && i == 0 {
			only = g.conversation
		}
		if g.conversation == 0 || g.conversation != only {
			return nil, 0, false
		}
	}
	return p, only, true
}
