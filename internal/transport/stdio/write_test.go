package stdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/netsim"
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
		t.Error("the caller's bytes were modified")
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// TestWritesGather checks that lines that are sent while a write is in progress are collected and
// written together.
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

// gate is a writer that blocks until it is opened.
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
		p := NewPipe(r, w, Options{Queue: 100})
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
			t.Errorf("%d bytes are waiting", n)
		}
		p.out.mu.Unlock()
		_ = p.Close()
		wg.Wait()
	})
}

// ends returns two functions, by name. Each makes a Pipe and returns the Pipe with the other end
// of its output. Only the function "with deadlines" makes an output that supports deadlines, as a
// Unix pipe does.
func ends(t *testing.T) map[string]func() (*Pipe, io.ReadCloser) {
	return map[string]func() (*Pipe, io.ReadCloser){
		"with deadlines": func() (*Pipe, io.ReadCloser) {
			near, far := netsim.NewLink(netsim.Options{})
			return NewPipe(strings.NewReader(""), near, Options{}), far
		},
		"without": func() (*Pipe, io.ReadCloser) {
			r, w := io.Pipe()
			return NewPipe(strings.NewReader(""), w, Options{}), r
		},
	}
}

// TestS11_AStallIsWaitedFor checks that writes wait while the reader pauses for up to a minute,
// even in the middle of a message. When the reader continues, it gets all data.
func TestS11_AStallIsWaitedFor(t *testing.T) {
	for name, open := range ends(t) {
		for _, pause := range []time.Duration{time.Second, 11 * time.Second, time.Minute} {
			t.Run(fmt.Sprint(name, " ", pause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, far := open()
					big := strings.Repeat("x", 1<<20)
					var all sync.WaitGroup
					for _, b := range []string{big, ping, big} {
						all.Go(func() {
							if err := p.Write([]byte(b)); err != nil {
								t.Error(err)
							}
						})
						synctest.Wait()
					}
					// The second large message waits for space in the queue.
					if err := p.Queue([]byte(hello)); err != nil {
						t.Error(err)
					}
					time.Sleep(pause)
					synctest.Wait()
					if d, _ := p.Stalled(); d < pause-tick || d > pause {
						t.Errorf("Stalled returns %v after %v", d, pause)
					}
					var got strings.Builder
					all.Go(func() { _, _ = io.Copy(&got, far) })
					synctest.Wait()
					if d, _ := p.Stalled(); d != 0 {
						t.Errorf("Stalled returns %v", d)
					}
					_ = p.Close()
					all.Wait()
					_ = far.Close()
					if want := big + "\n" + ping + "\n" + hello + "\n" + big + "\n"; got.String() != want {
						t.Errorf("%d bytes arrived, want %d", got.Len(), len(want))
					}
				})
			})
		}
	}
}

// TestS11_ASenderComesBack checks that Send returns when its context ends or its quit channel is
// closed. The lines that have been sent stay complete.
func TestS11_ASenderComesBack(t *testing.T) {
	for name, open := range ends(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, far := open()
				big := strings.Repeat("x", 1<<20)
				timeout := errors.New("the call's deadline")
				short, stop := context.WithTimeoutCause(t.Context(), time.Second, timeout)
				defer stop()
				quit := make(chan struct{})
				var all sync.WaitGroup
				send := func(what string, ctx context.Context, quit chan struct{}, b string, want error, sent bool, after time.Duration) {
					t.Helper()
					all.Go(func() {
						begun := time.Now()
						err := p.Send(ctx, quit, []byte(b))
						if !errors.Is(err, want) || err != nil && errors.Is(err, transport.ErrNotSent) == sent {
							t.Errorf("%s: %v", what, err)
						}
						if d := time.Since(begun); d < after || d > after+inlineWait+tick {
							t.Errorf("%s: the sender returned after %v, want %v", what, d, after)
						}
					})
					synctest.Wait()
				}
				send("the first", short, nil, big, timeout, true, time.Second)
				send("behind it", short, nil, `"gone"`, timeout, false, time.Second)
				send("to quit", t.Context(), quit, `"quits"`, transport.ErrStalled, false, 5*time.Second)
				send("patient", t.Context(), nil, ping, nil, true, 10*time.Second)
				send("the last", short, nil, `"gone"`, timeout, false, time.Second)
				time.Sleep(5 * time.Second)
				close(quit)
				synctest.Wait()
				if _, midway := p.Stalled(); midway != (name == "with deadlines") {
					t.Errorf("a sender in the middle of a message: %v", midway)
				}
				time.Sleep(5 * time.Second)
				var got strings.Builder
				all.Go(func() { _, _ = io.Copy(&got, far) })
				synctest.Wait()
				_ = p.Close()
				all.Wait()
				_ = far.Close()
				if want := big + "\n" + ping + "\n"; got.String() != want {
					t.Errorf("%d bytes arrived, want %d: …%q", got.Len(), len(want), got.String()[max(0, got.Len()-200):])
				}
			})
		})
	}
}

