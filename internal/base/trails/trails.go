// Package trails records what happens to the messages of a call on their way through Dragoman: each
// message that passes one of the call's two wires, and each splice with its changes and their reasons.
// The console's call page and `dragoman record` show it.
//
// A recorded call must cost little, so a trail keeps received messages without copying them, and its
// memory is used again for later calls. A nil [Trail] records nothing. The package knows no protocol.
package trails

import (
	"bytes"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Trail records what happens to the messages of one call: each message that passes one of the two
// wires, and each splice with its changes and their reasons. It keeps the messages in memory. It
// stops recording when it reaches a limit. A nil Trail records nothing. Trail is safe for
// concurrent use.
type Trail struct {
	limits *Limits
	began  time.Time

	mu      sync.Mutex
	memory  *trailMemory // nil before the first entry, and after Close
	used    int
	notes   int // the number of notifications in the trail; valid only if counted is true
	counted bool
	missed  int
	closed  bool
}

// Limits bounds the trails that its method NewTrail makes. A limit of zero means no limit. The
// limits must not change after the first call of NewTrail.
type Limits struct {
	Message int // the most bytes that a trail keeps of one message
	Call    int // the most bytes of one trail; values above 1 GiB mean 1 GiB
	All     int // the most bytes of all trails that are not closed
	Notes   int // the most notifications of one trail

	used atomic.Int64
}

// Used returns the number of bytes in all trails that are not closed.
func (l *Limits) Used() int { return int(l.used.Load()) }

// Wire is one of the two connections of a call.
type Wire uint8

// ClientWire is the connection to the client. ServerWire is the connection to the server.
const (
	ClientWire Wire = iota + 1
	ServerWire
)

// Text is the text of a message or of a part of a message. Size is the length of the whole
// text. If the text is longer than Limits.Message allows, Bytes is only the beginning of the
// text.
type Text struct {
	Bytes []byte
	Size  int
}

// Entry is one step of a trail: a message that passed a wire, or a splice.
type Entry struct {
	Text int // the index of a text: the message, or the output of the splice

	// The following fields describe a message. For a splice, Wire is 0.
	At     time.Duration // the time since the trail began
	Wire   Wire
	Sent   bool   // Dragoman sent the message
	Failed string // why the message was not sent or got no answer; "" if neither happened
	// Request is the head of the HTTP request that carried the message. Response is the head of its
	// response. Each is nil if the message has no such head.
	Request, Response *Head

	// The following fields describe a splice.
	Input   int              // index of the text that was changed
	Changes []jsonrpc.Change // ordered by position; changes do not overlap
}

// Head is the head of an HTTP request or response. The zero Head means that there is no head. The
// header and the edits are not copied and must not be modified.
type Head struct {
	Method, Path string // the method and the path of a request
	Status       int    // the status of a response
	header       map[string][]string
	edits        []HeadEdit
}

// HeadEdit describes why a field of a head differs on the two wires. If Dragoman sent the head, Why
// is the reason why Dragoman wrote the field. If Dragoman received the head, Why is the reason why
// Dragoman did not forward the field. jsonrpc.NoReason means that the field was forwarded.
type HeadEdit struct {
	Why jsonrpc.Reason
	// Name is the canonical name of the field. If Name ends in a hyphen, it is a prefix and means
	// all fields whose names begin with it. "" means all fields.
	Name string
}

func (e *HeadEdit) concerns(name string) bool {
	return name == e.Name || e.Name == "" || strings.HasSuffix(e.Name, "-") && strings.HasPrefix(name, e.Name)
}

// HeadField is one field of a Head.
type HeadField struct{ Name, Value string }

// NewHead returns a Head. method and path are for a request, and status is for a response. A trail
// leaves out the header if the head is larger than maxHead. If several edits concern the same
// field, the last edit applies. edits may concern fields that the header does not have. Neither
// header nor edits may be modified afterwards.
func NewHead(method, path string, status int, header map[string][]string, edits ...HeadEdit) Head {
	return Head{Method: method, Path: path, Status: status, header: header, edits: edits}
}

// IsZero reports whether there is no head.
func (h *Head) IsZero() bool { return h.Method == "" && h.Status == 0 }

// With returns a copy of h with a new path and a new header.
func (h *Head) With(path string, header map[string][]string) Head {
	return NewHead(h.Method, path, h.Status, header, h.edits...)
}

// bounded returns the head and the number of bytes that it needs. If the head is larger than
// maxHead, bounded leaves out the header.
func (h Head) bounded() (Head, int) {
	least := headCost + len(h.Method) + len(h.Path)
	cost := least
	for name, values := range h.header {
		for _, value := range values {
			cost += fieldCost + len(name) + len(value)
		}
	}
	if cost > maxHead {
		h.header, cost = nil, least
	}
	return h, cost
}

// Why returns the reason for the last edit of the named field; see HeadEdit. jsonrpc.NoReason means that
// the field was forwarded, or that no reason was recorded.
func (h *Head) Why(name string) jsonrpc.Reason {
	for i := len(h.edits) - 1; i >= 0; i-- {
		if h.edits[i].concerns(name) {
			return h.edits[i].Why
		}
	}
	return jsonrpc.NoReason
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

// Passage identifies a message in a trail. The zero Passage means no message.
type Passage int

// Sizes in bytes. A cost is the memory that a part of a trail needs in addition to its content.
const (
	trailCost  = 256
	entryCost  = 160 // for an entry together with the description of its text
	changeCost = 48
	headCost   = 64
	fieldCost  = 32
	maxHead    = 16 << 10 // the maximum size of a head with its fields
)

// alike is the number of last texts with which a new text is compared. alikeFirst is the number of
// first texts with which it is also compared; these are the texts of the request. A new text that
// equals an older one is not stored again. For example, a message is often also the input or output
// of a splice.
const (
	alike      = 64
	alikeFirst = 8
)

// New returns a Trail that keeps about limit bytes.
func New(limit int) *Trail { return (&Limits{Call: limit}).NewTrail(time.Now()) }

// NewTrail returns a trail with the limits l. began is the time at which the trail began.
func (l *Limits) NewTrail(began time.Time) *Trail {
	l.used.Add(trailCost)
	return &Trail{limits: l, began: began, used: trailCost}
}

// Splice calls the function Splice and records the splice.
func (t *Trail) Splice(dst, raw []byte, e *jsonrpc.Edits) []byte {
	out := jsonrpc.Splice(dst, raw, e)
	if t != nil {
		t.keep(raw, e, out[len(dst):])
	}
	return out
}

// Carry records that Dragoman copied a part of raw into a new text. at is the position of the part
// in raw, and whole is the new text.
func (t *Trail) Carry(why jsonrpc.Reason, raw []byte, at jsonrpc.Span, whole []byte) {
	if t == nil || at.IsZero() {
		return
	}
	part := at.Of(raw)
	to := bytes.Index(whole, part)
	if to < 0 || len(part) == 0 {
		return
	}
	changes := []jsonrpc.Change{
		{Why: why, At: jsonrpc.Span{Start: 0, End: at.Start}, To: jsonrpc.Span{Start: 0, End: to}},
		{Why: why, At: jsonrpc.Span{Start: at.End, End: len(raw)}, To: jsonrpc.Span{Start: to + len(part), End: len(whole)}},
	}
	changes = slices.DeleteFunc(changes, func(c jsonrpc.Change) bool { return c.At.Start == c.At.End && c.To.Start == c.To.End })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spliceLocked(whole, raw, func(all []jsonrpc.Change) []jsonrpc.Change { return append(all, changes...) })
}

// Received records a message that came in on a wire. raw must not be modified afterwards, because
// the trail may keep it. h is the head of the HTTP request that carried the message, or zero if
// there is none.
func (t *Trail) Received(w Wire, raw []byte, h Head) Passage {
	if t == nil {
		return 0
	}
	return t.pass(w, false, raw, h)
}

// Sent records a message that Dragoman sends on a wire.
func (t *Trail) Sent(w Wire, raw []byte) Passage {
	if t == nil {
		return 0
	}
	return t.pass(w, true, raw, Head{})
}

// Miss counts a message that was not recorded because Dragoman dropped it before reading it.
func (t *Trail) Miss() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missed++
}

// Exchanged sets the heads of the HTTP exchange of a message. A zero head changes nothing.
func (t *Trail) Exchanged(p Passage, request, response Head) {
	if t == nil || p == 0 || request.IsZero() && response.IsZero() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entryLocked(p)
	if e == nil {
		return
	}
	var cost int
	if !request.IsZero() {
		request, cost = request.bounded()
		t.addLocked(cost)
		e.request = t.memory.addHead(request)
	}
	if !response.IsZero() {
		response, cost = response.bounded()
		t.addLocked(cost)
		e.response = t.memory.addHead(response)
	}
}

// Failed records why a message was not sent, or why it got no answer.
func (t *Trail) Failed(p Passage, why string) {
	if t == nil || p == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.entryLocked(p); e != nil {
		t.addLocked(len(why))
		e.failed = t.memory.store([]byte(why))
	}
}

// Used returns the size of the trail in bytes, as it counts for Limits.Call.
func (t *Trail) Used() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used
}

