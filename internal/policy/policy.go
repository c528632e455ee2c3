package policy

import (
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/identity"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Call is one call as a step sees it. A step must not write to it, nor keep it after the
// step has returned.
type Call struct {
	Who     *identity.Principal // who asks, nil without authentication
	Project string
	// Server is the name of the server that the call goes to, "" where the answer is made
	// of several servers, or of none.
	Server string
	// Name is the tool, prompt, URI or task that the call is about, as the server knows it;
	// "" when the method has none.
	Name string
	// Args are the arguments of a tool or prompt as the server gets them, absent for other
	// methods.
	Args jsonrpc.Value
	// Request is what the client asked. Its size is len(Request.Msg.Raw) bytes.
	Request *mcp.Call
	// Resumed says that the call goes on with one that was asked for input, which a step
	// has let pass before: it is authorised again and not counted again.
	Resumed bool
}

// Answer is how a call ended. Exactly one of Reply and Err is set.
type Answer struct {
	Reply   *mcp.Reply
	Err     error
	Outcome mcp.Outcome  // as in the event of the call
	Code    int64        // the JSON-RPC error code that the client gets, 0 for a result
	To      mcp.Revision // the server's, Unknown where none was asked
	Size    int          // of the server's message in bytes, 0 for none
	Took    time.Duration
}

// Step decides on calls. Its methods are called by many goroutines at the same time and
// may block as long as ctx, for which the client waits.
type Step interface {
	// Before lets the call pass by returning nil. An error is the client's answer; it is
	// turned into a JSON-RPC error by mcp.Wire. No byte has been sent.
	Before(ctx context.Context, c *Call) error
	// After hears how a call ended that Before let pass, also when a later step refused it.
	// ctx may have ended.
	After(ctx context.Context, c *Call, a *Answer)
}

// Chain is steps in the order in which they look at a call. It is not written to once it
// is used. The zero value lets everything pass.
type Chain []Step

// Admit asks each step and stops at the first that refuses, whose error it returns. passed
// is the number of steps that let the call pass.
func (c Chain) Admit(ctx context.Context, call *Call) (passed int, err error) {
	for i, s := range c {
		if err := s.Before(ctx, call); err != nil {
			return i, err
		}
	}
	return len(c), nil
}

// Done tells the steps that let the call pass how it ended, the last one first. passed is
// what Admit returned.
func (c Chain) Done(ctx context.Context, passed int, call *Call, a *Answer) {
	for i := passed - 1; i >= 0; i-- {
		c[i].After(ctx, call, a)
	}
}
