package bridge

import (
	"context"
	"crypto/rand"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// withTasks relays tools/call, which a server with tasks may turn into a task. If the call becomes a
// task, the client gets this task, converted to the client's revision. If it does not, the client
// gets the result. If a legacy client asked for a task but a modern server returned the result at
// once, the client gets a task that has already ended, whose result Dragoman keeps. If the client
// does not use tasks, withTasks waits for the server's task and returns the result of the task.
func (b *Bridge) withTasks(ctx context.Context, v *visit, a *mcp.Attempt, res Resume, k mcp.Caller) (*mcp.Reply, error) {
	u, c := v.server, a.Call
	var form mcp.TaskForm
	var support mcp.TaskSupport
	modern := c.Client.Revision.Can(mcp.TasksExtension)
	wants := modern && mcp.HasTasksExtension(c.Client.Capabilities) ||
		!modern && jsonrpc.KindOf(c.Msg.Raw, c.Msg.Param("task")) == '{'
	if res.kind == 'P' {
		form = u.Tasks(ctx, c.Client) // the parked call already has a session
	} else {
		l, err := v.open(ctx)
		if err != nil {
			return nil, err
		}
		if form = l.Tasks(); form == mcp.RequestedTasks && (modern || !wants) {
			// If a legacy client asks for a task, the server accepts or refuses the request. For
			// any other client, the tool list says whether the tool supports or requires a task.
			support = l.Tool(ctx, a.Name).Support
		}
	}
	if form == mcp.NoTasks {
		return b.withInput(ctx, v, a, res, k) // the usual case: the server does not support tasks
	}
	if form == mcp.RequestedTasks {
		k = &taskCaller{k, taskRenamer{b, u.Name(), c.Client, a.Sole, c.Trail}}
		switch {
		case wants && modern && support != mcp.TaskForbidden:
			// The client accepts a task for any tool. The server lets its caller decide, so
			// Dragoman asks for a task.
			next := *a
			next.AsTask = []byte("{}")
			a = &next
		case !wants && support == mcp.TaskRequired:
			v.lease = &awaitingLease{v.lease, u}
			return b.withInput(ctx, v, a, res, k)
		}
		reply, err := b.withInput(ctx, v, a, res, k)
		return b.convertCreated(u, a, reply, err)
	}
	if modern {
		if wants && c.Client.Bare != nil {
			// The call may become a task, whose questions only the client gets to see.
			next := *a
			next.Caps = c.Client.Bare.Capabilities
			a = &next
		}
		reply, err := b.withInput(ctx, v, a, res, k)
		return b.convertCreated(u, a, reply, err)
	}
	if wants {
		return b.callAsTask(ctx, v, a, res, k)
	}
	reply, err := b.withInput(ctx, v, a, res, k)
	if err == nil && needsTasks(reply) {
		// The server did not execute the call, because it requires the tasks extension. The client
		// cannot wait for a task, but Dragoman can.
		next := *a
		next.Caps = withTasks(c.Client)
		reply, err = b.withInput(ctx, v, &next, res, k)
		if err == nil && !reply.CreatedTask().IsZero() {
			v.release()
			return b.wait(ctx, u, c, elsewhere(c, u.Name(), a.Name, k), reply)
		}
	}
	return reply, err
}

// withTasks returns the client's capabilities with the tasks extension added. Dragoman declares
// these capabilities to a modern server when it handles tasks for the client.
func withTasks(f *mcp.ClientInfo) []byte { return mcp.WithTasksExtension(f.Capabilities) }

// needsTasks reports whether a modern server refused a call because the tasks extension was not
// declared (SEP-2663, "Capability Negotiation").
func needsTasks(reply *mcp.Reply) bool {
	if reply.Code() != mcp.CodeMissingCapability {
		return false
	}
	raw := reply.Msg.Raw
	need := jsonrpc.Find(raw, jsonrpc.Find(raw, reply.Msg.Error, "data"), "requiredCapabilities")
	return !jsonrpc.Find(raw, jsonrpc.Find(raw, need, "extensions"), mcp.ExtensionTasks).IsZero()
}

// convertCreated converts a reply for the client if the reply says that the call became a task.
func (b *Bridge) convertCreated(u Server, a *mcp.Attempt, reply *mcp.Reply, err error) (*mcp.Reply, error) {
	c := a.Call
	if err != nil {
		return nil, err
	}
	at := reply.CreatedTask()
	if at.IsZero() {
		return reply, nil
	}
	raw := reply.Msg.Raw
	taskAt := jsonrpc.Find(raw, at, "taskId")
	id, ok := jsonrpc.Text(raw, taskAt)
	if !ok || id == "" {
		return nil, badAnswer(u, "created a task without an id")
	}
	shown := b.taskID(u.Name(), c.Client, a.Sole, mcp.TaskRef{Session: reply.Session, ID: id})
	if reply.From.Modern() == c.Client.Revision.Modern() {
		quoted := jsonrpc.AppendQuote(nil, shown)
		reply.Edits.Replace(mcp.WhyTaskID, taskAt, quoted)
		reply.Edits.Replace(mcp.WhyTaskID, mcp.RelatedTask(raw, reply.Msg.ResultMember(mcp.KeyMeta)), quoted)
		return reply, nil
	}
	reply = withoutRelatedTask(reply)
	var meta []byte
	if m := reply.Msg.ResultMember(mcp.KeyMeta); jsonrpc.KindOf(raw, m) == '{' && mcp.RelatedTask(raw, m).IsZero() {
		meta = m.Of(raw)
	}
	out := mcp.Answer(dialect.CreatedTask(c.Client.Revision, raw, at, meta, dialect.Task{ID: shown}))
	if meta == nil {
		out.Server = reply.Server
	}
	return out, nil
}

// callAsTask relays a call to a modern server, for a legacy client that wants a task. The server
// decides whether it creates a task. The client must get a task in any case (2025-11-25 §Tasks,
// "Result Retrieval" 1). So if the server returns the result at once, Dragoman keeps the result as
// a task that has ended.
func (b *Bridge) callAsTask(ctx context.Context, v *visit, a *mcp.Attempt, res Resume, k mcp.Caller) (*mcp.Reply, error) {
	u, c := v.server, a.Call
	wish := c.Msg.Param("task")
	ttl, _ := mcp.Millis(c.Msg.Raw, jsonrpc.Find(c.Msg.Raw, wish, "ttl"))
	if ttl > 0 {
		b.publishLoss(c, u.Name(), c.Msg.Method, "Dragoman ignores the client's ttl, because modern servers choose the lifetime of a task")
	}
	next := *a
	next.Caps = withTasks(c.Client)
	reply, err := b.withInput(ctx, v, &next, res, k)
	if err != nil || reply.Msg.Kind != jsonrpc.Result || !reply.CreatedTask().IsZero() {
		return b.convertCreated(u, a, reply, err)
	}
	return b.kept.keep(b.mark(rand.Text()), u.Name(), a, reply, ttl)
}

// awaitingLease is a lease for a server with the tasks of 2025-11-25 and a client without tasks.
// Its method Call calls the tool as a task, waits until the task ends, and returns the task's
// result.
type awaitingLease struct {
	Lease
	server Server
}

func (l *awaitingLease) Call(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
	next := *a
	next.AsTask = []byte("{}")
	reply, err := l.Lease.Call(ctx, &next, k)
	if err != nil || reply.CreatedTask().IsZero() {
		return reply, err
	}
	l.Release() // the task may take long, so release the session; Ref.Session identifies the session for the request tasks/result
	p := Task{Server: l.server}
	p.Ref.Session = reply.Session
	p.Ref.ID, _ = jsonrpc.Text(reply.Msg.Raw, jsonrpc.Find(reply.Msg.Raw, reply.CreatedTask(), "taskId"))
	ctx, stop := context.WithTimeoutCause(ctx, maxAwait, errAwait)
	defer stop()
	reply, err = Send(ctx, p.Server, p.ask(a.Call, mcp.MethodTaskResult), k)
	if ctx.Err() != nil {
		p.cancel(ctx, a.Call)
	}
	if err != nil {
		return nil, err
	}
	return withoutRelatedTask(reply), nil
}

// cancel cancels a task at its server, even if the client's request has ended.
func (p Task) cancel(ctx context.Context, c *mcp.Call) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelLimit)
	defer stop()
	_, _ = Send(ctx, p.Server, p.ask(c, mcp.MethodCancelTask), mcp.NoCaller{})
}
