package mcp

import (
	"errors"

	"github.com/dragoman-mcp/dragoman/internal/mcp/mirror"
)

// Need says what a lease of a server's session is for. The zero value is for reading
// the server information.
type Need struct {
	// ForCall says that a call will run in which the client may be asked: the session is
	// chosen such that the server's questions can be attributed to it.
	ForCall bool
	// Session, unless 0, is the one session that will do: that of a task.
	Session uint64
}

// NeedOf returns what a call needs.
func NeedOf(c *Call) Need { return Need{ForCall: c.Method == nil || c.Method.MayAsk} }

// ToolFacts is what a server's list of tools says of one tool.
type ToolFacts struct {
	Known   bool           // the tool is in the list
	Params  []mirror.Param // what it wants mirrored into headers
	Support TaskSupport    // whether it may or must be called as a task
}

// ErrChanged is returned by a lease's Call when the session had to be replaced and the new
// one has another era or another form of tasks. Nothing was executed: the attempt has to
// be made anew for what the lease says now.
var ErrChanged = errors.New("the server has changed its era or its form of tasks")
