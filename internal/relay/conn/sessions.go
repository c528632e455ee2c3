package conn

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Sessions is the state that all sessions with one server share.
//
// Sessions assigns the request ids of all these sessions. The ids are also the progress tokens. A
// wrapper that publishes a stdio program over HTTP may send each answer to all of its sessions. If
// two sessions used the same id, one session would get the answer for the other session.
//
// Such a wrapper broadcasts: it sends the messages for one session to all sessions. Sessions detects
// a broadcast when an answer arrives at a session that did not send the request. From then on, if a
// message does not name its call, Dragoman looks for the call in all sessions, because each session
// receives a copy of the message.
//
// With the zero Sessions, the ids start at 1. With NewSessions, they start at a random number.
// Sessions is safe for concurrent use.
type Sessions struct {
	first   int64 // all ids are greater than this number
	last    atomic.Int64
	unasked atomic.Int64
	odd     atomic.Int64
	late    atomic.Int64

	broadcasts atomic.Bool

	mu          sync.Mutex
	members     map[member]struct{}
	unknownIDs  int    // number of answers with ids that were never used; reset when the last session leaves
	onBroadcast func() // set by OnBroadcast; nil after it was called
}

// member contains the methods of a session that Sessions uses.
type member interface {
	// addCallsTo adds the session's calls in flight to t. It reports whether the server may
	// still send messages about an abandoned call.
	addCallsTo(t *attribution) (abandoned bool)
}

// These constants limit the first id. Ids stay below 2^31 for the first billion requests of a
// process, because some servers read ids as 32-bit integers. Dragoman does not use ids below
// minFirstID, because the ids of other clients of the same wrapper start at 0 or 1.
const (
	minFirstID = 1 << 20
	maxFirstID = 1 << 30
)

// maxUnknown is the number of answers with unknown ids that Dragoman treats as mistakes of the
// server. If more such answers arrive, Dragoman assumes that they are answers for other clients, and
// that the server broadcasts.
const maxUnknown = 1

// NewSessions returns a Sessions that starts at a random id. So other processes that use the same
// wrapper, and this process after a restart, almost certainly use different ids. If two processes
// send 10,000 requests each, they have a common id with a probability of about 1 in 50,000. Even then,
// they confuse calls only if both have a request with this id in flight at the same time.
func NewSessions() *Sessions {
	s := &Sessions{first: minFirstID + rand.Int64N(maxFirstID-minFirstID)}
	s.last.Store(s.first)
	return s
}

// OnBroadcast sets a function that Sessions calls once, when it detects that the server broadcasts.
// The function f must not block.
func (s *Sessions) OnBroadcast(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onBroadcast = f
}

// Unasked returns the number of answers that matched no open request: late answers, duplicates,
// and answers for other clients.
func (s *Sessions) Unasked() int64 { return s.unasked.Load() }

// LateProgress returns the number of progress notifications that the server has sent for a request
// that had ended: answered, cancelled or timed out. Such a notification is discarded.
func (s *Sessions) LateProgress() int64 { return s.late.Load() }

// NoteOdd counts a message from the server that could not be used.
func (s *Sessions) NoteOdd() { s.odd.Add(1) }

// Odd returns the number of messages from the server that could not be used. Such a message is
// unreadable, does not belong to a call, or is not allowed. Odd does not include the messages that
// Unasked and LateProgress count.
func (s *Sessions) Odd() int64 { return s.odd.Load() }

// Broadcasts reports whether Sessions has detected that the server broadcasts.
func (s *Sessions) Broadcasts() bool { return s.broadcasts.Load() }

func (s *Sessions) join(m member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.members == nil {
		s.members = make(map[member]struct{})
	}
	s.members[m] = struct{}{}
}

// leave removes a session. Further calls for the same session have no effect. When the last session
// leaves, leave resets everything that was learned about the server, because the next session may be
// with another server.
func (s *Sessions) leave(m member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, in := s.members[m]; !in {
		return
	}
	delete(s.members, m)
	if len(s.members) == 0 {
		s.unknownIDs = 0
		s.broadcasts.Store(false)
	}
}

