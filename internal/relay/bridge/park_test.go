package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
)

// asking returns a legacy server. During a call, the server sends one request for each of methods,
// all at once. Then it returns the client's answers as its result.
func asking(methods ...string) *fake {
	u := &fake{name: "old"}
	u.call = func(ctx context.Context, _ *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
		var wait sync.WaitGroup
		answers := make([]string, len(methods))
		errs := make([]error, len(methods))
		for i, method := range methods {
			raw := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"%s","params":{"q":%d}}`, i+1, method, i)
			m, err := jsonrpc.Scan([]byte(raw), jsonrpc.Limits{})
			if err != nil {
				return nil, err
			}
			wait.Go(func() {
				a, err := k.Ask(ctx, m)
				if errs[i] = err; err == nil {
					answers[i] = string(a.Result.Of(a.Raw))
				}
			})
		}
		wait.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		return said(mcp.R20251125, `{"answers":[`+strings.Join(answers, ",")+`]}`), nil
	}
	return u
}

func ask(t *testing.T, b *Bridge, u Server, params string) (*mcp.Reply, error) {
	t.Helper()
	return relay(t.Context(), b, u, modern(t, mcp.MethodCallTool, params), &ear{})
}

// parkedState starts a call and returns the requestState that the client gets when the call is
// parked.
func parkedState(t *testing.T, b *Bridge, u Server) (state string, reply *mcp.Reply) {
	t.Helper()
	reply, err := ask(t, b, u, `{"name":"t"}`)
	if err != nil || reply.ResultType() != mcp.ResultInputRequired {
		t.Fatalf("not parked: %v, %v", reply, err)
	}
	return text(t, reply, "requestState"), reply
}

func answered(state, responses string) string {
	if responses != "" {
		responses = `,"inputResponses":` + responses
	}
	return `{"name":"t","requestState":"` + state + `"` + responses + `}`
}

// bubble runs a test in a synctest bubble with a bridge that is closed at the end.
func bubble(t *testing.T, f func(t *testing.T, b *Bridge)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &Bridge{}
		defer b.Close()
		f(t, b)
	})
}

const accepted = `{"user_input":{"action":"accept","content":{"x":1e400}}}`

func TestT5_RetryAnswersTheCallThatRuns(t *testing.T) {
	bubble(t, func(t *testing.T, b *Bridge) {
		u := asking(mcp.MethodElicit)
		state, reply := parkedState(t, b, u)
		if got := string(reply.Msg.ResultMember("inputRequests").Of(reply.Msg.Raw)); got != `{"user_input":{"method":"elicitation/create","params":{"q":0}}}` {
			t.Errorf("asked %s", got)
		}
		if b.Parked() != 1 {
			t.Errorf("%d calls are parked", b.Parked())
		}
		reply, err := ask(t, b, u, answered(state, accepted))
		if err != nil {
			t.Fatal(err)
		}
		if got := result(t, reply); got != `{"answers":[{"action":"accept","content":{"x":1e400}}]}` {
			t.Errorf("got %s", got)
		}
		if n := len(u.seen.all()); n != 1 {
			t.Errorf("the tool ran %d times", n)
		}
		// A state is valid for one retry.
		if _, err := ask(t, b, u, answered(state, accepted)); !errors.Is(err, error(errParkLost)) {
			t.Errorf("second retry with the same state: %v", err)
		}
		if n := len(u.seen.all()); n != 1 {
			t.Errorf("the tool ran %d times", n)
		}
	})
}

func TestQuestionsOfOneMomentArePutTogether(t *testing.T) {
	bubble(t, func(t *testing.T, b *Bridge) {
		u := asking(mcp.MethodElicit, mcp.MethodSample, mcp.MethodListRoots)
		_, reply := parkedState(t, b, u)
		n := 0
		for range jsonrpc.Members(reply.Msg.Raw, reply.Msg.ResultMember("inputRequests")) {
			n++
		}
		if n != 3 {
			t.Errorf("%d input requests: %s", n, reply.Msg.Raw)
		}
	})
}

func TestM06_WhatIsMissingIsAskedForAgain(t *testing.T) {
	bubble(t, func(t *testing.T, b *Bridge) {
		u := asking(mcp.MethodElicit, mcp.MethodElicit)
		state, _ := parkedState(t, b, u)
		for range 3 {
			reply, err := ask(t, b, u, answered(state, ""))
			if err != nil || reply.ResultType() != mcp.ResultInputRequired {
				t.Fatalf("retry without answers: %v, %v", reply, err)
			}
			state = text(t, reply, "requestState")
		}
		reply, err := ask(t, b, u, answered(state, `{"user_input.2":{"action":"decline"},"other":{}}`))
		if err != nil || reply.ResultType() != mcp.ResultInputRequired {
			t.Fatalf("retry with one of two answers: %v, %v", reply, err)
		}
		asks := string(reply.Msg.ResultMember("inputRequests").Of(reply.Msg.Raw))
		if !strings.Contains(asks, `"user_input"`) || strings.Contains(asks, `"user_input.2"`) {
			t.Errorf("input requested again: %s", asks)
		}
		reply, err = ask(t, b, u, answered(text(t, reply, "requestState"), `{"user_input":{"action":"cancel"}}`))
		if err != nil || !strings.Contains(result(t, reply), `{"action":"cancel"}`) {
			t.Errorf("retry with all answers: %v, %v", reply, err)
		}
		if n := len(u.seen.all()); n != 1 {
			t.Errorf("the tool ran %d times", n)
		}
	})
}

func TestM07_MalformedAnswersAreRefusedAndMayBeGivenAgain(t *testing.T) {
	bubble(t, func(t *testing.T, b *Bridge) {
		u := asking(mcp.MethodElicit)
		state, _ := parkedState(t, b, u)
		for _, bad := range []string{
			`{"user_input":{"action":"maybe"}}`, `{"user_input":{}}`, `{"user_input":null}`, `{"user_input":"accept"}`,
			`{"user_input":[{"action":"accept"}]}`, `[]`, `"x"`, `7`,
		} {
			if _, err := ask(t, b, u, answered(state, bad)); code(err) != jsonrpc.CodeInvalidParams {
				t.Errorf("%s: %v", bad, err)
			}
		}
		many := `{"__proto__":{"action":"accept"}`
		for i := range 10_000 {
			many += fmt.Sprintf(`,"k%d":1`, i)
		}
		reply, err := ask(t, b, u, answered(state, many+`,`+accepted[1:]))
		if err != nil || !strings.Contains(result(t, reply), "accept") {
			t.Errorf("valid answer after an invalid one: %v, %v", reply, err)
		}
	})
}

func TestRefusedAnswersDoNotOutliveClose(t *testing.T) {
	bubble(t, func(t *testing.T, b *Bridge) {
		u := asking(mcp.MethodElicit)
		state, _ := parkedState(t, b, u)
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				for range 50 {
					_, _ = relay(t.Context(), b, u, modern(t, mcp.MethodCallTool, answered(state, `{"user_input":1}`)), &ear{})
				}
			})
		}
		b.Close()
		wait.Wait()
		if b.Parked() != 0 {
			t.Errorf("%d calls parked after Close", b.Parked())
		}
	})
}

func TestT12_ClientGoneBeforeTheQuestionEndsTheCall(t *testing.T) {
	bubble(t, func(t *testing.T, b *Bridge) {
		var cause error
		u := &fake{name: "old", call: func(ctx context.Context, _ *mcp.Attempt, _ mcp.Caller) (*mcp.Reply, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return nil, cause
		}}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(mcp.ErrCancelled) })
		_, err := relay(ctx, b, u, modern(t, mcp.MethodCallTool, `{"name":"t"}`), &ear{})
		if !errors.Is(err, mcp.ErrCancelled) || !errors.Is(cause, mcp.ErrCancelled) {
			t.Errorf("client got %v, the server's call ended for %v", err, cause)
		}
	})
}

func TestClientGoneAfterTheQuestionMayComeBack(t *testing.T) {
	bubble(t, func(t *testing.T, b *Bridge) {
		u := asking(mcp.MethodElicit)
		ctx, cancel := context.WithCancel(t.Context())
		reply, err := relay(ctx, b, u, modern(t, mcp.MethodCallTool, `{"name":"t"}`), &ear{})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if reply, err = ask(t, b, u, answered(text(t, reply, "requestState"), accepted)); err != nil {
			t.Errorf("retry after the answer: %v, %v", reply, err)
		}
	})
}

func TestM12_CallOfAClientThatNeverComesBackIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, b *Bridge) {
		u := asking(mcp.MethodElicit)
		inner := u.call
		ended := make(chan error, 1)
		u.call = func(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
			reply, err := inner(ctx, a, k)
			ended <- err
			return reply, err
		}
		state, _ := parkedState(t, b, u)
		time.Sleep(stateTTL - time.Second)
		if b.Parked() != 1 {
			t.Error("the call was given up too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		select {
		case err := <-ended:
			if !errors.Is(err, errParkExpired) {
				t.Errorf("the call ended with %v, want errParkExpired", err)
			}
		default:
			t.Error("the call has not ended")
		}
		if b.Parked() != 0 {
			t.Errorf("%d calls are parked", b.Parked())
		}
		if _, err := ask(t, b, u, answered(state, accepted)); code(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("late retry: %v", err)
		}
	})
}

func TestQuestionThatTheServerTakesBackIsNotPut(t *testing.T) {
	bubble(t, func(t *testing.T, b *Bridge) {
		u := &fake{name: "old", call: func(ctx context.Context, _ *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
			short, cancel := context.WithTimeout(ctx, gatherTime/2)
			defer cancel()
			_, _ = k.Ask(short, message(t, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`))
			time.Sleep(time.Second)
			return said(mcp.R20251125, `{"done":true}`), nil
		}}
		reply, err := ask(t, b, u, `{"name":"t"}`)
		if err != nil || result(t, reply) != `{"done":true}` {
			t.Errorf("got %v, %v", reply, err)
		}
		if b.Parked() != 0 {
			t.Errorf("%d calls are parked", b.Parked())
		}
	})
}

func TestCallThatEndsRightAfterItsQuestionIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, b *Bridge) {
		u := &fake{name: "old", call: func(ctx context.Context, _ *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
			short, cancel := context.WithTimeout(ctx, gatherTime/2)
			defer cancel()
			_, _ = k.Ask(short, message(t, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`))
			return said(mcp.R20251125, `{"done":true}`), nil
		}}
		reply, err := ask(t, b, u, `{"name":"t"}`)
		if err != nil || result(t, reply) != `{"done":true}` {
			t.Errorf("got %s, %v", result(t, reply), err)
		}
	})
}

func TestSecondQuestionParksAgain(t *testing.T) {
	bubble(t, func(t *testing.T, b *Bridge) {
		u := &fake{name: "old", call: func(ctx context.Context, _ *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
			for i := range 3 {
				if _, err := k.Ask(ctx, message(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{}}`, i))); err != nil {
					return nil, err
				}
				time.Sleep(time.Second)
			}
			return said(mcp.R20251125, `{"done":true}`), nil
		}}
		state, _ := parkedState(t, b, u)
		for i := 1; i <= 3; i++ {
			reply, err := ask(t, b, u, answered(state, fmt.Sprintf(`{%q:{"action":"accept"}}`, numbered("user_input", i))))
			if err != nil {
				t.Fatal(err)
			}
			if i == 3 {
				if result(t, reply) != `{"done":true}` {
					t.Errorf("got %s", reply.Msg.Raw)
				}
				return
			}
			if state = text(t, reply, "requestState"); state == "" {
				t.Fatalf("round %d: the result has no state: %s", i, reply.Msg.Raw)
			}
		}
	})
}

