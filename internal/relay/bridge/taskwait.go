package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// These constants limit how long and how often Dragoman polls a server's task for a client.
const (
	maxAwait    = 4 * time.Hour
	cancelLimit = 5 * time.Second
	pollDefault = time.Second
	pollLeast   = 100 * time.Millisecond
	pollMost    = 30 * time.Second
	maxMisses   = 5 // the maximum number of consecutive polls that fail
	maxTaskAsks = 100
)

var errAwait = errors.New("the task exceeded its total timeout")

// directedTask answers a legacy client's request about a task of a modern server.
func (b *Bridge) directedTask(ctx context.Context, p Task, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
	switch c.Msg.Method {
	case mcp.MethodTaskResult:
		ctx, stop := context.WithTimeoutCause(ctx, maxAwait, errAwait)
		defer stop()
		w := &taskWaiter{task: p, call: c, caller: b.observe(p.Server.Name(), c, k), shown: c.Name}
		return w.result(ctx)
	case mcp.MethodCancelTask:
		return b.cancelDirected(ctx, p, c)
	}
	st, failed, err := p.getState(ctx, c)
	if err != nil || failed != nil {
		return failed, err
	}
	return st.legacy(c), nil
}

// legacy converts a task state of the extension to a state of 2025-11-25. In 2025-11-25 the task
// has failed if the tool reports an error.
func (st *state) legacy(c *mcp.Call) *mcp.Reply {
	t := dialect.Task{}
	if st.status == mcp.TaskCompleted {
		t.Status = stateOf(st.raw, jsonrpc.Find(st.raw, st.at, "result"))
	}
	return st.toReply(c, t)
}

// cancelDirected cancels a task for a legacy client. The client gets the resulting state, or an
// error if the task has ended already (2025-11-25 §Tasks, "Task Cancellation"). The extension does
// not guarantee that a cancelled task ends. So Dragoman polls the state a few times before it
// returns the state.
func (b *Bridge) cancelDirected(ctx context.Context, p Task, c *mcp.Call) (*mcp.Reply, error) {
	st, failed, err := p.getState(ctx, c)
	if err != nil || failed != nil {
		return failed, err
	}
	if mcp.TaskOver(st.status) {
		return nil, errTaskOver
	}
	ack, err := Send(ctx, p.Server, p.ask(c, mcp.MethodCancelTask), mcp.NoCaller{})
	if err != nil || ack.Msg.Kind != jsonrpc.Result {
		return ack, err
	}
	for try := range 6 {
		if st, failed, err = p.getState(ctx, c); err != nil || failed != nil || mcp.TaskOver(st.status) {
			break
		}
		if err := work.Sleep(ctx, 20*time.Millisecond<<try); err != nil {
			return nil, err
		}
	}
	if err != nil || failed != nil {
		return failed, err
	}
	if st.status != mcp.TaskCancelled {
		b.publishLoss(c, p.Server.Name(), c.Msg.Method, "the server acknowledged the cancellation, but the task may continue")
	}
	return st.legacy(c), nil
}

// wait waits for the end of the task that a call has become, for a client that does not use tasks.
// If the client cancels the call, wait cancels the task.
func (b *Bridge) wait(ctx context.Context, u Server, c *mcp.Call, k mcp.Caller, reply *mcp.Reply) (*mcp.Reply, error) {
	id, _ := jsonrpc.Text(reply.Msg.Raw, reply.Msg.ResultMember("taskId"))
	w := &taskWaiter{task: Task{Server: u, Ref: mcp.TaskRef{ID: id}}, call: c, caller: b.observe(u.Name(), c, k)}
	ctx, stop := context.WithTimeoutCause(ctx, maxAwait, errAwait)
	defer stop()
	out, err := w.result(ctx)
	if ctx.Err() != nil {
		w.task.cancel(ctx, c)
	}
	return out, err
}

// taskWaiter waits for the end of a modern server's task on behalf of a legacy client. It polls
// at the interval that the server suggests. It sends the task's input requests to the client as
// live requests.
type taskWaiter struct {
	task   Task
	call   *mcp.Call
	caller mcp.Caller
	shown  string          // the task id that the client knows; "" if the client does not know about the task
	asked  map[string]bool // keys of the input requests that were sent to the client; each is sent only once (SEP-2663, "Task Update Requests")
}

// result waits for the end of the task and returns the answer to the original call.
func (w *taskWaiter) result(ctx context.Context) (*mcp.Reply, error) {
	misses := 0
	for {
		st, failed, err := w.task.getState(ctx, w.call)
		switch {
		case ctx.Err() != nil:
			return nil, w.cancelledError(ctx)
		case err != nil:
			if misses++; misses == maxMisses {
				return nil, err
			}
			if err := work.Sleep(ctx, pollDefault<<misses); err != nil {
				return nil, w.cancelledError(ctx)
			}
			continue
		case failed != nil:
			return failed, nil
		}
		misses = 0
		switch st.status {
		case mcp.TaskCompleted, mcp.TaskFailed, mcp.TaskCancelled:
			return w.outcome(&st)
		case mcp.TaskInput:
			if err := w.answer(ctx, &st); err != nil {
				return nil, err
			}
		}
		if err := work.Sleep(ctx, st.pace()); err != nil {
			return nil, w.cancelledError(ctx)
		}
	}
}

