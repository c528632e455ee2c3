package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Server is an MCP server, as the bridge uses it. It is safe for concurrent use.
type Server interface {
	// Name returns the configured name.
	Name() string
	// Acquire returns one of the server's sessions for the client f. The error may be sent to the
	// client unchanged; see mcp.Wire.
	Acquire(ctx context.Context, f *mcp.ClientInfo, need mcp.Need) (Lease, error)
	// Tasks returns the form in which the server supports tasks for the client f. It does not open
	// a session if the server does not support tasks in any form.
	Tasks(ctx context.Context, f *mcp.ClientInfo) mcp.TaskForm
}

// Lease is a session with a server that is held for one call. Only one goroutine at a time may use
// it.
type Lease interface {
	// Revision returns the revision of the session. The method Tasks returns the form in which the
	// session supports tasks.
	Revision() mcp.Revision
	Tasks() mcp.TaskForm
	// Tool returns what the server's tool list says about a tool.
	Tool(ctx context.Context, name string) mcp.ToolFacts
	// Call sends an attempt and waits for its answer. The error may be sent to the client
	// unchanged. After mcp.ErrChanged, the caller must rebuild the attempt for the current session
	// of the lease.
	Call(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error)
	// Release gives the session back. Further calls of Release have no effect.
	Release()
}

// visit holds the lease of one Exchange. The lease is released while a user is asked, and between
// the polls of a task.
type visit struct {
	server Server
	client *mcp.ClientInfo
	need   mcp.Need
	lease  Lease
	to     mcp.Revision  // the revision of the last lease
	waited time.Duration // how long open has waited for leases
}

// open returns the lease of the visit. If the visit has no lease, open acquires one.
func (v *visit) open(ctx context.Context) (Lease, error) {
	if v.lease == nil {
		began := time.Now()
		l, err := v.server.Acquire(ctx, v.client, v.need)
		v.waited += time.Since(began)
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
	return l.Call(ctx, a, passing(a, k))
}

func (v *visit) release() {
	if v.lease != nil {
		v.lease.Release()
		v.lease = nil
	}
}

// Send acquires a session, sends one attempt and releases the session. After mcp.ErrChanged, it
// sends the same attempt again. So use it only for Dragoman's own requests, which do not depend on
// the session.
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
