//go:build unix

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// TestQuestionsCommand answers the questions of a client that can't ask anybody: a confirmation, forms and links, in
// scripts and at a terminal, and makes the mistakes that people make. All that is printed is compared with a golden
// file.
func TestQuestionsCommand(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	u := newUser(t)
	server, err := fake.NewServer("strict-2025-11-25", fake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(server.Handler())
	t.Cleanup(func() {
		_ = server.Close()
		web.Close()
	})
	u.write("dragoman.yaml", "mcpServers: {fake: {url: \""+web.URL+"/mcp\"}}\ndragoman: {questions: console, policy: [{match: fake/echo, do: confirm}]}\n")
	at := u.serve("--listen", anyPort)
	c, err := fake.OpenClient(t.Context(), "strict-2025-03-26", fake.Where{URL: "http://" + at + "/mcp"}, fake.ClientOptions{Without: []string{"elicitation"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	var b strings.Builder
	id := "" // of the question that waits
	give := func(typed, stdin, line string) {
		args := strings.Fields(strings.ReplaceAll(line, "ID", id[:min(8, len(id))]))
		var out, said syncBuffer
		a := &app{world: world{backend: Daemon(), stdin: strings.NewReader(stdin), stdout: &out, env: u.env, program: "dragoman", status: newStatus(&said, false, noEnv)}}
		if typed != "" {
			in := strings.NewReader(typed)
			a.interactive, a.openInput = true, func() (io.ReadCloser, error) { return io.NopCloser(in), nil }
		}
		code := a.main(args)
		text := out.take() + said.take()
		if id != "" {
			text = strings.ReplaceAll(strings.ReplaceAll(text, id, "ID"), id[:8], "ID")
		}
		fmt.Fprintf(&b, "$ dragoman %s\n%s", line, text)
		if code != exitOK {
			fmt.Fprintf(&b, "exit %d\n", code)
		}
	}
	give("", "", "questions")
	for _, x := range []struct {
		tool, args string
		do         []struct{ typed, stdin, line string }
	}{
		{"echo", `{"text":"x"}`, []struct{ typed, stdin, line string }{
			{"", "", "questions"}, {"", "", "questions show ID"}, {"", "", "questions answer ID"}, {"", "", "questions answer ID --accept a=b"}, {"", "", "questions answer ID --content {}"},
			{"", "", "questions show none"}, {"", "", "questions answer"}, {"c\n", "", "questions answer ID"}, {"\n\nc\n", "", "questions answer ID"}, {"", "", "questions answer ID --yes"}, {"", "", "questions answer ID --yes"},
		}},
		{"echo", `{"text":"x"}`, []struct{ typed, stdin, line string }{{"", "", "questions decline ID"}, {"", "", "questions decline ID"}}},
		{"elicit", `{}`, []struct{ typed, stdin, line string }{
			{"", "", "questions show ID"}, {"", "", "questions answer ID"}, {"", "", "questions answer ID --accept name=Ada --accept age=x"}, {"", "", "questions answer ID --accept age=36"},
			{"", "{", "questions answer ID --content -"}, {"", `{"age":"x","name":"Ada"}`, "questions answer ID --content -"}, {"", "", "questions answer ID --accept name=Ada --content {}"},
			{"", "", "questions answer ID --accept name=Ada --accept age=36"},
		}},
		{"elicit", `{}`, []struct{ typed, stdin, line string }{{"", `{"age":36,"name":"Ada"}`, "questions answer ID --content - --json"}}},
		{"elicit", `{}`, []struct{ typed, stdin, line string }{{"Ada\n36\n\n", "", "questions answer ID"}}},
		{"elicit_url", `{}`, []struct{ typed, stdin, line string }{{"", "", "questions show ID"}, {"\n", "", "questions answer ID"}}},
	} {
		result := make(chan string, 1)
		go func() {
			r, err := c.Call(context.Background(), mcp.MethodCallTool, []byte(fmt.Sprintf(`{"name":"fake__%s","arguments":%s}`, x.tool, x.args)), fake.CallOptions{})
			switch {
			case err != nil:
				result <- err.Error()
			case r.Err != nil:
				result <- r.Err.Message
			default:
				result <- string(r.Result)
			}
		}()
		if !soon(func() bool {
			var all admin.Questions
			_, out, _ := u.run("questions", "list", "--json")
			if err := json.Unmarshal([]byte(out), &all); err != nil || len(all.Questions) != 1 {
				return false
			}
			id = all.Questions[0].ID
			return true
		}) {
			t.Fatal("no question waits")
		}
		if _, out, said := u.run("status"); !strings.Contains(out+said, "questions for a person: 1") {
			t.Errorf("status: %s%s", out, said)
		}
		for _, d := range x.do {
			give(d.typed, d.stdin, d.line)
		}
		fmt.Fprintf(&b, "the client gets %s\n\n", <-result)
	}
	text := regexp.MustCompile(`\b(\d+m)?\d+s\b`).ReplaceAllString(b.String(), "LEFT")
	text = regexp.MustCompile(`\d\d:\d\d:\d\d`).ReplaceAllString(text, "TIME")
	t.Chdir(here)
	golden(t, "questions.txt", strings.ReplaceAll(text, at, "SERVE"))
}

// TestFieldsOfAQuestion checks that people see which values a field allows, with their titles however the server has
// written them.
func TestFieldsOfAQuestion(t *testing.T) {
	q := &admin.QuestionDetails{Schema: []byte(`{"type":"object","properties":{
 "name":{"type":"string"},
 "size":{"type":"string","oneOf":[{"const":"s","title":"Small"},{"const":"l"}]},
 "old":{"type":"string","enum":["a","b"],"enumNames":["Ant\\u202e"]},
 "tags":{"type":"array","items":{"anyOf":[{"const":"x","title":"Ex"}]}}
},"required":["name"]}`)}
	want := "\n  name (string)\n  size (one of these, optional)\n    Small (s)\n    l\n  old (one of these, optional)\n    Ant\\u202e (a)\n    b\n  tags (some of these, optional)\n    Ex (x)\n"
	if got := describeFields(q); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
