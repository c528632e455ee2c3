package runtime

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// host counts the calls that reach it, and the calls that reach it after it was closed.
type host struct {
	closed   atomic.Bool
	late     atomic.Int64
	calls    atomic.Int64
	attached atomic.Int64
	hold     chan struct{} // if not nil, each call waits until hold is closed
	restored func()        // if not nil, runs in Resubscribe
}

func (h *host) Hello(context.Context, *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	h.note()
	return &mcp.ServerInfo{}, nil
}

func (h *host) Call(context.Context, *mcp.Call, mcp.Caller) (*mcp.Reply, error) {
	h.note()
	if h.hold != nil {
		<-h.hold
		h.note()
	}
	return mcp.Answer(nil), nil
}

func (h *host) Notify(context.Context, *mcp.ClientInfo, *jsonrpc.Message) { h.note() }

func (h *host) Resubscribe(context.Context, *mcp.ClientInfo, []string) {
	h.note()
	if h.restored != nil {
		h.restored()
	}
}

func (h *host) Subscribe(*mcp.ClientInfo, mcp.Subscriber) func() {
	h.attached.Add(1)
	return sync.OnceFunc(func() { h.attached.Add(-1) })
}

func (h *host) note() {
	h.calls.Add(1)
	if h.closed.Load() {
		h.late.Add(1)
	}
}

type listener struct{ notes atomic.Int64 }

func (l *listener) Notify(*mcp.Note) { l.notes.Add(1) }

func (l *listener) Ask(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error) {
	return nil, mcp.ErrCannotAsk
}

func (l *listener) ClientInfo() *mcp.ClientInfo { return &mcp.ClientInfo{} }

// TestCallStaysInItsGeneration checks that a call ends in the host in which it began, and that
// the generation becomes idle only after the call.
func TestCallStaysInItsGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &host{hold: make(chan struct{})}, &host{}
		var h Handle
		if h.Replace(first) != nil {
			t.Error("Replace returned a generation the first time")
		}
		var running sync.WaitGroup
		running.Go(func() { _, _ = h.Call(t.Context(), nil, nil) })
		synctest.Wait()
		old := h.Replace(second)
		if _, err := h.Call(t.Context(), nil, nil); err != nil || second.calls.Load() != 1 {
			t.Errorf("the next call does not reach the new host: %v", err)
		}
		select {
		case <-old.Idle():
			t.Error("the generation is idle while a call runs")
		case <-time.After(time.Hour):
		}
		close(first.hold)
		running.Wait()
		<-old.Idle()
		if first.calls.Load() != 2 || second.calls.Load() != 1 {
			t.Errorf("%d and %d", first.calls.Load(), second.calls.Load())
		}
		<-h.Replace(first).Idle() // the generation is idle at once, because it has no users
	})
}

// TestAttachedClientsMove checks that attached clients move to the new host, and get
// notifications that all lists have changed.
func TestAttachedClientsMove(t *testing.T) {
	first, second := &host{}, &host{}
	var h Handle
	h.Replace(first)
	var l listener
	detach := h.Subscribe(nil, &l)
	h.Replace(second)
	if first.attached.Load() != 0 || second.attached.Load() != 1 || l.notes.Load() != 3 {
		t.Errorf("%d and %d attached, %d notes", first.attached.Load(), second.attached.Load(), l.notes.Load())
	}
	detach()
	h.Replace(first)
	if first.attached.Load() != 0 || second.attached.Load() != 0 || l.notes.Load() != 3 {
		t.Error("a client that has detached is attached again")
	}
}

// TestRenew checks that a renewed generation becomes idle as if it were replaced. The clients are
// not affected.
func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &host{hold: make(chan struct{})}
		var h Handle
		var l listener
		h.Replace(x)
		defer h.Subscribe(nil, &l)()
		var running sync.WaitGroup
		running.Go(func() { _, _ = h.Call(t.Context(), nil, nil) })
		synctest.Wait()
		old := h.Renew()
		select {
		case <-old.Idle():
			t.Error("the generation is idle while a call runs")
		case <-time.After(time.Hour):
		}
		close(x.hold)
		running.Wait()
		<-old.Idle()
		h.Notify(t.Context(), nil, nil)
		if x.calls.Load() != 3 || x.attached.Load() != 1 || l.notes.Load() != 0 {
			t.Errorf("%d calls, %d attached, %d notes", x.calls.Load(), x.attached.Load(), l.notes.Load())
		}
		<-h.Renew().Idle()
	})
}

// TestReplacedUnderLoad is for the race detector. No call, notification or Hello may reach a host
// after its generation was idle and it was closed. No attachment may remain at the end.
func TestReplacedUnderLoad(t *testing.T) {
	var h Handle
	hosts := []*host{{}}
	h.Replace(hosts[0])
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var started sync.WaitGroup // every goroutine makes a call before the first Replace
	started.Add(8)
	for range 8 {
		load.Go(func() {
			var l listener
			_, _ = h.Call(ctx, nil, nil)
			started.Done()
			for ctx.Err() == nil {
				detach := h.Subscribe(nil, &l)
				_, _ = h.Call(ctx, nil, nil)
				_, _ = h.Hello(ctx, nil)
				h.Notify(ctx, nil, nil)
				detach()
			}
		})
	}
	started.Wait()
	for range 300 {
		next := &host{}
		before := hosts[len(hosts)-1]
		hosts = append(hosts, next)
		<-h.Replace(next).Idle()
		before.closed.Store(true)
	}
	cancel()
	load.Wait()
	var calls int64
	for i, x := range hosts {
		calls += x.calls.Load()
		if x.late.Load() != 0 || x.attached.Load() != 0 {
			t.Errorf("host %d: %d calls after its close, %d attached", i, x.late.Load(), x.attached.Load())
		}
	}
	if calls == 0 {
		t.Error("no calls were made")
	}
}

func TestCallAllocatesNothing(t *testing.T) {
	var h Handle
	h.Replace(&host{})
	if n := testing.AllocsPerRun(100, func() { h.Notify(t.Context(), nil, nil) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkEnter(b *testing.B) {
	var h Handle
	h.Replace(&host{})
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			h.enter().leave()
		}
	})
}

// TestResubscribeDuringAReload replaces the host while a client is subscribed again to what it had. The resources go to the
// host that has the client then.
func TestResubscribeDuringAReload(t *testing.T) {
	h, next := &Handle{}, &host{}
	first := &host{}
	first.restored = func() { h.Replace(next) }
	h.Replace(first)
	h.Resubscribe(t.Context(), &mcp.ClientInfo{}, []string{"x:1"})
	if first.calls.Load() != 1 || next.calls.Load() != 1 {
		t.Errorf("the hosts got the resources %d and %d times", first.calls.Load(), next.calls.Load())
	}
}
