package calls

import (
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// HunkKind says what happened to the bytes of a hunk.
type HunkKind string

// The kinds of hunks.
const (
	Same    HunkKind = "same"    // copied
	Changed HunkKind = "changed" // replaced by other bytes
	Added   HunkKind = "added"   // the bytes are only in the message
	Removed HunkKind = "removed" // the bytes are only in the source
	Lost    HunkKind = "lost"    // removed or replaced, because the receiver's revision cannot express the bytes
)

// Hunk is a range of bytes of a source, and the range of bytes of the message that was made from
// this range.
type Hunk struct {
	Kind   HunkKind
	At, To jsonrpc.Span // the range in the source, and the range in the message; either range may be empty
	Why    jsonrpc.Reason
	// Note is the letter of the reason (a, b … z, aa …), or the number of the reason (1, 2 …) if
	// the reason is a loss. Note is "" if Kind is Same.
	Note string
}

// Notes assigns a letter to each reason, or a number if the reason is a loss. The order is the
// order in which Of gets new reasons. The zero value is ready to use. A Notes is not safe for
// concurrent use.
type Notes struct {
	Reasons []jsonrpc.Reason // the reasons with letters, in the order of the letters
	Losses  []jsonrpc.Reason // the reasons with numbers, in the order of the numbers
}

// Of returns the letter or the number of a reason. It assigns a letter or a number to a new reason.
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

// letters returns "a" for 0, "z" for 25 and "aa" for 26.
func letters(i int) string {
	text := ""
	for i++; i > 0; i = (i - 1) / 26 {
		text = string(rune('a'+(i-1)%26)) + text
	}
	return text
}

// KindOf returns the kind of the hunk that contains an edit.
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
// are the lengths of the source and of the message. edits are the recorded changes. The hunks are
// in order, and each byte of the source and of the message is in exactly one hunk. If only the
// beginning of a message was recorded, the last hunks may contain bytes that were not recorded.
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
