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

// The bounds of what a session keeps for its client to come back to.
const (
	maxFinished = 16      // streams that have ended
	keptBytes   = 1 << 20 // in all of these together, and one stream more
)

// session is a legacy conversation that outlives its requests: one opened by
// initialize, or an adopted one of a client that opens none. It owns no goroutine
// and, while nothing waits in it, well under 1 KiB.
type session struct {
	id    string // "" for an adopted one
	seat  string
	party string   // out of whose share its place is, see transport.Quota
	bare  *bareKey // of an adopted one, else nil
	conv  transport.Conversation
	rules *httpdoor.StreamRules

	rev    atomic.Uint32 // mcp.Revision; Unknown until initialize was answered
	born   time.Duration // since the server's epoch, as is seen
	seen   atomic.Int64  // when a request or stream last came or went
	active atomic.Int32  // requests and streams; not idle while there are any
	used   atomic.Bool   // something came after its opening

	tag [4]byte // begins its event ids; random, and not the secret that id is

	mu       sync.Mutex
	ended    error            // why; nil while it lives
	life     *lifetime        // of what is in flight; nil while nothing is
	out      *httpdoor.Stream // messages that belong to no request; made on first use
	last     uint32           // number of the latest stream
	streams  map[uint32]*httpdoor.Stream
	finished []uint32 // of these, those that have ended, oldest first
}

// bareKey tells clients apart that have no session.
type bareKey struct {
	seat, remote string
	rev          mcp.Revision
}

// newSession returns a session that is in no table yet. Its conversation is set
// by the caller, who needs the session for it.
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

// lifetime returns the context of the requests that are in flight now. It ends
// with the session; one that has been idle for a while has none.
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

// prefix returns the beginning of the event ids of stream number n.
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

// streamIfAny returns nil where no such message has come and nobody has listened.
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

// addStream makes st one that its client can come back to, and numbers it.
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

// retire notes that a stream has ended. It is kept a while, for what its client
// may have missed.
func (ses *session) retire(number uint32) {
	ses.mu.Lock()
	ses.finished = append(ses.finished, number)
	ses.mu.Unlock()
	ses.forget(time.Hour)
}

// find returns the stream that an event id belongs to and the event's number.
// Ids of other sessions are unknown here, and so are those of streams that are no
// longer kept.
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

// forget drops what is too old, or too much, to be kept for the client.
func (ses *session) forget(age time.Duration) {
	if out := ses.streamIfAny(); out != nil {
		out.Forget(age)
	}
	ses.mu.Lock()
	if ses.life != nil && ses.active.Load() == 0 {
		// Whoever comes now makes a new one.
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

	// From the newest to the oldest, as far as there is room. One that is being
	// read goes on by itself when it is no longer in the table.
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

// cut ends all of the session's streams at once, whatever they have not sent.
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

// end closes a session that is in no table any more. What it has in flight is
// cancelled; its streams end when they have said so.
func (s *Server) end(ses *session, cause error) {
	s.counts.ended.Add(1)
	ses.cancel(cause)
	ses.conv.Close(cause)
	if out := ses.streamIfAny(); out != nil {
		out.End()
	}
}
