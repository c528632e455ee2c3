package console

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// searchTool is the definition of a tool with many kinds of arguments.
const searchTool = `{"name":"search","inputSchema":{"type":"object","required":["query"],"properties":{
	"query":{"type":"string","description":"Keywords or a quoted phrase.","minLength":1},
	"status":{"enum":["open","closed"],"default":"open"},
	"assignee":{"type":["string","null"]},
	"after":{"type":"string","format":"date"},
	"limit":{"type":"integer","minimum":1,"maximum":100,"default":10},
	"labels":{"type":"array","items":{"type":"string"}},
	"fields":{"type":"array","items":{"oneOf":[{"const":"id","title":"Number"},{"const":"title","title":"Title"}]}},
	"archived":{"type":"boolean"},
	"page":{"type":"object","properties":{"size":{"type":"integer"}}},
	"extra":{}}}}`

// onePixel is a PNG of one pixel in base64.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func init() {
	scenes["runs"] = func() scene {
		s := scene{report: admin.Report{Servers: []admin.Server{server("tickets", mcp.R20251125, 2)}}}
		tool := admin.Tool{Server: "tickets", Name: "search", Offered: "tickets__search", Signature: "search(query)", Effect: "read-only", State: "shown", Tokens: 90}
		wipe := admin.Tool{Server: "tickets", Name: "wipe", Offered: "tickets__wipe", Signature: "wipe()", Effect: "destructive", State: "shown", Tokens: 10, Needs: []string{"elicitation", "sampling"}}
		s.source.tools = []admin.ToolDetail{{Tool: tool, Returns: "content", Definition: json.RawMessage(searchTool)}, {Tool: wipe, Returns: "content", Definition: json.RawMessage(`{"name":"wipe","inputSchema":{"type":"object"}}`)}}
		now := time.Now().UTC()
		end, total := now.Add(2100*time.Millisecond), 8.0
		run := func(n int, state string) admin.Run {
			x := admin.Run{ID: fmt.Sprintf("1-%d", n), Server: "tickets", Method: "tools/call", Name: "search", Item: "search", Endpoint: "server", State: state, Started: now, Ends: now.Add(300 * time.Second), Seconds: 2.1, Revision: "2025-11-25", TraceID: "0af7651916cd43dd8448eb211c80319c", Arguments: json.RawMessage(`{"query":"label printer"}`)}
			if state != "running" && state != "waiting" {
				x.Ended = &end
			}
			return x
		}
		ends := func(n int, state, result string) admin.Run {
			x := run(n, state)
			x.Result, x.ResultBytes = json.RawMessage(result), len(result)
			return x
		}
		waiting := run(2, "waiting")
		waiting.Progress = &admin.Progress{Progress: 3, Total: &total, Message: "page 3"}
		waiting.Questions = []admin.Question{
			{ID: "q1", Message: "Which queue?\nOne of yours.", Schema: json.RawMessage(`{"type":"object","properties":{"queue":{"type":"string","title":"Queue","default":"ops"},"notify":{"type":"boolean","default":true}},"required":["queue"]}`)},
			{ID: "q2", Message: "Sign in.", URL: "http://login@xn--tickts-cva.example/start?x=<b>"},
		}
		waiting.Logs = []admin.RunLog{{Time: now, Level: "warning", Logger: "db", Text: "slow"}}
		failed := run(5, "failed")
		failed.Error = &admin.RunError{Code: -32602, Message: "unknown queue", Data: json.RawMessage(`{"queue":"x"}`), Failure: &failure.Failure{Action: "list the queues"}}
		prompt := ends(6, "succeeded", `{"messages":[{"role":"user","content":{"type":"text","text":"Summarise."}}]}`)
		prompt.Method, prompt.Name, prompt.Item = "prompts/get", "summary", "summary"
		resource := ends(7, "succeeded", `{"contents":[{"uri":"file:///a/b/note.txt","mimeType":"text/plain","text":"hello"},{"uri":"file:///x.bin","blob":"AAE="}]}`)
		resource.Method, resource.Name, resource.Item = "resources/read", "file:///a/b/note.txt", "file:///a/b/note.txt"
		omitted := run(8, "succeeded")
		omitted.Omitted, omitted.ResultBytes = []admin.Omitted{{Member: "content[0]", Type: "image", Bytes: 3 << 20}}, 3<<20
		s.source.runs = []admin.Run{
			run(1, "running"), waiting,
			ends(3, "succeeded", `{"content":[{"type":"text","text":"Two tickets."},{"type":"image","mimeType":"image/png","data":"`+onePixel+`"},{"type":"audio","mimeType":"audio/wav","data":"AAAA"},{"type":"resource_link","uri":"file:///t/1","name":"ticket 1","mimeType":"text/plain","size":120,"description":"About it."},{"type":"resource","resource":{"uri":"file:///t/1.svg","mimeType":"image/svg+xml","blob":"PHN2Zy8+"}},{"type":"image","mimeType":"image/png","data":"***"},{"type":"hologram"}],"structuredContent":{"n":2}}`),
			ends(4, "tool_error", `{"content":[{"type":"text","text":"No such queue."}],"isError":true}`), failed, prompt, resource, omitted,
		}
		s.source.calls = []admin.Call{{Number: 9, Outcome: "ok", Name: "search", Server: "tickets"}}
		s.source.examples = []admin.ExampleDetails{{
			Example: admin.Example{ID: "KEPT", Name: "Printers", Endpoint: "server", Server: "tickets", Method: "tools/call", Use: "search", Item: "search", Revision: "2026-07-28", Arguments: json.RawMessage(`{"query":"printer"}`), State: "succeeded", Made: now, By: "Ada"},
			Result:  json.RawMessage(`{"content":[{"type":"text","text":"One ticket."}]}`),
		}}
		s.source.logs = []admin.LogRecord{{ID: "1", Time: now, Level: "info", Source: "stderr", Text: "query took 2 s"}}
		return s
	}
	pagesOf["runs"] = []string{"/servers/tickets/tools/search", "/servers/tickets/tools/wipe", "/runs/1-1", "/runs/1-2", "/runs/1-3", "/runs/1-4", "/runs/1-5", "/runs/1-6", "/runs/1-7", "/runs/1-8", "/runs/none", "/playground", "/playground?kind=prompt", "/playground?kind=resource&q=x", "/playground?server=tickets&tool=search&at=project", "/playground?tool=search_tools&at=search", "/playground?server=tickets&resource=file:///a", "/playground?run=1-3", "/playground?run=none", "/playground?example=KEPT", "/playground/KEPT", "/playground/KEPT?run=1-3", "/playground/none"}
	scenes["runs-hostile"] = func() scene {
		s := scenes["hostile"]()
		quoted, _ := json.Marshal(hostile)
		h := string(quoted)
		definition := `{"name":` + h + `,"inputSchema":{"type":"object","required":[` + h + `],"properties":{` + h + `:{"type":"string","title":` + h + `,"description":` + h + `,"default":` + h + `,"pattern":` + h + `,"format":` + h + `},"e":{"enum":[` + h + `,"x"],"enumNames":[` + h + `]},"g":{"type":"object","properties":{` + h + `:{"type":"array","items":{"enum":[` + h + `]}}}}}}}`
		s.source.tools = []admin.ToolDetail{{Tool: admin.Tool{Server: hostile, Name: hostile, Offered: hostile, State: "shown", Effect: "destructive"}, Definition: json.RawMessage(definition)}}
		now := time.Now()
		result := `{"content":[{"type":"text","text":` + h + `},{"type":"image","mimeType":` + h + `,"data":"PGI+"},{"type":"image","mimeType":"text/html","data":"PGI+"},{"type":"resource_link","uri":` + h + `,"name":` + h + `,"description":` + h + `,"mimeType":` + h + `},{"type":"resource","resource":{"uri":` + h + `,"text":` + h + `,"mimeType":` + h + `}},{"type":` + h + `}],"structuredContent":{` + h + `:` + h + `}}`
		x := admin.Run{ID: "1-1", Server: hostile, Method: "tools/call", Name: hostile, State: "waiting", Started: now, Revision: "2025-11-25", TraceID: "0", Arguments: json.RawMessage(`{` + h + `:` + h + `}`), Result: json.RawMessage(result)}
		x.Progress = &admin.Progress{Progress: 1e300, Message: hostile}
		x.Questions = []admin.Question{{ID: "q1", Message: hostile, Schema: json.RawMessage(definition[strings.Index(definition, `{"type"`) : len(definition)-1])}, {ID: "q2", Message: hostile, URL: hostile}, {ID: "q3", URL: "javascript:alert(1)"}}
		x.Logs = []admin.RunLog{{Level: hostile, Logger: hostile, Text: hostile}}
		x.Error = &admin.RunError{Message: hostile, Data: json.RawMessage(h), Failure: &failure.Failure{Action: hostile}}
		x.Omitted = []admin.Omitted{{Member: hostile, Type: hostile}}
		x.Messages = []admin.RunMessage{{Sent: true, Text: hostile, Bytes: 9, Cut: true}}
		s.source.runs = []admin.Run{x}
		s.source.examples = []admin.ExampleDetails{{
			Example: admin.Example{ID: "KEPT", Name: hostile, Server: hostile, Method: "tools/call", Use: hostile, Item: hostile, Arguments: json.RawMessage(`{` + h + `:` + h + `}`), Secret: true, State: hostile, By: hostile},
			Result:  json.RawMessage(result),
		}}
		return s
	}
	pagesOf["runs-hostile"] = []string{hostileTool + "?run=1-1", "/runs/1-1", "/playground", "/playground?run=1-1", "/playground/KEPT?run=1-1"}
}

