package gateway

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// The bounds of subscriptions/listen that are open at once, each of which holds a
// connection for as long as its client likes: those of one client, and those of all
// clients of one machine that do not say who they are. The second is a quota, as a
// client may call itself as it likes.
const (
	maxListens          = 64
	maxListensOfMachine = 256
)

// ListenQuota counts the subscriptions/listen that are open, of all endpoints together. The
// zero value is ready. It is safe for concurrent use.
type ListenQuota struct {
	mu       sync.Mutex
	taken    map[string]int              // by party; nobody with 0
	machines map[string]*transport.Quota // by address; none that is empty
}

// machineOf returns the address whose clients share a bound, "" for a client that is
// known.
func machineOf(f *mcp.ClientInfo) string {
	if f.Who.SeatKey() != "" || f.Conversation != 0 {
		return ""
	}
	return f.Remote
}

// take reports whether f may have one more.
func (s *ListenQuota) take(f *mcp.ClientInfo) bool {
	who, machine := f.Party(), machineOf(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == nil {
		s.taken, s.machines = make(map[string]int), make(map[string]*transport.Quota)
	}
	if s.taken[who] >= maxListens {
		return false
	}
	if machine != "" {
		q := s.machines[machine]
		if q == nil {
			q = &transport.Quota{}
			s.machines[machine] = q
		}
		if !q.Room(who, maxListensOfMachine) {
			return false
		}
		q.Take(who)
	}
	s.taken[who]++
	return true
}

func (s *ListenQuota) giveBack(f *mcp.ClientInfo) {
	who, machine := f.Party(), machineOf(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[who]--; s.taken[who] <= 0 {
		delete(s.taken, who)
	}
	if q := s.machines[machine]; q != nil {
		if q.Give(who); q.All() == 0 {
			delete(s.machines, machine)
		}
	}
}

// ByParty returns how many subscriptions/listen each client has open, by what tells clients
// apart: a principal, a conversation, or an address and a name.
func (s *ListenQuota) ByParty() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.taken)
}

// admit lets a listen begin; leave must be called at its end.
func (s *ListenQuota) admit(c *mcp.Call) (leave func(), err error) {
	if !s.take(c.Client) {
		return nil, &mcp.Error{
			Origin: mcp.FromGateway, Cause: "rate_limited", Outcome: mcp.NotSent, TooMany: true,
			Retryable: true, RetryAfter: 10 * time.Second, Op: "listen",
			Message: fmt.Sprintf("one client may have at most %d subscriptions open, and fewer when many clients of one machine have some: close one first", maxListens),
		}
	}
	return func() { s.giveBack(c.Client) }, nil
}
