package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// tasking is a legacy server that turns every call into a task with a ttl of one minute.
func tasking() *program {
	return &program{legacy: true, on: func(l *process, m *jsonrpc.Message) []byte {
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

// about sends a request about the task "t" to the given session.
func about(t *testing.T, u *Upstream, f *mcp.ClientInfo, method string, session uint64) (*mcp.Reply, error) {
	raw := `{"jsonrpc":"2.0","id":8,"method":"` + method + `","params":{"taskId":"t"}}`
	m, err := jsonrpc.Scan([]byte(raw), jsonrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	a := mcp.NewAttempt(mcp.NewCall(m, m.Param(mcp.KeyMeta), f))
	a.Session = session
	l, err := u.Acquire(t.Context(), f, mcp.Need{Session: session})
	if err != nil {
		return nil, err
	}
	defer l.Release()
	return l.Call(t.Context(), a, mcp.NoCaller{})
}

// TestTasksOutliveTheirCall checks a server with one process per call. The process of a task
// lives as long as the task, and gets only requests about the task. Tasks never prevent calls
// of other clients.
func TestTasksOutliveTheirCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := tasking()
		u := h.open(Spec{Isolation: PerCall})
		defer u.Close(context.Background())
		f := info(mcp.R20251125, "", canElicit, 1)
		defer u.Subscribe(f, func(*jsonrpc.Message) {}, nil).Close()
		about := func(session uint64) (*mcp.Reply, error) { return about(t, u, f, mcp.MethodGetTask, session) }
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
			t.Fatalf("there are %d processes", h.alive())
		}
		for i, session := range made {
			r, err := about(session)
			if err != nil || string(r.Msg.ResultMember("process").Of(r.Msg.Raw)) != fmt.Sprint(i) {
				t.Errorf("task %d: %v", i, err)
			}
		}
		for range maxSessionsPerPool + 5 {
			if _, err := call(t, u, f, "tools/call", `{"name":"may","arguments":{}}`); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if h.alive() > maxSessionsPerPool {
			t.Errorf("there are %d processes", h.alive())
		}
		time.Sleep(taskRest + time.Minute)
		synctest.Wait()
		if h.alive() != 0 {
			t.Errorf("%d processes are left", h.alive())
		}
		if _, err := about(made[0]); err == nil {
			t.Error("a task exists although its process has ended")
		}
	})
}

// TestTasksOfATool checks that Dragoman reads the task support of a tool from the server's list,
// but only if the server supports tasks.
func TestTasksOfATool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := tasking()
		u := h.open(Spec{})
		defer u.Close(context.Background())
		f := info(mcp.R20260728, "", "{}", 0)
		for tool, want := range map[string]mcp.TaskSupport{"must": mcp.TaskRequired, "may": mcp.TaskOptional, "not": mcp.TaskForbidden, "none": mcp.TaskForbidden} {
			l, err := u.Acquire(t.Context(), f, mcp.Need{})
			if err != nil {
				t.Fatal(err)
			}
			if form, got := l.Tasks(), l.Tool(t.Context(), tool).Support; form != mcp.RequestedTasks || got != want {
				t.Errorf("%s: %d, %d", tool, form, got)
			}
			l.Release()
		}
		plain := &program{legacy: true}
		v := plain.open(Spec{})
		defer v.Close(context.Background())
		for range 2 {
			if form := v.Tasks(t.Context(), f); form != mcp.NoTasks {
				t.Errorf("a tool of a server without tasks has the support %d", form)
			}
		}
		if plain.count(mcp.MethodListTools) != 0 {
			t.Error("the tool list was read without need")
		}
	})
}

// TestU09_TaskResultOfAStoppedServerEnds checks that a request for a task's result fails when
// Dragoman ends a server that has stopped answering, although such a request has no timeout.
func TestU09_TaskResultOfAStoppedServerEnds(t *testing.T) {
	h := tasking()
	usual := h.on
	var still atomic.Bool
	h.on = func(l *process, m *jsonrpc.Message) []byte {
		if still.Load() || m.Method == mcp.MethodTaskResult {
			return silent
		}
		return usual(l, m)
	}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		r, err := call(t, u, legacyClient, "tools/call", `{"name":"may","arguments":{}}`)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute) // wait until the watch timer of the call has stopped
		var over atomic.Bool
		var wait sync.WaitGroup
		wait.Go(func() {
			_, err = about(t, u, legacyClient, mcp.MethodTaskResult, r.Session)
			over.Store(true)
		})
		time.Sleep(10 * time.Minute)
		if over.Load() {
			t.Fatalf("the request for a running task was given up: %v", err)
		}
		still.Store(true)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if !over.Load() {
			t.Error("the request is still waiting")
			u.Close(t.Context())
		}
		if wait.Wait(); err == nil {
			t.Error("the request has an answer")
		}
	})
}

