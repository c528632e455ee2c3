package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/server/demo"
)

// run starts a run and returns it.
func (r *rig) run(server, body string) (out Run) {
	r.t.Helper()
	a := r.do(http.MethodPost, "/api/v1/servers/"+server+"/runs", body, "Content-Type", "application/json")
	if a.into(r.t, &out); a.status != http.StatusAccepted || out.ID == "" {
		r.t.Fatalf("%s: %d %s", body, a.status, a.body)
	}
	return out
}

func (r *rig) runNow(id string) (out Run) {
	r.t.Helper()
	r.do(http.MethodGet, "/api/v1/runs/"+id, "").into(r.t, &out)
	return out
}

// ended waits until a run has ended, and returns it.
func (r *rig) ended(id string) (out Run) {
	r.t.Helper()
	await(r.t, "the run has ended", func() bool {
		out = r.runNow(id)
		return out.Ended != nil
	})
	return out
}

func (r *rig) answer(id, body string) reply {
	r.t.Helper()
	return r.do(http.MethodPost, "/api/v1/runs/"+id+"/answers", body, "Content-Type", "application/json")
}

// TestRuns runs tools, prompts and resources of servers of both eras, with progress. The results
// and errors must be the same as those that a client gets.
func TestRuns(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "old", demo.Legacy), demoServer(t, "new", demo.Modern))
	r.ready("old", "new")
	for _, c := range []struct{ server, body, state, want string }{
		{"old", `{"tool":"greet","arguments":{"name":"W\u00f6rld 1e400"}}`, "succeeded", "Wörld 1e400"},
		{"new", `{"tool":"add","arguments":{"a":1,"b":41}}`, "succeeded", "42"},
		{"old", `{"prompt":"haiku","arguments":{"topic":"rain"}}`, "succeeded", "rain"},
		{"old", `{"resource":"demo://clock"}`, "succeeded", "demo://clock"},
		{"old", `{"tool":"greet","unchecked":true}`, "", "name"},
		{"old", `{"tool":"nothing"}`, "failed", ""},
		{"old", `{"resource":"demo://nothing"}`, "failed", ""},
		{"old", `{"tool":"greet","arguments":{"name":"x"},"revision":"2024-11-05"}`, "succeeded", "x"},
	} {
		x := r.ended(r.run(c.server, c.body).ID)
		text, _ := json.Marshal(x)
		if x.State != c.state && c.state != "" || !strings.Contains(string(text), c.want) || x.Seconds <= 0 || x.Server != c.server || len(x.TraceID) != 32 {
			t.Errorf("%s: %s", c.body, text)
		}
		if x.State == "failed" && (x.Error == nil || x.Error.Code == 0 || x.Error.Message == "") {
			t.Errorf("%s: %s", c.body, text)
		}
	}
	x := r.run("old", `{"tool":"count","arguments":{"to":3,"delayMs":1}}`)
	next, progress, resumeAt := r.events("/api/v1/runs/"+x.ID+"/stream"), 0, ""
	for e := next(); e.Name != EventEnd; e = next() {
		switch e.Name {
		case EventProgress:
			var p Progress
			if err := json.Unmarshal(e.Data, &p); err != nil || p.Progress < 1 || p.Total == nil || *p.Total != 3 {
				t.Errorf("%v %s", err, e.Data)
			}
			progress++
			resumeAt = e.ID
		case EventResult:
			var end Run
			if err := json.Unmarshal(e.Data, &end); err != nil || end.State != "succeeded" || end.Progress == nil || end.ResultBytes == 0 || end.Result != nil {
				t.Errorf("%v %s", err, e.Data)
			}
		default:
			t.Errorf("event %s", e.Name)
		}
	}
	if progress == 0 {
		t.Error("no progress")
	}
	if e := r.events("/api/v1/runs/"+x.ID+"/stream", "Last-Event-ID", resumeAt)(); e.Name != EventResult {
		t.Errorf("resumed after the last progress: %s", e.Name)
	}
	if a := r.do(http.MethodGet, "/api/v1/runs/"+x.ID+"/result", ""); a.status != 200 || !strings.Contains(a.body, `"content":[`) || strings.Contains(a.body, "\n") {
		t.Errorf("the bytes of the result: %d %s", a.status, a.body)
	}
	var all Runs
	r.do(http.MethodGet, "/api/v1/runs?limit=2", "").into(t, &all)
	if all.Total != 9 || len(all.Runs) != 2 || all.Runs[0].ID != x.ID || all.Next == "" || all.Runs[0].Result != nil {
		t.Errorf("%+v", all)
	}
	// Runs that have ended leave no clients in the list.
	var clients Clients
	if r.get("/api/v1/clients", &clients); clients.Total != 0 {
		t.Errorf("clients of runs that have ended: %+v", clients)
	}
}