// Close drops everything that the trail holds. The trail does not record later messages.
func (t *Trail) Close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limits.used.Add(-int64(t.used))
	if t.memory != nil {
		t.memory.release()
	}
	t.closed, t.used, t.memory = true, 0, nil
}

// Closed reports whether Close was called.
func (t *Trail) Closed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// Story returns copies of the texts and of the entries of the trail, in the order in which they
// were recorded, and the number of entries that were not kept.
func (t *Trail) Story() (texts []Text, entries []Entry, missed int) {
	if t == nil {
		return nil, nil, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.memory; m != nil {
		for i := range m.texts {
			texts = append(texts, m.textOf(int32(i)))
		}
		for i := range m.entries {
			entries = append(entries, m.entryOf(i))
		}
	}
	return texts, entries, t.missed
}

// Append moves the entries of the trail other to the end of t, and closes other. other must not
// have begun before t.
func (t *Trail) Append(other *Trail) {
	if t == nil || other == nil || t == other {
		return
	}
	other.mu.Lock()
	memory, missed, used := other.memory, other.missed, other.used
	other.memory, other.used, other.closed = nil, 0, true
	other.mu.Unlock()
	later := other.began.Sub(t.began)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		t.limits.used.Add(-int64(used))
		return
	}
	switch {
	case memory == nil:
	case t.memory == nil && later == 0:
		t.memory = memory
	default:
		t.memoryLocked().adopt(memory, later)
	}
	t.missed += missed
	t.used += used
	t.counted = false
}

// memoryLocked returns the memory of the trail. If the trail has no memory yet, memoryLocked gets
// one. The trail must not be closed.
func (t *Trail) memoryLocked() *trailMemory {
	if t.memory == nil {
		t.memory = trailMemories.Get().(*trailMemory)
	}
	return t.memory
}

// pass records a message. pass does not record notifications over the limit, so that there is space
// for the answer.
func (t *Trail) pass(w Wire, sent bool, raw []byte, h Head) Passage {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0
	}
	m := t.memoryLocked()
	if t.limits.Notes > 0 && len(m.entries) >= t.limits.Notes && isNote(raw) {
		if !t.counted {
			t.counted, t.notes = true, m.notes()
		}
		if t.notes++; t.notes > t.limits.Notes {
			t.missed++
			return 0
		}
	}
	e := trailEntry{wire: w, sent: sent}
	if len(m.entries) > 0 { // the first entry is the request, which came before the trail was made
		e.at = time.Since(t.began)
	}
	cost := entryCost
	kept, hash := raw[:t.costOf(raw)], t.hashOf(raw)
	owned := !sent && len(kept) == len(raw) && !wasteful(raw)
	switch e.text = m.find(kept, len(raw), hash); {
	case e.text >= 0:
	case owned:
		cost += cap(raw)
	default:
		cost += len(kept)
	}
	withHead := !h.IsZero()
	if withHead {
		var more int
		h, more = h.bounded()
		cost += more
	}
	if !t.takeLocked(cost) {
		return 0
	}
	if withHead {
		e.request = m.addHead(h)
	}
	switch {
	case e.text >= 0:
	case owned:
		e.text = m.addOwned(raw)
	default:
		e.text = m.addText(raw, t.limits.message(), hash)
	}
	m.entries = append(m.entries, e)
	return Passage(len(m.entries))
}

// wasteful reports whether the capacity of a text is much larger than its length.
func wasteful(text []byte) bool { return cap(text)-len(text) > len(text)/2+256 }

