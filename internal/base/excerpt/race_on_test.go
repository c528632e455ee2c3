//go:build race

package excerpt

// raceEnabled says whether the race detector is on. The race detector makes regular expressions
// about ten times slower, so the tests compare fewer texts.
const raceEnabled = true
