package dialect

import (
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

const dated = `"createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:40:00Z"`

// TestTaskForms checks the conversion of a task between 2025-11-25 and the tasks extension of
// 2026-07-28. The converted task has the member names of its new revision. Unknown members are
// unchanged.
func TestTaskForms(t *testing.T) {
	legacy := `{"taskId":"t","status":"working",` + dated + `,"ttl":60000,"pollInterval":50,"x":1e400}`
	modern := `{"resultType":"complete","taskId":"t","status":"completed",` + dated + `,"ttlMs":null,"pollIntervalMs":7,"result":{"content":[]},"x":1e400}`
	tests := []struct {
		name, in string
		to       mcp.Revision
		task     Task
		want     string
	}{
		{"to the extension", legacy, mcp.R20260728, Task{ID: "i"},
			`{"resultType":"complete","taskId":"i","status":"working",` + dated + `,"ttlMs":60000,"pollIntervalMs":50,"x":1e400}`},
		{"with its result", legacy, mcp.R20260728, Task{ID: "i", Status: mcp.TaskCompleted, Result: []byte(`{"a":1}`)},
			`{"resultType":"complete","taskId":"i","status":"completed",` + dated + `,"ttlMs":60000,"pollIntervalMs":50,"x":1e400,"result":{"a":1}}`},
		{"from the extension", modern, mcp.R20251125, Task{ID: "i", Status: mcp.TaskFailed},
			`{"taskId":"i","status":"failed",` + dated + `,"ttl":null,"pollInterval":7,"x":1e400}`},
		{"fractions", `{"status":"working",` + dated + `,"ttl":1.5,"pollInterval":0.5e3}`, mcp.R20260728, Task{ID: "i"},
			`{"resultType":"complete","taskId":"i","status":"working",` + dated + `,"ttlMs":1,"pollIntervalMs":0}`},
		{"no numbers", `{"status":"working",` + dated + `,"ttl":"long","pollInterval":{}}`, mcp.R20260728, Task{ID: "i"},
			`{"resultType":"complete","taskId":"i","status":"working",` + dated + `,"ttlMs":null}`},
	}
	for _, x := range tests {
		raw := []byte(x.in)
		if got := string(TaskState(x.to, raw, jsonrpc.Whole(raw), x.task)); got != x.want {
			t.Errorf("%s:\n got %s\nwant %s", x.name, got, x.want)
		}
	}
}

// TestCreatedTask checks the result for a new task. In the tasks extension, the task is the result
// itself. In 2025-11-25, it is the member "task" of the result. _meta appears once.
func TestCreatedTask(t *testing.T) {
	raw := []byte(`{"taskId":"t","status":"working",` + dated + `,"ttl":null,"_meta":{"y":1}}`)
	tests := map[mcp.Revision]string{
		mcp.R20260728: `{"resultType":"task","taskId":"i","status":"working",` + dated + `,"ttlMs":null,"_meta":{"y":1}}`,
		mcp.R20251125: `{"task":{"taskId":"i","status":"working",` + dated + `,"ttl":null},"_meta":{"y":1}}`,
	}
	for to, want := range tests {
		if got := string(CreatedTask(to, raw, jsonrpc.Whole(raw), []byte(`{"y":1}`), Task{ID: "i"})); got != want {
			t.Errorf("%s:\n got %s\nwant %s", to, got, want)
		}
	}
}

// TestTaskCapabilities checks that a client gets the capability for tasks only in the form that its
// revision defines.
func TestTaskCapabilities(t *testing.T) {
	requested := `{"tools":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}}}`
	directed := `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{},"x/y":{}}}`
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"modern of requested", extensionFor([]byte(requested)), `{"extensions":{"io.modelcontextprotocol/tasks":{}},"tools":{}}`},
		{"modern of none", extensionFor([]byte(`{"tasks":{"list":{}}}`)), `{"tasks":{"list":{}}}`},
		{"modern keeps its extensions", extensionFor([]byte(`{"tasks":{"requests":{"tools":{"call":{}}}},"extensions":{"x/y":{}}}`)), `{"extensions":{"io.modelcontextprotocol/tasks":{},"x/y":{}}}`},
		{"2025-11-25 of directed", legacyTasksFor(mcp.R20251125, []byte(directed)), `{"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}},` + directed[1:]},
		{"2025-06-18 of directed", legacyTasksFor(mcp.R20250618, []byte(directed)), directed},
		{"2025-06-18 of requested", legacyTasksFor(mcp.R20250618, []byte(requested)), `{"tools":{}}`},
		{"2025-11-25 of requested", legacyTasksFor(mcp.R20251125, []byte(requested)), requested},
	}
	for _, x := range tests {
		if string(x.got) != x.want {
			t.Errorf("%s:\n got %s\nwant %s", x.name, x.got, x.want)
		}
	}
}
