//go:build unix

package cli

import "syscall"

// apart makes a process belong to a session of its own.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
