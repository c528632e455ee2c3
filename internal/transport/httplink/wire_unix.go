//go:build unix

package httplink

import "syscall"

// canLook reports whether we can write to a connection, and look at it, without waiting.
const canLook = true

func (w *wire) putBytes(fd uintptr) bool {
	for len(w.first)+len(w.rest) > 0 {
		n, err := writeParts(int(fd), w.first, w.rest)
		n = max(n, 0)
		k := min(n, len(w.first))
		w.first, w.rest, w.n = w.first[k:], w.rest[n-k:], w.n+n
		switch err {
		case nil, syscall.EINTR:
		case syscall.EAGAIN:
			return true
		default:
			w.err = err
			return true
		}
	}
	return true
}

// writeParts writes some bytes of first, or of both.
func writeParts(fd int, first, rest []byte) (int, error) {
	switch {
	case len(first) == 0:
		return syscall.Write(fd, rest)
	case len(rest) == 0:
		return syscall.Write(fd, first)
	}
	return writeBoth(fd, first, rest)
}

func (w *wire) lookForBytes(fd uintptr) bool {
	_, w.err = syscall.Read(int(fd), w.one[:])
	return true
}
