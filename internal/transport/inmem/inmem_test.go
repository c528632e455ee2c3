package inmem

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

func TestBothDirections(t *testing.T) {
	c, s := Pipe()
	for _, way := range []struct{ from, to transport.Pipe }{{c, s}, {s, c}} {
		b := []byte(ping)
		if err := way.from.Write(b); err != nil {
			t.Fatal(err)
		}
		clear(b) // Write must have copied the bytes
		m, err := way.to.Read()
		if err != nil || string(m.Raw) != ping || m.Method != "ping" {
			t.Errorf("got %v, %v", m, err)
		}
	}
}

func TestWhatWasWrittenIsReadAfterClose(t *testing.T) {
	c, s := Pipe()
	for range 3 {
		if err := c.Write([]byte(ping)); err != nil {
			t.Fatal(err)
		}
	}
	_ = c.Close()
	_ = c.Close()
	for range 3 {
		if _, err := s.Read(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Read(); err != io.EOF {
		t.Errorf("got %v, want EOF", err)
	}
	if _, err := c.Read(); err != io.ErrClosedPipe {
		t.Errorf("got %v, want ErrClosedPipe", err)
	}
	for _, end := range []transport.Pipe{c, s} {
		if err := end.Write([]byte(ping)); !errors.Is(err, transport.ErrNotSent) {
			t.Errorf("got %v, want ErrNotSent", err)
		}
	}
}

func TestCloseUnblocks(t *testing.T) {
	for _, closer := range []string{"own", "other"} {
		synctest.Test(t, func(t *testing.T) {
			c, s := Pipe()
			var wg sync.WaitGroup
			wg.Go(func() {
				var err error
				for n := 0; err == nil; n++ {
					if n > queued {
						t.Error("the queue is not bounded")
						break
					}
					err = c.Write([]byte(ping))
				}
				if !errors.Is(err, transport.ErrNotSent) {
					t.Errorf("got %v, want ErrNotSent", err)
				}
			})
			wg.Go(func() {
				if _, err := c.Read(); err == nil {
					t.Error("Read returned a message")
				}
			})
			synctest.Wait()
			if closer == "own" {
				_ = c.Close()
			} else {
				_ = s.Close()
			}
			wg.Wait()
		})
	}
}

func TestRefusedFramesDoNotEndThePipe(t *testing.T) {
	c, s := Pipe()
	for _, b := range []string{"{", "[" + ping + "]", ping} {
		if err := c.Write([]byte(b)); err != nil {
			t.Fatal(err)
		}
	}
	var refused *jsonrpc.Error
	if _, err := s.Read(); !errors.As(err, &refused) || refused.Code != jsonrpc.CodeParse {
		t.Errorf("got %v", err)
	}
	var batch *transport.Batch
	if _, err := s.Read(); !errors.As(err, &batch) || !errors.As(err, &refused) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Read(); err != nil {
		t.Error(err)
	}
	if err := c.Write([]byte(strings.Repeat(" ", maximum+1))); !errors.Is(err, transport.ErrNotSent) {
		t.Errorf("got %v, want ErrNotSent", err)
	}
}

func TestConcurrentUse(t *testing.T) {
	c, s := Pipe()
	const writers, each = 8, 200
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for n := range each {
				if err := c.Write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i*each+n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	seen := make(map[jsonrpc.ID]bool)
	for range writers * each {
		m, err := s.Read()
		if err != nil || seen[m.ID] {
			t.Fatalf("got %v, %v", m, err)
		}
		seen[m.ID] = true
	}
	wg.Wait()
}

func BenchmarkRoundTrip(b *testing.B) {
	c, s := Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			m, err := s.Read()
			if err != nil || s.Write(m.Raw) != nil {
				return
			}
		}
	})
	msg := []byte(ping)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Write(msg); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Read(); err != nil {
			b.Fatal(err)
		}
	}
	_ = c.Close()
	wg.Wait()
}
