package upstream

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// tasking is a legacy server whose every call becomes a task of a minute.
func tasking() *house {
	return &house{legacy: true, on: func(l *line, m *jsonrpc.Message) []byte {
		const task = `{"taskId":"t","status":"working","ttl":60000}`
		switch m.Method {
		case mcp.MethodInitialize:
			return ok(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"h","version":"1"}}`)
		case mcp.MethodListTools:
			return ok(m, `{"tools":[{"name":"must","execution":{"taskSupport":"required"}},{"name":"may","execution":{"taskSupport":"optional"}},{"name":"not"}]}`)
		case mcp.MethodCallTool:
			return ok(m, `{"task":`+task+`}`)
		case mcp.MethodGetTask:
			return ok(m, fmt.Sprintf(`{"taskId":"t","status":"working","ttl":60000,"process":%d}`, l.n))
		}
		return nil
	}}
}

// TestTasksOutliveTheirCall: where each call has a process of its own, that of a task
// is there for as long as the task, alone is asked about it, and ends then; and tasks
// never keep others from calling.
func TestTasksOutliveTheirCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := tasking()
		u := h.open(Spec{Isolation: PerCall})
		defer u.Close(context.Background())
		f := facts(mcp.R20251125, "", canElicit, 1)
		defer u.Stand(f, func(*jsonrpc.Message) {}, nil).Close()
		about := func(session uint64) (*mcp.Reply, error) {
			raw := `{"jsonrpc":"2.0","id":8,"method":"tasks/get","params":{"taskId":"t"}}`
			m, err := jsonrpc.Scan([]byte(raw), jsonrpc.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			c := mcp.NewCall(m, m.Param(mcp.KeyMeta), f)
			c.Session = session
			return u.Call(t.Context(), c, sink{})
		}
		var made []uint64
		for range 3 {
			r, err := call(t, u, f, "tools/call", `{"name":"may","arguments":{}}`)
			if err != nil || r.Session == 0 {
				t.Fatal(err, r)
			}
			made = append(made, r.Session)
		}
		time.Sleep(30 * time.Second)
		if h.alive() != 3 {
			t.Fatalf("%d processes are there", h.alive())
		}
		for i, session := range made {
			r, err := about(session)
			if err != nil || string(r.Msg.ResultMember("process").Of(r.Msg.Raw)) != fmt.Sprint(i) {
				t.Errorf("task %d: %v", i, err)
			}
		}
		for range maxLanes + 5 {
			if _, err := call(t, u, f, "tools/call", `{"name":"may","arguments":{}}`); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if h.alive() > maxLanes {
			t.Errorf("%d processes are there", h.alive())
		}
		time.Sleep(taskRest + time.Minute)
		synctest.Wait()
		if h.alive() != 0 {
			t.Errorf("%d processes are left", h.alive())
		}
		if _, err := about(made[0]); err == nil {
			t.Error("a task whose process has ended is there")
		}
	})
}

// TestTasksOfATool: what a tool says of tasks is known where the server has them,
// and asked for nowhere else.
func TestTasksOfATool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := tasking()
		u := h.open(Spec{})
		defer u.Close(context.Background())
		f := facts(mcp.R20260728, "", "{}", 0)
		for tool, want := range map[string]mcp.TaskSupport{"must": mcp.TaskRequired, "may": mcp.TaskOptional, "not": mcp.TaskForbidden, "none": mcp.TaskForbidden} {
			if form, got := u.Tasks(t.Context(), f, tool); form != mcp.RequestedTasks || got != want {
				t.Errorf("%s: %d, %d", tool, form, got)
			}
		}
		plain := &house{legacy: true}
		v := plain.open(Spec{})
		defer v.Close(context.Background())
		for range 2 {
			if form, _ := v.Tasks(t.Context(), f, "must"); form != mcp.NoTasks {
				t.Errorf("a server without tasks has %d", form)
			}
		}
		if plain.count(mcp.MethodListTools) != 0 {
			t.Error("its tools were read for nothing")
		}
	})
}
