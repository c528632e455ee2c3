package bridge

import (
	"context"
	"errors"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Server is an MCP server, as the bridge uses it. Safe for concurrent use.
type Server interface {
	// Name returns the configured name.
	Name() string
	// Acquire returns one of the server's sessions for the client f. Its error can go to the
	// client as it is; see mcp.Wire.
	Acquire(ctx context.Context, f *mcp.ClientInfo, need mcp.Need) (Lease, error)
	// Tasks returns the form in which the server supports tasks for the client f. It does not open
	// a session if the server does not support tasks in any form.
	Tasks(ctx context.Context, f *mcp.ClientInfo) mcp.TaskForm
}

// Lease is a session of a server. It belongs to one goroutine at a time.
type Lease interface {
	// Revision returns the revision of the session. The method Tasks returns the form in which the
	// session supports tasks.
	Revision() mcp.Revision
	Tasks() mcp.TaskForm
	// Tool returns the facts that the server's tool list states about a tool.
	Tool(ctx context.Context, name string) mcp.ToolFacts
	// Call sends an attempt and waits for its answer. Its error can go to the client as it is.
	// After mcp.ErrChanged, the caller must rebuild the attempt for the current session of the
	// lease.
	Call(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error)
	// Release returns the session to the server. Further calls have no effect.
	Release()
}

// visit holds the lease that one Exchange has on a session. The lease is released while a user
// is asked and between the polls of a task.
type visit struct {
	server Server
	client *mcp.ClientInfo
	need   mcp.Need
	lease  Lease
	to     mcp.Revision // the revision of the last lease
}

// open returns the lease of the visit. The first call acquires the lease.
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

// Send acquires a session, sends one attempt and releases the session. Use it for Dragoman's own
// requests, which do not depend on the session.
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
