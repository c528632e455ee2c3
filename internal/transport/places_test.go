package transport

import "testing"

// TestAlone checks that a single process does not change ids, and that all ids belong to this process.
func TestAlone(t *testing.T) {
	var p Places = Alone{}
	for _, id := range []string{"", "x", "m1.x", "\x00"} {
		if p.Mark(id) != id || p.Of(id) != "" {
			t.Errorf("the id %q became %q, with the home %q", id, p.Mark(id), p.Of(id))
		}
	}
}
