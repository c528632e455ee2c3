package policy

import (
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Call is a call as a [Step] and an [Auditor] see it. They must not change it, and must not keep it
// after the call has ended. Both see the same *Call from beginning to end.
type Call struct {
	Who     *identity.Principal // the principal of the client; nil without authentication
	Project string
	// Server is the name of the server that gets the call. It is "" if the answer comes from
	// several servers, or from none.
	Server string
	// Name is the server's own name of the tool or prompt, or the URI of the resource, or the id of
	// the task. It is "" if the method does not name an item. If no server has the item, or the
	// client may not see it, Name is what the client wrote.
	Name string
	// Args are the arguments of a tool or prompt, as the server gets them. They are absent for
	// other methods.
	Args jsonrpc.Value
	// Request is the client's request. Its size is len(Request.Msg.Raw) bytes.
	Request *mcp.Call
	// Resumed means that the call continues an earlier call, in which the client was asked for
	// input. The steps have already let the earlier call pass. A step should authorise the call
	// again, but not count it again.
	Resumed bool
}

// Answer is the result of a call. Exactly one of Reply and Err is set.
type Answer struct {
	Reply   *mcp.Reply
	Err     error
	Outcome mcp.Outcome  // the same outcome as in the event of the call
	Code    int64        // the JSON-RPC error code that the client gets; 0 for a result
	To      mcp.Revision // the server's revision; Unknown if no server got the call
	Size    int          // size of the server's message in bytes; 0 if there is none
	Took    time.Duration
}

// Verdict is what a step decides about a call. The zero Verdict lets the call pass.
type Verdict struct {
	// Refuse is the client's answer: mcp.Wire converts it to a JSON-RPC error, and the call is not
	// sent to the server.
	Refuse error
}

// Passes reports whether the call may pass.
func (v Verdict) Passes() bool { return v == Verdict{} }

// Step decides whether a call may be sent. Many goroutines call its methods at the same time. The
// methods may block until ctx ends, but the client waits during that time.
type Step interface {
	// Before decides about the call before it is sent to the server.
	Before(ctx context.Context, c *Call) Verdict
	// After receives the result of each call that Before let pass, even if a later step
	// refused the call. ctx may have ended.
	After(ctx context.Context, c *Call, a *Answer)
}

// Auditor hears of every request, in contrast to a [Step]: also of requests that a step refuses, and
// of those that name something that doesn't exist or that the client may not see. Only the
// handshake, and messages that never become a call because their session refuses them, pass it by.
// Many goroutines call its methods at the same time.
type Auditor interface {
	// Begin is called first of all. Server, Name, Args and Resumed of c aren't known yet, but
	// Request is. If Begin returns an error, the client gets it, nothing else is done for the
	// request, and End isn't called.
	Begin(ctx context.Context, c *Call) error
	// End gets the outcome, after the steps and before the client. ctx may have ended.
	End(ctx context.Context, c *Call, a *Answer)
}

// Chain is a list of steps. The steps see a call in the order of the list. A chain must not be
// changed after its first use. The zero value lets every call pass.
type Chain []Step

// Admit calls Before of each step. It stops at the first step that does not let the call pass, and
// returns the verdict of this step. passed is the number of steps that let the call pass.
func (c Chain) Admit(ctx context.Context, call *Call) (passed int, v Verdict) {
	for i, s := range c {
		if v := s.Before(ctx, call); !v.Passes() {
			return i, v
		}
	}
	return len(c), Verdict{}
}

// Done calls After of the steps that let the call pass, in reverse order. passed is the value
// that Admit returned.
func (c Chain) Done(ctx context.Context, passed int, call *Call, a *Answer) {
	for i := passed - 1; i >= 0; i-- {
		c[i].After(ctx, call, a)
	}
}
