package httpdoor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// page is a ResponseWriter with a client that can stop reading.
type page struct {
	header http.Header

	mu       sync.Mutex
	text     strings.Builder
	stuck    bool
	changed  chan struct{} // closed and replaced when a deadline changes
	deadline time.Time
}

func newPage() *page { return &page{header: make(http.Header), changed: make(chan struct{})} }

func (p *page) Header() http.Header { return p.header }
func (p *page) WriteHeader(int)     {}
func (p *page) FlushError() error   { return nil }

var errDeadline = errors.New("deadline")

func (p *page) Write(b []byte) (int, error) {
	for {
		p.mu.Lock()
		if !p.deadline.IsZero() && !p.deadline.After(time.Now()) {
			p.mu.Unlock()
			return 0, errDeadline
		}
		if !p.stuck {
			p.text.Write(b)
			p.mu.Unlock()
			return len(b), nil
		}
		changed, wait := p.changed, time.Until(p.deadline)
		p.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(wait):
		}
	}
}

func (p *page) SetWriteDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline = t
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

func (p *page) stick() {
	p.mu.Lock()
	p.stuck = true
	p.mu.Unlock()
}

// data returns the data that was written, without ids and comments.
func (p *page) data() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, l := range strings.Split(p.text.String(), "\n") {
		if d, ok := strings.CutPrefix(l, "data: "); ok {
			out = append(out, d)
		}
	}
	return strings.Join(out, " ")
}

var aGet = httptest.NewRequest("GET", "/", nil)

func newStream(rules StreamRules, ids string, away Away) *Stream {
	s := new(Stream)
	s.Init(rules.Defaults(), ids, away)
	return s
}

func push(t *testing.T, s *Stream, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := s.Push("", []byte(fmt.Sprint(i))); err != nil {
			t.Errorf("push %d: %v", i, err)
		}
	}
}

func TestStreamWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(StreamRules{Waiting: 3}, "x-", Wait)
		push(t, s, 0, 3)
		if err := s.Push("", nil); err != transport.ErrNoStream {
			t.Error(err)
		}
		p := newPage()
		c := s.Attach(p, aGet)
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(context.Background())
		wg.Go(func() { _ = c.Run(ctx) })
		synctest.Wait()
		push(t, s, 3, 100)
		synctest.Wait()
		cancel()
		wg.Wait()
		if got := p.data(); !strings.HasPrefix(got, "0 1 2 3 4") || !strings.HasSuffix(got, "98 99") {
			t.Error(got)
		}
		// All events were written. Events that the stream keeps for replay do not count as queued.
		push(t, s, 100, 103)
		q := newPage()
		wg.Go(func() { _ = s.Resume(q, aGet, 97).Run(t.Context()) })
		synctest.Wait()
		s.End()
		wg.Wait()
		if got := q.data(); got != "98 99 100 101 102" {
			t.Error(got)
		}
		if err := s.Push("", nil); err != ErrEnded {
			t.Error(err)
		}
	})
}

func TestStreamKeepsTheNewest(t *testing.T) {
	s := newStream(StreamRules{Events: 4}, "x-", Keep)
	push(t, s, 0, 10)
	s.End()
	p := newPage()
	_ = s.Resume(p, aGet, 0).Run(context.Background())
	if got := p.data(); got != "6 7 8 9" {
		t.Error(got)
	}
	for id, want := range map[string]bool{"x-9": true, "x-0": true, "x-10": false, "y-1": false, "x-": false, "x--1": false, "x-1 ": false} {
		if _, ok := s.Number(id); ok != want {
			t.Errorf("%q: %v", id, ok)
		}
	}
	small := newStream(StreamRules{Bytes: 1000}, "x-", Keep)
	for range 10 {
		_ = small.Push("", make([]byte, 400))
	}
	if kept := small.Forget(time.Hour); kept > 1000 || kept < 800 {
		t.Errorf("%d bytes are kept", kept)
	}
	if kept := small.Forget(-time.Hour); kept != 0 {
		t.Errorf("%d bytes are kept", kept)
	}
}

func TestStreamGivesUpAStuckReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := 0
		s := newStream(StreamRules{Events: 10, Slow: func() { slow++ }}, "x-", Keep)
		p := newPage()
		c := s.Attach(p, aGet)
		done := make(chan error, 1)
		go func() { done <- c.Run(context.Background()) }()
		synctest.Wait()
		p.stick()
		start := time.Now()
		push(t, s, 0, 15)
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Errorf("Push took %v", took)
		}
		if err := <-done; err == nil || slow != 1 {
			t.Errorf("%v, %d", err, slow)
		}
		// Nothing was written, so the next connection gets the events that fit in the queue.
		q := newPage()
		s.End()
		_ = s.Attach(q, aGet).Run(context.Background())
		if got := q.data(); got != "5 6 7 8 9 10 11 12 13 14" {
			t.Error(got)
		}
	})
}

func TestStreamStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(StreamRules{}, "", Discard)
		p := newPage()
		c := s.Attach(p, aGet)
		done := make(chan error, 1)
		go func() { done <- c.Run(context.Background()) }()
		synctest.Wait()
		p.stick()
		start := time.Now()
		push(t, s, 0, 1)
		if err := <-done; !errors.Is(err, errDeadline) || time.Since(start) != 30*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := s.Push("", nil); err != transport.ErrNoStream {
			t.Error(err)
		}
		if !p.deadline.IsZero() {
			t.Error("the deadline was not removed")
		}
	})
}

func TestStreamNewestReaderWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(StreamRules{}, "x-", Wait)
		var pages []*page
		var wg sync.WaitGroup
		for range 6 {
			p := newPage()
			c := s.Attach(p, aGet)
			wg.Go(func() { _ = c.Run(context.Background()) })
			pages = append(pages, p)
			synctest.Wait()
			push(t, s, len(pages), len(pages)+1)
			synctest.Wait()
		}
		for i, p := range pages {
			if got := p.data(); got != fmt.Sprint(i+1) {
				t.Errorf("reader %d: %s", i, got)
			}
		}
		s.Release()
		wg.Wait()
		if s.Attended() || !strings.HasSuffix(pages[5].text.String(), "retry: 3000\n\n") {
			t.Errorf("%q", pages[5].text.String())
		}
		s.Cut()
	})
}
