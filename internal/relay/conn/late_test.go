package conn

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
)

const (
	rootsAsked  = `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`
	pingAsked   = `{"jsonrpc":"2.0","id":"p","method":"ping"}`
	rootsDenied = `{"jsonrpc":"2.0","id":"q","error":{"code":-32601,"message":"roots/list cannot be answered: the call that it belongs to has ended"}}`
	pong        = `{"jsonrpc":"2.0","id":"p","result":{}}`
)

// slowCaller is a client that does not read until the test allows it.
type slowCaller struct {
	running
	open chan struct{}
}

func (s *slowCaller) Notify(n *mcp.Note) {
	<-s.open
	s.running.Notify(n)
}

// startWith does the same as start with a given caller. done waits until the call has ended.
func startWith(c *Conn, facts *mcp.ClientInfo, line string, k mcp.Caller) (cancel context.CancelCauseFunc, done *sync.WaitGroup) {
	m, err := jsonrpc.Scan([]byte(line), jsonrpc.Limits{})
	if err != nil {
		panic(err)
	}
	a := mcp.NewAttempt(mcp.NewCall(m, m.Param(mcp.KeyMeta), facts))
	ctx, cancel := context.WithCancelCause(context.Background())
	done = &sync.WaitGroup{}
	done.Go(func() { _, _ = c.Call(ctx, a, k) })
	synctest.Wait()
	return cancel, done
}

// TestQuestionsQueuedForACallThatIsGivenUpAreRefused lets server requests wait for a client
// that reads slowly, and then cancels the call. The server still gets an answer to each
// request. The call may notice the cancellation before or after the requests, so the test tries many
// times.
func TestQuestionsQueuedForACallThatIsGivenUpAreRefused(t *testing.T) {
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		neighbour := start(c, ben, listCall)
		w.Heard()
		for range 50 {
			caller := &slowCaller{open: make(chan struct{})}
			cancel, done := startWith(c, anna, withTok, caller)
			id := string(pipetest.Scan(t, w.Heard()[0]).ID)
			w.Say(progress(id, 1), rootsAsked, pingAsked)
			w.Want(pong) // the server's ping does not need a client
			cancel(mcp.ErrCancelled)
			synctest.Wait()
			close(caller.open)
			done.Wait()
			got := strings.Join(w.Heard(), "\n")
			for _, want := range []string{rootsDenied, `"requestId":` + id} {
				if !strings.Contains(got, want) {
					t.Fatalf("the server got\n%s\nwant in it\n%s", got, want)
				}
			}
			if len(caller.asked) != 0 {
				t.Fatalf("a client that has cancelled got the requests %q", caller.asked)
			}
		}
		neighbour.cancel(nil)
		w.Heard()
	})
}

const listCall = `{"jsonrpc":"2.0","id":"l","method":"tools/list"}`

// TestQuestionForACallThatHasJustLeft ends a call after a server request was attributed to the call,
// but before the request is queued.
func TestQuestionForACallThatHasJustLeft(t *testing.T) {
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		l := c.link.(*pipeConn)
		for _, line := range []string{rootsAsked, pingAsked, progress("2", 1)} {
			r := start(c, anna, withTok)
			n, _ := number([]byte(pipetest.Scan(t, w.Heard()[0]).ID), jsonrpc.Span{End: 1})
			m := pipetest.Scan(t, line)
			p := l.waiting(n)
			if p == nil {
				t.Fatal("the call was not found")
			}
			r.cancel(mcp.ErrCancelled)
			w.Heard()
			l.add(p, m, l.takeUnattributed)
			switch got := w.Heard(); {
			case m.Kind != jsonrpc.Request && len(got) != 0:
				t.Errorf("%s: the server got %q", line, got)
			case m.Kind == jsonrpc.Request && (len(got) != 1 || got[0] != rootsDenied && got[0] != pong):
				t.Errorf("%s: the server got %q", line, got)
			}
		}
	})
}

// TestQuestionsOverTheBoundAreRefused sends more server requests than a call can queue.
func TestQuestionsOverTheBoundAreRefused(t *testing.T) {
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		caller := &slowCaller{open: make(chan struct{})}
		cancel, done := startWith(c, anna, withTok, caller)
		id := string(pipetest.Scan(t, w.Heard()[0]).ID)
		w.Say(progress(id, 1))
		for range maxEvents + maxQuestions {
			w.Say(rootsAsked)
		}
		if got := w.Heard(); len(got) != 0 {
			t.Fatalf("got %q", got)
		}
		w.Say(rootsAsked)
		w.Want(`{"jsonrpc":"2.0","id":"q","error":{"code":-32601,"message":"roots/list cannot be answered: the queue of messages for this client is full"}}`)
		cancel(mcp.ErrCancelled)
		synctest.Wait()
		close(caller.open)
		done.Wait()
		if got := w.Heard(); len(got) != maxEvents+maxQuestions+1 {
			t.Errorf("the server got %d answers and a cancellation, want %d", len(got), maxEvents+maxQuestions+1)
		}
	})
}

