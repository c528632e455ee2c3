package stdio

import (
	"bytes"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithUs makes the kernel kill the child when the thread that forked the child ends; see
// Process.run. The kernel does not kill the child's own children. If they share the child's stdin,
// they read EOF.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// sealInherited prevents children from inheriting the descriptors that this process inherited.
func sealInherited() {
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // since Linux 5.11
}

func awaitZombie(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// descendants maps the pid of each descendant of a child to the start time of the process, because
// a pid alone may be reused. Descendants are found through /proc while their parents are alive. A
// signal to the group does not reach descendants that have their own session (setsid, detached).
type descendants map[int]uint64

// maxDescendants limits the number of processes that are tracked.
const maxDescendants = 4096

// descendantsOf returns the current descendants of a process.
func descendantsOf(pid int) descendants {
	found := make(descendants)
	for todo := []int{pid}; len(todo) > 0 && len(found) < maxDescendants; {
		pid, todo = todo[len(todo)-1], todo[:len(todo)-1]
		lists, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
		for _, list := range lists {
			b, _ := os.ReadFile(list)
			for f := range bytes.FieldsSeq(b) {
				child, err := strconv.Atoi(string(f))
				if err != nil {
					continue
				}
				if _, start := procState(child); start != 0 {
					found[child] = start
					todo = append(todo, child)
				}
			}
		}
	}
	return found
}

func (d descendants) join(found descendants) descendants {
	if d == nil {
		return found
	}
	maps.Copy(d, found)
	return d
}

// kill kills all processes in d whose pid has not been reused.
func (d descendants) kill() {
	for pid, start := range d {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		// From now on, fd refers to one process, even if the pid is reused. So compare the start
		// times only after PidfdOpen.
		if _, now := procState(pid); now == start {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		_ = unix.Close(fd)
	}
}

// alive reports whether any process in d is alive and not a zombie.
func (d descendants) alive() bool {
	for pid, start := range d {
		if state, now := procState(pid); now == start && state != 'Z' && state != 'X' {
			return true
		}
	}
	return false
}

// procState returns the state of a process and its start time, in clock ticks since boot. Both are
// 0 if the process does not exist. See proc_pid_stat(5), fields 3 and 22.
func procState(pid int) (state byte, start uint64) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0
	}
	b = b[bytes.LastIndexByte(b, ')')+1:] // the name may contain any characters
	f := bytes.Fields(b)
	if len(f) < 20 {
		return 0, 0
	}
	start, _ = strconv.ParseUint(string(f[19]), 10, 64)
	return f[0][0], start
}
