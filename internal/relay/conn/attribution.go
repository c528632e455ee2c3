package conn

import (
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// attribution finds the owner of a message that does not name its call. The owner is one of the
// calls in flight on a connection. attribution does not guess: if calls of two clients match, the
// message has no owner.
type attribution struct {
	all candidate
	may candidate // calls whose methods allow server requests
	// task is the task that the server request names, or "". result is the number of the oldest
	// tasks/result call for this task; 0 for none.
	task     string
	result   int64
	ofTask   candidate // calls that name the task
	creating candidate // calls that create tasks with ids that Dragoman does not know yet
}

// taskOf returns the task that a server request names, or "" if the request names no task
// (2025-11-25 §Tasks, "Associating Task-Related Messages").
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

// add adds the call with the number n. It always adds a call that is about the task. Otherwise it
// ignores requests of Dragoman itself, and subscriptions/listen calls, which run as long as the
// client is connected.
func (t *attribution) add(n int64, a *mcp.Attempt) {
	if t.task != "" {
		t.addAbout(n, a)
	}
	if !counts(a) {
		return
	}
	t.all.add(n, a)
	if mayAsk(a) {
		t.may.add(n, a)
	}
}

func (t *attribution) addAbout(n int64, a *mcp.Attempt) {
	switch {
	case a.Method != nil && a.Method.Task && a.Name == t.task:
		if t.ofTask.add(n, a); a.Msg.Method == mcp.MethodTaskResult && (t.result == 0 || n < t.result) {
			t.result = n
		}
	case a.Msg.Method == mcp.MethodCallTool && (a.AsTask != nil || jsonrpc.KindOf(a.Msg.Raw, a.Msg.Param("task")) == '{'):
		t.creating.add(n, a)
	}
}

// counts reports whether a message that does not name its call may belong to the given call.
func counts(a *mcp.Attempt) bool { return !a.Ours && a.Msg.Method != mcp.MethodListen }

// mayAsk reports whether the method of a call allows server requests. It returns true for
// unknown methods.
func mayAsk(a *mcp.Attempt) bool { return a.Method == nil || a.Method.MayAsk }

// namesCall reports whether a server request itself says which call it belongs to. Such a
// request contains the progress token of the call with the number n, or names a task.
func namesCall(m *jsonrpc.Message, n int64) bool {
	token, ok := number(m.Raw, jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken))
	return ok && token == n || taskOf(m) != ""
}

// mayOwn reports whether a server request that does not name its call may belong to the call other,
// although it was attributed to the call owner. This is possible only if both calls belong to the
// same client.
func mayOwn(other, owner *mcp.Attempt) bool {
	return counts(other) && counts(owner) && sameClient(other, owner) && (mayAsk(other) || !mayAsk(owner))
}

// owner returns the number of the call that a server request belongs to, or 0 if there is none.
// It prefers calls whose methods allow server requests (see 2026-07-28 §MRTR, "Supported
// Requests"). So, for example, it ignores a tools/list call that runs at the same time as a
// tools/call. A request that names a task belongs to a call about that task, or to a call that will
// become a task. It cannot belong to the call that created the task, because that call has ended.
// owner ignores the remaining calls, because they may belong to other clients.
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

func (c *candidate) add(n int64, a *mcp.Attempt) {
	switch {
	case c.call == nil:
		c.n, c.call = n, a
	case !sameClient(a, c.call):
		c.mixed = true
	case n < c.n:
		c.n, c.call = n, a
	}
}

// sameClient reports whether two calls belong to the same legacy client. Such a client gets server
// requests through its session, so it does not matter which of the two calls a request belongs to.
func sameClient(a, b *mcp.Attempt) bool {
	return a.Client.Revision.Can(mcp.AskedMidCall) && a.Client.Conversation != 0 && a.Client.Conversation == b.Client.Conversation
}
