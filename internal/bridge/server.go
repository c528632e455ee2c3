package bridge

import (
	"context"
	"errors"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Server is a server as seen by the bridge. Safe for concurrent use.
type Server interface {
	// Name returns the configured name.
	Name() string
	// Acquire returns one of the server's sessions for the client f. The error goes to the
	// client; see mcp.Wire.
	Acquire(ctx context.Context, f *mcp.ClientInfo, need mcp.Need) (Lease, error)
	// Tasks returns the form in which the server supports tasks for the client f. If it
	// supports none in any session, no session is opened.
	Tasks(ctx context.Context, f *mcp.ClientInfo) mcp.TaskForm
}

// Lease is a session of a server. It belongs to one goroutine at a time.
type Lease interface {
	// Revision returns the revision of the session, Tasks the form in which it supports
	// tasks.
	Revision() mcp.Revision
	Tasks() mcp.TaskForm
	// Tool returns what the server's list says about a tool.
	Tool(ctx context.Context, name string) mcp.ToolFacts
	// Call sends an attempt and waits for its answer. The error goes to the client. With
	// mcp.ErrChanged the attempt must be rebuilt for the current session of the lease.
	Call(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error)
	// Release gives the session back. Further calls have no effect.
	Release()
}

// visit holds the lease of an exchange. It is released while waiting for a user and between
// the polls of a task.
type visit struct {
	server Server
	client *mcp.ClientInfo
	need   mcp.Need
	lease  Lease
	to     mcp.Revision // of the last lease
}

// open returns the lease and acquires one if there is none.
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

// Send acquires a session, sends one attempt and releases the session. It is for our own
// requests, which need to know nothing about the session beforehand.
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
