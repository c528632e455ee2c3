package codex

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// worker is the connection to an app-server. Messages from an app-server may lack the member
// jsonrpc. The pipe accepts such messages, because it parses with Limits.Tolerant.
type worker struct {
	pipe transport.Pipe
	// receive handles notifications and requests. event handles the name in a line such as
	// {"event":"NAME"}. The goroutine that reads from the worker calls both functions, so they must
	// not block.
	receive func(*jsonrpc.Message)
	event   func(name string)

	gone chan struct{} // closed when read has ended; err is set before gone is closed
	err  error

	mu      sync.Mutex
	last    int64
	pending map[int64]*exchange
}

// exchange is one request to the worker, with its answer.
type exchange struct {
	n    int64
	done chan struct{} // closed when answer is set
	on   func(*jsonrpc.Message)

	answer *jsonrpc.Message
}

func newWorker(p transport.Pipe) *worker {
	return &worker{pipe: p, gone: make(chan struct{}), pending: make(map[int64]*exchange)}
}

// begin sends a request. ctx limits only the sending. If the function on is not nil, the goroutine
// that reads from the worker calls it with the answer, before that goroutine handles later
// messages. A caller that stops waiting for the answer must call drop.
func (w *worker) begin(ctx context.Context, method string, params []byte, on func(*jsonrpc.Message)) (*exchange, error) {
	w.mu.Lock()
	w.last++
	x := &exchange{n: w.last, done: make(chan struct{}), on: on}
	w.pending[x.n] = x
	w.mu.Unlock()
	if err := w.pipe.Send(ctx, nil, jsonrpc.AppendRequest(nil, jsonrpc.IntID(x.n), method, params)); err != nil {
		w.drop(x)
		return nil, err
	}
	return x, nil
}

func (w *worker) drop(x *exchange) {
	w.mu.Lock()
	delete(w.pending, x.n)
	w.mu.Unlock()
}

// call sends a request and waits for its answer. If the worker answers with an error, call returns
// a *jsonrpc.Error.
func (w *worker) call(ctx context.Context, method string, params []byte, on func(*jsonrpc.Message)) (*jsonrpc.Message, error) {
	x, err := w.begin(ctx, method, params, on)
	if err != nil {
		return nil, err
	}
	select {
	case <-x.done:
	case <-w.gone:
		// The answer may have been the last message from the worker.
		select {
		case <-x.done:
		default:
			return nil, w.err
		}
	case <-ctx.Done():
		w.drop(x)
		return nil, context.Cause(ctx)
	}
	if x.answer.Kind == jsonrpc.Failure {
		return nil, failureOf(x.answer)
	}
	return x.answer, nil
}

// post sends a notification.
func (w *worker) post(ctx context.Context, method string) error {
	return w.pipe.Send(ctx, nil, jsonrpc.AppendNotification(nil, method, nil))
}

// reply answers a request from the worker. It ignores write errors, because read detects the end of
// the worker.
func (w *worker) reply(id jsonrpc.ID, result []byte) {
	_ = w.pipe.Write(jsonrpc.AppendResult(nil, id, result))
}

func (w *worker) refuse(id jsonrpc.ID, e *jsonrpc.Error) {
	_ = w.pipe.Write(jsonrpc.AppendError(nil, id, e))
}

// read handles the worker's messages until the output of the worker ends. It returns the error that
// ended the output.
func (w *worker) read() error {
	for {
		m, err := w.pipe.Read()
		var refused *jsonrpc.Error
		switch {
		case err == nil:
			w.dispatch(m)
			continue
		case errors.As(err, &refused):
			if !w.unusable(err, refused) {
				w.noise(err)
			}
			continue
		}
		w.err = err
		if errors.Is(err, io.EOF) {
			w.err = io.EOF
		}
		close(w.gone)
		return w.err
	}
}

func (w *worker) dispatch(m *jsonrpc.Message) {
	if m.Kind == jsonrpc.Request || m.Kind == jsonrpc.Notification {
		w.receive(m)
		return
	}
	// A worker may send the id as a string. Ignore an answer without an id, because it cannot
	// belong to a request.
	id := bytes.Trim([]byte(m.ID), `"`)
	n, ok := jsonrpc.Int(id, jsonrpc.Span{End: len(id)})
	w.mu.Lock()
	x := w.pending[n]
	delete(w.pending, n)
	w.mu.Unlock()
	if !ok || x == nil {
		return
	}
	if x.on != nil {
		x.on(m)
	}
	x.answer = m
	close(x.done)
}

// unusable handles an answer that is not valid or exceeds the size limit. It ends the exchange as
// if the worker had answered with an error. It returns false if err is not about an answer, or if
// the answer cannot be matched to an exchange.
func (w *worker) unusable(err error, why *jsonrpc.Error) bool {
	var bad *transport.BadAnswer
	if !errors.As(err, &bad) {
		return false
	}
	id := bad.ID
	if w.mu.Lock(); id == "" && bad.TooLarge && len(w.pending) == 1 {
		for n := range w.pending {
			id = jsonrpc.IntID(n)
		}
	}
	w.mu.Unlock()
	if id == "" {
		return false
	}
	w.dispatch(jsonrpc.NewFailure(id, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "the answer of Codex is not valid: " + why.Message}))
	return true
}

// noise handles a line of output that is not a message. If the line is an object with the member
// event, noise calls w.event.
func (w *worker) noise(err error) {
	var bad *stdio.BadLine
	if !errors.As(err, &bad) || jsonrpc.Valid(bad.Line, jsonrpc.Limits{}) != nil {
		return
	}
	if name, ok := jsonrpc.Text(bad.Line, jsonrpc.Find(bad.Line, jsonrpc.Whole(bad.Line), "event")); ok {
		w.event(name)
	}
}

// failureOf converts an error answer to a Go error.
func failureOf(m *jsonrpc.Message) *jsonrpc.Error {
	e := &jsonrpc.Error{}
	e.Code = codeOf(m.Raw, jsonrpc.Find(m.Raw, m.Error, "code"))
	text, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, m.Error, "message"))
	e.Message = excerpt.Line(text, maxSaid)
	return e
}

// codeNames are the names that workers use for the codes of JSON-RPC 2.0 §5.1.
var codeNames = map[string]int64{
	"parse_error": jsonrpc.CodeParse, "invalid_request": jsonrpc.CodeInvalidRequest, "method_not_found": jsonrpc.CodeMethodNotFound,
	"invalid_params": jsonrpc.CodeInvalidParams, "internal_error": jsonrpc.CodeInternal,
}

// codeOf returns the code of an error. Some workers send the code as a string, such as "-32602" or
// "invalid_params". For an unknown code, codeOf returns 0.
func codeOf(raw []byte, at jsonrpc.Span) int64 {
	if n, ok := jsonrpc.Int(raw, at); ok {
		return n
	}
	name, _ := jsonrpc.Text(raw, at)
	if n, err := strconv.ParseInt(strings.TrimSpace(name), 10, 64); err == nil {
		return n
	}
	return codeNames[strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(strings.TrimSpace(name)))]
}
