package loglimit

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// page collects the written records.
type page struct{ logtest.Buffer }

// take returns the lines that were written since the previous call of take.
func (p *page) take() []string {
	text := strings.TrimSuffix(p.Take(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func open(level slog.Level) (*page, *Handler, *slog.Logger) {
	p := &page{}
	h := New(slog.NewTextHandler(p, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	return p, h, slog.New(h)
}

func want(t *testing.T, p *page, lines ...string) {
	t.Helper()
	got := p.take()
	if strings.Join(got, "\n") != strings.Join(lines, "\n") {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
	}
}

// TestStorm checks that a flood of equal records causes one line, and then one line with a count
// each minute and at the end. Other records must be written.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, h, log := open(slog.LevelInfo)
		storm := func(n int) {
			for range n {
				log.Warn("forged", "server", "a", "principal", "x")
			}
		}
		storm(30_000)
		log.Warn("forged", "server", "b", "principal", "x")
		log.Warn("other", "server", "a")
		want(t, p, "level=WARN msg=forged server=a principal=x", "level=WARN msg=forged server=b principal=x", "level=WARN msg=other server=a")
		time.Sleep(window + time.Second)
		synctest.Wait()
		want(t, p, "level=WARN msg=forged server=a principal=x more=29999 within=1m0s")
		storm(7) // the flood continues: no record is written, and all records are counted
		log.Warn("forged", "server", "b", "principal", "x")
		want(t, p, "level=WARN msg=forged server=b principal=x")
		time.Sleep(window)
		synctest.Wait()
		want(t, p, "level=WARN msg=forged server=a principal=x more=7 within=1m0s")
		time.Sleep(window)
		synctest.Wait()
		want(t, p)
		h.state.mu.Lock()
		if len(h.state.kinds) != 0 || h.state.tick != nil {
			t.Errorf("state is left after a quiet minute: %v", h.state.kinds)
		}
		h.state.mu.Unlock()
		storm(3)
		want(t, p, "level=WARN msg=forged server=a principal=x")
		h.Close()
		want(t, p, "level=WARN msg=forged server=a principal=x more=2 within=1m0s")
		storm(3)
		h.Close()
	})
}

// TestDifferentRecords checks that different records of one kind are written up to a limit.
// The limit is higher for debug records.
func TestDifferentRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, h, log := open(slog.LevelDebug)
		for i := range 1000 {
			log.Info("item left out", "server", "a", "name", i)
			log.Debug("dropped", "server", "a", "name", i)
		}
		lines := p.take()
		info := 0
		for _, l := range lines {
			if strings.HasPrefix(l, "level=INFO") {
				info++
			}
		}
		if info != first || len(lines)-info != firstFine {
			t.Errorf("%d records of info, %d of debug", info, len(lines)-info)
		}
		h.Close()
		if got := strings.Join(p.take(), " "); !strings.Contains(got, "more=990 ") || !strings.Contains(got, "more=900 ") {
			t.Error(got)
		}
	})
}

// TestBounds checks that memory and lines are bounded for any number of kinds and peers.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, h, log := open(slog.LevelInfo)
		for i := range 10_000 {
			log.Warn("one kind", "remote", fmt.Sprint("10.0.0.", i))
			log.Warn(fmt.Sprint("a kind of its own ", i))
		}
		h.state.mu.Lock()
		if len(h.state.kinds) > maxKinds+1 {
			t.Errorf("%d kinds", len(h.state.kinds))
		}
		for k, tally := range h.state.kinds {
			if len(tally.peers) > maxPeers+1 {
				t.Errorf("%d peers of %q", len(tally.peers), k.text)
			}
		}
		h.state.mu.Unlock()
		if n := len(p.take()); n > maxKinds+maxPeers+3*first {
			t.Errorf("%d lines", n)
		}
		time.Sleep(window + time.Second)
		synctest.Wait()
		if got := p.take(); len(got) != 2 || !strings.Contains(strings.Join(got, ""), "further messages") || strings.Contains(strings.Join(got, ""), "10.0.0.") {
			t.Errorf("%q", got)
		}
		h.Close()
	})
}

// TestDerived checks that attributes from With and WithGroup have the same effect as
// attributes of the record.
func TestDerived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, h, log := open(slog.LevelInfo)
		for range 10 {
			log.With("server", "a").Warn("late")
			log.With("server", "b", "x", 1).WithGroup("g").Warn("late", "y", 2)
		}
		want(t, p, "level=WARN msg=late server=a", "level=WARN msg=late server=b x=1 g.y=2")
		h.Close()
		got := strings.Join(p.take(), "\n")
		if !strings.Contains(got, "msg=late server=a more=9") || !strings.Contains(got, "server=b x=1 g.more=9") {
			t.Error(got)
		}
	})
}

// blocking is a handler whose writer is blocked.
type blocking struct {
	slog.Handler
	entered chan struct{}
	proceed chan struct{}
}

func (b blocking) Enabled(context.Context, slog.Level) bool { return true }
func (b blocking) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "stuck" {
		b.entered <- struct{}{}
		<-b.proceed
	}
	return nil
}

// TestNoLockWhileWriting checks that records can be counted while the next handler blocks.
func TestNoLockWhileWriting(t *testing.T) {
	b := blocking{entered: make(chan struct{}), proceed: make(chan struct{})}
	h := New(b)
	log := slog.New(h)
	var writing sync.WaitGroup
	writing.Go(func() { log.Warn("stuck") })
	<-b.entered
	for range 100 {
		log.Warn("stuck") // the same record again, so the handler only counts it
		log.Warn("other")
	}
	close(b.proceed)
	writing.Wait()
	var closing sync.WaitGroup
	closing.Go(h.Close)
	<-b.entered // wait until the count is being written
	closing.Wait()
}

func TestConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, h, log := open(slog.LevelInfo)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 1000 {
					log.Warn("m", "server", "a")
					time.Sleep(time.Second)
				}
			})
		}
		all.Wait()
		h.Close()
		total := 0
		for _, l := range p.take() {
			n := 1
			if _, rest, ok := strings.Cut(l, "more="); ok {
				_, _ = fmt.Sscan(rest, &n)
			}
			total += n
		}
		if total != 8000 {
			t.Errorf("the log accounts for %d of 8000 records", total)
		}
	})
}
