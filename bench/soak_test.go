package main

import (
	"errors"
	"testing"
)

// TestSlopes checks that each gauge that grows, or a wrong answer, fails a soak, and that noise and
// the first half do not.
func TestSlopes(t *testing.T) {
	run := func(wrong int, value func(i, gauge int) float64) error {
		samples := make([]readings, soakSamples)
		for i := range samples {
			for g := range gauges {
				samples[i][g] = value(i, g)
			}
		}
		k := &soaking{}
		for range wrong {
			k.complain(errors.New("the answer of another"))
		}
		return k.slopes(samples)
	}
	for name, value := range map[string]func(i, gauge int) float64{
		"flat":       func(int, int) float64 { return 1000 },
		"noise":      func(i, _ int) float64 { return 1000 + float64(i%2*20) },
		"first half": func(i, _ int) float64 { return float64(min(i, soakSamples/2)) },
		"shrinks":    func(i, _ int) float64 { return 1000 - float64(i) },
	} {
		if err := run(0, value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for grows, gauge := range gauges {
		if run(0, func(i, g int) float64 {
			if g == grows {
				return 1000 + 2*float64(i)
			}
			return 1000
		}) == nil {
			t.Errorf("%s may grow", gauge.title)
		}
	}
	if run(1, func(int, int) float64 { return 1000 }) == nil {
		t.Error("a wrong answer is accepted")
	}
}
