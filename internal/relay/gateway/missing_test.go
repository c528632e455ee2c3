package gateway

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
)

// TestListSaysWhoIsMissing checks a list that lacks the items of some servers. The list names the
// servers that are starting and the servers that have failed, until these servers answer.
func TestListSaysWhoIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &fake{name: "slow", list: func(ctx context.Context, _ string) ([][]byte, error) {
			return after(ctx, 8*time.Second, items(`{"name":"s"}`))
		}}
		failing := func(context.Context, string) ([][]byte, error) { return nil, errors.New("no such program") }
		broken := &fake{name: "broken", list: failing}
		good := &fake{name: "good", lists: map[string][]string{"tools/list": {`{"name":"g"}`}}}
		g := &Merged{Bridge: &bridge.Bridge{}, Upstreams: []Upstream{slow, broken, good}}
		defer g.Close()
		missing := func() string {
			t.Helper()
			r, err := g.Call(t.Context(), modern(t, mcp.MethodListTools, `{}`), &recordingCaller{})
			if err != nil {
				t.Fatal(err)
			}
			raw := r.Msg.Raw
			return string(jsonrpc.Find(raw, r.Msg.ResultMember(mcp.KeyMeta), mcp.KeyMissing).Of(raw))
		}
		if got, want := missing(), `{"starting":["slow"],"failed":["broken"]}`; got != want {
			t.Errorf("at first the list is %s, want %s", got, want)
		}
		time.Sleep(10 * time.Second)
		if got, want := missing(), `{"failed":["broken"]}`; got != want {
			t.Errorf("later the list is %s, want %s", got, want)
		}
		broken.setList(nil)
		time.Sleep(10 * time.Second)
		missing()
		time.Sleep(10 * time.Second)
		if got := missing(); got != "" {
			t.Errorf("when all servers are ready the list is %s", got)
		}
		// A server that was ready and then fails keeps its old list. The result does not name it as
		// missing.
		slow.setList(failing)
		g.Changed("slow", "tools")
		if got := missing(); got != "" {
			t.Errorf("when a ready server fails the list is %s", got)
		}
	})
}
