package mcp

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// These are the methods of requests about tasks. They come from 2025-11-25 §Tasks and from
// io.modelcontextprotocol/tasks (SEP-2663), an extension of the modern revisions. Only 2025-11-25
// has tasks/result and tasks/list, and only the extension has tasks/update.
const (
	MethodGetTask    = "tasks/get"
	MethodTaskResult = "tasks/result"
	MethodListTasks  = "tasks/list"
	MethodCancelTask = "tasks/cancel"
	MethodUpdateTask = "tasks/update"
)

// These notifications say that a task has changed. NoteTaskStatus is for the legacy revisions, and
// NoteTask for the modern revisions.
const (
	NoteTaskStatus = "notifications/tasks/status"
	NoteTask       = "notifications/tasks"
)

// ExtensionTasks is the name of the extension for tasks. ResultTask is the resultType of a result
// that is a task.
const (
	ExtensionTasks = "io.modelcontextprotocol/tasks"
	ResultTask     = "task"
)

// These are the statuses of a task, which are the same for RequestedTasks and DirectedTasks.
const (
	TaskWorking   = "working"
	TaskInput     = "input_required"
	TaskCompleted = "completed"
	TaskFailed    = "failed"
	TaskCancelled = "cancelled"
)

// TaskOver reports whether a status is final.
func TaskOver(status string) bool {
	return status == TaskCompleted || status == TaskFailed || status == TaskCancelled
}

// TaskForm is the form of tasks that a peer supports.
type TaskForm uint8

// NoTasks is the zero value. It means that a peer does not support tasks.
const (
	NoTasks TaskForm = iota
	// RequestedTasks are the tasks of 2025-11-25. The client decides whether a call becomes a task.
	RequestedTasks
	// DirectedTasks are the tasks of ExtensionTasks. The server decides whether a call becomes a
	// task.
	DirectedTasks
)

// TaskSupport says whether a tool of a server with RequestedTasks can run as a task
// (2025-11-25 §Tasks, "Tool-Level Negotiation").
type TaskSupport uint8

// These are the values of TaskSupport. TaskForbidden is the default in the specification.
const (
	TaskForbidden TaskSupport = iota
	TaskOptional
	TaskRequired
)

// ReadTaskSupport returns execution.taskSupport of a tool in raw.
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

// Tasks returns the form of tasks that the server supports for tools/call.
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

// HasTasksExtension reports whether a capabilities object declares ExtensionTasks. The object may
// come from a client or from a server.
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

// WithTasksExtension returns a client's capabilities object with ExtensionTasks added. caps may be
// nil.
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

// CreatedTask returns the position of the task in the result of a call that became a task. The
// position is absent if the call did not become a task.
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

// TaskRef identifies a task of a server. The id alone is not enough, because two processes of one
// server may use the same id for two tasks.
type TaskRef struct {
	Session uint64 // same as Reply.Session; 0 for a server without sessions
	ID      string
}

// String returns the reference as a text that ParseTaskRef can read.
func (t TaskRef) String() string { return strconv.FormatUint(t.Session, 36) + "~" + t.ID }

// ParseTaskRef parses a text that TaskRef.String returned. It returns false for any other text.
func ParseTaskRef(s string) (TaskRef, bool) {
	number, id, found := strings.Cut(s, "~")
	n, err := strconv.ParseUint(number, 36, 64)
	return TaskRef{n, id}, found && err == nil
}

// Millis reads a duration in milliseconds, such as a time to live or a poll interval. A number
// that a Duration cannot hold becomes the largest or smallest possible duration. Some peers use
// such numbers for "no limit".
func Millis(raw []byte, at jsonrpc.Span) (time.Duration, bool) {
	ms, ok := jsonrpc.Int(raw, at)
	const most = int64(math.MaxInt64 / time.Millisecond)
	return time.Duration(max(-most, min(ms, most))) * time.Millisecond, ok
}

// RelatedTask returns the position of the task id in the related-task metadata of a message
// (2025-11-25 §Tasks, "Related Task Metadata"). meta is the message's _meta object. The position is
// absent if the message has no such metadata.
func RelatedTask(raw []byte, meta jsonrpc.Span) jsonrpc.Span {
	return jsonrpc.Find(raw, jsonrpc.Find(raw, meta, KeyRelatedTask), "taskId")
}
