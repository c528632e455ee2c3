package jsonrpc

import (
	"bytes"
	"slices"
	"sync"
)

// Trail records the splices of one call: the input, the changes with their reasons, and the
// output. It keeps copies, and stops when its limit is reached. A nil Trail records nothing.
// Trail is safe for concurrent use.
type Trail struct {
	mu     sync.Mutex
	left   int // number of bytes that may still be kept
	stages []Stage
	missed int
}

// Stage is one splice. A message that is spliced several times has one stage for each splice.
// The output of one stage is the input of the next.
type Stage struct {
	Input   []byte
	Changes []Change // ordered by position; changes do not overlap
	Output  []byte
}

// Change is one edit, as it was applied. With replaces the bytes At.
type Change struct {
	Why  Reason
	At   Span // position in the stage's input; empty for an insertion
	With []byte
}

// stageCost and changeCost are the memory of a stage and of a change in addition to their
// contents, in bytes.
const (
	stageCost  = 96
	changeCost = 48
)

// NewTrail returns a Trail that keeps about limit bytes.
func NewTrail(limit int) *Trail { return &Trail{left: limit} }

// Splice calls the function Splice and records a stage.
func (t *Trail) Splice(dst, raw []byte, e *Edits) []byte {
	out := Splice(dst, raw, e)
	if t != nil {
		t.keep(raw, e, out[len(dst):])
	}
	return out
}

// Stages returns the recorded stages in order, and the number of stages that did not fit. The
// caller must not modify the stages.
func (t *Trail) Stages() (stages []Stage, missed int) {
	if t == nil {
		return nil, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.stages), t.missed
}

// keep records a stage, unless that would exceed the limit. The edits are already sorted,
// because Splice sorts them.
func (t *Trail) keep(raw []byte, e *Edits, out []byte) {
	list := e.all()
	cost := stageCost + len(raw) + len(out)
	for i := range list {
		cost += changeCost + list[i].size()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if cost > t.left {
		t.missed++
		return
	}
	t.left -= cost
	t.stages = append(t.stages, Stage{Input: bytes.Clone(raw), Changes: applied(list, len(raw)), Output: bytes.Clone(out)})
}

// applied returns those edits of list that have an effect on a message of size bytes, in the
// form in which Splice applies them.
func applied(list []edit, size int) []Change {
	if len(list) == 0 {
		return nil
	}
	changes := make([]Change, 0, len(list))
	from := 0
	for i := range list {
		x := &list[i]
		at, ok := x.place(from, size)
		if !ok {
			continue
		}
		changes = append(changes, Change{Why: x.why, At: at, With: x.appendTo(nil)})
		from = at.End
	}
	return changes
}
