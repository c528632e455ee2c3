package conn

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

func TestCallsGivenUpBeforeAreNotSent(t *testing.T) {
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		m := pipetest.Scan(t, toolCall)
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(mcp.ErrCancelled)
		_, err := c.Call(ctx, mcp.NewAttempt(mcp.NewCall(m, jsonrpc.Span{}, anna)), &running{})
		var e *mcp.Error
		if !errors.As(err, &e) || e.Outcome != mcp.NotSent || e.Cause != "cancelled" || !errors.Is(err, transport.ErrNotSent) {
			t.Errorf("got %v", err)
		}
		// Neither the call nor a cancellation is sent.
		if got := w.Heard(); len(got) != 0 {
			t.Errorf("the server got %q", got)
		}
	})
}

// TestRequestOwner checks the owner of a server request, with several calls in flight.
func TestRequestOwner(t *testing.T) {
	const list = `{"jsonrpc":"2.0","id":"l","method":"tools/list"}`
	ours := func(line string) *mcp.Attempt {
		a := mcp.NewAttempt(mcp.NewCall(pipetest.Scan(t, line), jsonrpc.Span{}, anna))
		a.Ours = true
		return a
	}
	theirs := func(line string, facts *mcp.ClientInfo) *mcp.Attempt {
		return mcp.NewAttempt(mcp.NewCall(pipetest.Scan(t, line), jsonrpc.Span{}, facts))
	}
	read := strings.Replace(list, "tools/list", "resources/read", 1)
	unknown := strings.Replace(list, "tools/list", "foo/bar", 1)
	modern := &mcp.ClientInfo{Revision: mcp.R20260728, Conversation: 7}
	for name, test := range map[string]struct {
		calls     []*mcp.Attempt // the calls in flight, numbered from 1
		any, asks int64
		mixed     bool
	}{
		"nothing":                          {nil, 0, 0, false},
		"a call and its own client's list": {[]*mcp.Attempt{theirs(list, anna), theirs(toolCall, anna)}, 1, 2, false},
		"a call and another's list":        {[]*mcp.Attempt{theirs(list, ben), theirs(toolCall, anna)}, 0, 2, true},
		"a modern client's call and list":  {[]*mcp.Attempt{theirs(list, modern), theirs(toolCall, modern)}, 0, 2, true},
		"a call and our own list":          {[]*mcp.Attempt{ours(list), theirs(toolCall, anna)}, 2, 2, false},
		"our own list alone":               {[]*mcp.Attempt{ours(list)}, 0, 0, false},
		"a list alone":                     {[]*mcp.Attempt{theirs(list, anna)}, 1, 1, false},
		"two calls":                        {[]*mcp.Attempt{theirs(toolCall, ben), theirs(read, anna)}, 0, 0, true},
		"two calls of a modern client":     {[]*mcp.Attempt{theirs(toolCall, modern), theirs(read, modern)}, 0, 0, true},
		"a call and an unknown method":     {[]*mcp.Attempt{theirs(unknown, ben), theirs(toolCall, anna)}, 0, 0, true},
		"a call and a listen":              {[]*mcp.Attempt{theirs(strings.Replace(list, "tools/list", "subscriptions/listen", 1), modern), theirs(toolCall, anna)}, 2, 2, false},
	} {
		for _, backwards := range []bool{false, true} {
			var got attribution
			for i := range test.calls {
				if backwards {
					i = len(test.calls) - 1 - i
				}
				got.add(int64(i+1), test.calls[i])
			}
			if got.all.number() != test.any || got.owner() != test.asks || got.all.mixed != test.mixed {
				t.Errorf("%s: all gives %d, owner gives %d, mixed is %t", name, got.all.number(), got.owner(), got.all.mixed)
			}
		}
	}
}

// TestRequestOwnerOfTask checks that a server request that names its task never reaches an
// unrelated call, even if that call is the only one in flight.
func TestRequestOwnerOfTask(t *testing.T) {
	call := func(facts *mcp.ClientInfo, method, params string) *mcp.Attempt {
		m := pipetest.Scan(t, `{"jsonrpc":"2.0","id":"c","method":"`+method+`","params":`+params+`}`)
		return mcp.NewAttempt(mcp.NewCall(m, jsonrpc.Span{}, facts))
	}
	const this, other, plain, asTask = `{"taskId":"t1"}`, `{"taskId":"t2"}`, `{"name":"x"}`, `{"name":"x","task":{}}`
	madeOne := call(ben, mcp.MethodCallTool, plain)
	madeOne.AsTask = []byte("{}")
	for name, test := range map[string]struct {
		calls []*mcp.Attempt // the calls in flight, numbered from 1
		asks  int64
	}{
		"nothing":                                {nil, 0},
		"a call":                                 {[]*mcp.Attempt{call(ben, mcp.MethodCallTool, plain)}, 0},
		"another's task":                         {[]*mcp.Attempt{call(ben, mcp.MethodTaskResult, other)}, 0},
		"a look at another's task":               {[]*mcp.Attempt{call(ben, mcp.MethodGetTask, other)}, 0},
		"its result and a call":                  {[]*mcp.Attempt{call(ben, mcp.MethodCallTool, plain), call(anna, mcp.MethodTaskResult, this)}, 2},
		"its result and a look at it":            {[]*mcp.Attempt{call(ben, mcp.MethodGetTask, this), call(anna, mcp.MethodTaskResult, this)}, 2},
		"a look at it and a call":                {[]*mcp.Attempt{call(ben, mcp.MethodCallTool, plain), call(anna, mcp.MethodGetTask, this)}, 2},
		"a call that becomes a task":             {[]*mcp.Attempt{call(anna, mcp.MethodCallTool, asTask), call(ben, mcp.MethodCallTool, plain)}, 1},
		"a call that we make one":                {[]*mcp.Attempt{madeOne}, 1},
		"two that become tasks":                  {[]*mcp.Attempt{call(anna, mcp.MethodCallTool, asTask), madeOne}, 0},
		"a look at it, and one that becomes one": {[]*mcp.Attempt{madeOne, call(anna, mcp.MethodGetTask, this)}, 2},
	} {
		got := attribution{task: "t1"}
		for i, a := range test.calls {
			got.add(int64(i+1), a)
		}
		if got.owner() != test.asks {
			t.Errorf("%s: the owner is %d", name, got.owner())
		}
	}

	var elsewhere []string
	o := Options{Ask: func(_ context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
		elsewhere = append(elsewhere, m.Method)
		return nil, mcp.ErrCannotAsk
	}}
	calling(t, mcp.R20251125, o, func(c *Conn, w *pipetest.Wire) {
		bens := start(c, ben, toolCall)
		w.Heard()
		w.Say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}}`)
		if len(bens.asked) != 0 || len(elsewhere) != 1 {
			t.Errorf("ben got the requests %q about another client's task, and Options.Ask got %q", bens.asked, elsewhere)
		}
		bens.cancel(mcp.ErrCancelled)
		w.Heard()
	})
}
