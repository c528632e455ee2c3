package console

import "testing"

// TestAxis checks that the five labels of an axis differ, for any length of a call.
func TestAxis(t *testing.T) {
	for end := 1e-6; end < 1e4; end *= 1.37 {
		seen := map[string]bool{}
		for i := range 5 {
			seen[axisText(end*float64(i)/4, end/4)] = true
		}
		if len(seen) != 5 {
			t.Errorf("an axis of %g s has the labels %v", end, seen)
		}
	}
	for _, c := range []struct {
		at, step float64
		want     string
	}{{0.000_3, 0.000_075, "0.300 ms"}, {0.25, 0.125, "250 ms"}, {1.965, 1.965, "2.0 s"}, {900, 300, "900 s"}} {
		if got := axisText(c.at, c.step); got != c.want {
			t.Errorf("%g with steps of %g: %q, want %q", c.at, c.step, got, c.want)
		}
	}
}
