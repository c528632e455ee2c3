package pins

import "slices"

// What is kept of one server, so that one that changes all the time takes nobody else's room. What protects is always
// kept: the hash of what was seen first, and of what was approved last.
const (
	MaxDefinitions = 8 << 20 // how many bytes of definitions; those that come later have their hash alone
	MaxDecided     = 64      // how many decisions about one ID; the oldest go
)

// Room is what is left for the definitions of each server.
type Room map[string]int

// RoomAfter returns what is left after what is kept already.
func RoomAfter(kept []Pin) Room {
	r := Room{}
	for i := range kept {
		r.take(kept[i].Server, len(kept[i].Definition))
	}
	return r
}

func (r Room) take(server string, n int) {
	left, ok := r[server]
	if !ok {
		left = MaxDefinitions
	}
	r[server] = left - n
}

// Fit returns a pin as it's kept: without its definition, if there is no room for that.
func (r Room) Fit(p Pin) Pin {
	if r.take(p.Server, len(p.Definition)); r[p.Server] < 0 {
		r[p.Server] += len(p.Definition)
		p.Definition = nil
	}
	return p
}

// Bound drops the oldest decisions about an ID, if there are too many, and reports whether there were.
func Bound(all []Pin, id ID) (rest []Pin, dropped bool) {
	isDecision := func(p Pin) bool { return p.ID == id && p.State != Trusted }
	var decided []Pin
	for _, p := range all {
		if isDecision(p) {
			decided = append(decided, p)
		}
	}
	if len(decided) <= MaxDecided {
		return all, false
	}
	slices.SortStableFunc(decided, func(a, b Pin) int { return b.Since.Compare(a.Since) })
	oldest := decided[MaxDecided-1].Since
	return slices.DeleteFunc(all, func(p Pin) bool { return isDecision(p) && p.Since.Before(oldest) }), true
}
