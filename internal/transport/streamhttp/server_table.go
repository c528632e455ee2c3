package streamhttp

import (
	"errors"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// evictable is how long a session must be idle before it may be removed to make room for a new one.
// abandonable is the corresponding time for a session that got no request after initialize. A
// client that opens sessions in a loop leaves many such sessions.
const (
	evictable   = 2 * time.Minute
	abandonable = 10 * time.Second
)

var (
	errExpired = errors.New("the session was idle for longer than the timeout")
	errAged    = errors.New("the session has reached its maximum age")
	errEvicted = errors.New("the session was idle, and was closed because too many sessions were open")
	errDeleted = errors.New("the client has ended the session")
)

// table contains a server's sessions. Its lock is not held while a session is opened or ended.
type table struct {
	mu       sync.RWMutex
	byID     map[string]*session
	bare     map[bareKey]*session
	reserved int             // number of sessions that are being opened
	quota    transport.Quota // counts the sessions and reservations of each party
	fading   []*session      // are in no map any more, and end when their requests have ended; see server_heirs.go
}

func (t *table) init() {
	t.byID = make(map[string]*session)
	t.bare = make(map[bareKey]*session)
}

func (t *table) len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.byID) + len(t.bare)
}

// acquire returns the session with the given id if it has the seat of who, and nil otherwise. The
// session is in use until release is called.
func (t *table) acquire(id string, who *identity.Principal) *session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	ses := t.byID[id]
	// A session belongs to the principal that opened it (2025-11-25 §Security Best Practices,
	// "Session Hijacking"). Other principals get the same answer as for a session that does not
	// exist.
	if ses == nil || ses.seat != who.SeatKey() || ses.parting {
		return nil
	}
	ses.active.Add(1)
	ses.used.Store(true)
	return ses
}

func (t *table) acquireBare(key bareKey) *session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	ses := t.bare[key]
	if ses != nil {
		ses.active.Add(1)
		ses.used.Store(true)
	}
	return ses
}

// putBare adds a new session under its key. If the key already has a session, putBare returns that
// session. The returned session is acquired. putBare uses up the reservation of the new session.
func (t *table) putBare(ses *session) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reserved--
	if there := t.bare[*ses.bare]; there != nil {
		t.quota.Give(ses.party)
		ses = there
	}
	t.bare[*ses.bare] = ses
	ses.active.Add(1)
	return ses
}

// put adds a session under an id, and uses up the reservation of the session.
func (t *table) put(ses *session, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reserved--
	ses.id = id
	t.byID[id] = ses
}

// take removes a session. It returns false if the session was removed already.
func (t *table) take(ses *session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.takeLocked(ses)
}

func (t *table) takeLocked(ses *session) bool {
	if ses.id != "" {
		if t.byID[ses.id] != ses {
			return false
		}
		delete(t.byID, ses.id)
		t.quota.Give(ses.party)
		return true
	}
	if ses.bare == nil || t.bare[*ses.bare] != ses {
		return false
	}
	delete(t.bare, *ses.bare)
	t.quota.Give(ses.party)
	return true
}

func (t *table) all() []*session {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]*session, 0, len(t.byID)+len(t.bare))
	for _, ses := range t.byID {
		out = append(out, ses)
	}
	for _, ses := range t.bare {
		out = append(out, ses)
	}
	return out
}

func (t *table) takeAll() []*session {
	out := t.all()
	left := out[:0]
	for _, ses := range out {
		if t.take(ses) {
			left = append(left, ses)
		}
	}
	return left
}

// takeSeat removes and returns the sessions of a seat.
func (t *table) takeSeat(seat string) (out []*session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	look := func(ses *session) {
		if ses.seat == seat {
			t.takeLocked(ses)
			out = append(out, ses)
		}
	}
	for _, ses := range t.byID {
		look(ses)
	}
	for _, ses := range t.bare {
		look(ses)
	}
	return out
}