// issued reports whether one of the sessions has used the id n.
func (s *Sessions) issued(n int64) bool { return n > s.first && n <= s.last.Load() }

// unknown records that a session received an answer with the id n, although it waits for no such
// answer. used says whether that session has sent a request with this id. certain is false if used
// may be wrong, because the session has forgotten its oldest ids. unknown returns true if another
// session of Dragoman has sent the request.
func (s *Sessions) unknown(n int64, used, certain bool) (anothers bool) {
	s.unasked.Add(1)
	if n <= 0 || used || !certain {
		// Dragoman never uses ids of 0 or less. Some servers answer a notification with such an
		// id.
		return false
	}
	anothers = s.issued(n)
	s.mu.Lock()
	if !anothers {
		s.unknownIDs++
	}
	var broadcast func()
	if anothers || s.unknownIDs > maxUnknown {
		s.broadcasts.Store(true)
		broadcast, s.onBroadcast = s.onBroadcast, nil
	}
	s.mu.Unlock()
	if broadcast != nil {
		broadcast()
	}
	return anothers
}

// place says to which session a message from the server belongs.
type place int

const (
	nowhere   place = iota // no call in flight owns the message
	here                   // the message belongs to a call of this session
	elsewhere              // the message belongs to a call of another session, which receives a copy of the message
	unclear                // the message may belong to calls of several clients
	ended                  // the message belongs to a call that has ended
)

// ownerOfRequest returns the number of the call that a server request belongs to, and the place of
// the call. The request does not contain the progress token of a call. own contains the calls of the
// session that received the request.
func (s *Sessions) ownerOfRequest(own *attribution) (int64, place) {
	if !s.Broadcasts() {
		if n := own.owner(); n != 0 {
			return n, here
		}
		return 0, nowhere
	}
	all, _, others, sessions := s.allCalls(own.task)
	n := all.owner()
	switch {
	case n == 0 && all.empty():
		if others {
			return 0, elsewhere // no call of Dragoman can own the request, so another client of the server owns it
		}
		if sessions > 1 {
			return 0, unclear
		}
		return 0, nowhere
	case n == 0 || others:
		return 0, unclear
	case n == own.owner():
		return n, here
	}
	return 0, elsewhere
}

// ownerOfLog returns the place of a log message from a server that broadcasts. own contains the
// calls of the session that received the message.
func (s *Sessions) ownerOfLog(own *attribution) place {
	all, abandoned, others, _ := s.allCalls("")
	n := all.all.number()
	switch {
	case others, all.all.mixed, abandoned:
		return unclear
	case all.all.call == nil:
		return nowhere
	case n == own.all.number():
		return here
	}
	return elsewhere
}

// allCalls collects the calls of all sessions in t. abandoned reports whether the server may still
// send messages about an abandoned call. others reports whether the server also sends the answers for
// other clients. sessions is the number of sessions.
func (s *Sessions) allCalls(task string) (t attribution, abandoned, others bool, sessions int) {
	t.task = task
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.members {
		if m.addCallsTo(&t) {
			abandoned = true
		}
	}
	return t, abandoned, s.unknownIDs > maxUnknown, len(s.members)
}

// used contains the ids that one session has used, as runs of consecutive numbers. If there is only
// one session, there is one run. If there are maxRuns runs, the method next removes the older half
// before it adds a run.
type used struct {
	mu   sync.Mutex
	runs []run
	from int64 // the first id that the session has used; 0 for none
}

type run struct{ from, to int64 }

const maxRuns = 256

// next assigns the next unused id to the session, and returns the id.
func (u *used) next(s *Sessions) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := s.last.Add(1)
	switch last := len(u.runs) - 1; {
	case last < 0:
		u.from = n
		u.runs = append(u.runs, run{n, n})
	case u.runs[last].to == n-1:
		u.runs[last].to = n
	default:
		if len(u.runs) == maxRuns {
			u.runs = slices.Delete(u.runs, 0, maxRuns/2)
		}
		u.runs = append(u.runs, run{n, n})
	}
	return n
}

