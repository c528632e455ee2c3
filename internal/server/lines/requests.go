package lines

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"

	wire "github.com/modelcontextprotocol/go-sdk/jsonrpc"

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

// requests are the requests that the SDK has not answered. The SDK does not answer another request
// with the same id, and never answers a batch that has such a request or a notification.
type requests struct {
	mu   sync.Mutex
	open map[wire.ID]place
}

// place is the place of an answer in a batch. An answer without a batch has a line of its own.
type place struct {
	batch *batch
	index int
}

// batch collects the answers to the requests of one batch, in the order of the requests.
type batch struct {
	answers [][]byte
	missing int
	size    int // the bytes of the answers
}

// line returns the answers as one array.
func (b *batch) line() []byte {
	out := append([]byte{'['}, bytes.Join(b.answers, []byte{','})...)
	return append(out, "]\n"...)
}

// add adds a request, with a place for its answer in b unless b is nil. If the request must not
// reach the SDK, add returns an error, and this error is also the answer in b.
func (r *requests) add(id wire.ID, b *batch) *jsonrpc.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	refused := r.refusalLocked(id)
	if b != nil {
		b.answers = append(b.answers, nil)
	}
	if refused == nil {
		if r.open == nil {
			r.open = map[wire.ID]place{}
		}
		at := place{batch: b}
		if b != nil {
			at.index = len(b.answers) - 1
			b.missing++
		}
		r.open[id] = at
	} else if b != nil {
		b.answers[len(b.answers)-1] = answerOf(failure(refused))
	}
	return refused
}

// refusalLocked returns the error for a request that must not reach the SDK, or nil. The caller
// holds mu.
func (r *requests) refusalLocked(id wire.ID) *jsonrpc.Error {
	text := idOf(id)
	if len(text) > jsonrpc.MaxID+len(numberID) {
		return invalid("the id is longer than " + strconv.Itoa(jsonrpc.MaxID) + " bytes")
	}
	if _, ok := r.open[id]; ok {
		// 2026-07-28 §Base, "Requests": an id must not be that of another request without a
		// response. "Error Responses": an error has the id of its request.
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "a request with this id is still running", ID: text}
	}
	if len(r.open) >= maxRequests {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "too many requests are running: the limit is " + strconv.Itoa(maxRequests) + "; wait for some answers first", ID: text}
	}
	return nil
}

// finish removes a request, so its id is free again. It returns the lines to write now: the answer,
// a whole batch, or nothing while other answers of the batch are missing.
func (r *requests) finish(id wire.ID, answer []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.open[id]
	delete(r.open, id)
	b := at.batch
	if !ok || b == nil {
		return answer
	}
	if b.size+len(answer) > maxBatchBytes {
		answer = failure(&jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the answers of the batch are larger than 32 MiB together; send this request on its own", ID: idOf(id)})
	}
	b.answers[at.index] = answerOf(answer)
	b.size += len(answer)
	if b.missing--; b.missing > 0 {
		return nil
	}
	return b.line()
}

// answerOf returns a copy of an answer without its line end, with the id of the client.
func answerOf(line []byte) []byte { return bytes.Clone(bytes.TrimSpace(showID(line))) }

// answered returns the id of the request that a message of the SDK answers. It returns false for
// other messages.
func answered(message []byte) (id wire.ID, ok bool) {
	for m := range jsonrpc.Members(message, jsonrpc.Whole(message)) {
		switch string(m.Key.Of(message)) {
		case `"method"`:
			return wire.ID{}, false
		case `"id"`:
			var value any
			if json.Unmarshal(m.Value.Of(message), &value) != nil {
				return wire.ID{}, false
			}
			id, _ = wire.MakeID(value)
		}
	}
	return id, id.IsValid()
}

// idOf returns the text of an id as the SDK writes it.
func idOf(id wire.ID) jsonrpc.ID {
	switch v := id.Raw().(type) {
	case int64:
		return jsonrpc.IntID(v)
	case string:
		return jsonrpc.ID(jsonrpc.AppendQuote(nil, v))
	}
	return ""
}
