package bridge

import (
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// keptTasks holds answers that a modern server returned at once although a legacy client wanted a
// task. The number and the total size of the answers are limited. Above a limit, the party with the
// most answers, or the most bytes, loses its oldest answer. A later request for that task gets "not
// found" (2025-11-25 §Tasks, "TTL and Resource Management"). The zero value is ready to use.
type keptTasks struct {
	mu    sync.Mutex
	byID  map[string]*keptTask
	order []*keptTask // oldest first
	bytes int
}

// keptTask is one kept answer. It is immutable.
type keptTask struct {
	id, seat     string
	server, tool string // the tool has the server's own name
	party        string
	reply        *mcp.Reply
	object       []byte // the task as an object of 2025-11-25
	until        time.Time
}

// These constants limit the number, the total size and the lifetime of kept tasks.
const (
	maxKept      = 256
	maxKeptBytes = 32 << 20
	keptLife     = 10 * time.Minute
	keptMaxLife  = time.Hour
	keptTaskID   = "drgk1."
)

// keep stores a server's answer as a task that has ended, and returns a reply that describes the task.
// id is a new id, marked with this process.
func (k *keptTasks) keep(id, server string, a *mcp.Attempt, reply *mcp.Reply, ttl time.Duration) (*mcp.Reply, error) {
	c := a.Call
	if ttl <= 0 {
		ttl = keptLife
	}
	ttl = min(ttl, keptMaxLife)
	size := len(reply.Msg.Raw)
	if size > maxKeptBytes {
		return nil, &mcp.Error{
			Origin: mcp.FromGateway, Cause: "too_large", Outcome: mcp.OutcomeUnknown,
			Message: "the server executed the call, but the result is too large for Dragoman to keep as the result of a task",
		}
	}
	now := time.Now()
	t := &keptTask{id: keptTaskID + id, server: server, tool: a.Name, seat: c.Client.Who.SeatKey(), party: c.Client.Party(), reply: reply, until: now.Add(ttl)}
	stamp := jsonrpc.AppendQuote(nil, now.UTC().Format(time.RFC3339))
	o := []byte(`{"status":"` + stateOf(reply.Msg.Raw, reply.Msg.Result) + `","createdAt":`)
	o = append(append(append(o, stamp...), `,"lastUpdatedAt":`...), stamp...)
	o = append(append(o, `,"ttl":`...), jsonrpc.IntID(ttl.Milliseconds())...)
	t.object = append(o, '}')
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tidyLocked(now, size, t.party)
	if k.byID == nil {
		k.byID = make(map[string]*keptTask)
	}
	k.byID[t.id] = t
	k.order = append(k.order, t)
	k.bytes += size
	whole := jsonrpc.Whole(t.object)
	return mcp.Answer(dialect.CreatedTask(c.Client.Revision, t.object, whole, nil, dialect.Task{ID: t.id})), nil
}

// stateOf returns the status of a task whose call has the given result. In 2025-11-25 the task
// has failed if the tool reports an error.
func stateOf(raw []byte, result jsonrpc.Span) string {
	if string(jsonrpc.Find(raw, result, "isError").Of(raw)) == "true" {
		return mcp.TaskFailed
	}
	return mcp.TaskCompleted
}

// tidyLocked removes expired tasks, and makes room for one more answer. room is the size of this
// answer in bytes, and who is the party that gets it. If there is too little room, tidyLocked drops
// the oldest tasks of the party that has the most tasks or the most bytes.
func (k *keptTasks) tidyLocked(now time.Time, room int, who string) {
	k.dropLocked(func(t *keptTask) bool { return now.After(t.until) })
	for len(k.order) > 0 && (len(k.order) > maxKept-1 || k.bytes+room > maxKeptBytes) {
		byBytes := len(k.order) <= maxKept-1
		held := map[string]int{}
		for _, t := range k.order {
			if byBytes {
				held[t.party] += len(t.reply.Msg.Raw)
			} else {
				held[t.party]++
			}
		}
		most := who
		for x, n := range held {
			if n > held[most] || n == held[most] && most != who && x < most {
				most = x
			}
		}
		gone := false
		k.dropLocked(func(t *keptTask) bool {
			first := !gone && t.party == most
			gone = gone || first
			return first
		})
	}
}

// dropLocked removes the tasks for which drop returns true, oldest first.
func (k *keptTasks) dropLocked(drop func(*keptTask) bool) {
	left := k.order[:0]
	for _, t := range k.order {
		if drop(t) {
			delete(k.byID, t.id)
			k.bytes -= len(t.reply.Msg.Raw)
			continue
		}
		left = append(left, t)
	}
	clear(k.order[len(left):])
	k.order = left
}

// find returns a client's task. It does not find expired tasks.
func (k *keptTasks) find(f *mcp.ClientInfo, id string) (*keptTask, bool) {
	if !strings.HasPrefix(id, keptTaskID) {
		return nil, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.byID[id]
	if t == nil || t.seat != f.Who.SeatKey() || time.Now().After(t.until) {
		return nil, false
	}
	return t, true
}

// Kept returns which tool of which server has given the answer that we keep as a client's task. If we keep none for
// this id, ok is false. Both names are the server's own.
func (b *Bridge) Kept(f *mcp.ClientInfo, id string) (server, tool string, ok bool) {
	t, ok := b.kept.find(f, id)
	if !ok {
		return "", "", false
	}
	return t.server, t.tool, true
}

// answer answers a request about a kept task.
func (t *keptTask) answer(c *mcp.Call) (*mcp.Reply, error) {
	switch c.Msg.Method {
	case mcp.MethodTaskResult:
		// Copy the message, because the receiver of a reply may add edits to it.
		m := *t.reply.Msg
		out := &mcp.Reply{Msg: &m, From: t.reply.From, Server: t.reply.Server, Edits: t.reply.Edits}
		return withRelatedTask(c.Trail, out, t.id), nil
	case mcp.MethodCancelTask:
		return nil, errTaskOver
	}
	whole := jsonrpc.Whole(t.object)
	return mcp.Answer(dialect.TaskState(c.Client.Revision, t.object, whole, dialect.Task{ID: t.id})), nil
}

var errTaskOver = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Cannot cancel task: it has already ended"}

// withRelatedTask adds the metadata that names the task to a result. 2025-11-25 requires this
// metadata in results of tasks/result (§Tasks, "Related Task Metadata").
func withRelatedTask(t *trails.Trail, reply *mcp.Reply, id string) *mcp.Reply {
	m := reply.Msg
	value := append(jsonrpc.AppendQuote([]byte(`{"taskId":`), id), '}')
	field := jsonrpc.Field{Key: mcp.KeyRelatedTask, Value: value}
	var e jsonrpc.Edits
	if meta := m.ResultMember(mcp.KeyMeta); jsonrpc.KindOf(m.Raw, meta) == '{' {
		e.Object(mcp.WhyRelatedTask, m.Raw, meta, nil, field)
	} else {
		e.Object(mcp.WhyRelatedTask, m.Raw, m.Result, nil, jsonrpc.Field{Key: mcp.KeyMeta, Value: jsonrpc.ObjectOf(field)})
	}
	if out, err := mcp.Rewrite(t, m, &e); err == nil {
		reply.Msg, reply.Edits = out, jsonrpc.EditList{}
	}
	return reply
}
