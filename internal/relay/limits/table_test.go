package limits

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

func key(id string, l Limit) Claim { return Claim{Party: Party{Key, "p", id}, Limit: &l} }

// admitted returns how many of n calls pass.
func admitted(t *Table, n int, claims ...Claim) (passed int) {
	for range n {
		if t.Admit(claims) == nil {
			passed++
		}
	}
	return passed
}

// TestRate lets two keys send calls, of which one sends far too many. It gets its burst and then its rate, to the
// millisecond, and what is refused takes nothing from the limit that both share.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table
		shared := Claim{Party: Party{Server, "p", "s"}, Limit: &Limit{Calls: 10, Burst: 12}}
		greedy, modest := key("a", Limit{Calls: 2, Burst: 4}), key("b", Limit{Calls: 2, Burst: 4})
		if n := admitted(&table, 100, greedy, shared); n != 4 {
			t.Errorf("%d calls at once", n)
		}
		r := table.Admit([]Claim{greedy, shared})
		if r == nil || r.What != Calls || r.Party != greedy.Party || r.After != 500*time.Millisecond {
			t.Errorf("refused with %+v", r)
		}
		for range 4 {
			if table.Admit([]Claim{modest, shared}) != nil {
				t.Error("the innocent key is refused")
			}
		}
		time.Sleep(499 * time.Millisecond)
		if n := admitted(&table, 9, greedy, shared); n != 0 {
			t.Errorf("%d calls came too early", n)
		}
		time.Sleep(time.Millisecond)
		if n := admitted(&table, 9, greedy, shared); n != 1 {
			t.Errorf("%d calls after half a second", n)
		}
		time.Sleep(time.Minute)
		if n := admitted(&table, 100, shared); n != 12 {
			t.Errorf("%d calls of the server at once", n)
		}
		slow := key("c", Limit{Calls: 0.01, Burst: 1})
		if n := admitted(&table, 5, slow); n != 1 || table.Admit([]Claim{slow}).After != 100*time.Second {
			t.Errorf("%d calls, and then %v", n, table.Admit([]Claim{slow}).After)
		}
	})
}

// TestNewNumbers changes the numbers of a key that has used up all it had. The new rate counts at once, but nothing
// fills the bucket.
func TestNewNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table
		admitted(&table, 100, key("a", Limit{Calls: 1, Burst: 10}))
		if n := admitted(&table, 100, key("a", Limit{Calls: 5, Burst: 50})); n != 0 {
			t.Errorf("the change gave %d calls", n)
		}
		time.Sleep(time.Second)
		if n := admitted(&table, 100, key("a", Limit{Calls: 5, Burst: 50})); n != 5 {
			t.Errorf("%d calls in the next second", n)
		}
		time.Sleep(time.Hour)
		if n := admitted(&table, 100, key("a", Limit{Calls: 1, Burst: 3})); n != 3 {
			t.Errorf("%d calls at once with a smaller burst", n)
		}
	})
}

// TestIdleAtAChange raises the limit of a key that calls again only a while later: the new rate counts from the change.
func TestIdleAtAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table
		admitted(&table, 1, key("a", Limit{Calls: 0.1, Burst: 1}))
		raised := key("a", Limit{Calls: 100, Burst: 100})
		raised.Since = time.Now()
		time.Sleep(8 * time.Second)
		if n := admitted(&table, 200, raised); n != 100 {
			t.Errorf("%d calls", n)
		}
	})
}

// TestBytes lets a key get a long answer. Its next calls wait until the debt is paid, and those of others don't.
func TestBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table
		greedy, modest := key("a", Limit{Bytes: 6000}), key("b", Limit{Bytes: 6000})
		table.Spend([]Claim{greedy}, 18_000)
		r := table.Admit([]Claim{greedy})
		if r == nil || r.What != Bytes || r.After.Round(time.Second) != 2*time.Minute {
			t.Errorf("refused with %+v", r)
		}
		if admitted(&table, 3, modest) != 3 {
			t.Error("the innocent key is refused")
		}
		time.Sleep(2*time.Minute + 10*time.Millisecond)
		if admitted(&table, 1, greedy) != 1 {
			t.Error("the key is refused after it has paid")
		}
		table.Spend([]Claim{greedy}, 0)
		if n := len(table.all); n != 2 {
			t.Errorf("%d accounts", n)
		}
	})
}

