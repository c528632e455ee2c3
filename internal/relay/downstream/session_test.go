package downstream

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

func TestIDsInFlight(t *testing.T) {
	for name, method := range map[string]string{"call": mcp.MethodCallTool, "listen": mcp.MethodListen} {
		t.Run(name, func(t *testing.T) {
			g := &gate{}
			h := &fakeHandler{on: methods{method: g.call}}
			visitLegacy(t, h, func(w *pipetest.Wire) {
				line := `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{"name":"x"}}`
				if method == mcp.MethodListen {
					line = `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` + modernly + `}}`
				}
				w.Say(line, line)
				w.Want(`{"jsonrpc":"2.0","id":7,"error":{"code":-32600,…}}`)
				// The number 7 and the string "7" are different ids.
				w.Say(strings.Replace(line, `"id":7`, `"id":"7"`, 1))
				w.Want()
				close(g.open())
				synctest.Wait()
				got := w.Heard()
				if len(got) != 2 || !strings.Contains(strings.Join(got, ""), `"id":7,"result"`) || !strings.Contains(strings.Join(got, ""), `"id":"7","result"`) {
					t.Errorf("got %q", got)
				}
				// After the answer, the client may use the id again.
				w.Say(line)
				w.Want(`{"jsonrpc":"2.0","id":7,"result":{…}}`)
			})
		})
	}
}

func TestSecondInitialize(t *testing.T) {
	h := &fakeHandler{}
	visitLegacy(t, h, func(w *pipetest.Wire) {
		w.Say(strings.Replace(hello25, "2025-11-25", "2024-11-05", 1))
		w.Want(`{"jsonrpc":"2.0","id":"i","error":{"code":-32600,…}}`)
		w.Say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		w.Want(`{"jsonrpc":"2.0","id":1,"result":{"method":"tools/list"}}`)
		if len(h.hellos) != 1 || h.standing.ClientInfo().Revision != mcp.R20251125 {
			t.Errorf("%d calls of Hello, %v", len(h.hellos), h.standing.ClientInfo())
		}
	})
	if h.detached != 1 {
		t.Errorf("detach was called %d times", h.detached)
	}
}

func TestVersionsAtInitialize(t *testing.T) {
	for version, want := range map[string]string{
		`"9999-01-01"`: `"result":{…"protocolVersion":"2025-11-25"…}}`,
		`""`:           `"result":{…"protocolVersion":"2025-11-25"…}}`,
		`"2026-07-28"`: `"result":{…"protocolVersion":"2025-11-25"…}}`,
		`"2024-11-05"`: `"result":{…"protocolVersion":"2024-11-05"…}}`,
		`7`:            `"error":{"code":-32602,…}}`,
		`null`:         `"error":{"code":-32602,…}}`,
		`["x"]`:        `"error":{"code":-32602,…}}`,
	} {
		visit(t, &Endpoint{Handler: &fakeHandler{}}, func(w *pipetest.Wire) {
			w.Say(strings.Replace(hello25, `"2025-11-25"`, version, 1))
			w.Want(`{"jsonrpc":"2.0","id":"i",` + want)
			w.Say(hello25) // the client may try again after a refusal
			if got := w.Heard(); len(got) != 1 || strings.Contains(want, "result") == strings.Contains(got[0], "result") {
				t.Errorf("after %s: %q", version, got)
			}
		})
	}
}

