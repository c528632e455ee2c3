package work

import (
	"bytes"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestCrew checks that a Crew uses a goroutine again, that a goroutine doesn't wait for ever, and that
// functions that block don't hold up others.
func TestCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Crew
		var ran atomic.Int32
		// Not runtime.NumGoroutine: that also counts a goroutine that has just ended, and those of the runtime.
		started := func() int {
			stacks := make([]byte, 1<<20)
			return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte(".(*Crew).serve("))
		}
		for range 100 {
			c.Go(func() { ran.Add(1) })
			synctest.Wait()
		}
		if ran.Load() != 100 || started() != 1 {
			t.Errorf("%d functions ran on %d goroutines", ran.Load(), started())
		}
		hold := make(chan struct{})
		for range 20 {
			c.Go(func() { <-hold; ran.Add(1) })
			synctest.Wait()
		}
		if started() != 20 {
			t.Errorf("20 functions that block have %d goroutines", started())
		}
		close(hold)
		synctest.Wait()
		if ran.Load() != 120 || started() != maxWaiting {
			t.Errorf("%d functions ran, and %d goroutines wait for more", ran.Load(), started())
		}
		time.Sleep(linger)
		synctest.Wait()
		if started() != 0 {
			t.Errorf("%d goroutines still wait after %s", started(), linger)
		}
		c.Go(func() { ran.Add(1) })
		synctest.Wait()
		c.Go(func() { time.Sleep(time.Minute); ran.Add(1) })
		began := time.Now()
		c.Wait()
		if ran.Load() != 122 || time.Since(began) != time.Minute || started() != 0 {
			t.Errorf("%d functions ran, Wait took %s, and %d goroutines are left", ran.Load(), time.Since(began), started())
		}
	})
}

func TestCrewThatDidNothing(t *testing.T) {
	var c Crew
	c.Wait()
}

// TestCrewFromMany checks under the race detector that many may call Go.
func TestCrewFromMany(t *testing.T) {
	var c Crew
	var ran atomic.Int32
	for range 8 {
		c.Go(func() {
			for range 500 {
				c.Go(func() { ran.Add(1) })
			}
		})
	}
	c.Wait()
	if ran.Load() != 8*500 {
		t.Errorf("%d functions ran", ran.Load())
	}
}

// deep uses about 12 KB of stack.
func deep(n int) (sum byte) {
	var frame [512]byte
	if n > 0 {
		frame[n] = deep(n - 1)
	}
	for _, b := range frame {
		sum += b
	}
	return sum + 1
}

// BenchmarkCrew compares deep functions on new goroutines with the same on the goroutines of a Crew.
func BenchmarkCrew(b *testing.B) {
	done := make(chan byte)
	f := func() { done <- deep(20) }
	b.Run("new goroutines", func(b *testing.B) {
		for b.Loop() {
			go f()
			<-done
		}
	})
	b.Run("crew", func(b *testing.B) {
		var c Crew
		for b.Loop() {
			c.Go(f)
			<-done
		}
		c.Wait()
	})
}
