package stdio

import (
	"syscall"
	"unsafe"
)

func awaitZombie(pid int) {
	const idPID = 1       // value of P_PID in <sys/wait.h>
	var siginfo [16]int64 // waitid needs memory for a siginfo_t; the content is not used
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idPID, uintptr(pid),
			uintptr(unsafe.Pointer(&siginfo)), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}
