//go:build unix && !linux

package stdio

import (
	"os"
	"strconv"
	"syscall"
)

// dieWithUs does nothing, because these systems have no such feature. When we exit, a
// child finds its stdin closed, and 2026-07-28 §stdio tells it to exit then.
func dieWithUs(*syscall.SysProcAttr) {}

// sealInherited prevents our children from inheriting descriptors that we were started
// with.
func sealInherited() {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// descendants are tracked on Linux only.
type descendants struct{}

func descendantsOf(int) descendants              { return descendants{} }
func (descendants) join(descendants) descendants { return descendants{} }
func (descendants) kill()                        {}
func (descendants) alive() bool                  { return false }
