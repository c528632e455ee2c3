package calls

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// request returns a call of the method tools/call, with the given number and tool name.
func request(number uint64, tool string) *mcp.Call {
	m := jsonrpc.NewRequest("1", mcp.MethodCallTool, []byte(`{"name":"`+tool+`"}`))
	c := mcp.NewCall(m, jsonrpc.Span{}, &mcp.ClientInfo{Revision: mcp.R20250618, Info: []byte(`{"name":"Cursor","version":"1.7"}`)})
	c.Number = number
	return c
}

// run begins a call, answers it and ends it.
func run(r *Ring, number uint64, how mcp.Ending) {
	c := request(number, "t")
	x := r.Begin(c, nil)
	a := mcp.NewAttempt(c)
	a.Server = "s"
	x.Routed(a)
	x.Answered(a, how)
	x.End(10, false)
}

// running returns how many calls of a ring have not ended.
func running(r *Ring) (n int) {
	for _, c := range r.All() {
		if c.Running() {
			n++
		}
	}
	return n
}

// known returns how many numbers a ring knows.
func known(r *Ring) (n int) {
	for i := range r.shards {
		n += len(r.shards[i].calls)
	}
	return n
}

func numbers(all []Call) (text string) {
	for _, c := range all {
		text += fmt.Sprintf("%d ", c.Number)
	}
	return strings.TrimSpace(text)
}

// TestOwnLists checks that the ring keeps no list that a Dragoman has read, unless it failed.
func TestOwnLists(t *testing.T) {
	for _, c := range []struct {
		client, method string
		outcome        mcp.Outcome
		code           int64
		kept           bool
	}{
		{"dragoman", mcp.MethodListTools, "ok", 0, false},
		{"dragoman", mcp.MethodListPrompts, "ok", 0, false},
		{"dragoman", mcp.MethodListTemplates, mcp.Failed, -32601, false},
		{"dragoman", mcp.MethodListTools, mcp.Failed, -32603, true},
		{"dragoman", mcp.MethodCallTool, "ok", 0, true},
		{"Cursor", mcp.MethodListTools, "ok", 0, true},
	} {
		r := New(Options{})
		call := request(1, "")
		call.Method, call.Msg = mcp.LookupMethod(c.method), jsonrpc.NewRequest("1", c.method, nil)
		client := *call.Client
		client.Info = []byte(`{"name":"` + c.client + `","version":"1"}`)
		call.Client = &client
		x := r.Begin(call, nil)
		a := mcp.NewAttempt(call)
		a.Server = "s"
		x.Routed(a)
		if n := len(r.All()); n != 1 {
			t.Errorf("%+v: %d running calls", c, n)
		}
		x.Answered(a, mcp.Ending{Outcome: c.outcome, Code: c.code})
		x.End(10, false)
		if _, found := r.Find(1); found != c.kept || (len(r.All()) == 1) != c.kept || (r.Counts()["s"].Ended == 1) != c.kept {
			t.Errorf("%+v: %+v", c, r.All())
		}
	}
}

// TestRing checks that a ring keeps the running calls and the last calls that have ended.
func TestRing(t *testing.T) {
	r := New(Options{Keep: 3})
	long := r.Begin(request(1, "long"), nil)
	for n := range uint64(5) {
		run(r, n+2, mcp.Ending{Outcome: "ok"})
	}
	if got := numbers(r.All()); got != "6 5 4 1" {
		t.Errorf("calls %s", got)
	}
	if c, ok := r.Find(1); !ok || !c.Running() || c.Name != "long" || c.Client.Name != "Cursor" || c.Client.Version != "1.7" {
		t.Errorf("the running call is %+v, %v", c, ok)
	}
	if _, ok := r.Find(2); ok {
		t.Error("a dropped call is found")
	}
	ended, missed, more := r.Since(0, 2)
	if numbers(ended) != "4 5" || !missed || more != nil {
		t.Errorf("since the beginning: %s, missed %v", numbers(ended), missed)
	}
	ended, missed, _ = r.Since(r.Last(1), 9)
	if numbers(ended) != "6" || missed {
		t.Errorf("the last one: %s, missed %v", numbers(ended), missed)
	}
	_, _, more = r.Since(ended[0].Seq, 9)
	long.End(7, true)
	<-more
	ended, _, _ = r.Since(ended[0].Seq, 9)
	if len(ended) != 1 || ended[0].Number != 1 || ended[0].Outcome != refused || ended[0].Cause != "cancelled" || ended[0].Out != 7 {
		t.Errorf("the long call is %+v", ended)
	}
	if got := numbers(r.All()); got != "6 5 1" {
		t.Errorf("calls %s", got)
	}
	if r.Last(0) != ended[0].Seq || r.Last(99) >= 4 {
		t.Errorf("positions %d and %d", r.Last(0), r.Last(99))
	}
}

