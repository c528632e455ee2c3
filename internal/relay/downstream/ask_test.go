package downstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
)

// asker is a handler with one tool. A call of the tool sends a server request to the client and
// records the client's answer.
type asker struct {
	give context.CancelCauseFunc // cancels the server request

	mu      sync.Mutex
	answers []string
	errs    []error
}

func (a *asker) call(ctx context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
	ctx, a.give = context.WithCancelCause(ctx)
	defer a.give(nil)
	m, err := k.Ask(ctx, c.Msg)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.errs = append(a.errs, err)
		return mcp.Answer([]byte(`{"asked":false}`)), nil
	}
	a.answers = append(a.answers, string(m.Raw))
	return mcp.Answer([]byte(`{"asked":true}`)), nil
}

// asking is a call. asker sends the same message back as its server request.
const asking = `{"jsonrpc":"2.0","id":"srv","method":"tools/call","params":{"name":"x"}}`

func TestAsking(t *testing.T) {
	a := &asker{}
	visitLegacy(t, &fakeHandler{on: methods{mcp.MethodCallTool: a.call}}, func(w *pipetest.Wire) {
		w.Say(asking)
		w.Want(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
		// Dragoman drops answers with unknown ids.
		w.Say(`{"jsonrpc":"2.0","id":9,"result":{}}`, `{"jsonrpc":"2.0","id":"srv","result":{}}`, `{"jsonrpc":"2.0","id":0,"result":{}}`,
			`{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"x"}}`)
		w.Want()
		w.Say(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`)
		w.Want(`{"jsonrpc":"2.0","id":"srv","result":{"asked":true}}`)
		// Dragoman drops a second answer to the same server request.
		w.Say(`{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}`)
		w.Want()
		if len(a.answers) != 1 || a.answers[0] != `{"jsonrpc":"2.0","id":"srv","result":{"action":"accept"}}` {
			t.Errorf("the client's answer is %q", a.answers)
		}
		// Dragoman does not use an id again. An error is also an answer.
		w.Say(asking)
		w.Want(`{"jsonrpc":"2.0","id":2,…`)
		w.Say(`{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"no"}}`)
		w.Want(`{"jsonrpc":"2.0","id":"srv","result":{"asked":true}}`)
		if len(a.answers) != 2 || a.answers[1] != `{"jsonrpc":"2.0","id":"srv","error":{"code":-1,"message":"no"}}` {
			t.Errorf("the client's answer is %q", a.answers)
		}
	})
}

// TestProgressOfAClient checks that progress reaches only the server whose request to this client has the
// token. Two servers ask two clients, all with the same token of their own.
func TestProgressOfAClient(t *testing.T) {
	for range 2 { // two clients
		got := map[string][]string{} // by server
		var lost []event.Event
		h := &fakeHandler{on: methods{mcp.MethodCallTool: func(ctx context.Context, c *mcp.Call, s mcp.Caller) (*mcp.Reply, error) {
			ctx = mcp.WithProgress(ctx, func(raw []byte) { got[c.Name] = append(got[c.Name], string(raw)) })
			_, _ = s.Ask(ctx, pipetest.Scan(t, `{"jsonrpc":"2.0","id":9,"method":"acme/ask","params":{"_meta":{"progressToken":1}}}`))
			return mcp.Answer([]byte(`{}`)), nil
		}}}
		events := &event.Publisher{}
		events.Tap(event.Of(event.Loss), func(e event.Event) { lost = append(lost, e) })
		visit(t, &Endpoint{Handler: h, Events: events}, func(w *pipetest.Wire) {
			w.Say(hello25, ready)
			w.Heard()
			progress := func(token string) {
				w.Say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":0.5,"x":` + token + `}}`)
			}
			progress("1")
			for i, server := range []string{"a", "b"} {
				w.Say(`{"jsonrpc":"2.0","id":"` + server + `","method":"tools/call","params":{"name":"` + server + `"}}`)
				w.Want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"acme/ask","params":{"_meta":{"progressToken":%[1]d}}}`, i+1))
			}
			progress("2")
			progress("7")
			progress(`"1"`)
			w.Say(`{"jsonrpc":"2.0","id":2,"result":{}}`)
			w.Heard()
			progress("2")
			w.Say(`{"jsonrpc":"2.0","id":1,"result":{}}`)
			w.Heard()
		})
		if want := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5,"x":2}}`; len(got) != 1 || len(got["b"]) != 1 || got["b"][0] != want {
			t.Errorf("the servers got %q", got)
		}
		if len(lost) != 4 || len(h.notices) > 0 {
			t.Errorf("dropped: %v, passed on: %q", lost, h.notices)
		}
	}
}

func TestAQuestionTakenBack(t *testing.T) {
	a := &asker{}
	visitLegacy(t, &fakeHandler{on: methods{mcp.MethodCallTool: a.call}}, func(w *pipetest.Wire) {
		w.Say(asking)
		w.Want(`{"jsonrpc":"2.0","id":1,…`)
		a.give(context.Canceled)
		w.Want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,…}}`, `{"jsonrpc":"2.0","id":"srv","result":{"asked":false}}`)
		w.Say(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`)
		w.Want()
		if len(a.errs) != 1 || !errors.Is(a.errs[0], context.Canceled) {
			t.Errorf("the request ended with %v", a.errs)
		}
	})
}

