package jsonrpc

import (
	"bytes"
	"slices"
	"sync"
)

// Trail records the splices of one call: what went in, the changes with their reasons,
// what came out. It keeps copies and stops at its bound. A nil Trail records nothing.
// Safe for concurrent use.
type Trail struct {
	mu     sync.Mutex
	left   int // bytes that may still be kept
	stages []Stage
	missed int
}

// Stage is one splice. A message that passes several has a stage for each: the output of
// one is the input of the next.
type Stage struct {
	Input   []byte
	Changes []Change // in the order of their positions, none within another
	Output  []byte
}

// Change is one edit as it was applied: With stands in place of the bytes At.
type Change struct {
	Why  Reason
	At   Span // of the stage's input; empty for an insertion
	With []byte
}

// What a stage and a change are counted for beside their bytes.
const (
	stageCost  = 96
	changeCost = 48
)

// NewTrail returns a Trail that keeps about so many bytes.
func NewTrail(limit int) *Trail { return &Trail{left: limit} }

// Splice is Splice, and records a stage.
func (t *Trail) Splice(dst, raw []byte, e *Edits) []byte {
	out := Splice(dst, raw, e)
	if t != nil {
		t.keep(raw, e, out[len(dst):])
	}
	return out
}

// Stages returns what was recorded so far, in the order of the splices, and how many
// stages had no room. The caller must not change the stages.
func (t *Trail) Stages() (stages []Stage, missed int) {
	if t == nil {
		return nil, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.stages), t.missed
}

// keep records a stage, unless it would go beyond the bound. The edits are in order,
// since they were spliced.
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

// applied returns the edits of list that Splice applies to a message of so many bytes,
// as it applies them.
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
