//go:build unix

package admin

import (
	"errors"
	"os"
	"syscall"
)

// CheckPrivate returns an error if other users can put files into a folder. For root, the folder may
// belong to any user: with sudo, HOME is often that of the user.
func CheckPrivate(folder string) error {
	st, err := os.Stat(folder)
	if err != nil {
		return err
	}
	owner, ok := st.Sys().(*syscall.Stat_t)
	if me := os.Geteuid(); !ok || st.Mode()&0o022 != 0 || me != 0 && int(owner.Uid) != me {
		return errShared
	}
	return nil
}

func processExists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
