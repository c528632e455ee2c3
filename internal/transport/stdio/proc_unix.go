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

const reopens = runtime.GOOS == "linux" // /proc/self/fd can be reopened

var errExecFormat error = syscall.ENOEXEC

// processGroup is the process group of a child, which leads it. Signals may be sent
// only until the child is reaped, because its number may be reused afterwards.
type processGroup struct {
	pid  int
	left descendants // descendants that left the group
}

var closeInherited = sync.OnceFunc(sealInherited)

// prepare puts the child into its own process group. Go closes its own descriptors on
// exec; this also closes those that we were started with.
func prepare(cmd *exec.Cmd) {
	closeInherited()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithUs(cmd.SysProcAttr)
}

func (g *processGroup) adopt(p *os.Process) error {
	g.pid = p.Pid
	return nil
}

// awaitExit returns when the child has exited. It remains a zombie, so that its pid and
// its group's number are not reused.
func (g *processGroup) awaitExit() { awaitZombie(g.pid) }

// recordDescendants records descendants that signals to the group would not reach, while
// the process tree still exists. cleanUp kills them.
func (g *processGroup) recordDescendants() { g.left = g.left.join(descendantsOf(g.pid)) }

// terminate sends SIGTERM to the group, and SIGCONT to wake up stopped processes.
func (g *processGroup) terminate() {
	_ = unix.Kill(-g.pid, unix.SIGTERM)
	_ = unix.Kill(-g.pid, unix.SIGCONT)
}

func (g *processGroup) kill() {
	_ = unix.Kill(-g.pid, unix.SIGKILL)
}

// cleanUp kills the recorded descendants and waits a short time until all killed
// processes are gone; the child itself has been reaped. If we are the reaper (process 1
// of a container), nobody else would reap them.
func (g *processGroup) cleanUp() {
	g.left.kill()
	const timeout = time.Second
	pause := 500 * time.Microsecond
	for end := time.Now().Add(timeout); time.Now().Before(end); time.Sleep(pause) {
		// Signal 0 is harmless if the number has been reused.
		if unix.Kill(-g.pid, 0) == unix.ESRCH && !g.left.alive() {
			return
		}
		_, _ = unix.Wait4(-g.pid, nil, unix.WNOHANG, nil)
		pause = min(2*pause, 20*time.Millisecond)
	}
}

func (g *processGroup) close() {}
