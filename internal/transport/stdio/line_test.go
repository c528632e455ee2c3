package stdio

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// TestLongLinesAreOwned reads long lines from several pipes at a time, and keeps them all: none may change
// when a later line uses the same buffers. Their allocations stay near their size.
func TestLongLinesAreOwned(t *testing.T) {
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			var in bytes.Buffer
			text := func(n int) string {
				return strings.Repeat(string(rune('a'+(n+i)%26)), []int{10, readBuffer - 100, readBuffer, 3 * readBuffer, 1 << 20, maxLong + 100}[n%6])
			}
			for n := range 12 {
				fmt.Fprintf(&in, `{"jsonrpc":"2.0","id":%d,"result":{"x":%q}}`+"  \r\n", n, text(n))
			}
			p := reading(&in, Options{})
			p.limits.Bytes, p.in.limit = 2*maxLong, 2*maxLong
			var all [][]byte
			for range 12 {
				m, err := p.Read()
				if err != nil {
					t.Error(err)
					return
				}
				all = append(all, m.Raw)
			}
			for n, raw := range all {
				if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"x":%q}}`, n, text(n)); string(raw) != want {
					t.Errorf("line %d has changed: %.80s", n, raw)
				}
			}
		})
	}
	readers.Wait()
}

// TestLongMessagesAllocateLittle checks that a long message that is read allocates at most 1.5 times its
// size, and one that is written next to nothing.
func TestLongMessagesAllocateLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools")
	}
	for _, size := range []int{64 << 10, 1 << 20} {
		msg := request(size)
		in := reading(&repeat{line: append(bytes.Clone(msg), '\n')}, Options{})
		out := NewPipe(strings.NewReader(""), discardTimed{}, Options{})
		read := bytesPerRun(func() {
			if _, err := in.Read(); err != nil {
				t.Fatal(err)
			}
		})
		written := bytesPerRun(func() {
			if err := out.Write(msg); err != nil {
				t.Fatal(err)
			}
		})
		if read > size*3/2 || written > size/2 {
			t.Errorf("%d bytes: reading allocates %d bytes, writing %d", size, read, written)
		}
	}
}

// bytesPerRun returns how many bytes f allocates, on average.
func bytesPerRun(f func()) int {
	const runs = 100
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc-before.TotalAlloc) / runs
}
