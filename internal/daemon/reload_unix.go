//go:build unix

package daemon

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyReload asks for the signal that means: read the configuration again.
func notifyReload(c chan<- os.Signal) { signal.Notify(c, syscall.SIGHUP) }
