//go:build !race

package excerpt

const raceEnabled = false
