package lines

import (
	"bytes"
	"strconv"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

const (
	// maxRequests is the maximum number of requests that the SDK has not answered. It is larger
	// than the number of calls that can run and wait in a server.
	maxRequests = 1024
	// maxBatch is the maximum number of messages in a batch.
	maxBatch = maxRequests
	// maxBatchBytes is the maximum size of the responses to one batch, in bytes. An error replaces
	// each response that would exceed this size.
	maxBatchBytes = 32 << 20
)

// requests contains the client's requests that the SDK has not answered. The SDK itself never
// answers a batch that contains a notification. It also never answers a batch that contains a
// request with the id of a running request. It answers cancelled requests, although it should not.
// So requests detects ids that are in use, collects the responses to a batch, and drops the
// responses to cancelled requests.
type requests struct {
	mu       sync.Mutex
	last     uint64              // the number of the newest request
	byKey    map[string]*request // without cancelled requests, so that the client can use their ids again
	byNumber map[uint64]*request
	busy     int           // the number of requests without subscriptions whose responses the client has not got
	quiet    chan struct{} // closed when busy becomes 0; nil if nobody waits
}

// request is a request of the client that the SDK has not answered.
type request struct {
	number        uint64
	id            jsonrpc.ID // the client's id
	batch         *batch     // nil if the request is not part of a batch
	index         int        // the index of the response in batch.answers
	uncancellable bool       // the client must not cancel the request
	listen        bool       // the request is a subscription
	cancelled     bool
}

// batch collects the responses to the requests of one batch, in the order of the requests.
type batch struct {
	answers [][]byte // an element is nil if its response is missing, or if the client does not get it
	missing int
	size    int // the total size of the responses in bytes
}

// line returns the responses as one array on a line, or nil if there are none.
func (b *batch) line() []byte {
	given := make([][]byte, 0, len(b.answers))
	for _, a := range b.answers {
		if a != nil {
			given = append(given, a)
		}
	}
	if len(given) == 0 {
		return nil
	}
	out := append([]byte{'['}, bytes.Join(given, []byte{','})...)
	return append(out, "]\n"...)
}

// refuse adds an error as the next response of the batch.
func (b *batch) refuse(e *jsonrpc.Error) {
	b.answers = append(b.answers, bytes.TrimSpace(failure(e)))
}

// reserve returns the number for a new request.
func (r *requests) reserve() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	return r.last
}

// add adds a request with a number from reserve. If b is not nil, add reserves the next place in b
// for the response. If the request must not reach the SDK, add returns an error and adds nothing.
func (r *requests) add(m *jsonrpc.Message, number uint64, b *batch) *jsonrpc.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := keyOf([]byte(m.ID))
	if r.byKey[key] != nil {
		// 2026-07-28 §Base, "Requests": a client must not reuse the id of a request that has no
		// response yet. "Error Responses": an error response has the id of its request.
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "a request with this id is still running", ID: m.ID}
	}
	if len(r.byNumber) >= maxRequests {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "too many requests are running: the limit is " + strconv.Itoa(maxRequests) + "; wait for some answers first", ID: m.ID}
	}
	if r.byKey == nil {
		r.byKey, r.byNumber = map[string]*request{}, map[uint64]*request{}
	}
	// All revisions with initialize, §Cancellation: a client must not cancel initialize.
	q := &request{number: number, id: m.ID, batch: b, uncancellable: m.Method == mcp.MethodInitialize, listen: m.Method == mcp.MethodListen}
	if b != nil {
		q.index = len(b.answers)
		b.answers = append(b.answers, nil)
		b.missing++
	}
	if !q.listen {
		r.busy++
	}
	r.byKey[key], r.byNumber[number] = q, q
	return nil
}

// sent notes that the client has got the response to a request that is not a subscription.
func (r *requests) sent() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy--; r.busy == 0 && r.quiet != nil {
		close(r.quiet)
		r.quiet = nil
	}
}

// idle returns a channel that is closed when the client has got all responses. The caller must not
// add requests after that, and must call idle only once.
func (r *requests) idle() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	quiet := make(chan struct{})
	if r.busy == 0 {
		close(quiet)
	} else {
		r.quiet = quiet
	}
	return quiet
}

// cancel marks the request with this id of the client as cancelled, and returns its number. It
// returns false if no such request is running, or if the client must not cancel the request.
func (r *requests) cancel(id []byte) (uint64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := keyOf(id)
	q := r.byKey[key]
	if q == nil || q.uncancellable {
		return 0, false
	}
	q.cancelled = true
	delete(r.byKey, key)
	return q.number, true
}

// pass returns what the client gets for a message from the SDK, with the client's own ids: the
// message, all responses to a batch, or nothing. If the message is a response, pass removes the
// request, so that its id can be used again. answered is true if the caller must call sent after it
// has written the line.
func (r *requests) pass(message []byte) (line []byte, answered bool) {
	m := read(message)
	r.mu.Lock()
	defer r.mu.Unlock()
	line = r.shownLocked(m)
	number, ok := numberIn(m.id.Of(message))
	q := r.byNumber[number]
	if !ok || q == nil {
		return line, false
	}
	delete(r.byNumber, number)
	if q.cancelled {
		line = nil // all revisions, §Cancellation: a cancelled request should get no response
	} else {
		delete(r.byKey, keyOf([]byte(q.id)))
	}
	if q.batch != nil {
		line = q.batch.collect(q, line)
	}
	return line, !q.listen
}

// collect adds the response to q, which is nil if the client does not get it. If q was the last
// request without a response, collect returns all responses of the batch, and otherwise nil.
func (b *batch) collect(q *request, response []byte) []byte {
	if response != nil && b.size+len(response) > maxBatchBytes {
		response = failure(&jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the answers of the batch are larger than 32 MiB together; send this request on its own", ID: q.id})
	}
	if response != nil {
		b.answers[q.index] = bytes.Clone(bytes.TrimSpace(response))
	}
	b.size += len(response)
	if b.missing--; b.missing > 0 {
		return nil
	}
	return b.line()
}

// shownLocked returns a message from the SDK with the client's own ids. The caller holds mu.
func (r *requests) shownLocked(m reply) []byte {
	var edits jsonrpc.Edits
	for _, at := range m.places {
		if number, ok := numberIn(at.Of(m.raw)); ok && r.byNumber[number] != nil {
			edits.Replace(mcp.WhyID, at, []byte(r.byNumber[number].id))
		}
	}
	if edits.Len() == 0 {
		return m.raw
	}
	return jsonrpc.Splice(nil, m.raw, &edits)
}
