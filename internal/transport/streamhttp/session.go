package streamhttp

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// These constants limit the ended streams that a session keeps for resumption.
const (
	maxFinished = 16      // maximum number of ended streams
	keptBytes   = 1 << 20 // maximum bytes of all ended streams together; the oldest stream that is kept may exceed the limit
)

// session is a legacy conversation that lasts longer than its requests. It was opened by
// initialize, or adopted for a client that does not open sessions. An idle session has no
// goroutine, and needs less than 1 KiB.
type session struct {
	id    string // the session id; "" for an adopted session
	seat  string
	party string   // party for transport.Quota
	bare  *bareKey // key of an adopted session, otherwise nil
	conv  transport.Conversation
	rules *httpdoor.StreamRules

	rev     atomic.Uint32 // an mcp.Revision; Unknown until initialize was answered
	born    time.Duration // the time of creation, relative to the server's epoch
	seen    atomic.Int64  // when a request or stream last started or ended, relative to the server's epoch
	active  atomic.Int32  // number of requests and streams; 0 means idle
	hearing atomic.Int32  // number of GET streams among them
	used    atomic.Bool   // true if the session was used after initialize

	// These are for sessions that outlive their process; see server_heirs.go.
	term    uint64                     // transport.Seats.Term when it came here
	parting bool                       // it's just being given away; guarded by the lock of the table
	written atomic.Bool                // something is written about it
	keep    func(extras func() []byte) // writes down what the client has set; nil if the session ends with the process

	tag [4]byte // start of the event ids, written in hexadecimal; random, but not a secret (unlike id)

	mu       sync.Mutex
	ended    error            // why the session ended; nil while it is open
	life     *lifetime        // context of the requests; created on first use, dropped when the session is idle
	out      *httpdoor.Stream // the stream for messages that do not belong to a request; created on first use
	last     uint32           // number of the latest stream
	streams  map[uint32]*httpdoor.Stream
	finished []uint32 // numbers of the streams that have ended, oldest first
}

// bareKey identifies a client that does not open sessions.
type bareKey struct {
	seat, remote string
	rev          mcp.Revision
}

// newSession returns a session that is not in the table yet. The caller must set its
// conversation.
func (s *Server) newSession(seat, party string) *session {
	ses := &session{seat: seat, party: party, born: s.now(), rules: s.rules}
	ses.seen.Store(int64(ses.born))
	_, _ = rand.Read(ses.tag[:]) // never fails
	if s.seats != nil {
		ses.term = s.seats.Term()
	}
	return ses
}

// lifetime is the context of a session's requests.
type lifetime struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// lifetime returns the context of the session's requests, and creates the context if necessary. The
// context ends when the session ends.
func (ses *session) lifetime() context.Context {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.life == nil {
		ses.life = new(lifetime)
		ses.life.ctx, ses.life.cancel = context.WithCancelCause(context.Background())
		if ses.ended != nil {
			ses.life.cancel(ses.ended)
		}
	}
	return ses.life.ctx
}

// cancel marks the session as ended and cancels the context of its requests.
func (ses *session) cancel(cause error) {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.ended == nil {
		ses.ended = cause
	}
	if ses.life != nil {
		ses.life.cancel(cause)
	}
}

// over returns why the session ended, or nil while it is open.
func (ses *session) over() error {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	return ses.ended
}

// prefix returns the start of the event ids of stream number n.
func (ses *session) prefix(n uint32) string {
	return ses.name() + "-" + strconv.FormatUint(uint64(n), 10) + "-"
}

func (ses *session) name() string { return hex.EncodeToString(ses.tag[:]) }

// stream returns the stream of messages that do not belong to a request. It creates the stream if
// necessary.
func (ses *session) stream() *httpdoor.Stream {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	if ses.out == nil {
		ses.out = new(httpdoor.Stream)
		ses.out.Init(ses.rules, ses.prefix(0), httpdoor.Wait)
		if ses.ended != nil {
			ses.out.End()
		}
	}
	return ses.out
}

// streamIfAny returns the stream of messages that do not belong to a request. It returns nil if the
// stream was not created yet.
func (ses *session) streamIfAny() *httpdoor.Stream {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	return ses.out
}

// newSessionID returns 192 random bits in visible ASCII (2025-11-25 §Transports,
// "Session Management" 1).
func newSessionID() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func (ses *session) revision() mcp.Revision { return mcp.Revision(ses.rev.Load()) }

