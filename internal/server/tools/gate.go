package tools

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Gate limits how many calls run at the same time, and how many calls wait until they may run.
// NewGate makes a Gate.
type Gate struct {
	running    chan struct{} // contains a value for each call that runs
	waiting    atomic.Int64  // the number of calls that wait in Enter
	maxWaiting int
}

// NewGate returns a Gate. running is the maximum number of calls that run at the same time, and
// waiting is the maximum number of calls that wait.
func NewGate(running, waiting int) *Gate {
	return &Gate{running: make(chan struct{}, running), maxWaiting: waiting}
}

// FullError is the error for a call that would have to wait while too many other calls wait
// already.
type FullError struct {
	Limit int // the maximum number of calls that wait
}

func (e *FullError) Error() string {
	return fmt.Sprintf("too many calls are waiting: the limit is %d", e.Limit)
}

// Enter waits until a call may run. The caller must call leave exactly once, when the call ends.
// Enter returns a *FullError if too many calls wait already. If ctx ends first, Enter returns the
// error of ctx.
func (g *Gate) Enter(ctx context.Context) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	leave = func() { <-g.running }
	select {
	case g.running <- struct{}{}: // the call need not wait, so it does not count as waiting
		return leave, nil
	default:
	}
	if g.waiting.Add(1) > int64(g.maxWaiting) {
		g.waiting.Add(-1)
		return nil, &FullError{Limit: g.maxWaiting}
	}
	defer g.waiting.Add(-1)
	select {
	case g.running <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
