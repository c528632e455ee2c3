//go:build unix

package daemon

import (
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// BenchmarkRecording compares the CPU time of one call through serve in three variants: without the
// list of calls, with the list, and with recording in memory. The client and the server run in the
// same process, so the benchmark subtracts the CPU time of a call without Dragoman. The variants
// take turns. Each iteration is one turn of every variant, so use -benchtime 30x or more.
func BenchmarkRecording(b *testing.B) {
	const calls = 150 // the number of calls in one turn
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 20)
	u := httpServer(b, text)
	start := func(record config.Recording, none bool) *rig {
		s := snapshot(u)
		s.Record = record
		return serve(b, s, func(o *ServeOptions) { o.Log, o.noCalls = nil, none })
	}
	direct := &rig{t: b, base: strings.TrimSuffix(u.URL, "/mcp"), http: newClient()}
	defer direct.http.CloseIdleConnections()
	variants := []struct {
		name string
		rig  *rig
		tool string
		took []float64
	}{
		{name: "direct", rig: direct, tool: "t"}, {name: "none", rig: start(config.RecordOff, true), tool: "s__t"},
		{name: "off", rig: start(config.RecordOff, false), tool: "s__t"}, {name: "memory", rig: start(config.RecordMemory, false), tool: "s__t"},
	}
	turn := func(i int) float64 {
		v := &variants[i]
		body := modernBody("7", "tools/call", `"name":"`+v.tool+`","arguments":{"body":"`+text+`"}`)
		header := modernHeader("tools/call", v.tool)
		before := cpuTime(b)
		for range calls {
			if a := v.rig.post("/mcp", body, header...); a.status != http.StatusOK || !strings.Contains(a.body, `"result"`) {
				b.Fatalf("%s: status %d: %s", v.name, a.status, a.body)
			}
		}
		return float64((cpuTime(b) - before).Nanoseconds()) / calls
	}
	for i := range variants { // warm up; this also fills the lists of recorded calls
		for range 3 {
			turn(i)
		}
	}
	for n := 0; b.Loop(); n++ {
		for i := range variants {
			i = (i + n) % len(variants)
			variants[i].took = append(variants[i].took, turn(i))
		}
	}
	median := func(i int) float64 {
		slices.Sort(variants[i].took)
		return variants[i].took[len(variants[i].took)/2]
	}
	relay := median(1) - median(0)
	b.ReportMetric(relay/1000, "relay-µs/call")
	b.ReportMetric((median(2)-median(1))/relay*100, "off-%")
	b.ReportMetric((median(3)-median(1))/relay*100, "memory-%")
	b.ReportMetric(0, "ns/op")
}

// cpuTime returns the CPU time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
