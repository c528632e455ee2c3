package conn

import (
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// abandonedCall is a call on a pipe that was given up and that the server may still speak
// of: it has not heard of the end yet, or runs on regardless.
type abandonedCall struct {
	n            int64
	conversation uint64 // whose call it was; 0 for a client that cannot be told from others
	until        time.Time
}

// The bounds of ghosts: how long one is believed in, and how many there are.
const (
	hauntsFor = 10 * time.Second
	maxGhosts = 256
)

// hauntLocked takes note of a call that was given up.
func (l *pipeConn) hauntLocked(n int64, call *mcp.Attempt) {
	if call == nil || !counts(call) {
		return
	}
	g := abandonedCall{n: n, conversation: call.Client.Conversation, until: time.Now().Add(hauntsFor)}
	if len(l.ghosts) == maxGhosts {
		// One that stands for two may be anybody's.
		l.ghosts[maxGhosts-1] = abandonedCall{until: g.until}
		return
	}
	l.ghosts = append(l.ghosts, g)
}

// layLocked forgets the ghost of a call: its answer has come after all.
func (l *pipeConn) layLocked(n int64) {
	if i := slices.IndexFunc(l.ghosts, func(g abandonedCall) bool { return g.n == n }); i >= 0 && n != 0 {
		l.ghosts = slices.Delete(l.ghosts, i, i+1)
	}
}

// ghostsLocked returns the calls that the server may still speak of.
func (l *pipeConn) ghostsLocked() []abandonedCall {
	if len(l.ghosts) > 0 {
		now := time.Now()
		l.ghosts = slices.DeleteFunc(l.ghosts, func(g abandonedCall) bool { return now.After(g.until) })
	}
	return l.ghosts
}

// log takes a log message. Nothing in it names its request, so only a call can be
// meant that is alone, or whose neighbours are the same client's, those included
// that were given up a moment ago. Where it may be of one client's call or
// another's nobody gets it.
func (l *pipeConn) log(m *jsonrpc.Message) {
	if l.server.sessions.Broadcasts() {
		l.logOfAll(m)
		return
	}
	p, only, certain := l.about()
	switch {
	case !certain:
		l.server.lose(nil, m.Method, "calls of several clients run and nothing in it says whose it is")
	case p != nil:
		l.add(p, m, l.orphan)
	case l.server.opts.Notice != nil:
		l.server.opts.Notice(m, only)
	}
}

// logOfAll is log for a server that sends its messages to all of its sessions: the
// calls of all of them count.
func (l *pipeConn) logOfAll(m *jsonrpc.Message) {
	var own attribution
	l.tallyInto(&own)
	switch where := l.server.sessions.log(&own); where {
	case unclear:
		l.server.lose(nil, m.Method, "the server sends it to all of its sessions, and it does not name its call")
	case here:
		l.add(l.waiting(own.all.number()), m, l.orphan)
	case nowhere:
		l.orphan(m)
	case elsewhere:
		// The session that it is for has a copy.
	}
}

// about returns the call that a message is about which names none; nil for none,
// and then the conversation that alone it can be about, 0 for any. certain is
// false when it may be one client's or another's.
func (l *pipeConn) about() (p *pending, only uint64, certain bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var t attribution
	l.tallyLocked(&t)
	if t.all.mixed {
		return nil, 0, false
	}
	if p = l.pending[t.all.number()]; p != nil {
		only = p.call.Client.Conversation
	}
	for i, g := range l.ghostsLocked() {
		if p == nil && i == 0 {
			only = g.conversation
		}
		if g.conversation == 0 || g.conversation != only {
			return nil, 0, false
		}
	}
	return p, only, true
}
