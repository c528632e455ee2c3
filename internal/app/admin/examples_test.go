package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/server/demo"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// TestExamples keeps a run of a client of the newest revision at the endpoint of all servers, and runs it again: the
// same client sends the same call. A key for the project sees it, and what is removed is gone.
func TestExamples(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "old", demo.Legacy), demoServer(t, "new", demo.Modern))
	r.ready("old", "new")
	var x, again Run
	r.tell(http.MethodPost, "/runs", `{"tool":"new__add","arguments":{"a":1,"b":41},"revision":"`+mcp.Latest.String()+`","capabilities":["roots"]}`, http.StatusAccepted, &x)
	x = r.ended(x.ID)
	if x.State != runSucceeded || x.Endpoint != AtProject || x.Server != "new" || x.Item != "add" || x.Name != "new__add" || !strings.Contains(string(x.Result), "42") {
		t.Fatalf("%+v %s", x, x.Result)
	}
	call := func(x *Run) string {
		for _, m := range x.Messages {
			if m.Sent && strings.Contains(m.Text, mcp.MethodCallTool) {
				return strings.Replace(m.Text, x.TraceID, "TRACE", 1)
			}
		}
		t.Fatalf("no call in %+v", x.Messages)
		return ""
	}
	if sent := call(&x); !strings.Contains(sent, `"roots":{}`) || strings.Contains(sent, "elicitation") || !strings.Contains(sent, mcp.Latest.String()) {
		t.Errorf("the client says of itself %s", sent)
	}
	var kept Example
	r.tell(http.MethodPost, "/examples", `{"run":"`+x.ID+`","name":"Sum"}`, http.StatusCreated, &kept)
	var with ExampleDetails
	if r.tell(http.MethodGet, "/examples/"+strings.ToLower(kept.ID[:6]), "", http.StatusOK, &with); with.ID != kept.ID || with.Name != "Sum" || string(with.Result) != string(x.Result) {
		t.Errorf("%+v %s", with, with.Result)
	}
	r.tell(http.MethodPost, "/examples/"+kept.ID+"/runs", "", http.StatusAccepted, &again)
	again = r.ended(again.ID)
	cut := func(text string) string { // the span of the call differs, as well as the trace
		before, after, _ := strings.Cut(text, "TRACE-")
		return before + after[16:]
	}
	if cut(call(&again)) != cut(call(&x)) || string(again.Result) != string(x.Result) {
		t.Errorf("another call:\n%s\n%s", call(&x), call(&again))
	}
	r.tell(http.MethodDelete, "/examples/"+kept.ID, "", http.StatusOK, &kept)
	if a := r.do(http.MethodGet, "/api/v1/examples/"+kept.ID, ""); a.status != http.StatusNotFound {
		t.Errorf("%d %s", a.status, a.body)
	}
	for body, want := range map[string]int{
		`{"run":"none"}`: 404,
		`{"run":"` + x.ID + `","name":"` + strings.Repeat("n", maxExampleName+1) + `"}`: 422,
		`{"run":"` + x.ID + `","name":"a\nb"}`:                                          422,
	} {
		if a := r.do(http.MethodPost, "/api/v1/examples", body, "Content-Type", "application/json"); a.status != want {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
}

// TestDemoServers runs a tool of each demo server as a client of each revision, and answers a question of each. What we
// show of the client's wire is what the client has recorded. A kept run gives the same call after a restart.
func TestDemoServers(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, demo.Legacy, demo.Legacy), demoServer(t, demo.Modern, demo.Modern))
	r.ready(demo.Legacy, demo.Modern)
	for server, c := range map[string]struct{ run, want, ask, answer, heard string }{
		demo.Legacy: {`"tool":"greet","arguments":{"name":"Ada"}`, "Hello, Ada!", `"tool":"ask_name"`, `{"name":"Ada"}`, "nice to meet you, Ada"},
		demo.Modern: {`"tool":"add","arguments":{"a":1,"b":41}`, "42", `"tool":"confirm","arguments":{"action":"paint"}`, "", "paint"},
	} {
		for _, revision := range mcp.Dates(mcp.Revisions()) {
			as := `,"revision":"` + revision + `"}`
			x := r.ended(r.run(server, "{"+c.run+as).ID)
			if x.State != runSucceeded || !strings.Contains(string(x.Result), c.want) {
				t.Errorf("%s of %s: %s %s", revision, server, x.State, x.Result)
			}
			r.sameWire(&x)
			id := r.run(server, "{"+c.ask+as).ID
			await(t, "a question for a client of "+revision+" from "+server, func() bool { return len(r.runNow(id).Questions) > 0 })
			q, content := r.runNow(id).Questions[0], c.answer
			if content == "" {
				content = answerTo(t, q.Schema)
			}
			if a := r.answer(id, `{"id":"`+q.ID+`","action":"accept","content":`+content+`}`); a.status != http.StatusOK {
				t.Errorf("%s of %s: %d %s for %s", revision, server, a.status, a.body, q.Schema)
			}
			asked := r.ended(id)
			if asked.State != runSucceeded || !strings.Contains(string(asked.Result), c.heard) {
				t.Errorf("%s of %s: %s %s %+v", revision, server, asked.State, asked.Result, asked.Error)
			}
			r.sameWire(&asked)
			var kept Example
			r.tell(http.MethodPost, "/examples", `{"run":"`+x.ID+`"}`, http.StatusCreated, &kept)
		}
	}
	db, err := store.Open(t.Context(), store.Options{Database: r.api.exampleAPI.safe.Store().State().Database})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	o := r.api.opts
	o.Safe = store.NewSafe(db, vault.New(vault.Options{}))
	after := New(o)
	defer after.Close()
	all, bad := after.KeptExamples()
	if bad != nil || len(all.Examples) != 2*len(mcp.Revisions()) {
		t.Fatalf("%v, %d examples", bad, len(all.Examples))
	}
	for _, e := range all.Examples {
		x, bad := after.RunExample(t.Context(), RunBy{Who: identity.Local.Running(identity.Console)}, e.ID)
		if bad != nil {
			t.Fatal(bad)
		}
		await(t, "the end of an example", func() bool { x, _ = after.FindRun(x.ID); return x.Ended != nil })
		kept, _ := after.KeptExample(t.Context(), e.ID)
		if x.Revision != e.Revision || x.Server != e.Server || string(x.Arguments) != string(e.Arguments) || string(x.Result) != string(kept.Result) {
			t.Errorf("%+v: %s, kept %s", e, x.Result, kept.Result)
		}
	}
}

