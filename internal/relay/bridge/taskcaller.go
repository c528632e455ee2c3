package bridge

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// taskRenamer replaces the task ids in the requests of one server with the ids that one client
// knows.
type taskRenamer struct {
	bridge *Bridge
	server string
	client *mcp.ClientInfo
	sole   bool
	trail  *trails.Trail // the trail of the call; nil for a request outside calls
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

// taskCaller is a Caller that replaces task ids in the requests from a server.
type taskCaller struct {
	mcp.Caller
	taskRenamer
}

func (s *taskCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	return s.Caller.Ask(ctx, s.rename(m))
}

// TaskSubscriber returns a Subscriber for server requests outside calls. The Subscriber replaces
// task ids with the ids that the client f knows. sole has the same meaning as in FindTask. If it is
// false, the Subscriber also names the server in questions to the user.
func (b *Bridge) TaskSubscriber(s mcp.Subscriber, server string, f *mcp.ClientInfo, sole bool) mcp.Subscriber {
	return &taskSubscriber{s, taskRenamer{b, server, f, sole, nil}}
}

// taskSubscriber is a Subscriber that replaces task ids in server requests outside calls.
type taskSubscriber struct {
	mcp.Subscriber
	taskRenamer
}

func (s *taskSubscriber) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	m = s.rename(m)
	if !s.sole {
		if m.Method == mcp.MethodListTasks {
			return nil, mcp.ErrCannotAsk
		}
		m = named(nil, m, s.server)
	}
	return s.Subscriber.Ask(ctx, m)
}

// withoutTaskList is a Caller that refuses tasks/list requests from a server. It is used if the
// client uses several servers, because the list would reveal the client's tasks at the other
// servers. The ids of tasks are secret.
type withoutTaskList struct{ mcp.Caller }

func (s withoutTaskList) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	if m.Method == mcp.MethodListTasks {
		return nil, mcp.ErrCannotAsk
	}
	return s.Caller.Ask(ctx, m)
}
