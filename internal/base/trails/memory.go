package trails

import (
	"bytes"
	"hash/maphash"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// trailMemory is the memory of one trail. After the trail is closed, another trail reuses the
// memory, so that a recorded call needs few allocations. Nothing outside of the trail may refer to
// the memory. A recorded call should touch little memory, because memory that was not used for 200
// calls is no longer in the processor cache. For this reason, heads and received messages are not
// copied, and all other bytes are in one log.
type trailMemory struct {
	log     []byte // copied texts, and the texts of errors
	texts   []trailText
	entries []trailEntry
	changes []jsonrpc.Change
	heads   []Head
	scratch []byte
}

// part is a range of the log or of the changes.
type part struct{ from, to int32 }

func (p part) len() int { return int(p.to - p.from) }

// moved returns the range of the same elements after some elements were inserted before them. by is
// the number of inserted elements. For an empty range, moved returns the zero part.
func (p part) moved(by int) part {
	if p.from == p.to {
		return part{}
	}
	return part{p.from + int32(by), p.to + int32(by)}
}

// trailText is a text. If it was made from another text, only its new bytes are stored.
type trailText struct {
	owned   []byte // the text, if it was not copied; otherwise nil
	bytes   part   // if made: the new bytes of all changes; otherwise: the copied beginning of the text
	changes part
	hash    uint64 // hash of the whole text, if it is longer than the limit
	size    int
	input   int32
	made    bool // the text was made from the text with index input
}

// trailEntry is an Entry in the memory of a trail.
type trailEntry struct {
	at                time.Duration
	text, input       int32
	changes           part
	failed            part
	request, response int32 // the index of the head plus 1; 0 for no head
	wire              Wire
	sent              bool
}

// These constants bound the memory that trails reuse. Memory beyond these limits is freed, so that
// one large call does not occupy it for a long time.
const (
	firstLog     = 1 << 10  // the capacity of a new log
	maxKeptLog   = 16 << 10 // the maximum capacity of the log, and of scratch
	maxKeptItems = 64       // the maximum number of entries, texts, changes or heads
)

// maxTrail is the maximum size of a trail in bytes, even if Limits allows more. Positions in a
// trail are 32-bit numbers.
const maxTrail = 1 << 30

var trailMemories = sync.Pool{New: func() any {
	return &trailMemory{
		log: make([]byte, 0, firstLog), texts: make([]trailText, 0, 4), entries: make([]trailEntry, 0, 8),
		changes: make([]jsonrpc.Change, 0, 4), heads: make([]Head, 0, 4),
	}
}}

// release makes the memory available for another trail, unless the memory is too large.
func (m *trailMemory) release() {
	if cap(m.texts) > maxKeptItems || cap(m.entries) > maxKeptItems || cap(m.changes) > maxKeptItems || cap(m.heads) > maxKeptItems || cap(m.log) > maxKeptLog || cap(m.scratch) > maxKeptLog {
		return
	}
	clear(m.texts)
	clear(m.heads)
	m.log, m.texts, m.entries, m.changes, m.heads = m.log[:0], m.texts[:0], m.entries[:0], m.changes[:0], m.heads[:0]
	trailMemories.Put(m)
}

// store copies bytes into the log.
func (m *trailMemory) store(b []byte) part {
	at := len(m.log)
	m.log = append(m.log, b...)
	return part{int32(at), int32(len(m.log))}
}

func (m *trailMemory) bytes(p part) []byte { return m.log[p.from:p.to:p.to] }

// whole returns the stored bytes of a text that was not made from another text.
func (m *trailMemory) whole(x *trailText) []byte {
	if x.owned != nil {
		return x.owned
	}
	return m.bytes(x.bytes)
}

// addOwned stores a text without copying it. The text must not be modified afterwards.
func (m *trailMemory) addOwned(text []byte) int32 {
	m.texts = append(m.texts, trailText{owned: text, size: len(text)})
	return int32(len(m.texts) - 1)
}

// addText stores a copy of at most the first limit bytes of a text.
func (m *trailMemory) addText(text []byte, limit int, hash uint64) int32 {
	m.texts = append(m.texts, trailText{bytes: m.store(text[:min(len(text), limit)]), size: len(text), hash: hash})
	return int32(len(m.texts) - 1)
}

// addMade stores a text that was made by applying changes to the text with index input. If the text
// could not be rebuilt from the stored input, addMade stores it with addText.
func (m *trailMemory) addMade(text []byte, limit int, hash uint64, input int32, changes part) int32 {
	if in := &m.texts[input]; in.made || in.size != len(m.whole(in)) || len(text) > limit {
		return m.addText(text, limit, hash)
	}
	m.scratch = m.scratch[:0]
	for _, c := range m.changes[changes.from:changes.to] {
		m.scratch = append(m.scratch, text[c.To.Start:c.To.End]...)
	}
	m.texts = append(m.texts, trailText{bytes: m.store(m.scratch), size: len(text), made: true, input: input, changes: changes})
	return int32(len(m.texts) - 1)
}

// same reports whether the stored text i equals a new text. kept is the beginning of the new text,
// up to the limit. size and hash describe the whole new text.
func (m *trailMemory) same(i int, kept []byte, size int, hash uint64) bool {
	x := &m.texts[i]
	switch {
	case x.size != size || x.hash != hash:
		return false
	case !x.made:
		return bytes.Equal(m.whole(x), kept)
	}
	input, with := m.whole(&m.texts[x.input]), m.bytes(x.bytes)
	from, to := 0, 0
	for _, c := range m.changes[x.changes.from:x.changes.to] {
		n, written := c.At.Start-from, c.To.End-c.To.Start
		if !bytes.Equal(input[from:c.At.Start], kept[to:to+n]) || !bytes.Equal(with[:written], kept[to+n:to+n+written]) {
			return false
		}
		with, from, to = with[written:], c.At.End, to+n+written
	}
	return bytes.Equal(input[from:], kept[to:])
}

// textOf returns a copy of a text.
func (m *trailMemory) textOf(i int32) Text {
	x := &m.texts[i]
	if !x.made {
		return Text{append([]byte(nil), m.whole(x)...), x.size}
	}
	input, with := m.whole(&m.texts[x.input]), m.bytes(x.bytes)
	out := make([]byte, 0, x.size)
	from := 0
	for _, c := range m.changes[x.changes.from:x.changes.to] {
		n := c.To.End - c.To.Start
		out = append(append(out, input[from:c.At.Start]...), with[:n]...)
		with, from = with[n:], c.At.End
	}
	return Text{append(out, input[from:]...), x.size}
}

// entryOf returns a copy of an entry.
func (m *trailMemory) entryOf(i int) Entry {
	x := &m.entries[i]
	return Entry{
		At: x.at, Text: int(x.text), Wire: x.wire, Sent: x.sent, Failed: string(m.bytes(x.failed)), Input: int(x.input),
		Changes: append([]jsonrpc.Change(nil), m.changes[x.changes.from:x.changes.to]...),
		Request: m.headOf(x.request), Response: m.headOf(x.response),
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

// addHead stores a head that Head.bounded has returned. The result is the index of the head plus 1.
func (m *trailMemory) addHead(h Head) int32 {
	m.heads = append(m.heads, h)
	return int32(len(m.heads))
}

// headOf returns the head that addHead stored under a number, or nil for 0.
func (m *trailMemory) headOf(number int32) *Head {
	if number == 0 {
		return nil
	}
	h := m.heads[number-1]
	return &h
}

// adopt appends the contents of other to m and releases other. It adds the duration later to the
// times of the appended entries.
func (m *trailMemory) adopt(other *trailMemory, later time.Duration) {
	log, texts, changes, heads := len(m.log), len(m.texts), len(m.changes), len(m.heads)
	m.log = append(m.log, other.log...)
	m.changes = append(m.changes, other.changes...)
	m.heads = append(m.heads, other.heads...)
	for _, x := range other.texts {
		x.bytes, x.changes, x.input = x.bytes.moved(log), x.changes.moved(changes), x.input+int32(texts)
		m.texts = append(m.texts, x)
	}
	for _, x := range other.entries {
		x.at += later
		x.text, x.input = x.text+int32(texts), x.input+int32(texts)
		x.changes, x.failed = x.changes.moved(changes), x.failed.moved(log)
		for _, number := range []*int32{&x.request, &x.response} {
			if *number > 0 {
				*number += int32(heads)
			}
		}
		m.entries = append(m.entries, x)
	}
	other.release()
}

var hashSeed = maphash.MakeSeed()
