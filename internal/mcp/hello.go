package mcp

import (
	"bytes"

	"github.com/dragoman-mcp/dragoman/internal/identity"
)

// Hello is what a server says of itself when a conversation opens: the result of
// initialize or of server/discover, in one form. The byte slices are JSON, owned
// by nobody who writes, and nil where the server said nothing.
type Hello struct {
	Revision     Revision // the one that was agreed on
	Versions     []string // what the server says it supports, as it says it
	Info         []byte   // an Implementation object
	Capabilities []byte   // an object
	Instructions []byte   // a string
	// Raw is the whole result object, so that members that we do not know can be
	// carried to a client of the same era. It is nil when we made the Hello.
	Raw []byte
}

// ClientFacts is what is known of a client while one of its calls runs. A legacy
// client has one for its whole session, a modern one for each request. It is not
// written to once a call carries it.
type ClientFacts struct {
	Revision     Revision
	Info         []byte              // an Implementation object, nil when unknown
	Capabilities []byte              // an object, nil means {}
	LogLevel     LogLevel            // the least severe log message that it wants; 0 none
	Who          *identity.Principal // nil for nobody in particular
	// Conversation tells clients of one principal apart; 0 for a modern HTTP
	// request, which has no conversation around it.
	Conversation uint64
	// Remote is the network address that it comes from, "" on a pipe.
	Remote string
}

// Own returns a copy for whoever keeps it: what a modern client says of itself is a
// part of its request, all of which stays in memory with it otherwise. Nil for nil.
func (f *ClientFacts) Own() *ClientFacts {
	if f == nil {
		return nil
	}
	g := *f
	g.Info, g.Capabilities = bytes.Clone(f.Info), bytes.Clone(f.Capabilities)
	return &g
}
