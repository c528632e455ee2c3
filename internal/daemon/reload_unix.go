//go:build unix

package daemon

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyDump asks for the signal that means: say how everything is.
func notifyDump(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR1) }

// notifyReload asks for the signal that means: read the configuration again.
func notifyReload(c chan<- os.Signal) { signal.Notify(c, syscall.SIGHUP) }