// post sends a form.
func (h *testConsole) post(target, sent string) (*http.Response, string) {
	h.t.Helper()
	r := h.request("POST", target, "Cookie", h.cookie, "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
	r.Body = readCloser{strings.NewReader(sent)}
	resp := newRecorder(h, r)
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp, string(out)
}

// play sends the form of a tool with a number that no other form has.
func (h *testConsole) play(tool, sent string) (*http.Response, string) {
	h.t.Helper()
	return h.post("/console/playground", url.Values{"server": {"tickets"}, "kind": {"tool"}, "name": {tool}, "number": {formNumber()}}.Encode()+"&"+sent)
}

// TestRunForm sends the form of a tool with the values that a browser sends. The form starts a run,
// shows the faults at their fields, or switches between fields and JSON.
func TestRunForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "runs")
		for _, c := range []struct {
			tool, sent string
			status     int
			did, page  string
		}{
			{"search", "do=run&v/query=label+printer&v/limit=5&v/labels=a%0D%0Ab&v/fields=%22id%22&v/archived=false&e/assignee=null&timeout=60&revision=2025-06-18", 303, `run tickets search {"query":"label printer","assignee":null,"limit":5,"labels":["a","b"],"fields":["id"],"archived":false} 2025-06-18 60 false`, ""},
			{"search", "do=run", 303, `run tickets search {}  0 false`, ""}, // the API checks the arguments
			{"search", "json=%7B%22query%22:+1.0%7D&unchecked=yes", 303, `run tickets search {"query": 1.0}  0 true`, ""},
			{"search", "do=run&v/query=a&v/limit=many", 422, "", `aria-invalid="true" aria-describedby="a5-s">`},
			{"search", "do=run&v/query=a&v/limit=many", 422, "", `<p class="err"><bdi>Must be an integer, such as 42</bdi>.</p>`},
			{"search", "do=run&v/query=a&v/limit=many", 422, "", `<li><a href="#a5"><bdi>limit</bdi></a> <bdi>must be an integer, such as 42</bdi>.</li>`},
			// All faults are reported at once, in the order of the fields.
			{"search", "do=run&v/limit=many", 422, "", `<li><a href="#a1"><bdi>query</bdi></a> <bdi>is missing</bdi>.</li><li><a href="#a5"><bdi>limit</bdi></a> <bdi>must be an integer, such as 42</bdi>.</li>`},
			{"search", "do=run&v/limit=many", 422, "", `<p class="err"><bdi>Is missing</bdi>.</p>`},
			{"search", "do=run&timeout=soon&v/limit=0", 422, "", `<b>The timeout must be a number of seconds from 1 to 3600.</b><ul><li><a href="#a1"><bdi>query</bdi></a> <bdi>is missing</bdi>.</li><li><a href="#a5"><bdi>limit</bdi></a> <bdi>must be at least 1</bdi>.</li></ul>`},
			{"search", "do=run&timeout=soon&v/limit=0", 422, "", `name="unchecked"`},
			{"search", "do=run&timeout=soon", 422, "", "The timeout must be a number of seconds"},
			{"search", "do=json&v/query=a%0D%0Ab&v/limit=007", 422, "", "must be an integer"},
			{"search", "do=json&v/query=a%0D%0Ab&v/limit=7", 200, "", html.EscapeString("{\n  \"query\": \"a\\nb\",\n  \"limit\": 7\n}")},
			{"search", "do=form&json=%7B%22query%22:%22x%22,%22archived%22:true%7D", 200, "", `value="true" checked`},
			{"search", "do=form&json=%7B%22other%22:1%7D", 200, "", "members that the schema does not list"},
			{"search", "do=form&json=%5B%5D", 422, "", "The text must be a JSON object"},
			{"wipe", "do=run", 422, "", "Confirm this first."},
			{"wipe", "do=run&confirm=yes", 303, "run tickets wipe {}  0 false", ""},
			{"none", "do=run", 404, "", "has the name"},
		} {
			h.source.did = nil
			resp, body := h.play(c.tool, c.sent)
			if did := strings.Join(h.source.did, "\n"); resp.StatusCode != c.status || did != c.did || !strings.Contains(body, c.page) {
				t.Errorf("%s: %d %s\n%s", c.sent, resp.StatusCode, did, body)
			}
			if resp.StatusCode == 303 && resp.Header.Get("Location") != "/console/runs/1-1" {
				t.Errorf("%s: %v", c.sent, resp.Header)
			}
		}
		h.source.refuse = &admin.Problem{Type: "arguments", Status: 422, Errors: []admin.ValueError{{Pointer: "/arguments/page/size", Detail: "must be at least 1"}, {Pointer: "/arguments/query", Detail: "is missing"}}}
		_, body := h.play("search", "do=run&v/page/size=0")
		for _, want := range []string{`<bdi>Must be at least 1</bdi>.</p>`, `<bdi>page/size</bdi></a> <bdi>must be at least 1`, `<a href="#a1"><bdi>query</bdi></a> <bdi>is missing`, `name="unchecked"`, `value="0"`} {
			if !strings.Contains(body, want) {
				t.Errorf("no %s in\n%s", want, body)
			}
		}
		h.source.refuse = &admin.Problem{Type: "too-many-runs", Status: 429, Detail: "16 runs are running."}
		if resp, body := h.play("search", "do=run"); resp.StatusCode != 429 || !strings.Contains(body, "<b>16 runs are running.</b>") {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		if resp, _ := h.play("search", "json="+strings.Repeat("x", maxForm)); resp.StatusCode != 413 {
			t.Errorf("a large form: %d", resp.StatusCode)
		}
	})
}

