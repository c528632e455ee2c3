package jsonrpc

import (
	"bytes"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Trail records what happens to the messages of one call: each message that passes one of the
// two wires, and each splice with its changes and their reasons. It keeps copies, and stops
// when one of its limits is reached. A nil Trail records nothing. Trail is safe for concurrent
// use.
type Trail struct {
	limits *TrailLimits
	began  time.Time

	mu      sync.Mutex
	used    int
	notes   int
	texts   []TrailText
	entries []Entry
	missed  int
	closed  bool
}

// TrailLimits bound the trails that it makes. The zero value of a limit means no limit. Its
// limits must not change after the first NewTrail.
type TrailLimits struct {
	Message int // bytes that are kept of one message
	Call    int // bytes of one trail
	All     int // bytes of all trails that are not closed
	Notes   int // notifications of one trail

	used atomic.Int64
}

// Used returns the bytes that all trails hold that are not closed.
func (l *TrailLimits) Used() int { return int(l.used.Load()) }

// Wire is one of the two connections of a call.
type Wire uint8

// ClientWire is the connection to the client, ServerWire the connection to the server.
const (
	ClientWire Wire = iota + 1
	ServerWire
)

// TrailText is the text of a message, or of a part of one. If the text is longer than the limit,
// Bytes is the beginning of the text.
type TrailText struct {
	Bytes []byte
	Size  int

	hash uint64 // hash of the whole text, if the text is longer than Bytes
}

// Entry is one step of a trail: a message that passed a wire, or a splice.
type Entry struct {
	At   time.Duration // since the trail began
	Text int           // index of the message; of a splice, of its output

	// Of a message; Wire is 0 for a splice.
	Wire   Wire
	Sent   bool   // by Dragoman
	Failed string // why it was not sent, or got no answer; "" for none
	// Request and Response are the head of the HTTP request that carried the message, and that
	// of its response. Nil means that there is none.
	Request, Response *Head

	// Of a splice.
	Input   int      // index of the text that was changed
	Changes []Change // ordered by position; changes do not overlap
}

// Change is one edit, as it was applied.
type Change struct {
	Why Reason
	At  Span // the bytes that were replaced, in the input; empty for an insertion
	To  Span // the new bytes, in the output; empty for a removal
}

// Head is the head of an HTTP request or response. It must not be changed once a trail has it.
type Head struct {
	Method, Path string // of a request
	Status       int    // of a response
	header       map[string][]string
	bytes        int // of its size
}

// HeadField is one field of a Head.
type HeadField struct{ Name, Value string }

// NewHead returns a Head. method and path are those of a request, status is that of a response.
// The header must not be modified afterwards. One that is longer than maxHead is left out.
func NewHead(method, path string, status int, header map[string][]string) *Head {
	h := &Head{Method: method, Path: path, Status: status, header: header}
	if h.bytes = h.size(); h.bytes > maxHead {
		h.header = nil
		h.bytes = h.size()
	}
	return h
}

// Fields returns the fields of the header, sorted by name.
func (h *Head) Fields() []HeadField {
	var all []HeadField
	for _, name := range slices.Sorted(maps.Keys(h.header)) {
		for _, value := range h.header[name] {
			all = append(all, HeadField{name, value})
		}
	}
	return all
}

// Passage names a message of a trail. The zero Passage is none.
type Passage int

// These are the bytes of memory that the parts of a trail need in addition to their contents.
const (
	trailCost  = 256
	entryCost  = 160 // an entry, and its text
	changeCost = 48
	headCost   = 64
	fieldCost  = 32
	maxHead    = 16 << 10 // the maximum for a head with its fields
)

// alike is how many of the last texts are compared with a new text, so that a message and the
// input or output of its splice are kept once. The first texts, which belong to the request, are
// compared as well.
const (
	alike      = 64
	alikeFirst = 8
)

// NewTrail returns a Trail that keeps about limit bytes.
func NewTrail(limit int) *Trail { return (&TrailLimits{Call: limit}).NewTrail(time.Now()) }

// NewTrail returns a trail with these limits that began at a time.
func (l *TrailLimits) NewTrail(began time.Time) *Trail {
	l.used.Add(trailCost)
	return &Trail{limits: l, began: began, used: trailCost, texts: make([]TrailText, 0, 6), entries: make([]Entry, 0, 8)}
}

// Splice calls the function Splice and records a stage.
func (t *Trail) Splice(dst, raw []byte, e *Edits) []byte {
	out := Splice(dst, raw, e)
	if t != nil {
		t.keep(raw, e.all(), out[len(dst):])
	}
	return out
}

// Carry records that the bytes at in raw became a part of whole, a text that Dragoman has
// written around them.
func (t *Trail) Carry(why Reason, raw []byte, at Span, whole []byte) {
	if t == nil || at.IsZero() {
		return
	}
	part := at.Of(raw)
	to := bytes.Index(whole, part)
	if to < 0 || len(part) == 0 {
		return
	}
	changes := []Change{
		{Why: why, At: Span{0, at.Start}, To: Span{0, to}},
		{Why: why, At: Span{at.End, len(raw)}, To: Span{to + len(part), len(whole)}},
	}
	changes = slices.DeleteFunc(changes, func(c Change) bool { return c.At.Start == c.At.End && c.To.Start == c.To.End })
	since := time.Since(t.began)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addLocked(Entry{At: since, Changes: changes}, changeCost*len(changes), whole, raw)
}

// Received records a message that came in on a wire. h is the head of its HTTP request, nil
// for none.
func (t *Trail) Received(w Wire, raw []byte, h *Head) Passage {
	if t == nil {
		return 0
	}
	return t.pass(Entry{Wire: w, Request: h}, raw)
}

// Sent records a message that Dragoman sends on a wire.
func (t *Trail) Sent(w Wire, raw []byte) Passage {
	if t == nil {
		return 0
	}
	return t.pass(Entry{Wire: w, Sent: true}, raw)
}

// Miss counts a message that was not kept, because it was dropped before anybody read it.
func (t *Trail) Miss() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missed++
}

