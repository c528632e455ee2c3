package tools

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Gate bounds how many calls run at the same time, and how many calls wait until they may run.
// NewGate makes a Gate.
type Gate struct {
	running    chan struct{} // holds a value for each call that runs
	waiting    atomic.Int64  // calls in Enter that found no free place
	maxWaiting int
}

// NewGate returns a Gate. running is the largest number of calls that run at the same time, and
// waiting the largest number of calls that wait.
func NewGate(running, waiting int) *Gate {
	return &Gate{running: make(chan struct{}, running), maxWaiting: waiting}
}

// FullError is the error of a call that may not wait, because too many other calls wait.
type FullError struct {
	Limit int // the largest number of calls that wait
}

func (e *FullError) Error() string {
	return fmt.Sprintf("too many calls are waiting: the limit is %d", e.Limit)
}

// Enter waits until a call may run. It returns a function, which must be called exactly once, when
// the call ends. The error is a *FullError if too many calls wait, or the error of a context that ends
// first.
func (g *Gate) Enter(ctx context.Context) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	leave = func() { <-g.running }
	select {
	case g.running <- struct{}{}: // a call that need not wait is not counted
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
