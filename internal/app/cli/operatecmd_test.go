package cli

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

const operatedFile = `mcpServers:
  a:
    command: settings-peer
    env: {PEER_NOTES: @NOTES@, PATH: "${PATH}"}
  broken:
    command: no-such-program-anywhere
  off:
    disabled: true
    command: settings-peer
`

// TestOperate stops and restarts servers of a running serve, edits its file, and looks at what the
// commands, the status and a client see.
func TestOperate(t *testing.T) {
	u := newUser(t)
	u.write("dragoman.yaml", strings.ReplaceAll(operatedFile, "@NOTES@", u.write("notes", "")))
	at := u.serve("--listen", anyPort)
	state := func(name string) (s admin.Server) {
		t.Helper()
		_, out, _ := u.run("status", "--json")
		var r admin.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if x := serverNamed(&r, name); x != nil {
			return *x
		}
		return s
	}
	for _, c := range []struct {
		line string
		code int
		want []string // in stdout or stderr
		then string   // the state of the server a after the command; "" if it has none
	}{
		{"stop a", exitOK, []string{"stopped a", "`dragoman restart a` starts it again"}, "stopped"},
		{"status a", exitOK, []string{"by an operator with `dragoman stop`"}, "stopped"},
		{"call a greet", exitFailure, []string{"was stopped by an operator", "run `dragoman restart a`"}, "stopped"},
		{"show a__greet", exitUsage, []string{"has no server named \"a__greet\"\ndragoman: hint: write the server and the tool as two words: a greet"}, "stopped"},
		{"show b__greet", exitUsage, []string{"use one of "}, "stopped"},
		{"stop a --json", exitOK, []string{`"name":"a","state":"stopped"`}, "stopped"},
		{"restart a a", exitOK, []string{"restarted a: ready"}, "ready"},
		{"restart broken", exitFailure, []string{"no-such-program-anywhere was not found"}, "ready"},
		{"stop a brokn", exitUsage, []string{"did you mean broken?"}, "ready"},
		{"stop off", exitUsage, []string{"run `dragoman enable off`"}, "ready"},
		{"status off", exitUsage, []string{`"off" is disabled in `, "run `dragoman enable off`"}, "ready"},
		{"call off greet", exitUsage, []string{`"off" is disabled in `, "run `dragoman enable off`"}, "ready"},
		{"stop", exitUsage, []string{"no server given"}, "ready"},
		{"disable a", exitOK, []string{"serve at " + at, "Disabled: a."}, ""},
		{"enable a/greet", exitOK, []string{"a/greet is enabled already"}, "?"},
		{"disable a/greet --dry-run", exitOK, []string{"+", "greet", "nothing was written"}, "?"},
		{"enable a --json", exitOK, []string{`"serve":[{"address":"` + at + `"`, `"applied":true`, "Added: a."}, "?"},
		{"add --yes --name b -- settings-peer", exitOK, []string{"serve at " + at, "Added: b."}, "?"},
		{"remove b", exitOK, []string{"Removed: b."}, "?"},
		{"calls 99999", exitFailure, []string{"error: there is no call 99999\n", "`dragoman calls` lists them"}, "?"}, // and not "no such call: there is no call"
		{"reload", exitOK, []string{"unchanged"}, "?"},
		{"stop a --listen 127.0.0.1:1", exitFailure, []string{"no `dragoman serve` answers at 127.0.0.1:1", "start `dragoman serve`"}, "?"},
	} {
		code, out, said := u.run(strings.Fields(c.line)...)
		if i := slices.IndexFunc(c.want, func(w string) bool { return !strings.Contains(out+said, w) }); code != c.code || i >= 0 {
			t.Errorf("%s: %d, want %d with %q\n%s%s", c.line, code, c.code, c.want, out, said)
		}
		if got := state("a").State; c.then != "?" && got != c.then {
			t.Errorf("after %s, a is %q, want %q", c.line, got, c.then)
		}
	}
}

// TestCommandsLeaveTheirCallsAlone checks that the calls of a serve have the tool that a command called,
// and neither the lists that it read before nor a subscription.
func TestCommandsLeaveTheirCallsAlone(t *testing.T) {
	u := newUser(t)
	u.write("dragoman.yaml", strings.ReplaceAll(operatedFile, "@NOTES@", u.write("notes", "")))
	u.serve("--listen", anyPort)
	for _, line := range []string{"list", "list a", "list tools", "show a", "call a echo", "prompt a nothing-of-this-name"} {
		u.run(strings.Fields(line)...)
	}
	_, out, said := u.run("calls", "--json")
	var methods []string
	for _, m := range regexp.MustCompile(`"method":\s*"([^"]+)"`).FindAllStringSubmatch(out, -1) {
		methods = append(methods, m[1])
	}
	if got := strings.Join(methods, " "); got != "tools/call" && got != "tools/call prompts/get" {
		t.Errorf("the calls are %q\n%s%s", got, out, said)
	}
}

// TestOneRevision checks that every command names the same revision for a server of both eras, whichever
// era the command itself speaks with it.
func TestOneRevision(t *testing.T) {
	u := newUser(t)
	inner := u.serve("--listen", anyPort, "-c", u.write("inner.yaml", strings.ReplaceAll(operatedFile, "@NOTES@", u.write("notes", ""))))
	file := u.write("outer.yaml", "mcpServers: {both: {url: 'http://"+inner+"/mcp'}}\n")
	outer := u.serve("--listen", anyPort, "-c", file)
	for _, line := range []string{"show both", "list", "show both --direct", "list --direct", "status", "status both"} {
		_, out, said := u.run(append(strings.Fields(line), "-c", file)...)
		if !strings.Contains(out, "2026-07-28") || strings.Contains(out, "2025-11-25 over") || strings.Contains(out, "legacy 2025-11-25") {
			t.Errorf("%s, with serve at %s:\n%s%s", line, outer, out, said)
		}
	}
}

// TestRefusedChange checks that a command which changes the file says that a running serve does not use
// the change, and that two serves of one file are both told.
func TestRefusedChange(t *testing.T) {
	u := newUser(t)
	text := strings.ReplaceAll(operatedFile, "@NOTES@", u.write("notes", ""))
	u.write("dragoman.yaml", text)
	easy := u.serve("--listen", anyPort)
	strict := u.serve("--listen", anyPort, "--strict")
	u.write("dragoman.yaml", text+"  needy:\n    command: settings-peer\n    env: {K: \"${NOT_SET}\"}\n") // only --strict refuses a missing variable
	code, out, said := u.run("disable", "broken")
	if code != exitFailure || out != "" || !strings.Contains(said, "disabled broken in") || !strings.Contains(said, "serve at "+easy+": ") ||
		!strings.Contains(said, "error: the configuration file was refused") || !strings.Contains(said, "NOT_SET") || !strings.Contains(said, "dragoman config check -c ") {
		t.Errorf("disable: %d\n%s%s", code, out, said)
	}
	if code, _, said := u.run("reload", "--listen", strict); code != exitFailure || !strings.Contains(said, "refused") {
		t.Errorf("reload: %d\n%s", code, said)
	}
	if code, _, said := u.run("reload"); code != exitUsage || !strings.Contains(said, easy) || !strings.Contains(said, strict) {
		t.Errorf("reload with two: %d\n%s", code, said)
	}
}