// isNote reports whether a message looks like a notification: its first 256 bytes contain a method
// that begins with notifications/, but no id. If the result is wrong, the message is only counted
// wrongly for the limit on notifications.
func isNote(raw []byte) bool {
	head := raw[:min(len(raw), 256)]
	return bytes.Contains(head, []byte(`"method":"notifications/`)) && !bytes.Contains(head, []byte(`"id":`))
}

// keep records a splice, which has already sorted the edits.
func (t *Trail) keep(raw []byte, e *jsonrpc.Edits, out []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spliceLocked(out, raw, func(all []jsonrpc.Change) []jsonrpc.Change { return e.Changes(all, len(raw)) })
}

// spliceLocked appends an entry for a splice that made text from input. add appends the changes of
// the splice to its parameter.
func (t *Trail) spliceLocked(text, input []byte, add func([]jsonrpc.Change) []jsonrpc.Change) {
	if t.closed {
		return
	}
	m := t.memoryLocked()
	e := trailEntry{changes: part{from: int32(len(m.changes))}}
	m.changes = add(m.changes)
	e.changes.to = int32(len(m.changes))
	cost := entryCost + changeCost*e.changes.len()
	kept, hash := text[:t.costOf(text)], t.hashOf(text)
	if e.text = m.find(kept, len(text), hash); e.text < 0 {
		cost += len(kept)
	}
	keptInput, inputHash := input[:t.costOf(input)], t.hashOf(input)
	if e.input = m.find(keptInput, len(input), inputHash); e.input < 0 {
		cost += len(keptInput)
	}
	if !t.takeLocked(cost) {
		m.changes = m.changes[:e.changes.from]
		return
	}
	if e.input < 0 {
		e.input = m.addText(input, t.limits.message(), inputHash)
	}
	if e.text < 0 {
		e.text = m.addMade(text, t.limits.message(), hash, e.input, e.changes)
	}
	m.entries = append(m.entries, e)
}

// takeLocked reserves n bytes for an entry. If the limits do not allow n more bytes, it counts the
// entry as missed and returns false.
func (t *Trail) takeLocked(n int) bool {
	if t.used+n > t.limits.call() || !t.limits.take(n) {
		t.missed++
		return false
	}
	t.used += n
	return true
}

// take reserves n bytes, and reports whether the limit All allows it.
func (l *Limits) take(n int) bool {
	if l.used.Add(int64(n)) <= int64(l.All) || l.All == 0 {
		return true
	}
	l.used.Add(-int64(n))
	return false
}

func (l *Limits) call() int {
	if l.Call > 0 {
		return min(l.Call, maxTrail)
	}
	return maxTrail
}

func (l *Limits) message() int {
	if l.Message > 0 {
		return l.Message
	}
	return math.MaxInt
}

func (t *Trail) costOf(text []byte) int { return min(len(text), t.limits.message()) }

// find returns the index of the stored text that equals a new text, or -1. kept is the beginning of
// the new text, up to the limit. size and hash describe the whole new text. find looks only at the
// first and the last few stored texts.
func (m *trailMemory) find(kept []byte, size int, hash uint64) int32 {
	for i := len(m.texts) - 1; i >= 0; i-- {
		if i < len(m.texts)-alike && i >= alikeFirst {
			i = alikeFirst - 1
		}
		if m.same(i, kept, size, hash) {
			return int32(i)
		}
	}
	return -1
}

// hashOf returns a hash of a text that is longer than the limit, and 0 for any other text. The hash
// distinguishes long texts with the same beginning.
func (t *Trail) hashOf(text []byte) uint64 {
	if len(text) <= t.limits.message() {
		return 0
	}
	return maphash.Bytes(hashSeed, text)
}

// entryLocked returns the entry of a message. It returns nil if the trail is full or does not have
// the entry.
func (t *Trail) entryLocked(p Passage) *trailEntry {
	if t.memory == nil || int(p) > len(t.memory.entries) || t.used > maxTrail {
		return nil
	}
	return &t.memory.entries[p-1]
}

// addLocked counts n more bytes for an existing entry.
func (t *Trail) addLocked(n int) {
	t.used += n
	t.limits.used.Add(int64(n))
}
