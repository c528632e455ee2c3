package bridge

import (
	"context"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// ReportLoss publishes a loss: clients do not get the messages of a method from a server. what is
// the name of the method. why is the reason, written as a clause.
func (b *Bridge) ReportLoss(server, what, why string) { b.publishLoss(nil, server, what, why) }

// publishLoss publishes a loss of the call c. If the call is not known, c is nil.
func (b *Bridge) publishLoss(c *mcp.Call, server, what, why string) {
	e := event.Event{Kind: event.Loss, Level: slog.LevelWarn, Server: server, Name: what, Detail: why}
	c.TraceLoss(what, why)
	if c != nil {
		e.Who, e.Method, e.Call, e.From = c.Client.Who, c.Msg.Method, c.Number, c.Client.Revision
	}
	b.Events.Publish(e)
}

// publishRefusal publishes that Dragoman refused the requestState of c, because it belongs to
// another client or another request, or was changed.
func (b *Bridge) publishRefusal(c *mcp.Call, server string) {
	b.Events.Publish(event.Event{
		Kind: event.Refusal, Level: slog.LevelWarn, Who: c.Client.Who, Server: server, Method: c.Method.Name,
		From: c.Client.Revision, Call: c.Number, Code: int64(errState.Code),
		Detail: "refused a requestState: it belongs to another client or request, or was changed",
	})
}

// newInputRequired returns an input_required result that Dragoman itself sends.
func newInputRequired(result []byte) *mcp.Reply {
	reply := mcp.Answer(result)
	reply.Asks = true
	return reply
}

// observe returns a caller that also publishes the server requests of the call c.
func (b *Bridge) observe(server string, c *mcp.Call, k mcp.Caller) mcp.Caller {
	return &observedCaller{k, b.Events, server, c}
}

// observedCaller is a Caller that also publishes the requests from a server.
type observedCaller struct {
	mcp.Caller
	events *event.Publisher
	server string
	call   *mcp.Call
}

func (k *observedCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	if !k.events.Wants(event.ServerRequest) && k.call.Span == nil {
		return k.Caller.Ask(ctx, m)
	}
	began := time.Now()
	answer, err := k.Caller.Ask(ctx, m)
	e := event.Asked(k.server, k.call, m, answer, began, err)
	k.call.TraceQuestion(m.Method, e.Outcome, e.Took)
	k.events.Publish(e)
	return answer, err
}
