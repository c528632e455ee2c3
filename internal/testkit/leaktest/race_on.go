//go:build race

package leaktest

import (
	"os"
	"syscall"
)

// letChildrenExit lets the programs that tests start exit at once. By default os.Exit sleeps
// for a second under the race detector, and some packages start hundreds of programs.
func letChildrenExit() {
	if os.Getenv(RaceOptions) == "" {
		_ = os.Setenv(RaceOptions, "atexit_sleep_ms=0")
	}
}

// Exit ends a test binary that runs as a program. Unlike os.Exit under the race detector, it does
// not sleep, even if the program was started without RaceOptions. Without RaceOptions, a data race
// is reported on stderr but does not change the exit code.
func Exit(code int) {
	if os.Getenv(RaceOptions) == "" {
		syscall.Exit(code)
	}
	os.Exit(code)
}