// TestRunQuestion answers, declines and cancels a question from a server of each era. The API
// refuses an answer that is not valid, and keeps the question open.
func TestRunQuestion(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "old", demo.Legacy), demoServer(t, "new", demo.Modern))
	r.ready("old", "new")
	waiting := func(server, body string) (id string, q Question) {
		t.Helper()
		x := r.run(server, body)
		next := r.events("/api/v1/runs/" + x.ID + "/stream")
		e := next()
		for e.Name != EventQuestion {
			if e.Name == EventEnd {
				t.Fatalf("no question: %+v", r.runNow(x.ID))
			}
			e = next()
		}
		if err := json.Unmarshal(e.Data, &q); err != nil || q.ID == "" || q.Message == "" || len(q.Schema) == 0 {
			t.Fatalf("%v %s", err, e.Data)
		}
		if x = r.runNow(x.ID); x.State != "waiting" || len(x.Questions) != 1 || x.Questions[0].ID != q.ID {
			t.Errorf("%+v", x)
		}
		return x.ID, q
	}
	id, q := waiting("old", `{"tool":"ask_name"}`)
	for body, want := range map[string]int{
		`{"id":"` + q.ID + `","action":"accept","content":{}}`:         422,
		`{"id":"` + q.ID + `","action":"accept","content":{"name":7}}`: 422,
		`{"id":"` + q.ID + `","action":"accept","content":[]}`:         400,
		`{"id":"` + q.ID + `","action":"accept"}`:                      400,
		`{"id":"` + q.ID + `","action":"maybe"}`:                       400,
		`{"id":"` + q.ID + `","action":"decline","content":{}}`:        400,
		`{"id":"q99","action":"decline"}`:                              409,
		`{"id":"` + q.ID + `","action":"decline","more":1}`:            400,
		`not JSON`: 400,
		`{"id":"` + q.ID + `","x":"` + strings.Repeat("x", maxRunBody) + `"}`: 413,
	} {
		if a := r.answer(id, body); a.status != want {
			t.Errorf("%.80s: %d %s", body, a.status, a.body)
		}
	}
	var p Problem
	r.answer(id, `{"id":"`+q.ID+`","action":"accept","content":{"name":7}}`).into(t, &p)
	if len(p.Errors) != 1 || p.Errors[0].Pointer != "/content/name" || !strings.Contains(p.Errors[0].Detail, "must be a string") {
		t.Errorf("%+v", p)
	}
	if a := r.answer(id, `{"id":"`+q.ID+`","action":"accept","content":{"name":"Ada"}}`); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if x := r.ended(id); x.State != "succeeded" || !strings.Contains(string(x.Result), "Ada") || len(x.Questions) != 0 {
		t.Errorf("%+v", x)
	}
	if a := r.answer(id, `{"id":"`+q.ID+`","action":"decline"}`); a.status != 409 {
		t.Errorf("answered twice: %d", a.status)
	}
	for _, action := range []string{"decline", "cancel"} {
		id, q := waiting("new", `{"tool":"confirm","arguments":{"action":"paint the bridge"}}`)
		if a := r.answer(id, `{"id":"`+q.ID+`","action":"`+action+`"}`); a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
		if x := r.ended(id); x.State == "cancelled" || x.State == "timeout" {
			t.Errorf("%s: %+v", action, x)
		}
	}
}

