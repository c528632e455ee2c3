package runtime

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// loop opens sessions in sequence until ctx ends. The function next returns the client for each
// session.
func loop(ctx context.Context, n *newcomers, next func(i int) transport.Newcomer) (opened int) {
	for i := 0; ctx.Err() == nil; i++ {
		if _, ok := n.allow(ctx, next(i)); ok {
			opened++
		} else {
			time.Sleep(time.Millisecond) // a refusal takes at least this long
		}
	}
	return opened
}

// TestLoopingClientShutsOutNobody opens sessions in several kinds of loops, over one connection or
// over many. At the same time, another client opens a session every ten seconds. Dragoman never
// refuses this client, and delays it only if Dragoman cannot distinguish the two clients.
func TestLoopingClientShutsOutNobody(t *testing.T) {
	other := func(i int) transport.Newcomer {
		return transport.Newcomer{Remote: "127.0.0.1", Connection: 1_000_000 + uint64(i), Client: "other 1"}
	}
	same := func(i int) transport.Newcomer {
		w := other(i)
		w.Client = "loop 1"
		return w
	}
	for _, c := range []struct {
		name     string
		abreast  int // the number of concurrent loops
		next     func(worker, i int) transport.Newcomer
		innocent func(i int) transport.Newcomer
		wait     time.Duration // the longest allowed delay of the second client
		opened   int           // the most sessions that the loops may open in 100 s
	}{
		{"one connection, another name", 3, func(w, _ int) transport.Newcomer {
			return transport.Newcomer{Remote: "127.0.0.1", Connection: uint64(w + 1), Client: "loop 1"}
		}, other, 0, 3 * 5 * 111},
		{"one connection, the same name", 3, func(w, _ int) transport.Newcomer {
			return transport.Newcomer{Remote: "127.0.0.1", Connection: uint64(w + 1), Client: "loop 1"}
		}, same, 0, 3 * 5 * 111},
		{"new connections each time, another name", 20, func(w, i int) transport.Newcomer {
			return transport.Newcomer{Remote: "127.0.0.1", Connection: uint64(i*100 + w + 1), Client: "loop 1"}
		}, other, 0, 20 * 111},
		{"new connections each time, the same name", 20, func(w, i int) transport.Newcomer {
			return transport.Newcomer{Remote: "127.0.0.1", Connection: uint64(i*100 + w + 1), Client: "loop 1"}
		}, same, maxDelay, 20 * 111},
		{"new names each time, a known client", 50, func(w, i int) transport.Newcomer {
			return transport.Newcomer{Remote: "127.0.0.1", Connection: uint64(i*100 + w + 1), Client: fmt.Sprintf("loop %d %d", w, i)}
		}, other, 0, 100 * 111},
		{"new names each time, new clients", 50, func(w, i int) transport.Newcomer {
			return transport.Newcomer{Remote: "127.0.0.1", Connection: uint64(i*100 + w + 1), Client: fmt.Sprintf("loop %d %d", w, i)}
		}, func(i int) transport.Newcomer {
			return transport.Newcomer{Remote: "127.0.0.1", Connection: 1_000_000 + uint64(i), Client: fmt.Sprintf("new %d", i)}
		}, maxDelay, 100 * 111},
		{"a client that has signed in, and its connections", 20, func(w, i int) transport.Newcomer {
			return transport.Newcomer{Principal: "ann", Remote: "127.0.0.1", Connection: uint64(i*100 + w + 1), Client: "loop 1"}
		}, func(i int) transport.Newcomer {
			return transport.Newcomer{Principal: "bob", Remote: "127.0.0.1", Connection: uint64(1), Client: "loop 1"}
		}, 0, 5 * 111},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &newcomers{perSecond: 5}
				if _, ok := n.allow(t.Context(), c.innocent(0)); !ok {
					t.Fatal("the first client was refused")
				}
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
				defer cancel()
				var looping sync.WaitGroup
				var mu sync.Mutex
				opened := 0
				for w := range c.abreast {
					looping.Go(func() {
						got := loop(ctx, n, func(i int) transport.Newcomer { return c.next(w, i) })
						mu.Lock()
						opened += got
						mu.Unlock()
					})
				}
				for i := 1; i < 10; i++ {
					time.Sleep(10 * time.Second)
					start := time.Now()
					if after, ok := n.allow(ctx, c.innocent(i)); !ok {
						t.Errorf("%d: refused for %v", i, after)
					}
					if took := time.Since(start); took > c.wait {
						t.Errorf("%d: waited for %v", i, took)
					}
				}
				looping.Wait()
				if opened > c.opened {
					t.Errorf("the loops opened %d sessions", opened)
				}
				if len(n.conns.all) > maxNewcomers || len(n.clients.all) > maxNewcomers || n.delayed != 0 {
					t.Errorf("%d connections, %d clients, %d delayed", len(n.conns.all), len(n.clients.all), n.delayed)
				}
			})
		})
	}
}

