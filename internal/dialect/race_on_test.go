//go:build race

package dialect

// raceEnabled: under the race detector sync.Pool forgets on purpose, so
// allocations say nothing.
const raceEnabled = true
