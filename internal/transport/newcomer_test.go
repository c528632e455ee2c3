package transport

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestQuota lets parties take and release places in random order. No party has more than half
// of the places, and a party without places always finds a free place. At the end all places are free.
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
			t.Fatalf("%s has %d places; %d of %d are counted", who, held[who], own, all)
		}
	}
	for who, n := range held {
		for range n {
			q.Give(who)
		}
	}
	if _, all := q.Taken(""); all != 0 || len(q.taken) != 0 {
		t.Errorf("at the end %d places are taken: %v", all, q.taken)
	}
}

func TestParty(t *testing.T) {
	for want, n := range map[string]Newcomer{
		"principal ann":     {Principal: "ann", Remote: "10.0.0.1", Connection: 1, Client: "c 1"},
		"remote 10.0.0.1 c": {Remote: "10.0.0.1", Connection: 2, Client: "c"},
	} {
		if got := n.Party(); got != want {
			t.Errorf("the party of %+v is %q, want %q", n, got, want)
		}
	}
}
