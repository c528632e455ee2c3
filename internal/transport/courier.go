package transport

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
)

// Limits of a Courier: the length of its queue in messages and in bytes, and the number of messages
// that it sends at the same time.
const (
	courierMessages = 256
	courierBytes    = 1 << 20
	courierAtOnce   = 8
)

// AnswerTimeout is the timeout for sending a message if no caller waits for the result. It is used
// by transports that send each message as a separate request.
const AnswerTimeout = 10 * time.Second

// Courier sends messages in the background, such as cancellations and answers to server requests.
// It is for transports that send each message as a separate request. Its queue has at most 256
// messages and, if there is more than one message, at most 1 MiB. Up to 8 goroutines send the
// messages, each with a timeout of 10 s. So callers are not blocked if the server does not accept
// messages. NewCourier creates a Courier, and Close stops it. Courier is safe for concurrent use.
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

// NewCourier returns a Courier that sends each message with the function send. If a message cannot
// be sent, the Courier calls the function fault. fault may be nil and must not block.
func NewCourier(send func(ctx context.Context, b []byte) error, fault func(error)) *Courier {
	c := &Courier{send: send, fault: fault}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// Put copies a message into the queue and does not wait. If the queue is full, Put returns ErrFull.
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

// Close waits until the queued messages are sent, but not longer than chance. After that time,
// Close drops the remaining messages and cancels the running sends. Close returns when all
// goroutines of the Courier have ended.
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
