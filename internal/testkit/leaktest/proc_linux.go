package leaktest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is a child of the test binary. The binary started the process, or became its parent when
// the previous parent exited.
type process struct {
	pid  int
	name string
}

func (p process) String() string { return fmt.Sprintf("%d (%s)", p.pid, p.name) }

func (p process) kill() {
	// The process is a child of the test binary. No other code waits for it, so its pid cannot have
	// been reused.
	if err := unix.Kill(p.pid, unix.SIGKILL); err == nil {
		_, _ = unix.Wait4(p.pid, nil, 0, nil)
	}
}

// adoptOrphans makes this process the parent of descendants whose parents exit.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// processes returns the running children of this process. It also waits for children that have
// exited, because no other code does so after the tests. A test that forgot to wait for its child
// is still detected: the pidfd of the child is open, and the function descriptors finds it.
func processes() []process {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			break
		}
	}
	var found []process
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		b, _ := os.ReadFile(list) // a thread may have ended in the meantime
		for _, f := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				continue
			}
			name, _ := os.ReadFile("/proc/" + f + "/comm")
			found = append(found, process{pid, strings.TrimSpace(string(name))})
		}
	}
	return found
}

// descriptors returns the open descriptors of this process with their targets. It omits the
// descriptors of the runtime's network poller, which are opened on first use and never closed.
func descriptors() map[int]string {
	open := make(map[int]string)
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		what, err := os.Readlink("/proc/self/fd/" + e.Name())
		switch {
		case err != nil: // the descriptor through which ReadDir read the list
		case what == "anon_inode:[eventpoll]", what == "anon_inode:[eventfd]":
		default:
			open[fd] = what
		}
	}
	return open
}