// pace returns how long to wait before the next poll.
func (st *state) pace() time.Duration {
	wait, ok := mcp.Millis(st.raw, jsonrpc.Find(st.raw, st.at, "pollIntervalMs"))
	if !ok {
		return pollDefault
	}
	return max(pollLeast, min(wait, pollMost))
}

func (w *taskWaiter) cancelledError(ctx context.Context) error {
	return &mcp.Error{
		Origin: mcp.FromClient, Upstream: w.task.Server.Name(), Cause: "cancelled", Outcome: mcp.OutcomeUnknown, Err: context.Cause(ctx),
		Message: fmt.Sprintf("the wait for the task of server %q was cancelled", w.task.Server.Name()),
	}
}

// outcome returns the reply for a task that has ended.
func (w *taskWaiter) outcome(st *state) (*mcp.Reply, error) {
	var m *jsonrpc.Message
	switch result, failure := st.member("result"), st.member("error"); {
	case st.status == mcp.TaskCompleted && result != nil:
		m = jsonrpc.NewResult("0", result)
	case st.status == mcp.TaskFailed && failure != nil:
		raw := append(append([]byte(`{"jsonrpc":"2.0","id":0,"error":`), failure...), '}')
		var err error
		if m, err = jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: len(raw) + 1, Tolerant: true}); err != nil {
			return nil, badAnswer(w.task.Server, "ended a task without a valid result")
		}
	case st.status == mcp.TaskCancelled:
		return nil, taskEnded(w.task.Server, "cancelled")
	default:
		return nil, badAnswer(w.task.Server, "ended a task without the result or the error that its status requires")
	}
	reply := &mcp.Reply{Msg: m, From: st.reply.From, Server: st.reply.Server}
	key := "result"
	if m.Kind == jsonrpc.Failure {
		key = "error"
	}
	w.call.Trail.Carry(mcp.WhyToolTask, st.raw, jsonrpc.Find(st.raw, st.at, key), m.Raw)
	if m.Kind == jsonrpc.Result && w.shown != "" {
		return withRelatedTask(w.call.Trail, reply, w.shown), nil
	}
	return reply, nil
}

// answer sends new input requests to the client, and sends the client's answers to the server.
func (w *taskWaiter) answer(ctx context.Context, st *state) error {
	asks := jsonrpc.Find(st.raw, st.at, "inputRequests")
	round := []byte{'{'}
	for a := range jsonrpc.Members(st.raw, asks) {
		key, _ := jsonrpc.Text(st.raw, a.Key)
		if w.asked[key] {
			continue
		}
		if w.asked == nil {
			w.asked = make(map[string]bool)
		}
		if w.asked[key] = true; len(w.asked) > maxTaskAsks {
			return badAnswer(w.task.Server, fmt.Sprintf("sent more than %d input requests for one task", maxTaskAsks))
		}
		method, _ := jsonrpc.Text(st.raw, jsonrpc.Find(st.raw, a.Value, "method"))
		capability := mcp.AskCapability(method)
		if capability == "" || !w.call.Client.Declares(capability) {
			return unanswered(w.task.Server, mcp.ErrCannotAsk)
		}
		if len(round) > 1 {
			round = append(round, ',')
		}
		round = append(append(append(round, a.Key.Of(st.raw)...), ':'), a.Value.Of(st.raw)...)
	}
	if len(round) == 1 {
		return nil
	}
	round = append(round, '}')
	answers, err := askAll(ctx, w.call.Trail, &shownCaller{w.caller, w.call.Trail, w.shown}, round, jsonrpc.Whole(round), w.call.Client.Revision)
	if err != nil {
		return unanswered(w.task.Server, err)
	}
	update := w.task.ask(w.call, mcp.MethodUpdateTask, jsonrpc.Field{Key: "inputResponses", Value: answers})
	ack, err := Send(ctx, w.task.Server, update, mcp.NoCaller{})
	if err == nil && ack.Code() != 0 {
		err = badAnswer(w.task.Server, "refused the answers to its own input requests")
	}
	return err
}

// shownCaller is a Caller that adds the task id to each server request if the client knows about
// the task (2025-11-25 §Tasks, "Input Required Status" 2).
type shownCaller struct {
	mcp.Caller
	trail *trails.Trail
	shown string
}

func (s *shownCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	if s.shown == "" {
		return s.Caller.Ask(ctx, m)
	}
	var e jsonrpc.Edits
	field := jsonrpc.Field{Key: mcp.KeyRelatedTask, Value: append(jsonrpc.AppendQuote([]byte(`{"taskId":`), s.shown), '}')}
	meta := m.Param(mcp.KeyMeta)
	switch {
	case !meta.IsZero():
		e.Object(mcp.WhyRelatedTask, m.Raw, meta, nil, field)
	case !m.Params.IsZero():
		e.Object(mcp.WhyRelatedTask, m.Raw, m.Params, nil, jsonrpc.Field{Key: mcp.KeyMeta, Value: jsonrpc.ObjectOf(field)})
	default:
		e.Object(mcp.WhyRelatedTask, m.Raw, jsonrpc.Whole(m.Raw), nil, jsonrpc.Field{Key: "params", Value: jsonrpc.ObjectOf(jsonrpc.Field{Key: mcp.KeyMeta, Value: jsonrpc.ObjectOf(field)})})
	}
	return s.Caller.Ask(ctx, mcp.RewriteOrKeep(s.trail, m, &e))
}
