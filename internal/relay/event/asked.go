package event

import (
	"errors"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Asked returns the event for m, a request that a server sent to a client at the time began. answer
// is the client's answer. If there is no answer, err is the reason. c is the call during which the
// request was sent, or nil if unknown.
func Asked(server string, c *mcp.Call, m, answer *jsonrpc.Message, began time.Time, err error) Event {
	e := Event{
		Kind: ServerRequest, Level: slog.LevelDebug, Time: time.Now(), Server: server, Method: m.Method,
		In: len(m.Raw), Outcome: OK,
	}
	e.Took = e.Time.Sub(began)
	if c != nil {
		e.Who, e.From, e.Call = c.Client.Who, c.Client.Revision, c.Number
	}
	switch {
	case errors.Is(err, mcp.ErrCannotAsk):
		e.Outcome = Refused
	case err != nil:
		e.Outcome = mcp.OutcomeUnknown
	default:
		e.Out = len(answer.Raw)
		if e.Code = (&mcp.Reply{Msg: answer}).Code(); e.Code != 0 {
			e.Outcome = mcp.Failed
		}
	}
	return e
}
