//go:build unix

package cli

import (
	"os"
	"syscall"
)

// ofOther reports whether a file belongs to another user, who is not root. For root it returns false.
func ofOther(path string) bool {
	st, err := os.Stat(path)
	return err == nil && ofOtherThan(st, os.Geteuid())
}

func ofOtherThan(st os.FileInfo, me int) bool {
	owner, ok := st.Sys().(*syscall.Stat_t)
	return ok && me != 0 && owner.Uid != 0 && int(owner.Uid) != me
}