func TestStrictVersions(t *testing.T) {
	all := `["2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`
	for name, test := range map[string]struct {
		legacy   []mcp.Revision
		list     string
		expected string
	}{
		"listed": {[]mcp.Revision{mcp.R20250618, mcp.R20241105}, `["2025-06-18","2024-11-05"]`, "Expected one of: 2025-06-18, 2024-11-05"},
		"one":    {[]mcp.Revision{mcp.R20241105}, `["2024-11-05"]`, "Expected: 2024-11-05"},
		"all":    {nil, all, "Expected one of: 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05"},
	} {
		t.Run(name, func(t *testing.T) {
			visit(t, &Endpoint{Handler: &fakeHandler{}, Rules: fixed(Rules{Revisions: test.legacy, Strict: true})}, func(w *pipetest.Wire) {
				w.Say(strings.Replace(hello25, "2025-11-25", "1.0\u202e", 1))
				got := w.Heard()
				if len(got) != 1 {
					t.Fatalf("got %q", got)
				}
				m := pipetest.Scan(t, got[0])
				for key, want := range map[string]string{
					"code":    `-32602`,
					"message": `"Unsupported protocol version. ` + test.expected + `"`,
				} {
					if v := jsonrpc.Find(m.Raw, m.Error, key).Of(m.Raw); string(v) != want {
						t.Errorf("%s returns %s, want %s", key, v, want)
					}
				}
				data := jsonrpc.Find(m.Raw, m.Error, "data")
				for key, want := range map[string]string{
					"requested":        `"1.0_"`,
					"received_version": `"1.0_"`,
					"code":             `"INVALID_PROTOCOL_VERSION"`,
				} {
					if v := jsonrpc.Find(m.Raw, data, key).Of(m.Raw); string(v) != want {
						t.Errorf("%s returns %s, want %s", key, v, want)
					}
				}
				for _, key := range []string{"supported", "supported_versions"} {
					v := string(jsonrpc.Find(m.Raw, data, key).Of(m.Raw))
					if len(v) != len(test.list) || !strings.Contains(v, `"2024-11-05"`) {
						t.Errorf("%s returns %s, want %s", key, v, test.list)
					}
				}
				w.Say(strings.Replace(hello25, "2025-11-25", "2024-11-05", 1))
				w.Want(`{"jsonrpc":"2.0","id":"i","result":{…"protocolVersion":"2024-11-05"…}}`)
			})
		})
	}
}

// TestMalformedInitialize checks the error for each member of initialize that is missing or has the
// wrong type. The error names the member. Without Strict, only protocolVersion is checked, and
// initialize without params is allowed, because manifest clients send it.
func TestMalformedInitialize(t *testing.T) {
	const good = `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`
	for _, test := range []struct{ params, member, strict string }{
		{`[]`, "params", "params"},
		{`"x"`, "params", "params"},
		{`null`, "params", "params"},
		{``, "", "params"},
		{`{}`, "params.protocolVersion", "params.protocolVersion"},
		{`{"capabilities":{},"clientInfo":{"name":"c","version":"1"}}`, "params.protocolVersion", "params.protocolVersion"},
		{strings.Replace(`{`+good+`}`, `"2025-11-25"`, `7`, 1), "params.protocolVersion", "params.protocolVersion"},
		{strings.Replace(`{`+good+`}`, `"2025-11-25"`, `null`, 1), "params.protocolVersion", "params.protocolVersion"},
		{strings.Replace(`{`+good+`}`, `"capabilities":{}`, `"capabilities":[]`, 1), "", "params.capabilities"},
		{`{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"}}`, "", "params.capabilities"},
		{strings.Replace(`{`+good+`}`, `{"name":"c","version":"1"}`, `"c"`, 1), "", "params.clientInfo"},
		{`{"protocolVersion":"2025-11-25","capabilities":{}}`, "", "params.clientInfo"},
		{strings.Replace(`{`+good+`}`, `"name":"c",`, ``, 1), "", "params.clientInfo.name"},
		{strings.Replace(`{`+good+`}`, `"name":"c"`, `"name":7`, 1), "", "params.clientInfo.name"},
		{strings.Replace(strings.Replace(`{`+good+`}`, `"2025-11-25"`, `"1.0"`, 1), `"name":"c",`, ``, 1), "", "params.clientInfo.name"},
		{strings.Replace(`{`+good+`}`, `"name":"c"`, `"name":""`, 1), "", "params.clientInfo.name"},
		{strings.Replace(`{`+good+`}`, `,"version":"1"`, ``, 1), "", "params.clientInfo.version"},
		{strings.Replace(`{`+good+`}`, `"version":"1"`, `"version":1`, 1), "", "params.clientInfo.version"},
		{`{` + good + `}`, "", ""},
	} {
		for _, strict := range []bool{false, true} {
			want := test.member
			if strict {
				want = test.strict
			}
			visit(t, &Endpoint{Handler: &fakeHandler{}, Rules: fixed(Rules{Strict: strict})}, func(w *pipetest.Wire) {
				line := `{"jsonrpc":"2.0","id":"i","method":"initialize","params":` + test.params + `}`
				if test.params == "" {
					line = `{"jsonrpc":"2.0","id":"i","method":"initialize"}`
				}
				w.Say(line)
				if want == "" {
					w.Want(`{"jsonrpc":"2.0","id":"i","result":…}`)
					return
				}
				w.Want(`{"jsonrpc":"2.0","id":"i","error":{"code":-32602,"message":"initialize is malformed: ` + want + ` must be …","data":{"code":"MALFORMED_REQUEST","member":"` + want + `"}}}`)
				w.Say(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{` + good + `}}`) // the client may try again
				w.Want(`{"jsonrpc":"2.0","id":"i","result":…}`)
			})
		}
	}
}

// TestFailedHandshake checks the errors of failed handshakes. An error of Dragoman itself has a
// code and other facts in data. An error from the server is not changed.
func TestFailedHandshake(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"bug":    {errors.New("secret"), `"error":{"code":-32603,"message":"internal error","data":{"code":"INTERNAL_ERROR"}}}`},
		"ours":   {&mcp.Error{Message: "m", Origin: mcp.FromGateway, Cause: "timeout", Outcome: mcp.NotSent}, `"error":{"code":-32603,"message":"m","data":{"code":"INTERNAL_ERROR","origin":"gateway","cause":"timeout","outcome":"not_sent","retryable":false}}}`},
		"theirs": {&jsonrpc.Error{Code: -32000, Message: "no", Data: []byte(`{"a":1}`)}, `"error":{"code":-32000,"message":"no","data":{"a":1}}}`},
		"coded":  {&jsonrpc.Error{Code: -32603, Message: "no"}, `"error":{"code":-32603,"message":"no"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			visit(t, &Endpoint{Handler: &fakeHandler{failing: test.err}}, func(w *pipetest.Wire) {
				w.Say(hello25)
				w.Want(`{"jsonrpc":"2.0","id":"i",` + test.want)
				w.Say(hello26)
				w.Want(`{"jsonrpc":"2.0","id":"d",` + test.want)
			})
		})
	}
}