// TestNilRing checks that a nil ring does nothing, and that a ring ignores calls without a
// number.
func TestNilRing(t *testing.T) {
	var none *Ring
	c := request(1, "t")
	none.Begin(c, nil).End(0, false)
	none.Lost(1, "a", "b")
	if _, ok := none.Find(1); ok || c.Record != nil || none.All() != nil {
		t.Error("a nil ring keeps calls")
	}
	r := New(Options{})
	c = request(0, "t")
	r.Begin(c, nil).End(0, false)
	if c.Record != nil || len(r.All()) != 0 {
		t.Error("a call without a number is kept")
	}
}

// TestResumed checks that a parked call and its retry are one call, with the time and the
// sizes of both.
func TestResumed(t *testing.T) {
	r := New(Options{})
	run(r, 1, mcp.Ending{Outcome: "parked"})
	first, _ := r.Find(1)
	retry := request(2, "t")
	x := r.Begin(retry, nil)
	retry.Resume(1)
	if got := r.All(); numbers(got) != "1" || !got[0].Running() || got[0].Asked != 2 || !got[0].Start.Equal(first.Start) || got[0].Outcome != "" {
		t.Errorf("calls %+v", got)
	}
	x.Answered(mcp.NewAttempt(retry), mcp.Ending{Outcome: "ok"})
	x.End(5, false)
	c, _ := r.Find(1)
	if c.Outcome != "ok" || c.In != 2*first.In || c.Out != 15 || c.Seq <= first.Seq || retry.Number != 1 {
		t.Errorf("the call is %+v", c)
	}

	// The client may send its retry before the parked call has ended.
	quick := request(8, "t")
	first8 := r.Begin(quick, nil)
	first8.Answered(mcp.NewAttempt(quick), mcp.Ending{Outcome: parked})
	again := request(9, "t")
	z := r.Begin(again, nil)
	again.Resume(8)
	first8.End(100, false)
	z.End(10, false)
	if c, _ := r.Find(8); c.Asked != 2 || c.Out != 110 || c.Running() || running(r) != 0 {
		t.Errorf("the call is %+v", c)
	}
	if c, _ := r.Find(9); c.Number != 8 || len(c.Retries) != 1 || c.Retries[0] != 9 {
		t.Errorf("the retry belongs to %+v", c)
	}

	// Call 3 is still running, so its retry is a separate call. The ring does not have call 77, so
	// the retry of call 77 gets this number.
	running := request(3, "t")
	y := r.Begin(running, nil)
	for i, number := range []uint64{3, 77} {
		other := request(uint64(4+i), "t")
		z := r.Begin(other, nil)
		other.Resume(number)
		z.End(0, false)
	}
	y.End(0, false)
	if got := numbers(r.All()); got != "77 8 4 3 1" {
		t.Errorf("calls %s", got)
	}
}

// TestLost checks that a loss is added to its call once, even after the call has ended.
// Readers that wait get the call again.
func TestLost(t *testing.T) {
	r := New(Options{})
	run(r, 1, mcp.Ending{Outcome: "ok"})
	_, _, more := r.Since(1, 1)
	before, _ := r.Find(1)
	r.Lost(1, "structuredContent", "a list")
	<-more
	r.Lost(1, "structuredContent", "a list")
	r.Lost(9, "x", "y")
	after, _ := r.Find(1)
	if len(before.Losses) != 0 || len(after.Losses) != 1 || after.Seq <= before.Seq {
		t.Errorf("before %+v, after %+v", before, after)
	}
	for i := range 2 * maxLosses {
		r.Lost(1, fmt.Sprint(i), "")
	}
	if after, _ = r.Find(1); len(after.Losses) != maxLosses {
		t.Errorf("%d losses", len(after.Losses))
	}
}

// TestCounts checks the counts of ended calls: a parked call counts once, when its retry ends.
func TestCounts(t *testing.T) {
	r := New(Options{Keep: 2})
	for n := range uint64(5) {
		run(r, n+1, mcp.Ending{Outcome: "ok"})
	}
	run(r, 6, mcp.Ending{Outcome: mcp.Failed, Code: -7})
	run(r, 7, mcp.Ending{Outcome: "tool_error"})
	run(r, 8, mcp.Ending{Outcome: parked})
	r.Begin(request(9, "running"), nil)
	r.Begin(request(10, "refused"), nil).End(0, false)
	if got := r.Counts(); len(got) != 1 || got["s"] != (Count{Ended: 7, Failed: 1}) {
		t.Errorf("%v", got)
	}
	retry := request(11, "t")
	x := r.Begin(retry, nil)
	x.Resumed(retry, 8)
	a := mcp.NewAttempt(retry)
	a.Server = "s"
	x.Answered(a, mcp.Ending{Outcome: "ok"})
	x.End(0, false)
	if got := r.Counts()["s"]; got.Ended != 8 {
		t.Errorf("after the retry: %v", got)
	}
}

