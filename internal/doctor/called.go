package doctor

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// callTime is how long a tool may run, in patiences.
const callTime = 6

// call runs the one tool that may be run, to its end.
func (e *exam) call(ctx context.Context, t *talk) {
	q := t.ask(mcp.MethodCallTool, `"name":`+quoted(e.o.Call)+`,"arguments":{}`)
	t.wait(ctx, q, callTime*e.o.Patience)
	switch {
	case t.over:
	case q.silent():
		e.find(CallSilent, t.proof(q))
	case q.worked() && t.rev.Legacy() && jsonrpc.KindOf(q.msg.Raw, q.msg.ResultMember("content")) != '[':
		e.find(NoContent, t.proof(q))
	}
}

// cancel gives a call up as soon as it is sent: the server must live on, whether or
// not it still answers (2025-11-25 §Cancellation).
func (e *exam) cancel(ctx context.Context, t *talk) {
	if t.rev.Can(mcp.HangUpCancels) && e.http {
		return // hanging up cancels; every conversation ends so
	}
	q := t.ask(mcp.MethodCallTool, `"name":`+quoted(e.o.Call)+`,"arguments":{}`)
	q.givenUp = true
	note := t.tell(mcp.NoteCancelled, `"requestId":`+string(q.id)+`,"reason":"dragoman doctor"`)
	if e.http && !e.sse {
		t.wait(ctx, note, e.o.Patience)
	}
	said := t.said
	next := t.ask(alive(t.rev), "")
	if !t.wait(ctx, next, e.o.Patience) && !t.over && !e.muteNow() {
		e.find(StuckOnCancel, evidence("> "+said, t.proof(next)))
	}
}

func quoted(s string) string { return string(jsonrpc.AppendQuote(nil, s)) }