func TestCancelledByTheClient(t *testing.T) {
	g := &gate{}
	h := &fakeHandler{on: methods{mcp.MethodCallTool: g.call}}
	cancel := func(id string) string {
		return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"r"}}`
	}
	visitLegacy(t, h, func(w *pipetest.Wire) {
		w.Say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}`)
		w.Want(`{"jsonrpc":"2.0","id":1,"result":…}`)
		w.Say(cancel(`1`), cancel(`99`), cancel(`"i"`), cancel(`"2"`), cancel(`null`), cancel(`{}`),
			`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
		w.Want()
		if len(g.ended()) != 0 {
			t.Fatal("the wrong call was cancelled")
		}
		w.Say(cancel(`2`), cancel(`2`))
		w.Want()
		if got := g.ended(); len(got) != 1 || !errors.Is(got[0], mcp.ErrCancelled) {
			t.Errorf("the call ended with %v", got)
		}
		w.Say(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
		w.Want(`{"jsonrpc":"2.0","id":2,"result":…}`)
		if len(h.notices) != 0 {
			t.Errorf("the handler got %q", h.notices)
		}
	})
}

// answers is a transport.Responder that collects what it gets.
type answers struct{ got []string }

func (a *answers) Event(b []byte) error           { a.got = append(a.got, string(b)); return nil }
func (a *answers) Finish(b []byte, _ int64) error { a.got = append(a.got, string(b)); return nil }
func (a *answers) Send(b []byte) error            { return a.Event(b) }

// TestCancelledBeforeItsTurn cancels a request before it is served, and reuses its id at once. In
// whatever order the two requests are served, the first one is not executed and gets no answer, and
// the second one gets its own answer.
func TestCancelledBeforeItsTurn(t *testing.T) {
	for name, order := range map[string][]int{"first first": {0, 1}, "second first": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			live := 0
			h := &fakeHandler{on: methods{mcp.MethodCallTool: func(ctx context.Context, _ *mcp.Call, _ mcp.Caller) (*mcp.Reply, error) {
				if ctx.Err() == nil {
					live++
				}
				return nil, context.Cause(ctx)
			}}}
			c := (&Endpoint{Handler: h}).Accept(transport.Peer{Transport: "inmem"}, &answers{})
			expect := func(line string) func(transport.Responder) {
				return transport.Expect(t.Context(), c, transport.Incoming{Msg: pipetest.Scan(t, line)})
			}
			cancel := pipetest.Scan(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
			serve := []func(transport.Responder){expect(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`)}
			_ = c.OneWay(t.Context(), transport.Incoming{Msg: cancel})
			serve = append(serve, expect(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`))
			var got [2]answers
			for _, i := range order {
				serve[i](&got[i])
			}
			if live != 0 {
				t.Error("the handler got a call that was already cancelled")
			}
			if len(got[0].got) != 1 || got[0].got[0] != "" {
				t.Errorf("the cancelled request was answered with %q", got[0].got)
			}
			if len(got[1].got) != 1 || !pipetest.Like(got[1].got[0], `{"jsonrpc":"2.0","id":7,"result":…}`) {
				t.Errorf("the other request was answered with %q", got[1].got)
			}
		})
	}
}

// TestIDOfACancelledRequestIsFree checks that a client may use the id of a cancelled request again,
// even if the handler of the cancelled request is still running.
func TestIDOfACancelledRequestIsFree(t *testing.T) {
	var g gate
	h := &fakeHandler{on: methods{mcp.MethodCallTool: func(context.Context, *mcp.Call, mcp.Caller) (*mcp.Reply, error) {
		<-g.open()
		return mcp.Answer([]byte(`{}`)), nil
	}}}
	visitLegacy(t, h, func(w *pipetest.Wire) {
		w.Say(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`,
			`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)
		w.Want(`{"jsonrpc":"2.0","id":7,"result":{"method":"tools/list"…}}`)
		close(g.open())
		w.Want() // the cancelled request gets no answer
	})
}

// TestW11_BudgetOfPipes checks that a pipe endpoint refuses a request that exceeds the budget, and
// that it holds no budget at the end.
func TestW11_BudgetOfPipes(t *testing.T) {
	var g gate
	budget := transport.NewBudget(300)
	visit(t, &Endpoint{Handler: &fakeHandler{on: methods{mcp.MethodCallTool: g.call}}, Budget: budget}, func(w *pipetest.Wire) {
		w.Say(hello25, ready)
		w.Heard()
		if s := budget.State(); s.Held != 0 {
			t.Errorf("the budget after the handshake is %+v", s)
		}
		large := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"x":"` + strings.Repeat("x", 150) + `"}}}`
		w.Say(large, strings.Replace(large, `"id":1`, `"id":2`, 1))
		w.Want(`{"jsonrpc":"2.0","id":2,"error":{"code":-32603,…"cause":"overloaded","outcome":"not_sent","retryable":true…}}`)
		w.Say(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
		w.Want(`{"jsonrpc":"2.0","id":3,"result":…}`)
		close(g.open())
		w.Want(`{"jsonrpc":"2.0","id":1,"result":…}`)
		if s := budget.State(); s.Held != 0 || s.Refused != 1 {
			t.Errorf("the budget at the end is %+v", s)
		}
	})
}

