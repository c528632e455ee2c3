package downstream

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// ClientReport describes one client of an endpoint. A client either has a conversation or sends
// independent requests, such as modern requests over HTTP. Info and Capabilities come from the
// client.
type ClientReport struct {
	ID           string // unique in the process
	Revision     mcp.Revision
	Info         []byte // an Implementation object; nil if it is not known
	Capabilities []byte // an object; nil if they are not known
	Transport    string // "stdio", "http", "sse" or "inmem"
	Who          *identity.Principal
	Remote       string // network address; "" on a pipe
	Session      bool   // the client has a conversation; otherwise its requests are independent
	Since        time.Time
	Last         time.Time // time of the client's last message
	Requests     int64     // number of requests until now
	Running      int       // number of requests without an answer; 0 without a conversation
}

// These constants bound the stored data about clients without a conversation. The client that has
// sent nothing for the longest time is removed first.
const (
	maxVisitors   = 256
	visitorLife   = time.Hour
	maxKept       = 1 << 10 // the most bytes of Info; longer Capabilities are reduced to known members
	visitorPrefix = "v"
)

// activity records when a client sent its last message, and how many requests it has sent. Safe for
// concurrent use.
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

// visitors contains the clients without a conversation. The zero value is ready to use. Safe
// for concurrent use.
type visitors struct {
	mu  sync.Mutex
	all map[visitorKey]*visitor
}

// visitorKey identifies a client without a conversation.
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

// lastVisitor is the last number in this process that a client without a conversation got.
var lastVisitor atomic.Uint64

// note counts a request of a client without a conversation.
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

// makeRoomLocked removes the client that has been silent for the longest time, if there are
// maxVisitors clients. The caller holds v.mu.
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
			r.Info = b // an Info longer than maxKept was cut off, and is not valid JSON
		}
		out = append(out, r)
	}
	return out
}

// Clients describes the clients of the endpoint. Clients with a conversation come first. Within
// each group, clients are in the order of their first messages.
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

// noteModern records the client information from a modern request: in the Session, or in visitors if
// the request belongs to no conversation.
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
