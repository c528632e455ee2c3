package runtime

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryPerByte is how much memory the process may need for each byte of a message in flight. A
// message is in memory up to three times while it is translated, and the value 4 leaves a reserve.
const memoryPerByte = 4

// InFlight returns how many bytes of messages may be in memory at the same time. The result is the
// configured value, but at most a quarter of the memory limit of the process. That limit is
// GOMEMLIMIT or the limit of the container, whichever is less. The result is at least body, which
// is the size of the largest body.
func InFlight(configured, body int) int64 {
	limit := int64(math.MaxInt64)
	if os.Getenv("GOMEMLIMIT") != "" {
		limit = debug.SetMemoryLimit(-1) // a negative argument returns the limit without changing it
	}
	if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			limit = min(limit, n)
		}
	}
	return max(int64(body), min(int64(configured), limit/memoryPerByte))
}

// RaiseMemoryLimit raises the memory limit of the garbage collector, if inFlight bytes of messages
// need more memory than the limit allows. It does nothing if the environment sets GOMEMLIMIT.
func RaiseMemoryLimit(inFlight int64) {
	if os.Getenv("GOMEMLIMIT") == "" && debug.SetMemoryLimit(-1)/memoryPerByte < inFlight {
		debug.SetMemoryLimit(inFlight * memoryPerByte)
	}
}