// TestQuestionAfterTheEndOnAStandingStream checks the standalone stream. It may deliver a
// request for a call that ends at the same moment.
func TestQuestionAfterTheEndOnAStandingStream(t *testing.T) {
	p := &fakePoster{rev: mcp.R20251125}
	posting(t, p, func(c *Conn) {
		r := start(c, anna, toolCall)
		f := c.link.(*httpConn).waiting(2)
		if f == nil {
			t.Fatal("the call was not found")
		}
		r.cancel(mcp.ErrCancelled)
		r.ended()
		p.posted()
		f.take(pipetest.Scan(t, rootsAsked))
		c.serveRequest(pipetest.Scan(t, rootsAsked), f, nil)
		if got := p.posted(); len(got) != 2 || got[0] != rootsDenied || got[1] != rootsDenied {
			t.Errorf("posted %q", got)
		}
		if len(r.asked) != 0 {
			t.Errorf("asked %q", r.asked)
		}
	})
}

// TestAnAnswerAheadOfTheEndOfItsCall checks a call whose answer has arrived when the call is
// cancelled. The answer ends the call. The server gets no cancellation, and the call does not
// count as abandoned.
func TestAnAnswerAheadOfTheEndOfItsCall(t *testing.T) {
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		for range 50 {
			caller := &slowCaller{open: make(chan struct{})}
			cancel, done := startWith(c, anna, withTok, caller)
			id := string(pipetest.Scan(t, w.Heard()[0]).ID)
			w.Say(progress(id, 1), `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+id+`,"progress":2}}`, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`)
			cancel(mcp.ErrCancelled)
			synctest.Wait()
			close(caller.open)
			done.Wait()
			if got := w.Heard(); len(got) != 0 {
				t.Fatalf("the server got %q", got)
			}
		}
		if n := len(c.link.(*pipeConn).state.abandoned); n != 0 {
			t.Errorf("%d calls count as abandoned", n)
		}
	})
}

// TestRootsAreStillAskedAfterTheCall lets a server ask a question, and answer the call before the client has
// answered the question. The roots are the client's, so the server still gets them. Other questions end.
func TestRootsAreStillAskedAfterTheCall(t *testing.T) {
	modern := &mcp.ClientInfo{Revision: mcp.R20260728, Conversation: 7}
	nobody := &mcp.ClientInfo{Revision: mcp.R20251125}
	const form = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m"}}`
	for name, x := range map[string]struct {
		client   *mcp.ClientInfo
		question string
		then     string // what the server says before it answers the call
		again    bool
	}{
		"roots":                      {anna, rootsAsked, "", true},
		"a form":                     {anna, form, "", false},
		"roots, but cancelled":       {anna, rootsAsked, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}`, false},
		"roots of the call":          {anna, `{"jsonrpc":"2.0","id":"q","method":"roots/list","params":{"_meta":{"progressToken":ID}}}`, "", false},
		"a client of 2026-07-28":     {modern, rootsAsked, "", false},
		"a client without a session": {nobody, rootsAsked, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			var settled []string
			o := Options{Answered: func(method string) { settled = append(settled, method) }}
			o.Ask = func(_ context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
				asked++
				return jsonrpc.Scan(jsonrpc.AppendResult(nil, m.ID, []byte(`{"roots":[]}`)), jsonrpc.Limits{})
			}
			calling(t, mcp.R20251125, o, func(c *Conn, w *pipetest.Wire) {
				start(c, x.client, withTok)
				id := string(pipetest.Scan(t, w.Heard()[0]).ID)
				w.Say(strings.ReplaceAll(x.question, "ID", id))
				if x.then != "" {
					w.Say(x.then)
				}
				w.Say(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
				got := strings.Join(w.Heard(), "\n")
				if again := strings.Contains(got, `"roots":[]`); again != x.again || asked > 1 || asked == 1 != x.again {
					t.Errorf("the client was asked %d times outside calls, and the server got\n%s", asked, got)
				}
				if len(settled) != 1 {
					t.Errorf("settled: %q", settled)
				}
			})
		})
	}
}

// elsewhereCaller is a client whose questions wait elsewhere, where nobody answers them.
type elsewhereCaller struct{ running }

func (*elsewhereCaller) Ask(ctx context.Context, _ *jsonrpc.Message) (*jsonrpc.Message, error) {
	late := time.After(20 * time.Minute)
	if by := mcp.AnswerBy(ctx); !by.IsZero() {
		late = time.After(time.Until(by))
	}
	select {
	case <-late:
		return nil, &mcp.NoAnswer{Cause: "no_answer", Why: "has no answer"}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// TestNobodyAnswersElsewhere lets a question wait elsewhere as long as its call may, and another one that comes late in
// a call: the server is told before the call times out, and its result reaches the client.
func TestNobodyAnswersElsewhere(t *testing.T) {
	for _, hard := range []time.Duration{0, time.Minute, -1} {
		for _, after := range []time.Duration{0, 55 * time.Second} {
			calling(t, mcp.R20250618, Options{Hard: hard}, func(c *Conn, w *pipetest.Wire) {
				m := pipetest.Scan(t, toolCall)
				var err error
				var calls sync.WaitGroup
				calls.Go(func() {
					_, err = c.Call(context.Background(), mcp.NewAttempt(mcp.NewCall(m, m.Param(mcp.KeyMeta), anna)), &elsewhereCaller{})
				})
				id := string(pipetest.Scan(t, w.Heard()[0]).ID)
				time.Sleep(after)
				w.Say(elicit)
				var told []string
				for n := 0; len(told) == 0 && n < 100_000; n++ {
					time.Sleep(50 * time.Millisecond)
					told = w.Heard()
				}
				w.Say(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
				calls.Wait()
				if len(told) != 1 || !strings.Contains(told[0], "the question has no answer") || err != nil {
					t.Errorf("%s, asked after %s: the server heard %q, the client got %v", hard, after, told, err)
				}
			})
		}
	}
}
