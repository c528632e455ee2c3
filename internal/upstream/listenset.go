package upstream

import (
	"maps"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/work"
)

// drainFor is how long the old listen stays open after the server has acknowledged the new listen.
// Over HTTP, the two listens are separate streams. So a notification on the old stream can arrive
// after the acknowledgement on the new stream. A server on a pipe may acknowledge the new listen
// shortly before it begins to send notifications for this listen.
const drainFor = time.Second

// mostCounted bounds the counters of a listenSet. If the bound is reached, some notifications may
// be delivered twice, which every revision allows.
const mostCounted = 1024

// listenSet contains the open listens of one link. Usually there is only one listen. While a new
// listen replaces an old one, both are open and most notifications arrive twice. Each notification
// is delivered once, when it first arrives. The zero value is an empty set. Upstream.mu guards it.
type listenSet struct {
	listens []*listening
	// delivered counts the notifications that were delivered while several listens were open.
	// The key is the method and URI, and the value is the highest count of any open listen.
	delivered map[string]int
}

// mostListens bounds the listens of one link that are open at the same time. If clients change
// their subscriptions faster than the server acknowledges the listens, the oldest listen is closed.
const mostListens = 4

func (h *listenSet) open(l *listening) {
	if len(h.listens) == mostListens {
		h.listens[0].cancel(errReplaced)
		h.close(h.listens[0])
	}
	l.received = maps.Clone(h.delivered)
	h.listens = append(h.listens, l)
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

// before removes the listens that are older than l and returns them.
func (h *listenSet) before(l *listening) (older []*listening) {
	for slices.Contains(h.listens, l) && h.listens[0] != l {
		older = append(older, h.listens[0])
		h.close(h.listens[0])
	}
	return older
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
// then waits for drainFor and ends the listen old.
func (u *Upstream) replace(l *link, old, next *listening) {
	u.awaitAck(u.life, next)
	u.mu.Lock()
	for _, older := range l.listenSet.before(old) {
		older.cancel(errReplaced) // only old and next stay open
	}
	u.mu.Unlock()
	_ = work.Sleep(u.life, drainFor)
	u.mu.Lock()
	l.listenSet.close(old)
	u.mu.Unlock()
	old.cancel(errReplaced)
}
