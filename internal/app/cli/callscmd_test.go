package cli

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// testCalls returns calls of each outcome, the newest first.
func testCalls() []admin.Call {
	cursor := admin.CallClient{Name: "Cursor", Version: "1.7.40", Revision: "2025-06-18"}
	return []admin.Call{
		{Number: 12, Outcome: admin.OutcomeRunning, Client: cursor, Server: "browser", Revision: "2025-06-18", Method: "tools/call", Name: "browser__open", Target: "open", Started: noon.Add(time.Minute), Seconds: 61.2, In: 100, Requests: 1},
		{Number: 11, Outcome: "ok", Client: admin.CallClient{Name: "客户端"}, Method: "tools/list", Started: noon, Seconds: 0.0004, In: 46, Out: 2768, Requests: 1},
		{Number: 10, Outcome: "tool_error", ToolError: true, Reason: "no such file: \"a\"\x1b[2J, and the folder has no file whose name begins with this letter either", Client: cursor, Server: "files", Revision: "2025-06-18", Method: "resources/read", Name: "files:///a\x1b[2J", Started: noon, Seconds: 0.0123, Requests: 1},
		{Number: 9, Outcome: "unknown", Cause: "timeout", Code: -32603, Reason: "server did not answer in 1m", Client: cursor, Server: "a-server-with-a-long-name", Revision: "2025-06-18", Method: "tools/call", Name: "x", Started: noon, Seconds: 60, Requests: 1},
		{Number: 8, Outcome: "ok", Client: cursor, Server: "releases", Revision: "2026-07-28", Method: "tools/call", Name: "releases__publish", Target: "publish", Started: noon, Seconds: 7.86, Requests: 2,
			Losses: []admin.CallLoss{{What: "structuredContent", Why: "only objects"}}, Missed: true},
	}
}

// TestCalls checks the table and the JSON that the command prints, and the request that it sends.
func TestCalls(t *testing.T) {
	stub := &adminStub{report: testReport(), calls: testCalls()}
	var out syncBuffer
	c := &callsCommand{world: &world{stdout: &out, status: newStatus(&syncBuffer{}, false, noEnv)}, lines: 50}
	if err := c.printCalls(t.Context(), stub.running(), c.callPrinter(time.UTC)); err != nil {
		t.Fatal(err)
	}
	golden(t, "calls.txt", out.take())
	for width, file := range map[int]string{60: "calls-60.txt", 80: "calls-80.txt", 141: "calls-141.txt"} {
		c.screen, c.width = true, width
		if err := c.printCalls(t.Context(), stub.running(), c.callPrinter(time.UTC)); err != nil {
			t.Fatal(err)
		}
		golden(t, file, out.take())
	}

	web := httptest.NewServer(stub)
	defer web.Close()
	address := strings.TrimPrefix(web.URL, "http://")
	text, said, code := invoke("calls", "--server", "files", "--client", "Cursor", "--outcome", "ok", "--search", "a b", "--method", "tools/call", "-n", "7", "--json", "--listen", address)
	asked := stub.requests()
	if code != 0 || said != "" || asked[len(asked)-1] != "/api/v1/calls?client=Cursor&limit=7&method=tools%2Fcall&outcome=ok&q=a+b&server=files" {
		t.Errorf("%d %s %q", code, said, asked)
	}
	var first admin.Call
	if err := json.Unmarshal([]byte(text[:strings.IndexByte(text, '\n')]), &first); err != nil || first.Number != 8 {
		t.Errorf("the first line is %v, %v", first, err)
	}
	stub.set(func() { stub.calls = nil })
	if text, said, code = invoke("calls", "--listen", address); code != 0 || text != "" || !strings.Contains(said, "no calls") {
		t.Errorf("without calls: %d %q %q", code, text, said)
	}
	if text, said, code = invoke("calls", "--client", "Cursr", "--listen", address); code != 0 || text != "" || !strings.Contains(said, "no call matches") {
		t.Errorf("a client without calls: %d %q %q", code, text, said)
	}
	if text, said, code = invoke("calls", "--server", "filez", "--listen", address); code != 2 || text != "" || !strings.Contains(said, `no server named "filez"`) {
		t.Errorf("an unknown server: %d %q %q", code, text, said)
	}
	for _, args := range [][]string{{"calls", "--outcome", "fail"}, {"calls", "-n", "-1"}, {"calls", "github"}} {
		if _, said, code := invoke(args...); code != 2 || said == "" {
			t.Errorf("%q: %d %s", args, code, said)
		}
	}
}

// TestFollowCalls checks that -f prints each call that ends.
func TestFollowCalls(t *testing.T) {
	text := ""
	for _, c := range testCalls()[1:] {
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		text += string(eventstream.AppendEvent(nil, "a-"+c.Started.Format("5"), admin.EventCall, data))
	}
	stub := &adminStub{report: testReport(), streams: []string{text + "event: end\ndata: {}\n\n"}}
	var out, said syncBuffer
	c := &callsCommand{world: &world{stdout: &out, status: newStatus(&said, false, noEnv)}, asJSON: true}
	if err := (&stream{from: stub.running(), path: "/api/v1/calls/stream", take: taking(admin.EventCall, c.callPrinter(time.UTC))}).follow(t.Context(), c.world); err != nil {
		t.Error(err)
	}
	if got := out.take(); strings.Count(got, "\n") != 4 || !strings.Contains(got, `"name":"releases__publish"`) {
		t.Errorf("printed:\n%s", got)
	}
}

// TestWhoseCall checks that a row and the story of a call name the key or the person.
func TestWhoseCall(t *testing.T) {
	t.Parallel()
	x := admin.Call{Number: 1, Outcome: "ok", Client: admin.CallClient{Name: "Cursor", Version: "1", Who: "laptop\x1b[2J"}, Method: "tools/list"}
	if got := callRow(&x, time.UTC, 0)[4].Text; got != "laptop\x1b[2J: Cursor" {
		t.Errorf("%q", got)
	}
	table := callTable(false, 0)
	table.Rows = [][]screen.Cell{callRow(&x, time.UTC, 0)}
	if text := table.Text(); strings.Contains(text, "\x1b") || !strings.Contains(text, "laptop") {
		t.Errorf("%q", text)
	}
}
