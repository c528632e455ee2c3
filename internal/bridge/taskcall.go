package bridge

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// callTool relays tools/call, which a server with tasks may turn into one. What the
// client wants and what the server does meet in four ways: it gets a task in its
// own words, it gets the result because the call became none, it gets a task of
// ours that is over already, or it wants none, and then we wait for the server's.
func (r *Bridge) callTool(ctx context.Context, v *visit, a *mcp.Attempt, res Resume, s mcp.Caller) (*mcp.Reply, error) {
	u, c := v.server, a.Call
	var form mcp.TaskForm
	var support mcp.TaskSupport
	modern := c.Client.Revision.Can(mcp.TasksExtension)
	wants := modern && mcp.HasTasksExtension(c.Client.Capabilities) ||
		!modern && jsonrpc.KindOf(c.Msg.Raw, c.Msg.Param("task")) == '{'
	if res.kind == 'P' {
		form = u.Tasks(ctx, c.Client) // the call that it belongs to has a session
	} else {
		l, err := v.open(ctx)
		if err != nil {
			return nil, err
		}
		if form = l.Tasks(); form == mcp.RequestedTasks && (modern || !wants) {
			// A legacy client that wants a task has chosen, and the server will tell.
			support = l.Tool(ctx, a.Name).Support
		}
	}
	if form == mcp.NoTasks {
		return r.rounds(ctx, v, a, res, s) // nearly always
	}
	if form == mcp.RequestedTasks {
		s = &taskCaller{s, asksOfTasks{r, u.Name(), c.Client, a.Sole, c.Trail}}
		switch {
		case wants && modern && support != mcp.TaskForbidden:
			// It takes a task wherever the server makes one, and the server leaves it
			// to whoever calls.
			next := *a
			next.AsTask = []byte("{}")
			a = &next
		case !wants && support == mcp.TaskRequired:
			v.lease = &awaited{v.lease, u}
			return r.rounds(ctx, v, a, res, s)
		}
		reply, err := r.rounds(ctx, v, a, res, s)
		return r.created(u, a, reply, err)
	}
	if modern {
		reply, err := r.rounds(ctx, v, a, res, s)
		return r.created(u, a, reply, err)
	}
	if wants {
		return r.callAsTask(ctx, v, a, res, s)
	}
	reply, err := r.rounds(ctx, v, a, res, s)
	if err == nil && needsTasks(reply) {
		// It has run nothing. The client cannot wait for a task; we can.
		next := *a
		next.Caps = withTasks(c.Client)
		reply, err = r.rounds(ctx, v, &next, res, s)
		if err == nil && !reply.CreatedTask().IsZero() {
			v.release()
			return r.wait(ctx, u, c, s, reply)
		}
	}
	return reply, err
}

// withTasks returns the capabilities that a modern server is told of a client for which we
// take tasks.
func withTasks(f *mcp.ClientInfo) []byte { return mcp.WithTasksExtension(f.Capabilities) }

// needsTasks reports whether a modern server refused a call because nobody had
// declared the extension (SEP-2663, "Capability Negotiation").
func needsTasks(reply *mcp.Reply) bool {
	if reply.Code() != mcp.CodeMissingCapability {
		return false
	}
	raw := reply.Msg.Raw
	need := jsonrpc.Find(raw, jsonrpc.Find(raw, reply.Msg.Error, "data"), "requiredCapabilities")
	return !jsonrpc.Find(raw, jsonrpc.Find(raw, need, "extensions"), mcp.ExtensionTasks).IsZero()
}

// created says the task that a call has become in the client's words.
func (r *Bridge) created(u Server, a *mcp.Attempt, reply *mcp.Reply, err error) (*mcp.Reply, error) {
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
		return nil, badAnswer(u, "made a task without an id")
	}
	shown := r.taskID(u.Name(), c.Client, a.Sole, mcp.TaskRef{Session: reply.Session, ID: id})
	if reply.From.Modern() == c.Client.Revision.Modern() {
		quoted := jsonrpc.AppendQuote(nil, shown)
		reply.Edits.Replace(mcp.WhyTaskID, taskAt, quoted)
		reply.Edits.Replace(mcp.WhyTaskID, mcp.RelatedTask(raw, reply.Msg.ResultMember(mcp.KeyMeta)), quoted)
		return reply, nil
	}
	reply = bare(reply)
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

// callAsTask makes a call for a legacy client that wants a task of it, on a modern
// server, which decides for itself. A call that it answers at once becomes a task
// of ours that is over: the client was promised one (2025-11-25 §Tasks, "Result
// Retrieval" 1).
func (r *Bridge) callAsTask(ctx context.Context, v *visit, a *mcp.Attempt, res Resume, s mcp.Caller) (*mcp.Reply, error) {
	u, c := v.server, a.Call
	wish := c.Msg.Param("task")
	ttl, _ := mcp.Millis(c.Msg.Raw, jsonrpc.Find(c.Msg.Raw, wish, "ttl"))
	if ttl > 0 {
		r.lose(c, u.Name(), c.Msg.Method, "how long a task lives is for a server of the newer era to say, not for the client")
	}
	next := *a
	next.Caps = withTasks(c.Client)
	reply, err := r.rounds(ctx, v, &next, res, s)
	if err != nil || reply.Msg.Kind != jsonrpc.Result || !reply.CreatedTask().IsZero() {
		return r.created(u, a, reply, err)
	}
	return r.kept.keep(c, reply, ttl)
}

// awaited is a server with tasks of 2025-11-25 for a client that knows none: a tool
// that must be called as a task is, and the answer is its result.
type awaited struct {
	Lease
	server Server
}

func (l *awaited) Call(ctx context.Context, a *mcp.Attempt, s mcp.Caller) (*mcp.Reply, error) {
	next := *a
	next.AsTask = []byte("{}")
	reply, err := l.Lease.Call(ctx, &next, s)
	if err != nil || reply.CreatedTask().IsZero() {
		return reply, err
	}
	l.Release() // the task may take long, and its result names its session
	p := Task{Server: l.server}
	p.Ref.Session = reply.Session
	p.Ref.ID, _ = jsonrpc.Text(reply.Msg.Raw, jsonrpc.Find(reply.Msg.Raw, reply.CreatedTask(), "taskId"))
	ctx, stop := context.WithTimeoutCause(ctx, maxAwait, errAwait)
	defer stop()
	reply, err = Send(ctx, p.Server, p.ask(a.Call, mcp.MethodTaskResult), s)
	if ctx.Err() != nil {
		p.cancel(ctx, a.Call)
	}
	if err != nil {
		return nil, err
	}
	return bare(reply), nil
}

// cancel tells a server that nobody waits for a task any more. The client that did
// may be gone.
func (p Task) cancel(ctx context.Context, c *mcp.Call) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelLimit)
	defer stop()
	_, _ = Send(ctx, p.Server, p.ask(c, mcp.MethodCancelTask), mcp.NoCaller{})
}
