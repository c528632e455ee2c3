package transport

import (
	"context"
	"errors"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Seats is a Places whose processes go on with each other's sessions. The id of a session has what another process
// needs to begin the session anew, sealed. Who sits where is written down only if it isn't the process that the id
// names. The methods without a context don't block.
type Seats interface {
	Places
	// Seal returns the id of a new session, in the form of Mark. use says who may use it and where: for anybody else, the
	// id is as good as made up. facts are what Heritable.Facts returned; with nil, no other process can go on with the
	// session.
	Seal(use string, facts []byte) (id string)
	// Term returns a number that changes when this process has lost all its sessions, because the others have taken it
	// for dead and go on with them.
	Term() uint64
	// Holds reports whether this process may serve the sessions of this term. If it was stopped or cut off for a while,
	// Holds waits some seconds until it's known.
	Holds(ctx context.Context) bool
	// Find says where a session is that isn't in the memory of this process. Without an error, it's here now, and the
	// caller has to begin it anew. The error is ErrNoSession, an *Elsewhere with Again, or ErrUnsettled. moved says
	// that the process that Find returned before doesn't have the session.
	Find(ctx context.Context, id, use string, moved bool) (Estate, error)
	// Keep soon writes down what a client has set in a session of this process, as extras returns it then; see
	// Heritable.Inherit.
	Keep(id string, extras func() []byte)
	// Release forgets what is written about a session that has ended here.
	Release(id string)
	// Give gives sessions to other processes, and returns those that this one has lost: given, or taken from it before.
	// The error is ErrNoHeir if there is no other process.
	Give(ctx context.Context, all []Estate) (lost []string, err error)
}

// Estate is what one process leaves of a session to another one.
type Estate struct {
	ID            string
	Facts, Extras []byte
	Age           time.Duration // of the session
}

var (
	// ErrNoSession is the error for an id of which there is no session: it was made up, belongs to somebody else, or
	// what it stands for is over. It doesn't say which.
	ErrNoSession = errors.New("session not found")
	// ErrUnsettled means that nobody can say now where a session is, but soon.
	ErrUnsettled = errors.New("it isn't known which process has the session")
	// ErrNoHeir means that no other process can go on with sessions.
	ErrNoHeir = errors.New("there is no other process")
)

// Heritable is a Conversation of a session with which another process can go on.
type Heritable interface {
	// Facts returns what the client has said about itself and what was agreed. It's nil before that. Many clients have
	// the same facts.
	Facts() []byte
	// Extras returns what the client has set in the session, or nil.
	Extras() []byte
	// Inherit begins the conversation anew with what another process had. It tells the client that all lists may have
	// changed. The function restore sets what the client had set, and is nil if that is nothing; it asks servers, and
	// returns early when ctx ends. ok is false if the facts can't be used.
	Inherit(facts, extras []byte) (rev mcp.Revision, restore func(ctx context.Context), ok bool)
}

// Keeper is the Outbox of a session. If Keeps returns true, another process can go on with the session, and Keep is called
// with Heritable.Extras after a change.
type Keeper interface {
	Keeps() bool
	Keep(extras func() []byte)
}
