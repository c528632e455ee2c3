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

	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// These constants limit the ended streams that a session keeps for resumption.
const (
	maxFinished = 16      // number of streams that have ended
	keptBytes   = 1 << 20 // the bytes of all these streams together; one stream may exceed the limit
)

// session is a legacy conversation that lasts longer than its requests. It was opened by
// initialize, or adopted for a client that does not open sessions. It does not own a goroutine. An
// idle session needs less than 1 KiB.
type session struct {
	id    string // the session id; "" for an adopted session
	seat  string
	party string   // party for transport.Quota
	bare  *bareKey // key of an adopted session, otherwise nil
	conv  transport.Conversation
	rules *httpdoor.StreamRules

	rev    atomic.Uint32 // an mcp.Revision; Unknown until initialize was answered
	born   time.Duration // the time of creation since the server's epoch
	seen   atomic.Int64  // the time since the server's epoch when a request or stream last started or ended
	active atomic.Int32  // number of requests and streams; 0 means idle
	used   atomic.Bool   // a request came after initialize

	tag [4]byte // the start of the event ids; random, but not a secret (unlike id)

	mu       sync.Mutex
	ended    error            // why the session ended; nil while it is open
	life     *lifetime        // context of the requests in flight; nil if there are none
	out      *httpdoor.Stream // the stream for messages that do not belong to a request; created on first use
	last     uint32           // number of the latest stream
	streams  map[uint32]*httpdoor.Stream
	finished []uint32 // numbers of the streams that have ended, oldest first
}

// bareKey identifies a client that has no session.
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
	return ses
}

// lifetime is the context of a session's requests.
type lifetime struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// lifetime returns the context of the requests in flight, which ends with the session. For an idle
// session, lifetime creates the context.
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

// cancel ends the session's lifetime permanently.
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

func (ses *session) over() bool {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	return ses.ended != nil
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

// streamIfAny returns the stream of messages that do not belong to a request. It returns nil if no
// such message was sent yet.
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

// Send implements transport.Outbox. For an adopted client it always fails, because such a client
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

// forget drops events that are too old or too many.
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

	// Keep the newest streams that fit. A stream that is being read continues even if it is removed
	// from the session.
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

// cut ends all streams of the session at once, without sending the rest.
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

// end closes a session that is no longer in a table. It cancels the requests in flight. The
// streams of the session end after they have sent what is queued.
func (s *Server) end(ses *session, cause error) {
	s.counts.ended.Add(1)
	ses.cancel(cause)
	ses.conv.Close(cause)
	if out := ses.streamIfAny(); out != nil {
		out.End()
	}
}
