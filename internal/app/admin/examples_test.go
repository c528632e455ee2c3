package admin

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/server/demo"
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
