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

const reopens = runtime.GOOS == "linux" // a file in /proc/self/fd can be opened again

var errExecFormat error = syscall.ENOEXEC

// processGroup is the process group of a child. The child is the leader of the group. Signals may
// be sent only until the child is reaped, because the number of the group may be reused afterwards.
type processGroup struct {
	pid  int
	left descendants // all recorded descendants, including those that left the group
}

var closeInherited = sync.OnceFunc(sealInherited)

// prepare puts the child into its own process group. Go marks its own descriptors as close-on-exec.
// prepare also marks the descriptors that this process inherited.
func prepare(cmd *exec.Cmd) error {
	closeInherited()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithUs(cmd.SysProcAttr)
	return nil
}

func (g *processGroup) adopt(p *os.Process) error {
	g.pid = p.Pid
	return nil
}

// awaitExit returns when the child has exited. The child remains a zombie, so that its pid and
// the number of its group are not reused.
func (g *processGroup) awaitExit() { awaitZombie(g.pid) }

// recordDescendants records the descendants of the child while the process tree still exists.
// cleanUp kills them, because a signal to the group may not reach all of them.
func (g *processGroup) recordDescendants() { g.left = g.left.join(descendantsOf(g.pid)) }

// terminate sends SIGTERM to the group. It also sends SIGCONT, so that stopped processes can handle
// SIGTERM.
func (g *processGroup) terminate() {
	_ = unix.Kill(-g.pid, unix.SIGTERM)
	_ = unix.Kill(-g.pid, unix.SIGCONT)
}

func (g *processGroup) kill() {
	_ = unix.Kill(-g.pid, unix.SIGKILL)
}

// cleanUp kills the recorded descendants, and waits up to one second until all killed processes are
// gone. It also reaps the processes of the group: if this process is process 1 of a container, no
// other process would reap them. The child itself has been reaped already.
func (g *processGroup) cleanUp() {
	g.left.kill()
	const timeout = time.Second
	pause := 500 * time.Microsecond
	for end := time.Now().Add(timeout); time.Now().Before(end); time.Sleep(pause) {
		// The number of the group may have been reused, but signal 0 is harmless.
		if unix.Kill(-g.pid, 0) == unix.ESRCH && !g.left.alive() {
			return
		}
		_, _ = unix.Wait4(-g.pid, nil, unix.WNOHANG, nil)
		pause = min(2*pause, 20*time.Millisecond)
	}
}

func (g *processGroup) close() {}
