// Package loglimit bounds what others can make us log: a peer that sends thirty
// thousand forged messages causes a handful of log lines, and a count each minute for
// as long as it goes on.
//
// A Handler stands before another slog.Handler. Records of one level and message are
// one kind. Within a kind they are grouped by the peer that caused them, which the
// attributes in peerKeys name. Of each kind and peer the first few records pass, no two
// alike, and the rest are counted. The count is written each minute, and by Close. Only
// after a minute without a record does the next one pass again.
//
// Memory is bounded: so many kinds, and so many peers of each; further ones are counted
// together. No lock is held while the next handler runs.
package loglimit

import (
	"context"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// The bounds of a Handler.
const (
	window    = time.Minute
	first     = 10  // records of one kind and peer that pass, up to where it is counted
	firstFine = 100 // the same below slog.LevelInfo, for which somebody has asked
	maxKinds  = 256
	maxPeers  = 64 // of one kind
)

// peerKeys are the attributes that say whose fault a record is.
var peerKeys = []string{"server", "principal", "remote", "endpoint"}

// Handler is a slog.Handler that passes on some of what it gets. Close must be called
// at the end.
type Handler struct {
	next  slog.Handler
	state *state
	own   string       // the peer, as far as WithAttrs has told
	hash  maphash.Hash // of all that WithAttrs and WithGroup have told
}

// New returns a handler before next.
func New(next slog.Handler) *Handler {
	h := &Handler{next: next, state: &state{kinds: make(map[kind]*tally)}}
	h.hash.SetSeed(seed)
	return h
}

var seed = maphash.MakeSeed()

// state is what a handler and those that were made of it share.
type state struct {
	mu      sync.Mutex
	kinds   map[kind]*tally
	tick    *time.Timer // at the end of the present minute; nil while nothing is counted
	ticking sync.WaitGroup
	closed  bool
}

type kind struct {
	level slog.Level
	text  string
}

// tally counts the records of one kind, by peer. Those of peers that there is no room
// for are counted under "".
type tally struct {
	peers map[string]*entry
}

type entry struct {
	passed []uint64 // hashes of what has passed
	held   int64    // records that have not, in the present minute
	storm  bool     // some were held in the minute before: none passes
	next   slog.Handler
	about  []slog.Attr // of these, those that say whose fault they are
	// several: there are records of several peers here.
	several bool
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if !h.state.passes(h, &r) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := &Handler{next: h.next.WithAttrs(attrs), state: h.state, own: h.own, hash: h.hash}
	for _, a := range attrs {
		out.own = withPeer(out.own, a)
		add(&out.hash, a)
	}
	return out
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	out := &Handler{next: h.next.WithGroup(name), state: h.state, own: h.own, hash: h.hash}
	_, _ = out.hash.WriteString(name)
	return out
}

func withPeer(peer string, a slog.Attr) string {
	if slices.Contains(peerKeys, a.Key) {
		peer += a.Key + "=" + a.Value.String() + "\x00"
	}
	return peer
}

func add(h *maphash.Hash, a slog.Attr) {
	_, _ = h.WriteString(a.Key)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(a.Value.Resolve().String())
	_ = h.WriteByte(0)
}

// passes reports whether a record is to be written, and counts it otherwise.
func (s *state) passes(h *Handler, r *slog.Record) bool {
	sum, peer := h.hash, h.own
	var about []slog.Attr
	r.Attrs(func(a slog.Attr) bool {
		if slices.Contains(peerKeys, a.Key) {
			peer = withPeer(peer, a)
			about = append(about, a)
		}
		add(&sum, a)
		return true
	})
	most := first
	if r.Level < slog.LevelInfo {
		most = firstFine
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(kind{r.Level, r.Message}, peer)
	switch {
	case e.next == nil:
		e.next, e.about = h.next, about
	case e.several:
		e.about = nil
	}
	if s.tick == nil && !s.closed {
		s.arm()
	}
	hash := sum.Sum64()
	if !e.storm && len(e.passed) < most && !slices.Contains(e.passed, hash) {
		e.passed = append(e.passed, hash)
		return true
	}
	e.held++
	return false
}

// entry returns where a record is counted. The caller holds mu.
func (s *state) entry(k kind, peer string) *entry {
	t := s.kinds[k]
	if t == nil {
		if len(s.kinds) >= maxKinds {
			k = kind{k.level, "further messages"}
			t = s.kinds[k]
		}
		if t == nil {
			t = &tally{peers: make(map[string]*entry)}
			s.kinds[k] = t
		}
	}
	several := false
	e := t.peers[peer]
	if e == nil {
		if len(t.peers) >= maxPeers {
			peer = ""
			e = t.peers[peer]
			several = true
		}
		if e == nil {
			e = &entry{several: several}
			t.peers[peer] = e
		}
	}
	return e
}

// arm looks at the counts in a minute. The caller holds mu.
func (s *state) arm() {
	s.ticking.Add(1)
	s.tick = time.AfterFunc(window, func() {
		defer s.ticking.Done()
		s.write(s.turn(false))
	})
}

// count is what is written about records that have not passed.
type count struct {
	kind  kind
	next  slog.Handler
	about []slog.Attr
	held  int64
}

// turn begins a new minute, or, with last, none. It returns what was counted.
func (s *state) turn(last bool) (out []count) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick = nil
	for k, t := range s.kinds {
		for peer, e := range t.peers {
			if e.held == 0 {
				delete(t.peers, peer)
				continue
			}
			out = append(out, count{k, e.next, e.about, e.held})
			e.held, e.storm, e.passed = 0, true, nil
		}
		if len(t.peers) == 0 {
			delete(s.kinds, k)
		}
	}
	if s.closed = s.closed || last; len(s.kinds) > 0 && !s.closed {
		s.arm()
	}
	return out
}

func (s *state) write(all []count) {
	for _, c := range all {
		r := slog.NewRecord(time.Now(), c.kind.level, c.kind.text, 0)
		r.AddAttrs(c.about...)
		r.AddAttrs(slog.Int64("more", c.held), slog.String("within", window.String()))
		_ = c.next.Handle(context.Background(), r)
	}
}

// Close writes what was counted and not written yet, and waits until nothing is being
// written. What is logged afterwards is limited and its count is lost.
func (h *Handler) Close() {
	s := h.state
	s.mu.Lock()
	tick := s.tick
	s.mu.Unlock()
	if tick != nil && tick.Stop() {
		s.ticking.Done()
	}
	s.write(s.turn(true))
	s.ticking.Wait()
}