func TestProgressBearsTheTokenOfTheRequestThatIsThere(t *testing.T) {
	bubble(t, func(t *testing.T, b *Bridge) {
		progress := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"a","progress":1}}`
		log := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`
		u := &fake{name: "old", call: func(ctx context.Context, _ *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
			k.Notify(pipetest.Note(progress))
			go func() {
				time.Sleep(time.Second) // until the call is parked
				k.Notify(pipetest.Note(progress))
				for range 2 * maxHeldLogs {
					k.Notify(pipetest.Note(log))
				}
			}()
			_, err := k.Ask(ctx, message(t, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`))
			k.Notify(pipetest.Note(progress))
			return said(mcp.R20251125, `{}`), err
		}}
		one, two := &ear{}, &ear{}
		reply, err := relay(t.Context(), b, u, modern(t, mcp.MethodCallTool, `{"name":"t","_meta":{"progressToken":"a"}}`), one)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		c := modern(t, mcp.MethodCallTool, `{"name":"t","_meta":{"progressToken":77},"inputResponses":{"client_roots":{"roots":[]}},"requestState":"`+text(t, reply, "requestState")+`"}`)
		if _, err := relay(t.Context(), b, u, c, two); err != nil {
			t.Fatal(err)
		}
		if got := one.all(); len(got) != 1 || got[0] != progress {
			t.Errorf("the first request got the notifications %q", got)
		}
		got := two.all()
		if len(got) != maxHeldLogs+1 || got[0] != log || got[len(got)-1] != strings.Replace(progress, `"a"`, "77", 1) {
			t.Errorf("the retry got %d notifications: %q", len(got), got)
		}
	})
}

// waitingEar is a client side that yields to all other goroutines when it gets its first
// notification.
type waitingEar struct {
	ear
	waited atomic.Bool
}

func (e *waitingEar) Notify(n *mcp.Note) {
	e.ear.Notify(n)
	if e.waited.CompareAndSwap(false, true) {
		synctest.Wait()
	}
}

// TestHeldNotesGoFirst checks the order of notifications on a retry. First come the notifications
// that were held while the call was parked. Then come the notifications that the server sends after
// it gets the client's answer.
func TestHeldNotesGoFirst(t *testing.T) {
	bubble(t, func(t *testing.T, b *Bridge) {
		log := func(i int) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`, i)
		}
		u := &fake{name: "old", call: func(ctx context.Context, _ *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
			go func() {
				time.Sleep(time.Second) // until the call is parked
				k.Notify(pipetest.Note(log(1)))
				k.Notify(pipetest.Note(log(2)))
			}()
			_, err := k.Ask(ctx, message(t, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`))
			k.Notify(pipetest.Note(log(3)))
			return said(mcp.R20251125, `{}`), err
		}}
		reply, err := relay(t.Context(), b, u, modern(t, mcp.MethodCallTool, `{"name":"t"}`), &ear{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		client := &waitingEar{}
		c := modern(t, mcp.MethodCallTool, `{"name":"t","inputResponses":{"client_roots":{"roots":[]}},"requestState":"`+text(t, reply, "requestState")+`"}`)
		if _, err := relay(t.Context(), b, u, c, client); err != nil {
			t.Fatal(err)
		}
		if got, want := client.all(), []string{log(1), log(2), log(3)}; !slices.Equal(got, want) {
			t.Errorf("the retry got %q, want %q", got, want)
		}
	})
}

// TestNotificationsThatMentionProgressAreHeld checks notifications that contain the word "progress"
// but are not progress notifications. If they arrive while the call is parked, the bridge holds them
// for the retry.
func TestNotificationsThatMentionProgressAreHeld(t *testing.T) {
	bubble(t, func(t *testing.T, r *Bridge) {
		said1 := []string{
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a client sent notifications/progress"}}`,
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"method":"notifications/progress"}}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress/extended","params":{}}`,
		}
		progress := []string{
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"a","progress":2}}`,
			`{"params":{"progressToken":"a","progress":3},"method":"notifications\/progress","jsonrpc":"2.0"}`,
		}
		u := &fake{name: "old", call: func(ctx context.Context, _ *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
			go func() {
				time.Sleep(time.Second) // until the call is parked
				for _, b := range append(progress, said1...) {
					k.Notify(pipetest.Note(b))
				}
			}()
			_, err := k.Ask(ctx, message(t, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`))
			return said(mcp.R20251125, `{}`), err
		}}
		reply, err := relay(t.Context(), r, u, modern(t, mcp.MethodCallTool, `{"name":"t","_meta":{"progressToken":"a"}}`), &ear{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		two := &ear{}
		c := modern(t, mcp.MethodCallTool, `{"name":"t","inputResponses":{"client_roots":{"roots":[]}},"requestState":"`+text(t, reply, "requestState")+`"}`)
		if _, err := relay(t.Context(), r, u, c, two); err != nil {
			t.Fatal(err)
		}
		if got := two.all(); !slices.Equal(got, said1) {
			t.Errorf("the retry got %q", got)
		}
	})
}

func TestCloseEndsWhatIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, u := &Bridge{}, asking(mcp.MethodElicit)
		_, _ = parkedState(t, b, u)
		_, _ = parkedState(t, b, u)
		b.Close()
		if b.Parked() != 0 {
			t.Errorf("%d calls are parked", b.Parked())
		}
		if _, err := ask(t, b, u, `{"name":"t"}`); !errors.Is(err, errStopping) {
			t.Errorf("a call after Close: %v", err)
		}
	})
}

func TestQuestionThatTheClientCannotBeAskedFailsAtTheServer(t *testing.T) {
	bubble(t, func(t *testing.T, b *Bridge) {
		u := asking(mcp.MethodSample)
		c := modern(t, mcp.MethodCallTool, `{"name":"t"}`)
		c.Client.Capabilities = []byte(`{"elicitation":{}}`)
		if _, err := relay(t.Context(), b, u, c, &ear{}); !errors.Is(err, mcp.ErrCannotAsk) {
			t.Errorf("got %v", err)
		}
	})
}

func TestX03_URLsThatMustBeVisitedFirstBecomeQuestions(t *testing.T) {
	const failure = `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"visit","data":{"elicitations":[{"mode":"url","url":"https://a.example/x","message":"m","elicitationId":"1"},{"mode":"form"}]}}}`
	visited := false
	u := &fake{name: "old"}
	u.call = func(context.Context, *mcp.Attempt, mcp.Caller) (*mcp.Reply, error) {
		if visited {
			return said(mcp.R20251125, `{"done":true}`), nil
		}
		return &mcp.Reply{Msg: message(t, failure), From: mcp.R20251125}, nil
	}
	b := &Bridge{}
	defer b.Close()
	state, reply := parkedState(t, b, u)
	if got := string(reply.Msg.ResultMember("inputRequests").Of(reply.Msg.Raw)); got != `{"user_visit":{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example/x","message":"m","elicitationId":"1"}}}` {
		t.Errorf("asked %s", got)
	}
	visited = true
	reply, err := ask(t, b, u, answered(state, `{"user_visit":{"action":"accept"}}`))
	if err != nil || result(t, reply) != `{"done":true}` {
		t.Errorf("after the user opened the URL: %v, %v", reply, err)
	}
	visited = false
	if reply, err = relay(t.Context(), b, u, legacy(t, mcp.MethodCallTool, `{"name":"t"}`), &ear{}); err != nil || reply.Code() != mcp.CodeURLElicitationRequired {
		t.Errorf("a client of the server's own era: %v, %v", reply, err)
	}
}

