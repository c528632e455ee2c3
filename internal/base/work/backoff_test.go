package work

import (
	"testing"
	"time"
)

func TestBackoffDoublesUpToItsCeiling(t *testing.T) {
	for _, test := range []struct {
		name string
		b    Backoff
		want []time.Duration
	}{
		{"defaults", Backoff{}, []time.Duration{
			time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second,
			64 * time.Second, 128 * time.Second, 256 * time.Second, 5 * time.Minute, 5 * time.Minute,
		}},
		{"own", Backoff{First: 3 * time.Second, Ceiling: 10 * time.Second}, []time.Duration{
			3 * time.Second, 6 * time.Second, 10 * time.Second, 10 * time.Second,
		}},
		{"a first pause over the ceiling", Backoff{First: time.Hour, Ceiling: time.Minute}, []time.Duration{time.Minute, time.Minute}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := test.b
			for i, longest := range test.want {
				if got := b.Longest(i + 1); got != longest {
					t.Errorf("Longest(%d) = %s, want %s", i+1, got, longest)
				}
				if got := b.Fail(); got > longest || got < longest/2 {
					t.Errorf("pause %d is %s, want %s to %s", i+1, got, longest/2, longest)
				}
				if b.Failures() != i+1 {
					t.Errorf("%d failures after %d", b.Failures(), i+1)
				}
			}
			b.Reset()
			if got := b.Fail(); got > test.want[0] || b.Failures() != 1 {
				t.Errorf("after Reset: a pause of %s, %d failures", got, b.Failures())
			}
			if got := b.Longest(1 << 30); got != test.want[len(test.want)-1] {
				t.Errorf("after many failures: %s", got)
			}
		})
	}
}

func TestBackoffsOfTwoAreApart(t *testing.T) {
	var a, b Backoff
	for range 100 {
		if a.Pause(5) != b.Pause(5) {
			return
		}
	}
	t.Error("100 pauses of two back-offs were the same")
}