// TestRunEnds ends a run in each possible way: a DELETE cancels the run, the timeout of the run
// expires, an operator restarts the server, or the API closes. After the restart, a run on the
// other server succeeds.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "old", demo.Legacy), demoServer(t, "new", demo.Modern))
	r.ready("old", "new")
	const long = `{"tool":"count","arguments":{"to":1000,"delayMs":10000}`
	x := r.run("old", long+`}`)
	if a := r.do(http.MethodDelete, "/api/v1/runs/"+x.ID, ""); a.status != http.StatusAccepted {
		t.Errorf("%d %s", a.status, a.body)
	}
	if x = r.ended(x.ID); x.State != "cancelled" || x.Error == nil {
		t.Errorf("%+v", x)
	}
	if x = r.ended(r.run("old", long+`,"timeout":1}`).ID); x.State != "timeout" || x.Error == nil {
		t.Errorf("%+v", x)
	}
	x = r.run("old", `{"tool":"ask_name"}`)
	await(t, "the question is there", func() bool { return r.runNow(x.ID).State == "waiting" })
	r.do(http.MethodPost, "/api/v1/servers/old/restart", "")
	if x = r.ended(x.ID); x.State != "failed" || x.Error.Failure == nil || x.Error.Failure.Class != "stopped" {
		t.Errorf("%+v, %+v", x, x.Error)
	}
	await(t, "the server is ready again", func() bool { return r.state("old") == "ready" })
	if x = r.ended(r.run("new", `{"tool":"add","arguments":{"a":1,"b":2}}`).ID); x.State != "succeeded" {
		t.Errorf("the other server: %+v", x)
	}
	r.run("old", long+`}`) // closing the API ends this run
}

// TestRunAttacks checks that the API refuses invalid requests, large requests, and more requests than
// it permits. Another client can still make calls.
func TestRunAttacks(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "old", demo.Legacy))
	r.ready("old")
	start := func(body string, header ...string) reply {
		t.Helper()
		return r.do(http.MethodPost, "/api/v1/servers/old/runs", body, append([]string{"Content-Type", "application/json"}, header...)...)
	}
	for body, want := range map[string]int{
		``:                                  400,
		`[]`:                                400,
		`{}`:                                400,
		`{"tool":"greet","prompt":"haiku"}`: 400,
		`{"tool":"greet","arguments":[1]}`:  400,
		`{"tool":"greet","arguments":{"name":7}}`: 422,
		`{"tool":"greet","arguments":{}}`:         422,
		`{"tool":"greet","timeout":-1}`:           400,
		`{"tool":"greet","timeout":3601}`:         400,
		`{"tool":"greet","capabilities":["x"]}`:   400,
		`{"tool":"greet","endpoint":"search"}`:    400,
		`{"tool":"greet","revision":"x"}`:         400,
		`{"tool":"greet","more":true}`:            400,
		`{"tool":"greet"}{"tool":"greet"}`:        400,
		`{"tool":"greet","arguments":` + strings.Repeat(`{"a":`, 5000) + `1` + strings.Repeat("}", 5000) + `}`: 400,
		`{"tool":"` + strings.Repeat("x", maxRunBody) + `"}`:                                                   413,
	} {
		if a := start(body); a.status != want || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%.60s: %d %.200s", body, a.status, a.body)
		}
	}
	for _, id := range []string{"x", "0-1", "..%2f..", strings.Repeat("9", 4000), "%00"} {
		if a := r.do(http.MethodGet, "/api/v1/runs/"+id, ""); a.status != 404 {
			t.Errorf("run %.20s: %d", id, a.status)
		}
	}
	if a := r.do(http.MethodPost, "/api/v1/servers/old/runs", `{"tool":"greet"}`, "Content-Type", "text/plain"); a.status != 415 {
		t.Errorf("a form on another site can start a run: %d", a.status)
	}
	if a := start(`{"tool":"greet","arguments":{"name":"x"}}`, "Sec-Fetch-Site", "cross-site"); a.status != 403 {
		t.Errorf("cross-site: %d", a.status)
	}
	// Start the largest allowed number of runs, and then one more.
	var ids []string
	for range mostRuns {
		ids = append(ids, r.run("old", `{"tool":"count","arguments":{"to":1000,"delayMs":10000}}`).ID)
	}
	if a := start(`{"tool":"greet","arguments":{"name":"x"}}`); a.status != 429 || !strings.Contains(a.body, "too-many-runs") || a.header.Get("Retry-After") != "5" {
		t.Errorf("one more: %d %s", a.status, a.body)
	}
	// Open more streams than are allowed, and read none of them.
	refused := 0
	for range mostRunStreams + 8 {
		resp := r.open(t.Context(), http.MethodGet, "/api/v1/runs/"+ids[0]+"/stream", "", "Authorization", r.key())
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			refused++
		}
	}
	if refused != 8 {
		t.Errorf("%d streams were refused", refused)
	}
	// Another client of the same server can still make a call.
	if a := r.ask(http.MethodPost, "/s/old/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"innocent"}}}`, "Content-Type", "application/json", "Accept", "application/json, text/event-stream"); !strings.Contains(a.body, "innocent") {
		t.Errorf("an innocent client: %s", a.body)
	}
	var wait sync.WaitGroup
	for _, id := range ids {
		wait.Go(func() { r.do(http.MethodDelete, "/api/v1/runs/"+id, "") })
	}
	wait.Wait()
	for _, id := range ids {
		r.ended(id)
	}
	if x := r.ended(r.run("old", `{"tool":"greet","arguments":{"name":"x"}}`).ID); x.State != "succeeded" {
		t.Errorf("after all: %+v", x)
	}
}

