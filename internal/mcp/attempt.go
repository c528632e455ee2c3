package mcp

import "github.com/dragoman-mcp/dragoman/internal/jsonrpc"

// Attempt is one sending of a call to one server: what it changes in the call, which is
// not written to. It belongs to the goroutine that sends it.
type Attempt struct {
	*Call

	// Server is the name of the server that the call is sent to, "" while it is not known.
	Server string
	// To is the revision of the session that the call was last sent in, Unknown before.
	To Revision
	// Name is what the call is about as the server knows it.
	Name string
	// Edits are the changes that the call needs whatever the server's revision: names
	// without their prefix, the server's own state. Their positions are in Call.Msg.
	Edits jsonrpc.EditList
	// Retry are members of params that a server is given beside the client's own: its
	// state and the answers to its questions, when we play the rounds of input for a
	// legacy client.
	Retry []jsonrpc.Field
	// AsTask is the object by which a server with RequestedTasks is asked to make the
	// call a task, in place of what the client sent; nil leaves that.
	AsTask []byte
	// Caps are the capabilities that the server is told, nil for the client's.
	Caps []byte
	// Session, unless 0, is that of the server's sessions which the call is for.
	Session uint64
	// Answers says that the inputResponses and the requestState of a retry go to the
	// server whatever its revision: it has asked for them.
	Answers bool
	// Sole says that only one server stands behind the client's endpoint.
	Sole bool
	// Progress is the furthest that the client has heard of, nil before the first. It
	// goes on through all attempts at a call.
	Progress *float64
}

// NewAttempt returns an attempt that changes nothing in c.
func NewAttempt(c *Call) *Attempt { return &Attempt{Call: c, Name: c.Name} }

// Capabilities returns what the server is told that the client can do.
func (a *Attempt) Capabilities() []byte {
	if a.Caps != nil {
		return a.Caps
	}
	return a.Client.Capabilities
}
