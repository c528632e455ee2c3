package runtime

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// InFlight returns how many bytes messages may hold at once: what is configured, but no
// more than a quarter of the memory limit of the process, since a message is in memory
// three times while it is translated. The largest body always has room.
func InFlight(configured, body int) int64 {
	limit := debug.SetMemoryLimit(-1) // GOMEMLIMIT; a negative value only asks
	if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			limit = min(limit, n)
		}
	}
	return max(int64(body), min(int64(configured), limit/4))
}