// TestRunAnswers checks the forms on the page of a run.
func TestRunAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "runs")
		for _, c := range []struct {
			sent      string
			status    int
			did, page string
		}{
			{"do=stop", 303, "cancel 1-2", ""},
			{"do=accept&question=q1&v/queue=net&v/notify=false", 303, `accept 1-2 q1 {"queue":"net","notify":false}`, ""},
			{"do=decline&question=q1&v/queue=net", 303, "decline 1-2 q1 ", ""},
			{"do=cancel&question=q2", 303, "cancel 1-2 q2 ", ""},
			{"do=accept&question=q2", 303, "accept 1-2 q2 ", ""},
			{"do=accept&question=q9", 303, "", ""},
			{"do=json&question=q1&v/queue=net", 200, "", html.EscapeString("{\n  \"queue\": \"net\"\n}")},
			{"do=accept&question=q1&j/queue=%7B", 422, "", "is not valid JSON"},
			{"do=accept&question=q1&j/notify=%7B", 422, "", `<bdi>is missing</bdi>.</li><li><a href="#q1-2"><bdi>notify</bdi></a> <bdi>is not valid JSON`},
		} {
			h.source.did = nil
			resp, body := h.post("/console/runs/1-2", c.sent)
			if did := strings.Join(h.source.did, "\n"); resp.StatusCode != c.status || did != c.did || !strings.Contains(body, c.page) {
				t.Errorf("%s: %d %q\n%s", c.sent, resp.StatusCode, did, body)
			}
		}
		h.source.refuse = &admin.Problem{Type: "content", Status: 422, Errors: []admin.ValueError{{Pointer: "/content/queue", Detail: "is missing"}}}
		if resp, body := h.post("/console/runs/1-2", "do=accept&question=q1"); resp.StatusCode != 422 || !strings.Contains(body, `<a href="#q1-1"><bdi>queue</bdi></a> <bdi>is missing</bdi>`) {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		h.source.did = nil
		if resp, _ := h.ask("POST", "/console/runs/1-2?do=stop", "Sec-Fetch-Site", "cross-site"); resp.StatusCode != 403 || len(h.source.did) > 0 {
			t.Errorf("another site: %d %v", resp.StatusCode, h.source.did)
		}
		if resp, _ := h.ask("GET", "/console/runs/1-2?do=stop&question=q1"); resp.StatusCode != 200 || len(h.source.did) > 0 {
			t.Errorf("a link changes a run: %d %v", resp.StatusCode, h.source.did)
		}
		if resp, _ := h.post("/console/runs/none", "do=stop"); resp.StatusCode != 404 {
			t.Errorf("%d", resp.StatusCode)
		}
	})
}

