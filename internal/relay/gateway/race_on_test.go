//go:build race

package gateway_test

// raceEnabled says whether the program was built with the race detector. In such a build, sync.Pool
// drops objects at random, so allocation counts are useless.
const raceEnabled = true
