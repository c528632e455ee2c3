package work

import (
	"math/rand/v2"
	"time"
)

// Backoff computes the pauses between attempts. With each consecutive failure the pause doubles,
// from First up to Ceiling. Each pause is shortened by a random amount of at most half, so that
// attempts that failed at the same time are not repeated at the same time. A Backoff has no
// goroutine and no timer. The zero value is ready to use. A Backoff is not safe for concurrent use,
// except for Pause and Longest, which do not change it.
type Backoff struct {
	// First is the maximum pause after the first failure. Zero means 1 s.
	First time.Duration
	// Ceiling is the upper bound of all pauses. Zero means 5 min.
	Ceiling time.Duration

	failures int
}

// These are the defaults of a Backoff.
const (
	firstPause   = time.Second
	pauseCeiling = 5 * time.Minute
)

// Fail counts a failure and returns the pause before the next attempt.
func (b *Backoff) Fail() time.Duration {
	b.failures++
	return b.Pause(b.failures)
}

// Failures returns the number of failures since the last Reset.
func (b *Backoff) Failures() int { return b.failures }

// Reset clears the count of failures.
func (b *Backoff) Reset() { b.failures = 0 }

// Pause returns the pause after the given number of consecutive failures, which must be at least 1.
// The pause is random, so two calls may return different pauses. Pause does not count a failure.
func (b *Backoff) Pause(failures int) time.Duration {
	longest := b.Longest(failures)
	return longest - rand.N(longest/2+1)
}

// Longest returns the longest pause that Pause can return. The shortest possible pause is half as
// long.
func (b *Backoff) Longest(failures int) time.Duration {
	first, ceiling := b.First, b.Ceiling
	if first <= 0 {
		first = firstPause
	}
	if ceiling <= 0 {
		ceiling = pauseCeiling
	}
	for ; failures > 1 && first < ceiling; failures-- {
		first *= 2
	}
	return min(first, ceiling)
}
