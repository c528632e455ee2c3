package jsonrpc

import (
	"bytes"
	"cmp"
	"slices"
)

// Edits collects the changes to one message. The zero value is empty and ready to use.
// Edits may be added in any order. Edits of several objects combine, nested objects
// included; edit one object with one call of Object. Edits is not safe for concurrent
// use. Do not write to the bytes that edits are given before Splice.
type Edits struct {
	n     int
	few   [8]edit // the edits, while they fit
	many  []edit  // all of them, once few is full
	mixed bool    // not sorted by position
}

// Reason is the reason for an edit. Its values are defined by the packages that make
// edits; this package only stores them.
type Reason uint8

// NoReason is the Reason of edits that nobody reads: those of test tools and tests.
const NoReason Reason = 0

// edit replaces the bytes at. A member to insert is kept as name and value, so that
// nothing has to be allocated for it.
type edit struct {
	at     Span
	with   []byte
	name   string // of an inserted member
	member bool
	comma  bool   // after the inserted member
	why    Reason // takes no room: this was padding
}

// Len returns the number of changes. 0 means that Splice only copies.
func (e *Edits) Len() int { return e.n }

// Reset removes all edits and keeps the memory.
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

// AddAll adds the edits of a list.
func (e *Edits) AddAll(list EditList) {
	for _, x := range list.edits {
		e.add(x)
	}
}

// EditList is a list of edits that a message carries until it is spliced. It takes little
// room while it is empty, which most are. It is a value: an edit that is added to one copy
// is not in the others. The zero value is empty. The methods are those of Edits.
type EditList struct{ edits []edit }

// Len returns the number of edits.
func (l EditList) Len() int { return len(l.edits) }

// Splice is the function Splice for a list.
func (l EditList) Splice(dst, raw []byte) []byte {
	var e Edits
	e.AddAll(l)
	return Splice(dst, raw, &e)
}

// Replace adds an edit; see Edits.Replace.
func (l *EditList) Replace(why Reason, at Span, with []byte) {
	l.change(func(e *Edits) { e.Replace(why, at, with) })
}

// Object adds edits; see Edits.Object.
func (l *EditList) Object(why Reason, raw []byte, obj Span, drop func(key []byte) bool, set ...Field) {
	l.change(func(e *Edits) { e.Object(why, raw, obj, drop, set...) })
}

// change adds edits to a list of its own, because the old one may belong to a copy.
func (l *EditList) change(add func(*Edits)) {
	var e Edits
	e.AddAll(*l)
	add(&e)
	l.edits = slices.Clone(e.all())
}

// compare orders edits by position. At the same position, insertions come first, then
// the longer of two replacements.
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

// Replace replaces the bytes at by with. An empty with removes them. An absent at
// changes nothing.
func (e *Edits) Replace(why Reason, at Span, with []byte) {
	if !at.IsZero() {
		e.add(edit{at: at, with: with, why: why})
	}
}

// Insert inserts with before the byte at. Insertions at one place keep the order in
// which they were added.
func (e *Edits) Insert(why Reason, at int, with []byte) {
	e.add(edit{at: Span{at, at}, with: with, why: why})
}

// Object edits the members of the object obj in raw, which must have been scanned:
//
//   - It removes members whose unescaped name drop reports. A nil drop reports none.
//   - It replaces the values of members that set names.
//   - It inserts the other members of set after the opening brace.
//
// Set takes precedence over drop, and the last of two fields with one name over the
// first. A nil Value is null. Commas are correct in every combination. No other byte
// changes, white space included. Object does nothing if obj is absent or not an object.
// drop must not keep its argument.
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
	kept := 0     // end of the last member that is kept; 0 if none is
	run := Span{} // the removed members just before this one
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
			// Remove up to the next name: the comma after the run goes with it.
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
			run.Start = kept // no name follows, so remove the comma before
		}
		e.add(edit{at: run, why: why})
	}
	e.insertFields(why, obj.Start+1, kept > 0, present, set)
}

// insertFields inserts the fields that are not present, all at one place. comma says
// whether members follow them.
func (e *Edits) insertFields(why Reason, at int, comma bool, present []bool, set []Field) {
	last := -1
	for i := range set {
		for j := i + 1; j < len(set); j++ {
			if set[j].Key == set[i].Key {
				present[i] = true // a later field wins
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

// Splice appends raw to dst with the edits of e applied. Every byte of raw that no edit
// covers is copied unchanged. An edit inside bytes that another edit replaces has no
// effect, and neither has a second edit of the same bytes. dst must not overlap raw.
// Splice allocates only if dst is too short. raw must be the bytes that the edits were
// made for; positions beyond its end count as its end.
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
	from := 0 // raw is done up to here
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

// place returns the bytes that an edit replaces when those before from are done. It
// returns false if the edit has no effect, because another edit has replaced those
// bytes.
func (x *edit) place(from, size int) (at Span, ok bool) {
	start, end := min(x.at.Start, size), min(x.at.End, size)
	if start < from {
		// No effect, or a removal whose start another one overlaps.
		if end <= from {
			return Span{}, false
		}
		start = from
	}
	return Span{start, max(end, start)}, true
}

// size returns about how many bytes appendTo appends. It is too small only if the name
// needs escapes.
func (x *edit) size() int {
	if x.member {
		return len(x.name) + len(x.with) + len(`"":,`)
	}
	return len(x.with)
}

// appendTo appends the bytes that the edit writes.
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
