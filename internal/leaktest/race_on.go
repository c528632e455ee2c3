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

// Exit ends a program that a test binary plays. It does not sleep as os.Exit does under the race
// detector, even if the program was started without RaceOptions. Then the exit code does not say
// that there was a race; stderr does.
func Exit(code int) {
	if os.Getenv(RaceOptions) == "" {
		syscall.Exit(code)
	}
	os.Exit(code)
}
