package bridge

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// This file is about the endpoint with several servers. There, each question to the user says which
// server asks; see mcp.SayWhoAsks. A question reaches a client in one of three ways: as a live
// request (askingCaller), as part of an answer (sayWhoAsks), or in a notification about a task
// (TaskNames). At the endpoint of a single server, the client knows the server, and no byte changes.

// askingCaller is a Caller that names the server in the server's live questions.
type askingCaller struct {
	mcp.Caller
	server string
	trail  *trails.Trail
}

func (k *askingCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	return k.Caller.Ask(ctx, named(k.trail, m, k.server))
}

// named returns a server request with the name of the server in its question to the user.
func named(t *trails.Trail, m *jsonrpc.Message, server string) *jsonrpc.Message {
	var e jsonrpc.Edits
	mcp.SayWhoAsks(&e, m.Raw, m.Method, m.Params, server)
	return mcp.RewriteOrKeep(t, m, &e)
}

// sayWhoAsks names the server in the questions of an answer to c: in input_required, in a task that
// asks for input, and in the error that requires URL elicitations first.
func sayWhoAsks(c *mcp.Call, reply *mcp.Reply, server string) {
	raw := reply.Msg.Raw
	switch {
	case reply.Code() == mcp.CodeURLElicitationRequired:
		mcp.SayWhoNeeds(&reply.Edits, raw, urlsOf(reply), server)
	case reply.Asks, c.Method != nil && c.Method.Task, reply.From.Can(mcp.TasksExtension) && reply.ResultType() == mcp.ResultTask:
		mcp.SayWhoAsksAll(&reply.Edits, raw, reply.Msg.ResultMember("inputRequests"), server)
	}
}
