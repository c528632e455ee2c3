//go:build unix

package cli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

var datesOf = regexp.MustCompile(`\d{4}-\d\d-\d\d`)

// TestPromptsCommand runs every `dragoman prompts` command, also with what can't be, and compares all that they print
// with a golden file. At the end, the next serve has the prompts in its instructions, behind the active prompt of
// its requirements server, which it follows; if that has no database any more, what it said last counts.
func TestPromptsCommand(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	u := newUser(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(u.home, "dragoman") // the test program acts as dragoman under this name
	if err := os.Symlink(self, own); err != nil {
		t.Fatal(err)
	}
	requirements := filepath.Join(u.home, "req.db")
	u.write("dragoman.yaml", `
mcpServers:
  reqs: {command: "`+own+`", args: [server, requirements, --db, "`+requirements+`", --example]}
dragoman: {database: house/dragoman.db, server: {instructions: {from: reqs}}}
`)
	var b strings.Builder
	for _, c := range []struct{ stdin, line string }{
		{"", "prompts"},
		{"Look at {{change}}, and be {{tone}}.\n", "prompts add review --description Reviews --argument change --argument tone=how --values tone=brief,thorough"},
		{"Look at {{change}}.", "prompts add review"},
		{"Look at {{chnage}}.", "prompts add review --argument change"},
		{"Look at {{change.", "prompts add review --argument change"},
		{"Look.", "prompts add Review"},
		{"Look.", "prompts add review --values tone=brief"},
		{"", "prompts add empty"},
		{"", "prompts activate review"},
		{"", "prompts publish review"},
		{"", "prompts activate review"},
		{"", "prompts publish review --version 7"},
		{"", "prompts publish reveiw"},
		{"", "prompts off reveiw"},
		{"", "prompts show review"},
		{"", "prompts show review --version 7"},
		{"", "prompts show none"},
		{"Be brief.\n", "prompts add style --description Style"},
		{"", "prompts publish style"},
		{"", "prompts activate style"},
		{"Be kind.\n", "prompts add style"},
		{"", "prompts"},
		{"", "prompts off review"},
		{"", "prompts off review"},
		{"", "prompts activate"},
	} {
		code, out, said := u.give(c.stdin, strings.Fields(c.line)...)
		fmt.Fprintf(&b, "$ dragoman %s\n%s%s", c.line, out, said)
		if code != exitOK {
			fmt.Fprintf(&b, "exit %d\n", code)
		}
	}
	t.Chdir(here)
	golden(t, "prompts.txt", datesOf.ReplaceAllString(b.String(), "2026-11-29"))
	t.Chdir(u.home)

	at := "http://" + u.serve("--listen", anyPort)
	says := func() string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		text, _ := jsonrpc.ValueOf(body).Get("result", "instructions").Text()
		return text
	}
	if !soon(func() bool {
		got := says()
		return strings.HasPrefix(got, "You help a team") && strings.HasSuffix(got, "\n\nStyle\n\nBe brief.")
	}) {
		t.Errorf("the instructions are %q", says())
	}
	if code, out, said := u.run("prompt", "project:prompts", "style"); code != exitOK || !strings.Contains(out, "Be brief.") {
		t.Errorf("%d %q %s", code, out, said)
	}
	if code, out, said := u.run("prompt", "project:prompts", "stile"); code != exitUsage || out != "" || !strings.Contains(said, "did you mean style?") {
		t.Errorf("%d %q %s", code, out, said)
	}
	if code, _, said := u.run("server", "requirements", "prompt", "--db", requirements, "reviewer"); code != exitOK {
		t.Fatal(said)
	}
	if !soon(func() bool {
		return strings.HasPrefix(says(), "You review requirements") && strings.Count(says(), "##") == 0
	}) {
		t.Errorf("the instructions are %q", says())
	}
	before := says()
	if code, _, said := u.run("stop", "reqs"); code != exitOK {
		t.Fatal(said)
	}
	if got := says(); got != before {
		t.Errorf("without its server, the instructions are %q", got)
	}
}
