package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
)

const takesTasks = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// taskCall returns a call of a modern client that supports tasks.
func taskCall(t testing.TB, principal, method, params string) *mcp.Call {
	t.Helper()
	c := request26(t, principal, method, params)
	c.Client.Capabilities = []byte(takesTasks)
	return c
}

// directedTaskServer returns a modern server with tasks, and requestedTaskServer a server with
// the tasks of 2025-11-25.
func directedTaskServer(name string) *fake {
	return &fake{name: name, hello: mcp.ServerInfo{Revision: mcp.R20260728, Capabilities: []byte(`{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)},
		lists: map[string][]string{mcp.MethodListTools: {`{"name":"star"}`}}}
}

func requestedTaskServer(name string) *fake {
	u := directedTaskServer(name)
	u.hello = mcp.ServerInfo{Revision: mcp.R20251125, Capabilities: []byte(`{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}`)}
	return u
}

const aTask = `"taskId":"t1","status":"working","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z"`

// answers makes a server answer each method in results with a fixed result.
func (u *fake) answers(results map[string]string) *fake {
	u.call = func(_ context.Context, a *mcp.Attempt, _ mcp.Caller) (*mcp.Reply, error) {
		r, ok := results[a.Msg.Method]
		if !ok {
			return mcp.Fail(&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no"}), nil
		}
		reply := resultReply(u.hello.Revision, r)
		if u.hello.Revision.Legacy() {
			reply.Session = 5
		}
		return reply, nil
	}
	return u
}

// TestTasksBelongToTheirServerAndPrincipal checks that task ids of two servers do not collide.
// A client that learns the task id of another client cannot use it, although all clients share
// one credential at the server.
func TestTasksBelongToTheirServerAndPrincipal(t *testing.T) {
	for _, signed := range []bool{false, true} {
		t.Run(fmt.Sprintf("signed in %t", signed), func(t *testing.T) {
			alice, bob := "", ""
			if signed {
				alice, bob = "alice", "bob"
			}
			one := directedTaskServer("one").answers(map[string]string{"tools/call": `{"resultType":"task",` + aTask + `}`, "tasks/get": `{"resultType":"complete",` + aTask + `}`})
			two := requestedTaskServer("two").answers(map[string]string{"tools/call": `{"task":{` + aTask + `}}`, "tasks/get": `{` + aTask + `}`})
			g := merged(t, one, two)
			ids := map[string]string{}
			for _, name := range []string{"one", "two"} {
				reply, err := g.Call(t.Context(), taskCall(t, alice, "tools/call", `{"name":"`+name+`__star"}`), &recordingCaller{})
				if err != nil {
					t.Fatal(err)
				}
				ids[name] = text(t, reply, "taskId")
				if text(t, reply, "resultType") != "task" || ids[name] == "" {
					t.Fatalf("the task ids are %s", result(t, reply))
				}
			}
			if ids["one"] == ids["two"] {
				t.Fatalf("both tasks have the id %s", ids["one"])
			}
			for name, u := range map[string]*fake{"one": one, "two": two} {
				before := len(u.seen.all())
				c := taskCall(t, alice, "tasks/get", `{"taskId":"`+ids[name]+`"}`)
				reply, err := g.Call(t.Context(), c, &recordingCaller{})
				if err != nil || text(t, reply, "taskId") != ids[name] {
					t.Fatalf("%s: %v", name, err)
				}
				got := u.seen.all()[before:]
				if len(got) != 1 || !strings.Contains(got[0], `"taskId":"t1"`) {
					t.Errorf("%s got the id %q", name, got)
				}
			}
			bad := []string{
				"t1", "", idStart, idStart + "one~", idStart + "one~AAAA", idStart + "one~AAAA~0~t1", idStart + "one~~0~t1", idStart + "one~0~t1", idStart + "three~0~t1", keptTaskID + "x",
				strings.Replace(ids["one"], "~", "~A", 1), strings.Replace(ids["one"], "t1", "t2", 1), strings.Replace(ids["two"], "t1", "t2", 1),
			}
			if signed {
				bad = append(bad, ids["one"], ids["two"])
			}
			for _, id := range bad {
				for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
					before := len(one.seen.all()) + len(two.seen.all())
					_, err := g.Call(t.Context(), taskCall(t, bob, method, `{"taskId":"`+id+`","inputResponses":{}}`), &recordingCaller{})
					if code(err) != jsonrpc.CodeInvalidParams {
						t.Errorf("%s of %q: %v", method, id, err)
					}
					if after := len(one.seen.all()) + len(two.seen.all()); after != before {
						t.Errorf("%s of %q reached a server", method, id)
					}
				}
			}
			{
				other := merged(t, one, two)
				if _, err := other.Call(t.Context(), taskCall(t, alice, "tasks/get", `{"taskId":"`+ids["one"]+`"}`), &recordingCaller{}); code(err) != jsonrpc.CodeInvalidParams {
					t.Errorf("an id signed with another key: %v", err)
				}
			}
		})
	}
}

// TestTasksNeedTheExtension checks that a client that has not declared the extension gets an error
// that names the extension. A client cannot call the task methods of the other era.
func TestTasksNeedTheExtension(t *testing.T) {
	g := merged(t, directedTaskServer("one"), directedTaskServer("two"))
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		_, err := g.Call(t.Context(), modern(t, method, `{"taskId":"x"}`), &recordingCaller{})
		if e := mcp.Wire(err); e.Code != mcp.CodeMissingCapability || !strings.Contains(string(e.Data), mcp.ExtensionTasks) {
			t.Errorf("%s: %v %s", method, err, e.Data)
		}
	}
	for _, c := range []*mcp.Call{
		taskCall(t, "", "tasks/result", `{"taskId":"x"}`), taskCall(t, "", "tasks/list", `{}`),
		legacy(t, "tasks/update", `{"taskId":"x"}`), legacy(t, "tasks/list", `{}`),
	} {
		if _, err := g.Call(t.Context(), c, &recordingCaller{}); code(err) != jsonrpc.CodeMethodNotFound {
			t.Errorf("%s of %s: %v", c.Msg.Method, c.Client.Revision, err)
		}
	}
}

// TestCallThatBecameNoTaskIsKept checks a legacy client that asked for a task and gets a task,
// although the server answered at once. Only this client can read the task, for the time that the
// client requested.
func TestCallThatBecameNoTaskIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := directedTaskServer("one").answers(map[string]string{"tools/call": `{"resultType":"complete","content":[],"isError":true}`})
		g := &Single{Bridge: &bridge.Bridge{}, Upstream: u}
		call := legacy(t, "tools/call", `{"name":"star","task":{"ttl":60000}}`)
		reply, err := g.Call(t.Context(), call, &recordingCaller{})
		if err != nil {
			t.Fatal(err)
		}
		raw := reply.Msg.Raw
		task := reply.Msg.ResultMember("task")
		id, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, task, "taskId"))
		if !strings.Contains(string(task.Of(raw)), `"status":"failed"`) || !strings.Contains(string(task.Of(raw)), `"ttl":60000`) {
			t.Errorf("got %s", task.Of(raw))
		}
		ask := func(method string) (*mcp.Reply, error) {
			return g.Call(t.Context(), legacy(t, method, `{"taskId":"`+id+`"}`), &recordingCaller{})
		}
		for range 2 {
			got, err := ask("tasks/result")
			want := `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}},"resultType":"complete","content":[],"isError":true}`
			if err != nil || result(t, got) != want {
				t.Errorf("%v, got  %s\nwant %s", err, result(t, got), want)
			}
		}
		if got, err := ask("tasks/get"); err != nil || text(t, got, "status") != "failed" {
			t.Errorf("tasks/get: %v", err)
		}
		if _, err := ask("tasks/cancel"); code(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("tasks/cancel: %v", err)
		}
		other := legacy(t, "tasks/result", `{"taskId":"`+id+`"}`)
		other.Client.Who = identity.Named("bob")
		if _, err := g.Call(t.Context(), other, &recordingCaller{}); code(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("the task as seen by another principal: %v", err)
		}
		time.Sleep(61 * time.Second)
		if _, err := ask("tasks/get"); code(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("the task after its time to live: %v", err)
		}
	})
}

// TestAttendedTaskEnds checks the goroutine that waits for a task's requests on behalf of a client.
// This goroutine ends when the client stops polling, and when Dragoman stops.
func TestAttendedTaskEnds(t *testing.T) {
	for name, end := range map[string]func(*bridge.Bridge){
		"the client stays away": func(*bridge.Bridge) { time.Sleep(stateTTL + time.Second) },
		"Dragoman stops":        func(r *bridge.Bridge) { r.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var waiting atomic.Int32
				u := requestedTaskServer("one")
				u.call = func(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
					if a.Msg.Method == mcp.MethodTaskResult {
						waiting.Add(1)
						defer waiting.Add(-1)
						_, err := k.Ask(ctx, message(t, `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`))
						return nil, err
					}
					reply := resultReply(mcp.R20251125, `{"task":{`+aTask+`},`+strings.Replace(aTask, "working", "input_required", 1)+`}`)
					reply.Session = 5
					return reply, nil
				}
				g := &Single{Bridge: &bridge.Bridge{}, Upstream: u}
				defer g.Bridge.Close()
				reply, err := g.Call(t.Context(), taskCall(t, "", "tools/call", `{"name":"star"}`), &recordingCaller{})
				if err != nil {
					t.Fatal(err)
				}
				get := `{"taskId":"` + text(t, reply, "taskId") + `"}`
				for range 3 {
					reply, err = g.Call(t.Context(), taskCall(t, "", "tasks/get", get), &recordingCaller{})
					if err != nil || text(t, reply, "status") != "input_required" {
						t.Fatal(err, result(t, reply))
					}
				}
				if waiting.Load() != 1 {
					t.Fatalf("%d goroutines wait for requests of the task", waiting.Load())
				}
				end(g.Bridge)
				synctest.Wait()
				if n := waiting.Load(); n != 0 || g.Bridge.Attended() != 0 {
					t.Errorf("%d goroutines still wait, and %d tasks are in the table", n, g.Bridge.Attended())
				}
			})
		})
	}
}

// TestTaskNobodyWaitsForIsCancelled checks tasks that Dragoman requested or accepted for a client
// without task support. When the client gives up, Dragoman cancels the task.
func TestTaskNobodyWaitsForIsCancelled(t *testing.T) {
	tests := map[string]struct {
		u    *fake
		call func() *mcp.Call
	}{
		"requested": {requestedTaskServer("one"), func() *mcp.Call { return modern(t, "tools/call", `{"name":"star"}`) }},
		"directed":  {directedTaskServer("one"), func() *mcp.Call { return legacy(t, "tools/call", `{"name":"star"}`) }},
	}
	for name, x := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cancelled atomic.Bool
				x.u.support = mcp.TaskRequired
				x.u.call = func(ctx context.Context, a *mcp.Attempt, _ mcp.Caller) (*mcp.Reply, error) {
					rev := x.u.hello.Revision
					switch {
					case a.Msg.Method == mcp.MethodTaskResult:
						<-ctx.Done()
						return nil, context.Cause(ctx)
					case a.Msg.Method == mcp.MethodCancelTask:
						cancelled.Store(true)
					case rev.Legacy():
						reply := resultReply(rev, `{"task":{`+aTask+`}}`)
						reply.Session = 5
						return reply, nil
					case !mcp.HasTasksExtension(a.Capabilities()):
						reply := mcp.Fail(&jsonrpc.Error{Code: mcp.CodeMissingCapability, Data: []byte(`{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)})
						reply.From = rev
						return reply, nil
					case a.Msg.Method == mcp.MethodGetTask:
						return resultReply(rev, `{"resultType":"complete",`+aTask+`}`), ctx.Err()
					}
					return resultReply(rev, `{"resultType":"task",`+aTask+`}`), nil
				}
				g := &Single{Bridge: &bridge.Bridge{}, Upstream: x.u}
				defer g.Bridge.Close()
				ctx, stop := context.WithCancel(t.Context())
				time.AfterFunc(time.Minute, stop)
				if _, err := g.Call(ctx, x.call(), &recordingCaller{}); err == nil {
					t.Error("a call that was given up has an answer")
				}
				if !cancelled.Load() {
					t.Error("the task continues to run")
				}
			})
		})
	}
}

