//go:build !windows

package failure

import "syscall"

// Error numbers of the operating system.
var (
	addressInUse      = []syscall.Errno{syscall.EADDRINUSE}
	accessDenied      = []syscall.Errno{syscall.EACCES, syscall.EPERM}
	connectionRefused = []syscall.Errno{syscall.ECONNREFUSED}
)
