package matrix

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// playTasks tests a task from its creation to its result, in the client's revision. In 2025-11-25,
// the client requests a task. With the tasks extension, the server decides whether to create a
// task.
func playTasks(ctx context.Context, t *talk) error {
	id, err := t.makeTask(ctx, "task_only", `{"ask":true}`)
	if err != nil {
		return err
	}
	play := t.waitForTask
	if t.Client.Can(mcp.TasksExtension) {
		play = t.pollTask
	}
	if err := play(ctx, id, "done: "+form); err != nil {
		return err
	}
	if id, err = t.makeTask(ctx, "task", "{}"); err != nil {
		return err
	}
	if _, err := t.call(ctx, "tasks/cancel", taskParams(id), fake.CallOptions{}); err != nil {
		return err
	}
	r, err := t.call(ctx, "tasks/get", taskParams(id), fake.CallOptions{})
	if err != nil {
		return err
	}
	return errors.Join(
		same("the cancelled task", member(r.Result, "status"), `"cancelled"`),
		t.refused(ctx, "tasks/get", taskParams("no such task"), jsonrpc.CodeInvalidParams),
	)
}

func taskParams(id string) string { return `{"taskId":` + quote(id) + `}` }

// makeTask calls a tool so that a task is created. It returns the id of the task.
func (t *talk) makeTask(ctx context.Context, tool, args string) (id string, err error) {
	params := toolParams(tool, args)
	if t.Client.Can(mcp.ExperimentalTasks) {
		params = params[:len(params)-1] + `,"task":{"ttl":60000}}`
	}
	r, err := t.call(ctx, "tools/call", params, fake.CallOptions{})
	if err != nil {
		return "", err
	}
	at := jsonrpc.Whole(r.Result)
	if t.Client.Can(mcp.ExperimentalTasks) {
		at = jsonrpc.Find(r.Result, at, "task")
	}
	if id = textAt(r.Result, at, "taskId"); id == "" {
		return "", fmt.Errorf("the tool %s did not create a task: %s", tool, clip(string(r.Result)))
	}
	return id, nil
}

// waitForTask requests the result of a task and waits for the result. During the wait, the client
// must get exactly one server request.
func (t *talk) waitForTask(ctx context.Context, id, want string) error {
	before := len(t.c.Asks())
	r, err := t.call(ctx, "tasks/result", taskParams(id), fake.CallOptions{})
	if err != nil {
		return err
	}
	asks := t.c.Asks()[before:]
	if len(asks) != 1 {
		return fmt.Errorf("the client got %d requests of the task, want 1", len(asks))
	}
	if got := member(asks[0].Params, "_meta", mcp.KeyRelatedTask, "taskId"); got != quote(id) {
		return fmt.Errorf("the request of the task names the task %s, want %s", got, quote(id))
	}
	return errors.Join(
		same("what the task says", textOf(r.Result), want),
		same("the task that the result is of", member(r.Result, "_meta", mcp.KeyRelatedTask, "taskId"), quote(id)),
	)
}

// pollTask polls a task until it has ended, and answers the server requests of the task.
func (t *talk) pollTask(ctx context.Context, id, want string) error {
	const most = 100
	for range most {
		r, err := t.call(ctx, "tasks/get", taskParams(id), fake.CallOptions{})
		if err != nil {
			return err
		}
		switch status := textAt(r.Result, jsonrpc.Whole(r.Result), "status"); status {
		case mcp.TaskCompleted:
			return same("what the task says", textOf([]byte(member(r.Result, "result"))), want)
		case mcp.TaskInput:
			answers := ""
			asks := jsonrpc.Find(r.Result, jsonrpc.Whole(r.Result), "inputRequests")
			for m := range jsonrpc.Members(r.Result, asks) {
				a := fake.Ask{Method: textAt(r.Result, m.Value, "method"), Params: jsonrpc.Find(r.Result, m.Value, "params").Of(r.Result)}
				answer, refused := fake.Obliging(a)
				if refused != nil {
					return fmt.Errorf("the task sends the request %s, which the client cannot answer", a.Method)
				}
				if answers != "" {
					answers += ","
				}
				answers += string(m.Key.Of(r.Result)) + ":" + string(answer)
			}
			if answers == "" {
				return errors.New("the task needs input but contains no input requests")
			}
			update := `{"taskId":` + quote(id) + `,"inputResponses":{` + answers + `}}`
			if _, err := t.call(ctx, "tasks/update", update, fake.CallOptions{}); err != nil {
				return err
			}
		case mcp.TaskWorking:
		default:
			return fmt.Errorf("the task has the unexpected status %q", status)
		}
		if err := work.Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("the task has not finished after %d polls", most)
}

// lostTasks tests a client that cannot use the tasks of the server. The tool task, which can create
// a task, must return its result directly. Through Dragoman, the tool task_only, which always
// creates a task, must also return its result directly.
func lostTasks(ctx context.Context, t *talk) error {
	if !t.Server.Can(mcp.ExperimentalTasks) && !t.Server.Can(mcp.TasksExtension) {
		return nil
	}
	if err := t.says(ctx, "task", "{}", "done"); err != nil || t.direct {
		return err
	}
	return t.says(ctx, "task_only", "{}", "done")
}
