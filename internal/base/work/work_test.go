package work_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestNothingIsStartedAfterClose calls Go from several goroutines while Wait closes the group.
// When Wait returns, every accepted function must have run. After that, no function is accepted.
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
		if g.Go(func() { t.Error("a function started after Wait") }) {
			t.Error("Go accepted a function after Wait")
		}
		g.Wait()
		offer.Wait()
		if taken.Load() != run.Load() {
			t.Fatalf("%d functions accepted, %d run", taken.Load(), run.Load())
		}
	}
}

// TestWorkMayOfferWork checks that a running function may call Go, both before and after Close. Go
// must accept the new function before Close and refuse it after Close.
func TestWorkMayOfferWork(t *testing.T) {
	var g work.Group
	more, closed := make(chan bool, 2), make(chan struct{})
	g.Go(func() {
		more <- g.Go(func() {})
		<-closed
		more <- g.Go(func() {})
	})
	if !<-more {
		t.Error("Go refused a function before Close")
	}
	g.Close()
	close(closed)
	if <-more {
		t.Error("Go accepted a function after Close")
	}
	g.Wait()
}
