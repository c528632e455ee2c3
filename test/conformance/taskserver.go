//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// taskServerMode runs a server on stdio with tools that create tasks. The suite's scenarios
// tasks-* call these tools. The server supports only one era, and refuses messages that are not
// valid in this era. In the legacy era it has the tasks of 2025-11-25. In the modern era it has the
// extension io.modelcontextprotocol/tasks (SEP-2663).
//
//	conformance task-server legacy|modern
func taskServerMode(args []string) int {
	if len(args) != 1 || (args[0] != "legacy" && args[0] != "modern") {
		return exitUsage
	}
	s := &taskServer{
		modern: args[0] == "modern", out: &lines{w: os.Stdout}, end: make(chan struct{}),
		tasks: map[string]*jobTask{}, asked: map[string]chan json.RawMessage{},
	}
	each(os.Stdin, func(line []byte) error {
		var m rpc
		if err := json.Unmarshal(line, &m); err != nil {
			return err
		}
		switch {
		case m.Method == "" && m.ID != nil:
			s.answered(&m)
		case m.ID != nil:
			s.work.Go(func() { s.serve(&m) })
		}
		return nil
	})
	close(s.end)
	s.work.Wait()
	return 0
}

const (
	tasksExtension = "io.modelcontextprotocol/tasks"
	relatedTask    = "io.modelcontextprotocol/related-task"
	modernVersion  = "2026-07-28"
)

type rpc struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params taskParams      `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

type taskParams struct {
	Meta struct {
		Version string `json:"io.modelcontextprotocol/protocolVersion"`
		Caps    struct {
			Extensions map[string]json.RawMessage `json:"extensions"`
		} `json:"io.modelcontextprotocol/clientCapabilities"`
	} `json:"_meta"`
	Name      string                     `json:"name"`
	Arguments toolArguments              `json:"arguments"`
	Task      *struct{ TTL int64 }       `json:"task"`
	TaskID    string                     `json:"taskId"`
	Answers   map[string]json.RawMessage `json:"inputResponses"`
	State     string                     `json:"requestState"`
	Version   string                     `json:"protocolVersion"`
}

type toolArguments struct {
	Name     string  `json:"name"`
	Seconds  float64 `json:"seconds"`
	Label    string  `json:"label"`
	Filename string  `json:"filename"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func (e *rpcError) Error() string { return e.Message }

type object = map[string]any

type taskServer struct {
	modern bool
	out    *lines
	work   sync.WaitGroup
	end    chan struct{} // closed when the client has disconnected

	mu     sync.Mutex
	opened bool
	tasks  map[string]*jobTask
	asked  map[string]chan json.RawMessage // channels for the answers to the questions that were sent to a legacy client, by id
	counts int
}

// jobTask is one task. taskServer.mu guards its fields.
type jobTask struct {
	id, status       string
	created, updated time.Time
	result           object
	failure          *rpcError
	inputs           []*input
	over             chan struct{} // closed when the status is final
	changed          chan struct{} // closed and replaced at each change
}

// input is one question of a task.
type input struct {
	key    string
	params object
	put    bool // true if the question was sent to a legacy client
	answer chan json.RawMessage
}

// tool is one tool. support is its declared support for tasks.
type tool struct {
	name, support string
	run           func(s *taskServer, t *jobTask, a toolArguments) (object, error)
}

var taskTools = []tool{
	{"greet", "", func(_ *taskServer, _ *jobTask, a toolArguments) (object, error) {
		return text("Hello, " + a.Name + "!"), nil
	}},
	{"slow_compute", "optional", func(s *taskServer, t *jobTask, a toolArguments) (object, error) {
		wait := time.NewTimer(time.Duration(a.Seconds * float64(time.Second)))
		defer wait.Stop()
		var over chan struct{}
		if t != nil {
			over = t.over
		}
		select {
		case <-wait.C:
		case <-over:
		case <-s.end:
		}
		return text("computed " + a.Label), nil
	}},
	{"failing_job", "required", func(s *taskServer, _ *jobTask, _ toolArguments) (object, error) {
		select {
		case <-time.After(500 * time.Millisecond):
		case <-s.end:
		}
		r := text("it did not work")
		r["isError"] = true
		return r, nil
	}},
	{"protocol_error_job", "optional", func(*taskServer, *jobTask, toolArguments) (object, error) {
		return nil, &rpcError{Code: -32603, Message: "the tool has crashed"}
	}},
	{"confirm_delete", "optional", func(s *taskServer, t *jobTask, a toolArguments) (object, error) {
		if err := s.ask(t, "Delete "+a.Filename+"?"); err != nil {
			return nil, err
		}
		return text("deleted " + a.Filename), nil
	}},
	{"multi_input", "optional", func(s *taskServer, t *jobTask, _ toolArguments) (object, error) {
		if err := s.ask(t, "First?", "Second?"); err != nil {
			return nil, err
		}
		return text("both answered"), nil
	}},
	{"test_tool_with_task", "required", func(s *taskServer, t *jobTask, a toolArguments) (object, error) {
		if !s.modern {
			if err := s.ask(t, "What is your name?"); err != nil {
				return nil, err
			}
		}
		return text("Hello, " + a.Name), nil
	}},
}

