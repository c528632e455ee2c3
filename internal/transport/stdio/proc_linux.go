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

// dieWithUs has the kernel kill the child when the thread that forks it ends; see
// Process.run. Its own children are not covered, but find their input closed.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// sealInherited keeps descriptors that we were started with from our children.
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

// kin are descendants of a child, found through /proc while their parents live:
// those that made a session of their own (setsid, detached) are out of reach of
// the group's signals. A process is known by its pid and its start together.
type kin map[int]uint64

// maxKin bounds the descendants that are looked at.
const maxKin = 4096

// kinOf returns the descendants that the process has now.
func kinOf(pid int) kin {
	found := make(kin)
	for todo := []int{pid}; len(todo) > 0 && len(found) < maxKin; {
		pid, todo = todo[len(todo)-1], todo[:len(todo)-1]
		lists, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
		for _, list := range lists {
			b, _ := os.ReadFile(list)
			for f := range bytes.FieldsSeq(b) {
				child, err := strconv.Atoi(string(f))
				if err != nil {
					continue
				}
				if _, start := lifeOf(child); start != 0 {
					found[child] = start
					todo = append(todo, child)
				}
			}
		}
	}
	return found
}

func (k kin) join(found kin) kin {
	if k == nil {
		return found
	}
	maps.Copy(k, found)
	return k
}

// kill kills all of them who still are who they were.
func (k kin) kill() {
	for pid, start := range k {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		// The descriptor holds on to a process; only now its start says which.
		if _, now := lifeOf(pid); now == start {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		_ = unix.Close(fd)
	}
}

// alive reports whether any of them is more than a zombie.
func (k kin) alive() bool {
	for pid, start := range k {
		if state, now := lifeOf(pid); now == start && state != 'Z' && state != 'X' {
			return true
		}
	}
	return false
}

// lifeOf returns a process's state and when it started, in clock ticks since
// boot; 0 if there is no such process. proc_pid_stat(5), fields 3 and 22.
func lifeOf(pid int) (state byte, start uint64) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0
	}
	b = b[bytes.LastIndexByte(b, ')')+1:] // the name may hold anything
	f := bytes.Fields(b)
	if len(f) < 20 {
		return 0, 0
	}
	start, _ = strconv.ParseUint(string(f[19]), 10, 64)
	return f[0][0], start
}
