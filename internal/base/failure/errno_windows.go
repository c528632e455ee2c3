package failure

import "syscall"

// Error numbers of Winsock. They differ from those of package syscall.
var (
	addressInUse      = []syscall.Errno{syscall.EADDRINUSE, 10048}
	accessDenied      = []syscall.Errno{syscall.EACCES, 10013}
	connectionRefused = []syscall.Errno{syscall.ECONNREFUSED, 10061}
)
