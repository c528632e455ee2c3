package upstream

import (
	"maps"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// drainFor is how long the old listen stays open after the new one has been acknowledged.
// Over HTTP the two are streams of their own: what the server wrote to the old one before
// it knew the new one can arrive after the acknowledgement. On a pipe a server may
// acknowledge a listen a moment before it reports to it.
const drainFor = time.Second

// mostCounted bounds what hearing remembers. Beyond it a notification may be delivered
// twice, which every revision allows.
const mostCounted = 1024

// hearing is the set of open listens of one server. Usually there is one. While one takes
// the place of another, both are open and most notifications come twice: each is
// delivered once, by whichever listen brings it first. The zero value has no listen.
// Upstream.mu guards it.
type hearing struct {
	listens []*listening
	// told counts what has been delivered while more than one was open, by method and
	// URI: always the highest count of any open listen.
	told map[string]int
}

// mostListens is how many listens of one server are open at a time. When clients change
// what they watch faster than the server acknowledges, the oldest gives way.
const mostListens = 4

func (h *hearing) open(l *listening) {
	if len(h.listens) == mostListens {
		h.listens[0].cancel(errReplaced)
		h.close(h.listens[0])
	}
	l.heard = maps.Clone(h.told)
	h.listens = append(h.listens, l)
}

// close takes l out; nothing that it still brings is delivered.
func (h *hearing) close(l *listening) {
	i := slices.Index(h.listens, l)
	if i < 0 {
		return
	}
	h.listens = slices.Delete(h.listens, i, i+1)
	h.told = nil
	if len(h.listens) < 2 {
		for _, l := range h.listens {
			l.heard = nil
		}
		return
	}
	for _, l := range h.listens {
		for key, n := range l.heard {
			h.count(&h.told, key, n)
		}
	}
}

// before takes out the listens that are older than l, and returns them.
func (h *hearing) before(l *listening) (older []*listening) {
	for slices.Contains(h.listens, l) && h.listens[0] != l {
		older = append(older, h.listens[0])
		h.close(h.listens[0])
	}
	return older
}

// first reports whether m has to be delivered: l is open, and no other listen has
// brought m before.
func (h *hearing) first(l *listening, m *jsonrpc.Message) bool {
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
	n := l.heard[key] + 1
	if !h.count(&l.heard, key, n) {
		return true
	}
	if n <= h.told[key] {
		return false
	}
	h.count(&h.told, key, n)
	return true
}

// count raises a count to n, and reports whether there was room for it.
func (h *hearing) count(counts *map[string]int, key string, n int) bool {
	if _, known := (*counts)[key]; !known && len(*counts) >= mostCounted {
		return false
	}
	if *counts == nil {
		*counts = make(map[string]int)
	}
	(*counts)[key] = max((*counts)[key], n)
	return true
}

// replace ends a listen after the server has acknowledged the one in its place.
func (u *Upstream) replace(l *link, old, next *listening) {
	u.awaitAck(u.life, next)
	u.mu.Lock()
	for _, l := range l.hearing.before(old) {
		l.cancel(errReplaced) // two are open at a time: this one, and the one in its place
	}
	u.mu.Unlock()
	t := time.NewTimer(drainFor)
	select {
	case <-t.C:
	case <-u.life.Done():
		t.Stop()
	}
	u.mu.Lock()
	l.hearing.close(old)
	u.mu.Unlock()
	old.cancel(errReplaced)
}