func text(t string) object {
	return object{"content": []object{{"type": "text", "text": t}}}
}

func (s *taskServer) serve(m *rpc) {
	result, err := s.handle(m)
	out := object{"jsonrpc": "2.0", "id": m.ID}
	var e *rpcError
	switch {
	case errors.As(err, &e):
		out["error"] = e
	case err != nil:
		out["error"] = &rpcError{Code: -32603, Message: err.Error()}
	default:
		if s.modern && result["resultType"] == nil {
			result["resultType"] = "complete"
		}
		out["result"] = result
	}
	s.send(out)
}

func (s *taskServer) send(m object) { _ = s.out.write(must(json.Marshal(m))) }

var (
	notFound = &rpcError{Code: -32601, Message: "Method not found"}
	noTask   = &rpcError{Code: -32602, Message: "Failed to retrieve task: Task not found"}
)

func (s *taskServer) handle(m *rpc) (object, error) {
	if s.modern {
		return s.handleModern(m)
	}
	s.mu.Lock()
	opened := s.opened
	s.opened = opened || m.Method == "initialize"
	s.mu.Unlock()
	if m.Method == "initialize" {
		if opened {
			return nil, &rpcError{Code: -32600, Message: "initialized twice"}
		}
		return object{"protocolVersion": "2025-11-25", "serverInfo": identity, "capabilities": object{
			"tools": object{}, "tasks": object{"list": object{}, "cancel": object{}, "requests": object{"tools": object{"call": object{}}}},
		}}, nil
	}
	if !opened && m.Method != "ping" {
		if m.Method == "server/discover" {
			return nil, notFound
		}
		return nil, &rpcError{Code: -32600, Message: "not initialized"}
	}
	switch m.Method {
	case "ping":
		return object{}, nil
	case "tools/list":
		return s.listed(), nil
	case "tools/call":
		return s.callLegacy(m)
	case "tasks/list":
		return s.all(), nil
	}
	return s.ofTask(m)
}

var identity = object{"name": "task-server", "version": "1"}

func (s *taskServer) handleModern(m *rpc) (object, error) {
	switch {
	case m.Method == "initialize":
		return nil, &rpcError{Code: -32022, Message: "Unsupported protocol version", Data: object{"supported": []string{modernVersion}, "requested": m.Params.Version}}
	case m.Params.Meta.Version != modernVersion:
		return nil, &rpcError{Code: -32602, Message: "_meta names no version that is spoken here"}
	}
	_, declared := m.Params.Meta.Caps.Extensions[tasksExtension]
	switch m.Method {
	case "server/discover":
		return object{"supportedVersions": []string{modernVersion}, "ttlMs": 0, "cacheScope": "private",
			"capabilities": object{"tools": object{}, "extensions": object{tasksExtension: object{}}},
			"_meta":        object{"io.modelcontextprotocol/serverInfo": identity}}, nil
	case "tools/list":
		r := s.listed()
		r["ttlMs"], r["cacheScope"] = 0, "private"
		return r, nil
	case "tools/call":
		return s.callModern(m, declared)
	case "tasks/get", "tasks/update", "tasks/cancel":
		if !declared {
			return nil, needTasks
		}
		return s.ofTask(m)
	}
	return nil, notFound
}

var needTasks = &rpcError{Code: -32021, Message: "Missing required client capability",
	Data: object{"requiredCapabilities": object{"extensions": object{tasksExtension: object{}}}}}