// Exchanged sets the heads of the HTTP exchange of a message. A nil head changes nothing.
func (t *Trail) Exchanged(p Passage, request, response *Head) {
	t.change(p, func(e *Entry) (more int) {
		if request != nil {
			e.Request = request
			more += request.bytes
		}
		if response != nil {
			e.Response = response
			more += response.bytes
		}
		return more
	})
}

// Failed says why a message was not sent, or why it got no answer.
func (t *Trail) Failed(p Passage, why string) {
	t.change(p, func(e *Entry) int {
		e.Failed = why
		return len(why)
	})
}

// Close drops everything that the trail holds. Later messages are not kept.
func (t *Trail) Close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limits.used.Add(-int64(t.used))
	t.closed, t.used, t.texts, t.entries = true, 0, nil, nil
}

// Closed reports whether Close was called.
func (t *Trail) Closed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// Story returns the texts and the entries of the trail, in the order in which they were
// recorded, and the number of entries that were not kept. The caller must not modify what they
// refer to.
func (t *Trail) Story() (texts []TrailText, entries []Entry, missed int) {
	if t == nil {
		return nil, nil, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.texts), slices.Clone(t.entries), t.missed
}

// Append moves the entries of other, which began later or at the same time, to the end of t,
// and closes other.
func (t *Trail) Append(other *Trail) {
	if t == nil || other == nil || t == other {
		return
	}
	other.mu.Lock()
	texts, entries, missed, used, notes := other.texts, other.entries, other.missed, other.used, other.notes
	other.texts, other.entries, other.used, other.closed = nil, nil, 0, true
	other.mu.Unlock()
	later := other.began.Sub(t.began)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		t.limits.used.Add(-int64(used))
		return
	}
	base := len(t.texts)
	t.texts = append(t.texts, texts...)
	for _, e := range entries {
		e.At += later
		e.Text += base
		e.Input += base
		t.entries = append(t.entries, e)
	}
	t.missed += missed
	t.used += used
	t.notes += notes
}

func (h *Head) size() int {
	n := headCost + len(h.Method) + len(h.Path)
	for name, values := range h.header {
		for _, value := range values {
			n += fieldCost + len(name) + len(value)
		}
	}
	return n
}

