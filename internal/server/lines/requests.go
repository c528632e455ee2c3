package lines

import (
	"bytes"
	"strconv"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

const (
	// maxRequests is the largest number of requests without an answer. It is larger than the number
	// of calls that run and wait in a server.
	maxRequests = 1024
	// maxBatch is the largest number of messages in a batch.
	maxBatch = maxRequests
	// maxBatchBytes is the size of the answers that are kept until a batch is complete. Each later
	// answer is replaced by an error.
	maxBatchBytes = 32 << 20
)

// requests are the client's requests that the SDK has not answered. The SDK never answers a batch
// that has a notification or a request with the id of a running request. It also answers a
// cancelled request. So requests finds such ids, collects the answers of a batch, and drops the
// answer to a cancelled request.
type requests struct {
	mu       sync.Mutex
	last     uint64              // the number of the newest request
	byKey    map[string]*request // without cancelled requests, because their ids are free
	byNumber map[uint64]*request
}

// request is a request of the client without an answer.
type request struct {
	number        uint64
	id            jsonrpc.ID // the client's id
	batch         *batch     // nil if the answer has a line of its own
	index         int        // the index of the answer in batch
	uncancellable bool       // the client must not cancel the request
	cancelled     bool
}

// batch collects the answers to the requests of one batch, in the order of the requests.
type batch struct {
	answers [][]byte // nil for an answer that is missing, or that the client does not get
	missing int
	size    int // the bytes of the answers
}

// line returns the answers as one array, or nil if there are none.
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

// refuse makes an error the next answer of the batch.
func (b *batch) refuse(e *jsonrpc.Error) {
	b.answers = append(b.answers, bytes.TrimSpace(failure(e)))
}

// add adds a request and returns its number. If b is not nil, the answer gets the next place in b.
// If the request must not reach the SDK, add returns an error and adds nothing.
func (r *requests) add(m *jsonrpc.Message, uncancellable bool, b *batch) (uint64, *jsonrpc.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := keyOf([]byte(m.ID))
	if r.byKey[key] != nil {
		// 2026-07-28 §Base, "Requests": an id must not be that of another request without a
		// response. "Error Responses": an error has the id of its request.
		return 0, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "a request with this id is still running", ID: m.ID}
	}
	if len(r.byNumber) >= maxRequests {
		return 0, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "too many requests are running: the limit is " + strconv.Itoa(maxRequests) + "; wait for some answers first", ID: m.ID}
	}
	if r.byKey == nil {
		r.byKey, r.byNumber = map[string]*request{}, map[uint64]*request{}
	}
	r.last++
	q := &request{number: r.last, id: m.ID, batch: b, uncancellable: uncancellable}
	if b != nil {
		q.index = len(b.answers)
		b.answers = append(b.answers, nil)
		b.missing++
	}
	r.byKey[key], r.byNumber[q.number] = q, q
	return q.number, nil
}

// cancel marks the request with the given id of the client as cancelled, and returns its number. It
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

// pass returns the lines that the client gets for a message of the SDK, with the client's own ids:
// the message, a whole batch, or nothing. An answer ends its request, so the id is free again.
func (r *requests) pass(message []byte) []byte {
	m := read(message)
	r.mu.Lock()
	defer r.mu.Unlock()
	line := r.shownLocked(m)
	number, ok := numberIn(m.id.Of(message))
	q := r.byNumber[number]
	if !ok || q == nil {
		return line
	}
	delete(r.byNumber, number)
	if q.cancelled {
		line = nil // all revisions, §Cancellation: a cancelled request should get no response
	} else {
		delete(r.byKey, keyOf([]byte(q.id)))
	}
	b := q.batch
	if b == nil {
		return line
	}
	if line != nil && b.size+len(line) > maxBatchBytes {
		line = failure(&jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the answers of the batch are larger than 32 MiB together; send this request on its own", ID: q.id})
	}
	if line != nil {
		b.answers[q.index] = bytes.Clone(bytes.TrimSpace(line))
	}
	b.size += len(line)
	if b.missing--; b.missing > 0 {
		return nil
	}
	return b.line()
}

// shownLocked returns a message of the SDK with the client's own ids. The caller holds mu.
func (r *requests) shownLocked(m reply) []byte {
	var edits jsonrpc.Edits
	for _, at := range m.places {
		if number, ok := numberIn(at.Of(m.raw)); ok && r.byNumber[number] != nil {
			edits.Replace(jsonrpc.NoReason, at, []byte(r.byNumber[number].id))
		}
	}
	if edits.Len() == 0 {
		return m.raw
	}
	return jsonrpc.Splice(nil, m.raw, &edits)
}
