package gateway

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// party returns the key by which a client's share is counted: the principal; without
// authentication the conversation; and for a modern client over HTTP, which has no
// conversation, its address and the name that it gives.
func party(f *mcp.ClientInfo) string {
	switch {
	case f.Who.SeatKey() != "":
		return "principal " + f.Who.SeatKey()
	case f.Conversation != 0:
		return fmt.Sprintf("conversation %d", f.Conversation)
	}
	who := "remote " + f.Remote
	if name, _ := jsonrpc.Text(f.Info, jsonrpc.Find(f.Info, jsonrpc.Whole(f.Info), "name")); name != "" {
		who += " " + excerpt.Line(name, maxRepeated)
	}
	return who
}

// The bounds of subscriptions/listen that are open at once, each of which holds a
// connection for as long as its client likes: those of one client, and those of all
// clients of one machine that do not say who they are. The second is a quota, as a
// client may call itself as it likes.
const (
	maxListens          = 64
	maxListensOfMachine = 256
)

// listenQuota counts the listens. The zero value is ready.
type listenQuota struct {
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
func (s *listenQuota) take(f *mcp.ClientInfo) bool {
	who, machine := party(f), machineOf(f)
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

func (s *listenQuota) giveBack(f *mcp.ClientInfo) {
	who, machine := party(f), machineOf(f)
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

func (s *listenQuota) byParty() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.taken)
}

// admitListen lets a listen begin; leave must be called at its end. The listens of
// all endpoints count together.
func (r *Relay) admitListen(c *mcp.Call) (leave func(), err error) {
	if !r.listens.take(c.Client) {
		return nil, &mcp.Error{
			Origin: mcp.FromGateway, Cause: "rate_limited", Outcome: mcp.NotSent, TooMany: true,
			Retryable: true, RetryAfter: 10 * time.Second, Op: "listen",
			Message: fmt.Sprintf("one client may have at most %d subscriptions open, and fewer when many clients of one machine have some: close one first", maxListens),
		}
	}
	return func() { r.listens.giveBack(c.Client) }, nil
}
