package gateway

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// These constants bound the number of open subscriptions/listen requests. Such a request can occupy
// a connection without a time limit. maxListens is the bound for a single client.
// maxListensOfMachine is the bound for all clients of one address that have neither a principal nor
// a conversation. Such a client could avoid the bound of a single client by changing its name.
const (
	maxListens          = 64
	maxListensOfMachine = 256
)

// ListenQuota counts the open subscriptions/listen requests of all endpoints together. The zero
// value is ready to use. ListenQuota is safe for concurrent use.
type ListenQuota struct {
	mu       sync.Mutex
	taken    map[string]int              // the number of open requests by party; parties without requests have no entry
	machines map[string]*transport.Quota // the number of open requests by address and party; addresses without requests have no entry
}

// machineOf returns the address whose unauthenticated clients share a bound. It returns "" for a
// client that is authenticated or has a conversation.
func machineOf(f *mcp.ClientInfo) string {
	if f.Who.SeatKey() != "" || f.Conversation != 0 {
		return ""
	}
	return f.Remote
}

// take reports whether f may open another listen. If so, it counts the listen.
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

// ByParty returns how many subscriptions/listen requests each party has open. The key is a
// principal, a conversation, or an address and a name.
func (s *ListenQuota) ByParty() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.taken)
}

// admit counts a client's listen. The caller must call leave when the listen ends.
func (s *ListenQuota) admit(c *mcp.Call) (leave func(), err error) {
	if !s.take(c.Client) {
		return nil, &mcp.Error{
			Origin: mcp.FromGateway, Cause: "rate_limited", Outcome: mcp.NotSent, TooMany: true,
			Retryable: true, RetryAfter: 10 * time.Second, Op: "listen",
			Message: fmt.Sprintf("too many open subscriptions: one client can have at most %d, or fewer if other clients on the same machine have subscriptions; close a subscription first", maxListens),
		}
	}
	return func() { s.giveBack(c.Client) }, nil
}