// TestKeepResultOfManyMembers checks that the list of omitted members is bounded when a result has
// very many members.
func TestKeepResultOfManyMembers(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"content":[{"type":"text","text":"` + strings.Repeat("y", keptResult-60) + `"}]`)
	for i := range 100_000 {
		fmt.Fprintf(&b, `,"member%d":1`, i)
	}
	kept, omitted := keepResult([]byte(b.String() + "}"))
	if len(kept) > keptResult+1024 || !json.Valid(kept) || len(omitted) != mostOmitted {
		t.Errorf("%d bytes are kept, %d members are named", len(kept), len(omitted))
	}
}

// TestKeepResult checks that the API cuts a large result between its items. The kept part is
// valid, and a list describes the omitted items.
func TestKeepResult(t *testing.T) {
	text := func(n int) string { return `{"type":"text","text":"` + strings.Repeat("x", n) + `"}` }
	small := `{"content":[` + text(10) + `]}`
	if kept, omitted := keepResult([]byte(small)); string(kept) != small || omitted != nil {
		t.Errorf("%s %v", kept, omitted)
	}
	large := `{"content":[` + text(10) + `,` + text(2<<20) + `,` + text(20) + `],"isError":true,"structuredContent":{"x":"` + strings.Repeat("y", 2<<20) + `"}}`
	kept, omitted := keepResult([]byte(large))
	if want := `{"content":[` + text(10) + `,` + text(20) + `],"isError":true}`; string(kept) != want {
		t.Errorf("kept %.300s", kept)
	}
	if got := fmt.Sprint(omitted); !strings.Contains(got, "content[1] text 2097") || !strings.Contains(got, "structuredContent") || len(omitted) != 2 {
		t.Errorf("omitted %s", got)
	}
	if kept, omitted := keepResult([]byte(`{"other":"` + strings.Repeat("y", 2<<20) + `"}`)); kept != nil || len(omitted) != 1 {
		t.Errorf("%.40s %v", kept, omitted)
	}
}

// TestRunsAreTrimmed checks that the API keeps a limited number of runs, and never drops a run
// that is still running.
func TestRunsAreTrimmed(t *testing.T) {
	var s runs
	first := &run{events: NewRing[runEvent](1, 1)}
	if s.add(first) != nil {
		t.Fatal("refused")
	}
	for range 2 * keptRuns {
		x := &run{events: NewRing[runEvent](1, 1)}
		if s.add(x) != nil {
			t.Fatal("refused")
		}
		x.end(runSucceeded, make([]byte, 1000), nil, nil)
		s.trim()
	}
	if len(s.all) != keptRuns+1 || s.all[0] != first { // one run is still running
		t.Errorf("%d are kept", len(s.all))
	}
	for range 40 {
		x := &run{events: NewRing[runEvent](1, 1)}
		_ = s.add(x)
		x.end(runSucceeded, make([]byte, keptResult), nil, nil)
		s.trim()
	}
	held := 0
	for _, x := range s.all {
		n, _ := x.held()
		held += n
	}
	if held > keptResults || s.all[0] != first {
		t.Errorf("%d bytes are held", held)
	}
}

// TestRunForPeople starts, reads, answers and cancels runs with the functions that the console's
// pages use. These functions do not change the bytes of the arguments and the result, except secrets.
func TestRunForPeople(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "old", demo.Legacy))
	r.ready("old")
	const arguments = `{ "name":"<W\u00f6rld>" }`
	local := RunBy{Who: identity.Local.Running(identity.Console)}
	x, bad := r.api.StartRun(t.Context(), local, "old", RunRequest{Tool: "greet", Arguments: json.RawMessage(arguments)})
	if bad != nil || x.ID == "" || string(x.Arguments) != arguments {
		t.Fatalf("%+v %v", x, bad)
	}
	r.ended(x.ID)
	if x, bad = r.api.FindRun(x.ID); bad != nil || x.State != "succeeded" || string(x.Arguments) != arguments || !strings.Contains(string(x.Result), `\u003cWörld\u003e`) {
		t.Errorf("%+v %v", x, bad)
	}
	x, _ = r.api.StartRun(t.Context(), local, "old", RunRequest{Tool: "greet", Arguments: json.RawMessage(`{"name":"hunter2-secret"}`)})
	r.ended(x.ID)
	for range 2 { // the second call returns the stored masked result
		if x, _ := r.api.FindRun(x.ID); strings.Contains(string(x.Result)+string(x.Arguments), "hunter2") || !strings.Contains(string(x.Result), "***") {
			t.Errorf("a secret of the configuration: %s %s", x.Result, x.Arguments)
		}
	}
	if _, bad := r.api.StartRun(t.Context(), local, "old", RunRequest{Tool: "greet", Arguments: json.RawMessage(`{"name":7}`)}); bad == nil || bad.Status != 422 || len(bad.Errors) != 1 || bad.Errors[0].Pointer != "/arguments/name" {
		t.Errorf("arguments that do not fit: %+v", bad)
	}
	if _, bad := r.api.StartRun(t.Context(), RunBy{}, "old", RunRequest{Tool: "greet"}); bad == nil || bad.Status != 401 {
		t.Errorf("nobody: %+v", bad)
	}
	if _, bad := r.api.StartRun(t.Context(), local, "none", RunRequest{Tool: "greet"}); bad == nil || bad.Status != 404 {
		t.Errorf("no such server: %+v", bad)
	}
	x, bad = r.api.StartRun(t.Context(), local, "old", RunRequest{Tool: "ask_name"})
	if bad != nil {
		t.Fatal(bad)
	}
	await(t, "the question is there", func() bool {
		x, bad = r.api.FindRun(x.ID)
		return bad == nil && len(x.Questions) == 1
	})
	if x, bad = r.api.AnswerRun(t.Context(), local, x.ID, RunAnswer{ID: x.Questions[0].ID, Action: "accept", Content: json.RawMessage(`{"name":"Ada"}`)}); bad != nil {
		t.Errorf("%+v", bad)
	}
	r.ended(x.ID)
	if _, bad = r.api.CancelRun(x.ID); bad != nil {
		t.Errorf("%+v", bad)
	}
	if _, bad = r.api.CancelRun("x"); bad == nil || bad.Status != 404 {
		t.Errorf("%+v", bad)
	}
	all, one := r.api.FindRuns("", "", 10), r.api.FindRuns("old", "greet", 10)
	if len(all) != 3 || all[0].Name != "ask_name" || len(one) != 2 || one[0].Name != "greet" || one[0].Result != nil || len(r.api.FindRuns("", "", 1)) != 1 {
		t.Errorf("%+v %+v", all, one)
	}
}

// TestRunLogs checks that a run keeps only its last log messages, limited in number and in bytes.
func TestRunLogs(t *testing.T) {
	t.Parallel()
	x := &run{events: NewRing[runEvent](1, 1)}
	for i := range 3 * keptLogs {
		x.keepLog(RunLog{Level: "info", Text: fmt.Sprint("line ", i)})
	}
	if n := len(x.show.Logs); n != keptLogs || x.show.Logs[n-1].Text != fmt.Sprint("line ", 3*keptLogs-1) {
		t.Errorf("%d messages, the last is %q", n, x.show.Logs[n-1].Text)
	}
	for range keptLogs {
		x.keepLog(RunLog{Text: strings.Repeat("x", maxRunText)})
	}
	if n, _ := x.held(); n > keptLogBytes || n != x.logBytes || len(x.show.Logs) != keptLogBytes/maxRunText {
		t.Errorf("%d bytes of %d messages", n, len(x.show.Logs))
	}
}
