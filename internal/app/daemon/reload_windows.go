package daemon

import "os"

// notifyDump does nothing, because Windows has no SIGUSR1. On Windows, users can get the status
// from /api/v1/status.
func notifyDump(chan<- os.Signal) {}

// notifyReload does nothing, because Windows has no SIGHUP. Dragoman only watches the file for
// changes.
func notifyReload(chan<- os.Signal) {}
