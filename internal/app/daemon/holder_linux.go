package daemon

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// Bounds of holderOf.
const (
	maxSockets   = 4 << 20 // the maximum number of bytes that holderOf reads from a socket table
	maxProcesses = 16384
)

// holderOf returns the name and the pid of the process that listens on the port of address. It
// returns "" if it cannot find the process, for example because the process belongs to another
// user.
func holderOf(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	n, err := net.LookupPort("tcp", port)
	if err != nil {
		return ""
	}
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(io.LimitReader(f, maxSockets)); lines.Scan(); {
			// The columns are sl, local_address, rem_address, st and so on; column 9 is the inode.
			// In st, 0A means listening.
			fields := strings.Fields(lines.Text())
			if len(fields) > 9 && fields[3] == "0A" && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", n)) {
				sockets["socket:["+fields[9]+"]"] = true
			}
		}
		_ = f.Close()
	}
	if len(sockets) == 0 {
		return ""
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range processes[:min(len(processes), maxProcesses)] {
		if !holds(dir, sockets) {
			continue
		}
		// A server may share its socket with its children. A child also has it for a moment while it
		// starts another program. It is the server that people must stop.
		for parent := parentOf(dir); holds(parent, sockets); parent = parentOf(dir) {
			dir = parent
		}
		if name, err := os.ReadFile(filepath.Join(dir, "comm")); err == nil {
			return fmt.Sprintf("%s (pid %s)", excerpt.Word(string(bytes.TrimSpace(name)), 40), filepath.Base(dir))
		}
	}
	return ""
}

// holds reports whether the process with a folder in /proc has one of sockets.
func holds(dir string, sockets map[string]bool) bool {
	open, _ := os.ReadDir(filepath.Join(dir, "fd"))
	for _, fd := range open {
		if target, err := os.Readlink(filepath.Join(dir, "fd", fd.Name())); err == nil && sockets[target] {
			return true
		}
	}
	return false
}

// parentOf returns the folder of the parent of a process.
func parentOf(dir string) string {
	stat, _ := os.ReadFile(filepath.Join(dir, "stat")) // 12 (the name) S 11 and so on
	rest := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(rest) < 2 {
		return ""
	}
	return filepath.Join("/proc", rest[1])
}
