package transport

import "testing"

// A process without others gives out ids as they are, and finds all of them here.
func TestAlone(t *testing.T) {
	var p Places = Alone{}
	for _, id := range []string{"", "x", "m1.x", "\x00"} {
		if p.Mark(id) != id || p.Of(id) != "" {
			t.Errorf("%q is %q, of %q", id, p.Mark(id), p.Of(id))
		}
	}
}