// TestRunParts checks how the data of a result is served: pictures and sounds of known types in the
// page, and everything else only as a file without a type.
func TestRunParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			scene, path string
			status      int
			kind, how   string
			size        int
		}{
			{"runs", "1-3/parts/2", 200, "image/png", "inline; filename=result-2.png", 70},
			{"runs", "1-3/parts/2?download=1", 200, "image/png", "attachment; filename=result-2.png", 70},
			{"runs", "1-3/parts/3", 200, "audio/wav", "inline; filename=result-3.wav", 3},
			{"runs", "1-3/parts/5", 200, "application/octet-stream", "attachment; filename=1.svg", 6},
			{"runs", "1-3/parts/1", 404, "", "", 0},
			{"runs", "1-3/parts/6", 404, "", "", 0},
			{"runs", "1-3/parts/0", 404, "", "", 0},
			{"runs", "1-3/parts/99", 404, "", "", 0},
			{"runs", "1-1/parts/1", 404, "", "", 0},
			{"runs", "none/parts/1", 404, "", "", 0},
			{"runs", "1-7/parts/1", 200, "application/octet-stream", "attachment; filename=note.txt", 5},
			{"runs", "1-7/parts/2", 200, "application/octet-stream", "attachment; filename=x.bin", 2},
			{"runs", "1-4/result.json", 200, "application/json", `attachment; filename="run-1-4.json"`, 68},
			{"runs", "1-1/result.json", 404, "", "", 0},
			{"runs-hostile", "1-1/parts/2", 200, "application/octet-stream", "attachment; filename=result-2.bin", 3},
			{"runs-hostile", "1-1/parts/3", 200, "application/octet-stream", "attachment; filename=result-3.bin", 3},
			{"runs-hostile", "1-1/parts/5", 200, "application/octet-stream", "attachment; filename=result-5.txt", len(hostile)},
		} {
			h := stage(t, c.scene)
			resp, body := h.ask("GET", "/console/runs/"+c.path)
			if resp.StatusCode != c.status || c.status == 200 && (resp.Header.Get("Content-Type") != c.kind || resp.Header.Get("Content-Disposition") != c.how || len(body) != c.size || resp.Header.Get("X-Content-Type-Options") != "nosniff") {
				t.Errorf("%s: %d %v %d bytes", c.path, resp.StatusCode, resp.Header, len(body))
			}
			if strings.Contains(c.path, "parts") && c.status == 200 && !strings.HasPrefix(resp.Header.Get("Content-Security-Policy"), "default-src 'none'; sandbox") {
				t.Errorf("%s: %s", c.path, resp.Header.Get("Content-Security-Policy"))
			}
			if resp, _ := h.ask("GET", "/console/runs/"+c.path, "Cookie", ""); resp.StatusCode != 401 {
				t.Errorf("%s without a session: %d", c.path, resp.StatusCode)
			}
		}
	})
}