// has reports whether the session has used n, and whether this result is certain.
func (u *used) has(n int64) (yes, certain bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range u.runs {
		if r.from <= n && n <= r.to {
			return true, true
		}
	}
	return false, len(u.runs) == 0 || n < u.from || n > u.runs[0].from
}

// newID returns the id of the next request.
func (c *Conn) newID() int64 { return c.used.next(c.sessions) }

// unasked records an answer that matches no open request. It returns true if another session of the
// same server has sent the request.
func (c *Conn) unasked(n int64) (anothers bool) {
	used, certain := c.used.has(n)
	return c.sessions.unknown(n, used, certain)
}

// unaskedMessage does the same as unasked for the answer m.
func (c *Conn) unaskedMessage(m *jsonrpc.Message) {
	n, _ := number([]byte(m.ID), jsonrpc.Span{End: len(m.ID)})
	c.unasked(n)
}

// strayProgress counts and logs a progress notification that belongs to no call in flight.
func (c *Conn) strayProgress(m *jsonrpc.Message) {
	n, ok := number(m.Raw, m.Param("progressToken"))
	if used, _ := c.used.has(n); !ok || !used {
		c.noteOdd(m.Method, "")
		return
	}
	c.sessions.late.Add(1)
	c.logOdd("late progress", "the request has ended")
}

// noteOdd counts and logs a message that could not be used.
func (c *Conn) noteOdd(what, detail string) {
	c.sessions.NoteOdd()
	c.logOdd(what, detail)
}

func (c *Conn) logOdd(what, detail string) {
	if c.opts.Log.Enabled(c.life, slog.LevelDebug) { // a server may send many of them, and masking takes time
		c.opts.Log.Debug("discarded an unexpected message from the server", "server", c.opts.Name, "what", c.shown(what), "detail", c.shown(detail))
	}
}

// ownerOf returns the number of the call that a server request belongs to, and the place of the call.
// Either the progress token of the request names this call, or the request cannot belong to any other
// call. The parameter link is the session that received the request. The function has reports whether
// this session has a call in flight with a given number.
func (c *Conn) ownerOf(m *jsonrpc.Message, link member, has func(n int64) bool) (int64, place) {
	if m.Method == mcp.MethodPing { // the session itself answers a ping
		return 0, nowhere
	}
	token, task := jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken), taskOf(m)
	if n, ok := number(m.Raw, token); ok {
		if has(n) {
			return n, here
		}
		used, certain := c.used.has(n)
		switch {
		case used && task == "":
			return 0, ended
		case used:
			// 2025-11-25 §Tasks: the token of the call that created a task stays valid. So look for a
			// call about the task.
		case certain && c.sessions.issued(n):
			return 0, elsewhere
		}
		// If no case applies, the server itself chose the token, to get progress of its request.
	}
	own := attribution{task: task}
	link.addCallsTo(&own)
	return c.sessions.ownerOfRequest(&own)
}

// refuseOrDrop refuses or drops a server request that no client of this session gets.
func (c *Conn) refuseOrDrop(m *jsonrpc.Message, where place) {
	if where == ended {
		c.refuse(m, callEnded)
		return
	}
	if where == unclear {
		c.opts.Log.Warn("server request refused", "server", c.opts.Name, "method", c.shown(m.Method), "cause", whyUnclear)
		c.refuse(m, whyUnclear)
		return
	}
	// The session of the call has received a copy of the request, and will answer it. If this session
	// refused the request, the server would treat the refusal as the answer.
	c.opts.Log.Debug("discarded a server request for another session", "server", c.opts.Name, "method", c.shown(m.Method))
}

// whyUnclear is the reason for refusing a server request with the place unclear.
const whyUnclear = "the server sends its requests to all sessions, and this request does not say which call it belongs to"
