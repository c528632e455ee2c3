//go:build race

package dialect

// raceEnabled says whether the race detector is on. If so, sync.Pool drops objects at random, so
// tests cannot count allocations.
const raceEnabled = true
