package upstream

import (
	"maps"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/work"
)

// drainFor is how long the old listen stays open after the server has acknowledged the new
// one. Over HTTP they are separate streams: a notification that the server wrote to the old
// one before it knew the new one can arrive after the acknowledgement. On a pipe a server
// may acknowledge a listen a moment before it sends notifications on it.
const drainFor = time.Second

// mostCounted bounds the counters of a listenSet. Beyond it a notification may be delivered
// twice, which every revision allows.
const mostCounted = 1024

// listenSet is the set of open listens of one link. Usually there is one. While one replaces
// another, both are open and most notifications arrive twice; each is delivered once, from
// whichever listen brings it first. The zero value has no listen. Guarded by Upstream.mu.
type listenSet struct {
	listens []*listening
	// delivered counts the notifications delivered while several listens were open, by
	// method and URI. It is the highest count of any open listen.
	delivered map[string]int
}

// mostListens bounds the concurrently open listens of one link. If clients change their
// subscriptions faster than the server acknowledges, the oldest listen is closed.
const mostListens = 4

func (h *listenSet) open(l *listening) {
	if len(h.listens) == mostListens {
		h.listens[0].cancel(errReplaced)
		h.close(h.listens[0])
	}
	l.received = maps.Clone(h.delivered)
	h.listens = append(h.listens, l)
}

// close removes l. Notifications that still arrive on it are dropped.
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

// before removes the listens that are older than l and returns them.
func (h *listenSet) before(l *listening) (older []*listening) {
	for slices.Contains(h.listens, l) && h.listens[0] != l {
		older = append(older, h.listens[0])
		h.close(h.listens[0])
	}
	return older
}

// first reports whether m must be delivered: l is open, and no other listen has delivered m
// before.
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

// count raises a counter to n, and reports whether there was room for it.
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

// replace ends the old listen after the server has acknowledged the next one.
func (u *Upstream) replace(l *link, old, next *listening) {
	u.awaitAck(u.life, next)
	u.mu.Lock()
	for _, older := range l.listenSet.before(old) {
		older.cancel(errReplaced) // at most two are open: this one and its replacement
	}
	u.mu.Unlock()
	_ = work.Sleep(u.life, drainFor)
	u.mu.Lock()
	l.listenSet.close(old)
	u.mu.Unlock()
	old.cancel(errReplaced)
}
