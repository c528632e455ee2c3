package mcp

import (
	"context"
	"errors"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
)

// Caller is the client that waits for a call. It gets notifications before the answer, and may
// get requests. The connection to a server calls the methods of the Caller. The session with a
// client implements them, and layers in between may wrap the Caller.
type Caller interface {
	// Notify sends a notification that is written in the client's revision and has the client's
	// progress token. It does not wait for a slow client. When Notify returns, the sender may
	// reuse n; a Caller that keeps n must copy it.
	Notify(n *Note)
	// Ask sends a server's request to the client and waits for the answer. m is the message that
	// the server sent, and the answer has the id of m. Ask returns ErrCannotAsk if the client
	// accepts no requests while its call runs. If the call has already been answered, Ask does not
	// send m and returns ErrAnswered.
	Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error)
}

// progressKey is the key of WithProgress in a context.
type progressKey struct{}

// WithProgress returns a context for Ask. report gets the client's progress with the server's request,
// with the token of the server, and passes it on without waiting.
func WithProgress(ctx context.Context, report func(raw []byte)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// ProgressOf returns the function of WithProgress, or nil if the context has none.
func ProgressOf(ctx context.Context) func(raw []byte) {
	report, _ := ctx.Value(progressKey{}).(func(raw []byte))
	return report
}

// Note is a notification for one client: the sender's message and the edits for this client. The
// edits are applied once, when the notification is written.
type Note struct {
	Msg   *jsonrpc.Message
	Edits jsonrpc.Edits
}

// NewNote returns a notification of Dragoman itself. params may be nil.
func NewNote(method string, params []byte) *Note {
	return &Note{Msg: jsonrpc.NewNotification(method, params)}
}

// Bytes returns the notification as the client gets it. It records the splice in t, which may be
// nil.
func (n *Note) Bytes(t *trails.Trail) []byte {
	if n.Edits.Len() == 0 {
		return n.Msg.Raw
	}
	return t.Splice(make([]byte, 0, len(n.Msg.Raw)+96), n.Msg.Raw, &n.Edits)
}

// Subscriber is a client that gets notifications outside of calls.
type Subscriber interface {
	Caller
	// ClientInfo returns what is currently known about the client; the log level may change.
	// ClientInfo must not block, because its callers hold locks.
	ClientInfo() *ClientInfo
}

// ErrCannotAsk is the error of Ask if the client accepts no requests while its call runs. If the
// request cannot be sent to a client for another reason, the error is a CannotAsk.
var ErrCannotAsk = errors.New("this client does not accept requests from the server while its call runs")

// CannotAsk is the reason why no client can answer a request of a server. errors.Is reports that a
// CannotAsk is ErrCannotAsk.
type CannotAsk string

// These are the reasons why no client can answer a server request that is not part of a call.
// Clients of 2026-07-28 answer requests only as part of a call (2026-07-28 §MRTR).
const (
	NobodyToAsk CannotAsk = "no client is connected that answers requests outside a call"
	SeveralAsk  CannotAsk = "several clients use this session, and the request does not say which of them it is for"
	SharedLists CannotAsk = "the session reads lists for several clients; each of them gets a session of its own for its calls"
)

// Error returns the reason.
func (c CannotAsk) Error() string { return string(c) }

// Is reports whether target is ErrCannotAsk.
func (c CannotAsk) Is(target error) bool { return target == ErrCannotAsk }

// ErrAnswered is the error of Ask if the call has already been answered. No message may follow
// the answer.
var ErrAnswered = errors.New("the request has been answered")

// NoCaller is a Caller that drops notifications and refuses requests. It is for requests of
// Dragoman itself that need only the answer.
type NoCaller struct{}

// Notify drops the notification.
func (NoCaller) Notify(*Note) {}

// Ask returns ErrCannotAsk.
func (NoCaller) Ask(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error) {
	return nil, ErrCannotAsk
}
