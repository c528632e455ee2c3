package event

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestNobodyListens(t *testing.T) {
	var none *Publisher
	none.Publish(Event{Kind: Call})
	if none.Wants(Call) {
		t.Error("Wants is true for a nil publisher")
	}
	var p Publisher
	p.Publish(Event{Kind: Call})
	if p.Wants(Call) {
		t.Error("Wants is true without a subscriber")
	}
}

// TestKinds checks that each tap gets only events of its kinds, and no events after it has been
// stopped.
func TestKinds(t *testing.T) {
	var p Publisher
	var calls, losses int
	stopCalls := p.Tap(Of(Call), func(Event) { calls++ })
	stopLosses := p.Tap(Of(Loss, Refusal), func(Event) { losses++ })
	for k := Call; k < kinds; k++ {
		if want := k == Call || k == Loss || k == Refusal; p.Wants(k) != want {
			t.Errorf("%v: wanted %v", k, !want)
		}
		p.Publish(Event{Kind: k})
	}
	if calls != 1 || losses != 2 {
		t.Errorf("%d calls, %d losses", calls, losses)
	}
	stopCalls()
	if p.Wants(Call) || !p.Wants(Loss) {
		t.Error("stopping one subscriber changes another")
	}
	stopLosses()
	stopLosses()
	p.Publish(Event{Kind: Loss})
	if losses != 2 || p.Wants(Loss) {
		t.Error("a stopped tap still gets events")
	}
}

func TestKindNames(t *testing.T) {
	seen := map[string]bool{}
	for k := Call; k < kinds; k++ {
		if k.String() == "" || seen[k.String()] || !All.Has(k) {
			t.Errorf("kind %d is called %q", k, k)
		}
		seen[k.String()] = true
	}
	if Kind(0).String() != "" || kinds.String() != "" || All.Has(0) || All.Has(kinds) {
		t.Error("a kind that does not exist has a name")
	}
}

// TestQueueOverflows checks that a full queue keeps the newest events and counts the events that it
// has dropped.
func TestQueueOverflows(t *testing.T) {
	var p Publisher
	q := p.Subscribe(All, 3)
	defer q.Close()
	for i := range 8 {
		p.Publish(Event{Kind: Call, Code: int64(i)})
	}
	buf := make([]Event, 2)
	if n, lost := q.Take(buf); n != 2 || lost != 5 || buf[0].Code != 5 || buf[1].Code != 6 {
		t.Fatal(n, lost, buf)
	}
	if n, lost := q.Take(buf); n != 1 || lost != 0 || buf[0].Code != 7 {
		t.Fatal(n, lost, buf)
	}
	if n, lost := q.Take(buf); n != 0 || lost != 0 {
		t.Fatal(n, lost, buf)
	}
}

// TestQueueCloses checks that events published before Close can still be read after Close, and that
// later events cannot.
func TestQueueCloses(t *testing.T) {
	var p Publisher
	q := p.Subscribe(All, 0)
	p.Publish(Event{Kind: Loss})
	q.Close()
	q.Close()
	p.Publish(Event{Kind: Call})
	buf := make([]Event, 4)
	if err := q.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, _ := q.Take(buf); n != 1 || buf[0].Kind != Loss {
		t.Fatal(n)
	}
	if err := q.Wait(t.Context()); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

// TestQueueWakes checks that Wait returns when an event is published, when the queue is closed, and
// when its context ends.
func TestQueueWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Publisher
		q := p.Subscribe(All, 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		results := make(chan error, 1)
		var wg sync.WaitGroup
		next := func(ctx context.Context) {
			wg.Go(func() {
				err := q.Wait(ctx)
				q.Take(make([]Event, 1))
				results <- err
			})
			synctest.Wait()
		}
		next(ctx)
		p.Publish(Event{Kind: Call})
		if err := <-results; err != nil {
			t.Error(err)
		}
		why := errors.New("enough")
		next(ctx)
		cancel(why)
		if err := <-results; err != why {
			t.Error(err)
		}
		next(t.Context())
		q.Close()
		if err := <-results; err != ErrClosed {
			t.Error(err)
		}
		wg.Wait()
	})
}