// TestS11_WithdrawnInAGroup ends the context of six senders while their lines are being written.
// By then, lines 0 to 2 have been sent, and line 3 has been sent partly. Only lines 4 and 5 are
// withdrawn.
func TestS11_WithdrawnInAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := netsim.NewLink(netsim.Options{Buffer: 10})
		p := NewPipe(strings.NewReader(""), near, Options{})
		var all sync.WaitGroup
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		errs := make([]error, 6)
		for i := range errs {
			all.Go(func() { errs[i] = p.Send(ctx, nil, []byte(strings.Repeat(fmt.Sprint(i), 7))) })
			synctest.Wait()
		}
		read := func(n int) (got string) {
			b := make([]byte, n)
			_, _ = io.ReadFull(far, b)
			return string(b)
		}
		got := read(20) // 20 bytes arrive and the buffer takes 10 more: lines 0 to 2 and most of line 3
		time.Sleep(time.Second)
		stop()
		all.Wait()
		for i, err := range errs {
			left, unsent := i < 3, i > 3
			if (err == nil) != left || errors.Is(err, transport.ErrNotSent) != unsent {
				t.Errorf("line %d: %v", i, err)
			}
		}
		if err := p.Queue([]byte("more")); err != nil {
			t.Error(err)
		}
		all.Go(func() { got += read(17) })
		all.Wait()
		if want := "0000000\n1111111\n2222222\n3333333\nmore\n"; got != want {
			t.Errorf("got %q", got)
		}
		_ = p.Close()
		_ = far.Close()
	})
}

// TestQueueWaitsForNobody checks that Queue does not wait, and returns an error if the queue is
// full.
func TestQueueWaitsForNobody(t *testing.T) {
	for name, open := range ends(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, far := open()
				b := bytes.Repeat([]byte("x"), 100<<10)
				begun, queued := time.Now(), 0
				for range 100 {
					err := p.Queue(b)
					if err == nil {
						queued++
					} else if !errors.Is(err, transport.ErrFull) || !errors.Is(err, transport.ErrNotSent) {
						t.Error(err)
					}
				}
				if queued < 12 || queued > 14 {
					t.Errorf("%d messages were queued", queued)
				}
				if d := time.Since(begun); d > inlineWait {
					t.Errorf("Queue took %v", d)
				}
				var got int64
				var all sync.WaitGroup
				all.Go(func() { got, _ = io.Copy(io.Discard, far) })
				synctest.Wait()
				_ = p.Close()
				all.Wait()
				_ = far.Close()
				if want := int64(queued * (len(b) + 1)); got != want {
					t.Errorf("%d bytes arrived, want %d", got, want)
				}
			})
		})
	}
}

// TestCloseEndsAStall checks that Close unblocks senders whose lines are being written or queued,
// or wait for space in the queue.
func TestCloseEndsAStall(t *testing.T) {
	for name, open := range ends(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, far := open()
				var all sync.WaitGroup
				for range 30 {
					all.Go(func() {
						if err := p.Write(bytes.Repeat([]byte("x"), 100<<10)); err == nil {
							t.Error("the blocked sender got no error")
						}
					})
					synctest.Wait()
				}
				time.Sleep(time.Hour)
				begun := time.Now()
				_ = p.Close()
				all.Wait()
				if d := time.Since(begun); d != 0 {
					t.Errorf("Close took %v", d)
				}
				_ = far.Close()
			})
		})
	}
}

func TestU16_FullPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := NewPipe(strings.NewReader(""), w, Options{})
	defer p.Close()
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	big := bytes.Repeat([]byte("x"), 256<<10)
	err = p.Send(ctx, nil, big)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, transport.ErrNotSent) {
		t.Errorf("got %v, want a timeout in the middle", err)
	}
	if err := p.Send(ctx, nil, []byte(ping)); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, transport.ErrNotSent) {
		t.Errorf("got %v, want ErrNotSent", err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		in := bufio.NewReaderSize(r, 1<<20)
		for _, want := range []string{string(big), hello} {
			if got, err := in.ReadString('\n'); err != nil || got != want+"\n" {
				t.Errorf("read %d bytes, %v", len(got), err)
			}
		}
	})
	if err := p.Write([]byte(hello)); err != nil {
		t.Error(err)
	}
	reading.Wait()
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

// TestConcurrentWriters runs many writers with messages of many sizes. A reader checks that no
// line is damaged.
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
				t.Errorf("the line is damaged or out of order: %.40q", in.Text())
				break
			}
			next[i]++
			total++
		}
		if total != writers*each {
			t.Errorf("%d lines were read", total)
		}
	})
	wg.Wait()
	_ = p.Close()
	reader.Wait()
	_ = r.Close()
}

// TestCloseLetsTheLastLineLeave checks that close still sends a line that was accepted just
// before, if the other end reads.
func TestCloseLetsTheLastLineLeave(t *testing.T) {
	for range 200 {
		r, w := io.Pipe()
		out := newWriter(w, 0)
		var got []byte
		var reading sync.WaitGroup
		reading.Go(func() { got, _ = io.ReadAll(r) })
		for _, line := range []string{"first", "second", "last"} {
			if err := out.post([]byte(line)); err != nil {
				t.Fatal(err)
			}
		}
		if err := out.close(); err != nil {
			t.Fatal(err)
		}
		reading.Wait()
		if string(got) != "first\nsecond\nlast\n" {
			t.Fatalf("the other end got %q", got)
		}
	}
}