func (s *taskServer) listed() object {
	var tools []object
	for _, t := range taskTools {
		x := object{"name": t.name, "inputSchema": object{"type": "object"}}
		if !s.modern && t.support != "" {
			x["execution"] = object{"taskSupport": t.support}
		}
		tools = append(tools, x)
	}
	return object{"tools": tools}
}

func (s *taskServer) all() object {
	s.mu.Lock()
	defer s.mu.Unlock()
	tasks := []object{}
	for _, t := range s.tasks {
		tasks = append(tasks, s.sayLocked(t))
	}
	return object{"tasks": tasks}
}

func toolNamed(name string) (tool, error) {
	at := slices.IndexFunc(taskTools, func(t tool) bool { return t.name == name })
	if at < 0 {
		return tool{}, &rpcError{Code: -32602, Message: "Unknown tool: " + name}
	}
	return taskTools[at], nil
}

// callLegacy calls a tool by the rules of 2025-11-25 Tasks, "Tool-Level Negotiation".
func (s *taskServer) callLegacy(m *rpc) (object, error) {
	t, err := toolNamed(m.Params.Name)
	switch wants := m.Params.Task != nil; {
	case err != nil:
		return nil, err
	case wants && t.support == "", !wants && t.support == "required":
		return nil, notFound
	case !wants:
		return t.run(s, nil, m.Params.Arguments)
	}
	return s.start(t, m.Params.Arguments), nil
}

// callModern calls a tool. The server decides which calls become tasks.
func (s *taskServer) callModern(m *rpc, declared bool) (object, error) {
	t, err := toolNamed(m.Params.Name)
	if err != nil {
		return nil, err
	}
	if t.support == "required" && !declared {
		return nil, needTasks
	}
	a := m.Params.Arguments
	if t.name == "test_tool_with_task" {
		var answer struct{ Content toolArguments }
		raw, answered := m.Params.Answers["user_name"]
		if !answered || m.Params.State != "who" || json.Unmarshal(raw, &answer) != nil {
			return object{"resultType": "input_required", "requestState": "who", "inputRequests": object{
				"user_name": object{"method": "elicitation/create", "params": question("What is your name?")},
			}}, nil
		}
		a.Name = answer.Content.Name
	}
	if t.support == "" || !declared || t.name == "slow_compute" && a.Seconds == 0 {
		return t.run(s, nil, a)
	}
	return s.start(t, a), nil
}

func question(message string) object {
	return object{"mode": "form", "message": message, "requestedSchema": object{
		"type": "object", "properties": object{"name": object{"type": "string"}, "confirm": object{"type": "boolean"}},
	}}
}

// start creates a task and returns the result that announces it.
func (s *taskServer) start(x tool, a toolArguments) object {
	now := time.Now()
	t := &jobTask{status: "working", created: now, updated: now, over: make(chan struct{}), changed: make(chan struct{})}
	s.mu.Lock()
	s.counts++
	t.id = fmt.Sprintf("task-%d", s.counts)
	s.tasks[t.id] = t
	seed := s.sayLocked(t)
	s.mu.Unlock()
	s.work.Go(func() {
		result, err := x.run(s, t, a)
		s.mu.Lock()
		defer s.mu.Unlock()
		t.result = result
		switch {
		case err != nil && !errors.As(err, &t.failure):
			t.failure = &rpcError{Code: -32603, Message: err.Error()}
			fallthrough
		case err != nil:
			s.setLocked(t, "failed")
		case result["isError"] == true && !s.modern:
			s.setLocked(t, "failed") // 2025-11-25 Tasks, "Task Execution Errors"
		default:
			s.setLocked(t, "completed")
		}
	})
	if s.modern {
		seed["resultType"] = "task"
		return seed
	}
	return object{"task": seed}
}

// setLocked changes the status of a task. A final status does not change.
func (s *taskServer) setLocked(t *jobTask, status string) {
	select {
	case <-t.over:
		return
	default:
	}
	t.status, t.updated = status, time.Now()
	close(t.changed)
	t.changed = make(chan struct{})
	if status == "completed" || status == "failed" || status == "cancelled" {
		close(t.over)
	}
	if !s.modern {
		s.send(object{"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": s.sayLocked(t)})
	}
}

