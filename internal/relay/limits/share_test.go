package limits

import (
	"testing"
	"testing/synctest"
	"time"
)

// exchange tells each table what the others want.
func exchange(all []*Table) {
	said := make([][]Use, len(all))
	for i, t := range all {
		said[i] = t.Hot()
	}
	for i, t := range all {
		sum := map[Party]Use{}
		for j := range all {
			for _, u := range said[j] {
				if j != i {
					x := sum[u.Party]
					sum[u.Party] = Use{u.Party, x.Demand + u.Demand, x.InFlight + u.InFlight}
				}
			}
		}
		var others []Use
		for _, u := range sum {
			others = append(others, u)
		}
		t.Share(others)
	}
}

// TestShare spreads the calls of a key over three tables, first evenly, then nearly all to one of them, and then lets
// the tables go on without each other. What passes together is what the limit says after two seconds at most.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tables := []*Table{{}, {}, {}}
		claim := key("a", Limit{Calls: 50, Burst: 100})
		quiet := key("b", Limit{Calls: 50, Burst: 100})
		second := func(tries ...int) (passed int) {
			for range 10 {
				for i, n := range tries {
					passed += admitted(tables[i], n/10, claim)
				}
				time.Sleep(time.Second / 10)
			}
			return passed
		}
		exchange(tables)
		for _, tries := range [][]int{{200, 200, 200}, {400, 20, 20}, {20, 20, 400}, {30, 30, 30}} {
			sum := 0
			for i := range 12 {
				if n := second(tries...); i >= 2 {
					sum += n
				}
				exchange(tables)
			}
			if sum < 450 || sum > 550 {
				t.Errorf("%v: %d calls in 10 s", tries, sum)
			}
		}
		if n := admitted(tables[0], 200, quiet); n != 100 {
			t.Errorf("%d calls of a key that uses only one of them", n)
		}
		for _, x := range tables {
			x.Share(nil)
		}
		second(100, 0, 0)
		if n := second(100, 0, 0); n < 49 || n > 51 {
			t.Errorf("%d calls alone", n)
		}
	})
}

// TestShareInFlight lets three tables share calls in flight.
func TestShareInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tables := []*Table{{}, {}, {}}
		claims := []Claim{key("a", Limit{InFlight: 4})}
		begun := func(i int) (n int) {
			for tables[i].Admit(claims) == nil {
				if _, r := tables[i].Begin(claims); r != nil {
					break
				}
				n++
			}
			return n
		}
		exchange(tables)
		if n := begun(0); n != 4 {
			t.Errorf("%d at once", n)
		}
		done, r := tables[1].Begin(claims)
		if r != nil {
			t.Fatal("the first call of another table isn't known there yet")
		}
		done()
		exchange(tables)
		if n := begun(1); n != 0 {
			t.Errorf("%d at another one, which has heard of four", n)
		}
	})
}
