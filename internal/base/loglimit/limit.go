// Package loglimit limits the log records that peers can cause. If a peer sends thirty thousand
// invalid messages, the log gets a few lines, and then one count per minute for as long as the peer
// continues.
//
// A Handler wraps another slog.Handler. Records with the same level and message are one kind. The
// records of a kind are grouped by the peer that caused them. The attributes in peerKeys name the
// peer. For each kind and peer, the first few distinct records are written, and all other records
// are counted. The count is written each minute, and by Close. After a minute in which no record of
// a kind and peer was counted, records of this kind and peer are written again.
//
// Memory is bounded. Kinds beyond maxKinds are counted together. Peers of one kind beyond maxPeers
// are also counted together. No lock is held while the next handler runs.
package loglimit

import (
	"context"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Limits of a Handler.
const (
	window    = time.Minute
	first     = 10  // the number of distinct records of a kind and a peer that are written
	firstFine = 100 // used instead of first below slog.LevelInfo, because the user has enabled these records
	maxKinds  = 256
	maxPeers  = 64 // the most peers of one kind that are counted separately
)

// peerKeys are the keys of attributes that name the peer that caused a record.
var peerKeys = []string{"server", "principal", "remote", "endpoint"}

// Peer returns an attribute that names the peer that caused a record. The attribute has the same
// effect as an attribute with a key in peerKeys. It may also say how a peer's request ended: then
// records with another end are counted apart, and the count says which end it counts. Such an
// attribute must have few values.
func Peer(key, value string) slog.Attr { return slog.Any(key, special{slog.StringValue(value), true}) }

// Measured returns an attribute that differs in each record, such as a duration. If records differ
// only in this attribute, the first record is written, and the others are counted.
func Measured(key string, value slog.Value) slog.Attr { return slog.Any(key, special{value, false}) }

// special is the value of an attribute that Peer or Measured has returned.
type special struct {
	value slog.Value
	peer  bool // the attribute names a peer; otherwise the attribute is a measured value
}

// LogValue implements slog.LogValuer.
func (s special) LogValue() slog.Value { return s.value }

// kindOf reports whether an attribute names a peer, and whether its value is a measured value.
func kindOf(a slog.Attr) (peer, measured bool) {
	if a.Value.Kind() == slog.KindLogValuer {
		if s, ok := a.Value.LogValuer().(special); ok {
			return s.peer, !s.peer
		}
	}
	return slices.Contains(peerKeys, a.Key), false
}

// Handler is a slog.Handler that passes on a limited number of records. Call Close before the
// program exits.
type Handler struct {
	next  slog.Handler
	state *state
	own   string       // the peer, if attributes of WithAttrs name one; otherwise ""
	hash  maphash.Hash // hash of everything that was passed to WithAttrs and WithGroup
}

// New returns a handler that wraps next.
func New(next slog.Handler) *Handler {
	h := &Handler{next: next, state: &state{kinds: make(map[kind]*tally)}}
	h.hash.SetSeed(seed)
	return h
}

var seed = maphash.MakeSeed()

// state is shared by a handler and the handlers derived from it.
type state struct {
	mu      sync.Mutex
	kinds   map[kind]*tally
	tick    *time.Timer // fires at the end of the current minute; nil if no minute is running
	ticking sync.WaitGroup
	closed  bool
}

type kind struct {
	level slog.Level
	text  string
}

// tally counts the records of one kind, by peer. Peers beyond maxPeers are counted together under
// "".
type tally struct {
	peers map[string]*entry
}

type entry struct {
	passed []uint64 // hashes of the records that were written
	held   int64    // the number of records in the current minute that were not written
	storm  bool     // records were counted in the previous minute, so no new record is written
	next   slog.Handler
	about  []slog.Attr // the attributes that name the peer
	// several is true if the entry counts the records of several peers.
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
		if peer, _ := kindOf(a); peer {
			out.own = withPeer(out.own, a)
		}
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
	return peer + a.Key + "=" + a.Value.Resolve().String() + "\x00"
}

func add(h *maphash.Hash, a slog.Attr) {
	_, _ = h.WriteString(a.Key)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(a.Value.Resolve().String())
	_ = h.WriteByte(0)
}

// passes reports whether a record should be written. If not, passes counts the record.
func (s *state) passes(h *Handler, r *slog.Record) bool {
	sum, peer := h.hash, h.own
	var about []slog.Attr
	r.Attrs(func(a slog.Attr) bool {
		named, measured := kindOf(a)
		if named {
			peer = withPeer(peer, a)
			about = append(about, a)
		}
		if !measured {
			add(&sum, a)
		}
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

// entry returns the counter for a record. The caller must hold mu.
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

// arm starts the timer for the end of the minute. The caller must hold mu.
func (s *state) arm() {
	s.ticking.Add(1)
	s.tick = time.AfterFunc(window, func() {
		defer s.ticking.Done()
		s.write(s.turn(false))
	})
}

// count describes records that were only counted.
type count struct {
	kind  kind
	next  slog.Handler
	about []slog.Attr
	held  int64
}

// turn ends the minute and returns its counts. If there are counts and last is false, turn starts a
// new minute.
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

// Close writes the remaining counts and waits for running writes. Later records are still
// limited, but their counts are lost.
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
