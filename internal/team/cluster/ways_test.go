package cluster

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestCutOff checks who leaves the requests of clients to others: whoever has reached too few for a while, if somebody
// else says that they reach theirs.
func TestCutOff(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		other Member
		alone time.Duration
		want  bool
	}{
		{Member{State: Ready, Reaches: true}, aloneAfter, true},
		{Member{State: Ready, Reaches: true}, aloneAfter - time.Second, false},
		{Member{State: Ready}, time.Hour, false},
		{Member{State: Ready, Reaches: true, Silence: refusedAfter}, time.Hour, false},
		{Member{State: Draining, Reaches: true}, time.Hour, false},
		{Member{State: Dead, Reaches: true}, time.Hour, false},
		{Member{Incarnation: "me", State: Ready, Reaches: true}, time.Hour, false},
	} {
		if got := cutOff([]Member{{Incarnation: "me", State: Ready}, c.other}, "me", c.alone); got != c.want {
			t.Errorf("%d: %t", i, got)
		}
	}
	for tried, most := range map[int]int{1: 1, 2: 1, 3: 2, 4: 2, 5: 3} {
		if reachesMost(tried, most-1) || !reachesMost(tried, most) {
			t.Errorf("of %d, %d aren't the least", tried, most)
		}
	}
	if reachesMost(0, 0) {
		t.Error("one that is alone reaches others")
	}
}

// TestNeighbours checks that each of many replicas has five neighbours, is the neighbour of five, and has none that has
// gone, leaves or is silent.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	var all []Member
	for i := range 70 {
		m := Member{Incarnation: fmt.Sprint(i), State: Ready}
		switch i % 7 {
		case 1:
			m.State = Dead
		case 2:
			m.Silence = refusedAfter
		case 3:
			m.State = Draining
		}
		all = append(all, m)
	}
	of := map[string]int{}
	for _, m := range all {
		list := neighbours(all, m.Incarnation)
		if len(list) != mostNeighbours || slices.ContainsFunc(list, func(x *Member) bool { return x.Incarnation == m.Incarnation || !writes(x) }) {
			t.Fatalf("%s has %d", m.Incarnation, len(list))
		}
		if writes(&m) {
			for _, x := range list {
				of[x.Incarnation]++
			}
		}
	}
	for name, n := range of {
		if n != mostNeighbours {
			t.Errorf("%s is the neighbour of %d", name, n)
		}
	}
	if n := len(of); n != 40 {
		t.Errorf("%d are neighbours", n)
	}
	if n := len(neighbours(all[:5], "0")); n != 1 {
		t.Errorf("one of two has %d", n)
	}
}

// TestPartition cuts the network between replicas in several ways. Only the smaller part leaves clients to others, and
// nobody does if no part is large enough, or if others were killed. Who reaches the others again is ready at once.
func TestPartition(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replicas, killed int
		meets            func(from, to int) bool
		off              []int
	}{
		"one of two calls in vain":  {2, 0, func(from, _ int) bool { return from != 0 }, []int{0}},
		"two that don't meet":       {2, 0, func(int, int) bool { return false }, nil},
		"one calls in vain":         {3, 0, func(from, _ int) bool { return from != 1 }, []int{1}},
		"one is called in vain":     {3, 0, func(_, to int) bool { return to != 1 }, nil},
		"one alone":                 {3, 0, func(from, to int) bool { return from != 1 && to != 1 }, []int{1}},
		"nobody calls anybody":      {5, 0, func(int, int) bool { return false }, nil},
		"three and two":             {5, 0, func(from, to int) bool { return (from < 3) == (to < 3) }, []int{3, 4}},
		"two and two":               {4, 0, func(from, to int) bool { return (from < 2) == (to < 2) }, nil},
		"one alone among very many": {20, 0, func(from, to int) bool { return from != 7 && to != 7 }, []int{7}},
		"most are killed":           {5, 3, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{rows: map[string]*Member{}, seen: map[string]time.Time{}, seats: map[seatKey]*seat{}}
				for range c.replicas {
					w.start(t)
				}
				defer func() {
					for _, r := range w.all {
						r.stop()
						r.c.group.Wait()
					}
				}()
				check := func(after time.Duration, want []int) {
					t.Helper()
					var off []int
					time.Sleep(after)
					for i, r := range w.all {
						if r.killed.IsZero() && r.c.CutOff() {
							off = append(off, i)
						}
					}
					if !slices.Equal(off, want) {
						t.Errorf("after %s, %v aren't ready, want %v", after, off, want)
					}
				}
				check(time.Minute, nil)
				w.mu.Lock()
				w.meets = c.meets
				for _, r := range w.all[c.replicas-c.killed:] {
					r.killed = time.Now()
					r.stop()
				}
				w.mu.Unlock()
				check(aloneAfter-beatEvery, nil)
				check(lookEvery+3*beatEvery, c.off)
				check(time.Minute, c.off)
				w.mu.Lock()
				w.meets = nil
				w.mu.Unlock()
				check(lookEvery+beatEvery, nil)
			})
		})
	}
}

// TestReaches checks that a replica reaches another one that answers, at the address that its row has, and not one that
// has closed its listener.
func TestReaches(t *testing.T) {
	t.Parallel()
	_, near, far := pair(t, http.NotFoundHandler())
	if err := near.look(t.Context()); err != nil || !near.reach(t.Context(), far.me.Load()) {
		t.Fatalf("a replica that answers isn't reached: %v", err)
	}
	_ = far.listener.Close()
	near.closeLinks(func(string) (over, cut bool) { return true, true })
	if near.reach(t.Context(), far.me.Load()) {
		t.Error("a replica that doesn't listen is reached")
	}
}
