package codex

import (
	"context"
	"errors"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// words is the protocol of one generation of workers. The methods wait for the worker's
// answers. They return an error answer as a *refusal.
type words interface {
	// open starts a thread and returns its id.
	open(ctx context.Context, b *bridge, a *arguments) (string, error)
	// resume loads a thread into a worker that has not started it.
	resume(ctx context.Context, b *bridge, thread string) error
	// begin starts the turn t.
	begin(ctx context.Context, b *bridge, t *turn, a *arguments) error
	// interrupt stops the turn t.
	interrupt(ctx context.Context, b *bridge, t *turn) error
	// finish cleans up after a turn.
	finish(b *bridge, t *turn)
	// hear reads a notification; ok is false if it is irrelevant.
	hear(m *jsonrpc.Message) (e event, ok bool)
}

func otherThan(w words) words {
	if w == (older{}) {
		return current{}
	}
	return older{}
}

// words returns the protocol of the last worker.
func (b *bridge) words() words {
	if b.server.older.Load() {
		return older{}
	}
	return current{}
}

// settle remembers the worker's protocol.
func (b *bridge) settle(w words) { b.server.older.Store(w == (older{})) }

// event is the content of a notification about a turn.
type event struct {
	kind         eventKind
	thread, turn string
	text         string // of a delta, a message, a step or an error
	item         string // id of a file change
	status       string // of an end
}

type eventKind uint8

const (
	alive   eventKind = iota // something has happened
	started                  // the turn has its id
	delta                    // more text of the message that is being written
	message                  // a whole message
	step                     // the current step
	changes                  // files that are about to change; text describes how
	trouble                  // an error that need not end the turn
	ended                    // the turn has ended
)

// The statuses of an end.
const (
	completed   = "completed"
	interrupted = "interrupted"
	failed      = "failed"
)

// refusal is the worker's error answer to one of the steps.
type refusal struct {
	method  string
	code    int64
	message string
}

func (r *refusal) Error() string { return "Codex refused " + r.method + ": " + r.message }

// ask sends a request of a turn. It returns an error answer as a *refusal.
func (b *bridge) ask(ctx context.Context, method string, params []byte, on func(*jsonrpc.Message)) (*jsonrpc.Message, error) {
	m, err := b.worker.call(ctx, method, params, on)
	var e *jsonrpc.Error
	if errors.As(err, &e) {
		return nil, &refusal{method, e.Code, e.Message}
	}
	return m, err
}

// unknown reports whether the worker does not know the method. Some older workers answer
// everything they cannot parse with a bare "Invalid request".
func (r *refusal) unknown() bool {
	low := strings.ToLower(strings.TrimSpace(r.message))
	return r.code == jsonrpc.CodeMethodNotFound ||
		r.code == jsonrpc.CodeInvalidRequest && low == "invalid request" ||
		strings.Contains(low, "unknown variant `"+strings.ToLower(r.method)+"`") ||
		strings.Contains(low, "method not found") || strings.Contains(low, "unknown method")
}

// absent reports whether the worker does not have the thread.
func (r *refusal) absent() bool {
	low := strings.ToLower(r.message)
	return strings.Contains(low, "not found") || strings.Contains(low, "not loaded") || strings.Contains(low, "no such thread")
}

func isUnknown(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.unknown()
}

func isAbsent(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.absent()
}
