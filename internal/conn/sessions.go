package conn

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Sessions is the state that all sessions with one server share.
//
// It counts their request ids, which are also their progress tokens. A wrapper that exposes
// a stdio program over HTTP may send each answer to all of its sessions. If two sessions
// used the same id, one would get the other's answer.
//
// It also detects such a server (the server "broadcasts"): an answer arrives at a session
// that did not send the request. From then on a message that does not name its call is
// attributed among the calls of all sessions, since each of them receives a copy.
//
// The zero Sessions counts from 1; NewSessions starts at random. Safe for concurrent use.
type Sessions struct {
	first   int64 // all our ids are greater
	last    atomic.Int64
	unasked atomic.Int64
	odd     atomic.Int64

	broadcasts atomic.Bool

	mu         sync.Mutex
	members    map[member]struct{}
	unknownIDs int    // answers with ids that we never sent; reset when the last session leaves
	tell       func() // set by OnBroadcast; nil after its call
}

// member is one session as seen by Sessions.
type member interface {
	// addCallsTo adds the session's calls in flight to t. It reports whether the server may
	// still send messages about an abandoned call.
	addCallsTo(t *attribution) (abandoned bool)
}

// Bounds of the first id. Ids stay below 2^31 for the first billion requests of a process,
// because some servers read ids as 32-bit integers. Ids below the lower bound are left to
// other clients behind the same wrapper that count from 0 or 1.
const (
	minFirstID = 1 << 20
	maxFirstID = 1 << 30
)

// maxUnknown is how many answers to unknown ids count as mistakes of the server. One more
// means that we receive the answers of other clients.
const maxUnknown = 1

// NewSessions returns a Sessions that counts from a random id. Other processes behind the
// same wrapper then use other ids, and so does this one after a restart. Two processes that
// send 10,000 requests each share an id once in 50,000 times, and confuse calls only if
// both have it in flight at the same time.
func NewSessions() *Sessions {
	s := &Sessions{first: minFirstID + rand.Int64N(maxFirstID-minFirstID)}
	s.last.Store(s.first)
	return s
}

// OnBroadcast sets a function that is called once, when the server is found to
// broadcast. f must not block.
func (s *Sessions) OnBroadcast(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell = f
}

// Unasked returns how many answers matched no open request: late ones, duplicates, and
// those of other clients.
func (s *Sessions) Unasked() int64 { return s.unasked.Load() }

// NoteOdd counts a message from the server that could not be used.
func (s *Sessions) NoteOdd() { s.odd.Add(1) }

// Odd returns how many messages from the server could not be used: unreadable ones, and
// those that belong to no call or must not be sent there. Unasked counts answers.
func (s *Sessions) Odd() int64 { return s.odd.Load() }

// Broadcasts reports whether the server sends messages meant for one session to all
// sessions.
func (s *Sessions) Broadcasts() bool { return s.broadcasts.Load() }

func (s *Sessions) join(m member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.members == nil {
		s.members = make(map[member]struct{})
	}
	s.members[m] = struct{}{}
}

// leave removes a session; calling it again has no effect. What was learned about the
// server is reset with its last session, because the next one may be with another server.
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

// unknown records an answer with the id n that arrived at a session that does not wait for
// it. used says whether that session has sent a request n, and certain whether it still
// knows. It returns true if another session of ours has sent the request.
func (s *Sessions) unknown(n int64, used, certain bool) (anothers bool) {
	s.unasked.Add(1)
	if n <= 0 || used || !certain {
		// We never use ids of 0 or less. Some servers send such an answer to a
		// notification.
		return false
	}
	anothers = s.issued(n)
	s.mu.Lock()
	if !anothers {
		s.unknownIDs++
	}
	var tell func()
	if anothers || s.unknownIDs > maxUnknown {
		s.broadcasts.Store(true)
		tell, s.tell = s.tell, nil
	}
	s.mu.Unlock()
	if tell != nil {
		tell()
	}
	return anothers
}

// place says where a message belongs that a server sent to a session.
type place int

const (
	nowhere   place = iota // no call in flight
	here                   // a call of this session
	elsewhere              // a call of another session, which receives it too
	unclear                // one client's call or another's
	ended                  // a call that is over
)

// ownerOfRequest returns the number of the call that a server request belongs to if the
// request does not carry the token of a call. own holds the calls of the session that
// received it.
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
			return 0, elsewhere // we have no call in flight
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

// ownerOfLog returns where a log message from a broadcasting server belongs. own holds the
// calls of the session that received it.
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

// allCalls collects the calls of all sessions.
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

// used holds the ids that one session has used, as runs of consecutive numbers. With one
// session there is one run. The oldest runs are forgotten.
type used struct {
	mu   sync.Mutex
	runs []run
	from int64 // the first id, 0 for none
}

type run struct{ from, to int64 }

const maxRuns = 256

// next assigns the session the next id of the server.
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

// has reports whether the session has used n, and whether that is certain.
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
func (s *Conn) newID() int64 { return s.used.next(s.sessions) }

// unasked records an answer that nobody waits for. It returns true if another session of
// the same server has sent the request.
func (s *Conn) unasked(n int64) (anothers bool) {
	used, certain := s.used.has(n)
	return s.sessions.unknown(n, used, certain)
}

// unaskedMessage is unasked for the answer m.
func (s *Conn) unaskedMessage(m *jsonrpc.Message) {
	n, _ := number([]byte(m.ID), jsonrpc.Span{End: len(m.ID)})
	s.unasked(n)
}

// ownerOf returns the number of the call that a server request belongs to: the call that
// its progress token names, else the only call it can belong to. link is the session that
// received it; has reports whether link has a call with a given number.
func (s *Conn) ownerOf(m *jsonrpc.Message, link member, has func(n int64) bool) (int64, place) {
	if m.Method == mcp.MethodPing { // answered by the session itself
		return 0, nowhere
	}
	token, task := jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken), taskOf(m)
	if n, ok := number(m.Raw, token); ok {
		if has(n) {
			return n, here
		}
		used, certain := s.used.has(n)
		switch {
		case used && task == "":
			return 0, ended
		case used:
			// 2025-11-25 §Tasks: the token of the call that created a task stays valid.
		case certain && s.sessions.issued(n):
			return 0, elsewhere
		}
		// Otherwise the token is the server's own: it wants progress of its request.
	}
	own := attribution{task: task}
	link.addCallsTo(&own)
	return s.sessions.ownerOfRequest(&own)
}

// refuseOrDrop refuses or drops a server request that is not delivered to any client here.
func (s *Conn) refuseOrDrop(m *jsonrpc.Message, where place) {
	if where == ended {
		s.refuse(m, callEnded)
		return
	}
	if where == unclear {
		s.opts.Log.Warn("server request refused", "server", s.opts.Name, "method", excerpt.Name(m.Method), "cause", whyUnclear)
		s.refuse(m, whyUnclear)
		return
	}
	// The session that owns it has received a copy. A refusal from here would count as its
	// answer.
	s.opts.Log.Debug("server request for another session dropped", "server", s.opts.Name, "method", excerpt.Name(m.Method))
}

// whyUnclear is why a request of a broadcasting server is refused.
const whyUnclear = "the server sends its requests to all of its sessions, and this one does not name its call"
