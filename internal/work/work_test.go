package work_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/leaktest"
	"github.com/dragoman-mcp/dragoman/internal/work"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestNothingIsStartedAfterClose calls Go from several goroutines while the group is closed.
// Everything that was accepted has run when Wait returns, and nothing is accepted later.
func TestNothingIsStartedAfterClose(t *testing.T) {
	for range 500 {
		var g work.Group
		var taken, run atomic.Int64
		var offer sync.WaitGroup
		begin := make(chan struct{})
		for range 4 {
			offer.Go(func() {
				<-begin
				for range 20 {
					if g.Go(func() { run.Add(1) }) {
						taken.Add(1)
					}
				}
			})
		}
		close(begin)
		g.Wait()
		if g.Go(func() { t.Error("started after Wait") }) {
			t.Error("work was taken on after Wait")
		}
		g.Wait()
		offer.Wait()
		if taken.Load() != run.Load() {
			t.Fatalf("%d taken on, %d run", taken.Load(), run.Load())
		}
	}
}

// TestWorkMayOfferWork checks that running work may start more, before and after Close, and
// that what it started is waited for.
func TestWorkMayOfferWork(t *testing.T) {
	var g work.Group
	more, closed := make(chan bool, 2), make(chan struct{})
	g.Go(func() {
		more <- g.Go(func() {})
		<-closed
		more <- g.Go(func() {})
	})
	if !<-more {
		t.Error("refused before Close")
	}
	g.Close()
	close(closed)
	if <-more {
		t.Error("taken on after Close")
	}
	g.Wait()
}
