package transport

import (
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Places determines from the id of an object, such as a session, in which process the object
// exists. Clients see the ids, so an id must not reveal anything except the process.
// Implementations are safe for concurrent use and do not block.
type Places interface {
	// Mark returns id in the form that clients get. This form contains the process, so that Of can
	// find it. What Mark adds consists of letters, digits, - and _, and of dots.
	Mark(id string) string
	// Of returns the process in which the object with this id exists. "" means this process. The id
	// comes from a client and may be any text.
	Of(id string) (home string)
}

// Elsewhere is the error for a request about an object in another process: a session, a stream, a parked
// call, a task, or what a server remembers. The request had no effect.
type Elsewhere struct {
	Home string // result of Places.Of
	Lost bool   // the process doesn't live any more, or nobody knows of it; set by who would have passed the request on
	// Again says that the object may move: if the process hasn't got the request, the caller looks for it again. Lost
	// says then that the process couldn't be reached.
	Again bool
	// Forget is called if the process hasn't got the request: whoever made this error looks again then. May be nil.
	Forget func()
	// Failed is what the client has heard because its request got lost on the way, or nobody had it in time; set by who has
	// passed it on. See Record.
	Failed error
	// Refusal is what a client hears if the process turns out to have ended; nil for what may move.
	Refusal *jsonrpc.Error
}

func (e *Elsewhere) Error() string {
	return fmt.Sprintf("the request is for another process, %q", e.Home)
}

// WhyAway completes the refusal of a request with the id of a session that isn't found: it says why, if that's
// because the session is in another process.
func WhyAway(err error) string {
	var away *Elsewhere
	switch {
	case !errors.As(err, &away):
		return ""
	case away.Lost:
		return ": the replica of Dragoman that has begun it has ended"
	}
	return ": another process of Dragoman has begun it; whatever spreads the requests has to send all of a session to one process"
}

// Forwarding is a Responder that can still give its request to another process, as the client sent
// it.
type Forwarding interface {
	// Forward reports whether the request goes to the process that to names. It returns false if the
	// response has begun, and if nobody forwards requests. The caller must then call Finish, and
	// otherwise must not use the Responder any more. If to has Again, the request may come back as a new one.
	Forward(to *Elsewhere) bool
}

// Alone implements Places for a single process. It does not change ids, and finds all ids in this
// process.
type Alone struct{}

// Mark returns the id unchanged.
func (Alone) Mark(id string) string { return id }

// Of returns "", which means this process.
func (Alone) Of(string) string { return "" }
