package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// golden compares text with a file in testdata/golden. With -update it writes the file.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), text); d != "" {
		t.Errorf("%s is stale; run `go test ./internal/app/cli -update` if this is right: -want +got\n%s", path, d)
	}
}

// noon is the time of the test reports.
var noon = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)

// testReport returns a report with a server in each state.
func testReport() *admin.Report {
	at := func(before time.Duration) *time.Time { t := noon.Add(-before); return &t }
	tools := func(n int) []admin.List {
		return []admin.List{{Method: "tools/list", Items: n, ReadAt: at(time.Minute)}}
	}
	return &admin.Report{
		Name: "dragoman", Version: "1.2.3", PID: 4711, State: "serving", UptimeSeconds: 3723,
		Conversations: map[string]int{"http": 2, "sse": 1}, Requests: 4, Parked: []admin.ParkedCall{{}},
		Servers: []admin.Server{
			{Name: "files", State: "ready", Since: noon.Add(-time.Hour), Era: "legacy", Revision: "2025-11-25", Transport: "stdio", Isolation: "auto", Restarts: 1, Running: 2, Calls: 1204, FailedCalls: 3, Lists: tools(14),
				Sessions:  []admin.Session{{Role: "home", Revision: "2025-11-25", PID: 99, Opened: noon.Add(-time.Hour), Running: 2}},
				Handshake: &admin.Handshake{At: noon.Add(-time.Hour), Trace: []string{"     0 ms  initialize -> 2025-11-25; as offered"}}},
			{Name: "文件", State: "ready", Since: noon.Add(-1500 * time.Millisecond), Revision: "2026-07-28", Transport: "http", Lists: tools(3)},
			{Name: "github", State: "failed", Since: noon.Add(-70 * time.Second), Transport: "http", RetryAt: at(-12 * time.Second), Reason: "github refused the handshake with 401 Unauthorized: \"token\x1b[2J is not valid\"",
				Failure: &failure.Failure{Class: failure.Unauthorized, Sentence: "github refused the handshake with 401 Unauthorized: \"token\x1b[2J is not valid\"", Action: "set --header 'Authorization: Bearer TOKEN'"}},
			{Name: "late", State: "starting", Since: noon.Add(-4200 * time.Millisecond), Transport: "stdio"},
			{Name: "lazy", State: "idle", Since: noon.Add(-26 * time.Hour)},
		},
	}
}

// wideReport returns a report with names of many kinds, and reasons that need several lines.
func wideReport() *admin.Report {
	r := testReport()
	reason := "server \"github\" exited with status 1 before it was ready: \"psycopg2.OperationalError: connection to server at \\\"db.internal.example.com\\\" (10.11.12.13), port 5432 failed\""
	r.Servers[2].Reason, r.Servers[2].Attempts = reason, 4
	r.Servers[2].Failure = &failure.Failure{
		Class: failure.Exited, Sentence: reason, Action: "run the command by hand to see its complete output, or look at `dragoman logs github`",
		EvidenceFrom: failure.Stderr, Evidence: []string{"psycopg2.OperationalError: connection to server at \"db.internal.example.com\" (10.11.12.13), port 5432 failed", "Traceback (most recent call last):"},
	}
	r.Servers[2].Lists = []admin.List{{Method: "tools/list", Failed: reason}}
	r.Servers[4].Name = "reporting-e\u0301te\u0301-production"
	stopped := admin.Server{Name: "🎉 party", State: "stopped", Since: noon.Add(-12 * time.Minute), Transport: "http", Revision: "2025-06-18", Calls: 12345678, Reason: "server \"🎉 party\" was stopped by an operator"}
	r.Servers = append(r.Servers, stopped)
	return r
}

// refusedReport returns the report of a process that refused a changed configuration.
func refusedReport() *admin.Report {
	r := testReport()
	r.Servers = r.Servers[:1]
	r.Refusal = &admin.Refusal{Text: "The changed configuration was refused, and the current one stays in use. /etc/dragoman.yaml:3:5: the key \"comand\x1b[2J\" is unknown; did you mean \"command\"?", Since: noon.Add(-90 * time.Second)}
	return r
}

