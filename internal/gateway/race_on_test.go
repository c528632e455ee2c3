//go:build race

package gateway_test

// raceEnabled: under the race detector sync.Pool drops objects on purpose, so allocation
// counts mean nothing.
const raceEnabled = true
