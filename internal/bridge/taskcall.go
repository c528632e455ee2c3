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
func (r *Bridge) callTool(ctx context.Context, u Server, c *mcp.Call, s mcp.Caller) (*mcp.Reply, error) {
	form, _ := u.Tasks(ctx, c.Client, "")
	if form == mcp.NoTasks {
		return r.rounds(ctx, u, c, s) // nearly always
	}
	modern := c.Client.Revision.Can(mcp.TasksExtension)
	wants := modern && mcp.HasTasksExtension(c.Client.Capabilities) ||
		!modern && jsonrpc.KindOf(c.Msg.Raw, c.Msg.Param("task")) == '{'
	var support mcp.TaskSupport
	if form == mcp.RequestedTasks && (modern || !wants) {
		// A legacy client that wants a task has chosen, and the server will tell.
		_, support = u.Tasks(ctx, c.Client, c.Name)
	}
	if form == mcp.RequestedTasks {
		s = &taskCaller{s, asksOfTasks{r, u.Name(), c.Client, c.Sole, c.Trail}}
		switch {
		case wants && modern && support != mcp.TaskForbidden:
			// It takes a task wherever the server makes one, and the server leaves it
			// to whoever calls.
			c.Task = []byte("{}")
		case !wants && support == mcp.TaskRequired:
			return r.rounds(ctx, &awaited{u}, c, s)
		}
		reply, err := r.rounds(ctx, u, c, s)
		return r.created(u, c, reply, err)
	}
	if modern {
		reply, err := r.rounds(ctx, u, c, s)
		return r.created(u, c, reply, err)
	}
	if wants {
		return r.callAsTask(ctx, u, c, s)
	}
	reply, err := r.rounds(ctx, u, c, s)
	if err == nil && needsTasks(reply) {
		// It has run nothing. The client cannot wait for a task; we can.
		c.Client = withTasks(c.Client)
		reply, err = r.rounds(ctx, u, c, s)
		if err == nil && !reply.CreatedTask().IsZero() {
			return r.wait(ctx, u, c, s, reply)
		}
	}
	return reply, err
}

// withTasks returns what a modern server is told of a client for which we take
// tasks.
func withTasks(f *mcp.ClientInfo) *mcp.ClientInfo {
	g := *f
	g.Capabilities = mcp.WithTasksExtension(g.Capabilities)
	return &g
}

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
func (r *Bridge) created(u Server, c *mcp.Call, reply *mcp.Reply, err error) (*mcp.Reply, error) {
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
	shown := r.taskID(u.Name(), c.Client, c.Sole, mcp.TaskRef{Session: reply.Session, ID: id})
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
func (r *Bridge) callAsTask(ctx context.Context, u Server, c *mcp.Call, s mcp.Caller) (*mcp.Reply, error) {
	wish := c.Msg.Param("task")
	ttl, _ := mcp.Millis(c.Msg.Raw, jsonrpc.Find(c.Msg.Raw, wish, "ttl"))
	if ttl > 0 {
		r.lose(c, u.Name(), c.Msg.Method, "how long a task lives is for a server of the newer era to say, not for the client")
	}
	own := c.Client
	c.Client = withTasks(own)
	reply, err := r.rounds(ctx, u, c, s)
	c.Client = own
	if err != nil || reply.Msg.Kind != jsonrpc.Result || !reply.CreatedTask().IsZero() {
		return r.created(u, c, reply, err)
	}
	return r.kept.keep(c, reply, ttl)
}

// awaited is a server with tasks of 2025-11-25 for a client that knows none: a tool
// that must be called as a task is, and the answer is its result.
type awaited struct{ Server }

func (u *awaited) Call(ctx context.Context, c *mcp.Call, s mcp.Caller) (*mcp.Reply, error) {
	if c.Msg.Method != mcp.MethodCallTool {
		return u.Server.Call(ctx, c, s)
	}
	asTask := *c
	asTask.Task = []byte("{}")
	reply, err := u.Server.Call(ctx, &asTask, s)
	if err != nil || reply.CreatedTask().IsZero() {
		return reply, err
	}
	p := Task{Server: u.Server}
	p.Ref.Session = reply.Session
	p.Ref.ID, _ = jsonrpc.Text(reply.Msg.Raw, jsonrpc.Find(reply.Msg.Raw, reply.CreatedTask(), "taskId"))
	ctx, stop := context.WithTimeoutCause(ctx, maxAwait, errAwait)
	defer stop()
	reply, err = p.Server.Call(ctx, p.ask(c, mcp.MethodTaskResult), s)
	if ctx.Err() != nil {
		p.cancel(ctx, c)
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
	_, _ = p.Server.Call(ctx, p.ask(c, mcp.MethodCancelTask), mcp.NoCaller{})
}
