package fake

import (
	"strings"
	"testing"
	"testing/synctest"
)

// aTask returns the members of a task in the form of a revision.
func aTask(date, id, status string) string {
	ttl, poll := `"ttl":60000`, `"pollInterval":10`
	if date == modernDate {
		ttl, poll = `"ttlMs":60000`, `"pollIntervalMs":10`
	}
	return `"taskId":"` + id + `","status":"` + status + `","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z",` + ttl + `,` + poll
}

const related = `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"task-1"}}`

// TestTasksAsRequested checks the tasks of 2025-11-25. The client requests that a call becomes a
// task, answers the task's server request, and gets the task's result.
func TestTasksAsRequested(t *testing.T) {
	const date = "2025-11-25"
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "strict-"+date)
		l.hello(date, allCaps)
		asTask := func(id, tool, args string) string {
			return ask(date, id, "tools/call", `"name":"`+tool+`","arguments":{`+args+`},"task":{"ttl":5}`)
		}
		about := func(id, method string) string { return ask(date, id, method, `"taskId":"task-1"`) }
		l.want(call(date, "1", "task", ""), result(date, "1", words("done")))
		l.want(asTask("2", "task_only", `"ask":true`), result(date, "2", `"task":{`+aTask(date, "task-1", "working")+`}`))
		l.want(about("3", "tasks/get"), result(date, "3", aTask(date, "task-1", "working")))
		l.want(about("4", "tasks/get"), result(date, "4", aTask(date, "task-1", "input_required")))
		l.want(about("5", "tasks/result"), `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{`+related+`,"mode":"form","message":"Who are you?",`+formSchema+`}}`)
		l.want(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"name":"Ada"}}}`,
			`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{`+aTask(date, "task-1", "completed")+`}}`,
			result(date, "5", words("done: accept Ada")+`,`+related))
		l.want(ask(date, "6", "tasks/list", ""), result(date, "6", `"tasks":[{`+aTask(date, "task-1", "completed")+`}]`))
		l.want(about("7", "tasks/cancel"), `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"the task is completed already"}}`)
		l.want(asTask("8", "task", ""), result(date, "8", `"task":{`+aTask(date, "task-2", "working")+`}`))
		l.want(ask(date, "9", "tasks/cancel", `"taskId":"task-2"`), result(date, "9", aTask(date, "task-2", "cancelled")))
		l.want(ask(date, "10", "tasks/get", `"taskId":"task-9"`), `{"jsonrpc":"2.0","id":10,"error":{"code":-32602,"message":"unknown task task-9"}}`)
		l.broken()

		l.want(call(date, "11", "task_only", ""), `{"jsonrpc":"2.0","id":11,"error":{"code":-32601,"message":"task_only must be called as a task"}}`)
		l.want(asTask("12", "echo", `"text":""`), `{"jsonrpc":"2.0","id":12,"error":{"code":-32601,"message":"echo cannot be called as a task"}}`)
		l.broken("tools/call: task_only must be called as a task", "tools/call: echo cannot be called as a task")
		l.end()
	})
}

// TestTasksAsDirected checks the tasks extension of 2026-07-28. The server decides to create a
// task, but only for a client that has declared the extension.
func TestTasksAsDirected(t *testing.T) {
	const date = modernDate
	synctest.Test(t, func(t *testing.T) {
		l := play(t, "strict-"+date)
		with := func(line string) string {
			return strings.Replace(line, allCaps, `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
		}
		about := func(id, method, more string) string {
			return with(ask(date, id, method, `"taskId":"task-1"`+more))
		}
		missing := `"error":{"code":-32021,"message":"the client has not declared io.modelcontextprotocol/tasks","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`
		l.want(call(date, "1", "task", ""), result(date, "1", words("done")))
		l.want(call(date, "2", "task_only", ""), `{"jsonrpc":"2.0","id":2,`+missing)
		l.want(ask(date, "3", "tasks/get", `"taskId":"task-1"`), `{"jsonrpc":"2.0","id":3,`+missing)
		l.want(with(call(date, "4", "task", `"ask":true`)), strings.Replace(result(date, "4", aTask(date, "task-1", "working")), "complete", "task", 1))
		l.want(about("5", "tasks/get", ""), result(date, "5", aTask(date, "task-1", "working")))
		asks := `,"inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Who are you?",` + formSchema + `}}}`
		l.want(about("6", "tasks/get", ""), result(date, "6", aTask(date, "task-1", "input_required")+asks))
		ack := func(id string) string { return strings.Replace(result(date, id, ""), "},}", "}}", 1) }
		l.want(about("7", "tasks/update", `,"inputResponses":{"other":{}}`), ack("7"))
		l.want(about("8", "tasks/update", `,"inputResponses":{"who":{"action":"accept","content":{"name":"Ada"}}}`), ack("8"))
		l.want(about("9", "tasks/get", ""), result(date, "9", aTask(date, "task-1", "completed")+`,"result":{`+words("done: accept Ada")+`}`))
		l.want(about("10", "tasks/cancel", ""), ack("10"))
		l.broken()
		l.end()
	})
}
