package admin

import "os"

// CheckPrivate returns an error if the folder does not exist. Only the user can write to
// %LocalAppData%, unless the user has changed that.
func CheckPrivate(folder string) error {
	_, err := os.Stat(folder)
	return err
}

func processExists(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	_ = p.Release()
	return true
}
