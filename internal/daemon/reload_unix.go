//go:build unix

package daemon

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyDump subscribes to SIGUSR1, which asks for a dump of the status.
func notifyDump(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR1) }

// notifyReload subscribes to SIGHUP, which asks to read the configuration again.
func notifyReload(c chan<- os.Signal) { signal.Notify(c, syscall.SIGHUP) }
