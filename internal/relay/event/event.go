// Package event is the stream of everything that happens in the program: calls, losses, handshakes,
// notifications, server states and refusals. The layers of Dragoman publish events. Metrics, logs
// and status subscribe to them. A publisher does not know its subscribers.
//
// There are two kinds of subscribers. A tap is a function that runs in the publisher's goroutine.
// It gets every event, but must not block. A queue is read by its own goroutine. A queue never
// blocks a publisher, and counts the events that it drops. Data that must not be lost, such as an
// audit trail, needs a policy.Auditor instead of a subscriber.
//
// The package starts no goroutine and does no I/O.
package event

import (
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Kind is the kind of an event.
type Kind uint8

// The kinds of events. The zero value is not a valid kind.
const (
	Call          Kind = iota + 1 // a client's request ended
	ServerRequest                 // a server sent a request to a client: sampling, elicitation, roots
	Loss                          // something was lost in translation; Name is the lost thing, and Detail the reason
	Handshake                     // a handshake ended, either of a client with Dragoman or of Dragoman with a server
	Notification                  // a notification was forwarded; no code publishes this kind yet
	Lifecycle                     // a server or a session changed its state
	Refusal                       // a request was refused before it became a call
	Rename                        // clients see an item under an unusual name
	Step                          // a message of a handshake with a server was sent or answered
	Stderr                        // a line from stderr of a server; Detail is the line
	Reload                        // a changed configuration was applied or refused
	Changed                       // tools of a server differ from those that it listed before; Change says how
	Pinned                        // definitions differ from those that were approved
	Question                      // a question waits for a person at the console, or, with an Outcome, waits no more
	BadMessage                    // a client sent a message that is not valid, except initialize and server/discover
	kinds                         // the number of kinds plus one
)

var kindNames = [kinds]string{"", "call", "server_request", "loss", "handshake", "notification", "lifecycle", "refusal", "rename", "step", "stderr", "reload", "changed", "pinned", "question", "bad_message"}

// String returns the name of the kind for logs and JSON. It returns "" for an unknown kind.
func (k Kind) String() string {
	if k >= kinds {
		return ""
	}
	return kindNames[k]
}

// Kinds is a set of kinds. The zero value is empty.
type Kinds uint32

// All is the set of all kinds.
const All Kinds = 1<<kinds - 2

// Of returns the set of the given kinds.
func Of(list ...Kind) Kinds {
	var s Kinds
	for _, k := range list {
		s |= 1 << k
	}
	return s
}

// Has reports whether k is in the set.
func (s Kinds) Has(k Kind) bool { return s>>k&1 != 0 }

// The outcomes of a call, in addition to those of package mcp, which are for calls that
// failed.
const (
	OK mcp.Outcome = "ok"
	// ToolError means that the server answered a call of a tool with a result whose isError is
	// true. The client gets this result, so the code is 0.
	ToolError mcp.Outcome = "tool_error"
	Parked    mcp.Outcome = "parked"  // the call waits for its client's answers; a retry continues it
	Refused   mcp.Outcome = "refused" // Dragoman answered with an error, and no server got the call
	// Cancelled means that the client cancelled the call or disconnected. The client gets no
	// answer, so the code is 0. A server may have executed the call.
	Cancelled mcp.Outcome = "cancelled"
)

// The outcomes of a client's handshake, in addition to OK and mcp.Failed.
const (
	Negotiated         mcp.Outcome = "negotiated"          // the client got another revision than the requested one
	UnsupportedVersion mcp.Outcome = "unsupported_version" // Dragoman does not accept the revision
	Malformed          mcp.Outcome = "malformed"           // the request lacks a member, or a member has a wrong type
	RateLimited        mcp.Outcome = "rate_limited"        // the client opens too many sessions
)

// Opening describes the handshake of a client: initialize or server/discover. All texts are
// short and have no control characters.
type Opening struct {
	Client, Version string // the name and version that the client sent; "unknown" if it sent none
	Requested       string // the revision that the client asked for, as it wrote it; "" for none
	Remote          string // the client's address without port, or its transport
}

// HandshakeStep describes an event of the kind Step. All texts are printable, bounded and without
// secrets.
type HandshakeStep struct {
	N         int    // the number of the step in its session, from 1
	Sent, Got string // the message to the server, and its answer; Got is "" while there is no answer
	Reason    string // the reason for what Dragoman does next
	For       string // the method of the call that needs the server; or "lists", "keep open" or "check era"
	Bytes     string // the first 4 KiB of the message; "" unless the log shows messages
}

// DefaultProject is the project that exists always: that of the configuration file, and of what
// belongs to the whole process.
const DefaultProject = "default"

// Event is one event. Which fields are set depends on its kind; the others are zero. An Event is
// passed by value and shares its strings with the publisher, so that publishing does not allocate
// memory.
//
//	Call           Server is "" if the answer comes from several servers, or from none
//	ServerRequest  Method is the method of the request, and Took is how long the answer took
//	Loss           Name is the lost thing, and Detail the reason; Method is the method of the
//	               call, if it is known
//	Handshake      with a client: Opening is not nil, Server is "", Name is the client's own name,
//	               and From its revision; with a server: Detail is the trace, a line for each step
//	Notification   Method is the method of the notification
//	Lifecycle      at level debug, Detail is the current step of opening a server, or "" when the
//	               opening has ended; at other levels, Detail is what happened to the server
//	Refusal        Detail is the fault of the request
//	BadMessage     Name is the address of the client, or its transport; Method is "" if it could
//	               not be read; Detail says what is wrong
//	Rename         Method is the method of the list, Name the server's own name of the item,
//	               and Detail the reason
//	Changed        Method is the method of the list, and Detail describes Change
//	Pinned         Name has the kinds and names of the first definitions, In is how many there are, and
//	               Detail says what becomes of them
//	Question       Method is the kind of question: confirmation, form or link; Name is the item of its
//	               call; without an Outcome, it has just arrived; Detail is what happens to it, or the
//	               answer of Who: accept, decline or cancel
//	Reload         Outcome is OK if the configuration was applied, and mcp.Failed if it was
//	               refused; Detail says what changed, or why it was refused
type Event struct {
	Kind    Kind
	Level   slog.Level
	Time    time.Time           // the end of the event; if it is zero, Publish sets it
	Took    time.Duration       // the duration; 0 if nothing took time
	Waited  time.Duration       // of Took, how long a Call waited for a session with its server
	Who     *identity.Principal // the client's principal; nil if unknown
	Project string              // the project; if it is "", Publish sets it
	Server  string              // the configured name of the server
	Method  string
	Name    string       // the server's own name of the tool, prompt or resource; other kinds: see above
	From    mcp.Revision // the client's revision
	To      mcp.Revision // the server's revision
	Outcome mcp.Outcome
	Code    int64  // the code of the error that the client got; 0 for none
	In, Out int    // bytes of the request and of its answer, as Dragoman received them
	Call    uint64 // the same number in all events of one call and its retries; 0 for none
	// Client describes the client of a Call. Only taps get it, and may use it only until they
	// return, because Client shares memory with the request.
	Client *mcp.ClientInfo
	// Opening describes the Handshake of a client. It is nil for other events. It must not be
	// modified.
	Opening *Opening
	// Step describes an event of the kind Step. It is nil for other events. It must not be
	// modified.
	Step *HandshakeStep
	// Change describes an event of the kind Changed. It is nil for other events. It must not be
	// modified.
	Change *ListChange
	Trace  string // the client's W3C trace id
	Detail string // text for people
}

// OfClient reports whether e is the handshake of a client with Dragoman. Any other Handshake is one
// of Dragoman with a server, even if Server is "".
func (e *Event) OfClient() bool { return e.Kind == Handshake && e.Opening != nil }