// TestAQuestionThatOutlivesItsCall checks a server request that is still open when its call has
// been answered. If the server request is then cancelled, the client still gets the cancellation.
func TestAQuestionThatOutlivesItsCall(t *testing.T) {
	var asked sync.WaitGroup
	var cancel context.CancelCauseFunc
	h := &fakeHandler{on: methods{mcp.MethodCallTool: func(_ context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
		var ctx context.Context
		ctx, cancel = context.WithCancelCause(context.Background())
		asked.Go(func() { _, _ = k.Ask(ctx, c.Msg) })
		synctest.Wait() // wait until the server request has been sent
		return mcp.Answer([]byte(`{}`)), nil
	}}}
	visitLegacy(t, h, func(w *pipetest.Wire) {
		if err := w.Pipe.Write([]byte(asking)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // let the handler finish synctest.Wait first, because only one goroutine may be in synctest.Wait
		w.Want(`{"jsonrpc":"2.0","id":1,…`, `{"jsonrpc":"2.0","id":"srv","result":{}}`)
		cancel(errors.New("the call is over"))
		asked.Wait()
		w.Want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,…}}`)
	})
}

func TestCloseEndsQuestions(t *testing.T) {
	a := &asker{}
	visitLegacy(t, &fakeHandler{on: methods{mcp.MethodCallTool: a.call}}, func(w *pipetest.Wire) {
		w.Say(asking)
		_ = w.Pipe.Close()
	})
	if len(a.errs) != 1 {
		t.Errorf("the request ended with %v", a.errs)
	}
}

// declaring returns hello25 with other capabilities.
func declaring(capabilities string) string {
	return strings.Replace(hello25, `"capabilities":{}`, `"capabilities":`+capabilities, 1)
}

// TestUndeclaredRequestsAreNotSent checks that a client gets a server request only if it has
// declared the capability for it, both during a call and outside of calls.
func TestUndeclaredRequestsAreNotSent(t *testing.T) {
	for capabilities, want := range map[string]int{`{}`: 0, `{"roots":{},"sampling":{}}`: 0, `{"elicitation":{"form":{}}}`: 1} {
		h := &fakeHandler{on: methods{mcp.MethodCallTool: func(ctx context.Context, _ *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
			_, err := k.Ask(ctx, pipetest.Scan(t, elicit))
			return nil, err
		}}}
		visit(t, &Endpoint{Handler: h}, func(w *pipetest.Wire) {
			w.Say(declaring(capabilities), ready)
			w.Heard()
			w.Say(asking)
			questions := 0
			for _, m := range w.Heard() {
				if strings.Contains(m, mcp.MethodElicit) {
					questions++
				}
			}
			if questions != want {
				t.Errorf("%s: the client got %d requests", capabilities, questions)
			}
			ctx, stop := context.WithTimeout(context.Background(), time.Second) // must be created in the synctest bubble
			defer stop()
			if _, err := h.standing.Ask(ctx, pipetest.Scan(t, elicit)); errors.Is(err, mcp.ErrCannotAsk) != (want == 0) {
				t.Errorf("%s, outside a call: %v", capabilities, err)
			}
		})
	}
}

// longForm returns an elicitation whose list of options Dragoman converts to one text field for a
// client of 2025-06-18.
func longForm() string {
	var options []string
	for i := range 65 {
		options = append(options, fmt.Sprintf(`"o%d"`, i))
	}
	return `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{"t":{"type":"array","items":{"enum":[` + strings.Join(options, ",") + `]}}}}}}`
}

// TestUndeclaredFormsAreNotConverted checks that Dragoman does not convert a form for a client
// without elicitation. Each conversion of longForm records a loss.
func TestUndeclaredFormsAreNotConverted(t *testing.T) {
	for capabilities, want := range map[string]int{`{}`: 0, `{"elicitation":{}}`: 1} {
		lost := 0
		events := &event.Publisher{}
		events.Tap(event.Of(event.Loss), func(event.Event) { lost++ })
		h := &fakeHandler{}
		visit(t, &Endpoint{Handler: h, Events: events}, func(w *pipetest.Wire) {
			w.Say(strings.Replace(declaring(capabilities), "2025-11-25", "2025-06-18", 1), ready)
			w.Heard()
			ctx, stop := context.WithTimeout(context.Background(), time.Second) // must be created in the synctest bubble
			defer stop()
			_, _ = h.standing.Ask(ctx, pipetest.Scan(t, longForm()))
		})
		if lost != want {
			t.Errorf("%s: %d losses", capabilities, lost)
		}
	}
}

// TestAnswersThatCannotBeConverted checks that the server request fails if Dragoman cannot convert
// the client's answer, here because the answer has too many entries.
func TestAnswersThatCannotBeConverted(t *testing.T) {
	a := &asker{}
	h := &fakeHandler{on: methods{mcp.MethodCallTool: func(ctx context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
		_, err := k.Ask(ctx, pipetest.Scan(t, longForm()))
		a.errs = append(a.errs, err)
		return nil, err
	}}}
	visit(t, &Endpoint{Handler: h}, func(w *pipetest.Wire) {
		w.Say(strings.Replace(declaring(`{"elicitation":{}}`), "2025-11-25", "2025-06-18", 1), ready)
		w.Heard()
		w.Say(asking)
		w.Heard()
		w.Say(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"t":"` + strings.Repeat("o1,", 2000) + `"}}}`)
		w.Heard()
	})
	if len(a.errs) != 1 || a.errs[0] == nil || a.errs[0].Error() != "the client's answer is not valid: the list in the field t has more than 1000 entries" {
		t.Errorf("the server request ended with %v", a.errs)
	}
}

