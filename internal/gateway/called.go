package gateway

import (
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// begin gives a call its number and returns when it began, zero where nobody wants calls.
func begin(events *event.Publisher, c *mcp.Call) (began time.Time) {
	c.Number = events.NextCall()
	if events.Wants(event.Call) {
		began = time.Now()
	}
	return began
}

// called publishes that a call was answered.
func called(events *event.Publisher, c *mcp.Attempt, began time.Time, reply *mcp.Reply, err error) {
	if began.IsZero() {
		return
	}
	now := time.Now()
	e := event.Event{
		Kind: event.Call, Level: slog.LevelDebug, Time: now, Took: now.Sub(began),
		Who: c.Client.Who, Server: c.Server, Method: short(c.Msg.Method), Name: short(subject(c)),
		From: c.Client.Revision, In: len(c.Msg.Raw), Call: c.Number, Trace: c.TraceID(),
	}
	if err != nil {
		e.Outcome, e.Code = outcomeOf(err), dialect.Code(c.Call, mcp.Fail(err))
	} else {
		e.To, e.Code, e.Out = reply.From, dialect.Code(c.Call, reply), len(reply.Msg.Raw)
		switch {
		case e.Code == 0 && reply.Asks:
			e.Outcome = event.Parked
		case e.Code == 0:
			e.Outcome = event.OK
		case reply.From == mcp.Unknown:
			e.Outcome = event.Refused
		default:
			e.Outcome = mcp.Failed
		}
	}
	events.Publish(e)
}

// subject returns the name that a call is about, "" for none.
func subject(c *mcp.Attempt) string {
	switch c.Msg.Method {
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		uri, _ := jsonrpc.Text(c.Msg.Raw, c.Msg.Param("uri"))
		return uri
	}
	return c.Name
}

// outcomeOf returns what is known of a call that ended with err.
func outcomeOf(err error) mcp.Outcome {
	var e *mcp.Error
	if errors.As(err, &e) {
		if e.Outcome == "" {
			return mcp.Failed
		}
		return e.Outcome
	}
	var own *jsonrpc.Error
	if errors.As(err, &own) {
		return event.Refused // a server's own error is a reply
	}
	return mcp.OutcomeUnknown
}

// short returns a client's text for an event: queues keep events, and a name may be as
// long as a message.
func short(text string) string {
	if len(text) <= maxRepeated {
		return text
	}
	return strings.Clone(excerpt.Cut(text, maxRepeated))
}
