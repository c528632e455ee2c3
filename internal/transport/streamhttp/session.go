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

// The limits of what a session keeps for resumption.
const (
	maxFinished = 16      // streams that have ended
	keptBytes   = 1 << 20 // in all of these together, plus one stream
)

// session is a legacy conversation that outlives its requests: opened by initialize, or
// adopted for a client that opens none. It owns no goroutine and, while idle, uses well
// under 1 KiB.
type session struct {
	id    string // "" for an adopted one
	seat  string
	party string   // the party of its place, see transport.Quota
	bare  *bareKey // key of an adopted one, otherwise nil
	conv  transport.Conversation
	rules *httpdoor.StreamRules

	rev    atomic.Uint32 // mcp.Revision; Unknown until initialize was answered
	born   time.Duration // time since the server's epoch, like seen
	seen   atomic.Int64  // when a request or stream last started or ended
	active atomic.Int32  // number of requests and streams; idle if 0
	used   atomic.Bool   // a request came after initialize

	tag [4]byte // prefix of its event ids; random, but not a secret like id

	mu       sync.Mutex
	ended    error            // why it ended; nil while it is open
	life     *lifetime        // lifetime of the requests in flight; nil if there are none
	out      *httpdoor.Stream // messages that belong to no request; created on first use
	last     uint32           // number of the latest stream
	streams  map[uint32]*httpdoor.Stream
	finished []uint32 // the ended ones of these, oldest first
}

// bareKey identifies a client that has no session.
type bareKey struct {
	seat, remote string
	rev          mcp.Revision
}

// newSession returns a session that is not in the table yet. The caller sets its
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

// lifetime returns the context of the requests in flight. It ends with the session. An
// idle session has none.
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

// cancel ends the session's lifetime, for good.
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

// prefix returns the prefix of the event ids of stream number n.
func (ses *session) prefix(n uint32) string {
	return ses.name() + "-" + strconv.FormatUint(uint64(n), 10) + "-"
}

func (ses *session) name() string { return hex.EncodeToString(ses.tag[:]) }

// stream returns the stream of messages that belong to no request.
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

// streamIfAny returns the stream, nil if no such message was sent and nobody has
// listened.
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

// Send implements transport.Outbox. An adopted client has no stream to open.
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

// addStream numbers st and makes it resumable.
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

// retire records that a stream has ended. It is kept for a while, for messages that its
// client may have missed.
func (ses *session) retire(number uint32) {
	ses.mu.Lock()
	ses.finished = append(ses.finished, number)
	ses.mu.Unlock()
	ses.forget(time.Hour)
}

// find returns the stream of an event id and the event's number. Ids of other sessions,
// and of streams that are no longer kept, are unknown.
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
		// The next user creates a new one.
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

	// From the newest to the oldest, as far as there is room. A stream that is being
	// read continues even if it is no longer in the table.
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

// cut ends all of the session's streams immediately, without sending the rest.
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

// end closes a session that is no longer in a table. It cancels its requests in flight.
// Its streams end after sending what is queued.
func (s *Server) end(ses *session, cause error) {
	s.counts.ended.Add(1)
	ses.cancel(cause)
	ses.conv.Close(cause)
	if out := ses.streamIfAny(); out != nil {
		out.End()
	}
}
