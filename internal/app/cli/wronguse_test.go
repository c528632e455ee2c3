//go:build unix

package cli

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// TestWrongUses checks that wrong flags, values and addresses are answered with a sentence that says what
// to write, and without the texts of Go's libraries.
func TestWrongUses(t *testing.T) {
	library := regexp.MustCompile(`strconv|invalid (argument|syntax)|dial tcp|proxyconnect|lookup|Get "|lstat|open /|read /|shorthand|needs an argument|: EOF|x509: `)
	folder, nobody := t.TempDir(), freePort()
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"detail":"down for an hour"}`, http.StatusInternalServerError)
	}))
	defer down.Close()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"list", "--json=maybe", "http://h/"}, `--json does not accept "maybe"|hint: write --json or --json=false`},
		{[]string{"logs", "-n", "abc"}, `--lines does not accept "abc"|hint: write a whole number`},
		{[]string{"calls", "--lines", "99999999999999999999"}, `--lines does not accept "99999999999999999999"|hint: write a whole number`},
		{[]string{"audit", "show", "--since", "yesterday"}, `"yesterday" is no time|hint: write how long ago, such as 24h, or a time, such as 2026-12-24`},
		{[]string{"audit", "show", "-n", "0"}, `0 entries cannot be shown|hint: use a number from 1 to 1000`},
		{[]string{"matrix", "--parallel", "1.5"}, `--parallel does not accept "1.5"|hint: write a whole number`},
		{[]string{"list", "--timeout", "5", "http://h/"}, `--timeout does not accept "5"|hint: write a number and a unit`},
		{[]string{"list", "--timeout"}, `--timeout needs a value|hint: run `},
		{[]string{"list", "-c"}, `--config needs a value|hint: run `},
		{[]string{"list", "-z", "http://h/"}, `unknown flag: -z|hint: put -- before a command`},
		{[]string{"calls", "-1"}, `unknown flag: -1|hint: run `},
		{[]string{"list", "tools", "http://[::1"}, `the address is not a URL|hint: use http://`},
		{[]string{"list", "tools", "http://"}, `the address has no host|hint: use http://`},
		{[]string{"list", "tools", "ws://h/"}, `the address is a WebSocket, and MCP has no WebSocket transport|hint: use http://`},
		{[]string{"list", "tools", "--header", "X y: z", "http://h/"}, `--header X y: is not a valid header name`},
		{[]string{"list", "tools", "--header", "X: a\nb", "http://h/"}, `--header X: a header's value must be one line`},
		{[]string{"list", "tools", "--cacert", folder, "http://h/"}, `cannot be read: is a directory|hint: `},
		{[]string{"search", "--registry", "http://" + nobody, "x"}, `cannot ask the registry: the server refused the connection: nothing listens at ` + nobody + `|hint: `},
		{[]string{"search", "--registry", down.URL, "x"}, `the registry answered with status 500: "down for an hour"|hint: try again later`},
		{[]string{"healthcheck", "http://" + nobody}, `nothing answers at http://` + nobody + `: connection refused|hint: `},
		{[]string{"server", "filesystem", folder + "/nope"}, `the folder ` + folder + `/nope does not exist|hint: `},
		{[]string{"record", "-o", folder + "/nope/x", "--", "cat"}, `cannot create the file for the recording: ` + folder + `/nope/x: no such file or directory|hint: `},
	} {
		text := strings.ReplaceAll(failedCommand(t, tt.args...), "\ndragoman: ", "|")
		if !strings.Contains(text, tt.want) || library.MatchString(text) {
			t.Errorf("%q: no %q in\n%s", tt.args, tt.want, text)
		}
	}
}

// TestUnknownSubcommands checks that each command with subcommands refuses another word.
func TestUnknownSubcommands(t *testing.T) {
	for _, c := range Command().Commands() {
		if !c.HasAvailableSubCommands() || c.Name() == "fake" { // its words are profiles
			continue
		}
		want := "dragoman " + c.Name() + ` has no command "nope"`
		if text := failedCommand(t, c.Name(), "nope"); !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
