package jsonrpc

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"
)

// trailMemory is the memory of one trail. Close returns it for another trail, so that a
// recorded call needs few allocations. Nothing outside of the trail may refer to it.
type trailMemory struct {
	texts   []trailText
	entries []trailEntry
	changes []Change
	first   []byte // the first block, which stays when the memory is used again
	block   []byte // the block with free space
	scratch []byte
}

// trailText is a text. If it was made from another text, only the new bytes are kept.
type trailText struct {
	bytes []byte // the beginning of the text, or the new bytes of all its changes
	size  int
	hash  uint64 // hash of the whole text, if it is longer than the limit
	made  bool   // the text is that of input with changes
	input int
	part  part // the changes
}

// part is a range of one of the lists in the memory.
type part struct{ from, to int }

// trailEntry is an Entry in the memory of a trail.
type trailEntry struct {
	at                time.Duration
	text, input       int
	wire              Wire
	sent              bool
	failed            string
	changes           part
	request, response trailHead
}

// trailHead is a Head in the memory of a trail.
type trailHead struct {
	packed []byte // nil if there is no head
	edits  []HeadEdit
}

// These are the limits of memory that is used again, so that one large call does not occupy
// memory for a long time.
const (
	firstBlock   = 3 << 10 // the smallest first block
	maxBlock     = 8 << 10 // the size of other blocks
	maxKeptItems = 64      // the number of entries, texts and changes
)

var trailMemories = sync.Pool{New: func() any {
	return &trailMemory{texts: make([]trailText, 0, 4), entries: make([]trailEntry, 0, 8)}
}}

// release makes the memory available for another trail.
func (m *trailMemory) release() {
	if cap(m.texts) > maxKeptItems || cap(m.entries) > maxKeptItems || cap(m.changes) > maxKeptItems || cap(m.scratch) > maxHead {
		return
	}
	clear(m.texts)
	clear(m.entries)
	m.texts, m.entries, m.changes = m.texts[:0], m.entries[:0], m.changes[:0]
	if cap(m.block) > cap(m.first) {
		m.first = m.block // the next call probably needs as much
	}
	m.block = m.first[:0]
	trailMemories.Put(m)
}

// store copies bytes.
func (m *trailMemory) store(b []byte) []byte {
	n := len(b)
	if n == 0 {
		return nil
	}
	if cap(m.block)-len(m.block) < n {
		switch {
		case m.first == nil && n <= maxBlock/2:
			// A call has about two texts, the changes of two more, and heads.
			m.first = make([]byte, 0, min(firstBlock+2*n, maxBlock))
			m.block = m.first
		case n > maxBlock/4:
			return bytes.Clone(b)
		default:
			m.block = make([]byte, 0, maxBlock)
		}
	}
	at := len(m.block)
	m.block = append(m.block, b...)
	return m.block[at:len(m.block):len(m.block)]
}

// addText stores a text of which at most limit bytes are kept.
func (m *trailMemory) addText(text []byte, limit int, hash uint64) int {
	m.texts = append(m.texts, trailText{bytes: m.store(text[:min(len(text), limit)]), size: len(text), hash: hash})
	return len(m.texts) - 1
}

// addMade stores the text that was made from the text input with changes. If it cannot be made
// again, it is stored like other texts.
func (m *trailMemory) addMade(text []byte, limit int, hash uint64, input int, changes part) int {
	if in := &m.texts[input]; in.made || in.size != len(in.bytes) || len(text) > limit {
		return m.addText(text, limit, hash)
	}
	m.scratch = m.scratch[:0]
	for _, c := range m.changes[changes.from:changes.to] {
		m.scratch = append(m.scratch, text[c.To.Start:c.To.End]...)
	}
	m.texts = append(m.texts, trailText{bytes: m.store(m.scratch), size: len(text), made: true, input: input, part: changes})
	return len(m.texts) - 1
}

// same reports whether text i is this one. kept is the part of the text within the limit.
func (m *trailMemory) same(i int, kept []byte, size int, hash uint64) bool {
	x := &m.texts[i]
	switch {
	case x.size != size || x.hash != hash:
		return false
	case !x.made:
		return bytes.Equal(x.bytes, kept)
	}
	input, with := m.texts[x.input].bytes, x.bytes
	from, to := 0, 0
	for _, c := range m.changes[x.part.from:x.part.to] {
		n, written := c.At.Start-from, c.To.End-c.To.Start
		if !bytes.Equal(input[from:c.At.Start], kept[to:to+n]) || !bytes.Equal(with[:written], kept[to+n:to+n+written]) {
			return false
		}
		with, from, to = with[written:], c.At.End, to+n+written
	}
	return bytes.Equal(input[from:], kept[to:])
}

