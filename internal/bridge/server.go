package bridge

import (
	"context"
	"errors"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Server is a server as the bridge uses it. It is safe for concurrent use.
type Server interface {
	// Name returns its configured name.
	Name() string
	// Acquire returns one of the server's sessions for the client f. The error is what the
	// client gets, see mcp.Wire.
	Acquire(ctx context.Context, f *mcp.ClientInfo, need mcp.Need) (Lease, error)
	// Tasks returns in which form the server has tasks for the client f, without a session
	// where it has none in any.
	Tasks(ctx context.Context, f *mcp.ClientInfo) mcp.TaskForm
}

// Lease is a session of a server, for one goroutine at a time.
type Lease interface {
	// Revision returns what the session speaks, Tasks in which form it has tasks.
	Revision() mcp.Revision
	Tasks() mcp.TaskForm
	// Tool returns what the server's list says of a tool.
	Tool(ctx context.Context, name string) mcp.ToolFacts
	// Call sends an attempt and waits for its answer. The error is what the client gets,
	// or mcp.ErrChanged: then the attempt has to be made anew for what the lease is now.
	Call(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error)
	// Release gives the session back. It may be called several times.
	Release()
}

// visit is what an exchange holds of its server: a lease while it needs one. It is
// released while a person is waited for and between the polls of a task.
type visit struct {
	server Server
	client *mcp.ClientInfo
	need   mcp.Need
	lease  Lease
	to     mcp.Revision // of the last lease
}

// open returns the lease, acquiring one where there is none.
func (v *visit) open(ctx context.Context) (Lease, error) {
	if v.lease == nil {
		l, err := v.server.Acquire(ctx, v.client, v.need)
		if err != nil {
			return nil, err
		}
		v.lease, v.to = l, l.Revision()
	}
	return v.lease, nil
}

func (v *visit) call(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	l, err := v.open(ctx)
	if err != nil {
		return nil, err
	}
	return l.Call(ctx, a, k)
}

func (v *visit) release() {
	if v.lease != nil {
		v.lease.Release()
		v.lease = nil
	}
}

// Send acquires a session, sends one attempt through it and gives it back: for requests of
// our own, which need to know nothing of the session before.
func Send(ctx context.Context, s Server, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	need := mcp.NeedOf(a.Call)
	need.Session = a.Session
	l, err := s.Acquire(ctx, a.Client, need)
	if err != nil {
		return nil, err
	}
	defer l.Release()
	reply, err := l.Call(ctx, a, k)
	if errors.Is(err, mcp.ErrChanged) {
		reply, err = l.Call(ctx, a, k)
	}
	return reply, err
}
