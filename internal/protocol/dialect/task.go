package dialect

import (
	"cmp"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Task has new values for a task object that is converted to the form of another revision. All other
// members of the task object are kept if that form allows them.
type Task struct {
	ID     string // the id of the task for the receiver
	Status string // "" keeps the current status
	// Result is the result of the task's call, Error is the error of the call, and Asks has the
	// open server requests. Each is a JSON object or nil. Only the form of the tasks extension has
	// these members.
	Result, Error, Asks []byte

	inside bool // leave out the _meta of the task object, because this _meta belongs to the whole result
}

// CreatedTask returns the result object for a call that became a task, in the form of the given
// revision (2025-11-25 §Tasks, "Creating Tasks"; SEP-2663, "Task Creation"). task is the position of
// the task in raw. meta is the _meta of the result, or nil.
func CreatedTask(to mcp.Revision, raw []byte, task jsonrpc.Span, meta []byte, t Task) []byte {
	t.inside = true
	if to.Can(mcp.TasksExtension) {
		out := appendTask([]byte(`{"resultType":"task"`), to, raw, task, &t)
		return append(appendMeta(out, meta), '}')
	}
	out := appendTask([]byte(`{"task":{`), to, raw, task, &t)
	return append(appendMeta(append(out, '}'), meta), '}')
}

func appendMeta(out, meta []byte) []byte {
	if meta == nil {
		return out
	}
	return append(append(out, `,"_meta":`...), meta...)
}

// TaskState returns the result object of tasks/get, or of a legacy tasks/cancel, in the form of the
// given revision. task is the position of the task in raw.
func TaskState(to mcp.Revision, raw []byte, task jsonrpc.Span, t Task) []byte {
	out := []byte{'{'}
	modern := to.Can(mcp.TasksExtension)
	t.inside = modern // a modern result gets a new _meta with serverInfo
	if modern {
		out = append(out, `"resultType":"complete"`...)
	}
	out = appendTask(out, to, raw, task, &t)
	if modern {
		for _, f := range [...]jsonrpc.Field{{Key: "result", Value: t.Result}, {Key: "error", Value: t.Error}, {Key: "inputRequests", Value: t.Asks}} {
			if f.Value != nil {
				out = append(append(jsonrpc.AppendQuote(append(out, ','), f.Key), ':'), f.Value...)
			}
		}
	}
	return append(out, '}')
}

// appendTask appends the members of a task to out. If out already has members, appendTask adds a
// comma first.
func appendTask(out []byte, to mcp.Revision, raw []byte, task jsonrpc.Span, t *Task) []byte {
	add := func(key string, value []byte) {
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		out = append(append(jsonrpc.AppendQuote(out, key), ':'), value...)
	}
	modern := to.Can(mcp.TasksExtension)
	ttl, poll := "ttl", "pollInterval"
	if modern {
		ttl, poll = "ttlMs", "pollIntervalMs"
	}
	add("taskId", quote(t.ID))
	var have struct{ status, created, updated, ttl bool }
	for m := range jsonrpc.Members(raw, task) {
		key, _ := jsonrpc.Text(raw, m.Key)
		value := m.Value.Of(raw)
		switch key {
		case "taskId", "resultType", "result", "error", "inputRequests", "requestState":
			continue // if the form has this member, it is written outside of this loop
		case "_meta":
			if t.inside {
				continue // this _meta belongs to the result that contains the task
			}
		case "status":
			have.status = true
			if t.Status != "" {
				value = quote(t.Status)
			}
		case "createdAt":
			have.created = true
		case "lastUpdatedAt":
			have.updated = true
		case "ttl", "ttlMs":
			have.ttl = true
			key, value = ttl, wholeMillis(value)
		case "pollInterval", "pollIntervalMs":
			if value = wholeMillis(value); string(value) == "null" {
				continue
			}
			key = poll
		}
		add(key, value)
	}
	// Both forms require status, the dates and the time to live, but some servers omit them. The
	// current time replaces a missing date.
	now := quote(time.Now().UTC().Format(time.RFC3339))
	if !have.status {
		add("status", quote(cmp.Or(t.Status, mcp.TaskWorking)))
	}
	if !have.created {
		add("createdAt", now)
	}
	if !have.updated {
		add("lastUpdatedAt", now)
	}
	if !have.ttl {
		add(ttl, []byte("null"))
	}
	return out
}

// wholeMillis returns milliseconds without a fraction, because the extension forbids fractions. It
// returns null for a value that is not a number.
func wholeMillis(value []byte) []byte {
	if _, ok := jsonrpc.Int(value, jsonrpc.Whole(value)); ok {
		return value
	}
	for i, c := range value {
		if c == '.' && i > 0 {
			return value[:i]
		}
		if c < '0' || c > '9' {
			break
		}
	}
	return []byte("null")
}

// extensionFor returns a server's capabilities for modern clients. If the server declares tasks as
// in 2025-11-25, the result declares the tasks extension instead.
func extensionFor(caps []byte) []byte {
	if !mcp.RunsToolTasks(caps) {
		return caps
	}
	empty := []byte(`{}`)
	set := jsonrpc.Field{Key: "extensions", Value: object([]jsonrpc.Field{{Key: mcp.ExtensionTasks, Value: empty}})}
	if at := jsonrpc.Find(caps, jsonrpc.Whole(caps), "extensions"); jsonrpc.KindOf(caps, at) == '{' {
		set.Value = spliceObject(at.Of(caps), nil, jsonrpc.Field{Key: mcp.ExtensionTasks, Value: empty})
	}
	return spliceObject(caps, func(k []byte) bool { return string(k) == "tasks" }, set)
}

// legacyTasksFor returns a server's capabilities for a legacy client. If the server declares the
// tasks extension, the result for a client of 2025-11-25 also declares tasks, but without list,
// because the extension does not have list. For earlier revisions, legacyTasksFor removes tasks.
func legacyTasksFor(rev mcp.Revision, caps []byte) []byte {
	switch {
	case !rev.Can(mcp.ExperimentalTasks):
		if mcp.RunsToolTasks(caps) {
			return spliceObject(caps, func(k []byte) bool { return string(k) == "tasks" })
		}
	case mcp.HasTasksExtension(caps) && !mcp.RunsToolTasks(caps):
		return spliceObject(caps, nil, jsonrpc.Field{Key: "tasks", Value: []byte(`{"cancel":{},"requests":{"tools":{"call":{}}}}`)})
	}
	return caps
}