// adminStub acts as a running serve process.
type adminStub struct {
	mu      sync.Mutex
	report  *admin.Report // the report to serve; if it is nil, connections are refused
	records []admin.LogRecord
	calls   []admin.Call
	story   *admin.Story
	streams []string // the text that each connection to the stream receives, in order
	asked   []string // the requests: path, query and Last-Event-ID
}

func (s *adminStub) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *adminStub) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *adminStub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, strings.TrimSuffix(r.URL.RequestURI()+" "+r.Header.Get("Last-Event-ID"), " "))
	switch {
	case r.URL.Query().Get("server") == "nobody":
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"type":"urn:dragoman:problem:no-such-server","title":"No such server","status":404}`)
	case r.URL.Path == "/api/v1/status":
		_ = json.NewEncoder(w).Encode(s.report)
	case r.URL.Path == "/api/v1/logs":
		_ = json.NewEncoder(w).Encode(admin.Logs{Records: s.records})
	case strings.HasPrefix(r.URL.Path, "/api/v1/calls/") && s.story != nil:
		_ = json.NewEncoder(w).Encode(s.story)
	case r.URL.Path == "/api/v1/calls":
		_ = json.NewEncoder(w).Encode(admin.Calls{Calls: s.calls})
	case strings.HasSuffix(r.URL.Path, "/stream") && len(s.streams) > 0:
		_, _ = io.WriteString(w, s.streams[0])
		s.streams = s.streams[1:]
	default:
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"type":"urn:dragoman:problem:local-only","title":"Only this machine may read the status","status":403,"detail":"A proxy forwarded the request."}`)
	}
}

