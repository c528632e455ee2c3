package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

func long(n int) string { return strings.Repeat("x", n) }

// TestLogsHeldForAParkedCallAreBoundedInBytes checks that a parked call holds log messages up
// to the bound, and that the client gets these messages when it retries.
func TestLogsHeldForAParkedCallAreBoundedInBytes(t *testing.T) {
	bubble(t, func(t *testing.T, r *Bridge) {
		u := &fake{name: "old", call: func(ctx context.Context, _ *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
			go func() {
				time.Sleep(time.Second) // until the call is parked
				for n := range maxHeldLogs {
					k.Notify(pipetest.Note(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%d %s"}}`, n, long(100<<10))))
				}
			}()
			_, err := k.Ask(ctx, message(t, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`))
			return said(mcp.R20251125, `{}`), err
		}}
		state, _ := parkedState(t, r, u)
		time.Sleep(2 * time.Second)
		back := &ear{}
		c := modern(t, mcp.MethodCallTool, `{"name":"t","inputResponses":{"client_roots":{"roots":[]}},"requestState":"`+state+`"}`)
		if _, err := relay(t.Context(), r, u, c, back); err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, b := range back.all() {
			size += len(b)
		}
		if size > maxHeldLogBytes || len(back.all()) != 2 {
			t.Errorf("%d bytes in %d messages were held, want them within the bound", size, len(back.all()))
		}
	})
}

// givesUp returns a legacy server that sends a request, waits for a second, and answers with size
// bytes.
func givesUp(size int) *fake {
	return &fake{name: "old", call: func(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		m, err := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`), jsonrpc.Limits{})
		if err != nil {
			return nil, err
		}
		_, _ = k.Ask(short, m)
		return said(mcp.R20251125, `{"who":"`+a.Client.Who.Key()+`","x":"`+long(size)+`"}`), nil
	}}
}

// TestAnswersThatNobodyFetchesAreBounded parks calls whose client never retries. The server
// then cancels its requests and sends long answers. The kept answers are bounded in number and
// bytes, and the budget counts them. Another client's parked call still gets its answer, and
// the budget is empty at the end.
func TestAnswersThatNobodyFetchesAreBounded(t *testing.T) {
	for _, size := range []int{10, 256 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			bubble(t, func(t *testing.T, b *Bridge) {
				b.Budget = transport.NewBudget(1 << 40)
				u := givesUp(size)
				park := func(principal string) string {
					t.Helper()
					reply, err := relay(t.Context(), b, u, request26(t, principal, mcp.MethodCallTool, `{"name":"t"}`), &ear{})
					if err != nil || reply.ResultType() != mcp.ResultInputRequired {
						t.Fatalf("not parked: %v, %v", reply, err)
					}
					return text(t, reply, "requestState")
				}
				innocent := park("ben")
				var states []string
				for range 2 * maxFinished / 8 {
					for range 8 {
						states = append(states, park("alice"))
					}
					time.Sleep(1100 * time.Millisecond)
				}
				synctest.Wait()
				if n := b.Parked(); n > maxFinished {
					t.Errorf("%d finished calls are kept, want at most the bound", n)
				}
				if held := b.Budget.State().Held; held > maxFinishedBytes || held < int64(size) {
					t.Errorf("the budget counts %d bytes", held)
				}
				back := func(principal, state string) (*mcp.Reply, error) {
					return relay(t.Context(), b, u, request26(t, principal, mcp.MethodCallTool, answered(state, "")), &ear{})
				}
				reply, err := back("ben", innocent)
				if err != nil || text(t, reply, "who") != "ben" {
					t.Errorf("the retry of the other client: %v", err)
				}
				if _, err := back("alice", states[0]); !errors.Is(err, errParkLost) {
					t.Errorf("the retry of the oldest call: %v", err)
				}
				if reply, err := back("alice", states[len(states)-1]); err != nil || text(t, reply, "who") != "alice" {
					t.Errorf("the retry of the newest call: %v", err)
				}
				time.Sleep(2 * stateTTL)
				synctest.Wait()
				if n, held := b.Parked(), b.Budget.State().Held; n != 0 || held != 0 || len(b.finished.order) != 0 || b.finished.bytes != 0 {
					t.Errorf("%d calls are kept and %d bytes counted at the end, want none", n, held)
				}
			})
		})
	}
}
