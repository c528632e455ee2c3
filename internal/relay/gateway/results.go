package gateway

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// These constants bound the results that are kept whole.
const (
	keptFor        = 10 * time.Minute
	maxKept        = 64 << 20 // bytes of all of them
	maxKeptOfParty = 16 << 20 // bytes of those of one person
)

// Results keeps results of tools that clients have got shortened, for the client alone that has called the tool. The
// zero value is ready to use, and safe for concurrent use. What has expired is dropped when the next result comes.
type Results struct {
	mu    sync.Mutex
	all   map[string]*keptResult // by URI
	of    map[string]*share      // by the subject of the client
	total int                    // bytes
}

// share is what is kept of one person.
type share struct {
	list  []*keptResult // oldest first
	bytes int
}

// keptResult is a result that is kept whole, as the result of resources/read.
type keptResult struct {
	owner        owner
	server, tool string // tool is "" for the result of a task, whose tool isn't known
	body         []byte
	until        time.Time
	uri          string
}

// owner is who may read a result.
type owner struct{ project, subject, seat string }

func ownedBy(project string, f *mcp.ClientInfo) owner {
	return owner{project, f.Who.Key(), f.Who.SeatKey()}
}

// newURI returns an address that nobody can guess.
func newURI() string { return "dragoman://results/" + rand.Text() }

// keep keeps a result, or returns false if it's too long. If there is no room, the oldest results of whoever has most
// of it go, so nobody can push out those of others.
func (x *Results) keep(r *keptResult) bool {
	if len(r.body) > maxKeptOfParty {
		return false
	}
	now := time.Now()
	r.until = now.Add(keptFor)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil {
		x.all, x.of = make(map[string]*keptResult), make(map[string]*share)
	}
	for who, s := range x.of {
		for len(s.list) > 0 && now.After(s.list[0].until) {
			x.dropLocked(who, s)
		}
	}
	for s := x.of[r.owner.subject]; s != nil && len(s.list) > 0 && s.bytes+len(r.body) > maxKeptOfParty; {
		x.dropLocked(r.owner.subject, s)
	}
	for x.total+len(r.body) > maxKept {
		var greediest string
		for who, s := range x.of {
			if most := x.of[greediest]; most == nil || s.bytes > most.bytes {
				greediest = who
			}
		}
		x.dropLocked(greediest, x.of[greediest])
	}
	s := x.of[r.owner.subject]
	if s == nil {
		s = &share{}
		x.of[r.owner.subject] = s
	}
	x.all[r.uri] = r
	s.list = append(s.list, r)
	s.bytes += len(r.body)
	x.total += len(r.body)
	return true
}

// dropLocked drops the oldest result of somebody.
func (x *Results) dropLocked(who string, s *share) {
	r := s.list[0]
	delete(x.all, r.uri)
	s.list = s.list[1:]
	s.bytes -= len(r.body)
	x.total -= len(r.body)
	if len(s.list) == 0 {
		delete(x.of, who)
	}
}

// find returns the result at a URI, if who asks may read it. Otherwise it returns nil, as for any other URI.
func (x *Results) find(uri string, who owner) *keptResult {
	x.mu.Lock()
	defer x.mu.Unlock()
	if r := x.all[uri]; r != nil && r.owner == who && time.Now().Before(r.until) {
		return r
	}
	return nil
}
