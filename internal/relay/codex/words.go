package codex

import (
	"context"
	"errors"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// words is the protocol of one generation of workers. Its methods wait for the worker's answers. If
// the worker answers with an error, the methods return a *refusal.
type words interface {
	// open starts a thread and returns its id.
	open(ctx context.Context, b *bridge, a *arguments) (string, error)
	// resume loads an existing thread into the worker.
	resume(ctx context.Context, b *bridge, thread string) error
	// begin starts the turn t.
	begin(ctx context.Context, b *bridge, t *turn, a *arguments) error
	// interrupt stops the turn t.
	interrupt(ctx context.Context, b *bridge, t *turn) error
	// finish cleans up after a turn.
	finish(b *bridge, t *turn)
	// hear converts a notification to an event. ok is false if the notification is not about a
	// turn.
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

// settle records the protocol of the worker.
func (b *bridge) settle(w words) { b.server.older.Store(w == (older{})) }

// event is the content of a notification about a turn.
type event struct {
	kind         eventKind
	thread, turn string
	text         string // text of a delta, a message, a step or an error
	item         string // id of a file change
	status       string // the status of the turn, for the event ended
}

type eventKind uint8

const (
	alive   eventKind = iota // any other event
	started                  // the turn has started
	delta                    // more text of the message that the agent is writing
	message                  // a complete message from the agent
	step                     // a description of what the agent is doing
	changes                  // files that are about to change; text describes the changes
	trouble                  // an error that need not end the turn
	ended                    // the turn has ended
)

// These are the statuses of a turn that has ended.
const (
	completed   = "completed"
	interrupted = "interrupted"
	failed      = "failed"
)

// refusal is the error with which the worker answered a request.
type refusal struct {
	method  string
	code    int64
	message string
}

func (r *refusal) Error() string { return "Codex refused " + r.method + ": " + r.message }

// ask sends a request to the worker and waits for the answer. If the worker answers with an error,
// ask returns a *refusal.
func (b *bridge) ask(ctx context.Context, method string, params []byte, on func(*jsonrpc.Message)) (*jsonrpc.Message, error) {
	m, err := b.worker.call(ctx, method, params, on)
	var e *jsonrpc.Error
	if errors.As(err, &e) {
		return nil, &refusal{method, e.Code, e.Message}
	}
	return m, err
}

// unknown reports whether the error says that the worker does not support the method. Some older
// workers answer "Invalid request" to everything that they cannot parse.
func (r *refusal) unknown() bool {
	low := strings.ToLower(strings.TrimSpace(r.message))
	return r.code == jsonrpc.CodeMethodNotFound ||
		r.code == jsonrpc.CodeInvalidRequest && low == "invalid request" ||
		strings.Contains(low, "unknown variant `"+strings.ToLower(r.method)+"`") ||
		strings.Contains(low, "method not found") || strings.Contains(low, "unknown method")
}

// absent reports whether the error says that the worker does not have the thread.
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
