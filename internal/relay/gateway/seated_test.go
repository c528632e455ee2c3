package gateway

import (
	"context"
	"errors"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// seated is a server whose sessions are in another process while away is set.
type seated struct {
	*fake
	away      error
	sat, left int
}

func (s *seated) Sit(context.Context, *mcp.ClientInfo) (leave func(), err error) {
	if s.away != nil {
		return nil, s.away
	}
	s.sat++
	return func() { s.left++ }, nil
}

// counter is a policy step and an auditor that counts what it sees.
type counter struct{ before, begun, ended int }

func (c *counter) Before(context.Context, *policy.Call) policy.Verdict {
	c.before++
	return policy.Verdict{}
}
func (c *counter) After(context.Context, *policy.Call, *policy.Answer) {}
func (c *counter) Begin(context.Context, *policy.Call) error           { c.begun++; return nil }
func (c *counter) End(context.Context, *policy.Call, *policy.Answer)   { c.ended++ }

// TestSeatBeforePolicy sends calls to a server whose sessions are in another process. Neither the policy nor the server nor
// the audit has seen such a call, since the other process decides about it. Clients that have a process of their own, and
// lists, stay here.
func TestSeatBeforePolicy(t *testing.T) {
	s, seen := &seated{fake: &fake{name: "u"}, away: &transport.Elsewhere{Home: "there", Again: true}}, &counter{}
	g := &Single{Bridge: &bridge.Bridge{}, Upstream: s, Policy: policy.Chain{seen}, Audit: seen}
	call := func(method, params string, http bool, conversation uint64) error {
		c := callOf(t, method, params)
		c.HTTP, c.Client.Conversation = http, conversation
		_, err := g.Call(t.Context(), c, mcp.NoCaller{})
		return err
	}
	var to *transport.Elsewhere
	if err := call(mcp.MethodCallTool, `{"name":"t"}`, true, 0); !errors.As(err, &to) || to.Home != "there" {
		t.Errorf("elsewhere: %v", err)
	}
	if seen.before != 0 || seen.ended != 0 || len(s.seen.all()) != 0 {
		t.Errorf("%+v has seen it, or the server: %q", seen, s.seen.all())
	}
	for _, x := range []struct {
		method, params string
		http           bool
		conversation   uint64
	}{{mcp.MethodCallTool, `{"name":"t"}`, true, 7}, {mcp.MethodCallTool, `{"name":"t"}`, false, 0}, {mcp.MethodListTools, `{}`, true, 0}} {
		if err := call(x.method, x.params, x.http, x.conversation); err != nil {
			t.Errorf("%+v: %v", x, err)
		}
	}
	s.away = nil
	if err := call(mcp.MethodCallTool, `{"name":"t"}`, true, 0); err != nil || s.sat != 1 || s.left != 1 {
		t.Errorf("here: %v, sat %d, left %d", err, s.sat, s.left)
	}
	if seen.before != 4 || seen.ended != 4 {
		t.Errorf("%+v", seen)
	}
}
