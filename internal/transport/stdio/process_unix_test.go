//go:build unix

package stdio

import (
	"os/exec"
	"syscall"
)

func detach(cmd *exec.Cmd, really bool) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: really} }