func TestTooManyQuestions(t *testing.T) {
	h := &fakeHandler{}
	visit(t, &Endpoint{Handler: h}, func(w *pipetest.Wire) {
		w.Say(declaring(`{"elicitation":{}}`), ready)
		w.Heard()
		ctx, cancel := context.WithCancel(context.Background())
		m := pipetest.Scan(t, elicit)
		var all sync.WaitGroup
		for range maxAsks {
			all.Go(func() { _, _ = h.standing.Ask(ctx, m) })
		}
		if got := w.Heard(); len(got) != maxAsks {
			t.Errorf("%d requests were sent", len(got))
		}
		if _, err := h.standing.Ask(ctx, m); !errors.Is(err, mcp.ErrCannotAsk) {
			t.Errorf("a request beyond the bound: %v", err)
		}
		cancel()
		all.Wait()
		if got := w.Heard(); len(got) != maxAsks {
			t.Errorf("%d requests were cancelled", len(got))
		}
	})
}

func TestNothingFollowsTheAnswer(t *testing.T) {
	var kept mcp.Caller
	h := &fakeHandler{on: methods{mcp.MethodCallTool: func(_ context.Context, _ *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
		kept = k
		k.Notify(pipetest.Note(progress("1", 1)))
		return mcp.Answer([]byte(`{}`)), nil
	}}}
	visitLegacy(t, h, func(w *pipetest.Wire) {
		w.Say(asking)
		w.Want(progress("1", 1), `{"jsonrpc":"2.0","id":"srv","result":{}}`)
		kept.Notify(pipetest.Note(progress("1", 2)))
		w.Want()
		if _, err := kept.Ask(context.Background(), pipetest.Scan(t, elicit)); err == nil {
			t.Error("a request was sent after the answer")
		}
		w.Want()
	})
}
