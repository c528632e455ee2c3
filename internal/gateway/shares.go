package gateway

import (
	"fmt"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// maxListens bounds the subscriptions/listen that one principal has open at once.
// Each holds a connection for as long as its client likes.
const maxListens = 64

// shares counts what each principal has of something. The zero value is ready.
type shares struct {
	mu    sync.Mutex
	taken map[string]int // by whom; nobody with 0
}

// whoIs returns who has a share. Where nobody has to say who they are it is the
// machine that they are on, and on a pipe the one who is at its other end.
func whoIs(f *mcp.ClientFacts) string {
	switch {
	case f.Principal != "":
		return "principal " + f.Principal
	case f.Remote != "":
		return "remote " + f.Remote
	}
	return fmt.Sprintf("conversation %d", f.Conversation)
}

// take reports whether f may have one more of most.
func (s *shares) take(f *mcp.ClientFacts, most int) bool {
	who := whoIs(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[who] >= most {
		return false
	}
	if s.taken == nil {
		s.taken = make(map[string]int)
	}
	s.taken[who]++
	return true
}

func (s *shares) giveBack(f *mcp.ClientFacts) {
	who := whoIs(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[who]--; s.taken[who] <= 0 {
		delete(s.taken, who)
	}
}

// admitListen lets a listen begin; leave must be called at its end. The listens of
// all endpoints count together.
func (r *Relay) admitListen(c *mcp.Call) (leave func(), err error) {
	if !r.listens.take(c.Client, maxListens) {
		return nil, &mcp.Error{
			Origin: mcp.FromGateway, Cause: "rate_limited", Outcome: mcp.NotSent, TooMany: true,
			Retryable: true, RetryAfter: 10 * time.Second, Op: "listen",
			Message: fmt.Sprintf("at most %d subscriptions of one client can be open at once", maxListens),
		}
	}
	return func() { r.listens.giveBack(c.Client) }, nil
}
