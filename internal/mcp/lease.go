package mcp

import (
	"errors"

	"github.com/dragoman-mcp/dragoman/internal/mcp/mirror"
)

// Need says what a lease on a server's session must be suitable for. The zero value is enough
// to read the server information.
type Need struct {
	// ForCall says that the server may ask the client while the call runs. The session is
	// chosen so that the server's requests can be attributed to this call.
	ForCall bool
	// Session is the number of the only suitable session, such as that of a task. 0 means any
	// session.
	Session uint64
}

// NeedOf returns the Need of a call.
func NeedOf(c *Call) Need { return Need{ForCall: c.Method == nil || c.Method.MayAsk} }

// ToolFacts are the facts about one tool in a server's tool list.
type ToolFacts struct {
	Known   bool           // the tool is in the list
	Params  []mirror.Param // the parameters to mirror into headers
	Support TaskSupport    // whether the tool may or must be called as a task
}

// A lease's Call returns ErrChanged if the session was replaced, and the new session has another
// era or another form of tasks. The server did not execute the call. The caller must build a new
// attempt for the new session.
var ErrChanged = errors.New("the server changed its protocol revision or its support for tasks during the call")
