//go:build race

package gateway_test

// raceEnabled: under the race detector sync.Pool forgets on purpose, so
// allocations say nothing.
const raceEnabled = true