func TestKeysSayWhatIsAsked(t *testing.T) {
	p := &parkedCall{}
	fields := func(f string) string { return `"params":{"requestedSchema":{"type":"object","properties":` + f + `}}` }
	for _, c := range []struct{ ask, want string }{
		{`"method":"elicitation/create",` + fields(`{"name":{"type":"string"}}`), "user_name"},
		{`"method":"elicitation/create",` + fields(`{"name":{"type":"string"}}`), "user_name.2"},
		{`"method":"elicitation/create",` + fields(`{"a":{},"b":{}}`), "user_input.3"},
		{`"method":"elicitation/create",` + fields(`{}`), "user_input.4"},
		{`"method":"elicitation/create",` + fields(`{"a.5":{}}`), "user_input.5"},
		{`"method":"elicitation/create",` + fields(`{"`+strings.Repeat("x", 41)+`":{}}`), "user_input.6"},
		{`"method":"elicitation/create","params":{"mode":"url"}`, "user_visit.7"},
		{`"method":"sampling/createMessage"`, "model_message.8"},
		{`"method":"roots/list"`, "client_roots.9"},
	} {
		if got := p.keyOf(message(t, `{"jsonrpc":"2.0","id":1,`+c.ask+`}`)); got != c.want {
			t.Errorf("the key of %s is %s, want %s", c.ask, got, c.want)
		}
	}
}
