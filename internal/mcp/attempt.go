package mcp

import "github.com/dragoman-mcp/dragoman/internal/jsonrpc"

// Attempt is one attempt to send a call to a server. It contains the changes to the call. The bytes
// of the Call itself do not change. An Attempt belongs to the goroutine that sends it.
type Attempt struct {
	*Call

	// Server is the name of the server that gets the call, or "" if that is not known yet.
	Server string
	// To is the revision of the session in which the call was last sent. It is Unknown before
	// that.
	To Revision
	// Name is the server's own name of the item that the call is about.
	Name string
	// Edits are the changes that the call needs for a server of any revision, such as
	// names without their prefix and the server's own state. Their positions are in Call.Msg.
	Edits jsonrpc.EditList
	// Retry are additional members of params for the server: its state and the answers to its
	// questions. They are set when Dragoman runs the rounds of input on behalf of a legacy
	// client.
	Retry []jsonrpc.Field
	// AsTask is the task object to send instead of the client's own. It asks a server with
	// RequestedTasks to run the call as a task. If AsTask is nil, the client's own task object is
	// sent.
	AsTask []byte
	// Caps are the capabilities to send to the server. Nil means the capabilities of the client.
	Caps []byte
	// Session is the number of the server's session that must get the call. 0 means any
	// session.
	Session uint64
	// Answers says that a server of any revision gets the inputResponses and the requestState of a
	// retry, because the server has asked for them.
	Answers bool
	// Sole says that the client's endpoint has only one server.
	Sole bool
	// Progress is the largest progress value that the client has got, or nil before the first. The
	// value is kept through all attempts at a call.
	Progress *float64
}

// NewAttempt returns an attempt that sends c without changes.
func NewAttempt(c *Call) *Attempt { return &Attempt{Call: c, Name: c.Name} }

// Capabilities returns the client capabilities to send to the server.
func (a *Attempt) Capabilities() []byte {
	if a.Caps != nil {
		return a.Caps
	}
	return a.Client.Capabilities
}
