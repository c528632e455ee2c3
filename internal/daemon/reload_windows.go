package daemon

import "os"

// notifyDump does nothing: Windows has no such signal. /api/v1/status has the same content.
func notifyDump(chan<- os.Signal) {}

// notifyReload does nothing: Windows has no such signal. The file is watched for changes
// instead.
func notifyReload(chan<- os.Signal) {}
