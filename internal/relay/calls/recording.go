package calls

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// The limits of recording.
const (
	maxMessage  = 16 << 10  // the maximum number of recorded bytes of one message
	maxStory    = 1 << 20   // the maximum number of recorded bytes of one call
	maxAll      = 64 << 20  // the default maximum number of recorded bytes of all calls
	maxNotes    = 256       // the maximum number of recorded notifications of one call
	maxWindows  = 64        // the maximum number of open windows
	LongestTime = time.Hour // the maximum length of a window; the callers of RecordFor check it
)

// Header describes the request that carried a message. Head returns the head of the HTTP request.
// The head is zero if the message did not come over HTTP.
type Header interface{ Head() trails.Head }

// Window is a period in which the Ring records the calls that match Server and Client.
type Window struct {
	Server string // the name of the server; "" matches every server
	Client string // the name that the client gives itself; "" matches every client
	Until  time.Time
}

// Record turns the recording of all calls on or off. Record(true) affects only calls whose server
// is not yet known. Record(false) also drops the existing recordings, except those that match an
// open window.
func (r *Ring) Record(on bool) {
	r.lockAll()
	defer r.unlockAll()
	r.rules.Store(&rules{on, r.rules.Load().windows})
	for _, all := range []iter.Seq[*Record]{r.plain.records, r.telling.records, r.runningLocked} {
		for x := range all {
			r.dropUnwantedLocked(x)
		}
	}
}

// dropUnwantedLocked drops the recording of a call that should not be recorded.
func (r *Ring) dropUnwantedLocked(x *Record) {
	x.mu.Lock()
	yes, _ := r.rules.Load().want(&x.call)
	x.mu.Unlock()
	if !yes {
		r.forgetLocked(x)
	}
}

// RecordFor opens a window: until its end, the Ring records the calls that match the window.
// RecordFor reports false if too many windows are open.
func (r *Ring) RecordFor(w Window) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.rules.Load()
	windows := slices.DeleteFunc(slices.Clone(now.windows), func(x Window) bool {
		return !time.Now().Before(x.Until) || x.Server == w.Server && strings.EqualFold(x.Client, w.Client)
	})
	ok := len(windows) < maxWindows
	if ok {
		windows = append(windows, w)
	}
	r.rules.Store(&rules{now.all, windows})
	return ok
}

// Recording returns whether all calls are recorded, and the windows that are open.
func (r *Ring) Recording() (all bool, windows []Window) {
	now := r.rules.Load()
	return now.all, slices.DeleteFunc(slices.Clone(now.windows), func(x Window) bool { return !time.Now().Before(x.Until) })
}

// Held returns the total size of all recordings in bytes.
func (r *Ring) Held() int { return r.limits.Used() }

// rules say which calls a Ring records: all, or those that match a window. They are immutable.
type rules struct {
	all     bool
	windows []Window
}

// want reports whether a call should be recorded. unsure is true if this depends on the server of
// the call, and the server is not known yet.
func (r *rules) want(c *Call) (yes, unsure bool) {
	if r.all || len(r.windows) == 0 {
		return r.all, false
	}
	now := time.Now()
	for _, w := range r.windows {
		switch {
		case !now.Before(w.Until), w.Client != "" && !strings.EqualFold(w.Client, c.Client.Name):
		case w.Server == "" || w.Server == c.Server:
			return true, false
		case c.Server == "":
			yes, unsure = true, true
		}
	}
	return yes, unsure
}

// Routed implements mcp.Record. It starts the recording of the call if the rules want it.
func (x *Record) Routed(a *mcp.Attempt) {
	target, trace := short(a.Name), a.TraceID()
	r := x.ring
	x.mu.Lock()
	x.call.Server, x.call.Target, x.call.Trace = a.Server, target, trace
	wanted, unsure := r.rules.Load().want(&x.call)
	head, began := x.head, x.call.Start
	x.head, x.unsure = nil, unsure
	x.mu.Unlock()
	if !wanted {
		return
	}
	r.makeRoom()
	t := r.limits.NewTrail(began)
	var h trails.Head
	if head != nil {
		h = head.Head()
	}
	t.Received(trails.ClientWire, a.Msg.Raw, h)
	a.Trail = t
	x.mu.Lock()
	x.trail = t
	x.mu.Unlock()
}

// Received records a message from the client that concerns the call, if the call is recorded. head
// describes the request that carried the message. Received does nothing if x is nil.
func (x *Record) Received(raw []byte, head Header) {
	if x == nil {
		return
	}
	x.mu.Lock()
	t := x.trail
	x.mu.Unlock()
	if t != nil {
		t.Received(trails.ClientWire, raw, head.Head())
	}
}

// shelf is a list of ended calls with a recording, in the order in which they ended.
type shelf struct {
	list
	bytes int // the total size of the recordings when their calls ended
}

func (s *shelf) push(x *Record) {
	x.size = x.trail.Used()
	s.list.push(x)
	s.bytes += x.size
}

func (s *shelf) remove(x *Record) {
	s.list.remove(x)
	s.bytes -= x.size
}

// shelfLocked returns the list for the recording of a call: telling for a call that failed or lost
// something, since people look for these, and plain for all others.
func (r *Ring) shelfLocked(c *Call) *shelf {
	if c.Code != 0 || c.Cause != "" || len(c.Losses) > 0 {
		return &r.telling
	}
	return &r.plain
}

// makeRoom drops recordings until there is room for one more. The oldest plain ones go first, unless
// the telling ones use more than half of the memory: the newest plain ones must have room too.
func (r *Ring) makeRoom() {
	most := r.limits.All - r.limits.Call
	if r.limits.Used() <= most {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.limits.Used() > most {
		from := &r.plain
		if from.n == 0 || r.telling.bytes > most/2 {
			from = &r.telling
		}
		if from.n == 0 {
			return // the running calls use all the memory
		}
		r.forgetLocked(from.first)
	}
}

// keepLocked keeps the recording of an ended call, whose lock the caller holds too.
func (r *Ring) keepLocked(x *Record) {
	if x.trail == nil {
		return
	}
	if x.unsure {
		if yes, unsure := r.rules.Load().want(&x.call); !yes || unsure {
			x.trail.Close()
			x.trail = nil
			return
		}
	}
	x.on = r.shelfLocked(&x.call)
	x.on.push(x)
}

// forgetLocked drops the recording of a call.
func (r *Ring) forgetLocked(x *Record) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.trail.Close()
	x.trail = nil
	x.unlistLocked()
}

// unlistLocked removes x from the list of recordings that it is in, if any.
func (x *Record) unlistLocked() {
	if x.on != nil {
		x.on.remove(x)
		x.on = nil
	}
}

// continueLocked makes x continue the recording of old. It returns the trail for the messages of x. The
// caller holds the locks of both.
func (r *Ring) continueLocked(x, old *Record) *trails.Trail {
	t := old.trail
	if t == nil {
		return x.trail
	}
	t.Append(x.trail)
	x.trail, old.trail = t, nil
	old.unlistLocked()
	return t
}