// slowHello is a handler whose Hello waits for gate, as if its servers were still starting.
type slowHello struct {
	fakeHandler
	gate gate
}

func (h *slowHello) Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	select {
	case <-h.gate.open():
		return h.fakeHandler.Hello(ctx, f)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func TestInitializeIsNotCancelled(t *testing.T) {
	h := &slowHello{}
	visit(t, &Endpoint{Handler: h}, func(w *pipetest.Wire) {
		w.Say(hello25, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"i"}}`, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		w.Want()
		close(h.gate.open())
		w.Want(`{"jsonrpc":"2.0","id":"i","result":…}`, `{"jsonrpc":"2.0","id":1,"result":…}`)
	})
}

func TestUnknownNotifications(t *testing.T) {
	h := &fakeHandler{}
	visitLegacy(t, h, func(w *pipetest.Wire) {
		w.Say(`{"jsonrpc":"2.0","method":"notifications/foo"}`, `{"jsonrpc":"2.0","method":"tools/list"}`,
			`{"jsonrpc":"2.0","method":"foo","params":{"_meta":{}}}`)
		w.Want()
		if got := strings.Join(h.notices, " "); got != "notifications/foo tools/list foo" {
			t.Errorf("the handler got %s", got)
		}
		if len(h.calls) != 0 {
			t.Errorf("the handler got %q", h.calls)
		}
	})
	// Dragoman drops notifications that arrive before the handshake.
	h = &fakeHandler{}
	visit(t, &Endpoint{Handler: h}, func(w *pipetest.Wire) {
		w.Say(`{"jsonrpc":"2.0","method":"notifications/foo"}`)
		w.Want()
	})
	if len(h.notices) != 0 {
		t.Errorf("the handler got %q", h.notices)
	}
}

func TestBatches(t *testing.T) {
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/list"},{"jsonrpc":"2.0","method":"notifications/foo"},{"jsonrpc":"2.0","id":9,"result":{}}]`
	for date, known := range map[string]bool{"2024-11-05": false, "2025-03-26": true, "2025-06-18": false, "2025-11-25": false} {
		h := &fakeHandler{}
		visit(t, &Endpoint{Handler: h}, func(w *pipetest.Wire) {
			w.Say(batch)
			if got := w.Heard(); len(got) != 1 || !strings.Contains(got[0], `"code":-32600`) {
				t.Errorf("before initialize the handler got %q", got)
			}
			w.Say(strings.Replace(hello25, "2025-11-25", date, 1))
			w.Heard()
			w.Say(batch)
			got := w.Heard()
			if !known {
				if len(got) != 1 || !strings.Contains(got[0], `"code":-32600`) || len(h.calls)+len(h.notices) != 0 {
					t.Errorf("%s: the client got %q, and the handler got the calls %q and notifications %q", date, got, h.calls, h.notices)
				}
				return
			}
			if len(got) != 1 || strings.Count(got[0], `"result"`) != 2 || len(h.notices) != 1 {
				t.Fatalf("got %q", got)
			}
			items, err := jsonrpc.ScanBatch([]byte(got[0]), jsonrpc.Limits{})
			if err != nil || len(items) != 2 {
				t.Errorf("there are %d answers, %v", len(items), err)
			}
			// A batch of notifications gets no answer. An invalid message in a batch gets its
			// own error.
			w.Say(`[{"jsonrpc":"2.0","method":"notifications/foo"}]`)
			w.Want()
			w.Say(`[1,{"jsonrpc":"2.0","id":3,"method":"ping"}]`)
			w.Want(`[{"jsonrpc":"2.0",…"code":-32600…},{"jsonrpc":"2.0","id":3,"result":{}}]`)
			w.Say(`[]`)
			w.Want(`{"jsonrpc":"2.0",…"code":-32600…}`)
		})
	}
}

func TestBatchWithACancelledCall(t *testing.T) {
	g := &gate{}
	visit(t, &Endpoint{Handler: &fakeHandler{on: methods{mcp.MethodCallTool: g.call}}}, func(w *pipetest.Wire) {
		w.Say(strings.Replace(hello25, "2025-11-25", "2025-03-26", 1))
		w.Heard()
		w.Say(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}]`)
		w.Want()
		w.Say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		w.Want(`[{"jsonrpc":"2.0","id":1,"result":{}}]`)
	})
}

func TestEndOfInput(t *testing.T) {
	g := &gate{}
	h := &fakeHandler{on: methods{mcp.MethodCallTool: g.call, mcp.MethodListen: g.call}}
	start := time.Time{}
	visitLegacy(t, h, func(w *pipetest.Wire) {
		for _, id := range []string{"1", "2", "3"} {
			w.Say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"x"}}`)
		}
		w.Want()
		start = time.Now()
		_ = w.Pipe.Close()
		time.Sleep(drainTimeout - time.Nanosecond)
		if n := len(g.ended()); n != 0 {
			t.Errorf("%d calls were cancelled at once", n)
		}
		time.Sleep(time.Nanosecond)
		got := g.ended()
		if len(got) != 3 {
			t.Fatalf("%d calls were cancelled", len(got))
		}
		for _, err := range got {
			if !errors.Is(err, errGone) || errors.Is(err, mcp.ErrCancelled) {
				t.Errorf("the calls were cancelled with %v", err)
			}
		}
		if took := time.Since(start); took != drainTimeout {
			t.Errorf("the end took %v", took)
		}
	})
	if h.detached != 1 {
		t.Errorf("detach was called %d times", h.detached)
	}
}

