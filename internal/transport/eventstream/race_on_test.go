//go:build race

package eventstream

// raceEnabled reports whether the race detector is on. With the race detector, sync.Pool drops
// objects at random, so allocation counts are useless.
const raceEnabled = true