// TestLargeForms checks that the page of a tool stays small and fast for hostile schemas.
func TestLargeForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "runs")
		var many strings.Builder
		for i := range 10_000 {
			fmt.Fprintf(&many, `"p%d":{"type":"string"},`, i)
		}
		for name, s := range map[string]string{
			"10,000 members": `{"properties":{` + strings.TrimSuffix(many.String(), ",") + `}}`,
			"500 levels":     strings.Repeat(`{"properties":{"a":`, 500) + "{}" + strings.Repeat("}}", 500),
			"recursive":      `{"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"},"c":{"$ref":"#"}}}`,
		} {
			h.source.tools[0].Definition = json.RawMessage(`{"name":"search","inputSchema":` + s + `}`)
			resp, body := h.ask("GET", "/console/servers/tickets/tools/search")
			if resp.StatusCode != 200 || len(body) > 200_000 || !strings.Contains(body, `name="do" value="run"`) {
				t.Errorf("%s: %d, %d bytes", name, resp.StatusCode, len(body))
			}
			h.source.did = nil
			if resp, _ := h.play("search", url.Values{"do": {"run"}, "json": {`{"a":{"b":1}}`}}.Encode()); resp.StatusCode != 303 || len(h.source.did) != 1 || !strings.Contains(h.source.did[0], `{"a":{"b":1}}`) {
				t.Errorf("%s: %d %v", name, resp.StatusCode, h.source.did)
			}
		}
	})
}

