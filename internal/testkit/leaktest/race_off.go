//go:build !race

package leaktest

import "os"

func letChildrenExit() {}

// Exit ends a test binary that runs as a program.
func Exit(code int) { os.Exit(code) }