// TestInFlight lets a key send calls that are not answered. A call that may not be sent takes no place of others.
func TestInFlight(t *testing.T) {
	var table Table
	shared := Claim{Party: Party{Project, "p", ""}, Limit: &Limit{InFlight: 3}}
	greedy, modest := key("a", Limit{InFlight: 2}), key("b", Limit{InFlight: 2})
	var done []func()
	for i := range 5 {
		end, r := table.Begin([]Claim{shared, greedy})
		if (r == nil) != (i < 2) || r != nil && (r.What != InFlight || r.Party != greedy.Party || r.After != time.Second) {
			t.Errorf("call %d: %+v", i, r)
		}
		if r == nil {
			done = append(done, end)
		}
	}
	if r := table.Admit([]Claim{greedy}); r == nil || r.What != InFlight {
		t.Error("a call passes that can't be sent")
	}
	end, r := table.Begin([]Claim{shared, modest})
	if r != nil {
		t.Fatal("the innocent key is refused")
	}
	if _, r := table.Begin([]Claim{shared, modest}); r == nil || r.Per != Project {
		t.Errorf("the project's limit: %+v", r)
	}
	end()
	for _, f := range done {
		f()
	}
	for p, a := range table.all {
		if a.inFlight != 0 {
			t.Errorf("%+v has %d calls", p, a.inFlight)
		}
	}
}

// TestTableIsBounded sends calls of more parties than a table keeps. Whoever has used up a limit stays in it, and so
// does whoever has a call in flight.
func TestTableIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table
		spent, busy := key("spent", Limit{Calls: 0.01, Burst: 1}), key("busy", Limit{InFlight: 1})
		admitted(&table, 1, spent)
		end, _ := table.Begin([]Claim{busy})
		for i := range 3 * maxIdle {
			admitted(&table, 1+i%2, key(fmt.Sprint(i), Limit{Calls: 0.01, Burst: 4}))
			if len(table.all) > maxIdle {
				t.Fatalf("%d parties", len(table.all))
			}
		}
		if admitted(&table, 1, spent) != 0 {
			t.Error("whoever has used up a limit got a new one")
		}
		if _, r := table.Begin([]Claim{busy}); r == nil {
			t.Error("a call in flight was forgotten")
		}
		end()
		for i := range 2 * maxRefused {
			table.Note(&Refusal{Claim: key(fmt.Sprint(i), Limit{}), What: Calls})
		}
		all := table.Refused()
		if len(all) != maxRefused+1 || all[0].ID != "" || all[0].Times != maxRefused {
			t.Errorf("%d parties were refused, and of the rest %+v", len(all), all[0])
		}
	})
}

// TestTableUnderLoad lets many goroutines use a table. What was refused and what has passed add up.
func TestTableUnderLoad(t *testing.T) {
	var table Table
	var group sync.WaitGroup
	var mu sync.Mutex
	passed := 0
	for i := range 8 {
		group.Go(func() {
			claims := []Claim{key(fmt.Sprint(i%2), Limit{Calls: 0.01, Burst: 50, Bytes: 1 << 30}), {Party: Party{Project, "p", ""}, Limit: &Limit{InFlight: 3}}}
			for range 200 {
				if table.Admit(claims) != nil {
					continue
				}
				mu.Lock()
				passed++
				mu.Unlock()
				if done, r := table.Begin(claims); r == nil {
					table.Spend(claims, 10)
					done()
				}
			}
		})
	}
	group.Wait()
	if passed > 101 || passed < 1 {
		t.Errorf("%d calls have passed", passed)
	}
}

// TestFirst checks which limit of a list counts for whom.
func TestFirst(t *testing.T) {
	list := []Limit{
		{Per: Key, Keys: []string{"CI-*"}, InFlight: 1}, {Per: Person, People: []string{"ada"}, InFlight: 2},
		{Per: Key, Roles: []identity.Role{identity.Viewer}, InFlight: 3}, {Per: Server, Servers: []string{"git*"}, InFlight: 4},
		{Per: Key, InFlight: 5}, {Per: Server, InFlight: 6},
	}
	for _, x := range []struct {
		per    Scope
		who    policy.Caller
		server string
		want   int
	}{
		{Key, policy.Caller{Key: "ci-main"}, "", 1}, {Key, policy.Caller{Key: "ci"}, "", 5}, {Key, policy.Caller{}, "", 5},
		{Key, policy.Caller{Roles: []identity.Role{identity.Admin}}, "", 3}, {Key, policy.Caller{Roles: []identity.Role{identity.Caller}}, "", 5},
		{Person, policy.Caller{Person: "Ada"}, "", 2}, {Person, policy.Caller{Person: "Bob"}, "", 0}, {Person, policy.Caller{Key: "ada"}, "", 0},
		{Server, policy.Caller{}, "GitHub", 4}, {Server, policy.Caller{}, "db", 6}, {Project, policy.Caller{}, "", 0},
	} {
		got := 0
		if l := First(list, x.per, x.who, x.server); l != nil {
			got = l.InFlight
		}
		if got != x.want {
			t.Errorf("%v %+v %q: %d, want %d", x.per, x.who, x.server, got, x.want)
		}
	}
}
