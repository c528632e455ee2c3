//go:build unix

package sqldb

import "golang.org/x/sys/unix"

// writable returns an error if this user can't create files in a folder.
func writable(folder string) error { return unix.Access(folder+"/.", unix.W_OK|unix.X_OK) }