// TestBoundedTexts checks that long names from peers are cut.
func TestBoundedTexts(t *testing.T) {
	r := New(Options{})
	c := request(1, strings.Repeat("x", 5000))
	c.Client.Info = []byte(`{"name":"` + strings.Repeat("y", 5000) + `"}`)
	r.Begin(c, nil).End(0, false)
	got, _ := r.Find(1)
	if len(got.Name) > maxName || len(got.Client.Name) > maxName || got.Name == "" || got.Client.Name == "" {
		t.Errorf("names of %d and %d bytes", len(got.Name), len(got.Client.Name))
	}
	for i := range 2 * maxClients {
		c := request(uint64(i+2), "t")
		c.Client.Info = fmt.Appendf(nil, `{"name":"c%d"}`, i)
		r.Begin(c, nil).End(0, false)
	}
	if n := len(*r.clients.Load()); n > maxClients || n == 0 {
		t.Errorf("%d names of clients", n)
	}
}

// TestAtOnce runs and ends many calls while other goroutines read the ring. The race detector can
// find data races in this test.
func TestAtOnce(t *testing.T) {
	r := New(Options{Keep: 50, Record: true, Bytes: 64 << 10})
	var number atomic.Uint64
	var work, reading sync.WaitGroup
	done := make(chan struct{})
	reading.Go(func() {
		seq := uint64(0)
		for {
			ended, _, more := r.Since(seq, 10)
			for _, c := range ended {
				if c.Running() || c.Seq <= seq {
					t.Errorf("call %+v after %d", c, seq)
				}
				seq = c.Seq
			}
			if more == nil {
				continue
			}
			select {
			case <-more:
			case <-done:
				return
			}
		}
	})
	for range 4 {
		work.Go(func() {
			for range 300 {
				n := number.Add(1)
				c := request(n, "t")
				x := r.Begin(c, nil)
				a := mcp.NewAttempt(c)
				x.Routed(a)
				r.Lost(n, "a", "b")
				if all := r.All(); len(all) > 50+8 || !slices.IsSortedFunc(all, func(a, b Call) int { return cmp.Compare(b.Number, a.Number) }) {
					t.Errorf("calls %s", numbers(all))
				}
				r.Record(n%64 != 0)
				x.Answered(a, mcp.Ending{Outcome: "parked"})
				x.End(1, false)
				r.Lost(n-min(n-1, 49), "c", "d") // a call that the ring may drop at this moment
				if c, ok := r.Find(n - min(n-1, 49)); ok && c.Number == 0 {
					t.Error("a forgotten call is found")
				}
				r.Story(n)
				again := request(number.Add(1), "t")
				y := r.Begin(again, nil)
				again.Resume(n)
				y.End(1, false)
			}
		})
	}
	work.Wait()
	close(done)
	reading.Wait()
	if all := r.All(); len(all) != 50 || running(r) != 0 || known(r) != 2*50 { // each call is known by two numbers
		t.Errorf("%d calls, %d running, %d known", len(all), running(r), known(r))
	}
	if r.Record(false); r.Held() != 0 || r.plain.n+r.telling.n != 0 {
		t.Errorf("%d bytes are held, in %d and %d recordings", r.Held(), r.plain.n, r.telling.n)
	}
}

// TestAllocs checks that a call allocates no memory when the ring is full.
func TestAllocs(t *testing.T) {
	r := New(Options{Keep: 10})
	c := request(1, "t")
	a := mcp.NewAttempt(c)
	a.Server = "s"
	once := func() {
		c.Number++
		x := r.Begin(c, nil)
		x.Routed(a)
		x.Answered(a, mcp.Ending{Outcome: "ok"})
		x.End(1, false)
	}
	for range 100 {
		once()
	}
	if n := testing.AllocsPerRun(1000, once); n > 0 {
		t.Errorf("a call allocates %v times", n)
	}
}

func BenchmarkCall(b *testing.B) {
	r := New(Options{})
	c := request(1, "t")
	a := mcp.NewAttempt(c)
	a.Server = "s"
	b.ReportAllocs()
	for b.Loop() {
		c.Number++
		x := r.Begin(c, nil)
		x.Routed(a)
		x.Answered(a, mcp.Ending{Outcome: "ok"})
		x.End(1, false)
	}
}
