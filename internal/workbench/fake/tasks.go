package fake

import (
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// The tools "task" and "task_only" create tasks: in 2025-11-25 if the call asks for a task, and in
// 2026-07-28 if the client declares the extension (SEP-2663). Otherwise, a call of "task" runs
// without a task, and the server refuses a call of "task_only". Tasks do not depend on time. The
// first tasks/get returns the status working. The second tasks/get completes the task, or sets the
// status input_required if the task has a request for the client. tasks/result completes the task
// too.

const maxTasks = 256

// task is one task. Server.mu guards it.
type task struct {
	id, status string
	asks       bool
	looks      int
	answer     []byte // the client's answer to the request of the task; nil if there is none
}

// support is a tool's support for tasks (2025-11-25 §Tasks, "Tool-Level Negotiation").
type support string

const (
	optional support = "optional"
	required support = "required"
)

func taskExtensions() []extension {
	id := need("taskId", aString)
	get := method{name: mcp.MethodGetTask, params: shape{id}, run: getTask}
	cancel := method{name: mcp.MethodCancelTask, params: shape{id}, run: cancelTask}
	of := func(f feature, m method) method {
		m.of = f
		return m
	}
	return []extension{
		{of: experimentalTask, tools: taskTools(experimentalTask),
			capabilities: `"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`,
			methods: []method{
				of(experimentalTask, get), of(experimentalTask, cancel),
				{name: mcp.MethodTaskResult, of: experimentalTask, params: shape{id}, run: taskResult, waits: true},
				{name: mcp.MethodListTasks, of: experimentalTask, params: shape{may("cursor", aString)}, run: listTasks},
			}},
		{of: directedTask, tools: taskTools(directedTask),
			declares: `"` + mcp.ExtensionTasks + `":{}`,
			methods: []method{
				of(directedTask, get), of(directedTask, cancel),
				{name: mcp.MethodUpdateTask, of: directedTask, params: shape{id, need("inputResponses", anObject)}, run: updateTask},
			}},
	}
}

func taskTools(of feature) []tool {
	args := shape{may("ask", aBool)}
	return []tool{
		{name: "task", about: "Runs as a task if the client supports tasks. With ask, it asks the user for a name and an age.", of: of, args: args, task: optional, waits: true, run: runTask},
		{name: "task_only", about: "Can be called only as a task.", of: of, args: args, task: required, waits: true, run: runTask},
	}
}

// asTask is the error that a call returns if the call became a task.
type asTask struct{ members string }

func (*asTask) Error() string { return "the call has become a task" }

var needsExtension = &jsonrpc.Error{
	Code: mcp.CodeMissingCapability, Message: "the client has not declared " + mcp.ExtensionTasks,
	Data: []byte(`{"requiredCapabilities":{"extensions":{"` + mcp.ExtensionTasks + `":{}}}}`),
}

// fitsTask returns an error if a call does not match the task support of its tool.
func (x *exchange) fitsTask() error {
	switch wants := !x.m.Param("task").IsZero(); {
	case !x.c.ed.has(experimentalTask):
		return nil // SEP-2663, "Backward Compatibility": the server ignores the member task
	case wants && x.tool.task == "":
		return x.c.s.refuse(x.m.Method, jsonrpc.CodeMethodNotFound, "%s cannot be called as a task", x.tool.name)
	case !wants && x.tool.task == required:
		return x.c.s.refuse(x.m.Method, jsonrpc.CodeMethodNotFound, "%s must be called as a task", x.tool.name)
	}
	if wrong := (shape{may("task", anObject, may("ttl", aNumber))}).check(x.m.Raw, x.m.Params, "params"); wrong != "" {
		return x.c.s.refuse(x.m.Method, jsonrpc.CodeInvalidParams, "%s", wrong)
	}
	return nil
}

func runTask(x *exchange, args jsonrpc.Span) (string, error) {
	wants := !x.m.Param("task").IsZero()
	if x.c.ed.has(directedTask) {
		wants = mcp.HasTasksExtension(x.caps)
		if !wants && x.tool.task == required {
			return "", needsExtension
		}
	}
	asks := string(jsonrpc.Find(x.m.Raw, args, "ask").Of(x.m.Raw)) == "true"
	if !wants {
		if !asks {
			return textResult("done"), nil
		}
		a, err := x.ask(x.c.ed.askForm("who"))
		if err != nil {
			return "", err
		}
		return textResult("done: " + filled(a[0])), nil
	}
	q := x.c.ed.askForm("who")
	if asks && !x.declared(&q) {
		return "", x.undeclared(&q)
	}
	s := x.c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.state.tasks) >= maxTasks {
		return "", refusal(jsonrpc.CodeInternal, "too many tasks")
	}
	t := &task{id: "task-" + strconv.Itoa(len(s.state.tasks)+1), status: mcp.TaskWorking, asks: asks}
	s.state.tasks = append(s.state.tasks, t)
	if x.c.ed.has(directedTask) {
		return "", &asTask{t.members(x.c.ed)}
	}
	return `"task":{` + t.members(x.c.ed) + `}`, nil
}

