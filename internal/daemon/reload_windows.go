package daemon

import "os"

// notifyDump does nothing: Windows has no such signal, /api/v1/status says the same.
func notifyDump(chan<- os.Signal) {}

// notifyReload does nothing: Windows has no such signal, the file is watched.
func notifyReload(chan<- os.Signal) {}
