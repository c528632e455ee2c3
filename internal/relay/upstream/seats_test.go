package upstream

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// bench is a Seats on which this process sits everywhere.
type bench struct {
	mu    sync.Mutex
	calls map[string]int // by seat: those that run
}

func (b *bench) Sit(_ context.Context, seat string) (leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls == nil {
		b.calls = map[string]int{}
	}
	b.calls[seat]++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls[seat]--
	}, nil
}

func (b *bench) Rise(seat string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls[seat] == 0 {
		delete(b.calls, seat)
	}
}

func (b *bench) taken() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.calls))
}

// TestSeats lets clients call a server as another process could, too. Those of one principal with the same capabilities
// have a seat while there's a session for them, if the server is a legacy one.
func TestSeats(t *testing.T) {
	ann, bob, session := info(mcp.R20260728, "ann", "{}", 0), info(mcp.R20260728, "bob", "{}", 0), info(mcp.R20251125, "ann", "{}", 3)
	for name, x := range map[string]struct {
		h    *program
		spec Spec
		want int // seats that are taken after two clients have called
	}{
		"legacy":                    {&program{legacy: true}, Spec{}, 2},
		"modern":                    {&program{modern: true}, Spec{}, 0},
		"both":                      {&program{modern: true, legacy: true}, Spec{}, 0},
		"shared":                    {&program{legacy: true}, Spec{Isolation: Shared}, 0},
		"a session for each call":   {&program{legacy: true}, Spec{Isolation: PerCall}, 0},
		"a server that never comes": {&program{legacy: true, fails: func(int) bool { return true }}, Spec{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seats := &bench{}
				x.spec.Name, x.spec.Pipe = "s", x.h.dial
				u := New(x.spec, Options{Seats: seats, Home: "p"})
				defer u.Close(t.Context())
				for _, f := range []*mcp.ClientInfo{ann, bob, ann, session} {
					leave, err := u.Sit(t.Context(), f)
					if err != nil {
						t.Fatal(err)
					}
					_, _ = call(t, u, f, mcp.MethodCallTool, `{"name":"t"}`)
					leave()
				}
				if got := seats.taken(); len(got) != x.want {
					t.Errorf("seats %q are taken", got)
				} else if x.want == 2 && (!strings.HasPrefix(got[0], "p\x00s\x00") || got[0] == got[1]) {
					t.Errorf("the seats are %q", got)
				}
				time.Sleep(2 * homeIdle)
				synctest.Wait()
				if got := seats.taken(); len(got) != 0 {
					t.Errorf("seats %q are taken, and nobody has a session", got)
				}
			})
		})
	}
}
