//go:build race

package calls

// raceEnabled says that the race detector is on. Then sync.Pool drops objects at random, so
// allocation counts are useless.
const raceEnabled = true
