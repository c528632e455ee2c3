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
	maxStories  = 200       // the maximum number of ended calls with a recording
	maxMessage  = 16 << 10  // the maximum number of recorded bytes of one message
	maxStory    = 1 << 20   // the maximum number of recorded bytes of one call
	maxAll      = 16 << 20  // the maximum number of recorded bytes of all calls
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
	for _, x := range slices.Clone(r.recorded) {
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
		for len(r.recorded) > 0 && r.limits.Used() > maxAll-maxStory {
			r.forgetLocked(r.recorded[0])
		}
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

// keepLocked keeps the recording of an ended call. It drops the oldest recordings if there are too
// many.
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
	r.recorded = append(r.recorded, x)
	for len(r.recorded) > r.stories {
		r.forgetLocked(r.recorded[0])
	}
}

// forgetLocked drops the recording of an ended call.
func (r *Ring) forgetLocked(x *Record) {
	if x.trail == nil {
		return
	}
	x.trail.Close()
	x.trail = nil
	r.unlistLocked(x)
}

// unlistLocked removes x from r.recorded. x is usually the oldest call in this list.
func (r *Ring) unlistLocked(x *Record) {
	if len(r.recorded) > 0 && r.recorded[0] == x {
		r.recorded[0] = nil
		r.recorded = r.recorded[1:]
		return
	}
	r.recorded = slices.DeleteFunc(r.recorded, func(y *Record) bool { return x == y })
}

// continueLocked makes x continue the recording of old. It returns the trail for the messages of x.
func (r *Ring) continueLocked(x, old *Record) *trails.Trail {
	t := old.trail
	if t == nil {
		return x.trail
	}
	t.Append(x.trail)
	x.trail, old.trail = t, nil
	r.unlistLocked(old)
	return t
}