// unreserve releases an unused reservation.
func (t *table) unreserve(party string) {
	t.mu.Lock()
	t.reserved--
	t.quota.Give(party)
	t.mu.Unlock()
}

// reserve takes a place for a new session of a party. It returns false if there is no free place
// for the party.
func (t *table) reserve(party string, most int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.quota.Room(party, most) {
		return false
	}
	t.reserved++
	t.quota.Take(party)
	return true
}

// evict removes an idle session to make room for a session of a party, and returns it. If the party
// has sessions, evict removes one of them, so that a party with many sessions does not displace
// other parties. Otherwise evict may remove any session. Of the sessions that have been idle for
// long enough, it removes the one with the longest idle time. If there is none, evict returns nil.
func (t *table) evict(party string, now time.Duration) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	own, _ := t.quota.Taken(party)
	var oldest *session
	look := func(ses *session) {
		if own > 0 && ses.party != party || ses.active.Load() != 0 {
			return
		}
		patience := evictable
		if !ses.used.Load() {
			patience = abandonable
		}
		if time.Duration(ses.seen.Load()) < now-patience && (oldest == nil || ses.seen.Load() < oldest.seen.Load()) {
			oldest = ses
		}
	}
	for _, ses := range t.byID {
		look(ses)
	}
	for _, ses := range t.bare {
		look(ses)
	}
	if oldest != nil {
		t.takeLocked(oldest)
	}
	return oldest
}

// overdue removes and returns the expired sessions. The parameters are times since the server's
// epoch. A session has expired if it is not in use and its last use was before idle, or if it was
// opened before aged.
func (t *table) overdue(idle, aged time.Duration) (out []*session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	look := func(ses *session) {
		if ses.active.Load() == 0 && time.Duration(ses.seen.Load()) < idle || ses.born < aged {
			t.takeLocked(ses)
			out = append(out, ses)
		}
	}
	for _, ses := range t.byID {
		look(ses)
	}
	for _, ses := range t.bare {
		look(ses)
	}
	return out
}

var errNotFound = transport.ErrNoSession

// acquire returns the session with the given id if it has the seat of who. The session is in use
// until release is called. The error is a *transport.Elsewhere if the session exists in another
// process.
func (s *Server) acquire(id string, who *identity.Principal) (*session, error) {
	ses := s.table.acquire(id, who)
	switch {
	case ses != nil && s.seats != nil && ses.term != s.seats.Term():
		s.leave(ses)
		return nil, errNotFound
	case ses != nil:
		return ses, nil
	case s.seats != nil:
		return nil, errNotFound // see seek
	}
	if home := s.opts.Places.Of(id); home != "" {
		return nil, &transport.Elsewhere{Home: home}
	}
	return nil, errNotFound
}

// sweep ends expired sessions.
func (s *Server) sweep() {
	now := s.now()
	for _, ses := range s.table.overdue(now-s.opts.SessionIdle, now-s.opts.SessionMax) {
		s.counts.expired.Add(1)
		cause := errExpired
		if ses.born < now-s.opts.SessionMax {
			cause = errAged
		}
		s.end(ses, cause)
	}
}

// forget drops the events that are too old to be resumed, in all sessions.
func (s *Server) forget() {
	for _, ses := range s.table.all() {
		ses.forget(s.opts.Replay)
	}
}

// reserve takes a place for a new session of a party. It evicts an idle session if necessary. It
// returns false if there is no free place.
func (s *Server) reserve(party string) bool {
	most := s.opts.MaxSessions
	if s.table.reserve(party, most) {
		return true
	}
	s.sweep()
	if s.table.reserve(party, most) {
		return true
	}
	ses := s.table.evict(party, s.now())
	if ses == nil {
		return false
	}
	s.counts.evicted.Add(1)
	s.end(ses, errEvicted)
	return s.table.reserve(party, most)
}
