package bridge

import (
	"context"
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Tasks answers requests about tasks. It relays them if the client and the server use the same form
// of tasks. Otherwise it converts them (docs/adr/0008-tasks.md).
func (b *Bridge) Tasks(ctx context.Context, all []Server, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	c := a.Call
	modern := c.Client.Revision.Can(mcp.TasksExtension)
	if modern && !mcp.HasTasksExtension(c.Client.Capabilities) {
		return b.answerUndeclared(ctx, all, a, k)
	}
	if !c.Method.In(c.Client.Revision) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + excerpt.Cut(c.Msg.Method, 128)}
	}
	if c.Msg.Method == mcp.MethodListTasks {
		return b.listTasks(ctx, all, a, k)
	}
	if c.Name == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.taskId must be a string"}
	}
	if t, ok := b.kept.find(c.Client, c.Name); ok {
		a.Server = t.server
		return t.answer(c)
	}
	p, err := b.FindTask(ctx, all, c.Client, a.Sole, c.Name)
	if err != nil {
		return nil, err
	}
	a.Server = p.Server.Name()
	if p.Form() == mcp.RequestedTasks {
		k = &taskCaller{k, taskRenamer{b, p.Server.Name(), c.Client, a.Sole, c.Trail}}
	}
	switch {
	case modern == (p.Form() == mcp.DirectedTasks):
		return b.sameEra(ctx, p, a, k)
	case modern:
		reply, err := b.requestedTask(ctx, p, c)
		if err == nil && !a.Sole {
			sayWhoAsks(c, reply, a.Server)
		}
		return reply, err
	case !a.Sole:
		k = &askingCaller{k, a.Server, c.Trail}
	}
	return b.directedTask(ctx, p, c, elsewhere(c, a.Server, "", k))
}

// answerUndeclared answers a modern client that has not declared the tasks extension. SEP-2663,
// "Protocol Errors", defines these answers, which depend on whether the server supports tasks.
func (b *Bridge) answerUndeclared(ctx context.Context, all []Server, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	if a.Sole {
		if all[0].Tasks(ctx, a.Client) == mcp.NoTasks {
			return b.Exchange(ctx, all[0], a, Resume{}, k)
		}
	}
	return nil, ErrNeedsTasks
}

var ErrNeedsTasks error = &jsonrpc.Error{Code: mcp.CodeMissingCapability, Message: "Missing required client capability",
	Data: []byte(`{"requiredCapabilities":{"extensions":{"` + mcp.ExtensionTasks + `":{}}}}`)}

// sameEra relays a request about a task to a server of the client's own era.
func (b *Bridge) sameEra(ctx context.Context, p Task, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	c := a.Call
	shown := c.Name
	next := *a
	next.Edits.Replace(mcp.WhyTaskID, c.Msg.Param("taskId"), jsonrpc.AppendQuote(nil, p.Ref.ID))
	next.Name, next.Session = p.Ref.ID, p.Ref.Session
	reply, err := b.Exchange(ctx, p.Server, &next, Resume{}, k)
	if err != nil || reply.Msg.Kind != jsonrpc.Result {
		return reply, err
	}
	if asks := reply.Msg.ResultMember("inputRequests"); c.Msg.Method == mcp.MethodGetTask && reply.From.Can(mcp.TasksExtension) {
		// The input requests of a task follow the rules of an input_required result
		// (SEP-2663, "Task Polling").
		if err := b.CheckQuestions(p.Server, c.Client, reply.Msg.Raw, asks); err != nil {
			return nil, err
		}
	}
	id := jsonrpc.AppendQuote(nil, shown)
	reply.Edits.Replace(mcp.WhyTaskID, mcp.RelatedTask(reply.Msg.Raw, reply.Msg.ResultMember(mcp.KeyMeta)), id)
	if c.Msg.Method != mcp.MethodTaskResult {
		reply.Edits.Replace(mcp.WhyTaskID, reply.Msg.ResultMember("taskId"), id)
	}
	return reply, nil
}

