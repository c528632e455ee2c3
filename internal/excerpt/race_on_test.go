//go:build race

package excerpt

// raceEnabled says that the race detector is on. It makes regular expressions about ten times slower,
// so the tests compare fewer texts.
const raceEnabled = true
