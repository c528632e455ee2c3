package console

import (
	"cmp"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// Calls that end at the same time would wait for each other if all of them changed the counters of
// traffic. So each ends in a tally, which its number chooses, and whoever reads the counters, or needs
// them exact, first adds the tallies to them: traffic.addTalliesLocked. A call whose client or server the
// tally doesn't know yet takes the long way through traffic.callLocked, which decides in which order
// clients and servers appear, and who is removed at a limit.
const (
	tallies    = 16
	mostPairs  = 16                    // the maximum number of pairs in one tally
	mostPlaces = mostPending / tallies // the number of calls that one tally remembers
)

// tally counts the calls that ended in one slot of 5 s. Its lock is taken after that of traffic, if both
// are needed.
type tally struct {
	mu     sync.Mutex
	slot   int64
	pairs  map[pairKey]*pair
	lanes  [2][2]tallied
	minute minute
	calls  uint64
	places [mostPlaces]callPlace // the last calls: a loss in the answer to a client is published after its call
	last   int                   // the index in places of the last call
	lost   map[uint64]bool       // the calls in traffic.pending
	_      [64]byte              // the next tally has another cache line
}

// pairKey identifies a client and a server as the event of a call describes them.
type pairKey struct {
	info, capabilities string
	revision           mcp.Revision
	stdio              bool
	server             string
}

// pair counts the calls of a client to a server since the tally was last added up.
type pair struct {
	client       *clientCount
	server       *serverCount // nil if the call is for no server, or for one that is not counted
	key          clientKey
	demo         bool // failures of the client are on purpose
	capabilities []byte
	name         string // the name of the server
	calls        uint64
	failed       uint64
	last         time.Time
	tallied      // without subscriptions; see endedListening
}

type tallied struct{ calls, failed, through uint32 }

func (c *tallied) add(failed, through bool) {
	c.calls++
	if failed {
		c.failed++
	}
	if through {
		c.through++
	}
}

// endedCall is the event of a call that has ended, with what the counters need to know about it.
type endedCall struct {
	*event.Event
	slot     int64 // the 5 seconds in which the call ended
	failed   bool  // the client got a JSON-RPC error, and not on purpose; see Options.DemoClients
	through  bool  // the call went through to a server
	listened bool  // see endedListening
	step     int   // see latencyStep
}

func endedCallOf(e *event.Event) endedCall {
	return endedCall{
		e, e.Time.Unix() / 5, failedCall(e), e.Server != "" && e.To != mcp.Unknown && e.Outcome != event.Refused, endedListening(e), latencyStep(e.Took),
	}
}

// item returns the tool, prompt or resource of the call; see callPlace.
func (x *endedCall) item() string { return excerpt.Cut(cmp.Or(x.Name, x.Method), 128) }

// failures returns 1 if the call failed.
func (x *endedCall) failures() uint64 {
	if x.failed {
		return 1
	}
	return 0
}

func (x *endedCall) tallied() (n tallied) {
	n.add(x.failed, x.through)
	return n
}

// remember keeps whose call it was. The caller holds the lock.
func (a *tally) remember(place callPlace) {
	a.last = (a.last + 1) % mostPlaces
	a.places[a.last] = place
}

// note counts a call. It reports false if traffic has to count the call.
func (a *tally) note(x *endedCall) bool {
	c := x.Client
	if !describes(c) {
		return false
	}
	item := x.item()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slot != x.slot || a.lost[x.Call] {
		return false
	}
	p := a.pairs[pairKey{string(c.Info), string(c.Capabilities), x.From, c.Remote == "", x.Server}]
	if p == nil {
		return false
	}
	x.failed = x.failed && !p.demo
	a.calls++
	p.calls++
	if x.failed {
		p.failed++
	}
	if x.Time.After(p.last) {
		p.last = x.Time
	}
	if !x.listened {
		p.add(x.failed, x.through)
		if x.through {
			a.lanes[side(x.From)][side(x.To)].add(x.failed, true)
		}
		a.minute.add(x)
	}
	a.remember(callPlace{x.Call, p.key, p.name, item})
	return true
}

// describes reports whether a tally may keep what a client says about itself.
func describes(c *mcp.ClientInfo) bool {
	return c != nil && len(c.Info) <= mostInfo && len(c.Capabilities) <= mostInfo
}

// joinLocked tells the tally of a call that was counted the long way, so that the next one like it is
// counted here.
func (t *traffic) joinLocked(x *endedCall, place callPlace) {
	a := t.tallyOf(x.Call)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.lost, x.Call)
	a.remember(place)
	if x.slot > a.slot {
		t.addTallyLocked(a)
		a.slot, a.minute.at = x.slot, x.slot/(60/5)
	}
	if !describes(x.Client) {
		return
	}
	key := pairKey{string(x.Client.Info), string(x.Client.Capabilities), x.From, x.Client.Remote == "", x.Server}
	if a.pairs[key] != nil {
		return
	}
	if len(a.pairs) >= mostPairs {
		t.addTallyLocked(a)
		clear(a.pairs)
	}
	if a.pairs == nil {
		a.pairs = make(map[pairKey]*pair)
	}
	a.pairs[key] = &pair{
		client: t.clients[place.client], server: t.servers[x.Server], key: place.client, demo: t.demo[place.client.name],
		capabilities: []byte(key.capabilities), name: x.Server,
	}
}

// addTalliesLocked adds all tallies to the counters. If clients are about to be removed, the tallies must
// forget them.
func (t *traffic) addTalliesLocked(forget bool) {
	for i := range t.tallies {
		a := &t.tallies[i]
		a.mu.Lock()
		t.addTallyLocked(a)
		if forget {
			clear(a.pairs)
		}
		a.mu.Unlock()
	}
}

// addTallyLocked adds a tally, whose lock the caller holds too, to the counters, and empties it.
func (t *traffic) addTallyLocked(a *tally) {
	if a.calls == 0 {
		return
	}
	for _, p := range a.pairs {
		if p.calls == 0 {
			continue
		}
		c := p.client
		c.count(p.calls, p.failed, p.last)
		c.add(a.slot, p.tallied)
		c.describe(p.capabilities, p.last)
		if c.servers[p.name] > 0 {
			c.servers[p.name] += p.calls
		}
		if p.server != nil {
			p.server.count(p.calls, p.failed, p.last)
			p.server.add(a.slot, p.tallied)
		}
		p.calls, p.failed, p.tallied = 0, 0, tallied{}
	}
	for from := range a.lanes {
		for to := range a.lanes[from] {
			t.lanes[from][to].add(a.slot, a.lanes[from][to])
		}
	}
	t.minuteLocked(a.minute.at).merge(&a.minute)
	t.calls += a.calls
	a.calls, a.lanes, a.minute = 0, [2][2]tallied{}, minute{at: a.minute.at}
}

// placeOf returns the place of a call that has ended. If the call may still run, its end will take the
// long way.
func (t *traffic) placeOf(call uint64) (p callPlace, ended bool) {
	a := t.tallyOf(call)
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.places {
		if a.places[i].call == call {
			return a.places[i], true
		}
	}
	if a.lost == nil {
		a.lost = make(map[uint64]bool)
	}
	a.lost[call] = true
	return callPlace{}, false
}

// abandon lets the end of a call take the short way.
func (t *traffic) abandon(call uint64) {
	a := t.tallyOf(call)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.lost, call)
}

func (t *traffic) tallyOf(call uint64) *tally { return &t.tallies[call%tallies] }
