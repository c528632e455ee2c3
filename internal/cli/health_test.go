package cli

import "testing"

// TestHealthShowsTemplatesApart checks how the table of list shows the numbers of resources and
// templates.
func TestHealthShowsTemplatesApart(t *testing.T) {
	for want, counts := range map[string]map[string]int{
		"-": {}, "3": {"resources": 3, "templates": 0}, "3 + 2": {"resources": 3, "templates": 2}, "0 + 1": {"resources": 0, "templates": 1},
	} {
		h := health{Name: "s", State: stateReady, Counts: counts}
		if got := h.cells()[6].Text; got != want {
			t.Errorf("%v: %q, want %q", counts, got, want)
		}
	}
}
