//go:build !windows

package matrix

import (
	"os"
	"syscall"
)

// interrupt asks a process to exit gracefully.
func interrupt(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }
