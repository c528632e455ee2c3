//go:build unix && !darwin && !linux && !openbsd

package httplink

import "syscall"

func writeBoth(fd int, first, _ []byte) (int, error) { return syscall.Write(fd, first) }
