//go:build race

package archtest

// raceEnabled reports whether the race detector is on.
const raceEnabled = true
