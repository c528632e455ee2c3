package upstream

import (
	"maps"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// drainFor is how long the old listen stays open after the server has acknowledged the new listen.
// Over HTTP, the two listens are separate streams. So a notification on the old stream can arrive
// after the acknowledgement on the new stream. A server on a pipe may acknowledge the new listen
// shortly before it begins to send notifications for this listen.
const drainFor = time.Second

// mostCounted bounds the counters of a listenSet. If the bound is reached, some notifications may
// be delivered twice, which every revision allows.
const mostCounted = 1024

// settleFor is how long a server on a pipe has to process the cancellation of older listens before it
// gets a new one.
const settleFor = 100 * time.Millisecond

// listenSet contains the open listens of one link. Usually there is only one listen. While a new
// listen replaces an old one, both are open and most notifications arrive twice. Each notification
// is delivered once, when it first arrives. The zero value is an empty set. It belongs to the state.
type listenSet struct {
	listens []*listening
	// delivered counts the notifications that were delivered while several listens were open.
	// The key is the method and URI, and the value is the highest count of any open listen.
	delivered map[string]int
	// kept contains replaced listens of a pipe, oldest first. Their notifications are dropped, but they
	// stay open at the server: a server with the official Go SDK 1.8.0 has one listen for each
	// resource and session, so the end of any listen also ends the notifications of the newest one.
	kept []*listening
	// ended says that a kept listen was ended. The newest listen must then be replaced by an equal one.
	ended bool
}

const (
	// mostListens bounds the listens of one link that deliver notifications at the same time. If
	// clients change their subscriptions faster than the server acknowledges the listens, the oldest
	// listen is retired.
	mostListens = 4
	// enoughKept is the number of kept listens after which all of them are ended.
	enoughKept = 3
	// mostKept bounds the kept listens while the server does not acknowledge the newest listen.
	mostKept = 16
)

// open adds l. If keep is true, a listen for which there is no room is kept, and otherwise it is ended.
func (h *listenSet) open(l *listening, keep bool) {
	if len(h.listens) == mostListens {
		h.retire(h.listens[0], keep)
	}
	l.received = maps.Clone(h.delivered)
	h.listens = append(h.listens, l)
}

// retire removes l and ends it, or keeps it if keep is true. Later notifications of l are dropped.
func (h *listenSet) retire(l *listening, keep bool) {
	open := slices.Contains(h.listens, l)
	h.close(l)
	switch {
	case !keep:
		l.cancel(errReplaced)
	case open:
		h.kept = append(h.kept, l)
		if len(h.kept) > mostKept {
			h.kept[0].cancel(errReplaced)
			h.kept, h.ended = slices.Delete(h.kept, 0, 1), true
		}
	}
}

// all returns all listens that are open at the server.
func (h *listenSet) all() []*listening { return slices.Concat(h.kept, h.listens) }

// acknowledged notes that the server has acknowledged l on a pipe. A pipe keeps the order of
// messages, so no earlier notification arrives on l again.
func (h *listenSet) acknowledged(l *listening) {
	if l.acks == 0 && slices.Contains(h.listens, l) {
		l.received = maps.Clone(h.delivered)
	}
}

// close removes l. Later notifications of this listen are dropped.
func (h *listenSet) close(l *listening) {
	i := slices.Index(h.listens, l)
	if i < 0 {
		return
	}
	h.listens = slices.Delete(h.listens, i, i+1)
	h.delivered = nil
	if len(h.listens) < 2 {
		for _, l := range h.listens {
			l.received = nil
		}
		return
	}
	for _, l := range h.listens {
		for key, n := range l.received {
			h.count(&h.delivered, key, n)
		}
	}
}

// retireBefore retires the listens that are older than l.
func (h *listenSet) retireBefore(l *listening, keep bool) {
	for slices.Contains(h.listens, l) && h.listens[0] != l {
		h.retire(h.listens[0], keep)
	}
}

// first reports whether the notification m, which has arrived on the listen l, must be delivered.
// It must be delivered if l is open and m has not yet arrived on another listen.
func (h *listenSet) first(l *listening, m *jsonrpc.Message) bool {
	if !slices.Contains(h.listens, l) {
		return false
	}
	if len(h.listens) == 1 {
		return true
	}
	key := m.Method
	if m.Method == mcp.NoteResourceUpdated {
		key += " " + string(m.Param("uri").Of(m.Raw))
	}
	n := l.received[key] + 1
	if !h.count(&l.received, key, n) {
		return true
	}
	if n <= h.delivered[key] {
		return false
	}
	h.count(&h.delivered, key, n)
	return true
}

// count raises the counter of a key to n. It returns false if there are too many counters.
func (h *listenSet) count(counts *map[string]int, key string, n int) bool {
	if _, known := (*counts)[key]; !known && len(*counts) >= mostCounted {
		return false
	}
	if *counts == nil {
		*counts = make(map[string]int)
	}
	(*counts)[key] = max((*counts)[key], n)
	return true
}

// replace waits until the server has acknowledged the listen next, but at most a few seconds. It
// then waits for drainFor and retires the listen old.
func (h *hub) replace(l *link, old, next *listening) {
	keep := h.spec.piped()
	h.awaitAck(h.life, next)
	h.update(func(st *state) {
		l.listenSet.retireBefore(old, keep) // only old and next deliver notifications
	})
	_ = work.Sleep(h.life, drainFor)
	renew := get(h.core, func(*state) bool {
		l.listenSet.retire(old, keep)
		return l.listen == next && l.listenSet.endKept()
	})
	if renew {
		h.renew(l)
	}
}

// endKept ends all kept listens if there are enough of them. It reports whether the newest listen
// must be replaced, because listens were ended.
func (h *listenSet) endKept() bool {
	if len(h.kept) < enoughKept && !h.ended {
		return false
	}
	for _, l := range h.kept {
		l.cancel(errReplaced)
	}
	h.kept = nil
	return true
}

// renew replaces the newest listen of a pipe by an equal one. Notifications may have been lost since
// the kept listens were ended, so renew reports that all lists may have changed.
func (h *hub) renew(l *link) {
	if work.Sleep(h.life, settleFor) != nil {
		return
	}
	h.update(func(st *state) {
		l.listenSet.ended = true
	})
	h.relisten(h.life, l)
	h.listsMayHaveChanged()
}
