package conn

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
)

// TestFirstIDs checks that first ids leave room for a billion requests within 32 bits, are far
// from the ids of clients that start at 0, and differ between processes.
func TestFirstIDs(t *testing.T) {
	seen := map[int64]bool{}
	for range 1000 {
		s := NewSessions()
		n := s.last.Add(1)
		if n <= minFirstID || n > maxFirstID+1 || n+1_000_000_000 > 1<<31-1 {
			t.Fatalf("the first id is %d", n)
		}
		seen[n] = true
	}
	if len(seen) < 990 {
		t.Errorf("a thousand starts led to %d different first ids", len(seen))
	}
}

// TestIDsOfASession checks that a session distinguishes its own ids from those of other
// sessions.
func TestIDsOfASession(t *testing.T) {
	s := NewSessions()
	var a, b used
	var ofA, ofB []int64
	for i := range 50 {
		for range 1 + i%3 {
			ofA = append(ofA, a.next(s))
		}
		ofB = append(ofB, b.next(s))
	}
	for _, n := range ofA {
		if yes, certain := a.has(n); !yes || !certain {
			t.Errorf("the id %d does not count as one of a", n)
		}
		if yes, certain := b.has(n); yes || !certain || !s.issued(n) {
			t.Errorf("the id %d may count as one of b", n)
		}
	}
	for _, n := range []int64{s.first, ofB[len(ofB)-1] + 1, 1, 0} {
		if yes, certain := a.has(n); yes || !certain || s.issued(n) {
			t.Errorf("the id %d counts as used", n)
		}
	}
	// The oldest ids are removed, so it is no longer certain whether they were used.
	for range 2 * maxRuns {
		a.next(s)
		b.next(s)
	}
	if len(a.runs) > maxRuns {
		t.Errorf("%d runs are kept", len(a.runs))
	}
	for _, n := range []int64{ofA[0] + 1, ofB[0]} {
		if _, certain := a.has(n); certain {
			t.Errorf("the result for the id %d is certain", n)
		}
	}
	if _, certain := a.has(ofA[0] - 1); !certain {
		t.Error("the result for an id before the session is not certain")
	}
}