// TestListensToItsOwnTasksOnly checks that a listen gets notifications only about tasks of its
// client, with the ids that the client knows. The server gets no other task ids.
func TestListensToItsOwnTasksOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := directedTaskServer("one")
		one.call = func(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
			if a.Msg.Method != mcp.MethodListen {
				return resultReply(mcp.R20260728, `{"resultType":"task",`+aTask+`}`), nil
			}
			k.Notify(pipetest.Note(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"taskIds":["t1","t9"]}}}`))
			k.Notify(pipetest.Note(`{"jsonrpc":"2.0","method":"notifications/tasks","params":{` + aTask + `}}`))
			k.Notify(pipetest.Note(`{"jsonrpc":"2.0","method":"notifications/tasks","params":{` + strings.Replace(aTask, "t1", "t9", 1) + `}}`))
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		g := merged(t, one, directedTaskServer("two"))
		reply, err := g.Call(t.Context(), taskCall(t, "alice", "tools/call", `{"name":"one__star"}`), &recordingCaller{})
		if err != nil {
			t.Fatal(err)
		}
		mine := text(t, reply, "taskId")
		reply, err = g.Call(t.Context(), taskCall(t, "bob", "tools/call", `{"name":"one__star"}`), &recordingCaller{})
		if err != nil {
			t.Fatal(err)
		}
		theirs := text(t, reply, "taskId")
		listen := func(principal, capabilities string) (heard []string, err error) {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			c := request26(t, principal, mcp.MethodListen, `{"notifications":{"taskIds":["`+mine+`","`+theirs+`","t1"]}}`)
			c.Client.Capabilities = []byte(capabilities)
			e := &recordingCaller{}
			_, err = g.Call(ctx, c, e)
			return e.all(), err
		}
		heard, _ := listen("alice", takesTasks)
		want := []string{
			`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"taskIds":["` + mine + `"]}}}`,
			`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},` + strings.Replace(aTask, "t1", mine, 1) + `}}`,
		}
		if fmt.Sprint(heard) != fmt.Sprint(want) {
			t.Errorf("the client got\n%s\nwant\n%s", strings.Join(heard, "\n"), strings.Join(want, "\n"))
		}
		if all := one.seen.all(); !strings.Contains(all[len(all)-1], `"taskIds":["t1"]`) {
			t.Errorf("the server got %s", all[len(all)-1])
		}
		before := len(one.seen.all())
		if heard, _ := listen("carol", takesTasks); len(heard) != 1 || strings.Contains(heard[0], "taskIds") || len(one.seen.all()) != before {
			t.Errorf("another principal got %s", heard)
		}
		if _, err := listen("alice", asksAll); code(err) != mcp.CodeMissingCapability {
			t.Errorf("a listen without the extension: %v", err)
		}
	})
}

// TestQuestionsOfATaskAreQuestions checks that the input requests of a modern server's task
// follow the same rules as the input requests of a call.
func TestQuestionsOfATaskAreQuestions(t *testing.T) {
	const form = `{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`
	task := strings.Replace(aTask, "working", "input_required", 1)
	for asks, want := range map[string]int64{
		`{"a":` + form + `}`:                                    0,
		`{"a":` + form + `,"b":{"method":"tools/call"}}`:        jsonrpc.CodeInternal,
		`{"a":{"method":"sampling/createMessage","params":{}}}`: mcp.CodeMissingCapability,
		`{"a":{"method":"elicitation/create","params":{"mode":"url","message":"?","url":"javascript:x","elicitationId":"1"}}}`: jsonrpc.CodeInternal,
	} {
		u := directedTaskServer("one").answers(map[string]string{
			"tools/call": `{"resultType":"task",` + aTask + `}`,
			"tasks/get":  `{"resultType":"complete",` + task + `,"inputRequests":` + asks + `}`,
		})
		g := &Single{Bridge: &bridge.Bridge{}, Upstream: u}
		made, err := g.Call(t.Context(), taskCall(t, "", "tools/call", `{"name":"star"}`), &recordingCaller{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Call(t.Context(), taskCall(t, "", "tasks/get", `{"taskId":"`+text(t, made, "taskId")+`"}`), &recordingCaller{})
		if got := code(err); got != want {
			t.Errorf("%s: code %d (%v), want %d", asks, got, err, want)
		}
	}
}

// TestResultsOfTasksNameSharedURIs calls a tool of a server that has a page with the URI of another
// server's page. The call becomes a task, so its result comes later, in each form.
func TestResultsOfTasksNameSharedURIs(t *testing.T) {
	const page = `{"name":"star","_meta":{"ui":{"resourceUri":"ui://page"}}}`
	const content = `"content":[{"type":"resource_link","name":"n","uri":"ui://page"}]`
	direct, legacy := directedTaskServer("direct"), requestedTaskServer("legacy")
	ended := strings.Replace(aTask, "working", "completed", 1)
	direct.answers(map[string]string{"tools/call": `{"resultType":"task",` + aTask + `}`, "tasks/get": `{"resultType":"complete",` + ended + `,"result":{` + content + `}}`})
	legacy.answers(map[string]string{"tools/call": `{"task":{` + aTask + `}}`, "tasks/get": `{` + ended + `}`, "tasks/result": `{` + content + `}`})
	once := directedTaskServer("once").answers(map[string]string{"tools/call": `{"resultType":"complete",` + content + `}`})
	all := []*fake{directedTaskServer("first"), direct, legacy, once}
	for _, u := range all {
		u.lists[mcp.MethodListTools] = []string{page}
	}
	g := merged(t, all...)
	for _, modern := range []bool{true, false} {
		call := func(method, params string) *mcp.Reply {
			t.Helper()
			c := taskCall(t, "", method, params)
			if !modern {
				c.Client.Revision, c.Client.Capabilities = mcp.R20251125, []byte(`{}`)
			}
			reply, err := g.Call(t.Context(), c, &recordingCaller{})
			if err != nil {
				t.Fatal(method, params, err)
			}
			return reply
		}
		for _, name := range []string{"direct", "legacy", "once"} {
			if modern && name == "once" {
				continue // a modern client gets the result of the call
			}
			reply := call(mcp.MethodCallTool, `{"name":"`+name+`__star","arguments":{},"task":{}}`)
			id := text(t, reply, "taskId")
			method := mcp.MethodGetTask
			if !modern {
				created := []byte(result(t, reply))
				id, _ = jsonrpc.Text(created, jsonrpc.Find(created, jsonrpc.Find(created, jsonrpc.Whole(created), "task"), "taskId"))
				method = mcp.MethodTaskResult
			}
			got := result(t, call(method, `{"taskId":"`+id+`"}`))
			if !strings.Contains(got, `"uri":"ui://dragoman-`+name+`/page"`) {
				t.Errorf("modern %t, %s: the result is %s", modern, name, got)
			}
		}
	}
}
