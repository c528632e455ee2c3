package gateway

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// These constants bound the number of open subscriptions/listen requests. Such a request can occupy
// a connection without a time limit. maxListens is the bound for a single client.
// maxListensOfMachine is the bound for all clients of one address that have neither a principal nor
// a conversation. Such a client could avoid the bound of a single client by changing its name. So
// maxKeptListens of these places are kept, one for each of the names that the address used first.
const (
	maxListens          = 64
	maxListensOfMachine = 256
	maxKeptListens      = 64
	maxMachinesKept     = 256 // the number of addresses for which names are remembered
	knownAfter          = time.Minute
	knownFor            = 24 * time.Hour
)

// ListenQuota counts the open subscriptions/listen requests of all endpoints together. The zero
// value is ready to use. ListenQuota is safe for concurrent use.
type ListenQuota struct {
	mu       sync.Mutex
	taken    map[string]int      // the number of open requests by party; parties without requests have no entry
	machines map[string]*machine // the open requests of clients without principal and conversation, by address
}

// machine counts the listens of one address. A name that had a listen for knownAfter keeps its own
// place for knownFor, so a program that changes its name cannot lock out the clients that were there
// before.
type machine struct {
	shared transport.Quota   // the places that are not kept for a name
	kept   map[string]*place // by party; at most maxKeptListens
}

// place is the place that is kept for one name.
type place struct {
	taken bool
	since time.Time // when the place was taken, or if it is free, when it became free
}

// take takes the place of a party, or one of the shared places. It returns false if both are taken.
func (m *machine) take(who string, now time.Time) bool {
	own := m.kept[who]
	if own == nil {
		if len(m.kept) >= maxKeptListens {
			maps.DeleteFunc(m.kept, func(_ string, p *place) bool { return !p.taken && now.Sub(p.since) > knownFor })
		}
		if len(m.kept) < maxKeptListens {
			own = &place{}
			m.kept[who] = own
		}
	}
	if own != nil && !own.taken {
		own.taken, own.since = true, now
		return true
	}
	if !m.shared.Room(who, maxListensOfMachine-maxKeptListens) {
		return false
	}
	m.shared.Take(who)
	return true
}

// give returns a shared place of a party, or the party's own place if it has no shared place.
func (m *machine) give(who string, now time.Time) {
	if shared, _ := m.shared.Taken(who); shared > 0 {
		m.shared.Give(who)
		return
	}
	own := m.kept[who]
	if own == nil {
		return
	}
	if now.Sub(own.since) < knownAfter {
		delete(m.kept, who)
		return
	}
	own.taken, own.since = false, now
}

// idle reports whether no listen of the address is open.
func (m *machine) idle() bool {
	for _, p := range m.kept {
		if p.taken {
			return false
		}
	}
	return m.shared.All() == 0
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
	who, address := f.Party(), machineOf(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == nil {
		s.taken, s.machines = make(map[string]int), make(map[string]*machine)
	}
	if s.taken[who] >= maxListens {
		return false
	}
	if address != "" {
		m := s.machines[address]
		if m == nil {
			m = &machine{kept: make(map[string]*place)}
			s.machines[address] = m
		}
		if !m.take(who, time.Now()) {
			return false
		}
	}
	s.taken[who]++
	return true
}

func (s *ListenQuota) giveBack(f *mcp.ClientInfo) {
	who, address := f.Party(), machineOf(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[who]--; s.taken[who] <= 0 {
		delete(s.taken, who)
	}
	if m := s.machines[address]; m != nil {
		m.give(who, time.Now())
		if m.idle() && (len(m.kept) == 0 || len(s.machines) > maxMachinesKept) {
			delete(s.machines, address)
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
