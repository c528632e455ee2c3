package mcp

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// The requests about tasks (2025-11-25 §Tasks; the extension
// io.modelcontextprotocol/tasks, SEP-2663, of the modern revisions). tasks/result
// and tasks/list ended with 2025-11-25, tasks/update came with the extension.
const (
	MethodGetTask    = "tasks/get"
	MethodTaskResult = "tasks/result"
	MethodListTasks  = "tasks/list"
	MethodCancelTask = "tasks/cancel"
	MethodUpdateTask = "tasks/update"
)

// The notifications that a task has changed, the legacy and the modern one.
const (
	NoteTaskStatus = "notifications/tasks/status"
	NoteTask       = "notifications/tasks"
)

// ExtensionTasks names the extension; ResultTask is the resultType of an answer
// that is a task.
const (
	ExtensionTasks = "io.modelcontextprotocol/tasks"
	ResultTask     = "task"
)

// The statuses of a task, the same in both forms.
const (
	TaskWorking   = "working"
	TaskInput     = "input_required"
	TaskCompleted = "completed"
	TaskFailed    = "failed"
	TaskCancelled = "cancelled"
)

// TaskOver reports whether a status is one that no task leaves.
func TaskOver(status string) bool {
	return status == TaskCompleted || status == TaskFailed || status == TaskCancelled
}

// TaskForm is how a peer has tasks.
type TaskForm uint8

// The forms. The zero value is none.
const (
	NoTasks TaskForm = iota
	// RequestedTasks are those of 2025-11-25: whoever calls asks for one.
	RequestedTasks
	// DirectedTasks are those of the extension: the server decides.
	DirectedTasks
)

// TaskSupport is what a tool of a server with RequestedTasks says of tasks
// (2025-11-25 §Tasks, "Tool-Level Negotiation").
type TaskSupport uint8

// The kinds of support. The zero value is the default of the specification.
const (
	TaskForbidden TaskSupport = iota
	TaskOptional
	TaskRequired
)

// ReadTaskSupport reads execution.taskSupport of a tool in raw.
func ReadTaskSupport(raw []byte, tool jsonrpc.Span) TaskSupport {
	text, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, jsonrpc.Find(raw, tool, "execution"), "taskSupport"))
	switch text {
	case "optional":
		return TaskOptional
	case "required":
		return TaskRequired
	}
	return TaskForbidden
}

// Tasks returns in which form the server that said h has tasks for tools/call.
func (h *ServerInfo) Tasks() TaskForm {
	caps := h.Capabilities
	switch {
	case h.Revision.Can(TasksExtension):
		if HasTasksExtension(caps) {
			return DirectedTasks
		}
	case h.Revision.Can(ExperimentalTasks):
		if RunsToolTasks(caps) {
			return RequestedTasks
		}
	}
	return NoTasks
}

// HasTasksExtension reports whether a capabilities object, a client's or a
// server's, declares the extension.
func HasTasksExtension(caps []byte) bool {
	at := jsonrpc.Find(caps, jsonrpc.Find(caps, jsonrpc.Whole(caps), "extensions"), ExtensionTasks)
	return jsonrpc.KindOf(caps, at) == '{'
}

// RunsToolTasks reports whether a server's capabilities object declares
// tasks.requests.tools.call.
func RunsToolTasks(caps []byte) bool {
	at := jsonrpc.Whole(caps)
	for _, k := range [...]string{"tasks", "requests", "tools", "call"} {
		at = jsonrpc.Find(caps, at, k)
	}
	return jsonrpc.KindOf(caps, at) == '{'
}

// WithTasksExtension returns a client's capabilities object with the extension
// declared in it; caps may be nil.
func WithTasksExtension(caps []byte) []byte {
	if HasTasksExtension(caps) {
		return caps
	}
	if len(caps) <= 2 {
		return []byte(`{"extensions":{"` + ExtensionTasks + `":{}}}`)
	}
	var e jsonrpc.Edits
	whole := jsonrpc.Whole(caps)
	field := jsonrpc.Field{Key: ExtensionTasks, Value: []byte("{}")}
	if at := jsonrpc.Find(caps, whole, "extensions"); jsonrpc.KindOf(caps, at) == '{' {
		e.Object(WhyCapabilities, caps, at, nil, field)
	} else {
		e.Object(WhyCapabilities, caps, whole, nil, jsonrpc.Field{Key: "extensions", Value: []byte(`{"` + ExtensionTasks + `":{}}`)})
	}
	return jsonrpc.Splice(nil, caps, &e)
}

// CreatedTask returns where in a result the task is that a call has become: absent
// where the result is none.
func (r *Reply) CreatedTask() jsonrpc.Span {
	switch {
	case r.Msg.Kind != jsonrpc.Result:
	case r.From.Can(TasksExtension):
		if r.ResultType() == ResultTask {
			return r.Msg.Result
		}
	case r.From.Can(ExperimentalTasks):
		if at := r.Msg.ResultMember("task"); jsonrpc.KindOf(r.Msg.Raw, jsonrpc.Find(r.Msg.Raw, at, "taskId")) == '"' {
			return at
		}
	}
	return jsonrpc.Span{}
}

// TaskRef is a task as a server's sessions know it: two processes of one server
// may give the same id to two tasks.
type TaskRef struct {
	Session uint64 // as in Reply.Session, 0 for a server without sessions
	ID      string
}

// String returns the reference as text, which ParseTaskRef reads.
func (t TaskRef) String() string { return strconv.FormatUint(t.Session, 36) + "~" + t.ID }

// ParseTaskRef reads what String wrote.
func ParseTaskRef(s string) (TaskRef, bool) {
	number, id, found := strings.Cut(s, "~")
	n, err := strconv.ParseUint(number, 36, 64)
	return TaskRef{n, id}, found && err == nil
}

// Millis reads how many milliseconds a task lives, or is left alone. A number that no
// Duration holds is the longest of its sign: there are peers that mean for ever by it.
func Millis(raw []byte, at jsonrpc.Span) (time.Duration, bool) {
	ms, ok := jsonrpc.Int(raw, at)
	const most = int64(math.MaxInt64 / time.Millisecond)
	return time.Duration(max(-most, min(ms, most))) * time.Millisecond, ok
}

// RelatedTask returns where the _meta object meta names the task that a message
// belongs to (2025-11-25 §Tasks, "Related Task Metadata"), absent when it does not.
func RelatedTask(raw []byte, meta jsonrpc.Span) jsonrpc.Span {
	return jsonrpc.Find(raw, jsonrpc.Find(raw, meta, KeyRelatedTask), "taskId")
}
