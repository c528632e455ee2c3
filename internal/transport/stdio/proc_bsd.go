//go:build unix && !linux

package stdio

import (
	"os"
	"strconv"
	"syscall"
)

// dieWithUs does nothing: there is no such thing here. When we die a child finds
// its input closed, which 2026-07-28 §stdio tells it to end upon.
func dieWithUs(*syscall.SysProcAttr) {}

// sealInherited keeps descriptors that we were started with from our children.
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

// kin are looked for on Linux only.
type kin struct{}

func kinOf(int) kin      { return kin{} }
func (kin) join(kin) kin { return kin{} }
func (kin) kill()        {}
func (kin) alive() bool  { return false }
