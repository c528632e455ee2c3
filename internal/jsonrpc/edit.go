package jsonrpc

import (
	"bytes"
	"cmp"
	"slices"
)

// Edits collects the changes to one message. The zero value is empty and ready to use. Changes may
// be added in any order, and to several objects, including nested objects. All changes to the
// members of one object must be made by one call of Object. Edits is not safe for concurrent use.
// The bytes that are passed to the methods must not be modified before Splice has returned.
type Edits struct {
	n     int
	few   [8]edit // the edits, if they fit
	many  []edit  // all edits, once few is full
	mixed bool    // the edits are not sorted by position
}

// Reason is the reason for an edit. The packages that make edits define its values; this
// package only stores them.
type Reason uint8

// NoReason is the Reason of edits whose reason is not reported, such as those of test tools and
// tests.
const NoReason Reason = 0

// edit replaces one span of bytes. A member to insert is stored as a name and a value, to avoid an
// allocation.
type edit struct {
	at     Span
	with   []byte
	name   string // name of an inserted member
	member bool
	comma  bool   // a comma follows the inserted member
	why    Reason // this field uses a padding byte, so it needs no extra memory
}

// Len returns the number of edits. If it is 0, Splice only copies.
func (e *Edits) Len() int { return e.n }

// Reset removes all edits but keeps their memory for later edits.
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

// EditList is a list of edits that belongs to a message until the message is spliced. Most lists
// are empty, and an empty list needs little memory. EditList is a value: an edit that is added to
// one copy is not in other copies. The zero value is empty. Its methods correspond to those of
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

// change calls add with the edits of the list. It creates a new slice for the result, because the
// old slice may belong to a copy of the list.
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

// Object edits the members of the object obj in raw, which must have been scanned:
//
//   - It removes each member if drop returns true for its unescaped name. If drop is nil, no member is removed.
//   - It replaces the values of the members that have the name of a field in set.
//   - It inserts the other fields of set after the opening brace.
//
// set takes precedence over drop. If two fields have the same name, Object uses the last field. A
// nil Value stands for null. Commas are correct in every combination. No other byte changes,
// including white space. If obj is absent or not an object, Object has no effect. drop must not
// keep its argument.
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
	kept := 0     // end of the last member that is kept, or 0
	run := Span{} // the removed members directly before the current one
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
			// Remove everything up to the next name, including the comma.
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
			run.Start = kept // no name follows, so remove the comma before the members
		}
		e.add(edit{at: run, why: why})
	}
	e.insertFields(why, obj.Start+1, kept > 0, present, set)
}

// insertFields inserts the fields that are not present, all at the same place. comma says whether
// other members follow the inserted fields.
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

// Splice appends raw to dst with the edits of e applied. Every byte of raw that no edit covers
// is copied unchanged. An edit within bytes that another edit replaces has no effect. Of two
// edits that replace the same bytes, only the first has an effect. dst must not overlap raw.
// Splice allocates only if dst is too short. raw must be the bytes that the edits were made
// for. A position beyond the end of raw counts as its end.
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
	from := 0 // bytes before this offset are done
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

// place returns the span that an edit replaces. The parameter from is the offset up to which the
// bytes have been handled. ok is false if the edit has no effect, because another edit has replaced
// its bytes.
func (x *edit) place(from, size int) (at Span, ok bool) {
	start, end := min(x.at.Start, size), min(x.at.End, size)
	if start < from {
		// The edit has no effect, or it is a removal whose start another edit overlaps.
		if end <= from {
			return Span{}, false
		}
		start = from
	}
	return Span{start, max(end, start)}, true
}

// size estimates how many bytes appendTo appends. The estimate is too small only if the name
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