// members returns the members of a Task object.
func (t *task) members(ed *edition) string {
	ttl, poll := `"ttl":60000`, `"pollInterval":10`
	if ed.has(directedTask) {
		ttl, poll = `"ttlMs":60000`, `"pollIntervalMs":10`
	}
	const date = `"2026-01-01T00:00:00Z"`
	return `"taskId":` + quote(t.id) + `,"status":` + quote(t.status) + `,"createdAt":` + date + `,"lastUpdatedAt":` + date + `,` + ttl + `,` + poll
}

func (t *task) result() string {
	if t.answer != nil {
		return textResult("done: " + filled(t.answer))
	}
	return textResult("done")
}

// task returns the task that a request names. Server.mu stays locked until done is called.
func (x *exchange) task() (t *task, done func(), err error) {
	if x.c.ed.has(directedTask) && !mcp.HasTasksExtension(x.caps) {
		return nil, nil, needsExtension
	}
	id, _ := jsonrpc.Text(x.m.Raw, x.m.Param("taskId"))
	x.c.s.mu.Lock()
	for _, t := range x.c.s.state.tasks {
		if t.id == id {
			return t, x.c.s.mu.Unlock, nil
		}
	}
	x.c.s.mu.Unlock()
	return nil, nil, refusal(jsonrpc.CodeInvalidParams, "unknown task %s", clip(id))
}

func getTask(x *exchange) (string, error) {
	t, done, err := x.task()
	if err != nil {
		return "", err
	}
	defer done()
	if t.looks++; t.looks > 1 && !mcp.TaskOver(t.status) {
		t.status = mcp.TaskCompleted
		if t.asks && t.answer == nil {
			t.status = mcp.TaskInput
		}
	}
	out := t.members(x.c.ed)
	if !x.c.ed.has(directedTask) {
		return out, nil
	}
	switch t.status {
	case mcp.TaskCompleted:
		out += `,"result":{` + t.result() + `}`
	case mcp.TaskInput:
		q := x.c.ed.askForm("who")
		out += `,"inputRequests":{"who":{"method":` + quote(q.method) + `,"params":` + q.params + `}}`
	}
	return out, nil
}

// taskResult sends the task's request to the client, if there is one, and completes the task
// (2025-11-25 §Tasks, "Input Required Status", "Result Retrieval").
func taskResult(x *exchange) (string, error) {
	t, done, err := x.task()
	if err != nil {
		return "", err
	}
	asks := t.asks && t.answer == nil && !mcp.TaskOver(t.status)
	done()
	related := `"_meta":{` + quote(mcp.KeyRelatedTask) + `:{"taskId":` + quote(t.id) + `}}`
	var answer []byte
	if asks {
		q := x.c.ed.askForm("who")
		q.params = `{` + related + `,` + q.params[1:]
		if answer, err = x.askLive(&q); err != nil {
			return "", err
		}
	}
	x.c.s.mu.Lock()
	if answer != nil {
		t.answer = answer
	}
	ended := !mcp.TaskOver(t.status)
	if ended {
		t.status = mcp.TaskCompleted
	}
	status, members, result := t.status, t.members(x.c.ed), t.result()
	x.c.s.mu.Unlock()
	if status == mcp.TaskCancelled {
		return "", refusal(jsonrpc.CodeInternal, "the task was cancelled")
	}
	if ended {
		x.notify(mcp.NoteTaskStatus, "{"+members+"}")
	}
	return result + `,` + related, nil
}

func cancelTask(x *exchange) (string, error) {
	t, done, err := x.task()
	if err != nil {
		return "", err
	}
	defer done()
	over := mcp.TaskOver(t.status)
	switch {
	case x.c.ed.has(directedTask) && over:
		return "", nil
	case over:
		return "", refusal(jsonrpc.CodeInvalidParams, "the task is %s already", t.status)
	}
	t.status = mcp.TaskCancelled
	if x.c.ed.has(directedTask) {
		return "", nil
	}
	return t.members(x.c.ed), nil
}

func updateTask(x *exchange) (string, error) {
	t, done, err := x.task()
	if err != nil {
		return "", err
	}
	defer done()
	a := jsonrpc.Find(x.m.Raw, x.m.Param("inputResponses"), "who")
	if t.status != mcp.TaskInput || a.IsZero() {
		return "", nil // SEP-2663, "Task Update Requests": the server ignores answers that it did not request
	}
	q := x.c.ed.askForm("who")
	if wrong := q.wrong(x.m.Raw, a); wrong != "" {
		return "", refusal(jsonrpc.CodeInvalidParams, "%s", wrong)
	}
	t.answer, t.status = a.Of(x.m.Raw), mcp.TaskWorking
	return "", nil
}

func listTasks(x *exchange) (string, error) {
	var entries []string
	x.c.s.mu.Lock()
	for _, t := range x.c.s.state.tasks {
		entries = append(entries, `{`+t.members(x.c.ed)+`}`)
	}
	x.c.s.mu.Unlock()
	return x.page("tasks", entries)
}
