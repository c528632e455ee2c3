package eventstream

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// steps is a reader that returns at most n bytes at a time.
type steps struct {
	io.Reader
	n int
}

func (s steps) Read(p []byte) (int, error) { return s.Reader.Read(p[:min(len(p), s.n)]) }

// TestLongLines checks that data lines that are longer than the window are read as the standard says,
// in whatever pieces they arrive and whatever is around them.
func TestLongLines(t *testing.T) {
	for _, size := range []int{window - 10, window, wide - 6, wide, 3*wide + 1, 700_000} {
		x, y := strings.Repeat("x", size), strings.Repeat("yz", size/2)
		for _, in := range []string{
			"data: " + x + "\n\ndata: " + y + "\n\ndata: z\n\n",
			"data:" + x + "\r\ndata:" + y + "\r\n\r\n",
			"data:" + x + "\rid: 1\rdata\r\rdata: z\r\r",
			"id: 1\nevent: a\ndata: " + x + "\n:" + y + "\nretry: 5\n\n",
			"data: short\ndata: " + x + "\nunknown: " + y + "\ndata: short\n\n",
			"data: " + x + "\n\n" + strings.Repeat("data: z\n\n", 1000),
			"data: " + x,
			"data: " + x + "\n",
		} {
			want, cut := reference(in)
			for _, n := range []int{1000, window - 1, window, wide, 1 << 20} {
				got, err := all(t, steps{strings.NewReader(in), n}, Limits{})
				if !reflect.DeepEqual(got, want) || err == io.ErrUnexpectedEOF != cut {
					t.Errorf("%.20q… with %d bytes, %d at a time: got %d events, %v", in, size, n, len(got), err)
				}
			}
		}
	}
}

// TestLongFieldAfterData checks that a long id is refused also if it arrives while the window is large.
func TestLongFieldAfterData(t *testing.T) {
	for size, want := range map[int]error{window - len("id: ") - 1: io.EOF, window - len("id: "): ErrTooLarge} {
		in := "data: " + strings.Repeat("x", wide) + "\nid: " + strings.Repeat("y", size) + "\n\n"
		for _, n := range []int{1, window, 1 << 20} {
			if _, err := all(t, steps{strings.NewReader(in), n}, Limits{}); err != want {
				t.Errorf("an id of %d bytes, %d bytes at a time: %v, want %v", size, n, err, want)
			}
		}
	}
}

// TestLongEventsAreApart checks that the events of readers that share buffers stay what they were.
func TestLongEventsAreApart(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			var r Reader
			var events []Event
			text := func(n int) string { return strings.Repeat(fmt.Sprint(g, ",", n, ";"), 20_000) }
			for n := range 20 {
				r.Reset(strings.NewReader("data: "+text(n)+"\n\ndata: "+text(n+1)+"\n\ndata: cut"), Limits{})
				for range 2 {
					e, err := r.Next()
					if err != nil {
						t.Error(err)
					}
					events = append(events, e)
				}
			}
			for i, e := range events {
				if string(e.Data) != text(i/2+i%2) {
					t.Errorf("reader %d: event %d has changed", g, i)
				}
			}
		})
	}
	wg.Wait()
}

// TestLongEventsCostTheirSize bounds the bytes that an event allocates, and what a Reader that waits
// for the next one keeps.
func TestLongEventsCostTheirSize(t *testing.T) {
	for _, size := range []int{wide, 1 << 20} {
		text := []byte("event: message\ndata: " + strings.Repeat("x", size) + "\n\n")
		r := NewReader(&endless{text: string(text), n: 1 << 20}, Limits{})
		const n = 50
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) / n; got > uint64(size)*3/2 && !raceEnabled {
			t.Errorf("an event of %d bytes allocates %d", size, got)
		}
		r.Reset(io.MultiReader(bytes.NewReader(text), strings.NewReader("data")), Limits{})
		r.Next()
		r.Next()
		if kept := cap(r.buf) + cap(r.data); r.large != nil || kept > window+retain {
			t.Errorf("after an event of %d bytes, %d are kept", size, kept)
		}
	}
}
