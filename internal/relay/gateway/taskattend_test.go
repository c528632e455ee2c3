package gateway

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// taskServer is a legacy server. Its task needs input until the field over is set. The server
// answers tasks/result when the channel end is closed.
type taskServer struct {
	*fake
	over   bool
	onLook func()
	end    chan struct{} // closed to let tasks/result return
}

func newTaskServer(t *testing.T) *taskServer {
	x := &taskServer{fake: requestedTaskServer("one"), end: make(chan struct{}), onLook: func() {}}
	x.call = func(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
		task := aTask
		switch a.Msg.Method {
		case mcp.MethodTaskResult:
			select {
			case <-x.end:
				return resultReply(mcp.R20251125, `{"content":[]}`), nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		case mcp.MethodGetTask:
			x.onLook()
			task = strings.Replace(aTask, "working", "input_required", 1)
			if x.over {
				task = strings.Replace(aTask, "working", "completed", 1)
			}
		}
		reply := resultReply(mcp.R20251125, `{"task":{`+task+`},`+task+`}`)
		reply.Session = 5
		return reply, nil
	}
	return x
}

// begin creates a task and returns the parameters of a poll, without the closing brace.
func (x *taskServer) begin(t *testing.T, g *Single) (get string) {
	t.Helper()
	reply, err := g.Call(t.Context(), taskCall(t, "", "tools/call", `{"name":"star"}`), &recordingCaller{})
	if err != nil {
		t.Fatal(err)
	}
	return `{"taskId":"` + text(t, reply, "taskId") + `"`
}

// TestPollGivenUpAsTheTaskEnds cancels a poll at the moment when the task's result arrives. The
// client always gets either the result or an error.
func TestPollGivenUpAsTheTaskEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 30 { // the order of the two events is random
			x := newTaskServer(t)
			g := &Single{Bridge: &bridge.Bridge{}, Upstream: x}
			get := x.begin(t, g) + `}`
			if _, err := g.Call(t.Context(), taskCall(t, "", "tasks/get", get), &recordingCaller{}); err != nil {
				t.Fatal(err)
			}
			close(x.end)
			synctest.Wait()
			ctx, give := context.WithCancel(t.Context())
			x.over, x.onLook = true, give
			reply, err := g.Call(ctx, taskCall(t, "", "tasks/get", get), &recordingCaller{})
			if reply == nil && err == nil {
				t.Fatal("neither an answer nor an error")
			}
			g.Bridge.Close()
		}
	})
}

// TestAttendedTasksAreCounted checks that the message budget counts the request that an
// attended task keeps, for as long as the task keeps it.
func TestAttendedTasksAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTaskServer(t)
		b := transport.NewBudget(1 << 20)
		g := &Single{Bridge: &bridge.Bridge{Budget: b}, Upstream: x}
		defer g.Bridge.Close()
		get := x.begin(t, g) + `,"_meta":{"x":"` + strings.Repeat("x", 100_000) + `"}}`
		for range 3 {
			if _, err := g.Call(t.Context(), taskCall(t, "", "tasks/get", get), &recordingCaller{}); err != nil {
				t.Fatal(err)
			}
		}
		if held := b.State().Held; held < 100_000 || held > 150_000 {
			t.Errorf("while the task waits, the budget counts %d bytes", held)
		}
		close(x.end)
		synctest.Wait()
		x.over = true
		if _, err := g.Call(t.Context(), taskCall(t, "", "tasks/get", get), &recordingCaller{}); err != nil {
			t.Fatal(err)
		}
		if held := b.State().Held; held != 0 {
			t.Errorf("after the task has ended, the budget counts %d bytes", held)
		}

		x.over, x.end = false, make(chan struct{})
		for _, end := range []func(){func() { time.Sleep(stateTTL + 1) }, g.Bridge.Close} {
			if _, err := g.Call(t.Context(), taskCall(t, "", "tasks/get", get), &recordingCaller{}); err != nil {
				t.Fatal(err)
			}
			end()
			synctest.Wait()
			if held := b.State().Held; held != 0 {
				t.Errorf("after the client stopped polling, the budget counts %d bytes", held)
			}
		}
	})
}

// TestErrorOfATaskHasACodeOfTheClients checks the error of a legacy server's failed task. A modern
// client that polls the task gets the same error code as for a failed call.
func TestErrorOfATaskHasACodeOfTheClients(t *testing.T) {
	x := newTaskServer(t)
	x.over = true
	call := x.call
	x.call = func(ctx context.Context, a *mcp.Attempt, k mcp.Caller) (*mcp.Reply, error) {
		if a.Msg.Method != mcp.MethodTaskResult {
			return call(ctx, a, k)
		}
		const raw = `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m"}}`
		m, err := jsonrpc.Scan([]byte(raw), jsonrpc.Limits{})
		return &mcp.Reply{Msg: m, From: mcp.R20251125}, err
	}
	g := &Single{Bridge: &bridge.Bridge{}, Upstream: x}
	defer g.Bridge.Close()
	reply, err := g.Call(t.Context(), taskCall(t, "", "tasks/get", x.begin(t, g)+`}`), &recordingCaller{})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(reply.Msg.ResultMember("error").Of(reply.Msg.Raw)); !strings.Contains(got, `"code":-32603`) || !strings.Contains(got, `"upstreamCode":-32022`) {
		t.Errorf("the task's error is %s in %s", got, reply.Msg.Raw)
	}
}
