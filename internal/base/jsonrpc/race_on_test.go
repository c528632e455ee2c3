//go:build race

package jsonrpc

// raceEnabled says whether the program was built with the race detector. In such a build, sync.Pool
// drops objects at random, so allocation counts are useless.
const raceEnabled = true
