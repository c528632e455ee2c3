package stdio

import (
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// pair returns two Pipes that are connected by pipes of the operating system.
func pair(tb testing.TB) (a, b *Pipe) {
	tb.Helper()
	r1, w1, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	r2, w2, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	a, b = NewPipe(r1, w2, Options{}), NewPipe(r2, w1, Options{})
	return a, b
}

func request(size int) []byte {
	return []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":"` + strings.Repeat("a", size) + `"}}`)
}

// BenchmarkRoundTrip sends messages of 1 KiB to the other side and back, from 64 goroutines at a
// time.
func BenchmarkRoundTrip(b *testing.B) {
	near, far := pair(b)
	var wg sync.WaitGroup
	wg.Go(func() { // the other side sends back what it reads
		for {
			m, err := far.Read()
			if err != nil {
				return
			}
			wg.Go(func() { _ = far.Write(m.Raw) })
		}
	})
	answers := make(chan struct{})
	wg.Go(func() {
		for {
			if _, err := near.Read(); err != nil {
				return
			}
			answers <- struct{}{}
		}
	})
	msg := request(1 << 10)
	b.SetBytes(int64(2 * len(msg)))
	b.ReportAllocs()
	b.SetParallelism(64 / runtime.GOMAXPROCS(0))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := near.Write(msg); err != nil {
				b.Error(err)
				return
			}
			<-answers
		}
	})
	_ = near.Close()
	_ = far.Close()
	wg.Wait()
}

// BenchmarkWrite measures the lock and the system call of Write, with one writer and with 64
// writers.
func BenchmarkWrite(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(map[int]string{1: "alone", 64: "64"}[writers], func(b *testing.B) {
			r, w, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			p := NewPipe(strings.NewReader(""), w, Options{})
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = io.Copy(io.Discard, r) })
			msg := request(1 << 10)
			b.SetBytes(int64(len(msg)))
			b.ReportAllocs()
			var left atomic.Int64
			left.Store(int64(b.N))
			var all sync.WaitGroup
			for range writers {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						if err := p.Write(msg); err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
			_ = p.Close()
			wg.Wait()
			_ = r.Close()
		})
	}
}

// BenchmarkWriteLong writes messages that are longer than the buffers that a pipe keeps.
func BenchmarkWriteLong(b *testing.B) {
	p := NewPipe(strings.NewReader(""), discardTimed{}, Options{})
	msg := request(1 << 20)
	b.SetBytes(int64(len(msg)))
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Write(msg); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRead measures framing and scanning.
func BenchmarkRead(b *testing.B) {
	for name, size := range map[string]int{"1k": 1 << 10, "64k": 64 << 10, "1m": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			line := append(request(size), '\n')
			p := reading(&repeat{line: line}, Options{})
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// repeat is a reader that returns one line again and again.
type repeat struct {
	line []byte
	at   int
}

func (r *repeat) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		c := copy(b[n:], r.line[r.at:])
		n += c
		r.at = (r.at + c) % len(r.line)
	}
	return n, nil
}

// discardTimed is a writer with deadlines, like the pipes of the operating system.
type discardTimed struct{ discard }

func (discardTimed) SetWriteDeadline(time.Time) error { return nil }

// TestAllocationBudget checks the number of allocations. Reading a message makes at most three.
// Writing a message to a writer with deadlines makes none.
func TestAllocationBudget(t *testing.T) {
	line := append(request(1<<10), '\n')
	p := reading(&repeat{line: line}, Options{Limits: jsonrpc.Limits{
		Names: func([]byte) (string, bool) { return "tools/call", true },
	}})
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := p.Read(); err != nil {
			t.Fatal(err)
		}
	}); n > 3 {
		t.Errorf("reading a message makes %v allocations", n)
	}
	out := NewPipe(strings.NewReader(""), discard{}, Options{})
	timed := NewPipe(strings.NewReader(""), discardTimed{}, Options{})
	msg := line[:len(line)-1]
	for name, p := range map[string]*Pipe{"": out, " with a deadline": timed} {
		budget := 0.0
		if p == out {
			budget = 3 // allocations for the timer that replaces the deadline
		}
		if n := testing.AllocsPerRun(1000, func() {
			if err := p.Write(msg); err != nil {
				t.Fatal(err)
			}
		}); n > budget {
			t.Errorf("writing a message%s makes %v allocations", name, n)
		}
	}
}
