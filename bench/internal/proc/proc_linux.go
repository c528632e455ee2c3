package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// CPU returns the CPU time that the process pid has used so far.
func CPU(pid int) (time.Duration, error) {
	// include/linux/posix-timers.h: the clock id of a process is the complement of its PID,
	// shifted left by three bits, with CPUCLOCK_SCHED (2) in the low bits.
	clock := ^pid<<3 | 2
	var t syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&t)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, errno)
	}
	return time.Duration(t.Nano()), nil
}

// Resident returns the size of the resident set of the process pid in bytes, and the part of it that
// is not the content of files, such as the program itself. It reads /proc/PID/smaps_rollup, because the
// counters in /proc/PID/statm are updated late.
func Resident(pid int) (all, own int64, err error) {
	name := fmt.Sprintf("/proc/%d/smaps_rollup", pid)
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, 0, err
	}
	line := func(title string) (size int64) {
		_, rest, ok := bytes.Cut(b, []byte("\n"+title+":"))
		number, _, ok2 := bytes.Cut(bytes.TrimSpace(rest), []byte(" kB"))
		kib, bad := strconv.ParseInt(string(number), 10, 64)
		if !ok || !ok2 || bad != nil {
			err = fmt.Errorf("%s: the line %s is missing or not valid", name, title)
		}
		return kib << 10
	}
	all, own = line("Rss"), line("Anonymous")
	return all, own, err
}

// Descendants returns the PIDs of all descendants of the process pid: its child processes, their
// child processes, and so on.
func Descendants(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // the process has exited in the meantime
		}
		// proc_pid_stat(5): the name of the program, in brackets, may contain any
		// characters. The state and the parent PID follow the last bracket.
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(fields) < 2 {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], child)
	}
	all := append([]int(nil), children[pid]...)
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all, nil
}

// Busy returns the CPU time that all cores have spent since boot without being idle.
func Busy() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line) // the names of the fields: cpu user nice system idle iowait irq softirq steal guest...
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat: %.80q", line)
	}
	var ticks int64
	for i, f := range fields[1:8] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		if i != 3 && i != 4 {
			ticks += n
		}
	}
	return time.Duration(ticks) * (time.Second / 100), nil // USER_HZ is 100 on every platform that this module supports
}

// Machine returns the names of the processor and of the kernel.
func Machine() (cpu, kernel string) {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			cpu = strings.TrimSpace(value)
			break
		}
	}
	b, _ = os.ReadFile("/proc/sys/kernel/osrelease")
	return cpu, "Linux " + strings.TrimSpace(string(b))
}
