package gateway

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/identity"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

func TestParty(t *testing.T) {
	for want, f := range map[string]mcp.ClientInfo{
		"principal anna":          {Who: identity.Named("anna"), Conversation: 3, Remote: "10.0.0.1", Info: []byte(`{"name":"c"}`)},
		"conversation 3":          {Conversation: 3, Remote: "10.0.0.1", Info: []byte(`{"name":"c"}`)},
		"remote 10.0.0.1 c":       {Remote: "10.0.0.1", Info: []byte(`{"name":"c","version":"1"}`)},
		"remote 10.0.0.1":         {Remote: "10.0.0.1", Info: []byte(`{"name":7}`)},
		"remote 10.0.0.1 \\u{1b}": {Remote: "10.0.0.1", Info: []byte(`{"name":"\u001b"}`)},
	} {
		if got := party(&f); got != want && !strings.Contains(want, "u{1b}") || strings.ContainsRune(got, 0x1b) {
			t.Errorf("%+v is %q, want %q", f, got, want)
		}
	}
	long := mcp.ClientInfo{Info: []byte(`{"name":"` + strings.Repeat("x", 10_000) + `"}`)}
	if got := party(&long); len(got) > 300 {
		t.Errorf("a name of 10000 bytes makes %d", len(got))
	}
}

// crowd is the clients of one relay and one legacy server that asks.
type crowd struct {
	t *testing.T
	r *Relay
	u *fake
}

// park makes a client's call wait for it, and returns its state.
func (w crowd) park(f mcp.ClientInfo) (state string, err error) {
	w.t.Helper()
	c := modern(w.t, mcp.MethodCallTool, `{"name":"t"}`)
	f.Revision, f.Capabilities = mcp.R20260728, []byte(asksAll)
	c.Client = &f
	reply, err := w.r.relay(w.t.Context(), w.u, c, &ear{})
	if err != nil {
		return "", err
	}
	return text(w.t, reply, "requestState"), nil
}

// answer comes back to a call with the answer.
func (w crowd) answer(f mcp.ClientInfo, state string) error {
	c := modern(w.t, mcp.MethodCallTool, answered(state, accepted))
	f.Revision, f.Capabilities = mcp.R20260728, []byte(asksAll)
	c.Client = &f
	_, err := w.r.relay(w.t.Context(), w.u, c, &ear{})
	return err
}

// TestQuestionsOfOneClientThrowOutNobodyElses: a person reads a form while another
// client leaves question after question open. The greedy one is refused, retryable and
// with a reason; the person's call is the oldest, and is answered all the same. Others
// still find room, and places are given back when calls end, one way or the other.
func TestQuestionsOfOneClientThrowOutNobodyElses(t *testing.T) {
	for name, who := range map[string]func(n int) mcp.ClientInfo{
		"conversations": func(n int) mcp.ClientInfo { return mcp.ClientInfo{Conversation: uint64(n + 1)} },
		"names": func(n int) mcp.ClientInfo {
			return mcp.ClientInfo{Remote: "127.0.0.1", Info: []byte(fmt.Sprintf(`{"name":"c%d"}`, n))}
		},
		"principals": func(n int) mcp.ClientInfo { return mcp.ClientInfo{Who: identity.Named(fmt.Sprintf("p%d", n))} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *Relay) {
				w := crowd{t, r, asking(mcp.MethodElicit)}
				person, greedy, third := who(0), who(1), who(2)
				form, err := w.park(person)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				var states []string
				refused := 0
				for range 3 * maxParkedInLanes {
					state, err := w.park(greedy)
					if err == nil {
						states = append(states, state)
						continue
					}
					refused++
					var e *mcp.Error
					if !errors.As(err, &e) || !e.Retryable || e.Cause != "overloaded" || !strings.Contains(e.Message, "answer those that are open") {
						t.Fatalf("refused with %v", err)
					}
				}
				want := maxParkedInLanes/2 - 1 // one place is taken, and it may have as many as are left
				if greedy.Who != nil {
					want = maxParkedInLanes // the sessions are its own
				}
				if len(states) < want || len(states) > maxParkedInLanes || refused == 0 {
					t.Errorf("the greedy client has %d calls, want about %d", len(states), want)
				}
				if _, err := w.park(third); err != nil {
					t.Errorf("a third client: %v", err)
				}
				if err := w.answer(person, form); err != nil {
					t.Errorf("the person's call: %v", err)
				}
				for i, s := range states {
					if err := w.answer(greedy, s); err != nil {
						t.Errorf("call %d: %v", i, err)
					}
				}
				synctest.Wait()
				if _, err := w.park(greedy); err != nil {
					t.Errorf("when its calls have ended: %v", err)
				}
				time.Sleep(stateTTL + time.Second) // those that are left expire
				synctest.Wait()
				if r.Parked() != 0 || len(r.places) != 0 {
					t.Errorf("%d calls are parked, and places are taken: %v", r.Parked(), r.places)
				}
			})
		})
	}
}

