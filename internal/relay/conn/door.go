package conn

import (
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// pipeState is everything that changes in a pipeConn. The requests in pending belong to it too. Whoever
// has a *pipeState is inside pipeConn.update, and so under the lock.
type pipeState struct {
	pending   map[int64]*pending
	abandoned []abandonedCall // the abandoned calls, oldest first
	left      time.Time       // when the last request was abandoned
	ended     error           // why the pipe has ended; nil while it is open
	quit      chan struct{}   // closing this channel fails the calls that were not sent; see withdraw
	stuck     time.Duration   // how long the server had not read when quit was closed; 0 while quit is open

	// What the handshake wants to know beside the answers to its requests.
	onLate   func(*jsonrpc.Message) // gets late answers to requests of the handshake
	unasked  []*jsonrpc.Message     // results that match no request; kept until the handshake ends
	onPush   func(*jsonrpc.Message) // gets results that match no request, after the results in unasked
	settled  bool                   // whether the handshake has ended
	status   string                 // the name in the first status line that arrived before onStatus was set
	onStatus func(string)           // gets the names in status lines

	due []func() // what update does after it has released the lock
}

// update changes the state. It is the only door to it, and the function change must not block. What
// may block, such as telling the handshake, is left for after the unlock; see later.
func (c *pipeConn) update(change func(*pipeState)) {
	for _, act := range c.change(change) {
		act()
	}
}

func (c *pipeConn) change(change func(*pipeState)) (due []func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := &c.state
	change(st)
	if checking {
		st.check()
	}
	due, st.due = st.due, nil
	return due
}

// later makes update call act after it has released the lock.
func (st *pipeState) later(act func()) { st.due = append(st.due, act) }

// connState is everything that changes in a Conn after its handshake. Whoever has a *connState is inside
// Conn.update, and so under the lock.
type connState struct {
	closing bool
	asked   map[jsonrpc.ID]func(cause error) // open server requests, by id; the server may cancel them

	backlog      [][]byte // messages for a server that does not read; see Conn.respond
	backlogBytes int
}

// update changes the state. It is the only door to it, and the function change must not block.
func (c *Conn) update(change func(*connState)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.state)
	if checking {
		c.state.check()
	}
}

// checking says that the state is checked after every change. The tests set it.
var checking bool

// check panics if the state is not as it must be between two changes.
func (st *pipeState) check() {
	for n, p := range st.pending {
		size := 0
		for _, m := range p.events {
			size += len(m.Raw)
		}
		must(p.answer == nil && p.err == nil, "request %d has its answer, but is pending", n)
		must(!p.left || p.keep && p.events == nil, "nobody waits for request %d, but it is pending", n)
		must(p.bytes == size, "request %d has %d bytes of events, but counts %d", n, size, p.bytes)
	}
	must(st.ended == nil || len(st.pending) == 0, "the pipe has ended, but %d requests are pending", len(st.pending))
	must(len(st.abandoned) <= maxAbandoned, "%d abandoned calls are remembered", len(st.abandoned))
	must(!st.settled || st.unasked == nil && st.onPush == nil, "the handshake has ended, but results are kept for it")
	must(st.onStatus == nil || st.status == "", "the handshake was not told the status")
	closed := false
	select {
	case <-st.quit:
		closed = true
	default:
	}
	must(closed == (st.stuck > 0), "calls fail: %t, the server had not read for %v", closed, st.stuck)
}

// check panics if the state is not as it must be between two changes.
func (st *connState) check() {
	size := 0
	for _, body := range st.backlog {
		size += len(body)
	}
	must(size == st.backlogBytes, "the backlog has %d bytes, but counts %d", size, st.backlogBytes)
	must(len(st.backlog) <= maxBacklog && size <= maxBacklogBytes, "the backlog has %d messages, %d bytes", len(st.backlog), size)
	must(len(st.asked) <= maxQuestions, "%d server requests are open", len(st.asked))
}

func must(holds bool, format string, args ...any) {
	if !holds {
		panic(fmt.Sprintf("conn: "+format, args...))
	}
}

// keep adds a message to the backlog. first says that nobody delivers the backlog yet. ok is false if
// there is no room.
func (st *connState) keep(body []byte) (first, ok bool) {
	if st.closing || len(st.backlog) >= maxBacklog || st.backlogBytes+len(body) > maxBacklogBytes {
		return false, false
	}
	st.backlog = append(st.backlog, body)
	st.backlogBytes += len(body)
	return len(st.backlog) == 1, true
}

// delivered removes the oldest message from the backlog, and returns the next one, or nil.
func (st *connState) delivered() []byte {
	st.backlogBytes -= len(st.backlog[0])
	st.backlog[0] = nil
	st.backlog = st.backlog[1:]
	if len(st.backlog) == 0 {
		return nil
	}
	return st.backlog[0]
}
