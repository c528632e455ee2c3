package httplink

import (
	"context"
	"net"
	"sync"
	"time"
)

// pool holds the idle connections to one address, the one that was used last at the end. It starts
// no goroutine.
type pool struct {
	address string
	dial    func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	idle  []*wire
	shut  bool        // nothing becomes idle until the next take
	sweep *time.Timer // closes connections that have been idle for too long
	due   time.Time   // when sweep runs; zero if it is not set
}

// take returns an idle connection that the server has not closed, or a new one.
func (p *pool) take(ctx context.Context) (*wire, error) {
	for {
		p.mu.Lock()
		p.shut = false
		n := len(p.idle) - 1
		if n < 0 {
			p.mu.Unlock()
			break
		}
		w := p.idle[n]
		p.idle[n] = nil
		p.idle = p.idle[:n]
		p.mu.Unlock()
		if time.Now().Before(w.until) && w.quiet() {
			w.reused = true
			return w, nil
		}
		w.Close()
	}
	c, err := p.dial(ctx, "tcp", p.address)
	if err == nil {
		var w *wire
		if w, err = newWire(c); err == nil {
			return w, nil
		}
		c.Close()
	}
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		<-ctx.Done() // the dialer looks at the clock, and may be a moment earlier than ctx
	}
	return nil, err
}

// put makes a connection idle. It reports false if there is no room for it.
func (p *pool) put(w *wire, keep time.Duration) bool {
	w.until = time.Now().Add(min(keep, idleTime))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut || len(p.idle) >= maxIdle {
		return false
	}
	p.idle = append(p.idle, w)
	if p.due.IsZero() || w.until.Before(p.due) {
		p.setLocked(w.until)
	}
	return true
}

func (p *pool) setLocked(due time.Time) {
	p.due = due
	if p.sweep == nil {
		p.sweep = time.AfterFunc(time.Until(due), p.expire)
	} else {
		p.sweep.Reset(time.Until(due))
	}
}

// expire closes the connections that have been idle for too long.
func (p *pool) expire() {
	now := time.Now()
	var old []*wire
	p.mu.Lock()
	kept := p.idle[:0]
	p.due = time.Time{}
	for _, w := range p.idle {
		if !w.until.After(now) {
			old = append(old, w)
			continue
		}
		kept = append(kept, w)
		if p.due.IsZero() || w.until.Before(p.due) {
			p.due = w.until
		}
	}
	clear(p.idle[len(kept):])
	p.idle = kept
	if !p.due.IsZero() {
		p.setLocked(p.due)
	}
	p.mu.Unlock()
	for _, w := range old {
		w.Close()
	}
}

// clear closes all idle connections, and those of the exchanges that are going on when these end.
func (p *pool) clear() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.due, p.shut = nil, time.Time{}, true
	if p.sweep != nil {
		p.sweep.Stop()
	}
	p.mu.Unlock()
	for _, w := range idle {
		w.Close()
	}
}
