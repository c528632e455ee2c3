package mcp

import (
	"context"
	"errors"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// Caller is the client that waits for a call. It receives the messages before the
// answer, and can be asked. A conversation with a server calls it, a conversation with
// a client implements it, and layers between them may wrap it.
type Caller interface {
	// Notify passes on a notification, already in this client's words and with its
	// token. It does not wait for a client that reads slowly.
	Notify(b []byte)
	// Ask puts a server's request to the client and waits for the answer. m is the
	// server's own message; the answer has m's id. ErrCannotAsk means that this client
	// cannot be asked while its call runs.
	Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error)
}

// Subscriber is a client that receives notifications outside of any call.
type Subscriber interface {
	Caller
	// ClientInfo returns what is known of the client now; its log level may change. It never
	// blocks: callers hold locks.
	ClientInfo() *ClientInfo
}

// ErrCannotAsk is returned by the Caller of a client that takes no requests while its
// call runs.
var ErrCannotAsk = errors.New("this client cannot be asked while its call runs")

// NoCaller is a Caller that hears nothing and cannot be asked: for requests of our own, of
// which only the answer matters.
type NoCaller struct{}

// Notify drops the message.
func (NoCaller) Notify([]byte) {}

// Ask returns ErrCannotAsk.
func (NoCaller) Ask(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error) {
	return nil, ErrCannotAsk
}
