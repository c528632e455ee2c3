// Package event is the one stream on which the program says what happens: calls, losses,
// handshakes, notifications, the life of servers, refusals. Rooms publish; metrics, logs,
// status and stores subscribe, and no publisher knows who listens.
//
// There are two kinds of subscribers. A tap runs in the publisher's goroutine, misses
// nothing, must not block and only counts. A queue is read by a goroutine of its own; it
// never holds up a publisher, and what it had no room for it counts. What must not be
// lost, such as an audit trail, is not a subscriber but a step before the call.
//
// The package starts no goroutine and does no I/O.
package event

import (
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/identity"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Kind says what an event is about.
type Kind uint8

// The kinds of event. The zero Kind belongs to none.
const (
	Call          Kind = iota + 1 // a client's request was answered
	ServerRequest                 // a server asked the client something: sampling, elicitation, roots
	Loss                          // something could not be carried; Detail says what and why
	Handshake                     // a server was opened, or could not be; Detail is the trace
	Notification                  // a notification was carried
	Lifecycle                     // a server or a session changed its state
	Refusal                       // a request was turned away before it became a call
	kinds                         // how many there are, and one more
)

var kindNames = [kinds]string{"", "call", "server_request", "loss", "handshake", "notification", "lifecycle", "refusal"}

// String returns the name of the kind as logs and JSON have it, "" for one that does not
// exist.
func (k Kind) String() string {
	if k >= kinds {
		return ""
	}
	return kindNames[k]
}

// Kinds is a set of kinds. The zero value is empty.
type Kinds uint32

// All is every kind.
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

// Event is one thing that happened. Which members are set depends on its kind; those
// that do not apply are zero. It is passed by value and its strings are shared with
// whoever published it, so that publishing allocates nothing.
type Event struct {
	Kind    Kind
	Level   slog.Level
	Time    time.Time
	Took    time.Duration
	Who     *identity.Principal // nil for nobody in particular
	Project string
	Server  string
	Method  string
	Name    string // of the tool, prompt or resource, as the server knows it
	From    mcp.Revision
	To      mcp.Revision
	Outcome mcp.Outcome
	Code    int64 // of the error that the client got; 0 for none
	In, Out int   // bytes of the request and of the answer
	Call    uint64
	Trace   string // the client's trace id
	Detail  string // for people, and for Loss and Handshake what happened
}
