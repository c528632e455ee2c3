package bridge

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// taskRenamer replaces the task ids in the requests of one server by those of a client.
type taskRenamer struct {
	bridge *Bridge
	server string
	client *mcp.ClientInfo
	sole   bool
	trail  *jsonrpc.Trail // of the call, nil outside of calls
}

func (a *taskRenamer) rename(m *jsonrpc.Message) *jsonrpc.Message {
	at := mcp.RelatedTask(m.Raw, m.Param(mcp.KeyMeta))
	text, ok := jsonrpc.Text(m.Raw, at)
	if !ok {
		return m
	}
	ref, ok := mcp.ParseTaskRef(text)
	if !ok {
		return m
	}
	id := a.bridge.taskID(a.server, a.client, a.sole, ref)
	var e jsonrpc.Edits
	e.Replace(mcp.WhyTaskID, at, jsonrpc.AppendQuote(nil, id))
	return mcp.RewriteOrKeep(a.trail, m, &e)
}

// taskCaller is the caller for a server whose requests may be about tasks.
type taskCaller struct {
	mcp.Caller
	taskRenamer
}

func (s *taskCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	return s.Caller.Ask(ctx, s.rename(m))
}

// TaskSubscriber returns a Subscriber for server requests outside of calls. It replaces
// task ids by those of the client f. See FindTask for sole.
func (r *Bridge) TaskSubscriber(s mcp.Subscriber, server string, f *mcp.ClientInfo, sole bool) mcp.Subscriber {
	return &taskSubscriber{s, taskRenamer{r, server, f, sole, nil}}
}

// taskSubscriber is taskCaller for requests outside of calls.
type taskSubscriber struct {
	mcp.Subscriber
	taskRenamer
}

func (s *taskSubscriber) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	if !s.sole && m.Method == mcp.MethodListTasks {
		return nil, mcp.ErrCannotAsk
	}
	return s.Subscriber.Ask(ctx, s.rename(m))
}

// withoutTaskList refuses tasks/list of a server if its client uses several servers: the
// list would reveal the client's tasks for the other servers, whose ids are secret.
type withoutTaskList struct{ mcp.Caller }

func (s withoutTaskList) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	if m.Method == mcp.MethodListTasks {
		return nil, mcp.ErrCannotAsk
	}
	return s.Caller.Ask(ctx, m)
}