// textOf returns a copy of a text.
func (m *trailMemory) textOf(i int) TrailText {
	x := &m.texts[i]
	if !x.made {
		return TrailText{bytes.Clone(x.bytes), x.size}
	}
	input, with := m.texts[x.input].bytes, x.bytes
	out := make([]byte, 0, x.size)
	from := 0
	for _, c := range m.changes[x.part.from:x.part.to] {
		n := c.To.End - c.To.Start
		out = append(append(out, input[from:c.At.Start]...), with[:n]...)
		with, from = with[n:], c.At.End
	}
	return TrailText{append(out, input[from:]...), x.size}
}

// entryOf returns a copy of an entry.
func (m *trailMemory) entryOf(i int) Entry {
	x := &m.entries[i]
	return Entry{
		At: x.at, Text: x.text, Wire: x.wire, Sent: x.sent, Failed: x.failed, Input: x.input,
		Changes: append([]Change(nil), m.changes[x.changes.from:x.changes.to]...),
		Request: m.headOf(&x.request), Response: m.headOf(&x.response),
	}
}

// notes counts the messages that are notifications.
func (m *trailMemory) notes() (n int) {
	for i := range m.entries {
		if x := &m.entries[i]; x.wire != 0 && isNote(m.textOf(x.text).Bytes) {
			n++
		}
	}
	return n
}

// pack writes a head into scratch and returns the cost of its memory in bytes. It leaves out a
// header that is longer than maxHead.
func (m *trailMemory) pack(h *Head) (cost int) {
	b := append(appendShort(m.scratch[:0], h.Method), byte(h.Status), byte(h.Status>>8))
	b = appendShort(b, h.Path)
	m.scratch = b
	least := headCost + len(h.Method) + len(h.Path)
	cost = least
	for name, values := range h.header {
		for _, value := range values {
			if cost += fieldCost + len(name) + len(value); cost > maxHead {
				return least
			}
			b = appendShort(appendShort(b, name), value)
		}
	}
	m.scratch = b
	return cost
}

// addPacked stores the head that pack has written into scratch.
func (m *trailMemory) addPacked(h *Head) trailHead {
	return trailHead{packed: m.store(m.scratch), edits: h.edits}
}

// headOf returns a copy of a head, nil for none.
func (m *trailMemory) headOf(x *trailHead) *Head {
	if x.packed == nil {
		return nil
	}
	h := &Head{}
	var rest []byte
	h.Method, rest = cutShort(x.packed)
	h.Status = int(binary.LittleEndian.Uint16(rest))
	h.Path, rest = cutShort(rest[2:])
	for len(rest) > 0 {
		var name, value string
		name, rest = cutShort(rest)
		value, rest = cutShort(rest)
		if h.header == nil {
			h.header = make(map[string][]string)
		}
		h.header[name] = append(h.header[name], value)
	}
	h.edits = x.edits
	return h
}

// appendShort appends a text with its length. It shortens a text that is longer than a part of a
// head may be.
func appendShort(b []byte, text string) []byte {
	text = text[:min(len(text), maxHead)]
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(text))), text...)
}

// cutShort reads what appendShort has written.
func cutShort(b []byte) (text string, rest []byte) {
	n := 2 + int(binary.LittleEndian.Uint16(b))
	return string(b[2:n]), b[n:]
}

// adopt appends the contents of other. The times of the entries of other are increased by a duration.
func (m *trailMemory) adopt(other *trailMemory, later time.Duration) {
	texts, changes := len(m.texts), len(m.changes)
	m.changes = append(m.changes, other.changes...)
	for _, x := range other.texts {
		x.input += texts
		x.part = x.part.moved(changes)
		m.texts = append(m.texts, x)
	}
	for _, x := range other.entries {
		x.at += later
		x.text += texts
		x.input += texts
		x.changes = x.changes.moved(changes)
		m.entries = append(m.entries, x)
	}
}

func (p part) moved(by int) part { return part{p.from + by, p.to + by} }

var hashSeed = maphash.MakeSeed()
