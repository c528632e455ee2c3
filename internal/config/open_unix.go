//go:build unix

package config

import "syscall"

// nonblock makes opening a named pipe return at once rather than wait for somebody
// who writes to it. It means nothing for a regular file.
const nonblock = syscall.O_NONBLOCK
