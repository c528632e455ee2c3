package gateway

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// begin gives a call a number if the call has none, and returns the start time. The start time is
// zero if no policy, auditor, record, span or subscriber needs it.
func (x runner) begin(c *mcp.Call) (began time.Time) {
	if c.Number == 0 {
		c.Number = x.bridge.Events.NextCall()
	}
	if len(x.policy) > 0 || x.audit != nil || c.Record != nil || c.Span != nil || x.bridge.Events.Wants(event.Call) {
		began = time.Now()
	}
	return began
}

// end reports the outcome of a call to the policy, the auditor, the record and the event subscribers.
// passed is the number of policy steps that allowed the call.
func (x runner) end(ctx context.Context, r *route, passed int, began time.Time, reply *mcp.Reply, err error) {
	var elsewhere *transport.Elsewhere
	if began.IsZero() || errors.As(err, &elsewhere) && elsewhere.Again {
		return // no step has seen it, and whoever serves it reports it
	}
	now := time.Now()
	a := answerOf(r.Call, reply, err)
	cause := causeOf(err)
	if cancelled(ctx, a) {
		a.Outcome, a.Code, cause = event.Cancelled, 0, "cancelled"
	}
	if a.To == mcp.Unknown && (err != nil || reply.Asks) {
		a.To = r.To // the answer does not contain the server's revision, but the route does
	}
	a.Took = now.Sub(began)
	if r.asked != nil {
		r.describe() // the bridge may have chosen the server after Admit
		x.policy.Done(ctx, passed, r.asked, &a)
		if x.audit != nil {
			x.audit.End(ctx, r.asked, &a)
		}
	}
	if r.Span != nil {
		r.traced(&a, cause)
	}
	if r.Record != nil {
		r.Record.Answered(&r.Attempt, mcp.Ending{Reply: a.Reply, To: a.To, Outcome: a.Outcome, Cause: cause, Code: a.Code, Took: a.Took})
	}
	if !x.bridge.Events.Wants(event.Call) {
		return
	}
	x.bridge.Events.Publish(event.Event{
		Kind: event.Call, Level: slog.LevelDebug, Time: now, Took: a.Took, Waited: r.Waited,
		Who: r.Client.Who, Client: r.Client.Itself(), Project: x.project, Server: r.Server, Method: short(r.Msg.Method), Name: short(r.Name),
		From: r.Client.Revision, To: a.To, Outcome: a.Outcome, Code: a.Code,
		In: len(r.Msg.Raw), Out: a.Size, Call: r.Number, Trace: r.TraceID(),
	})
}

// cancelled reports whether a call failed because its client cancelled it or disconnected. Dragoman can
// end the context of a call too; see mcp.EndedBy.
func cancelled(ctx context.Context, a policy.Answer) bool {
	return a.Err != nil && a.Outcome != event.Refused && ctx.Err() != nil && mcp.EndedBy(ctx) == nil
}

// answerOf returns the outcome, the code and the number of bytes of an answer.
func answerOf(c *mcp.Call, reply *mcp.Reply, err error) policy.Answer {
	a := policy.Answer{Reply: reply, Err: err}
	if err != nil {
		a.Reply, a.Outcome, a.Code = nil, outcomeOf(err), dialect.Code(c, mcp.Fail(err))
		return a
	}
	a.To, a.Code, a.Size = reply.From, dialect.Code(c, reply), len(reply.Msg.Raw)
	switch {
	case a.Code == 0 && reply.Asks:
		a.Outcome = event.Parked
	case a.Code == 0 && mcp.SaysToolError(c.Msg.Method, reply):
		a.Outcome = event.ToolError
	case a.Code == 0:
		a.Outcome = event.OK
	case reply.From == mcp.Unknown:
		a.Outcome = event.Refused
	default:
		a.Outcome = mcp.Failed
	}
	return a
}

// outcomeOf returns the outcome of a call that ended with err.
func outcomeOf(err error) mcp.Outcome {
	var elsewhere *transport.Elsewhere
	if errors.As(err, &elsewhere) {
		return mcp.NotSent // the process that the request belongs to has the outcome
	}
	var e *mcp.Error
	if errors.As(err, &e) {
		if e.Outcome == "" {
			return mcp.Failed
		}
		return e.Outcome
	}
	var own *jsonrpc.Error
	if errors.As(err, &own) {
		return event.Refused // an error response from a server is an mcp.Reply, so this error comes from Dragoman
	}
	return mcp.OutcomeUnknown
}

// causeOf returns the cause of an *mcp.Error, or "" if there is none.
func causeOf(err error) string {
	var e *mcp.Error
	if errors.As(err, &e) {
		return e.Cause
	}
	return ""
}

// short truncates a client's text for an event, because a name may be as long as a message and
// queues store events.
func short(text string) string {
	if len(text) <= maxRepeated {
		return text
	}
	return strings.Clone(excerpt.Cut(text, maxRepeated))
}
