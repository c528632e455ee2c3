//go:build unix

package config

import "syscall"

// nonblock makes opening a named pipe return at once rather than wait for a writer. It
// has no effect on a regular file.
const nonblock = syscall.O_NONBLOCK