// answerTo returns an answer to a form of one field.
func answerTo(t *testing.T, form json.RawMessage) string {
	t.Helper()
	for key, field := range jsonrpc.ValueOf(form).Get("properties").Members() {
		value := "true"
		if field.Get("type").Is("string") {
			value = `"yes"`
		}
		return "{" + string(key.Raw()) + ":" + value + "}"
	}
	return "{}"
}

// sameWire compares what the client of a run has recorded with what the record of its call has of the client's wire.
func (r *rig) sameWire(x *Run) {
	r.t.Helper()
	found := r.api.CallsOf(CallQuery{Text: x.TraceID, Limit: 1}).Calls
	if len(found) != 1 {
		r.t.Fatalf("no call of the run %+v", x)
	}
	s, _ := r.api.StoryOf(found[0].Number)
	var shown, recorded strings.Builder
	for _, m := range s.Messages {
		if m.Wire == WireClient {
			fmt.Fprintln(&shown, m.Direction == "received", m.Text)
		}
	}
	call := false
	for _, m := range x.Messages {
		if call = call || strings.Contains(m.Text, x.TraceID); call {
			fmt.Fprintln(&recorded, m.Sent, m.Text)
		}
	}
	if shown.String() != recorded.String() || recorded.Len() == 0 {
		r.t.Errorf("a client of %s has recorded\n%s\nand we show\n%s", x.Revision, &recorded, &shown)
	}
}

// TestQuestionsOfAClient checks what a server gets for what a person answers in place of a client.
func TestQuestionsOfAClient(t *testing.T) {
	for _, c := range []struct{ kind, action, content, want string }{
		{QuestionSampling, "accept", `{"text":"hi \u0041"}`, `{"role":"assistant","content":{"type":"text","text":"hi \u0041"},"model":"a person at the console","stopReason":"endTurn"}`},
		{QuestionSampling, "accept", `{"text":"hi","model":"m"}`, `{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m","stopReason":"endTurn"}`},
		{QuestionSampling, "decline", ``, ``},
		{QuestionRoots, "accept", `{"roots":["file:///a","file:///b"]}`, `{"roots":[{"uri":"file:///a"},{"uri":"file:///b"}]}`},
		{QuestionRoots, "accept", `{"roots":[]}`, `{"roots":[]}`},
		{QuestionRoots, "cancel", ``, ``},
		{QuestionLink, "accept", ``, `{"action":"accept"}`},
		{QuestionForm, "accept", `{"a":1.0}`, `{"action":"accept","content":{"a":1.0}}`},
		{QuestionForm, "decline", ``, `{"action":"decline"}`},
	} {
		if got := string(resultFor(&Question{Kind: c.kind}, c.action, []byte(c.content))); got != c.want {
			t.Errorf("%s %s %s: %s", c.kind, c.action, c.content, got)
		}
	}
}
