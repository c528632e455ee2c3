// Package event is the stream of everything that happens in the program: calls, losses,
// handshakes, notifications, server state, refusals. Layers publish. Metrics, logs,
// status and stores subscribe. A publisher does not know its subscribers.
//
// There are two kinds of subscribers. A tap runs in the publisher's goroutine, misses
// nothing, must not block and only counts. A queue is read by its own goroutine. It
// never blocks a publisher, and it counts the events that it dropped. Data that must
// not be lost, such as an audit trail, is not a subscriber but a step before the call.
//
// The package starts no goroutine and does no I/O.
package event

import (
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/identity"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Kind is the kind of an event.
type Kind uint8

// The kinds of events. The zero Kind is no kind.
const (
	Call          Kind = iota + 1 // a client's request was answered
	ServerRequest                 // a server sent the client a request: sampling, elicitation, roots
	Loss                          // something was lost; Detail says what and why
	Handshake                     // a handshake ended, successfully or not; Detail is the trace
	Notification                  // a notification was passed on
	Lifecycle                     // a server or a session changed its state
	Refusal                       // a request was refused before it became a call
	kinds                         // one more than there are kinds
)

var kindNames = [kinds]string{"", "call", "server_request", "loss", "handshake", "notification", "lifecycle", "refusal"}

// String returns the name of the kind for logs and JSON, "" for an unknown kind.
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

// Event is one event. Which members are set depends on its kind; the others are zero.
// It is passed by value and shares its strings with the publisher, so that publishing
// allocates nothing.
type Event struct {
	Kind    Kind
	Level   slog.Level
	Time    time.Time
	Took    time.Duration
	Who     *identity.Principal // nil if unknown
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
	Detail  string // text for people; see Loss and Handshake
}
