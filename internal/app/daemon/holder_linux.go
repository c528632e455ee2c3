package daemon

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
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
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		open, _ := os.ReadDir(filepath.Join(dir, "fd"))
		for _, fd := range open {
			if target, err := os.Readlink(filepath.Join(dir, "fd", fd.Name())); err == nil && sockets[target] {
				name, _ := os.ReadFile(filepath.Join(dir, "comm"))
				return fmt.Sprintf("%s (pid %d)", excerpt.Word(string(bytes.TrimSpace(name)), 40), pid)
			}
		}
	}
	return ""
}
