package mcp

import (
	"context"
	"errors"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
)

// Need describes what a lease on a server's session is for. The zero value is enough to read the
// server information.
type Need struct {
	// ForCall says that the server may send requests to the client while the call runs. The session
	// is chosen so that the server's requests can be attributed to this call.
	ForCall bool
	// Session is the number of the session to use, such as the session of a task. If this session
	// has ended, a lease on a server over a pipe fails, and a lease on an HTTP server gets another
	// session. 0 means any session.
	Session uint64
	// Method is the method of the request that needs the session, for the log. If Method is "", the
	// log shows the purpose of the context; see WithPurpose.
	Method string
}

// NeedOf returns the Need of a call.
func NeedOf(c *Call) Need {
	n := Need{ForCall: c.Method == nil || c.Method.MayAsk}
	if c.Method != nil {
		n.Method = c.Msg.Method
	}
	return n
}

// List reports whether the request only reads lists, or what the server declares.
func (n Need) List() bool {
	if n.Method == "" {
		return !n.ForCall
	}
	m := LookupMethod(n.Method)
	return m != nil && m.ListKey != ""
}

// purposeKey is the key of a purpose in a context.
type purposeKey struct{}

// WithPurpose returns a context that contains the purpose for which Dragoman opens a server. The
// log shows the purpose. Use WithPurpose if Dragoman opens a server before there is a request. The
// purpose is a method, or "lists" if Dragoman reads the lists that it merges.
func WithPurpose(ctx context.Context, purpose string) context.Context {
	return context.WithValue(ctx, purposeKey{}, purpose)
}

// PurposeOf returns the purpose of a context, or "" if it has none.
func PurposeOf(ctx context.Context) string {
	purpose, _ := ctx.Value(purposeKey{}).(string)
	return purpose
}

// callerKey is the key of WithCall in a context.
type callerKey struct{}

// WithCall returns a context that says that a client waits for its call of the server. If the server
// has to be started first, its start comes before those for which no call waits. f may be nil.
func WithCall(ctx context.Context, f *ClientInfo) context.Context {
	party := ""
	if f != nil {
		party = f.Party()
	}
	return context.WithValue(ctx, callerKey{}, party)
}

// CallerOf returns the party of the client of a context from WithCall; see ClientInfo.Party. Other
// contexts have no call.
func CallerOf(ctx context.Context) (party string, called bool) {
	party, called = ctx.Value(callerKey{}).(string)
	return party, called
}

// ToolFacts contains what Dragoman knows about one tool from a server's tool list.
type ToolFacts struct {
	Known   bool           // the tool is in the list
	Params  []mirror.Param // the parameters to mirror into headers
	Support TaskSupport    // whether the tool may or must be called as a task
}

// ErrChanged is the error of a lease's Call if the session was replaced by a session with another
// era or another form of tasks. The server did not execute the call. The caller must build a new
// attempt for the new session.
var ErrChanged = errors.New("the server changed its protocol revision or its support for tasks during the call")
