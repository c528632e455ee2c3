package transport

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/work"
)

// These are the limits of a Courier.
const (
	courierMessages = 256
	courierBytes    = 1 << 20
	courierAtOnce   = 8
)

// AnswerTimeout is the timeout of a message if no caller waits for its result, on a transport where
// each message is a separate request.
const AnswerTimeout = 10 * time.Second

// Courier sends messages in the background, such as cancellations and answers to a server's
// requests. It is for transports where each message is a separate request, and it uses its own
// goroutines. It queues at most 256 messages or 1 MiB, and sends 8 messages at a time. Each message
// may take 10 s. So a server that does not accept messages does not block callers. NewCourier
// creates a Courier, and Close ends it. Courier is safe for concurrent use.
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
	busy    int // number of goroutines
}

// NewCourier returns a Courier that sends with send. The function fault is called for each message
// that could not be sent. The function fault may be nil and must not block.
func NewCourier(send func(ctx context.Context, b []byte) error, fault func(error)) *Courier {
	c := &Courier{send: send, fault: fault}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// Put queues a message. It does not wait and does not keep b. The error wraps ErrFull
// if the queue is full.
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

// Close waits until the queued messages are sent. The parameter chance limits this wait. After that
// time, Close drops the remaining messages and cancels the sends that are running. It returns when
// all goroutines of the Courier have ended.
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
