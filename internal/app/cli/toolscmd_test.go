//go:build unix

package cli

import (
	"regexp"
	"strings"
	"testing"
)

// TestToolsCommand reviews, approves and rejects a tool that has changed between two starts of serve, and makes the
// mistakes that people make.
func TestToolsCommand(t *testing.T) {
	u := newUser(t)
	write := func(about string) {
		u.write("dragoman.yaml", `mcpServers: {notes: {command: settings-peer, env: {PATH: "${PATH}", PEER_NOTES: "`+u.write("notes", "")+
			`", PEER_TOOLS: '[{"name":"echo","description":"`+about+`","inputSchema":{"type":"object"}},{"name":"bare","inputSchema":{"type":"object"}}]'}}, dead: {url: "http://127.0.0.1:1/mcp"}}`+"\ndragoman: {database: house/dragoman.db, pins: hold}\n")
	}
	write("Searches.")
	t.Run("before", func(t *testing.T) {
		x := *u
		x.T = t
		x.serve("--listen", anyPort)
		if code, out, said := x.run("call", "notes", "echo"); code != exitOK {
			t.Fatalf("%d %s%s", code, out, said)
		}
	})
	write("Searches, and sends.")
	u.serve("--listen", anyPort)
	_, out, _ := u.run("tools", "review") // which reads the lists: nobody has asked for any
	if code, out, said := u.run("call", "notes", "echo"); code != exitFailure || !strings.Contains(said, "is held: ") || strings.Contains(said, "hint") {
		t.Errorf("a held tool: %d %s%s", code, out, said)
	}
	line := regexp.MustCompile(`dragoman tools approve notes/echo ([0-9a-f]{12})\n`).FindStringSubmatch(out)
	if line == nil {
		t.Fatal(out)
	}
	for _, tt := range []struct{ args, want string }{
		{"review", "nobody knows what has changed at dead: "},
		{"review notes", "+description: Searches, and sends."},
		{"review notes/echo", "+description: Searches, and sends."},
		{"review notes/other", "nothing has changed that nobody has decided about"},
		{"review note", `"note"|hint: did you mean notes?`},
		{"review note/echo", `"note"|hint: did you mean notes?`},
		{"review notes echo", `unexpected argument "echo" after "notes"|hint: `},
		{"approve notes/echo", "expected two arguments, got 1|hint: "},
		{"approve notes/echo beef", `"beef" is not a hash|hint: `},
		{"approve notes/echo deadbeef", "notes/echo has changed again, so another definition than deadbeef waits|hint: "},
		{"approve notes/ecoh " + line[1], "notes/ecoh does not wait for a decision|hint: "},
		{"approve echo " + line[1], `"echo" names no tool of a server|hint: `},
		{"reject notes/echo " + line[1], "rejected notes/echo"},
		{"reject notes/echo " + line[1], "has changed again, or somebody has decided about it|hint: "},
		{"review", "also rejected: 1; `dragoman tools review SERVER` shows them|nothing has changed that nobody has decided about"},
		{"review notes", "notes/echo was rejected, and is held|+description: Searches, and sends.|dragoman tools approve notes/echo " + line[1]},
		{"approve notes/echo " + line[1], "approved notes/echo"},
		{"reject notes/echo " + line[1], "notes/echo does not wait for a decision|hint: "},
		{"review", "nothing has changed that nobody has decided about"},
	} {
		_, out, said := u.run(append([]string{"tools"}, strings.Fields(tt.args)...)...)
		text := out + strings.ReplaceAll(said, "\ndragoman: ", "|")
		for want := range strings.SplitSeq(tt.want, "|") {
			if !strings.Contains(text, want) {
				t.Errorf("tools %s: no %q in\n%s", tt.args, want, text)
			}
		}
	}
	if code, out, said := u.run("call", "notes", "echo"); code != exitOK {
		t.Errorf("an approved tool: %d %s%s", code, out, said)
	}
}
