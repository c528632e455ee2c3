package bridge

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// crowd is a bridge with many clients and one legacy server that sends requests.
type crowd struct {
	t *testing.T
	r *Bridge
	u *fake
}

// park starts a client's call, waits until the call is parked, and returns its requestState.
func (w crowd) park(f mcp.ClientInfo) (state string, err error) {
	w.t.Helper()
	c := modern(w.t, mcp.MethodCallTool, `{"name":"t"}`)
	f.Revision, f.Capabilities = mcp.R20260728, []byte(asksAll)
	c.Client = &f
	reply, err := relay(w.t.Context(), w.r, w.u, c, &ear{})
	if err != nil {
		return "", err
	}
	return text(w.t, reply, "requestState"), nil
}

// answer retries a parked call with an answer to the server request.
func (w crowd) answer(f mcp.ClientInfo, state string) error {
	c := modern(w.t, mcp.MethodCallTool, answered(state, accepted))
	f.Revision, f.Capabilities = mcp.R20260728, []byte(asksAll)
	c.Client = &f
	_, err := relay(w.t.Context(), w.r, w.u, c, &ear{})
	return err
}

// TestParkedCallsAreSharedFairly checks that one client cannot take the slots of other clients. While
// a user reads a form, a second client parks call after call, until it gets a retryable error.
// The user's call is the oldest and still gets its answer. A third client finds a free slot. When
// calls end, their slots are released.
func TestParkedCallsAreSharedFairly(t *testing.T) {
	for name, who := range map[string]func(n int) mcp.ClientInfo{
		"conversations": func(n int) mcp.ClientInfo { return mcp.ClientInfo{Conversation: uint64(n + 1)} },
		"names": func(n int) mcp.ClientInfo {
			return mcp.ClientInfo{Remote: "127.0.0.1", Info: []byte(fmt.Sprintf(`{"name":"c%d"}`, n))}
		},
		"principals": func(n int) mcp.ClientInfo { return mcp.ClientInfo{Who: identity.Named(fmt.Sprintf("p%d", n))} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *Bridge) {
				w := crowd{t, b, asking(mcp.MethodElicit)}
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
					if !errors.As(err, &e) || !e.Retryable || e.Cause != "overloaded" || !strings.Contains(e.Message, "answer those calls") {
						t.Fatalf("refused with %v", err)
					}
				}
				want := maxParkedInLanes/2 - 1 // one slot is taken, and a party may take a slot while it has fewer slots than are free
				if greedy.Who != nil {
					want = maxParkedInLanes // principals do not share the slots of their sessions
				}
				if len(states) < want || len(states) > maxParkedInLanes || refused == 0 {
					t.Errorf("the greedy client has %d calls, want about %d", len(states), want)
				}
				if _, err := w.park(third); err != nil {
					t.Errorf("the call of a third client: %v", err)
				}
				if err := w.answer(person, form); err != nil {
					t.Errorf("the user's call: %v", err)
				}
				for i, s := range states {
					if err := w.answer(greedy, s); err != nil {
						t.Errorf("call %d of the greedy client: %v", i, err)
					}
				}
				synctest.Wait()
				if _, err := w.park(greedy); err != nil {
					t.Errorf("a call of the greedy client after its others have ended: %v", err)
				}
				time.Sleep(stateTTL + time.Second) // the remaining calls expire
				synctest.Wait()
				if b.Parked() != 0 || len(b.places) != 0 {
					t.Errorf("%d calls are parked, and these slots are taken: %v; want none", b.Parked(), b.places)
				}
			})
		})
	}
}

// TestOneServerCannotTakeAllPlaces checks that the slots of one server and of all servers are also
// shared fairly.
func TestOneServerCannotTakeAllPlaces(t *testing.T) {
	bubble(t, func(t *testing.T, b *Bridge) {
		w := crowd{t, b, asking(mcp.MethodElicit)}
		for n := range 2 * maxParkedAtOne {
			_, _ = w.park(mcp.ClientInfo{Who: identity.Named(fmt.Sprintf("p%d", n%8))})
		}
		if n := b.places["server old"].All(); n > maxParkedAtOne || n < maxParkedAtOne/2 {
			t.Errorf("one server has %d parked calls", n)
		}
		other := crowd{t, b, asking(mcp.MethodElicit)}
		other.u.name = "other"
		if _, err := other.park(mcp.ClientInfo{Who: identity.Named("p1")}); err != nil {
			t.Errorf("a call to another server: %v", err)
		}
	})
}
