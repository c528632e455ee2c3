//go:build unix

package vault

import (
	"io/fs"
	"syscall"
)

// nonblock keeps us from waiting for somebody who writes to a pipe.
const nonblock = syscall.O_NONBLOCK

// ownedBy reports whether a file belongs to the user me or to root, who can read everything anyway.
func ownedBy(st fs.FileInfo, me int) bool {
	owner, ok := st.Sys().(*syscall.Stat_t)
	return ok && (owner.Uid == 0 || int(owner.Uid) == me)
}
