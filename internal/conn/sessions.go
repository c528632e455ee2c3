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

// Sessions is what all sessions with one server share.
//
// It counts their request ids, which are their progress tokens too. A wrapper that
// makes an HTTP server of a program on stdio may send each answer to all of its
// sessions, so that an id which two sessions use brings one the other's answer.
//
// It also notices such a server ("it broadcasts"): an answer arrives at a session that
// has not asked. From then on a message that does not name its call is attributed
// among the calls of all sessions, since each of them receives a copy.
//
// The zero Sessions counts from 1; NewSessions starts at random. Safe for concurrent
// use.
type Sessions struct {
	first   int64 // no id of ours is below or equal
	last    atomic.Int64
	unasked atomic.Int64
	odd     atomic.Int64

	broadcasts atomic.Bool

	mu      sync.Mutex
	members map[member]struct{}
	strange int    // answers to requests that nobody here has sent, while there are members
	tell    func() // of OnBroadcast; nil once it was called
}

// member is one session, as the others see it.
type member interface {
	// tallyInto adds the session's calls in flight to t. It reports whether the server
	// may still send messages about a call that was given up.
	tallyInto(t *attribution) (abandoned bool)
}

// The bounds of the first id. Ids stay below 2^31 for the first billion requests of a
// process, because there are servers that read an id as a 32-bit integer. Below the
// lower bound are the ids of clients that count from 0 or 1, which may be behind the
// same wrapper.
const (
	minFirstID = 1 << 20
	maxFirstID = 1 << 30
)

// maxStrange is how many answers to unknown ids are a mistake of the server; one more
// and it is taken to have other clients whose answers we receive.
const maxStrange = 1

// NewSessions returns a Sessions that counts from a random id, so that another process
// behind the same wrapper uses other ids, and this one too after a restart: two
// processes that send 10,000 requests each have an id in common once in 50,000 times,
// and confuse calls only if both have it in flight at the same time.
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

// Unasked returns how many answers matched no open request: late ones, repeated ones,
// and those of other clients.
func (s *Sessions) Unasked() int64 { return s.unasked.Load() }

// NoteOdd counts a message of the server that could not be used.
func (s *Sessions) NoteOdd() { s.odd.Add(1) }

// Odd returns how many messages of the server could not be used: unreadable ones, and
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

// leave takes a session out, once or several times. What was learned of the server
// ends with its last session: it may be another when it is opened again.
func (s *Sessions) leave(m member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, in := s.members[m]; !in {
		return
	}
	delete(s.members, m)
	if len(s.members) == 0 {
		s.strange = 0
		s.broadcasts.Store(false)
	}
}

// issued reports whether n is an id that one of the sessions has used.
func (s *Sessions) issued(n int64) bool { return n > s.first && n <= s.last.Load() }

// unknown takes note of an answer with the id n that arrived at a session which does
// not wait for it. used says what the session knows: whether it has sent the request n.
// It returns true for an answer that another session of ours has asked for.
func (s *Sessions) unknown(n int64, used, certain bool) (anothers bool) {
	s.unasked.Add(1)
	if n <= 0 || used || !certain {
		// 0 and numbers below it are no ids of ours: an answer to a notification, as
		// some servers give.
		return false
	}
	anothers = s.issued(n)
	s.mu.Lock()
	if !anothers {
		s.strange++
	}
	var tell func()
	if anothers || s.strange > maxStrange {
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
	nowhere   place = iota // to no call that runs
	here                   // to a call of this session
	elsewhere              // to a call of another session, which receives it too
	unclear                // to one client's call or another's
	ended                  // to a call that is over
)

// question returns the number of the call that a request of the server belongs to, when
// the request does not carry the token of a call. own are the calls of the session that
// received it.
func (s *Sessions) question(own *attribution) (int64, place) {
	if !s.Broadcasts() {
		if n := own.asking(); n != 0 {
			return n, here
		}
		return 0, nowhere
	}
	all, _, strangers, sessions := s.tally(own.task)
	n := all.asking()
	switch {
	case n == 0 && all.empty():
		if strangers {
			return 0, elsewhere // nothing of ours runs
		}
		if sessions > 1 {
			return 0, unclear
		}
		return 0, nowhere
	case n == 0 || strangers:
		return 0, unclear
	case n == own.asking():
		return n, here
	}
	return 0, elsewhere
}

// log returns where a log message belongs which came to a session of a server that
// broadcasts. own are the calls of the session.
func (s *Sessions) log(own *attribution) place {
	all, abandoned, strangers, _ := s.tally("")
	n := all.all.number()
	switch {
	case strangers, all.all.mixed, abandoned:
		return unclear
	case all.all.call == nil:
		return nowhere
	case n == own.all.number():
		return here
	}
	return elsewhere
}

// tally counts the calls of all sessions.
func (s *Sessions) tally(task string) (t attribution, abandoned, strangers bool, sessions int) {
	t.task = task
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.members {
		if m.tallyInto(&t) {
			abandoned = true
		}
	}
	return t, abandoned, s.strange > maxStrange, len(s.members)
}

// used are the ids that one session has used, as runs of numbers that follow each
// other: with one session there is one run. The oldest runs are forgotten.
type used struct {
	mu   sync.Mutex
	runs []run
	from int64 // the first id, 0 for none
}

type run struct{ from, to int64 }

const maxRuns = 256

// next takes the next id of the server for this session.
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

// unasked takes an answer that nobody waits for. It returns true when another session
// of the same server has asked for it.
func (s *Conn) unasked(n int64) (anothers bool) {
	used, certain := s.used.has(n)
	return s.sessions.unknown(n, used, certain)
}

// unaskedMessage is unasked for an answer as it came.
func (s *Conn) unaskedMessage(m *jsonrpc.Message) {
	n, _ := number([]byte(m.ID), jsonrpc.Span{End: len(m.ID)})
	s.unasked(n)
}

// whose returns the number of the call that a request of the server belongs to: the
// one that its progress token names, else the one that alone can be meant. own are
// the calls of the session link, and has reports whether one of them has a number.
func (s *Conn) whose(m *jsonrpc.Message, link member, has func(n int64) bool) (int64, place) {
	if m.Method == mcp.MethodPing { // which each session answers, and no call
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
			// 2025-11-25 §Tasks: the token of the call that made a task stays valid.
		case certain && s.sessions.issued(n):
			return 0, elsewhere
		}
		// A token of the server's own: it would hear of the progress of its question.
	}
	own := attribution{task: task}
	link.tallyInto(&own)
	return s.sessions.question(&own)
}

// passOver refuses or drops a request of the server that is not given to any client
// here.
func (s *Conn) passOver(m *jsonrpc.Message, where place) {
	if where == ended {
		s.refuse(m, callEnded)
		return
	}
	if where == unclear {
		s.opts.Log.Warn("question refused", "server", s.opts.Name, "method", excerpt.Name(m.Method), "cause", whyUnclear)
		s.refuse(m, whyUnclear)
		return
	}
	// The session that it is for has a copy. To refuse it here would answer it there.
	s.opts.Log.Debug("question for another session dropped", "server", s.opts.Name, "method", excerpt.Name(m.Method))
}

// whyUnclear is why a question of a server that broadcasts is refused.
const whyUnclear = "the server sends its questions to all of its sessions, and this one does not name its call"
