package bridge

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// passing returns the caller that a lease gets for an attempt: k, or a caller that lets only those
// messages of the server through to k that the attempt lets pass, and has those answered elsewhere that
// the client can't show.
func passing(a *mcp.Attempt, k mcp.Caller) mcp.Caller {
	k = elsewhere(a.Call, a.Server, a.Name, k)
	if a.Passes == nil {
		return k
	}
	return &passingCaller{k, a.Passes}
}

type passingCaller struct {
	mcp.Caller
	passes func(*jsonrpc.Message) error
}

func (k *passingCaller) Notify(n *mcp.Note) {
	if k.passes(n.Msg) == nil {
		k.Caller.Notify(n)
	}
}

// notPassed is what a server is told. The reason is none of its business.
const notPassed mcp.CannotAsk = "a policy does not allow this request"

func (k *passingCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	if k.passes(m) != nil {
		return nil, notPassed
	}
	return k.Caller.Ask(ctx, m)
}

// checkPassing checks the input requests in an answer. Nobody can refuse one of them alone, because
// the server has ended its call, so the call fails.
func checkPassing(u Server, a *mcp.Attempt, raw []byte, asks jsonrpc.Span) error {
	if a.Passes == nil {
		return nil
	}
	for ask := range jsonrpc.Members(raw, asks) {
		m, err := toRequest(nil, raw, ask.Value, a.Client.Revision)
		if err != nil {
			return unanswered(u, err)
		}
		if err := checkQuestion(u, a, m); err != nil {
			return err
		}
	}
	return nil
}

// checkQuestion returns the error of the call if the question m in its answer must not reach the
// client.
func checkQuestion(u Server, a *mcp.Attempt, m *jsonrpc.Message) error {
	err := a.Passes(m)
	if err == nil {
		return nil
	}
	said := mcp.Wire(err)
	return &mcp.Error{
		Code: said.Code, Message: said.Message, Origin: mcp.FromGateway, Upstream: u.Name(),
		Cause: "refused", Outcome: mcp.Failed, Err: err,
	}
}
