package access

import (
	"errors"
	"testing"
	"time"
)

// TestLife checks how long people can say that a key is good.
func TestLife(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": DefaultLife, "never": 0, "90d": DefaultLife, "1d": 24 * time.Hour, "24h": 24 * time.Hour, "1h30m": 90 * time.Minute, "1s": time.Second,
		"0": -1, "0d": -1, "10ms": -1, "-1h": -1, "-1d": -1, "d": -1, "1.5d": -1, "+1d": -1, "9999999999999999999d": -1, "106752d": -1, "90": -1, "Never": -1, "90 d": -1, "1d12h": -1,
	} {
		d, err := Life(text)
		var mistake Mistake
		if want < 0 && !errors.As(err, &mistake) || want >= 0 && (err != nil || d != want) {
			t.Errorf("%q: %s %v", text, d, err)
		}
	}
	if d, err := Duration("0d"); d != 0 || err != nil {
		t.Errorf("no time: %s %v", d, err)
	}
}
