package dialect

import (
	"cmp"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Task says how a task object of one form is to be written in another. What is not
// named is kept: every member that the other form has no word against.
type Task struct {
	ID     string // as the reader knows it
	Status string // "" keeps the one there is
	// Result, Error and Asks are what the task has come to, as JSON objects: the
	// result of its call, its error, the questions that are open. Only the extension
	// has them within the task.
	Result, Error, Asks []byte

	inside bool // it is a part of the result, not the result itself
}

// CreatedTask returns the result object by which a call has become the task at the
// span of raw, in the words of revision to (2025-11-25 §Tasks, "Creating Tasks";
// SEP-2663, "Task Creation"). meta is the result's own _meta, nil for none.
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

// TaskState returns the result object of tasks/get, or of a legacy tasks/cancel,
// for the task at the span of raw, in the words of revision to.
func TaskState(to mcp.Revision, raw []byte, task jsonrpc.Span, t Task) []byte {
	out := []byte{'{'}
	modern := to.Can(mcp.TasksExtension)
	t.inside = modern // whose _meta says who the server is
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

// appendTask appends the members of a task, after a comma where out has some.
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
			continue // said anew where the form has it
		case "_meta":
			if t.inside {
				continue // of the result around it, which says it
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
			key, value = ttl, whole(value)
		case "pollInterval", "pollIntervalMs":
			if value = whole(value); string(value) == "null" {
				continue
			}
			key = poll
		}
		add(key, value)
	}
	// What both forms require and a careless server may leave out. A date that nobody
	// has said is that of now.
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

// whole returns milliseconds without a fraction, which the extension forbids; null
// for what is no number.
func whole(value []byte) []byte {
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

// extensionFor returns a server's capabilities with its tasks of 2025-11-25 said as
// the extension, which a modern client looks for.
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

// legacyTasksFor returns capabilities for a legacy client: the extension said as the
// tasks of 2025-11-25, without a list, which the extension has not; and none for
// the revisions before.
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
