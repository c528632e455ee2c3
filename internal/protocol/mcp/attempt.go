package mcp

import (
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Attempt is one attempt to send a call to a server. It contains the changes to the call. The bytes
// of the Call itself do not change. Only the goroutine that sends an Attempt may use it.
type Attempt struct {
	*Call

	// Server is the name of the server that gets the call, or "" if the server is not known yet.
	Server string
	// To is the revision of the session in which the call was last sent. To is Unknown until the
	// call is sent.
	To Revision
	// Waited is how long the call had to wait for sessions of its server: for one that was free, or
	// until the server had started. The bridge sets it when the exchange has ended.
	Waited time.Duration
	// Name is the server's own name of the item that the call is about.
	Name string
	// Args are the arguments that the server gets, if the call is about a tool or a prompt. They're
	// absent for other methods. Read them here, and not in Call.Msg: who changes them by an edit
	// also sets Args.
	Args jsonrpc.Value
	// Edits are the changes that the call needs for a server of any revision. For example, they
	// remove the prefix of a name, or replace a sealed requestState with the server's own
	// requestState. The edits apply to Call.Msg.
	Edits jsonrpc.EditList
	// Retry are members to add to params: requestState, and inputResponses with the answers to the
	// server's input requests. Dragoman sets Retry when it answers input_required results on behalf
	// of a legacy client.
	Retry []jsonrpc.Field
	// AsTask is the task object to send instead of the client's own task object. It makes a server
	// with RequestedTasks run the call as a task. If AsTask is nil, the client's own task object is
	// sent.
	AsTask []byte
	// Caps are the capabilities to send to the server. Nil means the capabilities of the client.
	Caps []byte
	// Session is the number of the server's session that must get the call. 0 means any
	// session.
	Session uint64
	// Answers says that the inputResponses and the requestState of a retry are sent even to a
	// legacy server, because the server has requested them.
	Answers bool
	// Agreed says that a person has agreed to this call when Dragoman asked. They agreed to one call,
	// so a requestState that continues the call is good for one use.
	Agreed bool
	// Passes returns an error if a message of the server must not reach the client. Several
	// goroutines may call it. Nil lets everything pass.
	Passes func(m *jsonrpc.Message) error
	// Via is the tool of Dragoman's own through which the client calls a tool, or "". Then Name and Args are in the
	// arguments of the request.
	Via string
	// Sole says that the client's endpoint has only one server.
	Sole bool
	// Progress is the largest progress value that the client has got for this call, or nil if the
	// client has got none. Dragoman keeps the value when it sends the call again.
	Progress *float64
}

// NewAttempt returns an attempt that sends c without changes.
func NewAttempt(c *Call) *Attempt { return &Attempt{Call: c, Name: c.Name, Args: argsOf(c)} }

// argsOf returns the arguments of a call of a tool or a prompt. It is apart from NewAttempt so that
// the compiler can inline NewAttempt.
func argsOf(c *Call) jsonrpc.Value {
	if c.Msg.Method != MethodCallTool && c.Msg.Method != MethodGetPrompt {
		return jsonrpc.Value{}
	}
	return c.Msg.At(c.Msg.Param("arguments"))
}

// Capabilities returns the client capabilities to send to the server.
func (a *Attempt) Capabilities() []byte {
	if a.Caps != nil {
		return a.Caps
	}
	return a.Client.Capabilities
}
