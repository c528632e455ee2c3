package calls

import (
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// HunkKind says what happened to the bytes of a hunk.
type HunkKind string

// The kinds of hunks.
const (
	Same    HunkKind = "same"    // copied
	Changed HunkKind = "changed" // replaced by other bytes
	Added   HunkKind = "added"   // the bytes are only in the message
	Removed HunkKind = "removed" // the bytes are only in the source
	Lost    HunkKind = "lost"    // removed or replaced, because a revision cannot express it
)

// Hunk is a run of bytes of a source and of the message that was made from it.
type Hunk struct {
	Kind   HunkKind
	At, To jsonrpc.Span // the bytes in the source, and those in the message; a span is empty if the hunk has no bytes there
	Why    jsonrpc.Reason
	// Note is the letter of the reason (a, b … z, aa …), or its number (1, 2 …) if something
	// is lost. It is "" for Same.
	Note string
}

// Notes gives each reason a letter and each loss a number, in the order of the calls to Of. The
// zero value is ready to use. It is not safe for concurrent use.
type Notes struct {
	Reasons []jsonrpc.Reason // the reasons with letters, in the order of the letters
	Losses  []jsonrpc.Reason // the reasons with numbers, in the order of the numbers
}

// Of returns the letter or the number of a reason.
func (n *Notes) Of(why jsonrpc.Reason) string {
	if _, lost := IsLoss(why); lost {
		return strconv.Itoa(1 + place(&n.Losses, why))
	}
	return letters(place(&n.Reasons, why))
}

// place returns the index of a reason in a list. It appends a reason that is not in the list.
func place(list *[]jsonrpc.Reason, why jsonrpc.Reason) int {
	for i, x := range *list {
		if x == why {
			return i
		}
	}
	*list = append(*list, why)
	return len(*list) - 1
}

// letters returns a for 0, z for 25 and aa for 26.
func letters(i int) string {
	text := ""
	for i++; i > 0; i = (i - 1) / 26 {
		text = string(rune('a'+(i-1)%26)) + text
	}
	return text
}

// KindOf returns the kind of the hunk of an edit.
func KindOf(e Edit) HunkKind {
	_, lost := IsLoss(e.Why)
	switch {
	case lost && e.At.End > e.At.Start:
		return Lost
	case e.At.End == e.At.Start:
		return Added
	case e.To.End == e.To.Start:
		return Removed
	}
	return Changed
}

// Hunks returns the hunks of a message that was made from a source. The parameters source and size
// are the lengths of the source and of the message. edits are the recorded changes. Each byte of
// the source and of the message is in exactly one hunk, in order. If a message was cut, the spans
// of its last hunks lie beyond the recorded bytes.
func Hunks(source, size int, edits []Edit, notes *Notes) (hunks []Hunk) {
	at, to := 0, 0
	same := func(atEnd, toEnd int) {
		if atEnd > at || toEnd > to {
			hunks = append(hunks, Hunk{Kind: Same, At: jsonrpc.Span{Start: at, End: atEnd}, To: jsonrpc.Span{Start: to, End: toEnd}})
		}
	}
	for _, e := range edits {
		same(e.At.Start, e.To.Start)
		hunks = append(hunks, Hunk{Kind: KindOf(e), At: e.At, To: e.To, Why: e.Why, Note: notes.Of(e.Why)})
		at, to = e.At.End, e.To.End
	}
	same(source, size)
	return hunks
}
