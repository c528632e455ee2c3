package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
)

// user is the environment of one user: a home folder, from which commands run.
type user struct {
	*testing.T
	home string
}

func newUser(t *testing.T) *user {
	u := &user{t, t.TempDir()}
	t.Chdir(u.home)
	return u
}

func (u *user) env(name string) (string, bool) {
	switch name {
	case "HOME", "APPDATA", "LocalAppData":
		return u.home, true
	case "XDG_CACHE_HOME":
		return filepath.Join(u.home, "cache"), true
	}
	return "", false
}

// write writes a file below the home folder and returns its full path.
func (u *user) write(name, text string) string {
	u.Helper()
	path := filepath.Join(u.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		u.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		u.Fatal(err)
	}
	return path
}

// run runs a command line of the user.
func (u *user) run(args ...string) (code int, stdout, stderr string) {
	var out, said syncBuffer
	a := &app{world: world{backend: Daemon(), stdin: strings.NewReader(""), stdout: &out, env: u.env, program: "dragoman", status: newStatus(&said, false, noEnv)}}
	code = a.main(args)
	return code, out.take(), said.take()
}

var endpointLine = regexp.MustCompile(`MCP clients connect to https?://([^/\s]+)/mcp`)

// announcement waits for the line with the endpoint of serve.
type announcement struct {
	mu   sync.Mutex
	text strings.Builder
	at   chan string
}

func (w *announcement) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if at := endpointLine.FindStringSubmatch(w.text.String()); at != nil {
		select {
		case w.at <- at[1]:
		default:
		}
	}
	return len(p), nil
}

// serve runs serve in this process until the test ends, and returns its address.
func (u *user) serve(args ...string) (address string) {
	u.Helper()
	said := &announcement{at: make(chan string, 1)}
	a := &app{world: world{backend: Daemon(), stdin: strings.NewReader(""), stdout: &syncBuffer{}, env: u.env, program: "dragoman", status: newStatus(said, false, noEnv)}}
	root := a.root()
	root.SetArgs(append([]string{"serve"}, args...))
	ctx, cancel := context.WithCancel(u.Context())
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	u.Cleanup(func() {
		cancel()
		<-done
	})
	select {
	case address = <-said.at:
	case err := <-done:
		done <- err
		u.Fatalf("serve ended: %v\n%s", err, said.text.String())
	case <-time.After(30 * time.Second):
		u.Fatal("serve does not listen")
	}
	return address
}

const anyPort = "127.0.0.1:0"

// TestFindServe checks that commands find a serve that was started with --listen, even if its
// configuration file cannot be read any more.
func TestFindServe(t *testing.T) {
	u := newUser(t)
	file := u.write("dragoman.yaml", "mcpServers: {}\n")
	at := u.serve("--listen", anyPort)
	u.write("dragoman.yaml", "mcpServers: {\n")
	u.write("elsewhere/readme", "")
	look := func(where string) {
		for _, c := range []struct {
			args []string
			want string // in stdout or stderr
		}{
			{[]string{"status"}, "http://" + at + "/mcp"},
			{[]string{"logs"}, ""},
			{[]string{"calls"}, ""},
			{[]string{"console"}, "http://" + at + "/console/?link="},
			{[]string{"healthcheck"}, "http://" + at + " is healthy"},
			{[]string{"bug"}, "serving for"},
		} {
			if code, out, said := u.run(c.args...); code != exitOK || !strings.Contains(out+said, c.want) {
				t.Errorf("%s: %v: %d\n%s%s", where, c.args, code, out, said)
			}
		}
	}
	look("in the folder of the file")
	t.Chdir(filepath.Join(u.home, "elsewhere"))
	look("in another folder")
	if code, out, said := u.run("status", "-c", file); code != exitOK || !strings.Contains(out, at) {
		t.Errorf("with -c: %d\n%s%s", code, out, said)
	}
	other := u.write("other.yaml", "dragoman: {listen: '127.0.0.1:1'}\n")
	if code, out, said := u.run("status", "-c", other); code != exitFailure || !strings.Contains(said, "no `dragoman serve` answers at 127.0.0.1:1") {
		t.Errorf("with -c of another file: %d\n%s%s", code, out, said)
	}
}

// TestFindServeAmongForged checks that files that name processes which do not exist, however young they
// say they are, do not hide a serve that runs.
func TestFindServeAmongForged(t *testing.T) {
	u := newUser(t)
	file := u.write("dragoman.yaml", "mcpServers: {}\n")
	at := u.serve("--listen", anyPort)
	folders := admin.KeyFolders(u.env)
	folder := folders[len(folders)-1]
	for i := range 500 {
		name := filepath.Join(folder, fmt.Sprintf("serve-127.0.0.9-%d", i+1))
		text := fmt.Sprintf(`{"pid":%d,"host":"x","started":"2999-01-01T00:00:00Z","address":"127.0.0.9:%d","config":%q}`, os.Getpid(), i+1, file)
		for path, text := range map[string]string{name + ".json": text, name + ".key": "forged"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, args := range [][]string{{"status"}, {"status", "-c", file}} {
		if code, out, said := u.run(args...); code != exitOK || !strings.Contains(out, at) {
			t.Errorf("%v: %d\n%s%s", args, code, out, said)
		}
	}
}

// TestFindOneOfSeveral checks which of several serve processes a command uses, and that it lists them
// if it cannot know.
func TestFindOneOfSeveral(t *testing.T) {
	u := newUser(t)
	work, play := u.write("work/dragoman.yaml", "dragoman: {listen: '127.0.0.1:0'}\n"), u.write("play.yaml", "mcpServers: {}\n")
	main, extra, other := u.serve("-c", work), u.serve("-c", work, "--listen", anyPort), u.serve("-c", play, "--listen", anyPort)
	for _, c := range []struct {
		about string
		args  []string
		want  string
	}{
		{"its own file, and the configured address", []string{"-c", work}, main},
		{"another file", []string{"-c", play}, other},
		{"the named address", []string{"--listen", extra}, extra},
	} {
		if code, out, said := u.run(append([]string{"status"}, c.args...)...); code != exitOK || !strings.Contains(out, c.want) {
			t.Errorf("%s: %d, want %s\n%s%s", c.about, code, c.want, out, said)
		}
	}
	t.Chdir(filepath.Dir(work))
	if code, out, said := u.run("status"); code != exitOK || !strings.Contains(out, main) {
		t.Errorf("in the folder of the file: %d, want %s\n%s%s", code, main, out, said)
	}
	t.Chdir(u.home)
	for _, args := range [][]string{{"status"}, {"healthcheck"}} {
		code, out, said := u.run(args...)
		if code != exitUsage || out != "" {
			t.Errorf("%v: %d\n%s%s", args, code, out, said)
		}
		for _, want := range []string{main, extra, other, work, play, "pid "} {
			if !strings.Contains(said, want) {
				t.Errorf("%v: the list has no %s\n%s", args, want, said)
			}
		}
	}
}

// TestFindOnlyOurs checks that a command neither uses nor gives the key to a program that has taken
// over the address of a serve that was killed, even if the program forwards the challenge to a serve
// that runs.
func TestFindOnlyOurs(t *testing.T) {
	u := newUser(t)
	at := u.serve("--listen", anyPort)
	keys, err := admin.ReadKeys(admin.KeyFolders(u.env), at)
	if err != nil {
		t.Fatal(err)
	}
	var given atomic.Int64
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			given.Add(1)
		}
		if r.URL.Path == "/healthz" {
			asked, _ := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://"+at+"/healthz", nil)
			asked.Header = r.Header
			if resp, err := http.DefaultClient.Do(asked); err == nil {
				w.Header().Set(admin.ProofHeader, resp.Header.Get(admin.ProofHeader))
				_ = resp.Body.Close()
			}
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"type":"urn:dragoman:problem:no-access","title":"no","status":401}`))
	}))
	defer thief.Close()
	defer http.DefaultClient.CloseIdleConnections()
	taken := strings.TrimPrefix(thief.URL, "http://")
	forget, err := admin.Announce(admin.KeyFolders(u.env), admin.Presence{Address: taken}, keys[0])
	if err != nil {
		t.Fatal(err)
	}
	defer forget()
	if code, out, said := u.run("status"); code != exitOK || !strings.Contains(out, at) {
		t.Errorf("%d\n%s%s", code, out, said)
	}
	if code, _, said := u.run("console", "--listen", taken); code != exitFailure || !strings.Contains(said, "does not accept the key") {
		t.Errorf("%d\n%s", code, said)
	}
	if given.Load() > 0 {
		t.Error("the program got the key")
	}
}

// TestFindStuckServe checks that a process that is stuck is found, so that the command can say so, but
// that commands with their own session with a server do not use it.
func TestFindStuckServe(t *testing.T) {
	u := newUser(t)
	l, err := net.Listen("tcp", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	forget, err := admin.Announce(admin.KeyFolders(u.env), admin.Presence{Address: l.Addr().String()}, "key")
	if err != nil {
		t.Fatal(err)
	}
	defer forget()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	find := locator{u.env}
	if at, err := find.locate(ctx, "", "", false); err != nil || at == nil || at.address != l.Addr().String() || at.proven {
		t.Errorf("%+v %v", at, err)
	}
	if base, _, why := find.serving(ctx, "", false); base != "" || !strings.Contains(why, "does not answer") {
		t.Errorf("%s: %s", base, why)
	}
}

// TestConnectNamesRunningServe checks that connect says where a serve runs if none runs at the address
// that it writes.
func TestConnectNamesRunningServe(t *testing.T) {
	u := newUser(t)
	u.write("dragoman.yaml", "dragoman: {listen: '127.0.0.1:1'}\n")
	at := u.serve("--listen", anyPort)
	file := filepath.Join(u.home, "mcp.json")
	if code, out, said := u.run("connect", "cursor", "--file", file, "--write"); code != exitOK || !strings.Contains(said, "--url http://"+at) {
		t.Errorf("%d\n%s%s", code, out, said)
	}
	if code, _, said := u.run("connect", "cursor", "--file", file, "--write", "--url", "http://"+at); code == exitOK && strings.Contains(said, "nothing answers") {
		t.Errorf("%d\n%s", code, said)
	}
}

// TestFindServerElsewhere checks when a command finds a server that its configuration file doesn't have in
// a running serve.
func TestFindServerElsewhere(t *testing.T) {
	u := newUser(t)
	const servers = "mcpServers: {%s: {command: no-such-program}, both: {command: no-such-program}}\n"
	first, second := u.write("first.yaml", fmt.Sprintf(servers, "notes")), u.write("second.yaml", fmt.Sprintf(servers, "music"))
	a, b := "http://"+u.serve("-c", first, "--listen", anyPort), "http://"+u.serve("-c", second, "--listen", anyPort)
	u.write("own/dragoman.yaml", "mcpServers: {notes: {command: mine}, other: {command: mine}}\n")
	u.write("none/readme", "")
	for _, c := range []struct {
		folder, line string
		want         string // what the command connects to; "" if it doesn't
		says         []string
	}{
		{"none", "call notes write", a + "/s/notes/mcp", nil},
		{"none", "show music", b + "/s/music/mcp", nil},
		{"none", "list prompts music", b + "/s/music/mcp", nil},
		{"none", "call notse write", "", []string{"did you mean notes?"}},
		{"none", "call both write", "", []string{a + "/s/both/mcp", b + "/s/both/mcp"}},
		{"none", "call notes write --direct", "", []string{"no configuration file"}},
		{"none", "call notes write --env A=b", "", []string{"--env"}},
		{"none", "list", "", []string{"several", a, b}},
		{"none", "call notes write -c ../second.yaml", "", []string{"second.yaml has no server"}},
		{"own", "call music play", b + "/s/music/mcp", nil},
		{"own", "call notes write -c dragoman.yaml", "mine", nil},
		{"own", "call musik play", "", []string{"did you mean music?"}},
		{"own", "call nothing play", "", []string{"dragoman.yaml has no server", "other"}},
	} {
		t.Chdir(filepath.Join(u.home, c.folder))
		var out, said syncBuffer
		reached := ""
		x := &app{world: world{stdout: &out, env: u.env, status: newStatus(&said, false, noEnv)}}
		x.backend = Backend{Connect: func(_ context.Context, o daemon.ConnectOptions) (Session, error) {
			reached = o.Server.URL + o.Server.Command
			return answering{}, nil
		}}
		code := x.main(strings.Fields(c.line))
		text := said.take()
		if (code != exitUsage) != (c.want != "") || reached != c.want {
			t.Errorf("%s: %s: exit code %d, reached %q, want %q\n%s", c.folder, c.line, code, reached, c.want, text)
		}
		for _, w := range c.says {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %s: the message has no %q: %s", c.folder, c.line, w, text)
			}
		}
	}
}

// TestHealthOfServe checks that list without a configuration file shows the servers of the running serve.
func TestHealthOfServe(t *testing.T) {
	u := newUser(t)
	at := u.serve("-c", u.write("a.yaml", "mcpServers: {notes: {command: no-such-program}}\n"), "--listen", anyPort)
	u.write("none/readme", "")
	t.Chdir(filepath.Join(u.home, "none"))
	code, out, said := u.run("-v", "list")
	if code != exitFailure || !regexp.MustCompile(`(?s)\nnotes +failed.*no-such-program`).MatchString(out) || !strings.Contains(said, "using the running serve at http://"+at) {
		t.Errorf("%d\n%s%s", code, out, said)
	}
}

// TestPortOfAnotherServe checks what serve says about an address that another serve of the user, or another
// program, listens on.
func TestPortOfAnotherServe(t *testing.T) {
	u := newUser(t)
	file := u.write("my servers.yaml", "mcpServers: {notes: {command: no-such-program}}\n")
	at := u.serve("-c", file, "--listen", anyPort)
	foreign, err := net.Listen("tcp", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	for address, want := range map[string][]string{
		at:                      {"your own `dragoman serve`", file, "0 of 1 server ready", "`dragoman status --listen " + at + "`", "`dragoman console --listen " + at + "`"},
		foreign.Addr().String(): {"stop that program"},
	} {
		code, out, said := u.run("serve", "-c", file, "--no-console", "--listen", address)
		for _, w := range append(want, "already in use", "`dragoman serve --config='"+file+"' --no-console --listen 127.0.0.1:") {
			if code != exitFailure || !strings.Contains(said, w) {
				t.Errorf("%s: exit code %d, no %q\n%s%s", address, code, w, out, said)
			}
		}
	}
}

// TestCallsSayWhy checks that calls gives the key, without which serve doesn't say why a call failed.
func TestCallsSayWhy(t *testing.T) {
	u := newUser(t)
	at := u.serve("-c", u.write("a.yaml", "mcpServers: {notes: {command: no-such-program}}\n"), "--listen", anyPort)
	u.run("call", "http://"+at+"/mcp", "notes__write", "--no-check")
	for _, args := range [][]string{{"calls"}, {"calls", "--json"}} {
		if code, out, said := u.run(args...); code != exitOK || !strings.Contains(out, "no-such-program") {
			t.Errorf("%v: %d\n%s%s", args, code, out, said)
		}
	}
}