// TestHeldBack checks that the number of delayed clients is limited. If a delayed client
// disconnects, the next client takes its place.
func TestHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &newcomers{perSecond: 10_000}
		who := transport.Newcomer{Principal: "ann"}
		for range 10_000 * burstFactor {
			if _, ok := n.allow(t.Context(), who); !ok {
				t.Fatal("the client was refused within its burst")
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		var mu sync.Mutex
		refused := 0
		n.setRate(1) // a low rate for the other clients
		slow := transport.Newcomer{Principal: "bob"}
		for range burstFactor {
			n.allow(ctx, slow)
		}
		for range 3 * maxDelayed {
			waiting.Go(func() {
				if after, ok := n.allow(ctx, slow); !ok {
					mu.Lock()
					refused++
					mu.Unlock()
					if after <= 0 {
						t.Errorf("the client may try again after %v", after)
					}
				}
			})
		}
		synctest.Wait()
		n.mu.Lock()
		delayed := n.delayed
		n.mu.Unlock()
		if delayed == 0 || delayed > maxDelayed {
			t.Errorf("%d clients are delayed", delayed)
		}
		cancel()
		waiting.Wait()
		if refused != 3*maxDelayed || n.delayed != 0 {
			t.Errorf("%d refused, %d delayed", refused, n.delayed)
		}
		time.Sleep(time.Second)
		start := time.Now()
		if _, ok := n.allow(t.Context(), slow); !ok || time.Since(start) > time.Second {
			t.Errorf("after the other clients hung up: %t, %v", ok, time.Since(start))
		}
	})
}

// TestDelayIsLogged checks that a client that has to wait is told so by allow, and that the log names
// it. A client that does not wait is not in the log.
func TestDelayIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		n := &newcomers{perSecond: 1, log: slog.New(slog.NewTextHandler(&out, nil))}
		if wait, ok := n.allow(t.Context(), transport.Newcomer{Remote: "10.0.0.1", Client: "innocent 1"}); !ok || wait != 0 {
			t.Errorf("the innocent client: %v, %t", wait, ok)
		}
		flood := transport.Newcomer{Principal: "bob", Remote: "10.0.0.2", Client: "flood\x1b[2J 1"}
		for range burstFactor {
			n.allow(t.Context(), flood)
		}
		if wait, ok := n.allow(t.Context(), flood); !ok || wait <= 0 {
			t.Errorf("the client that opens many sessions: %v, %t", wait, ok)
		}
		if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "remote=10.0.0.2") || !strings.Contains(text, "outcome=delayed waited=1s") || strings.ContainsRune(text, 0x1b) {
			t.Errorf("the log is %s", text)
		}
	})
}

// TestRateChanges checks that a new rate counts for the next session of a client that Dragoman knows
// already, whether it is higher, lower or none.
func TestRateChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &newcomers{}
		who := transport.Newcomer{Principal: "ann"}
		opened := func(seconds int) int {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second)
			defer cancel()
			return loop(ctx, n, func(int) transport.Newcomer { return who })
		}
		for range 1000 {
			if wait, ok := n.allow(t.Context(), who); wait != 0 || !ok {
				t.Fatal("there is a limit")
			}
		}
		for _, perSecond := range []int{1, 20, 2} {
			n.setRate(perSecond)
			opened(30) // uses up the burst
			if got := opened(100); got < perSecond*95 || got > perSecond*105 {
				t.Errorf("%d per second: %d sessions in 100 s", perSecond, got)
			}
		}
		n.setRate(0)
		if wait, ok := n.allow(t.Context(), who); wait != 0 || !ok {
			t.Error("there is still a limit")
		}
	})
}