// Send implements transport.Outbox. For an adopted session, Send always fails, because the client
// has no stream.
func (ses *session) Send(b []byte) error {
	if ses.bare != nil {
		return transport.ErrNoStream
	}
	return ses.stream().Push("message", b)
}

func (ses *session) release(now time.Duration) {
	ses.seen.Store(int64(now))
	ses.active.Add(-1)
}

// addStream gives st a number and makes it resumable.
func (ses *session) addStream(st *httpdoor.Stream, rules *httpdoor.StreamRules) (number uint32) {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	ses.last++
	if ses.streams == nil {
		ses.streams = make(map[uint32]*httpdoor.Stream)
	}
	ses.streams[ses.last] = st
	st.Init(rules, ses.prefix(ses.last), httpdoor.Keep)
	return ses.last
}

// retire records that a stream has ended. The stream is kept for some time, because the client may
// have missed messages.
func (ses *session) retire(number uint32) {
	ses.mu.Lock()
	ses.finished = append(ses.finished, number)
	ses.mu.Unlock()
	ses.forget(time.Hour)
}

// find returns the stream of an event id and the event's number. ok is false for ids of other
// sessions, and for streams that are no longer kept.
func (ses *session) find(eventID string) (st *httpdoor.Stream, number uint64, ok bool) {
	rest, ok := strings.CutPrefix(eventID, ses.name()+"-")
	if !ok {
		return nil, 0, false
	}
	which, _, _ := strings.Cut(rest, "-")
	n, err := strconv.ParseUint(which, 10, 32)
	if err != nil {
		return nil, 0, false
	}
	if n == 0 {
		st = ses.stream()
	} else {
		ses.mu.Lock()
		st = ses.streams[uint32(n)]
		ses.mu.Unlock()
	}
	if st == nil {
		return nil, 0, false
	}
	number, ok = st.Number(eventID)
	return st, number, ok
}

// forget drops events that are older than age, and the oldest ended streams beyond the limits. If
// the session is idle, forget also drops the context of its requests.
func (ses *session) forget(age time.Duration) {
	if out := ses.streamIfAny(); out != nil {
		out.Forget(age)
	}
	ses.mu.Lock()
	if ses.life != nil && ses.active.Load() == 0 {
		// The next request creates a new context.
		ses.life.cancel(nil)
		ses.life = nil
	}
	if len(ses.streams) == 0 {
		ses.mu.Unlock()
		return
	}
	numbers := append([]uint32(nil), ses.finished...)
	streams := make([]*httpdoor.Stream, len(numbers))
	for i, n := range numbers {
		streams[i] = ses.streams[n]
	}
	ses.mu.Unlock()

	// Keep the newest streams within the limits. A stream that is being read continues even if it
	// is removed from the session.
	total, drop := 0, make(map[uint32]bool)
	for i := len(numbers) - 1; i >= 0; i-- {
		kept := streams[i].Forget(age)
		if kept == 0 || total >= keptBytes || len(numbers)-i > maxFinished {
			drop[numbers[i]] = true
		}
		total += kept
	}
	ses.mu.Lock()
	defer ses.mu.Unlock()
	left := ses.finished[:0]
	for _, n := range ses.finished {
		if drop[n] {
			delete(ses.streams, n)
		} else {
			left = append(left, n)
		}
	}
	if ses.finished = left; len(left) == 0 {
		ses.finished = nil
	}
	if len(ses.streams) == 0 {
		ses.streams = nil
	}
}

// cut ends all streams of the session at once, without sending queued messages.
func (ses *session) cut() {
	ses.mu.Lock()
	streams := make([]*httpdoor.Stream, 0, len(ses.streams)+1)
	if ses.out != nil {
		streams = append(streams, ses.out)
	}
	for _, st := range ses.streams {
		streams = append(streams, st)
	}
	ses.mu.Unlock()
	for _, st := range streams {
		st.Cut()
	}
}

// end closes a session that is no longer in the table. It cancels the requests in flight. The
// stream of messages that do not belong to a request ends after its queued messages were sent.
func (s *Server) end(ses *session, cause error) {
	s.counts.ended.Add(1)
	ses.cancel(cause)
	ses.conv.Close(cause)
	if out := ses.streamIfAny(); out != nil {
		out.End()
	}
	if ses.written.Load() {
		s.seats.Release(ses.id)
	}
}
