package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// rounds is a modern server that returns the given results in turn.
func rounds(results ...string) *fake {
	u := &fake{name: "new"}
	n := 0
	u.call = func(context.Context, *mcp.Attempt, mcp.Caller) (*mcp.Reply, error) {
		r := results[min(n, len(results)-1)]
		n++
		return said(mcp.R20260728, r), nil
	}
	return u
}

const (
	complete = `{"resultType":"complete","content":[]}`
	twoAsks  = `{"resultType":"input_required","requestState":"\u0053 ä","inputRequests":{"a":{"method":"elicitation/create","params":{"m":1}},"\u0062":{"method":"roots/list"}}}`
)

// live returns a client that answers every server request with an object that contains the method
// of the request.
func live() *ear {
	return &ear{ask: func(_ context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
		raw := fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"result":{"to":"%s","n":1e400}}`, m.Method)
		return jsonrpc.Scan([]byte(raw), jsonrpc.Limits{})
	}}
}

func TestQuestionsAreAskedLiveAndAnsweredInOneRound(t *testing.T) {
	u := rounds(twoAsks, complete)
	reply, err := relay(t.Context(), &Bridge{}, u, legacy(t, mcp.MethodCallTool, `{"name":"t"}`), live())
	if err != nil || result(t, reply) != complete {
		t.Fatalf("%v, %v", reply, err)
	}
	calls := u.seen.all()
	if len(calls) != 2 {
		t.Fatalf("%d calls", len(calls))
	}
	m := message(t, calls[1])
	if got := string(m.Param("requestState").Of(m.Raw)); got != `"\u0053 ä"` {
		t.Errorf("state %s", got)
	}
	if got := string(m.Param("inputResponses").Of(m.Raw)); got != `{"a":{"to":"elicitation/create","n":1e400},"\u0062":{"to":"roots/list","n":1e400}}` {
		t.Errorf("answers %s", got)
	}
	if name, _ := jsonrpc.Text(m.Raw, m.Param("name")); name != "t" {
		t.Errorf("the call became %s", m.Raw)
	}
}

// TestVisitsArePutWithAnID checks URL elicitations for two client revisions. A client of 2025-11-25
// needs an id for each elicitation, but a modern server's input request does not have one.
func TestVisitsArePutWithAnID(t *testing.T) {
	const visit = `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","url":"https://x.example","message":"m"}}}}`
	for _, rev := range []mcp.Revision{mcp.R20251125, mcp.R20250618} {
		var put []string
		ears := live()
		answer := ears.ask
		ears.ask = func(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
			id, _ := jsonrpc.Text(m.Raw, m.Param("elicitationId"))
			put = append(put, id)
			return answer(ctx, m)
		}
		call := legacy(t, mcp.MethodCallTool, `{"name":"t"}`)
		client := *call.Client
		client.Revision = rev
		call.Client = &client
		if _, err := relay(t.Context(), &Bridge{}, rounds(visit, visit, complete), call, ears); err != nil {
			t.Fatal(err)
		}
		if due := rev.Can(mcp.ElicitationIDs); len(put) != 2 || due != (put[0] != "" && put[0] != put[1]) || !due && put[0] != "" {
			t.Errorf("%s: the elicitation ids are %q", rev, put)
		}
	}
}

func TestT10_ServerThatOnlyPutsOffIsNotAskedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := rounds(`{"resultType":"input_required","inputRequests":{},"requestState":"1"}`, `{"resultType":"input_required","requestState":"2"}`, complete)
		start := time.Now()
		_, err := relay(t.Context(), &Bridge{}, u, legacy(t, mcp.MethodCallTool, `{"name":"t"}`), live())
		if d := time.Since(start); err != nil || d != 300*time.Millisecond {
			t.Errorf("the call returned %v after %v, want success after 300ms", err, d)
		}
		calls := u.seen.all()
		if len(calls) != 3 || !strings.Contains(calls[2], `"requestState":"2"`) || strings.Contains(calls[1], "inputResponses") {
			t.Errorf("the server got %q", calls)
		}
	})
}

func TestRoundsOfOneCallAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, r := range []string{twoAsks, `{"resultType":"input_required","requestState":"s"}`} {
			u := rounds(r)
			_, err := relay(t.Context(), &Bridge{}, u, legacy(t, mcp.MethodCallTool, `{"name":"t"}`), live())
			if n := len(u.seen.all()); code(err) != jsonrpc.CodeInternal || n != maxRounds+1 {
				t.Errorf("%d calls were sent, and the error is %v", n, err)
			}
		}
	})
}

func TestQuestionThatGetsNoAnswerEndsTheCall(t *testing.T) {
	for what, x := range map[string]struct {
		ask   func(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error)
		cause string
	}{
		"cannot ask": {nil, "cannot_ask"},
		"an error": {func(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error) {
			return jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":0,"error":{"code":-1,"message":"no"}}`), jsonrpc.Limits{})
		}, "unanswered"},
		"gone": {func(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error) { return nil, errors.New("gone") }, "unanswered"},
	} {
		u := rounds(twoAsks, complete)
		_, err := relay(t.Context(), &Bridge{}, u, legacy(t, mcp.MethodCallTool, `{"name":"t"}`), &ear{ask: x.ask})
		var e *mcp.Error
		if !errors.As(err, &e) || e.Cause != x.cause || len(u.seen.all()) != 1 {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestDeclineIsAnAnswer(t *testing.T) {
	u := rounds(twoAsks, complete)
	client := &ear{ask: func(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error) {
		return jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":0,"result":{"action":"decline"}}`), jsonrpc.Limits{})
	}}
	if _, err := relay(t.Context(), &Bridge{}, u, legacy(t, mcp.MethodCallTool, `{"name":"t"}`), client); err != nil {
		t.Error(err)
	}
	if calls := u.seen.all(); len(calls) != 2 || !strings.Contains(calls[1], `"a":{"action":"decline"}`) {
		t.Errorf("calls %q", calls)
	}
}

// TestTooManyInputRequestsSendNone checks that no input request of a round is sent if there are too
// many, or if one of them is not valid.
func TestTooManyInputRequestsSendNone(t *testing.T) {
	var asks []byte
	for i := range maxPerRound + 1 {
		asks = append(asks, fmt.Sprintf(`,"q%d":{"method":"roots/list","params":{}}`, i)...)
	}
	asks[0] = '{'
	asks = append(asks, '}')
	var asked atomic.Int32
	e := &ear{ask: func(_ context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
		asked.Add(1)
		return message(t, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{}}`), nil
	}}
	if _, err := askAll(t.Context(), nil, e, asks, jsonrpc.Whole(asks), mcp.R20251125); err == nil || asked.Load() != 0 {
		t.Errorf("%d input requests were sent, error %v; want none and an error", asked.Load(), err)
	}
	one := []byte(`{"a":{"method":"roots/list","params":{}},"b":{"method":7}}`)
	if _, err := askAll(t.Context(), nil, e, one, jsonrpc.Whole(one), mcp.R20251125); err == nil || asked.Load() != 0 {
		t.Errorf("one of two input requests is not valid: %d were sent, error %v; want none and an error", asked.Load(), err)
	}
}