// pass records a message. Notifications beyond their limit are not kept, so that the answer of
// a call fits that has many.
func (t *Trail) pass(e Entry, raw []byte) Passage {
	at := time.Since(t.began)
	cost := 0
	if e.Request != nil {
		cost = e.Request.bytes
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limits.Notes > 0 && isNote(raw) {
		if t.notes++; t.notes > t.limits.Notes {
			t.missed++
			return 0
		}
	}
	e.At = at
	if len(t.entries) == 0 {
		e.At = 0 // the request, which came before the trail was made
	}
	if !t.addLocked(e, cost, raw, nil) {
		return 0
	}
	return Passage(len(t.entries))
}

// isNote reports whether a message is a notification, by the members that the others have. It
// may be wrong for strange messages, and then a limit counts them wrongly.
func isNote(raw []byte) bool {
	head := raw[:min(len(raw), 256)]
	return bytes.Contains(head, []byte(`"method":"notifications/`)) && !bytes.Contains(head, []byte(`"id":`))
}

// keep records a splice. The edits are sorted, because they were spliced.
func (t *Trail) keep(raw []byte, list []edit, out []byte) {
	at := time.Since(t.began)
	changes := applied(list, len(raw))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addLocked(Entry{At: at, Changes: changes}, changeCost*len(changes), out, raw)
}

// addLocked appends an entry with its text. For a splice, addLocked also appends the input. It
// reports whether everything fits.
func (t *Trail) addLocked(e Entry, cost int, text, input []byte) bool {
	if t.closed {
		return false
	}
	splice := e.Wire == 0
	e.Text = t.alikeLocked(text)
	if e.Text < 0 {
		cost += t.costOf(text)
	}
	if splice {
		if e.Input = t.alikeLocked(input); e.Input < 0 {
			cost += t.costOf(input)
		}
	}
	cost += entryCost
	if t.limits.Call > 0 && t.used+cost > t.limits.Call || !t.limits.take(cost) {
		t.missed++
		return false
	}
	t.used += cost
	if splice && e.Input < 0 {
		e.Input = t.storeLocked(input)
	}
	if e.Text < 0 {
		e.Text = t.storeLocked(text)
	}
	t.entries = append(t.entries, e)
	return true
}

// take takes a number of bytes, if there are that many.
func (l *TrailLimits) take(n int) bool {
	if l.used.Add(int64(n)) <= int64(l.All) || l.All == 0 {
		return true
	}
	l.used.Add(-int64(n))
	return false
}

func (l *TrailLimits) message() int {
	if l.Message > 0 {
		return l.Message
	}
	return math.MaxInt
}

func (t *Trail) costOf(text []byte) int { return min(len(text), t.limits.message()) }

// alikeLocked returns the index of a text that is kept already, or -1. It compares the last
// few.
func (t *Trail) alikeLocked(text []byte) int {
	kept, hash := text[:t.costOf(text)], t.hashOf(text)
	for i := len(t.texts) - 1; i >= 0; i-- {
		if i < len(t.texts)-alike && i >= alikeFirst {
			i = alikeFirst - 1
		}
		if x := &t.texts[i]; x.Size == len(text) && x.hash == hash && bytes.Equal(x.Bytes, kept) {
			return i
		}
	}
	return -1
}

// hashOf tells apart texts that are longer than the limit.
func (t *Trail) hashOf(text []byte) uint64 {
	if len(text) <= t.limits.message() {
		return 0
	}
	return maphash.Bytes(hashSeed, text)
}

var hashSeed = maphash.MakeSeed()

func (t *Trail) storeLocked(text []byte) int {
	t.texts = append(t.texts, TrailText{bytes.Clone(text[:t.costOf(text)]), len(text), t.hashOf(text)})
	return len(t.texts) - 1
}

// change changes a message. f returns how many bytes more it holds.
func (t *Trail) change(p Passage, f func(*Entry) (more int)) {
	if t == nil || p == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || int(p) > len(t.entries) {
		return
	}
	more := f(&t.entries[p-1])
	t.used += more
	t.limits.used.Add(int64(more))
}

// applied returns the edits of list that have an effect on a message of size bytes, as Splice
// applies them.
func applied(list []edit, size int) []Change {
	if len(list) == 0 {
		return nil
	}
	changes := make([]Change, 0, len(list))
	from, grown := 0, 0
	for i := range list {
		x := &list[i]
		at, ok := x.place(from, size)
		if !ok {
			continue
		}
		n := x.written()
		changes = append(changes, Change{Why: x.why, At: at, To: Span{at.Start + grown, at.Start + grown + n}})
		grown += n - (at.End - at.Start)
		from = at.End
	}
	return changes
}

// written returns how many bytes appendTo appends.
func (x *edit) written() int {
	n := len(x.with)
	if x.member {
		n += len(AppendQuote(make([]byte, 0, 64), x.name)) + 1
	}
	if x.comma {
		n++
	}
	return n
}
