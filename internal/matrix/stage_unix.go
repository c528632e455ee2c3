//go:build !windows

package matrix

import (
	"os"
	"syscall"
)

// interrupt asks a process to end in good order.
func interrupt(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }
