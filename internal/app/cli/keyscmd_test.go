package cli

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

// give runs a command line of the user with stdin.
func (u *user) give(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, said syncBuffer
	a := &app{world: world{backend: Daemon(), stdin: strings.NewReader(stdin), stdout: &out, env: u.env, program: "dragoman", status: newStatus(&said, false, noEnv)}}
	code = a.main(args)
	return code, out.take(), said.take()
}

// keyLine is what a command prints that shows a key: the key alone.
var keyLine = regexp.MustCompile(`^drgk_[0-9A-Za-z]{12}_[0-9A-Za-z_-]{43}_[0-9A-Za-z]{6}\n$`)

// house starts a serve with a database whose clients need keys, and returns its address.
func (u *user) house() (address string) {
	u.write("dragoman.yaml", "mcpServers:\n  a: {command: settings-peer, env: {PATH: \"${PATH}\", PEER_NOTES: \""+u.write("notes", "")+"\"}}\ndragoman: {database: house/dragoman.db, access: {loopback: keys}}\n")
	return u.serve("--listen", anyPort)
}

// TestBugWhereKeysAreNeeded writes the report for a serve whose clients on this machine need keys: the status is in it, as in
// that of "dragoman status".
func TestBugWhereKeysAreNeeded(t *testing.T) {
	u := newUser(t)
	address := u.house()
	if code, out, said := u.run("bug", "http://"+address); code != exitOK || strings.Contains(out, "HTTP 401") || !strings.Contains(out, "## Last failures") {
		t.Errorf("%d %s\n%s", code, said, out)
	}
}

// enters reports whether an MCP client with a key gets in.
func enters(t *testing.T, address, key string) bool {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + key} {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if s := resp.StatusCode; s != 200 && s != 401 && s != 429 { // 429 after many tries with a key that is not there yet
		t.Errorf("status %d", resp.StatusCode)
	}
	return resp.StatusCode == 200
}

// soon waits up to ten seconds until a condition holds.
func soon(ok func() bool) bool {
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// TestKeysWithoutServe makes a key before there is a serve, starts one at a network address, where its API
// is off, and makes and revokes keys for it.
func TestKeysWithoutServe(t *testing.T) {
	u := newUser(t)
	file := u.write("team.yaml", "mcpServers: {}\ndragoman: {listen: \"0.0.0.0:7399\", database: team.db}\n")
	if code, out, said := u.run("keys", "-c", file); code != exitOK || out != "" || !strings.Contains(said, "there are no keys") {
		t.Errorf("no database: %d %s%s", code, out, said)
	}
	if _, err := os.Stat(filepath.Join(u.home, "team.db")); err == nil {
		t.Error("a list has created the database")
	}
	code, ada, said := u.run("keys", "add", "ada", "-c", file)
	if code != exitOK || !keyLine.MatchString(ada) {
		t.Fatalf("add: %d %s", code, said)
	}
	_, port, _ := net.SplitHostPort(u.serve("-c", file, "--listen", "0.0.0.0:0"))
	at := "127.0.0.1:" + port
	_, bob, _ := u.run("-q", "keys", "add", "bob", "-c", file)
	if !soon(func() bool { return enters(t, at, strings.TrimSpace(bob)) }) || !enters(t, at, strings.TrimSpace(ada)) {
		t.Error("ada or bob can't come in")
	}
	if code, _, said := u.run("keys", "revoke", "ada", "-c", file); code != exitOK {
		t.Errorf("revoke: %d %s", code, said)
	}
	if !soon(func() bool { return !enters(t, at, strings.TrimSpace(ada)) }) || !enters(t, at, strings.TrimSpace(bob)) {
		t.Error("ada's key still works, or bob's doesn't")
	}
	if code, _, said := u.run("keys", "-c", u.write("bad.yaml", "dragoman: {listen: 127.0.0.1:1, database: bad.yaml}\n")); code != exitFailure || !strings.Contains(said, "is not an SQLite database") || !strings.Contains(said, "hint: ") {
		t.Errorf("no database: %d %s", code, said)
	}
}

// TestKeysCommand makes, lists, rotates and revokes keys of a running serve, and comes in with them.
func TestKeysCommand(t *testing.T) {
	u := newUser(t)
	at := u.house()
	if code, out, said := u.run("keys"); code != exitOK || out != "" || !strings.Contains(said, "`dragoman keys add NAME` makes one") {
		t.Errorf("no keys: %d %s%s", code, out, said)
	}
	if code, out, said := u.run("list", "--json"); code != exitOK || !strings.Contains(out, `"via": "serve"`) {
		t.Errorf("list through a serve whose clients need keys: %d %s%s", code, out, said)
	}
	code, ci, said := u.run("keys", "add", "ci", "--server", "a")
	if code != exitOK || !keyLine.MatchString(ci) || !strings.Contains(said, "Authorization: Bearer") || !strings.Contains(said, "dragoman keys revoke "+ci[5:17]) || strings.Contains(said, ci[20:40]) {
		t.Fatalf("add: %d %s%s", code, out(ci), said)
	}
	_, innocent, said := u.run("-q", "keys", "add", "innocent", "--expires", "never")
	if !keyLine.MatchString(innocent) || said != "" {
		t.Errorf("add -q: %s%s", out(innocent), said)
	}
	ci, innocent = strings.TrimSpace(ci), strings.TrimSpace(innocent)
	if !soon(func() bool { return enters(t, at, ci) && enters(t, at, innocent) }) || enters(t, at, ci[:20]+"AAAA"+ci[24:]) {
		t.Error("the keys don't let clients in, or another one does")
	}
	_, list, _ := u.run("keys")
	for line := range strings.Lines(list) {
		if len(line) > 81 || strings.Contains(line, "drgk_") {
			t.Errorf("the list has the line %q", line)
		}
	}
	if !strings.Contains(list, ci[5:17]+"  ci ") || !strings.Contains(list, "never") {
		t.Errorf("the list:\n%s", list)
	}
	_, moved, said := u.run("keys", "rotate", "ci", "--overlap", "0s")
	if !keyLine.MatchString(moved) || moved[:17] != ci[:17] || strings.Contains(said, "works until") {
		t.Errorf("rotate: %s%s", out(moved), said)
	}
	moved = strings.TrimSpace(moved)
	if !soon(func() bool { return enters(t, at, moved) && !enters(t, at, ci) }) {
		t.Error("the rotation has no effect")
	}
	u.run("keys", "add", "twice")
	u.run("keys", "add", "twice")
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"keys rotate innocent", exitOK, "works until"},
		{"keys show innocent", exitOK, ""},
		{"keys look innocent", exitOK, "the key \"innocent\" gets "},
		{"keys look innocent --server nothing", exitFailure, "no server is named"},
		{"keys look innocent --server a --search", exitUsage, "leave one of them out"},
		{"keys look innocent --revision 2020-01-01", exitFailure, "2025-11-25"},
		{"keys revoke twice", exitUsage, "2 keys have the name \"twice\""},
		{"keys revoke innocnt", exitUsage, "did you mean innocent?"},
		{"keys revoke x", exitUsage, "`dragoman keys` lists the keys"},
		{"keys add", exitUsage, "name is missing"},
		{"keys add a b", exitUsage, "quote it"},
		{"keys add x --expires soon", exitUsage, "is no duration"},
		{"keys add x --expires 0d", exitUsage, "say never"},
		{"keys add x --role owner", exitUsage, "there is no role \"owner\"\ndragoman: hint: the roles are caller, viewer, operator and admin"},
		{"keys add typo --server TYPO --server a", exitOK, "the project has no server that \"TYPO\" matches, so this lets the key use nothing"},
		{"keys add typo --tool TYPO/x --tool a/greet --tool */y --server b*", exitOK, "no server that one of these matches: \"b*\", \"TYPO/x\""},
		{"keys add fine --server a --tool a*/x", exitOK, "` revokes it\n"},
		{"keys revoke fine", exitOK, "revoked"},
		{"keys add x --tool greet", exitUsage, "SERVER/TOOL"},
		{"keys add x --project shop", exitUsage, `no project is named "shop"`},
		{"keys rotate ci --overlap -1h", exitUsage, "is no duration"},
		{"keys ad x", exitUsage, "keys"},
		{"keys revoke ci", exitOK, "revoked the key \"ci\" with the id " + ci[5:17]},
		{"keys --listen 127.0.0.1:1", exitFailure, "no `dragoman serve` answers"},
	} {
		code, out, said := u.run(strings.Fields(c.line)...)
		if code != c.code || !strings.Contains(said, c.want) || code != exitOK && (out != "" || !strings.Contains(said, "dragoman: error")) {
			t.Errorf("%s: %d, want %d with %q\n%s%s", c.line, code, c.code, c.want, out, said)
		}
	}
	if !soon(func() bool { return !enters(t, at, moved) }) || !enters(t, at, innocent) {
		t.Error("the revoked key still lets clients in, or the other one doesn't")
	}
	_, text, _ := u.run("keys", "--json")
	var keys []admin.APIKey
	if err := json.Unmarshal([]byte(text), &keys); err != nil || len(keys) != 5 || keys[0].Name != "innocent" {
		t.Errorf("%v %s", err, text)
	}
}

// out hides a key in the message of a failed test.
func out(key string) string {
	if len(key) > 17 {
		return key[:17] + "…"
	}
	return key
}

// TestSecretsCommand sets secrets of a running serve from stdin and from a terminal, and looks for their
// values everywhere.
func TestSecretsCommand(t *testing.T) {
	u := newUser(t)
	at := u.house()
	const canary, long = "canary-5d1f7e", 64<<10 + 1
	var all strings.Builder
	for _, c := range []struct {
		stdin, line string
		code        int
		want        string
	}{
		{"", "secrets", exitOK, "there are no secrets"},
		{"", "secrets rotate-key", exitOK, "nothing is sealed yet"},
		{canary + "\n", "secrets set github", exitOK, `set the secret "github" of the project default`},
		{canary + "\r\n", "secrets set gitlab", exitOK, `set the secret "gitlab"`},
		{"", "secrets", exitOK, "github  20"},
		{"", "secrets --json", exitOK, `"name": "gitlab"`},
		{"", "secrets rotate-key", exitOK, "sealed 2 values with a new key"},
		{"\n", "secrets set empty", exitFailure, "the value is empty"},
		{"", "secrets set empty", exitFailure, "nothing was changed"},
		{strings.Repeat("x", long), "secrets set long", exitFailure, "at most"},
		{"a\xffb", "secrets set latin", exitFailure, "UTF-8"},
		{"x", "secrets set", exitUsage, "name is missing"},
		{"x", "secrets set github " + canary[:3], exitUsage, "unexpected argument"},
		{"x", "secrets set .x", exitUsage, "use another name"},
		{"x", "secrets set rotate-key", exitUsage, "which is a command"},
		{"", "secrets remove githb", exitUsage, "`dragoman secrets` lists the names"},
		{"", "secrets remove gitlab", exitOK, "removed the secret"},
		{"", "status", exitOK, ""},
		{"", "logs", exitOK, ""},
		{"", "status --json", exitOK, ""},
		{"", "bug", exitOK, ""},
	} {
		code, out, said := u.give(c.stdin, strings.Fields(c.line)...)
		if code != c.code || !strings.Contains(out+said, c.want) {
			t.Errorf("%s: %d, want %d with %q\n%s%s", c.line, code, c.code, c.want, out, said)
		}
		all.WriteString(out + said)
	}

	var said syncBuffer
	raw := 0
	a := &app{world: world{
		backend: Daemon(), stdin: strings.NewReader(""), stdout: &said, env: u.env, program: "dragoman", status: newStatus(&said, false, noEnv), keyboard: true,
		openInput: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("typo\x7f\x7f\x7f\x7f" + canary + "\r")), nil
		},
		rawInput: func() (func(), error) { raw++; return func() { raw-- }, nil },
	}}
	if code := a.main([]string{"secrets", "set", "typed"}); code != exitOK || raw != 0 {
		t.Errorf("typed: %d, the terminal is raw %d times, %s", code, raw, said.take())
	}
	a.openInput = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("abc\x03")), nil }
	if code := a.main([]string{"secrets", "set", "typed"}); code != exitSignal+int(syscall.SIGINT) || raw != 0 {
		t.Errorf("Ctrl-C: %d, the terminal is raw %d times", code, raw)
	}
	a.openInput = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("\x04")), nil }
	if code := a.main([]string{"secrets", "set", "typed"}); code != exitFailure || raw != 0 {
		t.Errorf("Ctrl-D: %d, the terminal is raw %d times", code, raw)
	}
	all.WriteString(said.take())
	if strings.Contains(all.String(), canary) {
		t.Errorf("the value is shown:\n%s", all.String())
	}
	if _, out, _ := u.run("secrets", "--listen", at); !strings.Contains(out, "typed") || !strings.Contains(out, "github") || strings.Contains(out, "gitlab") {
		t.Errorf("the secrets are\n%s", out)
	}
}

// TestSecretsGoToServe checks that a program that has taken over the address of serve, and can't prove to
// be it, gets no value and can't pretend to have kept it.
func TestSecretsGoToServe(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusOK} {
		var mu sync.Mutex
		var given strings.Builder
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			_, _ = given.WriteString(r.URL.String() + string(body) + r.Header.Get("Authorization"))
			mu.Unlock()
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"type":"urn:dragoman:problem:no-access","title":"no","status":401}`)
		}))
		address := strings.TrimPrefix(other.URL, "http://")
		folder := t.TempDir()
		if _, _, err := admin.WriteKey([]string{folder}, address, "the-key"); err != nil {
			t.Fatal(err)
		}
		s, err := locator{noEnv}.runningAt("http://" + address)
		if err != nil {
			t.Fatal(err)
		}
		s.folders = []string{folder}
		err = s.apply(t.Context(), http.MethodPut, "/secrets/x", admin.SecretRequest{Value: "canary"}, &admin.KeptSecret{})
		s.close()
		other.Close()
		if err == nil || strings.Contains(given.String(), "canary") || strings.Contains(given.String(), "the-key") {
			t.Errorf("%d: %v, and the program got %s", status, err, given.String())
		}
	}
}

// TestKeyTable checks how keys of all kinds look in 80 columns.
func TestKeyTable(t *testing.T) {
	at := func(days int) *time.Time { x := noon.AddDate(0, 0, days); return &x }
	ago := func(d time.Duration) *time.Time { x := noon.Add(-d); return &x }
	keys := []admin.APIKey{
		{ID: "4KqTtAv1fz1S", Name: "a name as long as people make them\x1b[2J", Role: "caller", Servers: []string{"github", "gitlab-internal-*", "files"}, Tools: []string{"*/read_*"}, Expires: at(90), Used: ago(100 * 24 * time.Hour)},
		{ID: "gvnKZN87Dtms", Name: "ci", Role: "caller", Expires: at(-1), Expired: true, Used: ago(119 * time.Second)},
		{ID: "gvnKZN87Dtmt", Name: "nightly", Role: "viewer", Expires: at(1), Used: ago(23 * time.Hour)},
		{ID: "gvnKZN87Dtmu", Name: "deploy", Owner: "ada.lovelace@example.com", Role: "admin", Used: ago(59 * time.Minute)},
		{ID: "GHs9JC9X2b0R", Name: "运维", Role: "operator"},
	}
	owned := keyTable(keys, noon)
	keys[3].Owner = ""
	none := keyTable(keys, noon)
	golden(t, "keys.txt", owned.Text()+"\n"+none.Text())
	refused := keyTable([]admin.APIKey{{ID: "gvnKZN87Dtms", Name: "ci", Role: "caller", Refused: 12345, Used: ago(time.Second)}, {ID: "GHs9JC9X2b0R", Name: "deploy", Role: "admin"}}, noon)
	golden(t, "keys-refused.txt", refused.Text())
}
