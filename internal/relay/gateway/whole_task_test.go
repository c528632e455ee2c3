package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

const takesTasks = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

const taskDates = `"createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z"`

// taskProcess is a server on a pipe. Each of its processes numbers its tasks from 1, so two
// processes give the same id to two tasks. While a client waits for a result, the process sends
// a request, and it accepts any response.
type taskProcess struct {
	ttl  string
	hold chan struct{} // plain calls wait until this channel is closed
}

func (p *taskProcess) on(l *testSession, m *jsonrpc.Message) {
	id, _ := jsonrpc.Text(m.Raw, m.Param("taskId"))
	switch m.Method {
	case mcp.MethodListTools:
		l.answer(m, `{"tools":[{"name":"job","inputSchema":{},"execution":{"taskSupport":"optional"}},{"name":"plain","inputSchema":{}}]}`)
	case mcp.MethodCallTool:
		name, _ := jsonrpc.Text(m.Raw, m.Param("name"))
		if name == "plain" {
			l.server.running.Go(func() {
				<-p.hold
				l.answer(m, `{"content":[]}`)
			})
			return
		}
		l.answer(m, `{"task":{"taskId":"task-1","status":"working",`+taskDates+`,"ttl":`+p.ttl+`}}`)
	case mcp.MethodGetTask:
		status := mcp.TaskInput
		if l.answered() {
			status = mcp.TaskCompleted
		}
		l.answer(m, fmt.Sprintf(`{"taskId":%q,"status":%q,%s,"ttl":%s}`, id, status, taskDates, p.ttl))
	case mcp.MethodTaskResult:
		if l.answered() {
			l.answer(m, fmt.Sprintf(`{"content":[{"type":"text","text":"of process %d"}]}`, l.number))
			return
		}
		l.say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"task-1"}}}}`)
	default:
		if m.Kind != jsonrpc.Result {
			return
		}
		for _, r := range l.got(mcp.MethodTaskResult) {
			l.answer(r, fmt.Sprintf(`{"content":[{"type":"text","text":"of process %d, said so"}]}`, l.number))
		}
	}
}

// answered reports whether the request of the process has got a response.
func (l *testSession) answered() bool {
	for _, m := range l.got("") {
		if m.Kind == jsonrpc.Result {
			return true
		}
	}
	return false
}

// TestTaskStaysInItsSession checks that Dragoman polls a task in the session that created it.
// Another process of the server has a task with the same id. Without the task, Dragoman would have
// closed this idle session.
func TestTaskStaysInItsSession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := &taskProcess{ttl: "3600000", hold: make(chan struct{})}
		s := &testServer{caps: `{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}`, on: p.on}
		w := build(t, s)
		n := w.client()
		n.say(modernRequest("1", "tools/call", `"name":"job","arguments":{}`, takesTasks))
		first, _ := jsonrpc.Text(resultOf(n.answerTo("1"), "taskId"))
		// If the server can send a request to the client during a call, this call has a process of
		// its own.
		n.say(modernRequest("2", "tools/call", `"name":"plain","arguments":{}`, takesTasks))
		time.Sleep(time.Second)
		n.say(modernRequest("3", "tools/call", `"name":"job","arguments":{}`, takesTasks))
		second, _ := jsonrpc.Text(resultOf(n.answerTo("3"), "taskId"))
		close(p.hold)
		n.answerTo("2")
		if s.opened() != 2 || first == second {
			t.Fatalf("there are %d processes, and the tasks are %q and %q", s.opened(), first, second)
		}
		time.Sleep(40 * time.Minute)
		for i, id := range []string{first, second} {
			n.say(modernRequest("4", "tasks/get", fmt.Sprintf(`"taskId":%q`, id), takesTasks))
			m := n.answerTo("4")
			asks := m.ResultMember("inputRequests")
			var key string
			for a := range jsonrpc.Members(m.Raw, asks) {
				key, _ = jsonrpc.Text(m.Raw, a.Key)
			}
			if key == "" {
				t.Fatalf("the client was not asked: %s", m.Raw)
			}
			n.say(modernRequest("5", "tasks/update", fmt.Sprintf(`"taskId":%q,"inputResponses":{%q:{"action":"decline"}}`, id, key), takesTasks))
			n.answerTo("5")
			time.Sleep(time.Second)
			n.say(modernRequest("6", "tasks/get", fmt.Sprintf(`"taskId":%q`, id), takesTasks))
			m = n.answerTo("6")
			if !strings.Contains(string(m.Raw), fmt.Sprintf("of process %d", i)) {
				t.Errorf("task %d: %s", i, m.Raw)
			}
		}
		if s.opened() != 2 {
			t.Errorf("there are %d processes", s.opened())
		}
	})
}

// TestTaskEndsWithItsProcess checks that a task ends with its process. Dragoman does not confuse
// this task with a task of the next process that has the same id.
func TestTaskEndsWithItsProcess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := &taskProcess{ttl: "60000"}
		s := &testServer{caps: `{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}`, on: p.on}
		n := build(t, s).client()
		n.say(modernRequest("1", "tools/call", `"name":"job","arguments":{}`, takesTasks))
		id, _ := jsonrpc.Text(resultOf(n.answerTo("1"), "taskId"))
		_ = s.link(t, 0).pipe.Close()
		time.Sleep(time.Minute)
		n.say(modernRequest("2", "tools/call", `"name":"job","arguments":{}`, takesTasks))
		n.answerTo("2")
		n.say(modernRequest("3", "tasks/get", fmt.Sprintf(`"taskId":%q`, id), takesTasks))
		n.wants(n.answerTo("3"), `"code":-32602`)
		if got := len(s.link(t, 1).got(mcp.MethodGetTask)); got != 0 {
			t.Errorf("another process got %d requests about the task", got)
		}
	})
}

// TestTasksOfOthers has two clients that share a session. One of them cannot find the tasks of the
// other: not by a guess, not in a list, and not in a notification.
func TestTasksOfOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		made := 0
		s := &testServer{caps: `{"tools":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}}}`, on: func(l *testSession, m *jsonrpc.Message) {
			id, _ := jsonrpc.Text(m.Raw, m.Param("taskId"))
			switch m.Method {
			case mcp.MethodListTools:
				l.answer(m, `{"tools":[{"name":"job","inputSchema":{},"execution":{"taskSupport":"optional"}}]}`)
			case mcp.MethodCallTool:
				made++
				l.answer(m, fmt.Sprintf(`{"task":{"taskId":"task-%d","status":"working",%s,"ttl":60000}}`, made, taskDates))
			case mcp.MethodGetTask:
				l.answer(m, fmt.Sprintf(`{"taskId":%q,"status":"working",%s,"ttl":60000}`, id, taskDates))
			case mcp.MethodListTasks:
				l.answer(m, `{"tasks":[{"taskId":"task-1","status":"working","x":1e400},{"taskId":"task-2","status":"working"}],"nextCursor":"c"}`)
			}
		}}
		w := build(t, s)
		w.at(0)
		victim, other := w.callerAs("nobody", false, `{}`), w.callerAs("nobody", false, `{}`)
		start := func(c *caller) string {
			m := c.ask(mcp.MethodCallTool, `"name":"job","arguments":{},"task":{}`)
			id, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, m.ResultMember("task"), "taskId"))
			return id
		}
		first, second := start(victim), start(other)
		if s.opened() != 1 || !strings.HasSuffix(first, "~task-1") || !strings.HasSuffix(second, "~task-2") {
			t.Fatalf("there are %d sessions, and the tasks are %q and %q", s.opened(), first, second)
		}
		guess := strings.TrimSuffix(second, "2") + "1"
		for _, id := range []string{guess, "task-1", strings.Replace(first, "drgt2.a~", "drgt1.a~", 1)} {
			if m := other.ask(mcp.MethodGetTask, fmt.Sprintf(`"taskId":%q`, id)); m.Kind != jsonrpc.Failure || !strings.Contains(string(m.Raw), "Task not found") {
				t.Errorf("%s: %s", id, m.Raw)
			}
		}
		for c, want := range map[*caller]string{
			victim: fmt.Sprintf(`"tasks":[{"taskId":%q,"status":"working","x":1e400}],"nextCursor":"c"`, first),
			other:  fmt.Sprintf(`"tasks":[{"taskId":%q,"status":"working"}],"nextCursor":"c"`, second),
		} {
			if m := c.ask(mcp.MethodListTasks, ``); !strings.Contains(string(m.Raw), want) {
				t.Errorf("the list is %s, want %s", m.Raw, want)
			}
		}
		victim.heardOf()
		other.heardOf()
		s.link(t, 0).say(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"task-1","status":"working"}}`)
		time.Sleep(time.Second)
		if heard := fmt.Sprint(victim.heardOf()); !strings.Contains(heard, first) {
			t.Errorf("the owner of the task heard %s", heard)
		}
		if heard := other.heardOf(); len(heard) != 0 {
			t.Errorf("the other client heard %q", heard)
		}
	})
}

func resultOf(m *jsonrpc.Message, key string) ([]byte, jsonrpc.Span) {
	return m.Raw, m.ResultMember(key)
}
