//go:build unix

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

// TestRulesCommand runs every `dragoman rules` command at a serve whose lists are known, also with what can't be, and
// compares all that they print with a golden file.
func TestRulesCommand(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	u := newUser(t)
	file := func(rules string) {
		u.write("dragoman.yaml", `
mcpServers:
  git: {command: settings-peer, env: {PATH: "${PATH}", PEER_NOTES: "`+u.write("notes", "")+`", PEER_TOOLS: '[{"name":"log","inputSchema":{"type":"object"}},{"name":"push","inputSchema":{"type":"object"}},{"name":"delete_repo","inputSchema":{"type":"object"}}]'}}
dragoman:
  database: house/dragoman.db
  access: {loopback: keys}
  servers: {git: {expose: {prompts: {deny: [two]}}}}
`+rules)
	}
	file(`
  policy:
    - match: git/delete_repo
      do: deny
    # Only ada may push.
    - {match: git/push, who: {people: [Ada], keys: [nightly], roles: [operator]}, do: confirm}
    - {match: ["git/push", "git/prompt:*"], do: deny}
`)
	at := u.serve("--listen", anyPort)
	try := func(b *strings.Builder, stdin, line string) {
		code, out, said := u.give(stdin, strings.Fields(line)...)
		fmt.Fprintf(b, "$ dragoman %s\n%s%s", line, out, said)
		if code != exitOK {
			fmt.Fprintf(b, "exit %d\n", code)
		}
	}
	for _, line := range []string{"people invite ada", "people invite bob --role operator", "keys add nightly", "keys add narrow --tool git/log", "keys add nightlyish --owner ada", "keys add seer --role viewer"} {
		if code, out, said := u.run(strings.Fields(line)...); code != exitOK {
			t.Fatal(line, out, said)
		}
	}
	known := func() bool {
		var v admin.RuleView
		_, out, _ := u.run("rules", "for", "nightly", "--json")
		return json.Unmarshal([]byte(out), &v) == nil && len(v.Unread) == 0 && len(v.Items) == 7
	}
	if !soon(known) {
		t.Fatal("the lists are not known")
	}
	var b strings.Builder
	for _, c := range []struct{ stdin, line string }{
		{"", "rules"},
		{"", "rules who git/log"},
		{"", "rules who git/push"},
		{"", "rules who git/prompt:two"},
		{"", "rules who git/pusk"},
		{"", "rules who gti/push"},
		{"", "rules who push"},
		{"", "rules who git__push"},
		{"", "rules who git/*"},
		{"", "rules who project:prompts/prompt:x"},
		{"", "rules for ada"},
		{"", "rules for nightly"},
		{"", "rules for narrow"},
		{"", "rules for nihgtly"},
		{"", "rules edit"},
		{"", "rules edit --check"},
		{"use: [git]\n", "projects add shop --file -"},
		{"", "rules --project shop"},
		{"- {match: git/log, do: deny}\n- {match: git/log, do: allow}\n", "rules edit --project shop --file - --check"},
		{"- {match: git/log, who: {keys: [nightly]}, do: deny}\n", "rules edit --project shop --file - --check"},
		{"- {match: git/log, do: deny}\n- {match: git/push, do: confirm}\n", "rules edit --file - --check"},
		{"# none\n", "rules edit --project shop --file -"},
		{"- {match: git/log, who: {keys: [nightly]}, do: deny}\n", "rules edit --project shop --file -"},
		{"", "rules --project shop"},
		{"", "rules edit --project nowhere --file -"},
	} {
		try(&b, c.stdin, c.line)
	}
	// What isn't right though it can be used, once the lists are known.
	file(`
  policy:
    - {match: "git/delte_*", do: deny}
    - {match: git/pusk, who: {people: [adda], keys: [nightly, nobody]}, do: allow}
    - {match: git/log, as: {name: push}}
    - {match: ["git/prompt:on", "git/resource:x:*", "*/log"], do: allow}
`)
	if !soon(func() bool { _, out, _ := u.run("rules"); return strings.Contains(out, "delte") && known() }) {
		t.Fatal("the file is not in use")
	}
	try(&b, "", "rules")
	try(&b, "", "config check")
	_, status, _ := u.run("status")
	_, status, _ = strings.Cut(status, "rule 1")
	status, _, _ = strings.Cut(status, "\n\n")
	fmt.Fprintf(&b, "$ dragoman status\n… rule 1%s\n", status)
	// What can't be used is refused by the check, and by serve.
	u.write("bad.yaml", "mcpServers: {git: {command: none}}\ndragoman:\n  policy:\n"+`    - {match: git, do: deny}
    - {match: gti/push, do: deny}
    - {match: git/log, as: {name: history}}
    - {match: git/show, as: {name: history}}
    - {match: "git/prompt:x", as: {annotations: {readOnlyHint: true}}}
    - {match: "git/*", do: allow}
    - {match: git/drop, do: deny}
`)
	try(&b, "", "config check -c bad.yaml")
	try(&b, "", "serve -c bad.yaml --listen 127.0.0.1:0")
	// Without serve, the command opens the database itself.
	alone := newUser(t)
	alone.write("dragoman.yaml", "mcpServers: {git: {command: none}}\ndragoman: {listen: 127.0.0.1:1, database: house/dragoman.db, policy: [{match: git/log, who: {people: [ada]}, do: allow}, {match: \"*\", do: deny}]}\n")
	for _, line := range []string{"people invite ada", "rules", "rules who git/log", "rules for ada"} {
		code, out, said := alone.run(strings.Fields(line)...)
		if line == "people invite ada" {
			continue
		}
		fmt.Fprintf(&b, "$ dragoman %s\n%s%s", line, out, said)
		if code != exitOK {
			t.Errorf("%s: %d", line, code)
		}
	}
	t.Chdir(u.home)
	code, out, said := u.edits("printf '# Mine.\\n- {match: git/push, do: deny}\\n' > $1", "rules", "edit", "--project", "shop")
	if fmt.Fprintf(&b, "%s%s", out, said); code != exitOK {
		t.Errorf("%d %s", code, said)
	}
	var shop admin.Rules
	if _, out, _ := u.run("rules", "--project", "shop", "--json"); json.Unmarshal([]byte(out), &shop) != nil || shop.Text != "# Mine.\n- {match: git/push, do: deny}\n" {
		t.Errorf("%s", out)
	}
	t.Chdir(here)
	text := strings.NewReplacer(u.home, "HOME", at, "127.0.0.1:7300").Replace(b.String())
	golden(t, "rules.txt", text)
}
