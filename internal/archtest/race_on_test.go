//go:build race

package archtest

// raceEnabled says that the race detector is on.
const raceEnabled = true
