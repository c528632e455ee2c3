package transport

import (
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
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

// ReportRefused passes o to a if a is a RefusalWatcher.
func ReportRefused(a Acceptor, o RefusedMessage) {
	if w, ok := a.(RefusalWatcher); ok {
		w.Refused(o)
	}
}
