package bridge

import (
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Bridge contains the state that all calls of a daemon share, such as the keys that seal
// requestStates, and the parked calls. The zero value is ready to use. Call Close when the Bridge
// is no longer needed.
type Bridge struct {
	// Events gets an event for each loss, and for each requestState that belongs to another client
	// or request. If Events is nil, the Bridge publishes no events.
	Events *event.Publisher

	// Budget counts the memory of parked calls and attended tasks. The transports count the memory
	// of running requests. If Budget is nil, the Bridge counts nothing.
	Budget *transport.Budget

	// OneClient says that only one client uses the Bridge. That client may see all tasks, and the
	// task ids of a server without sessions stay as they are.
	OneClient bool

	// Keys seal requestStates and sign the ids of tasks. If Keys is nil, the Bridge makes its own for
	// the life of the process.
	Keys Keyring

	// Places says in which process a parked call or a task exists. If Places is nil, all are in this
	// one.
	Places transport.Places

	// Own refuses elicitations that lead to Dragoman itself. It may be nil.
	Own *mcp.Own

	own Keys // used if Keys is nil

	mu      sync.Mutex
	retried map[stateID]struct{} // states that have a running retry; see takeState
	spent   spent                // states that are good for one use; see ask.go

	parkMu   sync.Mutex
	parked   map[string]*parkedCall
	places   map[string]*transport.Quota // quotas of parked calls; see slotsOf; empty quotas are removed
	finished finished                    // parked calls that have ended
	attended map[string]*attendedTask    // see attendTask
	attends  transport.Quota             // the quota for attended
	closed   bool
	running  work.Group // goroutines of calls that may be parked, and of attended tasks

	kept  keptTasks
	shown shownURLs
}
