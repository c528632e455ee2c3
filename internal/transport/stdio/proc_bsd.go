//go:build unix && !linux

package stdio

import (
	"os"
	"strconv"
	"syscall"
)

// dieWithUs does nothing, because most Unix systems except Linux cannot kill a child when its
// parent exits. When this process exits, the stdin of each child is closed. 2026-07-28 §stdio
// requires the child to exit then.
func dieWithUs(*syscall.SysProcAttr) {}

// sealInherited prevents children from inheriting the descriptors that this process inherited.
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

// descendants has no fields, because descendants are tracked only on Linux.
type descendants struct{}

func descendantsOf(int) descendants              { return descendants{} }
func (descendants) join(descendants) descendants { return descendants{} }
func (descendants) kill()                        {}
func (descendants) alive() bool                  { return false }
