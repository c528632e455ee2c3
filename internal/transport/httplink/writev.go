//go:build darwin || linux || openbsd

package httplink

import "golang.org/x/sys/unix"

func writeBoth(fd int, first, rest []byte) (int, error) {
	return unix.Writev(fd, [][]byte{first, rest})
}