// TestTaskLifetimeIsBounded checks that Dragoman keeps the session of a task for at least taskLife
// if the ttl is null, or too large for a time.Duration.
func TestTaskLifetimeIsBounded(t *testing.T) {
	for _, ttl := range []string{"9007199254740991", "9223372036854775807", "18446744073709551616", "null", "1e15"} {
		h := tasking()
		usual := h.on
		h.on = func(l *process, m *jsonrpc.Message) []byte {
			if m.Method == mcp.MethodCallTool {
				return ok(m, `{"task":{"taskId":"t","status":"working","ttl":`+ttl+`}}`)
			}
			return usual(l, m)
		}
		bubble(t, h, Spec{Isolation: PerCall}, func(t *testing.T, u *Upstream) {
			if _, err := call(t, u, legacyClient, "tools/call", `{"name":"may","arguments":{}}`); err != nil {
				t.Fatal(err)
			}
			time.Sleep(taskLife - time.Minute)
			synctest.Wait()
			if h.alive() != 1 {
				t.Errorf("ttl %s: there are %d processes", ttl, h.alive())
			}
		})
	}
}

// TestTasksOfALostSession checks an HTTP server that has forgotten the session of a task. Dragoman
// sends the request in another session, because the server may still know the task.
func TestTasksOfALostSession(t *testing.T) {
	var opened, made atomic.Int64
	var forgot atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
		if r.Method != http.MethodPost || err != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch session := r.Header.Get("Mcp-Session-Id"); {
		case m.Method == mcp.MethodInitialize:
			w.Header().Set("Mcp-Session-Id", fmt.Sprint(opened.Add(1)))
			_, _ = w.Write(ok(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"h","version":"1"}}`))
		case session != fmt.Sprint(opened.Load()) || forgot.Load() && session == "1":
			w.WriteHeader(http.StatusNotFound)
		case m.Kind != jsonrpc.Request:
			w.WriteHeader(http.StatusAccepted)
		case m.Method == mcp.MethodCallTool:
			made.Add(1)
			_, _ = w.Write(ok(m, `{"task":{"taskId":"t","status":"working","ttl":60000}}`))
		default:
			_, _ = w.Write(ok(m, `{"taskId":"t","status":"working","ttl":60000}`))
		}
	}))
	defer web.Close()
	u := New(Spec{Name: "web", URL: web.URL, Kind: "http", Pin: mcp.R20251125}, Options{})
	defer u.Close(t.Context())
	r, err := call(t, u, legacyClient, "tools/call", `{"name":"may","arguments":{}}`)
	if err != nil || r.CreatedTask().IsZero() {
		t.Fatal(err)
	}
	forgot.Store(true)
	for range 2 {
		if r, err := about(t, u, legacyClient, mcp.MethodGetTask, r.Session); err != nil || r.Code() != 0 {
			t.Fatalf("a request after the session was lost: %v", err)
		}
	}
	if opened.Load() != 2 || made.Load() != 1 {
		t.Errorf("%d sessions were opened and %d tasks created", opened.Load(), made.Load())
	}
}

// TestTasksOfAnotherPrincipalAreNotFound checks that a client that guesses the number of another
// principal's session cannot get the task.
func TestTasksOfAnotherPrincipalAreNotFound(t *testing.T) {
	h := tasking()
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		alice := info(mcp.R20251125, "alice", canElicit, 1)
		r, err := call(t, u, alice, "tools/call", `{"name":"may","arguments":{}}`)
		if err != nil {
			t.Fatal(err)
		}
		for _, stranger := range []string{"", "bob"} {
			if _, err := about(t, u, info(mcp.R20251125, stranger, canElicit, 2), mcp.MethodGetTask, r.Session); err == nil {
				t.Errorf("a request of %q has an answer", stranger)
			}
		}
		if _, err := about(t, u, alice, mcp.MethodGetTask, r.Session); err != nil {
			t.Error(err)
		}
	})
}

// TestAskingForTasksStartsNoProcess checks a server with one process per call. To find out whether
// the server supports tasks, Dragoman does not start an additional process for each call.
func TestAskingForTasksStartsNoProcess(t *testing.T) {
	h := tasking()
	bubble(t, h, Spec{Isolation: PerCall}, func(t *testing.T, u *Upstream) {
		for range 4 {
			if form := u.Tasks(t.Context(), legacyClient); form != mcp.RequestedTasks {
				t.Fatalf("the form of tasks is %d", form)
			}
			if _, err := call(t, u, legacyClient, "tools/call", `{"name":"may","arguments":{}}`); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(h.all()); n > 5 {
			t.Errorf("there are %d processes for four calls", n)
		}
	})
}
