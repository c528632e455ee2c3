package gateway_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
)

// unwritten is a Handler that checks that the next Handler does not modify a Call, except for
// its number. All tests with whole use it.
type unwritten struct {
	downstream.Handler
	t testing.TB
}

func (h unwritten) Call(ctx context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
	before, client := *c, *c.Client
	reply, err := h.Handler.Call(ctx, c, k)
	after := *c
	after.Number = before.Number
	if !reflect.DeepEqual(before, after) || !reflect.DeepEqual(client, *c.Client) {
		h.t.Errorf("a call of %s was modified", c.Msg.Method)
	}
	return reply, err
}

// TestWritesAreSeen checks that unwritten detects a modified call.
func TestWritesAreSeen(t *testing.T) {
	for name, write := range map[string]func(*mcp.Call){
		"the name":          func(c *mcp.Call) { c.Name = "other" },
		"the client":        func(c *mcp.Call) { c.Client = &mcp.ClientInfo{Conversation: 9} },
		"within the client": func(c *mcp.Call) { c.Client.Conversation = 9 },
	} {
		spy := &testing.T{}
		c := &mcp.Call{Msg: jsonrpc.NewRequest("1", "ping", nil), Client: &mcp.ClientInfo{}}
		_, _ = unwritten{writer{write: write}, spy}.Call(t.Context(), c, mcp.NoCaller{})
		if !spy.Failed() {
			t.Errorf("%s: the modification is not noticed", name)
		}
	}
}

// writer is a Handler that modifies calls.
type writer struct {
	downstream.Handler
	write func(*mcp.Call)
}

func (w writer) Call(_ context.Context, c *mcp.Call, _ mcp.Caller) (*mcp.Reply, error) {
	w.write(c)
	return nil, nil
}
