package transport

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// RefusedMessage is a message of a client that is refused before it becomes a call.
type RefusedMessage struct {
	Peer   Peer
	Method string // "" if it could not be read
	// Msg is the message. It is nil if the bytes are not a valid message.
	Msg *jsonrpc.Message
	// Err is the error that the client gets. Limited is true if the only problem is that too many
	// sessions are open or are being opened.
	Err     *jsonrpc.Error
	Limited bool
}

// RefusalWatcher is an Acceptor that is notified of each RefusedMessage.
type RefusalWatcher interface {
	// Refused is called for each refused message. It must not keep o.Msg and must not block.
	Refused(o RefusedMessage)
}

// Record tells an Acceptor of a request that another process should have answered, and whose client has heard in.Failed
// instead: it's a call that has failed here, since nobody else may know of it. The body is what the client sent. Nothing
// happens if that isn't one request, or one that never becomes a call.
func Record(ctx context.Context, a Acceptor, p Peer, body []byte, in Incoming) {
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{Bytes: len(body), Names: mcp.MethodName})
	if err != nil || m.Kind != jsonrpc.Request || m.Method == mcp.MethodInitialize || m.Method == mcp.MethodDiscover || m.Method == mcp.MethodPing {
		return
	}
	in.Msg = m
	conv := a.Accept(p, nil)
	defer conv.Close(nil)
	conv.Request(ctx, in, answered{})
}

// answered is the Responder of a request that has been answered.
type answered struct{}

func (answered) Event([]byte) error         { return nil }
func (answered) Finish([]byte, int64) error { return nil }

// ReportRefused passes o to a if a is a RefusalWatcher.
func ReportRefused(a Acceptor, o RefusedMessage) {
	if w, ok := a.(RefusalWatcher); ok {
		w.Refused(o)
	}
}
