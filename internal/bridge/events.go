package bridge

import (
	"context"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// TellLost publishes that clients do not get something of a server: what is the method
// that it would have come by, why a clause of a sentence.
func (r *Bridge) TellLost(server, what, why string) { r.lose(nil, server, what, why) }

// lose is TellLost in a call, which is nil where it is not known.
func (r *Bridge) lose(c *mcp.Call, server, what, why string) {
	e := event.Event{Kind: event.Loss, Level: slog.LevelWarn, Server: server, Name: what, Detail: why}
	if c != nil {
		e.Who, e.Method, e.Call, e.From = c.Client.Who, c.Msg.Method, c.Number, c.Client.Revision
	}
	r.Events.Publish(e)
}

// refuse publishes that the requestState of c is another client's or another request's, or
// was changed.
func (r *Bridge) refuse(c *mcp.Call, server string) {
	r.Events.Publish(event.Event{
		Kind: event.Refusal, Level: slog.LevelWarn, Who: c.Client.Who, Server: server, Method: c.Method.Name,
		From: c.Client.Revision, Call: c.Number, Code: int64(errState.Code),
		Detail: "a requestState was refused: it is another client's, another request's, or was changed",
	})
}

// newInputRequired returns a reply of our own that is an input_required result.
func newInputRequired(result []byte) *mcp.Reply {
	reply := mcp.Answer(result)
	reply.Asks = true
	return reply
}

// observe returns s, which also publishes what a server asks through it in the call c.
func (r *Bridge) observe(server string, c *mcp.Call, s mcp.Caller) mcp.Caller {
	return &observedCaller{s, r.Events, server, c}
}

// observedCaller publishes the requests of a server.
type observedCaller struct {
	mcp.Caller
	events *event.Publisher
	server string
	call   *mcp.Call
}

func (k *observedCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	if !k.events.Wants(event.ServerRequest) {
		return k.Caller.Ask(ctx, m)
	}
	began := time.Now()
	answer, err := k.Caller.Ask(ctx, m)
	k.events.Publish(event.Asked(k.server, k.call, m, answer, began, err))
	return answer, err
}
