package runtime

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// InFlight returns how many bytes of messages may be in memory at the same time. It is the
// configured value, but at most a quarter of the memory limit of the process, because a
// message is in memory three times while it is translated. It is never less than the size of
// the largest body.
func InFlight(configured, body int) int64 {
	limit := debug.SetMemoryLimit(-1) // returns the memory limit; a negative argument does not change the limit
	if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			limit = min(limit, n)
		}
	}
	return max(int64(body), min(int64(configured), limit/4))
}