// listTasks answers tasks/list, which exists only in 2025-11-25. The list of a server that several
// clients share would reveal their tasks to each other (SEP-2663, "Motivation" 3). So a client gets
// only the tasks that it created in its present conversation, and Dragoman refuses the request of
// an authenticated client. It also refuses the request at an endpoint with
// several servers, and if the server cannot list tasks.
func (b *Bridge) listTasks(ctx context.Context, all []Server, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	c := a.Call
	if c.Client.Who.Key() == "" && a.Sole {
		if all[0].Tasks(ctx, c.Client) != mcp.DirectedTasks {
			reply, err := b.Exchange(ctx, all[0], a, Resume{}, k)
			if err != nil || reply.Session == 0 {
				return reply, err
			}
			b.ownTasks(all[0].Name(), a, reply)
			return reply, nil
		}
	}
	if a.Sole {
		b.publishLoss(c, all[0].Name(), c.Msg.Method, "the server cannot list tasks, or its list contains the tasks of all clients")
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: tasks/list: the server cannot restrict the list to the tasks of one client"}
}

// ownTasks leaves the tasks of other clients out of a reply to tasks/list, and replaces the ids of
// the others with those that the client knows.
func (b *Bridge) ownTasks(server string, a *mcp.Attempt, reply *mcp.Reply) {
	raw, list := reply.Msg.Raw, reply.Msg.ResultMember("tasks")
	own, cut := []byte{'['}, false
	for t := range jsonrpc.Elements(raw, list) {
		task := t.Of(raw)
		at := jsonrpc.Find(task, jsonrpc.Whole(task), "taskId")
		text, _ := jsonrpc.Text(task, at)
		if !b.OneClient && !reply.OwnTasks[text] {
			cut = true
			continue
		}
		id := b.taskID(server, a.Client, a.Sole, mcp.TaskRef{Session: reply.Session, ID: text})
		var e jsonrpc.Edits
		e.Replace(mcp.WhyTaskID, at, jsonrpc.AppendQuote(nil, id))
		if len(own) > 1 {
			own = append(own, ',')
		}
		own = jsonrpc.Splice(own, task, &e)
	}
	why := mcp.WhyTaskID
	if cut {
		why = mcp.WhyHidden
	}
	reply.Edits.Replace(why, list, append(own, ']'))
}

// ask creates Dragoman's own request about a task, for the client of the call c.
func (p Task) ask(c *mcp.Call, method string, extra ...jsonrpc.Field) *mcp.Attempt {
	params := jsonrpc.AppendQuote([]byte(`{"taskId":`), p.Ref.ID)
	for _, x := range extra {
		params = append(append(jsonrpc.AppendQuote(append(params, ','), x.Key), ':'), x.Value...)
	}
	m := jsonrpc.NewRequest("1", method, append(params, '}'))
	own := mcp.NewCall(m, m.Param(mcp.KeyMeta), c.Client)
	own.Trail = c.Trail
	next := mcp.NewAttempt(own)
	next.Session = p.Ref.Session
	if p.Form() == mcp.DirectedTasks {
		next.Caps = withTasks(c.Client)
	}
	return next
}

// state is a server's description of a task.
type state struct {
	raw    []byte
	at     jsonrpc.Span // position of the task in the reply
	status string
	reply  *mcp.Reply
}

// getState gets the state of a task from its server. If the server answers with an error,
// getState returns this reply as failed.
func (p Task) getState(ctx context.Context, c *mcp.Call) (st state, failed *mcp.Reply, err error) {
	reply, err := Send(ctx, p.Server, p.ask(c, mcp.MethodGetTask), mcp.NoCaller{})
	if err != nil {
		return st, nil, err
	}
	if reply.Msg.Kind != jsonrpc.Result {
		return st, reply, nil
	}
	st = state{raw: reply.Msg.Raw, at: reply.Msg.Result, reply: reply}
	st.status, _ = jsonrpc.Text(st.raw, reply.Msg.ResultMember("status"))
	if st.status == "" {
		return st, nil, badAnswer(p.Server, "answered tasks/get with a result that is not a task")
	}
	return st, nil, nil
}

// member returns a member of the task. It returns nil if the member is absent or is not an object.
func (st *state) member(key string) []byte {
	if at := jsonrpc.Find(st.raw, st.at, key); jsonrpc.KindOf(st.raw, at) == '{' {
		return at.Of(st.raw)
	}
	return nil
}

// toReply converts a state to a reply for the client of c.
func (st *state) toReply(c *mcp.Call, t dialect.Task) *mcp.Reply {
	t.ID = c.Name
	out := mcp.Answer(dialect.TaskState(c.Client.Revision, st.raw, st.at, t))
	out.Server = st.reply.Server
	return out
}

// withoutRelatedTask removes the metadata that names the task from a result.
func withoutRelatedTask(reply *mcp.Reply) *mcp.Reply {
	m := reply.Msg
	meta := m.ResultMember(mcp.KeyMeta)
	if mcp.RelatedTask(m.Raw, meta).IsZero() {
		return reply
	}
	n := 0
	for range jsonrpc.Members(m.Raw, meta) {
		n++
	}
	if n == 1 {
		reply.Edits.Object(mcp.WhyRelatedTask, m.Raw, m.Result, func(k []byte) bool { return string(k) == mcp.KeyMeta })
	} else {
		reply.Edits.Object(mcp.WhyRelatedTask, m.Raw, meta, func(k []byte) bool { return string(k) == mcp.KeyRelatedTask })
	}
	return reply
}

func taskEnded(u Server, how string) error {
	return &mcp.Error{
		Origin: mcp.FromUpstream, Upstream: u.Name(), Cause: "task_" + how, Outcome: mcp.Failed,
		Message: fmt.Sprintf("server %q ran this call as a task, and the task was %s", u.Name(), how),
	}
}