// TestOneServerCannotTakeAllPlaces: the bounds of a server and of all servers are
// shared out as well.
func TestOneServerCannotTakeAllPlaces(t *testing.T) {
	bubble(t, func(t *testing.T, r *Relay) {
		w := crowd{t, r, asking(mcp.MethodElicit)}
		for n := range 2 * maxParkedAtOne {
			_, _ = w.park(mcp.ClientInfo{Who: identity.Named(fmt.Sprintf("p%d", n%8))})
		}
		if n := r.places["server old"].All(); n > maxParkedAtOne || n < maxParkedAtOne/2 {
			t.Errorf("one server has %d", n)
		}
		other := crowd{t, r, asking(mcp.MethodElicit)}
		other.u.name = "other"
		if _, err := other.park(mcp.ClientInfo{Who: identity.Named("p1")}); err != nil {
			t.Errorf("at another server: %v", err)
		}
	})
}

// TestAttendedTasksOfOneClientThrowOutNobodyElses: as with parked calls.
func TestAttendedTasksOfOneClientThrowOutNobodyElses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newAsksThenEnds(t)
		g := &Single{Relay: &Relay{}, Upstream: x}
		defer g.Relay.Close()
		poll := func(who uint64, n int) error {
			c := tasking(t, "", "tasks/get", fmt.Sprintf(`{"taskId":"%sone~%d~t1"}`, openTask, n))
			c.Client.Conversation = who
			_, err := g.Call(t.Context(), c, &ear{})
			return err
		}
		if err := poll(2, 0); err != nil {
			t.Fatal(err)
		}
		n := 1
		for ; n < 2*maxAttended; n++ {
			if err := poll(1, n); err != nil {
				var e *mcp.Error
				if !errors.As(err, &e) || !e.Retryable || !strings.Contains(e.Message, "this client's tasks") {
					t.Errorf("refused with %v", err)
				}
				break
			}
		}
		if n < maxAttended/2-1 || n > maxAttended/2+1 {
			t.Errorf("one client has %d tasks of %d", n, maxAttended)
		}
		for _, err := range []error{poll(2, 0), poll(2, n+1), poll(3, n+2), poll(1, 1)} {
			if err != nil {
				t.Errorf("the others, and what is there already: %v", err)
			}
		}
		time.Sleep(stateTTL + time.Second)
		synctest.Wait()
		if len(g.Relay.attended) != 0 || g.Relay.attends.All() != 0 {
			t.Errorf("%d tasks are attended, %d counted", len(g.Relay.attended), g.Relay.attends.All())
		}
	})
}

// TestListensOfOneMachine: clients of one machine that do not say who they are have a
// share each, and one of them cannot take the others'. All together they have a bound,
// whatever names they give themselves.
func TestListensOfOneMachine(t *testing.T) {
	var s listenQuota
	of := func(machine, name string) *mcp.ClientInfo {
		return &mcp.ClientInfo{Remote: machine, Info: []byte(`{"name":"` + name + `"}`)}
	}
	fill := func(f *mcp.ClientInfo) (n int) {
		for s.take(f) {
			n++
		}
		return n
	}
	if n := fill(of("127.0.0.1", "a")); n != maxListens {
		t.Errorf("one client has %d listens", n)
	}
	if n := fill(of("127.0.0.1", "b")); n != maxListens {
		t.Errorf("another client has %d listens", n)
	}
	all := 2 * maxListens
	for i := range 1000 {
		all += fill(of("127.0.0.1", fmt.Sprint(i)))
	}
	if all > maxListensOfMachine {
		t.Errorf("one machine has %d listens", all)
	}
	if n := fill(of("127.0.0.2", "a")); n != maxListens {
		t.Errorf("a client of another machine has %d listens", n)
	}
	for who, n := range s.byParty() {
		machine, name, _ := strings.Cut(strings.TrimPrefix(who, "remote "), " ")
		for range n {
			s.giveBack(of(machine, name))
		}
	}
	if len(s.taken) != 0 || len(s.machines) != 0 {
		t.Errorf("left are %v of %v", s.taken, s.machines)
	}
}
