//go:build unix

package daemon

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyDump subscribes to SIGUSR1. On this signal Dragoman prints its status.
func notifyDump(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR1) }

// notifyReload subscribes to SIGHUP. On this signal Dragoman reads the configuration file again.
func notifyReload(c chan<- os.Signal) { signal.Notify(c, syscall.SIGHUP) }