// TestConcurrent adds and removes subscribers while other goroutines publish events, for the race
// detector. A permanent tap must get every event. A queue must either deliver an event or count it
// as lost.
func TestConcurrent(t *testing.T) {
	const publishers, each = 4, 2000
	var p Publisher
	var tapped atomic.Int64
	defer p.Tap(All, func(Event) { tapped.Add(1) })()
	q := p.Subscribe(Of(Call), 16)

	var work, reading sync.WaitGroup
	var read, lost int64
	reading.Go(func() {
		buf := make([]Event, 5)
		for q.Wait(t.Context()) == nil {
			n, l := q.Take(buf)
			read += int64(n)
			lost += l
		}
	})
	for range publishers {
		work.Go(func() {
			for range each {
				p.Publish(Event{Kind: Call})
			}
		})
	}
	work.Go(func() {
		for range 200 {
			stop := p.Tap(Of(Loss), func(Event) {})
			p.Subscribe(All, 2).Close()
			stop()
		}
	})
	work.Wait()
	q.Close()
	reading.Wait()
	if n := tapped.Load(); n != publishers*each {
		t.Errorf("the tap saw %d of %d", n, publishers*each)
	}
	if read+lost != publishers*each {
		t.Errorf("the queue accounts for %d + %d of %d", read, lost, publishers*each)
	}
}

func TestAllocs(t *testing.T) {
	var p Publisher
	var n int64
	defer p.Tap(All, func(Event) { n++ })()
	q := p.Subscribe(All, 4)
	defer q.Close()
	if got := testing.AllocsPerRun(100, func() { p.Publish(Event{Kind: Call, Method: "tools/call"}) }); got > 0 {
		t.Errorf("Publish allocates %v times", got)
	}
}

func BenchmarkPublish(b *testing.B) {
	e := Event{Kind: Call, Method: "tools/call", Server: "files", Name: "read_file"}
	run := func(name string, p *Publisher) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Publish(e)
			}
		})
	}
	var p Publisher
	run("nobody", &p)
	var n int64
	defer p.Tap(All, func(Event) { n++ })()
	run("tap", &p)
	for range 3 {
		defer p.Subscribe(All, 256).Close()
	}
	run("tap and three queues", &p)
}

// TestClient checks that taps get the client of a call, but queues do not. A queue would keep the
// client's request in memory.
func TestClient(t *testing.T) {
	var p Publisher
	var got *mcp.ClientInfo
	defer p.Tap(Of(Call), func(e Event) { got = e.Client })()
	q := p.Subscribe(Of(Call), 1)
	defer q.Close()
	client := &mcp.ClientInfo{}
	p.Publish(Event{Kind: Call, Client: client})
	buf := make([]Event, 1)
	if n, _ := q.Take(buf); n != 1 || buf[0].Client != nil || got != client {
		t.Errorf("%d: the queue has %v, the tap %v", n, buf[0].Client, got)
	}
}

// TestForProject checks that the events of a project's Publisher are this project's whatever they
// say, that the subscribers are those of the whole, and that numbers of calls do not repeat.
func TestForProject(t *testing.T) {
	var whole *Publisher
	if whole.For("shop") != nil {
		t.Error("a nil Publisher has one for a project")
	}
	whole = &Publisher{}
	shop := whole.For("shop")
	lab := shop.For("lab")
	var got []string
	stop := shop.Tap(Of(Call), func(e Event) { got = append(got, e.Project) })
	q := whole.Subscribe(Of(Call), 8)
	defer q.Close()
	for _, p := range []*Publisher{whole, shop, lab} {
		if !p.Wants(Call) || p.Wants(Loss) {
			t.Error("Wants differs")
		}
		p.Publish(Event{Kind: Call, Project: "other"})
	}
	shop.Publish(Event{Kind: Call})
	whole.Publish(Event{Kind: Call})
	if want := []string{"other", "shop", "lab", "shop", DefaultProject}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if n, _ := q.Take(make([]Event, 8)); n != 5 {
		t.Errorf("the queue has %d events", n)
	}
	if a, b, c := whole.NextCall(), shop.NextCall(), lab.NextCall(); a != 1 || b != 2 || c != 3 {
		t.Errorf("%d, %d, %d", a, b, c)
	}
	stop()
}