// TestAnswersThatDoNotMeanBroadcast checks late and duplicate answers, and answers to
// notifications. They are counted, but the server does not count as broadcasting.
func TestAnswersThatDoNotMeanBroadcast(t *testing.T) {
	o := Options{Sessions: &Sessions{}}
	calling(t, mcp.R20251125, o, func(c *Conn, w *pipetest.Wire) {
		r := start(c, anna, toolCall)
		id := string(pipetest.Scan(t, w.Heard()[0]).ID)
		w.Say(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
		r.ended()
		late := start(c, anna, toolCall)
		w.Heard()
		late.cancel(mcp.ErrCancelled)
		w.Heard()
		for _, id := range []string{id, `"` + id + `"`, "3", "1", "0", "null", "-1", `"x"`, "2.0"} {
			w.Say(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
		}
		w.Say(`{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"Method not found"}}`)
		if got := o.Sessions.Unasked(); got != 10 {
			t.Errorf("%d answers are counted as unasked, want 10", got)
		}
		if o.Sessions.Broadcasts() {
			t.Error("the server counts as broadcasting")
		}
		w.Say(`{"jsonrpc":"2.0","id":77,"result":{}}`)
		if o.Sessions.Broadcasts() {
			t.Error("one mistake counts as a sign of other clients")
		}
		w.Say(`{"jsonrpc":"2.0","id":78,"result":{}}`)
		if !o.Sessions.Broadcasts() {
			t.Error("the answers of other clients are not noticed")
		}
	})
	if o.Sessions.Broadcasts() || len(o.Sessions.members) != 0 {
		t.Error("Broadcasts is still true after the last session")
	}
}

// TestTokenOfACallThatIsOver checks a server request that names a call that has already got its
// answer. It is not delivered to another client's call, even if that call is now the only one.
func TestTokenOfACallThatIsOver(t *testing.T) {
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		start(c, anna, withTok)
		id := string(pipetest.Scan(t, w.Heard()[0]).ID)
		w.Say(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
		bens := start(c, ben, toolCall)
		w.Heard()
		w.Say(`{"jsonrpc":"2.0","id":"q","method":"roots/list","params":{"_meta":{"progressToken":` + id + `}}}`)
		w.Want(rootsDenied)
		if len(bens.asked) != 0 {
			t.Errorf("ben got the requests %q", bens.asked)
		}
		// A token that the server itself has chosen does not name a call.
		w.Say(`{"jsonrpc":"2.0","id":"q","method":"roots/list","params":{"_meta":{"progressToken":"mine"}}}`)
		if len(bens.asked) != 1 {
			t.Errorf("ben got the requests %q", bens.asked)
		}
		bens.cancel(mcp.ErrCancelled)
		w.Heard()
		// The token of the call that created a task stays valid (2025-11-25 §Tasks).
		waits := start(c, anna, `{"jsonrpc":"2.0","id":"r","method":"tasks/result","params":{"taskId":"t1"}}`)
		w.Heard()
		w.Say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m","_meta":{"progressToken":` + id + `,"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}}`)
		if len(waits.asked) != 1 {
			t.Errorf("the client that waits for the task got the requests %q", waits.asked)
		}
		waits.cancel(mcp.ErrCancelled)
		w.Heard()
	})
}

// TestBroadcastingOverHTTP checks a server that also sends the messages of one session to another
// session, on the stream of a call or on the standalone stream.
func TestBroadcastingOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := NewSessions()
		told := 0
		shared.OnBroadcast(func() { told++ })
		open := func() (*Conn, *fakePoster) {
			p := &fakePoster{rev: mcp.R20251125}
			c, err := OpenHTTP(t.Context(), p, handshake.Offer{Pin: p.rev}, Options{Name: "srv", Sessions: shared})
			if err != nil {
				t.Fatal(err)
			}
			p.posted()
			return c, p
		}
		s1, p1 := open()
		s2, p2 := open()
		defer func() { _ = s1.Close(nil) }()
		annas := start(s1, anna, withTok)
		bens := start(s2, ben, withTok)
		n := shared.last.Load() - 1 // the id of anna's call
		if s1.link.(*httpConn).waiting(n) == nil {
			t.Fatal("the call was not found")
		}
		id := string(jsonrpc.IntID(n))
		both := func(line string) {
			p1.stream(pipetest.Scan(t, line))
			p2.stream(pipetest.Scan(t, line))
			synctest.Wait()
		}
		both(progress(id, 1))
		if a, b := annas.heard(), bens.heard(); len(a) != 1 || len(b) != 0 {
			t.Errorf("anna got %q, and ben got %q", a, b)
		}
		both(`{"jsonrpc":"2.0","id":"q","method":"roots/list","params":{"_meta":{"progressToken":` + id + `}}}`)
		if len(annas.asked) != 1 || len(bens.asked) != 0 || len(p1.posted())+len(p2.posted()) != 0 {
			t.Errorf("anna got the requests %q, and ben got %q", annas.asked, bens.asked)
		}
		// The server does not count as broadcasting yet. So a request without a token goes to a call
		// of the session whose stream delivered the request.
		both(rootsAsked)
		if len(annas.asked) != 2 || len(bens.asked) != 1 {
			t.Errorf("anna got the requests %q, and ben got %q", annas.asked, bens.asked)
		}
		both(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[]}}`)
		s2.link.(*httpConn).waiting(n + 1).take(pipetest.Scan(t, `{"jsonrpc":"2.0","id":`+id+`,"result":{"content":[]}}`))
		if told != 1 || shared.Unasked() != 3 || len(bens.heard()) != 0 {
			t.Errorf("OnBroadcast was called %d times, and %d answers count as unasked", told, shared.Unasked())
		}
		both(strings.Replace(rootsAsked, `"q"`, `"r"`, 1))
		if got := append(p1.posted(), p2.posted()...); len(annas.asked) != 2 || len(bens.asked) != 1 || len(got) != 2 || !strings.Contains(got[0], "sends its requests to all") {
			t.Errorf("anna got the requests %q, ben got %q, and the server got %q", annas.asked, bens.asked, got)
		}
		bens.cancel(mcp.ErrCancelled)
		bens.ended()
		_ = s2.Close(nil)
		both(strings.Replace(rootsAsked, `"q"`, `"s"`, 1))
		if len(annas.asked) != 3 {
			t.Errorf("as the only session, anna got the requests %q", annas.asked)
		}
		annas.cancel(mcp.ErrCancelled)
		annas.ended()
	})
}

// TestAnswersOfAnotherSessionAreNotPushed checks a tool list that arrives while a session opens, but
// that another session has requested. The list does not count as pushed by the server.
func TestAnswersOfAnotherSessionAreNotPushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := NewSessions()
		near, far := inmem.Pipe()
		c, other := newConn(Options{Sessions: shared}), newConn(Options{Sessions: shared})
		l := newPipeConn(c, near)
		for _, id := range []string{string(jsonrpc.IntID(other.newID())), "null"} {
			if err := far.Write([]byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[]}}`)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if len(l.state.unasked) != 1 || l.state.unasked[0].ID != "null" {
			t.Errorf("%d answers are kept", len(l.state.unasked))
		}
		_ = c.Close(nil)
		_ = far.Close()
	})
}
