package upstream

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// TestSteps checks that Dragoman publishes an event when it sends a message of the handshake or
// the first tools/list, and another event when the answer arrives.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &program{legacy: true, on: func(_ *process, m *jsonrpc.Message) []byte {
			if m.Method == mcp.MethodListTools {
				return ok(m, `{"tools":[{"name":"a"},{"name":"b"}]}`)
			}
			return nil
		}}
		u := h.open(Spec{})
		p := &event.Publisher{}
		var got []string
		p.Tap(event.Of(event.Step), func(e event.Event) {
			if e.Server != "h" || e.Level != slog.LevelDebug || e.Step.Bytes != "" || e.Step.For != mcp.MethodListTools {
				t.Errorf("%+v", e)
			}
			got = append(got, fmt.Sprintf("%d %s -> %s", e.Step.N, e.Step.Sent, e.Step.Got))
		})
		u.opts.Events = p
		for range 2 { // Dragoman publishes only the first tools/list
			if _, _, err := u.List(t.Context(), nil, mcp.MethodListTools); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{
			"1 server/discover -> ",
			"2 server/discover (2026-07-28) -> error -32601 \"Method not found\"",
			"3 initialize -> ",
		}
		if len(got) < 8 || !slices.Equal(got[:3], want) || got[len(got)-2] != fmt.Sprintf("%d tools/list -> ", len(got)-1) ||
			got[len(got)-1] != fmt.Sprintf("%d tools/list -> 2 tools", len(got)) {
			t.Errorf("%q", got)
		}
		u.Close(t.Context())
	})
}

// TestPurposes checks that the steps of opening a server, and the log record of the open server,
// contain the reason why Dragoman opened it.
func TestPurposes(t *testing.T) {
	call := func(ctx context.Context, u *Upstream) error {
		m, err := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`), jsonrpc.Limits{})
		if err != nil {
			return err
		}
		_, err = u.Call(ctx, mcp.NewCall(m, jsonrpc.Span{}, &mcp.ClientInfo{Revision: mcp.LatestLegacy}), mcp.NoCaller{})
		return err
	}
	list := func(ctx context.Context, u *Upstream) error {
		_, _, err := u.List(ctx, nil, mcp.MethodListPrompts)
		return err
	}
	hello := func(ctx context.Context, u *Upstream) error {
		_, err := u.Hello(ctx, nil)
		return err
	}
	for want, do := range map[string]func(context.Context, *Upstream) error{
		"tools/call":   call,
		"prompts/list": list,
		"initialize":   hello,
		"lists":        func(ctx context.Context, u *Upstream) error { return hello(mcp.WithPurpose(ctx, "lists"), u) },
		"keep open": func(_ context.Context, u *Upstream) error {
			u.update(func(st *state) {
				u.broker.openHome(st)
			})
			return nil
		},
	} {
		t.Run(want, func(t *testing.T) {
			bubble(t, &program{legacy: true}, Spec{}, func(t *testing.T, u *Upstream) {
				log, p := &journal{}, &event.Publisher{}
				u.opts.Log, u.opts.Events = log.logger(), p
				seen := map[string]bool{}
				p.Tap(event.Of(event.Step), func(e event.Event) { seen[e.Step.For] = true })
				if err := do(t.Context(), u); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if len(seen) != 1 || !seen[want] {
					t.Errorf("the steps are for %v", seen)
				}
				if text := log.String(); !strings.Contains(text, "level=INFO msg=\"server ready\" ") || !strings.Contains(text, "for="+strconv.Quote(want)) && !strings.Contains(text, "for="+want+"\n") {
					t.Errorf("the log is %s", text)
				}
			})
		})
	}
}