func (s *taskServer) sayLocked(t *jobTask) object {
	o := object{"taskId": t.id, "status": t.status, "createdAt": t.created.UTC().Format(time.RFC3339), "lastUpdatedAt": t.updated.UTC().Format(time.RFC3339)}
	ttl, poll := "ttl", "pollInterval"
	if s.modern {
		ttl, poll = "ttlMs", "pollIntervalMs"
	}
	o[ttl], o[poll] = 600_000, 100
	return o
}

// ask sends questions to the client and waits for all answers.
func (s *taskServer) ask(t *jobTask, messages ...string) error {
	if t == nil {
		return &rpcError{Code: -32600, Message: "only a task can ask here"}
	}
	s.mu.Lock()
	mine := make([]*input, 0, len(messages))
	for i, text := range messages {
		mine = append(mine, &input{key: fmt.Sprintf("q%d", len(t.inputs)+i+1), params: question(text), answer: make(chan json.RawMessage, 1)})
	}
	t.inputs = append(t.inputs, mine...)
	s.setLocked(t, "input_required")
	s.mu.Unlock()
	for _, q := range mine {
		select {
		case <-q.answer:
		case <-t.over:
			return errors.New("cancelled")
		case <-s.end:
			return errors.New("the client is gone")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLocked(t, "working")
	return nil
}

func (s *taskServer) ofTask(m *rpc) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[m.Params.TaskID]
	switch m.Method {
	case "tasks/get", "tasks/cancel":
	case "tasks/update":
		if !s.modern {
			return nil, notFound
		}
	case "tasks/result":
		if s.modern {
			return nil, notFound
		}
	default:
		return nil, notFound
	}
	if t == nil {
		return nil, noTask
	}
	switch m.Method {
	case "tasks/result":
		return s.resultLocked(t)
	case "tasks/update":
		t.inputs = slices.DeleteFunc(t.inputs, func(q *input) bool {
			a, ok := m.Params.Answers[q.key]
			if ok {
				q.answer <- a
			}
			return ok
		})
		return object{}, nil
	case "tasks/cancel":
		if s.modern {
			s.setLocked(t, "cancelled")
			return object{}, nil
		}
		select {
		case <-t.over:
			return nil, &rpcError{Code: -32602, Message: "Cannot cancel task: already in terminal status '" + t.status + "'"}
		default:
		}
		s.setLocked(t, "cancelled")
		return s.sayLocked(t), nil
	}
	o := s.sayLocked(t)
	if s.modern {
		switch t.status {
		case "completed":
			o["result"] = t.result
		case "failed":
			o["error"] = t.failure
		case "input_required":
			open := object{}
			for _, q := range t.inputs {
				open[q.key] = object{"method": "elicitation/create", "params": q.params}
			}
			o["inputRequests"] = open
		}
	}
	return o, nil
}

// resultLocked waits until the status of a task is final, and returns the task's result. While it
// waits, it sends the questions of the task (2025-11-25 Tasks, "Input Required Status", "Result
// Retrieval").
func (s *taskServer) resultLocked(t *jobTask) (object, error) {
	related := object{relatedTask: object{"taskId": t.id}}
	for {
		for _, q := range t.inputs {
			if q.put {
				continue
			}
			q.put = true
			s.counts++
			id := fmt.Sprintf("ask-%d", s.counts)
			s.asked[string(must(json.Marshal(id)))] = q.answer
			params := object{"_meta": related}
			for k, v := range q.params {
				params[k] = v
			}
			s.send(object{"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params})
		}
		changed := t.changed
		select {
		case <-t.over:
			switch {
			case t.failure != nil:
				return nil, t.failure
			case t.result == nil:
				return nil, &rpcError{Code: -32603, Message: "the task was cancelled"}
			}
			r := object{"_meta": related}
			for k, v := range t.result {
				r[k] = v
			}
			return r, nil
		default:
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-s.end:
		}
		s.mu.Lock()
		select {
		case <-s.end:
			return nil, errors.New("the client is gone")
		default:
		}
	}
}

// answered handles a legacy client's answer to a question.
func (s *taskServer) answered(m *rpc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.asked[string(m.ID)]; a != nil {
		delete(s.asked, string(m.ID))
		a <- m.Result
	}
}
