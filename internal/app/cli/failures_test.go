//go:build unix

package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
)

func init() { programs["failing-peer"] = failingPeer }

// failingPeer is a stdio server with one fault, for TestCommonestFailures.
func failingPeer() {
	in := bufio.NewScanner(os.Stdin)
	switch os.Args[1] {
	case "variable":
		in.Scan()
		fmt.Fprintln(os.Stderr, "npm notice New major version of npm available!")
		fmt.Fprintln(os.Stderr, "Error: GITHUB_TOKEN environment variable is required")
		os.Exit(1)
	case "stack":
		in.Scan()
		fmt.Fprint(os.Stderr, `node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module '/srv/dist/index.js'
    at Function._resolveFilename (node:internal/modules/cjs/loader:1225:15)
    at node:internal/main/run_main_module:36:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v22.11.0
`)
		os.Exit(1)
	case "noise":
		in.Scan()
		fmt.Println("Server listening on http://localhost:3000")
	case "silent":
		for in.Scan() {
		}
	case "version":
		for in.Scan() {
			if m, err := jsonrpc.Scan(in.Bytes(), jsonrpc.Limits{}); err == nil && m.Kind == jsonrpc.Request {
				fmt.Println(string(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{
					Code: -32022, Message: "Unsupported protocol version", Data: []byte(`{"supported":["1999-01-01"],"requested":"x"}`),
				})))
			}
		}
	}
}

// brokenServer is one case of TestCommonestFailures.
type brokenServer struct {
	name  string
	entry string        // the entry in mcpServers
	own   string        // the settings in dragoman.servers
	words string        // words of the server or the operating system that the output must quote
	class failure.Class // the class that every output must show
}

// brokenServers starts the HTTP servers of TestCommonestFailures and returns all cases.
func brokenServers(t *testing.T) []brokenServer {
	web := func(h http.HandlerFunc, start func(*httptest.Server)) string {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = log.New(io.Discard, "", 0) // refused TLS handshakes are expected
		start(s)
		t.Cleanup(s.Close)
		return s.URL
	}
	plain, encrypted := (*httptest.Server).Start, (*httptest.Server).StartTLS
	answer := func(status int, media, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	elsewhere := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mcp" {
			http.NotFound(w, r)
			return
		}
		answer(400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: no session"}}`)(w, r)
	}
	secure := web(http.NotFound, encrypted)
	peer := func(mode string) string {
		return `command: failing-peer, args: [` + mode + `], env: {PATH: "${PATH}"}`
	}
	return []brokenServer{
		{"no-such-command", `command: npx, args: [-y, x], env: {PATH: /nowhere}`, "", "PATH=/nowhere", failure.CommandNotFound},
		{"missing-variable", peer("variable"), "", "GITHUB_TOKEN environment variable is required", failure.MissingVariable},
		{"node-stack", peer("stack"), "", "Cannot find module '/srv/dist/index.js'", failure.Exited},
		{"noise-on-stdout", peer("noise"), "", "Server listening on http://localhost:3000", failure.NotJSON},
		{"unauthorized", `url: "` + web(answer(401, "application/json", `{"error":"invalid_token","error_description":"The token is not known"}`), plain) +
			`/mcp", headers: {Authorization: "Bearer s3cr3t-of-the-test"}`, "", "The token is not known", failure.Unauthorized},
		{"not-found", `url: "` + web(elsewhere, plain) + `/api"`, "", "404 page not found", failure.WrongPath},
		{"tls", `url: "` + secure + `/mcp"`, "", "x509: certificate signed by unknown authority", failure.TLS},
		{"silence", peer("silent"), "startTimeout: 1s", "got no response", failure.Silent},
		{"wrong-version", peer("version"), "", "1999-01-01", failure.WrongVersion},
		// The case "port in use" needs no server, so it is at the end of TestCommonestFailures. The
		// following cases are not among the ten commonest failures.
		{"sign-in", `url: "` + web(answer(401, "text/plain", "", "WWW-Authenticate", `Bearer resource_metadata="http://127.0.0.1/.well-known/oauth-protected-resource"`), plain) + `/mcp"`,
			"signIn: {how: headers}", "resource_metadata", failure.NeedsSignIn},
		{"redirect", `url: "` + web(answer(302, "text/html", "", "Location", "https://id.example/login?state=s3cr3t"), plain) + `/mcp"`, "", "https://id.example/login", failure.Redirected},
		{"http-on-https", `url: "` + strings.Replace(secure, "https", "http", 1) + `/mcp"`, "", "Client sent an HTTP request to an HTTPS server.", failure.WrongScheme},
		{"https-on-http", `url: "` + strings.Replace(web(http.NotFound, plain), "http", "https", 1) + `/mcp"`, "", "", failure.WrongScheme},
		{"refused", `url: "http://` + freePort() + `/mcp"`, "", "refused", failure.ConnectionRefused},
		{"web-page", `url: "` + web(answer(200, "text/html; charset=utf-8", "<html><title>Welcome</title></html>"), plain) + `/"`, "", "Welcome", failure.WrongPath},
		{"no-post", `url: "` + web(answer(501, "text/html", "<html><title>Error response</title></html>"), plain) + `/"`, "", "Error response", failure.WrongPath},
	}
}

// shownFailure is a failure as one output shows it.
type shownFailure struct {
	Class, Sentence, Action string
	Evidence                []string
}

// TestCommonestFailures causes the ten commonest failures, and some more. It runs `list` and `serve`
// with the real backend. Class, sentence, evidence and action must be the same on the command
// line, in the log, in the error to a client, in the status and in /readyz. The evidence must quote
// the server's own words. testdata/failures.txt has the expected texts.
func TestCommonestFailures(t *testing.T) {
	t.Parallel()
	all := brokenServers(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	entries, own := "", ""
	for _, b := range all {
		entries += fmt.Sprintf("  %s: {%s}\n", b.name, b.entry)
		own += fmt.Sprintf("    %s: {%s}\n", b.name, b.own)
	}
	file := filepath.Join(dir, "dragoman.yaml")
	if err := os.WriteFile(file, []byte("mcpServers:\n"+entries+"dragoman:\n  listen: 127.0.0.1:0\n  servers:\n"+own), 0o600); err != nil {
		t.Fatal(err)
	}

	// Run list, as text and as JSON records.
	texts, records := make([]string, len(all)), make([]shownFailure, len(all))
	var running sync.WaitGroup
	for i, b := range all {
		running.Go(func() { texts[i] = failedCommand(t, "list", "tools", b.name, "-c", file) })
		running.Go(func() {
			text := failedCommand(t, "--log-format", "json", "list", "tools", b.name, "-c", file)
			records[i] = recordWith(t, text, "failure", b.name)
		})
	}
	running.Wait()

	served, logged, status, ready, clients, buttons := serveBroken(t, file, all)
	var golden strings.Builder
	for i, b := range all {
		want := status[b.name]
		for place, got := range map[string]shownFailure{
			"the records of list": records[i], "the log of serve": logged[b.name], "/readyz": ready[b.name], "the error to a client": clients[b.name],
		} {
			if !reflect.DeepEqual(settled(got), settled(want)) {
				t.Errorf("%s: the status has\n%+v\n%s has\n%+v", b.name, want, place, got)
			}
		}
		if want.Class != string(b.class) {
			t.Errorf("%s has the class %s, want %s", b.name, want.Class, b.class)
		}
		if !strings.Contains(texts[i], "dragoman: error: "+want.Sentence+"\n") || !strings.Contains(texts[i], "dragoman: hint: "+want.Action+"\n") {
			t.Errorf("%s: the status has\n%+v\nlist prints\n%s", b.name, want, texts[i])
		}
		if !strings.Contains(texts[i], b.words) {
			t.Errorf("%s: list does not print %q:\n%s", b.name, b.words, texts[i])
		}
		if strings.Contains(texts[i]+served, "s3cr3t") {
			t.Errorf("%s: a secret is shown", b.name)
		}
		fmt.Fprintf(&golden, "== %s\n%sconsole: %s\n\n", b.name, describeFailure(want), buttons[b.name])
	}

	// Port in use: serve must fail to start.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	elsewhere := regexp.MustCompile("; to listen elsewhere, run `dragoman serve .*:\\d+`") // which port is free may change between two commands
	text := failedCommand(t, "serve", "--demo", "--listen", l.Addr().String())
	record := recordWith(t, failedCommand(t, "--log-format", "json", "serve", "--demo", "--listen", l.Addr().String()), "failure", "")
	if record.Class != string(failure.PortInUse) || !strings.Contains(text, "dragoman: error: "+record.Sentence+"\n") || !strings.Contains(text, "dragoman: hint: "+elsewhere.ReplaceAllString(record.Action, "")) {
		t.Errorf("port in use: the record has\n%+v\nserve prints\n%s", record, text)
	}
	record.Sentence = regexp.MustCompile(` by \S+ \(pid \d+\)`).ReplaceAllString(record.Sentence, "")
	record.Action = elsewhere.ReplaceAllString(record.Action, "; to listen elsewhere, run `dragoman serve --demo --listen 127.0.0.1:PORT`")
	fmt.Fprintf(&golden, "== port-in-use\n%sconsole: none, because serve does not run\n", describeFailure(record))

	path := filepath.Join("testdata", "failures.txt")
	if *update {
		if err := os.WriteFile(path, []byte(golden.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if golden.String() != string(want) {
		t.Errorf("%s differs; run the test with -update to write it:\n%s", path, golden.String())
	}
}

// TestCACert checks that --cacert trusts the authority in a file, and that a file without a
// certificate is an error.
func TestCACert(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"list", "tools", s.URL + "/x"}, "hint: if you trust it, save it to a file and set --cacert FILE"},
		{[]string{"list", "tools", "--cacert", file, s.URL + "/x"}, "/x: it answered HTTP 404 Not Found"},
		{[]string{"list", "tools", "--cacert", file + ".no", s.URL}, "error: --cacert: the certificate file"},
		{[]string{"list", "tools", "--cacert", file, "--", "failing-peer", "silent"}, "--cacert works only with a URL"},
	} {
		if text := failedCommand(t, x.args...); !strings.Contains(text, x.want) {
			t.Errorf("%q: no %q in\n%s", x.args, x.want, text)
		}
	}
}

var (
	portNumber = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	lastStep   = regexp.MustCompile(`^sent .*, got no response for .*`)
)

// settled returns a failure without the parts that differ between runs: port numbers, and the
// last step of a handshake that got no response.
func settled(f shownFailure) shownFailure {
	f.Sentence = portNumber.ReplaceAllString(f.Sentence, "127.0.0.1:PORT")
	f.Action = portNumber.ReplaceAllString(f.Action, "127.0.0.1:PORT")
	f.Evidence = slices.Clone(f.Evidence)
	for i, line := range f.Evidence {
		f.Evidence[i] = lastStep.ReplaceAllString(portNumber.ReplaceAllString(line, "127.0.0.1:PORT"), "sent …, got no response for …")
	}
	return f
}

func describeFailure(f shownFailure) string {
	f = settled(f)
	out := fmt.Sprintf("class: %s\nsentence: %s\n", f.Class, f.Sentence)
	for _, line := range f.Evidence {
		out += "evidence: " + line + "\n"
	}
	return out + "action: " + f.Action + "\n"
}

// failedCommand runs a command that must fail, with the real backend, and returns what it
// prints to stderr.
func failedCommand(t *testing.T, args ...string) string {
	var out logtest.Buffer
	env := func(name string) (string, bool) {
		if name == "PATH" {
			return os.LookupEnv(name)
		}
		return "", false
	}
	a := &app{world: world{backend: Daemon(), stdin: strings.NewReader(""), stdout: io.Discard, env: env, program: "dragoman", status: newStatus(&out, false, env)}}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	a.status.End()
	if err == nil {
		t.Errorf("%v succeeded, want a failure", args)
		return ""
	}
	a.printError(err)
	return out.String()
}

// recordWith returns the failure of the first record with a code and a server. A code of ""
// matches any code. A server of "" matches records without a server.
func recordWith(t *testing.T, text, code, server string) (f shownFailure) {
	for line := range strings.Lines(text) {
		var r struct {
			Code, Server string
			shownFailure
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Errorf("%v: %s", err, line)
			continue
		}
		if r.Class != "" && (code == "" || r.Code == code) && r.Server == server {
			return r.shownFailure
		}
	}
	return f
}

// serveBroken runs serve with all servers. It returns the failure that each output shows for
// each server: the log, the status, /readyz, and the error to a client. buttons has the buttons
// of each server in the console. served is all the text that was read.
func serveBroken(t *testing.T, file string, all []brokenServer) (served string, logged, status, ready, clients map[string]shownFailure, buttons map[string]string) {
	keys := t.TempDir()
	env := func(name string) (string, bool) {
		if name == "XDG_RUNTIME_DIR" {
			return keys, true
		}
		return os.LookupEnv(name)
	}
	s := &stage{T: t, log: &logtest.Buffer{}}
	a := &app{world: world{backend: Daemon(), stdin: strings.NewReader(""), stdout: io.Discard, env: env, program: "dragoman", status: newStatus(s.log, false, env)}}
	root := a.root()
	root.SetArgs([]string{"serve", "-c", file, "--log-format", "json"})
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	defer func() {
		cancel(context.Canceled)
		http.DefaultClient.CloseIdleConnections()
		<-done
	}()
	logged, status, ready, clients = map[string]shownFailure{}, map[string]shownFailure{}, map[string]shownFailure{}, map[string]shownFailure{}
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > 2*time.Minute {
			t.Fatalf("after two minutes there are %d of %d failures in the status, %d in /readyz\n%s", len(status), len(all), len(ready), s.log)
		}
		if at := announced.FindStringSubmatch(s.log.String()); s.base == "" && at != nil {
			s.base = at[1]
		}
		if s.base == "" {
			continue
		}
		// While Dragoman opens a server again, the server has no failure, so several reads may be
		// needed.
		for path, into := range map[string]map[string]shownFailure{"/api/v1/status": status, "/readyz": ready} {
			var page struct {
				Servers []struct {
					Name    string
					Failure shownFailure
				}
			}
			_, body, _ := bytes.Cut([]byte(s.get(path)), []byte(" "))
			served += string(body)
			if err := json.Unmarshal(body, &page); err != nil {
				t.Fatalf("%s: %v: %s", path, err, body)
			}
			for _, x := range page.Servers {
				if _, have := into[x.Name]; !have && x.Failure.Class != "" {
					into[x.Name] = x.Failure
				}
			}
		}
		if len(status) == len(all) && len(ready) == len(all) {
			break
		}
	}
	console := openConsole(s, admin.KeyFolders(env))
	buttons = checkConsole(console, file, all, status)
	pressButtons(t, console, "node-stack")
	for _, b := range all {
		answer := s.ask("/s/"+b.name+"/mcp", "tools/call", "x", `"name":"x","arguments":{}`)
		served += answer
		var m struct {
			Error struct {
				Message string
				Data    struct{ Failure shownFailure }
			}
		}
		_, body, _ := strings.Cut(answer, " ")
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Errorf("%s: %v: %s", b.name, err, answer)
		}
		if f := m.Error.Data.Failure; m.Error.Message != f.Sentence+"; "+f.Action {
			t.Errorf("%s: the message to the client is %s", b.name, m.Error.Message)
		}
		clients[b.name] = m.Error.Data.Failure
		logged[b.name] = recordWith(t, s.log.String(), "", b.name)
	}
	return served + s.log.String(), logged, status, ready, clients, buttons
}
