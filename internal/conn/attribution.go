package conn

import (
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// attribution finds, among the calls in flight on a link, the one that something belongs
// to which does not say whose it is. Nothing is guessed: with calls of two clients
// it is nobody's.
type attribution struct {
	all candidate
	may candidate // of those whose methods may ask
	// task is the task that the question is about, "" for none; result is the oldest
	// call that waits for its result.
	task   string
	result int64
	about  candidate // of those that name the task
	making candidate // of those that become tasks, whose ids nobody knows yet
}

// taskOf returns the task that a server says its question is about, "" for none
// (2025-11-25 §Tasks, "Associating Task-Related Messages").
func taskOf(m *jsonrpc.Message) string {
	if m == nil {
		return ""
	}
	id, _ := jsonrpc.Text(m.Raw, mcp.RelatedTask(m.Raw, m.Param(mcp.KeyMeta)))
	return id
}

// candidate is the oldest call of those that were added, as long as all are one
// client's.
type candidate struct {
	n     int64
	call  *mcp.Attempt // nil for none
	mixed bool         // calls of several clients
}

// add takes note of the call with the number n. What we ask for ourselves does not
// count, nor does a listen, which runs for as long as its client does.
func (t *attribution) add(n int64, call *mcp.Attempt) {
	if t.task != "" {
		t.addAbout(n, call)
	}
	if !counts(call) {
		return
	}
	t.all.add(n, call)
	if call.Method == nil || call.Method.MayAsk {
		t.may.add(n, call)
	}
}

func (t *attribution) addAbout(n int64, call *mcp.Attempt) {
	switch {
	case call.Method != nil && call.Method.Task && call.Name == t.task:
		if t.about.add(n, call); call.Msg.Method == mcp.MethodTaskResult && (t.result == 0 || n < t.result) {
			t.result = n
		}
	case call.Msg.Method == mcp.MethodCallTool && (call.AsTask != nil || jsonrpc.KindOf(call.Msg.Raw, call.Msg.Param("task")) == '{'):
		t.making.add(n, call)
	}
}

// counts reports whether a server may speak of a call without naming it.
func counts(call *mcp.Attempt) bool { return !call.Ours && call.Msg.Method != mcp.MethodListen }

// asking returns the number of the call that a question belongs to, 0 for none. It
// is one whose method may ask (2026-07-28 §MRTR, "Supported Requests", says which do)
// where such a call is in flight, so that a list which is read meanwhile takes no
// question away. A question that names a task belongs to a call about that task, or
// to one that becomes a task: the call that made it is over, and whatever else runs
// may be another client's.
func (t *attribution) asking() int64 {
	switch {
	case t.result != 0:
		return t.result
	case t.about.call != nil:
		return t.about.number()
	case t.task != "":
		return t.making.number()
	case t.may.call != nil:
		return t.may.number()
	}
	return t.all.number()
}

// empty reports whether no call runs that a question could belong to.
func (t *attribution) empty() bool {
	if t.task != "" {
		return t.result == 0 && t.about.call == nil && t.making.call == nil
	}
	return t.all.call == nil
}

// number returns the call's number, 0 for none: no request of ours has it.
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

// sameClient reports whether two calls are of one client that is asked as a
// whole, not for one call.
func sameClient(a, b *mcp.Attempt) bool {
	return a.Client.Revision.Can(mcp.AskedMidCall) && a.Client.Conversation != 0 && a.Client.Conversation == b.Client.Conversation
}
