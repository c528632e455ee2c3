package calls

import (
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// The bounds of recording.
const (
	maxStories  = 200       // of calls that have ended
	maxMessage  = 16 << 10  // bytes that are kept of one message
	maxStory    = 1 << 20   // bytes of one call
	maxAll      = 16 << 20  // bytes of all calls
	maxNotes    = 256       // notifications of one call
	maxWindows  = 64        // servers and clients that are recorded for a time
	LongestTime = time.Hour // the longest time of RecordFor
)

// Header is an HTTP request that carried a message. Head returns nil if there was none.
type Header interface{ Head() *jsonrpc.Head }

// Window is a time for which the calls of one server or one client are recorded.
type Window struct {
	Server string // "" for any
	Client string // the name that the client gives itself; "" for any
	Until  time.Time
}

// Record says whether all calls that begin from now on are recorded. Without it, what was
// recorded is dropped, except for the calls of open windows.
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

// RecordFor records the calls to a server, or those of a client if server is "", until a
// time. It reports false if too many such windows are open.
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

// Held returns the bytes that all recordings hold.
func (r *Ring) Held() int { return r.limits.Used() }

// wantsLocked reports whether a call is to be recorded. If that depends on its server, which is
// not known yet, unsure is true as well.
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

// Routed implements mcp.Record. It begins to record the call, where recording is on.
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
	var h *jsonrpc.Head
	if head != nil {
		h = head.Head()
	}
	t.Received(jsonrpc.ClientWire, a.Msg.Raw, h)
	a.Trail = t
	r.mu.Lock()
	x.trail = t
	r.mu.Unlock()
}

// keepLocked keeps the story of a call that has ended, and drops the oldest.
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

// forgetLocked drops the story of a call that has ended.
func (r *Ring) forgetLocked(x *Record) {
	if x.trail == nil {
		return
	}
	x.trail.Close()
	x.trail = nil
	r.recorded = slices.DeleteFunc(r.recorded, func(y *Record) bool { return x == y })
}

// continueLocked makes x continue the story of old, and returns the trail for its messages.
func (r *Ring) continueLocked(x, old *Record) *jsonrpc.Trail {
	t := old.trail
	if t == nil {
		return x.trail
	}
	t.Append(x.trail)
	x.trail, old.trail = t, nil
	r.recorded = slices.DeleteFunc(r.recorded, func(y *Record) bool { return y == old })
	return t
}
