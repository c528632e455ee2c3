package failure

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/failures.md")

// TestDocs compares docs/failures.md with the table of classes. The flag -update writes the page.
func TestDocs(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "failures.md")
	want := page()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/failures.md differs from the table of classes: run go test ./internal/base/failure -run TestDocs -update")
	}
}

const intro = `# Failures

If a server or a call fails, or if Dragoman cannot listen on its address, Dragoman reports a *failure*. Dragoman reports failures on the command line, in the log, in errors to clients, in ` + "`/api/v1/status`" + ` and in ` + "`/readyz`" + `. In all these places, a failure has these members:

| member | log attribute | meaning |
|---|---|---|
| ` + "`class`" + ` | ` + "`class`" + ` | the kind of the failure: one of the codes on this page, which stay the same in later versions |
| ` + "`server`" + ` | ` + "`server`" + ` | the name of the server; left out if the failure does not concern a server |
| ` + "`sentence`" + ` | ` + "`sentence`" + ` | what happened, for which reason, and to which server |
| ` + "`evidence`" + ` | ` + "`evidence`" + ` | at most 12 lines of text that show the cause, the most useful lines first; secrets are masked |
| ` + "`evidenceFrom`" + ` | ` + "`evidence_from`" + ` | where the evidence comes from: ` + "`stderr`" + ` or ` + "`stdout`" + ` of the process, the HTTP ` + "`response`" + `, the last ` + "`exchange`" + ` of the handshake, or the operating ` + "`system`" + ` |
| ` + "`action`" + ` | ` + "`action`" + ` | what to do next: one command, setting or link |
| ` + "`status`" + ` | ` + "`status`" + ` | the HTTP status of the server's response, if the server answered over HTTP |
| ` + "`cause`" + ` | ` + "`cause`" + ` | a code for the cause, such as ` + "`timeout`" + `; errors to clients also have this code in ` + "`data.cause`" + ` |

An error to a client is a JSON-RPC error. The ` + "`message`" + ` of the error consists of ` + "`sentence`" + ` and ` + "`action`" + `, and ` + "`data.failure`" + ` has the members of this table. If other machines can reach the address of Dragoman, errors to clients and ` + "`/readyz`" + ` contain no output of the server's process, no error texts of the operating system, and no paths of the machine.

If Dragoman refuses a call because of rules, limits, pins or what a person has answered, nothing has failed. The error then has no ` + "`failure`" + `, only a ` + "`cause`" + ` such as ` + "`limit`" + `, ` + "`held`" + `, ` + "`declined`" + `, ` + "`cannot_ask`" + ` or ` + "`no_answer`" + `; if it's about [several replicas](cluster.md), ` + "`park_lost`" + `, ` + "`asked_elsewhere`" + `, ` + "`replica_lost`" + ` or ` + "`replica_unreachable`" + `; [troubleshooting.md](troubleshooting.md#dragoman-refuses-a-client) explains them.

The following sections describe the classes.

`

// page returns the expected text of docs/failures.md.
func page() string {
	var b strings.Builder
	b.WriteString(intro)
	for _, c := range Classes() {
		b.WriteString("## " + string(c.Class) + "\n\n" + c.Means + "\n\n**What to do:** " + c.Do + "\n\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// TestClasses checks that the table has each class once. The code must be in snake_case, and the
// texts must end with a full stop.
func TestClasses(t *testing.T) {
	seen := map[Class]bool{}
	for _, c := range Classes() {
		if seen[c.Class] || strings.Trim(string(c.Class), "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("%s", c.Class)
		}
		seen[c.Class] = true
		if !strings.HasSuffix(c.Means, ".") || !strings.HasSuffix(c.Do, ".") {
			t.Errorf("%s is not described in whole sentences", c.Class)
		}
	}
	for word, c := range words {
		if !seen[c] {
			t.Errorf("the class %s of %s is not in the table", c, word)
		}
	}
}
