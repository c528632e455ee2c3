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
	// Err is the error that the client gets. Limited says that the only problem is the rate of the
	// client's requests.
	Err     *jsonrpc.Error
	Limited bool
}

// OpeningWatcher is an Acceptor that is notified of refused openings.
type OpeningWatcher interface {
	// Refused must not keep Msg and must not block.
	Refused(o RefusedOpening)
}

// ReportRefused passes o to an Acceptor that is an OpeningWatcher.
func ReportRefused(a Acceptor, o RefusedOpening) {
	if w, ok := a.(OpeningWatcher); ok {
		w.Refused(o)
	}
}
