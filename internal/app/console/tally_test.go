package console

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// TestTallies counts the same events once with tallies, and once as if there were none. Readers must
// see no difference, whenever they read.
func TestTallies(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 7))
		with, without := newTraffic("demo"), newTraffic("demo")
		without.began = with.began
		clients := []int{3, 40, mostClients + 50}[seed%3]
		now := time.Unix(1_800_000_000, 0)
		for i := range uint64(6000) {
			now = now.Add(time.Duration(r.IntN(40)) * time.Millisecond)
			if r.IntN(2000) == 0 {
				now = now.Add(time.Duration(r.IntN(90)) * time.Second)
			}
			call := i + 1
			if r.IntN(9) == 0 {
				e := event.Event{Kind: event.Loss, Time: now, Name: fmt.Sprint("loss ", r.IntN(5)), Detail: "x", Call: call - uint64(r.IntN(3)) + 1}
				with.note(&e)
				without.note(&e)
			}
			e := event.Event{
				Kind: event.Call, Time: now, Method: "tools/call", Name: fmt.Sprint("tool ", r.IntN(4)), Server: []string{"", "a", "b"}[r.IntN(3)],
				From: []mcp.Revision{mcp.R20250618, mcp.R20260728}[r.IntN(2)], To: []mcp.Revision{mcp.Unknown, mcp.R20251125, mcp.R20260728}[r.IntN(3)],
				Outcome: []mcp.Outcome{event.OK, event.OK, mcp.Failed, event.Refused}[r.IntN(4)], Took: time.Duration(r.IntN(1e9)), Call: call,
				Client: &mcp.ClientInfo{
					Info: fmt.Appendf(nil, `{"name":"client %d","version":"1"}`, r.IntN(clients)), Capabilities: fmt.Appendf(nil, `{"x":%d}`, r.IntN(2)), Remote: []string{"", "127.0.0.1"}[r.IntN(2)],
				},
			}
			switch r.IntN(20) {
			case 0:
				e.Client = nil
			case 1:
				e.Client.Info = []byte(`{"name":"demo"}`)
			case 2:
				e.Method = mcp.MethodListen
			}
			with.note(&e)
			x := endedCallOf(&e)
			without.mu.Lock()
			without.callLocked(&x)
			without.mu.Unlock()
			if r.IntN(200) == 0 || i == 5999 {
				a, b := with.sums(now, nil), without.sums(now, nil)
				if !reflect.DeepEqual(a, b) {
					t.Fatalf("seed %d, event %d:\n%+v\n%+v", seed, i, a, b)
				}
			}
		}
	}
}

// TestTalliesAtOnce counts calls and losses from many goroutines while another one reads.
func TestTalliesAtOnce(t *testing.T) {
	t.Parallel()
	tr, p := newTraffic(), &event.Publisher{}
	defer tr.tap(p, func() {})()
	const each = 500
	var work, reading sync.WaitGroup
	done := make(chan struct{})
	reading.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				tr.sums(time.Now(), nil)
			}
		}
	})
	for i := range 8 {
		work.Go(func() {
			for n := range each {
				number := p.NextCall()
				if n%5 == i%5 {
					p.Publish(event.Event{Kind: event.Loss, Name: "x", Detail: "y", Call: number})
				}
				call(p, fmt.Sprint("client ", n%3), "1", mcp.R20250618, "files", mcp.R20250618, event.OK, number)
			}
		})
	}
	work.Wait()
	close(done)
	reading.Wait()
	s := tr.sums(time.Now(), nil)
	lost := uint64(0)
	for _, c := range s.Clients {
		lost += c.Lost
	}
	if s.Calls != 8*each || s.Servers["files"].All != 8*each || len(s.Clients) != 3 || s.Lost != 8*each/5 || lost != s.Lost || len(s.Losses) != 1 || s.Losses[0].Item != "tool" {
		t.Errorf("%+v, %d losses have a client", s, lost)
	}
	for i := range tr.tallies {
		if n := len(tr.tallies[i].lost); n != 0 {
			t.Errorf("%d calls are still waited for", n)
		}
	}
}