// TestExamplePage keeps a run, compares it with another one, runs it again and removes it. No snippet has a key.
func TestExamplePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "runs")
		_, page := h.ask("GET", "/console/playground/KEPT?run=1-3")
		for _, want := range []string{"One", "ticket", "<ins>", "Bearer $DRAGOMAN_KEY", "process.env.DRAGOMAN_KEY", `os.Getenv(&#34;DRAGOMAN_KEY&#34;)`, "dragoman call", " --revision 2026-07-28<", "Mcp-Method: tools/call"} {
			if !strings.Contains(page, want) {
				t.Errorf("no %s in\n%s", want, page)
			}
		}
		for _, c := range []struct{ path, sent, to, did string }{
			{"runs/1-3/keep", "name=Printers&number=A", "/console/playground/KEPT", "keep 1-3 Printers"},
			{"runs/1-3/keep", "name=Printers&number=A", "/console/playground/KEPT", ""}, // sent twice, it acts once
			{"playground/KEPT", "do=run&number=B", "/console/playground/KEPT?run=1-3", "run example KEPT"},
			{"playground/KEPT", "do=run&number=B", "/console/playground/KEPT?run=1-3", ""},
			{"playground/KEPT", "do=remove&number=C", "/console/playground", "remove example KEPT"},
		} {
			h.source.did = nil
			resp, _ := h.post("/console/"+c.path, c.sent)
			if did := strings.Join(h.source.did, "\n"); resp.StatusCode != 303 || resp.Header.Get("Location") != c.to || did != c.did {
				t.Errorf("%s %s: %d %v %q", c.path, c.sent, resp.StatusCode, resp.Header, did)
			}
		}
	})
}
