package leaktest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is a child of the test binary, one that it started or adopted.
type process struct {
	pid  int
	name string
}

func (p process) String() string { return fmt.Sprintf("%d (%s)", p.pid, p.name) }

func (p process) kill() {
	// The pid is our child's and nobody else waits any more: it cannot have been
	// given to another process.
	if err := unix.Kill(p.pid, unix.SIGKILL); err == nil {
		_, _ = unix.Wait4(p.pid, nil, 0, nil)
	}
}

// adoptOrphans makes the kernel give us the descendants whose parents die.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// processes returns our living children. It reaps the dead among them: after the
// tests nobody else waits for any, and a child that a test forgot to wait for
// still shows by its pidfd.
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
		b, _ := os.ReadFile(list) // a thread may have ended since
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

// descriptors returns our open descriptors and what they refer to, without
// those of the runtime's poller, which opens them at first need and for good.
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
		case err != nil: // the descriptor of the listing itself
		case what == "anon_inode:[eventpoll]", what == "anon_inode:[eventfd]":
		default:
			open[fd] = what
		}
	}
	return open
}
