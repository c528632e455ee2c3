package conn

import (
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// attribution finds the owner of a message that does not name its call. The owner is one of the
// calls in flight on a connection. attribution does not guess: if calls of two clients match, the
// message has no owner.
type attribution struct {
	all candidate
	may candidate // calls whose methods allow server requests
	// task is the task that the server request names, or "". result is the number of the oldest
	// tasks/result call for this task.
	task     string
	result   int64
	ofTask   candidate // calls that name the task
	creating candidate // calls that will become tasks, whose ids are not known yet
}

// taskOf returns the task that a server request names, or "" if it names none (2025-11-25
// §Tasks, "Associating Task-Related Messages").
func taskOf(m *jsonrpc.Message) string {
	if m == nil {
		return ""
	}
	id, _ := jsonrpc.Text(m.Raw, mcp.RelatedTask(m.Raw, m.Param(mcp.KeyMeta)))
	return id
}

// candidate is the oldest of the calls that were added. It is valid only if all these calls belong
// to one client.
type candidate struct {
	n     int64
	call  *mcp.Attempt // nil if no call was added
	mixed bool         // the calls belong to several clients
}

// add adds the call with the number n. It ignores requests of Dragoman itself, and
// subscriptions/listen, which runs as long as its client is connected.
func (t *attribution) add(n int64, call *mcp.Attempt) {
	if t.task != "" {
		t.addAbout(n, call)
	}
	if !counts(call) {
		return
	}
	t.all.add(n, call)
	if mayAsk(call) {
		t.may.add(n, call)
	}
}

func (t *attribution) addAbout(n int64, call *mcp.Attempt) {
	switch {
	case call.Method != nil && call.Method.Task && call.Name == t.task:
		if t.ofTask.add(n, call); call.Msg.Method == mcp.MethodTaskResult && (t.result == 0 || n < t.result) {
			t.result = n
		}
	case call.Msg.Method == mcp.MethodCallTool && (call.AsTask != nil || jsonrpc.KindOf(call.Msg.Raw, call.Msg.Param("task")) == '{'):
		t.creating.add(n, call)
	}
}

// counts reports whether a server may send messages about a call that do not name the call.
func counts(call *mcp.Attempt) bool { return !call.Ours && call.Msg.Method != mcp.MethodListen }

// mayAsk reports whether the method of a call allows server requests. It returns true for
// unknown methods.
func mayAsk(call *mcp.Attempt) bool { return call.Method == nil || call.Method.MayAsk }

// namesCall reports whether a server request itself says which call it belongs to. Such a
// request contains the progress token of the call with the number n, or names a task.
func namesCall(m *jsonrpc.Message, n int64) bool {
	token, ok := number(m.Raw, jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken))
	return ok && token == n || taskOf(m) != ""
}

// mayOwn reports whether a server request that was attributed to one call, the parameter owner, may
// also belong to another call, the parameter other. If the request does not name a call, both calls
// belong to the same client.
func mayOwn(other, owner *mcp.Attempt) bool {
	return counts(other) && counts(owner) && sameClient(other, owner) && (mayAsk(other) || !mayAsk(owner))
}

// owner returns the number of the call that a server request belongs to, or 0 if there is none.
// It prefers calls whose methods allow server requests (see 2026-07-28 §MRTR, "Supported
// Requests"), so that a list request that runs at the same time does not matter. A request that
// names a task belongs to a call about that task, or to a call that will become a task. No other
// call counts: the call that created the task has ended, and the other calls in flight may belong
// to another client.
func (t *attribution) owner() int64 {
	switch {
	case t.result != 0:
		return t.result
	case t.ofTask.call != nil:
		return t.ofTask.number()
	case t.task != "":
		return t.creating.number()
	case t.may.call != nil:
		return t.may.number()
	}
	return t.all.number()
}

// empty reports whether no call in flight can own a server request.
func (t *attribution) empty() bool {
	if t.task != "" {
		return t.result == 0 && t.ofTask.call == nil && t.creating.call == nil
	}
	return t.all.call == nil
}

// number returns the call's number, or 0 if there is no valid candidate. No call has the number 0.
func (c *candidate) number() int64 {
	if c.mixed {
		return 0
	}
	return c.n
}

func (c *candidate) add(n int64, call *mcp.Attempt) {
	switch {
	case c.call == nil:
		c.n, c.call = n, call
	case !sameClient(call, c.call):
		c.mixed = true
	case n < c.n:
		c.n, c.call = n, call
	}
}

// sameClient reports whether two calls belong to the same client, and the client accepts server
// requests for its whole session instead of one call.
func sameClient(a, b *mcp.Attempt) bool {
	return a.Client.Revision.Can(mcp.AskedMidCall) && a.Client.Conversation != 0 && a.Client.Conversation == b.Client.Conversation
}
