//go:build unix

package stdio

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const reopens = runtime.GOOS == "linux" // /proc/self/fd opens anew

var errExecFormat error = syscall.ENOEXEC

// family is the process group of a child, which leads it. Its signals may be sent
// only until the child is reaped, for then its number may go to another.
type family struct {
	pid int
	kin kin // descendants that have left the group
}

var closeInherited = sync.OnceFunc(sealInherited)

// prepare gives the child a process group of its own. Go's own descriptors are
// closed on exec; those that we were started with get the same once.
func prepare(cmd *exec.Cmd) {
	closeInherited()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithUs(cmd.SysProcAttr)
}

func (f *family) adopt(p *os.Process) error {
	f.pid = p.Pid
	return nil
}

// awaitExit returns when the child has ended. It remains a zombie, so that its
// pid and its group's number cannot be given away.
func (f *family) awaitExit() { awaitZombie(f.pid) }

// note remembers those descendants that no signal to the group would reach, while
// the tree still stands. They are killed in bury.
func (f *family) note() { f.kin = f.kin.join(kinOf(f.pid)) }

// terminate asks the group to end. Who has been stopped must wake up to hear it.
func (f *family) terminate() {
	_ = unix.Kill(-f.pid, unix.SIGTERM)
	_ = unix.Kill(-f.pid, unix.SIGCONT)
}

func (f *family) kill() {
	_ = unix.Kill(-f.pid, unix.SIGKILL)
}

// bury waits, not for long, until all who were killed are gone; the child itself
// is reaped by now. Where we are the adoptive parent (process 1 of a container)
// nobody else would reap them.
func (f *family) bury() {
	f.kin.kill()
	const patience = time.Second
	pause := 500 * time.Microsecond
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(pause) {
		// Signal 0 hurts nobody, should the number have a new owner.
		if unix.Kill(-f.pid, 0) == unix.ESRCH && !f.kin.alive() {
			return
		}
		_, _ = unix.Wait4(-f.pid, nil, unix.WNOHANG, nil)
		pause = min(2*pause, 20*time.Millisecond)
	}
}

func (f *family) close() {}
