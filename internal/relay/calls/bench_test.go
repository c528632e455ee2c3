package calls

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

type fakeHeader map[string][]string

func (h fakeHeader) Head() trails.Head { return trails.NewHead("POST", "/mcp", 0, h) }

// BenchmarkStory compares the cost of the list of calls for a relayed call without and with
// recording. Both sides of the call use HTTP.
func BenchmarkStory(b *testing.B) {
	for name, on := range map[string]bool{"off": false, "memory": true} {
		b.Run(name, func(b *testing.B) {
			once := recordedCall(on)
			for range 400 { // fills the ring of stories
				once()
			}
			b.ReportAllocs()
			for b.Loop() {
				once()
			}
		})
	}
}

// TestAllocationsOfARecording checks how many times a recorded call over HTTP allocates memory.
func TestAllocationsOfARecording(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector adds allocations")
	}
	once := recordedCall(true)
	for range 400 { // fills the ring of stories
		once()
	}
	n := testing.AllocsPerRun(500, once)
	t.Logf("a recorded call allocates %v times", n)
	if n > 5 {
		t.Errorf("a recorded call allocates %v times, want at most 5", n)
	}
}

// recordedCall returns a function that adds one call to a ring, as a relayed call over HTTP does. The
// messages have about 1 KiB.
func recordedCall(on bool) (once func()) {
	header := fakeHeader{}
	for _, name := range []string{"Accept", "Content-Type", "Content-Length", "User-Agent", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Accept-Encoding"} {
		header[name] = []string{"some value of it"}
	}
	r := New(Options{Record: on, Bytes: 1 << 20})
	c := request(1, "t")
	c.Msg.Raw = append(c.Msg.Raw, strings.Repeat(" ", 900)...)
	a := mcp.NewAttempt(c)
	a.Server = "s"
	answer := []byte(`{"jsonrpc":"2.0","id":1,"result":{"text":"` + strings.Repeat("y", 900) + `"}}`)
	out := make([]byte, 0, 4<<10)
	head := func(t *trails.Trail) trails.Head {
		if t == nil {
			return trails.Head{}
		}
		return header.Head()
	}
	return func() {
		c.Number++
		x := r.Begin(c, header)
		a.Trail = nil
		x.Routed(a)
		t := a.Trail
		var e jsonrpc.Edits
		e.Replace(mcp.WhyID, c.Msg.IDAt, []byte("77"))
		out = t.Splice(out[:0], c.Msg.Raw, &e)
		p := t.Sent(trails.ServerWire, out)
		t.Exchanged(p, head(t), trails.Head{})
		t.Exchanged(t.Received(trails.ServerWire, answer, trails.Head{}), trails.Head{}, head(t))
		e.Reset()
		e.Replace(mcp.WhyID, jsonrpc.Span{Start: 22, End: 23}, []byte("5"))
		out = t.Splice(out[:0], answer, &e)
		p = t.Sent(trails.ClientWire, out)
		t.Exchanged(p, trails.Head{}, head(t))
		x.Answered(a, mcp.Ending{Outcome: "ok"})
		x.End(1, false)
	}
}

// BenchmarkParallel begins and ends calls from many goroutines at a time, as the connections of a
// busy serve do.
func BenchmarkParallel(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(map[bool]string{false: "off", true: "memory"}[on], func(b *testing.B) {
			r := New(Options{Record: on, Bytes: 8 << 20})
			var number atomic.Uint64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				c := request(1, "t")
				a := mcp.NewAttempt(c)
				a.Server = "s"
				for pb.Next() {
					c.Number = number.Add(1)
					x := r.Begin(c, nil)
					x.Routed(a)
					a.Trail.Sent(trails.ServerWire, c.Msg.Raw)
					x.Answered(a, mcp.Ending{Outcome: "ok"})
					x.End(1, false)
				}
			})
		})
	}
}
