package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

func TestWriteKeepsOneLine(t *testing.T) {
	var got bytes.Buffer
	p := NewPipe(strings.NewReader(""), nopCloser{&got}, Options{})
	pretty := "{\r\n  \"jsonrpc\": \"2.0\",\n\t\"method\": \"a\\nb\"\n}"
	if err := p.Write([]byte(pretty)); err != nil {
		t.Fatal(err)
	}
	if err := p.Write([]byte(ping + " \r\n")); err != nil {
		t.Fatal(err)
	}
	want := "{    \"jsonrpc\": \"2.0\", \t\"method\": \"a\\nb\" }\n" + ping + "\n"
	if got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
	if strings.Count(pretty, "\n") != 3 {
		t.Error("the caller's bytes were changed")
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// While one write is under way all others gather and leave together.
func TestWritesGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &gate{open: make(chan struct{})}
		p := NewPipe(strings.NewReader(""), w, Options{})
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if err := p.Write(fmt.Appendf(nil, `{"n":%d}`, i)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		close(w.open)
		wg.Wait()
		if w.writes != 2 {
			t.Errorf("%d writes, want 2", w.writes)
		}
		for i, line := range strings.Split(strings.TrimSuffix(w.got.String(), "\n"), "\n") {
			if want := fmt.Sprintf(`{"n":%d}`, i); line != want {
				t.Fatalf("line %d is %s", i, line)
			}
		}
	})
}

// gate is a writer that waits until it is opened.
type gate struct {
	open   chan struct{}
	writes int
	got    bytes.Buffer
}

func (g *gate) Write(b []byte) (int, error) {
	<-g.open
	g.writes++
	return g.got.Write(b)
}
func (g *gate) Close() error { return nil }

func TestS11_QueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		p := NewPipe(r, w, Options{Queue: 100, WriteTimeout: time.Hour})
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if err := p.Write([]byte(ping)); !errors.Is(err, transport.ErrNotSent) {
					t.Errorf("got %v, want ErrNotSent", err)
				}
			})
		}
		synctest.Wait()
		p.out.mu.Lock()
		if n := len(p.out.next.buf); n > 100 {
			t.Errorf("%d bytes wait", n)
		}
		p.out.mu.Unlock()
		_ = p.Close()
		wg.Wait()
	})
}

// The deadline is for progress, not for the whole: without deadlines of its own
// the stream is closed when it stalls.
func TestS11_StallEndsThePipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		p := NewPipe(strings.NewReader(""), w, Options{})
		begun := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { // takes 3 bytes, then stops reading
			_, _ = io.ReadFull(r, make([]byte, 3))
		})
		err := p.Write([]byte(ping))
		if !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, transport.ErrNotSent) {
			t.Errorf("got %v, want a timeout in the midst", err)
		}
		if d := time.Since(begun); d != defaultWriteTimeout {
			t.Errorf("took %v", d)
		}
		if err := p.Write([]byte(ping)); !errors.Is(err, transport.ErrNotSent) || time.Since(begun) != defaultWriteTimeout {
			t.Errorf("got %v after %v, want ErrNotSent at once", err, time.Since(begun))
		}
		wg.Wait()
	})
}

func TestU16_FullPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := NewPipe(strings.NewReader(""), w, Options{WriteTimeout: 50 * time.Millisecond})
	defer p.Close()
	big := bytes.Repeat([]byte("x"), 256<<10)
	err = p.Write(big)
	if !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, transport.ErrNotSent) {
		t.Errorf("got %v, want a timeout in the midst", err)
	}
	if err := p.Write([]byte(ping)); !errors.Is(err, transport.ErrNotSent) {
		t.Errorf("got %v, want ErrNotSent", err)
	}
}

func TestU15_BrokenPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := NewPipe(strings.NewReader(""), w, Options{})
	defer p.Close()
	_ = r.Close()
	if err := p.Write([]byte(ping)); !errors.Is(err, transport.ErrNotSent) {
		t.Errorf("got %v, want ErrNotSent", err)
	}
}

// Many writers, many sizes, one reader that checks that no line is torn.
func TestConcurrentWriters(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := NewPipe(strings.NewReader(""), w, Options{Queue: 4 << 10})
	const writers, each = 16, 200
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for n := range each {
				pad := strings.Repeat("p", (i*n*37)%3000)
				if err := p.Write(fmt.Appendf(nil, "%d %d %s.", i, n, pad)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		var next [writers]int
		in := bufio.NewScanner(r)
		total := 0
		for in.Scan() {
			var i, n int
			if _, err := fmt.Sscanf(in.Text(), "%d %d", &i, &n); err != nil || n != next[i] || !strings.HasSuffix(in.Text(), ".") {
				t.Errorf("torn or out of order: %.40q", in.Text())
				break
			}
			next[i]++
			total++
		}
		if total != writers*each {
			t.Errorf("%d lines", total)
		}
	})
	wg.Wait()
	_ = p.Close()
	reader.Wait()
	_ = r.Close()
}
