//go:build unix

package stdio

import (
	"os/exec"
	"syscall"
)

// commandLine is for Windows, where a process gets its arguments in one text.
func commandLine() string { return "" }

func detach(cmd *exec.Cmd, really bool) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: really} }