func TestRemovedMethods(t *testing.T) {
	h := &fakeHandler{}
	visit(t, &Endpoint{Handler: h}, func(w *pipetest.Wire) {
		for _, method := range []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"} {
			w.Say(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + modernly + `}}`)
			w.Want(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,…}}`)
		}
		if len(h.calls)+len(h.hellos) != 0 {
			t.Errorf("the handler got %q", h.calls)
		}
	})
}

func TestBothErasOnOnePipe(t *testing.T) {
	h := &fakeHandler{}
	visit(t, &Endpoint{Handler: h}, func(w *pipetest.Wire) {
		w.Say(hello26)
		w.Want(`{"jsonrpc":"2.0","id":"d","result":{…"supportedVersions":…}}`)
		w.Say(hello25, ready)
		w.Want(`{"jsonrpc":"2.0","id":"i","result":{…"protocolVersion":"2025-11-25"…}}`)
		w.Say(hello26, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		w.Want(`{"jsonrpc":"2.0","id":"d","result":…}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		if h.standing == nil {
			t.Error("the client was not attached")
		}
	})
}

func TestHandshakesAreObserved(t *testing.T) {
	var seen []string
	events := &event.Publisher{}
	events.Tap(event.Of(event.Handshake), func(e event.Event) {
		if e.Outcome == event.OK {
			seen = append(seen, e.Name+"/"+e.From.String())
			return
		}
		seen = append(seen, e.Name+"/refused")
	})
	visit(t, &Endpoint{Handler: &fakeHandler{}, Events: events, Rules: fixed(Rules{Strict: true, Revisions: []mcp.Revision{mcp.R20260728, mcp.R20250618}})}, func(w *pipetest.Wire) {
		w.Say(hello25, strings.NewReplacer("2025-11-25", "2025-06-18", `"name":"c"`, `"name":"c\n\u001b]0;x"`).Replace(hello25), hello26)
		w.Heard()
	})
	if got := strings.Join(seen, " "); got != "c/refused c__]0;x/2025-06-18 c/2026-07-28" {
		t.Errorf("the events are %q", got)
	}
}

