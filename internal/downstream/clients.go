package downstream

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/identity"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// ClientReport describes one client of an endpoint: a conversation, or a client whose
// requests belong to no conversation, as over HTTP in the modern era. The texts are the
// client's own.
type ClientReport struct {
	ID           string // unique in the process
	Revision     mcp.Revision
	Info         []byte // an Implementation object; nil if it is not known
	Capabilities []byte // an object; nil if they are not known
	Transport    string // "stdio", "http", "sse" or "inmem"
	Who          *identity.Principal
	Remote       string // network address; "" on a pipe
	Session      bool   // a conversation that lasts, not single requests
	Since        time.Time
	Last         time.Time // the client's last message
	Requests     int64     // so far
	Running      int       // requests without an answer, in a conversation
}

// Bounds of what is kept of clients without a conversation. The one that has sent nothing for
// longest is forgotten first.
const (
	maxVisitors   = 256
	visitorLife   = time.Hour
	maxKept       = 1 << 10 // bytes of an Info, and of capabilities
	visitorPrefix = "v"
)

// activity is when a client has sent something. Safe for concurrent use.
type activity struct {
	since    time.Time
	last     atomic.Int64 // Unix time in nanoseconds
	requests atomic.Int64
}

func (a *activity) begin() {
	a.since = time.Now()
	a.last.Store(a.since.UnixNano())
}

func (a *activity) note(request bool) {
	a.last.Store(time.Now().UnixNano())
	if request {
		a.requests.Add(1)
	}
}

// visitors are the clients without a conversation. The zero value is ready to use. Safe for
// concurrent use.
type visitors struct {
	mu  sync.Mutex
	all map[visitorKey]*visitor
}

// visitorKey tells visitors apart.
type visitorKey struct {
	who, remote, info string
	revision          mcp.Revision
}

type visitor struct {
	id           string
	who          *identity.Principal
	capabilities []byte
	since, last  time.Time
	requests     int64
}

// lastVisitor numbers the visitors of the process.
var lastVisitor atomic.Uint64

// note counts a request of a visitor.
func (v *visitors) note(f *mcp.ClientInfo) {
	info, caps := f.Info[:min(len(f.Info), maxKept)], f.Capabilities
	if len(caps) > maxKept {
		caps = mcp.CanonicalCapabilities(caps)
	}
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	x := v.all[visitorKey{f.Who.SeatKey(), f.Remote, string(info), f.Revision}]
	if x == nil {
		v.makeRoomLocked(now)
		x = &visitor{id: visitorPrefix + strconv.FormatUint(lastVisitor.Add(1), 10), who: f.Who, since: now}
		if v.all == nil {
			v.all = make(map[visitorKey]*visitor)
		}
		v.all[visitorKey{f.Who.SeatKey(), f.Remote, string(info), f.Revision}] = x
	}
	x.last = now
	x.requests++
	if !bytes.Equal(x.capabilities, caps) {
		x.capabilities = bytes.Clone(caps)
	}
}

// makeRoomLocked forgets a visitor if there are too many.
func (v *visitors) makeRoomLocked(now time.Time) {
	if len(v.all) < maxVisitors {
		return
	}
	var oldest visitorKey
	at := now
	for key, x := range v.all {
		if x.last.Before(at) {
			oldest, at = key, x.last
		}
	}
	delete(v.all, oldest)
}

func (v *visitors) report() (out []ClientReport) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for key, x := range v.all {
		if time.Since(x.last) > visitorLife {
			delete(v.all, key)
			continue
		}
		r := ClientReport{
			ID: x.id, Revision: key.revision, Capabilities: x.capabilities, Transport: "http", Who: x.who, Remote: key.remote,
			Since: x.since, Last: x.last, Requests: x.requests,
		}
		if b := []byte(key.info); jsonrpc.Valid(b, jsonrpc.Limits{Bytes: maxKept}) == nil {
			r.Info = b // a longer one is cut off, so it is not valid
		}
		out = append(out, r)
	}
	return out
}

// Clients returns the clients of the endpoint, those with a conversation first, then by the
// time since which they are there.
func (r *Endpoint) Clients() []ClientReport {
	r.mu.Lock()
	all := make([]*Session, 0, len(r.sessions))
	for c := range r.sessions {
		all = append(all, c)
	}
	r.mu.Unlock()
	out := r.visitors.report()
	for _, c := range all {
		out = append(out, c.report())
	}
	slices.SortFunc(out, func(a, b ClientReport) int {
		if a.Session != b.Session {
			if a.Session {
				return -1
			}
			return 1
		}
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// report describes the client of a conversation.
func (c *Session) report() ClientReport {
	out := ClientReport{
		ID: strconv.FormatUint(c.number, 10), Transport: c.transport, Who: c.who, Remote: c.remote, Session: true,
		Since: c.active.since, Last: time.Unix(0, c.active.last.Load()), Requests: c.active.requests.Load(),
	}
	f := c.info.Load()
	if f == nil {
		f = c.modernInfo.Load()
	}
	if f != nil {
		out.Revision, out.Info, out.Capabilities = f.Revision, f.Info, f.Capabilities
	}
	c.mu.Lock()
	out.Running = len(c.inflight)
	c.mu.Unlock()
	return out
}

// noteModern keeps what the modern requests of a conversation say about their client.
func (c *Session) noteModern(f *mcp.ClientInfo) {
	if c.out == nil {
		c.endpoint.visitors.note(f)
		return
	}
	if have := c.modernInfo.Load(); have == nil || have.Revision != f.Revision || !bytes.Equal(have.Info, f.Info) || !bytes.Equal(have.Capabilities, f.Capabilities) {
		if have == nil || len(f.Info) <= mcp.MaxOwnInfo && len(f.Capabilities) <= mcp.MaxOwnCapabilities {
			c.modernInfo.Store(f.Own())
		}
	}
}
