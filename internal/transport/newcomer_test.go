package transport

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Whatever parties take and give back in whatever order, none has more than half, a
// party that has none finds a place, and in the end nothing is left.
func TestQuota(t *testing.T) {
	const most = 100
	var q Quota
	held := map[string]int{}
	for range 20_000 {
		who := fmt.Sprint(rand.IntN(5))
		if rand.IntN(3) > 0 {
			if q.Room(who, most) {
				q.Take(who)
				held[who]++
			}
		} else if held[who] > 0 {
			q.Give(who)
			held[who]--
		}
		if own, all := q.Taken(who); own != held[who] || own > most/2 || all > most || !q.Room("newcomer", most) {
			t.Fatalf("%s has %d, counted are %d of %d", who, held[who], own, all)
		}
	}
	for who, n := range held {
		for range n {
			q.Give(who)
		}
	}
	if _, all := q.Taken(""); all != 0 || len(q.taken) != 0 {
		t.Errorf("left are %d of %v", all, q.taken)
	}
}

func TestParty(t *testing.T) {
	for want, n := range map[string]Newcomer{
		"principal ann":     {Principal: "ann", Remote: "10.0.0.1", Connection: 1, Client: "c 1"},
		"remote 10.0.0.1 c": {Remote: "10.0.0.1", Connection: 2, Client: "c"},
	} {
		if got := n.Party(); got != want {
			t.Errorf("%+v: %q, want %q", n, got, want)
		}
	}
}
