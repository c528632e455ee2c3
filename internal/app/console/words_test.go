package console

import (
	"testing"
	"time"
)

// TestSpanText checks that a duration keeps about two digits, and that a short duration is not shown
// as zero.
func TestSpanText(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0 ms", 0: "0 ms", 1: "<0.1 ms", 49 * time.Microsecond: "<0.1 ms", 50 * time.Microsecond: "0.1 ms",
		9_940 * time.Microsecond: "9.9 ms", 42 * time.Millisecond: "42 ms", 610 * time.Millisecond: "0.61 s", 2100 * time.Millisecond: "2.1 s",
		time.Minute: "60 s", 4 * time.Minute: "4 min", 3 * time.Hour: "3 h", 49 * time.Hour: "2 d",
	} {
		if got := spanText(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
