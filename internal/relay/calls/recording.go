package calls

import (
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
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record = on
	for _, x := range slices.Concat(r.plain.all, r.telling.all) {
		if yes, _ := r.wantsLocked(&x.call); !yes {
			r.forgetLocked(x)
		}
	}
	for x := r.running.first; x != nil; x = x.next {
		if yes, _ := r.wantsLocked(&x.call); x.trail != nil && !yes {
			x.trail.Close()
			x.trail = nil
		}
	}
}

// RecordFor opens a window: until its end, the Ring records the calls that match the window.
// RecordFor reports false if too many windows are open.
func (r *Ring) RecordFor(w Window) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.windows = slices.DeleteFunc(r.windows, func(x Window) bool {
		return !time.Now().Before(x.Until) || x.Server == w.Server && strings.EqualFold(x.Client, w.Client)
	})
	if len(r.windows) >= maxWindows {
		return false
	}
	r.windows = append(r.windows, w)
	return true
}

// Recording returns whether all calls are recorded, and the windows that are open.
func (r *Ring) Recording() (all bool, windows []Window) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.windows = slices.DeleteFunc(r.windows, func(x Window) bool { return !time.Now().Before(x.Until) })
	return r.record, slices.Clone(r.windows)
}

// Held returns the total size of all recordings in bytes.
func (r *Ring) Held() int { return r.limits.Used() }

// wantsLocked reports whether a call should be recorded. unsure is true if this depends on the
// server of the call, and the server is not known yet.
func (r *Ring) wantsLocked(c *Call) (yes, unsure bool) {
	if r.record || len(r.windows) == 0 {
		return r.record, false
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

// Routed implements mcp.Record. It starts the recording of the call if wantsLocked returns true.
func (x *Record) Routed(a *mcp.Attempt) {
	target := short(a.Name)
	r := x.ring
	r.mu.Lock()
	x.call.Server, x.call.Target = a.Server, target
	wanted, unsure := r.wantsLocked(&x.call)
	head, began := x.head, x.call.Start
	x.head, x.unsure = nil, unsure
	if wanted {
		r.makeRoomLocked()
	}
	r.mu.Unlock()
	if !wanted {
		return
	}
	t := r.limits.NewTrail(began)
	var h trails.Head
	if head != nil {
		h = head.Head()
	}
	t.Received(trails.ClientWire, a.Msg.Raw, h)
	a.Trail = t
	r.mu.Lock()
	x.trail = t
	r.mu.Unlock()
}

// Received records a message from the client that concerns the call, if the call is recorded. head
// describes the request that carried the message. Received does nothing if x is nil.
func (x *Record) Received(raw []byte, head Header) {
	if x == nil {
		return
	}
	x.ring.mu.Lock()
	t := x.trail
	x.ring.mu.Unlock()
	if t != nil {
		t.Received(trails.ClientWire, raw, head.Head())
	}
}

// shelf is a list of ended calls with a recording, in the order in which they ended.
type shelf struct {
	all   []*Record
	bytes int // the total size of the recordings when their calls ended
}

func (s *shelf) push(x *Record) {
	x.size = x.trail.Used()
	s.all = append(s.all, x)
	s.bytes += x.size
}

// remove removes x, which is usually the oldest call.
func (s *shelf) remove(x *Record) {
	s.bytes -= x.size
	if s.all[0] == x {
		s.all[0] = nil
		s.all = s.all[1:]
		return
	}
	s.all = slices.DeleteFunc(s.all, func(y *Record) bool { return x == y })
}

// shelfLocked returns the list for the recording of a call: telling for a call that failed or lost
// something, since people look for these, and plain for all others.
func (r *Ring) shelfLocked(c *Call) *shelf {
	if c.Code != 0 || c.Cause != "" || len(c.Losses) > 0 {
		return &r.telling
	}
	return &r.plain
}

// makeRoomLocked drops recordings until there is room for one more. The oldest plain ones go first, unless
// the telling ones use more than half of the memory: the newest plain ones must have room too.
func (r *Ring) makeRoomLocked() {
	most := r.limits.All - r.limits.Call
	for r.limits.Used() > most {
		from := &r.plain
		if len(from.all) == 0 || r.telling.bytes > most/2 {
			from = &r.telling
		}
		if len(from.all) == 0 {
			return // the running calls use all the memory
		}
		r.forgetLocked(from.all[0])
	}
}

// keepLocked keeps the recording of an ended call.
func (r *Ring) keepLocked(x *Record) {
	if x.trail == nil {
		return
	}
	if x.unsure {
		if yes, unsure := r.wantsLocked(&x.call); !yes || unsure {
			x.trail.Close()
			x.trail = nil
			return
		}
	}
	x.on = r.shelfLocked(&x.call)
	x.on.push(x)
}

// forgetLocked drops the recording of an ended call.
func (r *Ring) forgetLocked(x *Record) {
	if x.trail == nil {
		return
	}
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

// continueLocked makes x continue the recording of old. It returns the trail for the messages of x.
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
