//go:build unix

package config

import "syscall"

// nonblock makes opening a named pipe return at once instead of waiting for a writer. It
// has no effect on regular files.
const nonblock = syscall.O_NONBLOCK
