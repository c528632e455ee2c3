package logscreen

import (
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"
)

// steady is how long a server that has ended again and again must be ready before people hear of it.
const steady = time.Minute

// past is what a handler remembers of earlier records.
type past struct {
	mu       sync.Mutex
	troubles map[string]*trouble // by server
	waiting  sync.WaitGroup      // for the timers that are running
	holding  bool
	held     []heldRecord
	closed   bool
}

// heldRecord is a record that is held back.
type heldRecord struct {
	at   time.Time
	text string
}

// trouble is a failure of a server that repeats.
type trouble struct {
	times int         // the number of repetitions that were not shown
	ended bool        // the server was ready in between
	since time.Time   // of the first
	ready *time.Timer // says that the server is ready when it has been for steady; nil if it isn't
}

// maxTroubles bounds the number of servers whose troubles are remembered.
const maxTroubles = 1000

// recall decides whether a record is shown. If it's the end of a trouble, more says how often the
// failure was repeated.
func (h *Handler) recall(at time.Time, s saying, f *fields) (more string, shown bool) {
	if f.peek("server") == "" || s.again == "" && !s.ready && !s.fresh {
		return "", true
	}
	server := f.server()
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.troubles[server]
	if t == nil {
		if s.again == "" || len(h.troubles) >= maxTroubles {
			return "", true
		}
		t = &trouble{since: at}
		h.troubles[server] = t
	}
	h.stopLocked(t)
	switch {
	case s.again != "":
		if s.again == ended && !t.ended {
			t.ended = true // without this record, people would believe that the server works
			return "further ends are only counted", true
		}
		t.times++
		return "", false
	case s.ready && t.ended && !h.closed:
		h.waiting.Add(1)
		t.ready = time.AfterFunc(steady, func() {
			defer h.waiting.Done()
			h.recovered(server, t, at)
		})
		return "", false
	}
	delete(h.troubles, server)
	if s.ready || t.times == 0 {
		return "", true // the record of a ready server says how many attempts there were
	}
	return "the failure before this happened " + times(t.times) + " more", true
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

// stopLocked stops the timer of a trouble. The caller must hold mu.
func (p *past) stopLocked(t *trouble) {
	if t.ready != nil && t.ready.Stop() {
		p.waiting.Done()
	}
	t.ready = nil
}

// recovered shows that a server has been ready for steady. at is when it became ready.
func (h *Handler) recovered(server string, t *trouble, at time.Time) {
	h.mu.Lock()
	over := h.troubles[server] == t && t.ready != nil
	if over {
		delete(h.troubles, server)
	}
	h.mu.Unlock()
	if !over {
		return
	}
	x := said{
		sentence: "server " + server + " has been ready again for " + strconv.Itoa(int(steady.Seconds())) + " s",
	}
	if t.times > 0 {
		x.fine = append(x.fine, "before that it ended "+times(t.times)+" more within "+at.Sub(t.since).Round(time.Second).String())
	}
	r := slog.NewRecord(time.Now(), slog.LevelInfo, "", 0)
	_, _ = io.WriteString(h.o.Out, h.text(&r, x, ""))
}

// Hold holds back the records that say how the servers start, until Release. It's for a program that
// shows them in another form when they have started. At slog.LevelDebug nothing is held back.
func (h *Handler) Hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holding = !h.closed && !h.verbose()
}

// Release ends Hold. Records from before the given time are dropped, because people have seen what they
// say.
func (h *Handler) Release(seen time.Time) {
	h.mu.Lock()
	held := h.held
	h.holding, h.held = false, nil
	h.mu.Unlock()
	for _, r := range held {
		if !r.at.Before(seen) {
			_, _ = io.WriteString(h.o.Out, r.text)
		}
	}
}

// hold keeps the text of a record if records are held back.
func (p *past) hold(at time.Time, text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holding {
		p.held = append(p.held, heldRecord{at, text})
	}
	return p.holding
}

// Close shows the records that are held back, and waits for what is being written. Later records are
// written at once.
func (h *Handler) Close() {
	h.mu.Lock()
	h.closed = true
	for _, t := range h.troubles {
		h.stopLocked(t)
	}
	h.mu.Unlock()
	h.Release(time.Time{})
	h.waiting.Wait()
}
