package transport

import (
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// RefusedOpening is an initialize or server/discover request that a transport refuses before a
// conversation gets it.
type RefusedOpening struct {
	Peer   Peer
	Method string
	// Msg is the request. It is nil if the request is not a valid message.
	Msg *jsonrpc.Message
	// Err is the error that the client gets. Limited is true if the only problem is that too many
	// sessions are open or are being opened.
	Err     *jsonrpc.Error
	Limited bool
}

// OpeningWatcher is an Acceptor that is notified of each RefusedOpening.
type OpeningWatcher interface {
	// Refused is called for each refused request. It must not keep o.Msg and must not block.
	Refused(o RefusedOpening)
}

// ReportRefused passes o to a if a is an OpeningWatcher.
func ReportRefused(a Acceptor, o RefusedOpening) {
	if w, ok := a.(OpeningWatcher); ok {
		w.Refused(o)
	}
}
