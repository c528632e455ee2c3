package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/work"
)

// The bounds of waiting for a task of a server in a client's stead.
const (
	maxAwait    = 4 * time.Hour
	cancelLimit = 5 * time.Second
	pollDefault = time.Second
	pollLeast   = 100 * time.Millisecond
	pollMost    = 30 * time.Second
	maxMisses   = 5 // polls in a row that nobody answered
	maxTaskAsks = 100
)

var errAwait = errors.New("the task took too long in all")

// directedTask answers a legacy client about a task of a modern server.
func (r *Bridge) directedTask(ctx context.Context, p Task, c *mcp.Call, s mcp.Caller) (*mcp.Reply, error) {
	switch c.Msg.Method {
	case mcp.MethodTaskResult:
		ctx, stop := context.WithTimeoutCause(ctx, maxAwait, errAwait)
		defer stop()
		w := &waiting{task: p, call: c, sink: r.observe(p.Server.Name(), c, s), shown: c.Name}
		return w.result(ctx)
	case mcp.MethodCancelTask:
		return r.cancelDirected(ctx, p, c)
	}
	st, failed, err := p.look(ctx, c)
	if err != nil || failed != nil {
		return failed, err
	}
	return st.legacy(c), nil
}

// legacy says a state of the extension in the words of 2025-11-25, where a tool
// that reports an error has failed.
func (st *state) legacy(c *mcp.Call) *mcp.Reply {
	t := dialect.Task{}
	if st.status == mcp.TaskCompleted {
		t.Status = stateOf(st.raw, jsonrpc.Find(st.raw, st.at, "result"))
	}
	return st.say(c, t)
}

// cancelDirected cancels a task for a legacy client, which is told how the task is
// then, and that there is nothing to cancel where it is over (2025-11-25 §Tasks,
// "Task Cancellation"). The extension promises neither that a task ends nor when,
// so it is looked at a few times.
func (r *Bridge) cancelDirected(ctx context.Context, p Task, c *mcp.Call) (*mcp.Reply, error) {
	st, failed, err := p.look(ctx, c)
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
		if st, failed, err = p.look(ctx, c); err != nil || failed != nil || mcp.TaskOver(st.status) {
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
		r.lose(c, p.Server.Name(), c.Msg.Method, "the server has heard of it and promises nothing")
	}
	return st.legacy(c), nil
}

// wait takes the task that a call has become to its end for a client that knows no
// tasks. When the client gives up the task is cancelled.
func (r *Bridge) wait(ctx context.Context, u Server, c *mcp.Call, s mcp.Caller, reply *mcp.Reply) (*mcp.Reply, error) {
	id, _ := jsonrpc.Text(reply.Msg.Raw, reply.Msg.ResultMember("taskId"))
	w := &waiting{task: Task{Server: u, Ref: mcp.TaskRef{ID: id}}, call: c, sink: r.observe(u.Name(), c, s)}
	ctx, stop := context.WithTimeoutCause(ctx, maxAwait, errAwait)
	defer stop()
	out, err := w.result(ctx)
	if ctx.Err() != nil {
		w.task.cancel(ctx, c)
	}
	return out, err
}

// waiting is a legacy client that waits for the end of a modern server's task: it
// polls at the pace that the server asks for and puts the task's questions to the
// client as requests of its own era.
type waiting struct {
	task  Task
	call  *mcp.Call
	sink  mcp.Caller
	shown string          // the task's id as the client knows it, "" where it knows none
	asked map[string]bool // by key; each is put once (SEP-2663, "Task Update Requests")
}

// result returns what the call would have been answered with.
func (w *waiting) result(ctx context.Context) (*mcp.Reply, error) {
	misses := 0
	for {
		st, failed, err := w.task.look(ctx, w.call)
		switch {
		case ctx.Err() != nil:
			return nil, w.gaveUp(ctx)
		case err != nil:
			if misses++; misses == maxMisses {
				return nil, err
			}
			if err := work.Sleep(ctx, pollDefault<<misses); err != nil {
				return nil, w.gaveUp(ctx)
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
			return nil, w.gaveUp(ctx)
		}
	}
}

// pace returns how long to wait before looking again.
func (st *state) pace() time.Duration {
	wait, ok := mcp.Millis(st.raw, jsonrpc.Find(st.raw, st.at, "pollIntervalMs"))
	if !ok {
		return pollDefault
	}
	return max(pollLeast, min(wait, pollMost))
}

func (w *waiting) gaveUp(ctx context.Context) error {
	return &mcp.Error{
		Origin: mcp.FromClient, Upstream: w.task.Server.Name(), Cause: "cancelled", Outcome: mcp.OutcomeUnknown, Err: context.Cause(ctx),
		Message: fmt.Sprintf("nobody waited for the task of server %q to its end", w.task.Server.Name()),
	}
}

// outcome returns what a task that is over has come to.
func (w *waiting) outcome(st *state) (*mcp.Reply, error) {
	var m *jsonrpc.Message
	switch result, failure := st.member("result"), st.member("error"); {
	case st.status == mcp.TaskCompleted && result != nil:
		m = jsonrpc.NewResult("0", result)
	case st.status == mcp.TaskFailed && failure != nil:
		raw := append(append([]byte(`{"jsonrpc":"2.0","id":0,"error":`), failure...), '}')
		var err error
		if m, err = jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: len(raw) + 1, Tolerant: true}); err != nil {
			return nil, badAnswer(w.task.Server, "ended a task without a valid answer")
		}
	case st.status == mcp.TaskCancelled:
		return nil, taskEnded(w.task.Server, "cancelled")
	default:
		return nil, badAnswer(w.task.Server, "ended a task without saying how")
	}
	reply := &mcp.Reply{Msg: m, From: st.reply.From, Server: st.reply.Server}
	if m.Kind == jsonrpc.Result && w.shown != "" {
		return related(w.call.Trail, reply, w.shown), nil
	}
	return reply, nil
}

// answer puts the questions that are new to the client and tells the server the
// answers.
func (w *waiting) answer(ctx context.Context, st *state) error {
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
			return badAnswer(w.task.Server, fmt.Sprintf("asked more than %d questions in one task", maxTaskAsks))
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
	answers, err := putAll(ctx, w.call.Trail, &shownCaller{w.sink, w.call.Trail, w.shown}, round, jsonrpc.Whole(round), w.call.Client.Revision)
	if err != nil {
		return unanswered(w.task.Server, err)
	}
	update := w.task.ask(w.call, mcp.MethodUpdateTask, jsonrpc.Field{Key: "inputResponses", Value: answers})
	ack, err := Send(ctx, w.task.Server, update, mcp.NoCaller{})
	if err == nil && ack.Code() != 0 {
		err = badAnswer(w.task.Server, "refused the answers to its own questions")
	}
	return err
}

// shownCaller says in each question which task it is about (2025-11-25 §Tasks,
// "Input Required Status" 2), where the client knows of a task.
type shownCaller struct {
	mcp.Caller
	trail *jsonrpc.Trail
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
