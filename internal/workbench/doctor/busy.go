package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// slow is the shortest timeout that clients use when they probe a server.
const slow = 2500 * time.Millisecond

// judgeStart reports a server whose fastest start is slow. To be sure, judgeStart first starts the
// server once more while no other probe runs. Then it divides the time of the fastest start by the
// factor by which other programs slow down this machine.
func (e *exam) judgeStart(ctx context.Context) {
	if e.http || len(e.state.started) < 2 || slices.Min(e.state.started) < slow {
		return
	}
	factor := slowdown()
	t, err := e.begin(ctx)
	if err != nil {
		return
	}
	defer t.w.close()
	t.wait(ctx, t.ask(mcp.MethodInitialize, greeting(mcp.LatestLegacy.String())), e.o.Start)
	quickest := slices.Min(e.state.started)
	factor = max(factor, slowdown())
	if float64(quickest)/factor >= float64(slow) {
		e.find(SlowStart, fmt.Sprintf("# the server was started %d times and did not answer within %s", len(e.state.started), quickest.Round(100*time.Millisecond)))
	}
}

// slowdown returns the factor by which other programs slow down this process: 1 on an idle machine,
// 3 if the process gets a third of a processor. To measure the factor, slowdown runs a computation
// that takes some tens of milliseconds. If the system cannot report the CPU time of a process,
// slowdown returns 1.
func slowdown() float64 {
	worked, ok := cpuTime()
	if !ok {
		return 1
	}
	began := time.Now()
	x := uint64(88172645463325252)
	for range 30_000_000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	wall := time.Since(began)
	after, _ := cpuTime()
	if worked = after - worked; worked <= 0 || x == 0 {
		return 1
	}
	return max(1, float64(wall)/float64(worked))
}