// RoundTrip implements http.RoundTripper without a network.
func (s *adminStub) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	gone := s.report == nil
	s.mu.Unlock()
	if gone {
		return nil, errors.New("connection refused")
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

func (s *adminStub) running() *running {
	return &running{address: "127.0.0.1:7300", http: &http.Client{Transport: s}}
}

// TestStatusText checks the table of all servers for a pipe, and for a terminal of 100 cells.
func TestStatusText(t *testing.T) {
	c := &statusCommand{world: &world{status: newStatus(io.Discard, false, noEnv)}}
	golden(t, "status.txt", c.statusText("http://127.0.0.1:7300", testReport(), noon))
	c.name = "files"
	golden(t, "status-one.txt", c.statusText("http://127.0.0.1:7300", testReport(), noon))
	c.name = ""
	c.screen, c.width = true, 100
	golden(t, "status-refused.txt", c.statusText("http://127.0.0.1:7300", refusedReport(), noon))
	for _, width := range []int{60, 80, 100, 200} {
		c.name, c.width = "", width
		text := c.statusText("http://127.0.0.1:7300", wideReport(), noon)
		golden(t, "status-"+strconv.Itoa(width)+".txt", text)
		c.name = "github"
		for l := range strings.Lines(text + c.statusText("http://127.0.0.1:7300", wideReport(), noon)) {
			if n := screen.Width(strings.TrimSuffix(l, "\n")); n > width {
				t.Errorf("in %d columns a line takes %d: %s", width, n, l)
			}
		}
	}
	c.name, c.width = "github", 80
	golden(t, "status-one-80.txt", c.statusText("http://127.0.0.1:7300", wideReport(), noon))
	c.name = ""
	again := testReport()
	again.Servers[2].RetryAt, again.Servers[2].Opening = nil, 1
	if got := c.statusText("http://x:1", again, noon); !strings.Contains(strings.Join(strings.Fields(got), " "), "Dragoman is trying again now") {
		t.Errorf("while a server is opened again: %s", got)
	}
	kept := testReport()
	kept.Servers[3].Lists = []admin.List{{Method: "tools/list", Items: 77, KeptAt: &noon}}
	if got := c.statusText("http://x:1", kept, noon); !strings.Contains(got, "77") || !strings.Contains(strings.Join(strings.Fields(got), " "), "list from disk, read at "+noon.Local().Format("2006-01-02 15:04")) {
		t.Errorf("with a list from disk: %s", got)
	}
	wants := testReport()
	wants.Servers[2].Failure = &failure.Failure{Class: failure.NeedsSignIn, Sentence: "it needs a sign-in"}
	if got := c.statusText("http://x:1", wants, noon); !strings.Contains(got, "  sign-in  ") {
		t.Errorf("with a server that needs a sign-in: %s", got)
	}
	none := testReport()
	none.Servers = nil
	none.Limits = []admin.LimitRefusals{{Per: "key", Of: "p-1", Limit: "calls_per_second", Refused: 3}, {Per: "key", Of: "p-2", Limit: "calls_in_flight", Refused: 4}, {Per: "server", Of: "git", Limit: "calls_per_second", Refused: 1}}
	if got := c.statusText("http://x:1", none, noon); !strings.Contains(got, "limits: 8 calls refused since the start, per key, per server\n") {
		t.Errorf("no refusals in\n%s", got)
	}
	if got := c.statusText("http://x:1", none, noon); !strings.HasSuffix(got, "\nno server is configured\n") {
		t.Errorf("without servers: %s", got)
	}
}

func TestSpanOf(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 ms", 15 * time.Millisecond: "15 ms", 1250 * time.Millisecond: "1.2 s", 9990 * time.Millisecond: "9.9 s",
		59*time.Second + 900*time.Millisecond: "59 s", 61 * time.Second: "1m01s", 3 * time.Hour: "3h00m", 50 * time.Hour: "2d02h",
	} {
		if got := spanOf(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

// invoke runs a command line and returns what it prints and its exit code.
func invoke(args ...string) (stdout, stderr string, code int) {
	var out, said syncBuffer
	a := &app{world: world{stdin: strings.NewReader(""), stdout: &out, env: noEnv, status: newStatus(&said, false, noEnv)}}
	code = a.main(args)
	return out.take(), said.take(), code
}

// TestStatusCommand runs the command against a server over HTTP.
func TestStatusCommand(t *testing.T) {
	stub := &adminStub{report: testReport()}
	web := httptest.NewServer(stub)
	defer web.Close()
	address := strings.TrimPrefix(web.URL, "http://")
	out, said, code := invoke("status", "--listen", address)
	if code != 0 || said != "" || !strings.HasPrefix(out, "dragoman 1.2.3 at http://"+address+"/mcp, pid 4711, serving for 1h02m\n") || strings.Contains(out, "\x1b") {
		t.Errorf("%d\n%s%s", code, out, said)
	}
	out, said, code = invoke("status", "--listen", address, "--json")
	var r admin.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || said != "" || len(r.Servers) != 5 {
		t.Errorf("--json: %d %v\n%s%s", code, err, out, said)
	}
	out, _, _ = invoke("status", "--listen", address, "--json", "github")
	var s admin.Server
	if err := json.Unmarshal([]byte(out), &s); err != nil || s.Name != "github" {
		t.Errorf("--json github: %v\n%s", err, out)
	}
	for _, args := range [][]string{{"status", "nobody"}, {"logs", "nobody"}, {"logs", "-f", "nobody"}} {
		if out, said, code := invoke(append(args, "--listen", address)...); code != exitUsage || out != "" || said != "dragoman: error: the running serve has no server named \"nobody\"\ndragoman: hint: use one of files, 文件, github, late, lazy\n" {
			t.Errorf("%v: %d %s%s", args, code, out, said)
		}
	}
	if _, said, code := invoke("logs", "-f", "--listen", address); code != exitFailure || said != "dragoman: error: only this machine may read the status: a proxy forwarded the request\n" {
		t.Errorf("refused: %d %s", code, said)
	}
}

// TestNoRunningServe checks the error when no serve process answers at the address. The error must
// say how to reach a serve process.
func TestNoRunningServe(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	busy := strings.TrimPrefix(other.URL, "http://")
	defer other.Close()
	free := httptest.NewServer(nil)
	gone := strings.TrimPrefix(free.URL, "http://")
	free.Close()
	dir := t.TempDir()
	file, bad := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	if err := errors.Join(
		os.WriteFile(file, []byte("dragoman: {listen: \""+gone+"\"}\n"), 0o600),
		os.WriteFile(bad, []byte("dragoman: {lisen: 5}\n"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	const hint = "dragoman: hint: start `dragoman serve`, or name the address of a running serve with --listen or its configuration file with -c\n"
	for _, command := range []string{"status", "logs"} {
		for _, c := range []struct {
			flag, value, want string
			code              int
		}{
			{"--listen", gone, "dragoman: error: no `dragoman serve` answers at " + gone + "\n" + hint, 1},
			{"--listen", busy, "dragoman: error: the program at " + busy + " is not `dragoman serve`\n" + hint, 1},
			{"-c", file, "dragoman: error: no `dragoman serve` answers at " + gone + "\n" + hint, 1},
			{"--listen", "7300", "dragoman: error: \"7300\" is not an address\ndragoman: hint: use --listen HOST:PORT, for example --listen 127.0.0.1:7300\n", 2},
		} {
			if _, said, code := invoke(command, c.flag, c.value); code != c.code || said != c.want {
				t.Errorf("%s %s %s: %d\n%s", command, c.flag, c.value, code, said)
			}
		}
		if _, said, code := invoke(command, "-c", bad); code != 1 || !strings.Contains(said, "read the address of serve from "+bad) || !strings.Contains(said, "name the address with --listen") {
			t.Errorf("%s -c: %d\n%s", command, code, said)
		}
	}
}

// TestWatchStatus checks that --watch on a pipe prints a line for each change, and continues
// when serve is back.
func TestWatchStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stub := &adminStub{report: testReport()}
		stub.report.Servers = stub.report.Servers[:3]
		var out syncBuffer
		c := &statusCommand{world: &world{stdout: &out, status: newStatus(io.Discard, false, noEnv)}}
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		var running sync.WaitGroup
		running.Go(func() { done <- c.watchStatus(ctx, stub.running()) })
		var seen strings.Builder
		look := func(what string) {
			time.Sleep(2*watchPause + watchPause/2)
			synctest.Wait()
			for line := range strings.Lines(out.take()) {
				seen.WriteString(what + ": " + line[len(time.DateTime)+1:])
			}
		}
		look("begin")
		stub.set(func() {
			r := testReport()
			r.Servers = r.Servers[:4]
			r.Servers[0].State, r.Servers[0].Reason, r.UptimeSeconds = "failed", "the process ended: signal: killed", 4000
			stub.report = r
		})
		look("killed")
		stub.set(func() {
			r := testReport()
			r.Servers = r.Servers[:1]
			r.Servers[0].Restarts = 2
			stub.report = r
		})
		look("healed")
		stub.set(func() {
			r := refusedReport()
			r.Servers[0].Restarts = 2
			stub.report = r
		})
		look("refused")
		stub.set(func() {
			r := *stub.report
			r.Refusal = nil
			stub.report = &r
		})
		look("mended")
		before := stub.report
		stub.set(func() { stub.report = nil })
		look("gone")
		stub.set(func() { stub.report = before })
		look("back")
		cancel(signalError{2})
		if err := <-done; !errors.As(err, new(signalError)) {
			t.Errorf("ended with %v", err)
		}
		running.Wait()
		golden(t, "status-watch.txt", seen.String())
	})
}

// TestWatchOnScreen checks that on a terminal each drawing replaces the previous one.
func TestWatchOnScreen(t *testing.T) {
	var out syncBuffer
	c := &statusCommand{world: &world{stdout: &out, screen: true, width: 100, status: newStatus(io.Discard, false, noEnv)}}
	w := watcher{statusCommand: c, address: "127.0.0.1:7300", base: "http://127.0.0.1:7300"}
	for range 2 {
		if err := w.show(testReport(), noon); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Count(c.statusText("http://127.0.0.1:7300", testReport(), noon), "\n")
	text := out.take()
	if _, second, ok := strings.Cut(text, fmt.Sprintf("\x1b[J\x1b[?7h\x1b[%dA\r", lines)); !ok || !strings.HasSuffix(second, "\x1b[J\x1b[?7h") || strings.Count(second, "\n") != lines {
		t.Errorf("drawn: %q", text)
	}
}

// TestWatchJSON checks that --watch --json prints a line for each change.
func TestWatchJSON(t *testing.T) {
	var out syncBuffer
	c := &statusCommand{world: &world{stdout: &out, status: newStatus(io.Discard, false, noEnv)}, asJSON: true}
	w := watcher{statusCommand: c}
	for i := range 3 {
		r := testReport()
		r.UptimeSeconds += int64(i)
		if i == 2 {
			r.Servers[0].State = "failed"
		}
		if err := w.show(r, noon); err != nil {
			t.Fatal(err)
		}
	}
	text := out.take()
	if n := strings.Count(text, "\n"); n != 2 {
		t.Errorf("%d lines:\n%s", n, text)
	}
}

// testRecords returns log records of each kind.
func testRecords() []admin.LogRecord {
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	return []admin.LogRecord{
		{ID: "a-1-1", Time: at(0), Level: "info", Source: "log", Text: "configuration applied", Code: "config_applied", Attributes: admin.Attributes{{Key: "added", Value: "2"}, {Key: "note", Value: `a "b"`}}},
		{ID: "a-2-1", Time: at(1), Level: "info", Server: "files", Source: "stderr", Text: "Listening \x1b[2J on\u202e stdin"},
		{ID: "a-9-2", Time: at(2), Level: "warn", Server: "files", Source: "log", Text: "server ended", Attributes: admin.Attributes{{Key: "exit", Value: "exit status 1"}, {Key: "n", Value: ""}}, Missed: 6},
		{ID: "a-a-3", Time: at(3), Level: "error", Source: "log", Text: "panic while serving a request"},
	}
}

// TestLogLines checks how log records are printed as text and as JSON.
func TestLogLines(t *testing.T) {
	var out strings.Builder
	for _, r := range testRecords() {
		if r.Missed > 0 {
			out.WriteString("…\n")
		}
		out.WriteString(logLine(&r, time.UTC, false) + "\n")
	}
	golden(t, "logs.txt", out.String())
	if got := logLine(&testRecords()[2], time.UTC, true); !strings.Contains(got, "\x1b[33mWARN\x1b[0m \x1b[1mfiles\x1b[0m: server ended") {
		t.Errorf("in colour: %q", got)
	}
	stub := &adminStub{report: testReport(), records: testRecords()}
	web := httptest.NewServer(stub)
	defer web.Close()
	text, said, code := invoke("logs", "files", "-n", "7", "--json", "--listen", strings.TrimPrefix(web.URL, "http://"))
	if code != 0 || said != "" || stub.requests()[0] != "/api/v1/logs?limit=7&server=files" {
		t.Errorf("%d %s %q", code, said, stub.requests())
	}
	golden(t, "logs.json", text)
	text, _, _ = invoke("logs", "--listen", strings.TrimPrefix(web.URL, "http://"))
	if strings.Count(text, "\n") != 5 || !strings.Contains(text, "\n… records dropped: 6 …\n") {
		t.Errorf("as text:\n%s", text)
	}
}

// TestFollowLogs checks that -f prints each record once, continues after a broken connection,
// and ends when serve stops.
func TestFollowLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := func(records ...admin.LogRecord) (s string) {
			for _, r := range records {
				data, err := json.Marshal(r)
				if err != nil {
					t.Fatal(err)
				}
				s += string(eventstream.AppendEvent(nil, r.ID, admin.EventRecord, data))
			}
			return s
		}
		all := testRecords()
		stub := &adminStub{report: testReport(), streams: []string{
			": hello\n\n" + events(all[:2]...), "", events(all[2:]...) + "event: end\ndata: {}\n\n",
		}}
		var out, said syncBuffer
		c := &logsCommand{world: &world{stdout: &out, status: newStatus(&said, false, noEnv)}, asJSON: true}
		err := (&stream{from: stub.running(), path: "/api/v1/logs/stream", query: map[string][]string{"limit": {"5"}}, take: taking(admin.EventRecord, c.printLogRecord)}).follow(t.Context(), c.world)
		if err != nil {
			t.Error(err)
		}
		golden(t, "logs.json", out.take())
		if got := said.take(); got != "dragoman: serve at 127.0.0.1:7300 has stopped\n" {
			t.Errorf("said %q", got)
		}
		const path = "/api/v1/logs/stream?limit=5"
		if d := cmp.Diff([]string{path, path + " a-2-1", path + " a-2-1"}, stub.requests()); d != "" {
			t.Error(d)
		}
		// If the serve process does not come back, follow returns an error.
		stub = &adminStub{report: testReport(), streams: []string{": hello\n\n"}}
		lost := stub.running()
		err = (&stream{from: lost, path: "/api/v1/logs/stream", take: taking(admin.EventRecord, func(*admin.LogRecord) error { return nil })}).follow(t.Context(), c.world)
		if err == nil || !strings.Contains(err.Error(), "only this machine") {
			t.Errorf("lost: %v", err)
		}
	})
}
