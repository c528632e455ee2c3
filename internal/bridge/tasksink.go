package bridge

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// asksOfTasks says tasks in the questions of one server as one client knows them.
type asksOfTasks struct {
	bridge *Bridge
	server string
	facts  *mcp.ClientInfo
	sole   bool
	trail  *jsonrpc.Trail // of the call in which is asked, nil outside of calls
}

func (a *asksOfTasks) shown(m *jsonrpc.Message) *jsonrpc.Message {
	at := mcp.RelatedTask(m.Raw, m.Param(mcp.KeyMeta))
	text, ok := jsonrpc.Text(m.Raw, at)
	if !ok {
		return m
	}
	ref, ok := mcp.ParseTaskRef(text)
	if !ok {
		return m
	}
	id := a.bridge.taskID(a.server, a.facts, a.sole, ref)
	var e jsonrpc.Edits
	e.Replace(mcp.WhyTaskID, at, jsonrpc.AppendQuote(nil, id))
	return mcp.RewriteOrKeep(a.trail, m, &e)
}

// taskCaller is the sink of a call on a server whose questions may be about tasks.
type taskCaller struct {
	mcp.Caller
	asksOfTasks
}

func (s *taskCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	return s.Caller.Ask(ctx, s.shown(m))
}

// TaskSubscriber returns a Subscriber for the questions that a server asks outside of
// calls: tasks in them are said as the client f knows them. sole is as of FindTask.
func (r *Bridge) TaskSubscriber(s mcp.Subscriber, server string, f *mcp.ClientInfo, sole bool) mcp.Subscriber {
	return &taskSubscriber{s, asksOfTasks{r, server, f, sole, nil}}
}

// taskSubscriber is the same for what is asked outside of calls.
type taskSubscriber struct {
	mcp.Subscriber
	asksOfTasks
}

func (s *taskSubscriber) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	if !s.sole && m.Method == mcp.MethodListTasks {
		return nil, mcp.ErrCannotAsk
	}
	return s.Subscriber.Ask(ctx, s.shown(m))
}

// apart keeps the tasks that a client runs for one server from another: their ids
// are the client's to keep secret, their list would tell them all.
type apart struct{ mcp.Caller }

func (s apart) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	if m.Method == mcp.MethodListTasks {
		return nil, mcp.ErrCannotAsk
	}
	return s.Caller.Ask(ctx, m)
}
