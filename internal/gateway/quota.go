package gateway

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Bounds on open subscriptions/listen, each of which holds a connection for as long as its
// client likes: for one client, and for all clients at one address that have not
// authenticated. The second is needed because a client may choose any name.
const (
	maxListens          = 64
	maxListensOfMachine = 256
)

// ListenQuota counts the open subscriptions/listen of all endpoints together. The zero
// value is ready to use. It is safe for concurrent use.
type ListenQuota struct {
	mu       sync.Mutex
	taken    map[string]int              // by party; no entry is 0
	machines map[string]*transport.Quota // by address; no entry is empty
}

// machineOf returns the address whose clients share a bound, or "" for a client that has
// authenticated.
func machineOf(f *mcp.ClientInfo) string {
	if f.Who.SeatKey() != "" || f.Conversation != 0 {
		return ""
	}
	return f.Remote
}

// take reports whether f may open another listen, and counts it if so.
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

// ByParty returns how many subscriptions/listen each client has open. The key is a
// principal, a conversation, or an address and a name.
func (s *ListenQuota) ByParty() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.taken)
}

// admit counts a listen of f; leave must be called when it ends.
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