// TestFailedHandshakeHasItsReason checks that the event of a failed handshake has the message
// that the client gets.
func TestFailedHandshakeHasItsReason(t *testing.T) {
	var details []string
	events := &event.Publisher{}
	events.Tap(event.Of(event.Handshake), func(e event.Event) { details = append(details, string(e.Outcome)+": "+e.Detail) })
	visit(t, &Endpoint{Handler: &fakeHandler{failing: &jsonrpc.Error{Code: -32603, Message: "the server is down"}}, Events: events}, func(w *pipetest.Wire) {
		w.Say(hello25)
		w.Want(`{"jsonrpc":"2.0","id":"i","error":{…"message":"the server is down"…}}`)
	})
	if len(details) != 1 || details[0] != string(mcp.Failed)+": the server is down" {
		t.Errorf("the events are %q", details)
	}
}

func TestModernRevisionMustBeAccepted(t *testing.T) {
	host := &fakeHandler{}
	visit(t, &Endpoint{Handler: host, Rules: fixed(Rules{Revisions: []mcp.Revision{mcp.R20251125}})}, func(w *pipetest.Wire) {
		w.Say(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
		w.Want(`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2025-11-25"],"requested":"2026-07-28"}}}`)
	})
}

// fixed returns a function for Endpoint.Rules that always returns r.
func fixed(r Rules) func() *Rules { return func() *Rules { return &r } }

// TestRulesChange checks that new rules count for the next handshake and the next modern request,
// and that a session which is open keeps its revision.
func TestRulesChange(t *testing.T) {
	var now atomic.Pointer[Rules]
	now.Store(&Rules{})
	e := &Endpoint{Handler: &fakeHandler{}, Rules: now.Load}
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	visit(t, e, func(old *pipetest.Wire) {
		old.Say(hello25)
		old.Want(`{"jsonrpc":"2.0","id":"i","result":{…"protocolVersion":"2025-11-25"…}}`)
		now.Store(&Rules{Revisions: []mcp.Revision{mcp.R20250618}, Strict: true})
		old.Say(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		old.Want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		old.Say(list)
		old.Want(`{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2025-06-18"],"requested":"2026-07-28"}}}`)
	})
	visit(t, e, func(w *pipetest.Wire) {
		w.Say(hello25)
		w.Want(`{"jsonrpc":"2.0","id":"i","error":{…"Unsupported protocol version. Expected: 2025-06-18"…}}`)
	})
}
