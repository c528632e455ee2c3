package jsonrpc

import (
	"bytes"
	"cmp"
	"slices"
)

// Edits collects the changes to one message. The zero value is empty and ready.
// Edits may be added in any order. Those of several objects, one within the
// other too, combine; one object should be edited by one call of Object. Not
// safe for concurrent use; the bytes that edits are given must not be written to
// before Splice.
type Edits struct {
	n     int
	few   [8]edit // the edits, until they are too many
	many  []edit  // then all of them
	mixed bool    // not in the order of their positions
}

// Reason says why an edit is made. What the values mean is up to those who make the
// edits; this package only keeps them.
type Reason uint8

// NoReason is the Reason of edits that nobody reads: those of instruments and tests.
const NoReason Reason = 0

// edit writes something in place of the bytes at. A member to be inserted is
// kept as its two halves so that nothing need be allocated for it.
type edit struct {
	at     Span
	with   []byte
	name   string // of an inserted member
	member bool
	comma  bool   // behind the inserted member
	why    Reason // in what would be padding
}

// Len returns the number of changes collected; 0 means that Splice copies.
func (e *Edits) Len() int { return e.n }

// Reset forgets all edits and keeps the room for them.
func (e *Edits) Reset() {
	clear(e.all())
	e.n, e.many, e.mixed = 0, e.many[:0], false
}

func (e *Edits) all() []edit {
	if len(e.many) > 0 {
		return e.many
	}
	return e.few[:e.n]
}

func (e *Edits) add(x edit) {
	if e.n > 0 {
		list := e.all()
		e.mixed = e.mixed || compare(list[e.n-1], x) > 0
	}
	switch {
	case len(e.many) > 0:
		e.many = append(e.many, x)
	case e.n < len(e.few):
		e.few[e.n] = x
	default:
		e.many = append(append(e.many, e.few[:]...), x)
	}
	e.n++
}

// compare orders edits by position; where two begin at one place, what only
// inserts comes first, and of two that replace the wider.
func compare(x, y edit) int {
	if c := cmp.Compare(x.at.Start, y.at.Start); c != 0 {
		return c
	}
	xEmpty, yEmpty := x.at.End == x.at.Start, y.at.End == y.at.Start
	switch {
	case xEmpty && yEmpty:
		return 0
	case xEmpty:
		return -1
	case yEmpty:
		return 1
	}
	return cmp.Compare(y.at.End, x.at.End)
}

// Replace writes with in place of the bytes at; an empty with removes them. An
// absent at changes nothing.
func (e *Edits) Replace(why Reason, at Span, with []byte) {
	if !at.IsZero() {
		e.add(edit{at: at, with: with, why: why})
	}
}

// Insert writes with before the byte at. Insertions at one place come out in the
// order in which they were added.
func (e *Edits) Insert(why Reason, at int, with []byte) {
	e.add(edit{at: Span{at, at}, with: with, why: why})
}

// Object edits the members of the object obj in raw, which was scanned: it
// removes those whose unescaped name drop reports (a nil drop reports none),
// replaces the values of those that set names, and inserts the others that set
// names behind the opening brace. Set goes before drop, and the last of two
// fields with one name before the first. A nil Value is null. Commas come out
// right in every combination; no other byte changes, white space included. It
// does nothing when obj is absent or no object. drop must not keep its argument.
func (e *Edits) Object(why Reason, raw []byte, obj Span, drop func(key []byte) bool, set ...Field) {
	if KindOf(raw, obj) != '{' {
		return
	}
	var room [16]bool
	present := room[:]
	if len(set) > len(room) {
		present = make([]bool, len(set))
	}
	w := walkObject(raw, obj)
	kept := 0     // end of the last member that stays; 0 when none does
	run := Span{} // of the members just before that go
	for w.next() {
		field := -1
		for i := range set {
			if keyIs(w.b, w.key, set[i].Key) {
				field = i
				present[i] = true
			}
		}
		if field < 0 && drop != nil && drop(unescapedKey(w.b, w.key)) {
			if run.IsZero() {
				run.Start = w.key.Start
			}
			run.End = w.value.End
			continue
		}
		if !run.IsZero() {
			// Up to the next name: the comma goes with the run that it follows.
			e.add(edit{at: Span{run.Start, w.key.Start}, why: why})
			run = Span{}
		}
		if field >= 0 {
			e.add(edit{at: w.value, with: set[field].json(), why: why})
		}
		kept = w.value.End
	}
	if !run.IsZero() {
		if kept > 0 {
			run.Start = kept // no name follows, so the comma before goes instead
		}
		e.add(edit{at: run, why: why})
	}
	e.insertFields(why, obj.Start+1, kept > 0, present, set)
}

// insertFields inserts the fields that are not present at one place; comma says
// whether members follow them.
func (e *Edits) insertFields(why Reason, at int, comma bool, present []bool, set []Field) {
	last := -1
	for i := range set {
		for j := i + 1; j < len(set); j++ {
			if set[j].Key == set[i].Key {
				present[i] = true // a later field holds
			}
		}
		if !present[i] {
			last = i
		}
	}
	for i := range set {
		if !present[i] {
			e.add(edit{
				at: Span{at, at}, with: set[i].json(), name: set[i].Key,
				member: true, comma: comma || i != last, why: why,
			})
		}
	}
}

func (f *Field) json() []byte {
	if f.Value == nil {
		return []byte("null")
	}
	return f.Value
}

func unescapedKey(b []byte, key Span) []byte {
	inside := b[key.Start+1 : key.End-1]
	if bytes.IndexByte(inside, '\\') >= 0 {
		return appendText(nil, inside)
	}
	return inside
}

// Splice appends raw with the edits of e applied; every byte of raw that no edit
// covers comes out as it is. An edit within bytes that another replaces is void,
// and so is a second one for the same bytes. dst must not overlap raw. It
// allocates only where dst is too short. raw must be the bytes that the edits
// were made for: positions beyond its end count as its end.
func Splice(dst, raw []byte, e *Edits) []byte {
	list := e.all()
	if e.mixed {
		slices.SortStableFunc(list, compare)
		e.mixed = false
	}
	grow := len(raw)
	for i := range list {
		x := &list[i]
		grow += x.size() + x.at.Start - x.at.End
	}
	dst = slices.Grow(dst, max(grow, 0))
	from := 0 // up to here raw has been dealt with
	for i := range list {
		x := &list[i]
		at, ok := x.place(from, len(raw))
		if !ok {
			continue
		}
		dst = x.appendTo(append(dst, raw[from:at.Start]...))
		from = at.End
	}
	return append(dst, raw[from:]...)
}

// place returns the bytes that an edit replaces when those before from are dealt with,
// and false when it is void: it lies within what another edit has replaced.
func (x *edit) place(from, size int) (at Span, ok bool) {
	start, end := min(x.at.Start, size), min(x.at.End, size)
	if start < from {
		// Void, or a removal that another one overlaps at its front.
		if end <= from {
			return Span{}, false
		}
		start = from
	}
	return Span{start, max(end, start)}, true
}

// size returns about how many bytes appendTo appends, never fewer unless the name has
// to be escaped.
func (x *edit) size() int {
	if x.member {
		return len(x.name) + len(x.with) + len(`"":,`)
	}
	return len(x.with)
}

// appendTo appends what the edit writes.
func (x *edit) appendTo(dst []byte) []byte {
	if x.member {
		dst = append(AppendQuote(dst, x.name), ':')
	}
	dst = append(dst, x.with...)
	if x.comma {
		dst = append(dst, ',')
	}
	return dst
}
