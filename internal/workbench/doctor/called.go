package doctor

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// callTime is the timeout of a tool call as a multiple of Options.Patience.
const callTime = 6

// call runs the tool that Options.Call names, and waits for its result.
func (e *exam) call(ctx context.Context, t *talk) {
	q := t.ask(mcp.MethodCallTool, `"name":`+quoted(e.o.Call)+`,"arguments":{}`)
	t.wait(ctx, q, callTime*e.o.Patience)
	switch {
	case t.over:
	case q.silent():
		t.find(CallSilent, t.proof(q))
	case q.worked() && t.rev.Legacy() && jsonrpc.KindOf(q.msg.Raw, q.msg.ResultMember("content")) != '[':
		t.find(NoContent, t.proof(q))
	}
}

// cancel calls the tool and immediately cancels the call. The server may still answer the call, and
// must keep working (2025-11-25 §Cancellation).
func (e *exam) cancel(ctx context.Context, t *talk) {
	if t.rev.Can(mcp.HangUpCancels) && e.http {
		return // in this revision, a client cancels a call by closing the connection, as every probe does at its end
	}
	q := t.ask(mcp.MethodCallTool, `"name":`+quoted(e.o.Call)+`,"arguments":{}`)
	q.givenUp = true
	note := t.notify(mcp.NoteCancelled, `"requestId":`+string(q.id)+`,"reason":"dragoman doctor"`)
	if e.http && !e.sse {
		t.await(ctx, note)
	}
	sent := t.lastSent
	next := t.ask(alive(t.rev), "")
	if !t.await(ctx, next) && !t.over && !e.pingUnanswered() {
		t.find(StuckOnCancel, evidence("> "+sent, t.proof(next)))
	}
}

func quoted(s string) string { return string(jsonrpc.AppendQuote(nil, s)) }
