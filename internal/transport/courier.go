package transport

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/work"
)

// The bounds of a Courier.
const (
	courierMessages = 256
	courierBytes    = 1 << 20
	courierAtOnce   = 8
)

// AnswerTimeout bounds the delivery of a message that no caller waits for, on a link
// where each message is a request of its own.
const AnswerTimeout = 10 * time.Second

// Courier delivers messages that no caller waits for, such as answers to a server's
// questions and cancellations. It is for links on which each message is a request of
// its own, and uses its own goroutines. At most 256 messages or 1 MiB wait, 8 are on
// their way at once and each has 10 s, so a server that accepts none does not block
// callers. Make one with NewCourier, end it with Close. Safe for concurrent use.
type Courier struct {
	send  func(context.Context, []byte) error
	fault func(error)

	life    context.Context
	end     context.CancelFunc
	running work.Group

	mu      sync.Mutex
	closed  bool
	waiting [][]byte
	size    int
	busy    int // goroutines
}

// NewCourier returns a Courier that delivers by send. fault, unless nil, is told of
// each message that could not be delivered; it must not block.
func NewCourier(send func(ctx context.Context, b []byte) error, fault func(error)) *Courier {
	c := &Courier{send: send, fault: fault}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// Put takes over a message. It does not wait and does not keep b. The error wraps
// ErrFull when too much waits already.
func (c *Courier) Put(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errors.Join(ErrNotSent, errCourierClosed)
	case len(c.waiting) >= courierMessages, c.size > 0 && c.size+len(b) > courierBytes:
		return ErrFull
	}
	c.waiting = append(c.waiting, append([]byte(nil), b...))
	c.size += len(b)
	if c.busy < courierAtOnce {
		c.busy++
		c.running.Go(c.run)
	}
	return nil
}

var errCourierClosed = errors.New("the link was closed")

func (c *Courier) run() {
	for {
		c.mu.Lock()
		if len(c.waiting) == 0 {
			c.busy--
			c.mu.Unlock()
			return
		}
		b := c.waiting[0]
		c.waiting[0] = nil
		c.waiting = c.waiting[1:]
		c.size -= len(b)
		c.mu.Unlock()
		ctx, stop := context.WithTimeout(c.life, AnswerTimeout)
		err := c.send(ctx, b)
		stop()
		if err != nil && c.fault != nil {
			c.fault(err)
		}
	}
}

// Close waits for the given time for the queued messages to leave, then drops the rest
// and cancels those on their way. It returns when all goroutines of the Courier have
// ended.
func (c *Courier) Close(chance time.Duration) {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	late := time.AfterFunc(chance, func() {
		c.mu.Lock()
		c.waiting = nil
		c.mu.Unlock()
		c.end()
	})
	c.running.Wait()
	late.Stop()
	c.end()
}
