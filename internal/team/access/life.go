package access

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration reads a duration as people write it: 90d, or what time.ParseDuration reads, such as 24h. It
// isn't negative. The error is a Mistake.
func Duration(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 64); err == nil && n <= math.MaxInt64/uint64(day) {
			return time.Duration(n) * day, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, nil
	}
	return 0, Mistake(strconv.Quote(text) + " is no duration: write a number of days such as 90d, or of hours such as 24h")
}

// Life reads how long a key shall be good: a Duration of at least a second, or never, which is 0. ""
// is DefaultLife.
func Life(text string) (time.Duration, error) {
	switch text {
	case "":
		return DefaultLife, nil
	case "never":
		return 0, nil
	}
	d, err := Duration(text)
	if err == nil && d < time.Second {
		err = Mistake("a key must be good for at least a second; for one that does not expire, say never")
	}
	return d, err
}
