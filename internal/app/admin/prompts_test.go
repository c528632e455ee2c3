package admin

import (
	"fmt"
	"strings"
	"testing"
)

// TestPrompts writes, publishes, activates and puts off prompts through the API, and asks for what can't be: each
// has a sentence and a next step, and changes nothing.
func TestPrompts(t *testing.T) {
	t.Parallel()
	r := serving(t)
	r.put("shop", "")
	state := func(project string) string {
		var all Prompts
		r.tell("GET", "/prompts?project="+project, "", 200, &all)
		var b strings.Builder
		for _, x := range all.Prompts {
			fmt.Fprintf(&b, "%s %d %d %t %s; ", x.Name, x.Newest, x.Published, x.Active, x.Description)
		}
		return b.String()
	}
	const review = `{"name":"review","description":"Look","text":"Look at {{change}}","arguments":[{"name":"change","values":["a","b"]}]}`
	for _, c := range []struct {
		path, body string
		status     int
		want       string // a part of the answer
		state      string
	}{
		{"", review, 201, `"newest": 1`, "review 1 0 false Look; "},
		{"/review/activate", "", 409, "Publish one first.", "review 1 0 false Look; "},
		{"/review/publish", "{}", 200, `"published": 1`, "review 1 1 false Look; "},
		{"/review/activate", "", 422, "has the argument change, and instructions can't have arguments. Use a version without arguments.", "review 1 1 false Look; "},
		{"", `{"name":"review","text":"Look at it"}`, 201, `"newest": 2`, "review 2 1 false Look; "},
		{"/review/publish", `{"version":3}`, 404, "The prompt review has no version 3; the newest is 2.", "review 2 1 false Look; "},
		{"/review/publish", `{"version":-1}`, 404, "no version -1", "review 2 1 false Look; "},
		{"/review/publish", `{"version":2}`, 200, `"published": 2`, "review 2 2 false ; "},
		{"/review/activate", "", 200, `"active": true`, "review 2 2 true ; "},
		{"/review/publish", `{"version":1}`, 422, "has the argument change", "review 2 2 true ; "},
		{"/reveiw/publish", `{}`, 404, `Did you mean \"review\"?`, "review 2 2 true ; "},
		{"/reveiw/activate", ``, 404, `Did you mean \"review\"?`, "review 2 2 true ; "},
		{"/reveiw/off", ``, 404, `Did you mean \"review\"?`, "review 2 2 true ; "},
		{"", `{"name":"review","text":"Look at {{it}}"}`, 422, "The text has {{it}}, and the argument it isn't declared. Declare the argument, or remove it from the text.", "review 2 2 true ; "},
		{"", `{"name":"review","text":"Look at {{it"}`, 422, "The text has {{ without }} after it", "review 2 2 true ; "},
		{"", `{"name":"Review","text":"x"}`, 422, `can't be the name of a prompt. Use 1 to 64 small letters`, "review 2 2 true ; "},
		{"", `{"name":"review"}`, 422, "text is empty", "review 2 2 true ; "},
		{"", `{"name":"review","text":1}`, 400, "invalid", "review 2 2 true ; "},
		{"/review/off", "", 200, `"published": 0`, "review 2 0 false ; "},
		{"/review/off", "", 200, `"published": 0`, "review 2 0 false ; "},
	} {
		a := r.do("POST", "/api/v1/prompts"+c.path, c.body, "Content-Type", "application/json")
		if a.status != c.status || !strings.Contains(a.body, c.want) {
			t.Errorf("%s %s: %d %s", c.path, c.body, a.status, a.body)
		}
		if got := state("default"); got != c.state {
			t.Errorf("%s %s: %q", c.path, c.body, got)
		}
	}
	if got := state("shop"); got != "" {
		t.Errorf("another project has %q", got)
	}
	var x PromptDetails
	r.tell("GET", "/prompts/review", "", 200, &x)
	if len(x.Versions) != 2 || x.Versions[0].Text != "Look at it" || x.Versions[1].Text != "Look at {{change}}" || fmt.Sprint(x.Versions[1].Arguments) != "[{change  [a b]}]" {
		t.Errorf("%+v", x)
	}
	r.tell("GET", "/prompts/review?before=2&limit=1", "", 200, &x)
	if len(x.Versions) != 1 || x.Versions[0].Version != 1 {
		t.Errorf("%+v", x)
	}
	for path, status := range map[string]int{"/prompts/none": 404, "/prompts/review?limit=0": 400, "/prompts/review?before=x": 400, "/prompts/review?project=shop": 404} {
		if a := r.do("GET", "/api/v1"+path, ""); a.status != status {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}
