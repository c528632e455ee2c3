package mcp

import (
	"context"
	"errors"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// Caller is the client that waits for a call. It receives notifications before the
// answer, and may be sent requests. A server conversation calls it, a client
// conversation implements it, and layers between them may wrap it.
type Caller interface {
	// Notify sends a notification that is already written in the client's revision and
	// has the client's token. It does not wait for a slow client. n belongs to the sender
	// again when Notify returns; whoever keeps it copies it.
	Notify(n *Note)
	// Ask sends a server's request to the client and waits for the answer. m is the
	// server's own message; the answer has m's id. Ask returns ErrCannotAsk if this
	// client accepts no requests while its call runs.
	Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error)
}

// Note is a notification for one client: the sender's message and the edits for this client.
// It is spliced once, when it is written.
type Note struct {
	Msg   *jsonrpc.Message
	Edits jsonrpc.Edits
}

// NewNote returns a notification of our own; params may be nil.
func NewNote(method string, params []byte) *Note {
	return &Note{Msg: jsonrpc.NewNotification(method, params)}
}

// Bytes returns the notification as the client gets it. The trail may be nil.
func (n *Note) Bytes(t *jsonrpc.Trail) []byte {
	if n.Edits.Len() == 0 {
		return n.Msg.Raw
	}
	return t.Splice(make([]byte, 0, len(n.Msg.Raw)+96), n.Msg.Raw, &n.Edits)
}

// Subscriber is a client that receives notifications outside of calls.
type Subscriber interface {
	Caller
	// ClientInfo returns what is known of the client now; its log level may change. It
	// must not block, because callers hold locks.
	ClientInfo() *ClientInfo
}

// ErrCannotAsk is returned by the Caller of a client that accepts no requests while its
// call runs.
var ErrCannotAsk = errors.New("this client cannot be asked while its call runs")

// NoCaller is a Caller that drops notifications and refuses requests. It is for requests of
// our own whose answer is all that matters.
type NoCaller struct{}

// Notify drops the message.
func (NoCaller) Notify(*Note) {}

// Ask returns ErrCannotAsk.
func (NoCaller) Ask(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error) {
	return nil, ErrCannotAsk
}
