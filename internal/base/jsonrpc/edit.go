package jsonrpc

import (
	"bytes"
	"cmp"
	"slices"
)

// Edits collects the changes to one message. The zero value is empty and ready to use. The changes
// may be added in any order, and may concern several objects, including nested objects. All changes
// to the members of one object must be made by one call of Object. Edits is not safe for concurrent
// use. The bytes that are passed to the methods must not be modified before Splice has returned.
type Edits struct {
	n     int
	few   [8]edit // the edits, if there are at most eight
	many  []edit  // all edits, if there are more than eight
	mixed bool    // true if the edits are not sorted by position
}

// Reason is the reason for an edit. The packages that make edits define the values of Reason.
// Package jsonrpc only stores them.
type Reason uint8

// NoReason is the Reason of an edit whose reason is not reported, such as an edit in a test.
const NoReason Reason = 0

// edit replaces one span of bytes. If the edit inserts a member, the name and the value are stored
// separately, to avoid an allocation.
type edit struct {
	at     Span
	with   []byte
	name   string // the name of the inserted member
	member bool
	comma  bool   // true if a comma follows the inserted member
	why    Reason // this field uses a padding byte, so it needs no extra memory
}

// Len returns the number of edits. If there are no edits, Splice only copies.
func (e *Edits) Len() int { return e.n }

// Reset removes all edits. It keeps the memory for later edits.
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

// EditList is a list of edits that is stored with a message until Splice applies the edits. Most
// lists are empty, and an empty list needs little memory. An edit that is added to one copy of an
// EditList is not in other copies. The zero value is empty. The methods correspond to those of
// Edits.
type EditList struct{ edits []edit }

// Len returns the number of edits.
func (l EditList) Len() int { return len(l.edits) }

// Splice calls the function Splice with the edits of the list.
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

// change calls add with the edits of the list. It creates a new slice for the result, because a
// copy of the list may use the old slice.
func (l *EditList) change(add func(*Edits)) {
	var e Edits
	e.AddAll(*l)
	add(&e)
	l.edits = slices.Clone(e.all())
}

// compare orders edits by position. At the same position, an insertion comes before a
// replacement, and a longer replacement comes before a shorter one.
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

// Replace replaces the bytes of a span by other bytes. If the new bytes are empty, the old bytes
// are removed. If the span is absent, nothing changes.
func (e *Edits) Replace(why Reason, at Span, with []byte) {
	if !at.IsZero() {
		e.add(edit{at: at, with: with, why: why})
	}
}

// Insert inserts bytes before the byte at an offset. Insertions at the same offset keep the order
// in which they were added.
func (e *Edits) Insert(why Reason, at int, with []byte) {
	e.add(edit{at: Span{at, at}, with: with, why: why})
}

// Object edits the members of the object obj in raw. raw must have been scanned.
//
//   - Object removes each member for whose unescaped name drop returns true. If drop is nil, no member is removed.
//   - If a field in set has the name of a member, Object replaces the member's value.
//   - Object inserts the other fields of set after the opening brace.
//
// set takes precedence over drop. If two fields have the same name, Object uses the last field. A
// nil Value means null. Object also adds and removes commas. No other byte changes, not even white
// space. If obj is absent or not an object, Object has no effect. drop must not keep its argument.
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
	kept := 0     // the end of the last member that is kept, or 0
	run := Span{} // the removed members directly before the current member
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
			// Remove everything up to the name of the current member, including the comma.
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
			run.Start = kept // no member follows, so also remove the comma before the removed members
		}
		e.add(edit{at: run, why: why})
	}
	e.insertFields(why, obj.Start+1, kept > 0, present, set)
}

// insertFields inserts the fields that are not present. It inserts all of them at one offset, the
// parameter at. comma says whether other members follow the inserted fields.
func (e *Edits) insertFields(why Reason, at int, comma bool, present []bool, set []Field) {
	last := -1
	for i := range set {
		for j := i + 1; j < len(set); j++ {
			if set[j].Key == set[i].Key {
				present[i] = true // a later field takes precedence
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

// Splice appends raw to dst with the edits of e applied. raw must be the bytes for which the edits
// were made. Splice copies every byte of raw that no edit covers. An edit within bytes that another
// edit replaces has no effect. If two edits replace the same bytes, only the edit that was added
// first has an effect. A position beyond the end of raw is treated as the end of raw. dst must not
// overlap raw. Splice allocates only if the capacity of dst is too small.
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
	from := 0 // the bytes before this offset are done
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

// place returns the span that an edit replaces. The parameter from is the offset up to which Splice
// has handled the bytes, and size is the length of the message. ok is false if the edit has no
// effect, because another edit has replaced the bytes.
func (x *edit) place(from, size int) (at Span, ok bool) {
	start, end := min(x.at.Start, size), min(x.at.End, size)
	if start < from {
		// Another edit has replaced the bytes before from. If bytes of x remain after from, x
		// replaces only these bytes.
		if end <= from {
			return Span{}, false
		}
		start = from
	}
	return Span{start, max(end, start)}, true
}

// size estimates how many bytes appendTo appends. The estimate is too small only if the member's
// name needs escapes.
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

// Change is one edit, as it was applied.
type Change struct {
	Why Reason
	At  Span // the replaced bytes, in the input; empty for an insertion
	To  Span // the new bytes, in the output; empty for a removal
}

// Changes appends to dst what the edits change in a message of size bytes. [Splice] must have applied
// the edits before.
func (e *Edits) Changes(dst []Change, size int) []Change {
	from, grown := 0, 0
	list := e.all()
	for i := range list {
		x := &list[i]
		at, ok := x.place(from, size)
		if !ok {
			continue
		}
		n := x.written()
		dst = append(dst, Change{Why: x.why, At: at, To: Span{at.Start + grown, at.Start + grown + n}})
		grown += n - (at.End - at.Start)
		from = at.End
	}
	return dst
}

// written returns the number of bytes that appendTo appends.
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
