//go:build unix

package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestServeRoutes calls a tool at every kind of path, in both eras.
func TestServeRoutes(t *testing.T) {
	t.Parallel()
	r := serve(t, snapshot(child(t, "a", "legacy"), child(t, "b", "modern")))
	for path, tool := range map[string]string{
		"/mcp": "a__echo", "/p/default/mcp": "b__echo",
		"/s/a/mcp": "echo", "/p/default/s/b/mcp": "echo",
	} {
		r.call(path, tool, `{"v":1}`).wantText(t, `{"v":1}`)
		for _, rev := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
			session := r.initialize(path, rev, "{}")
			r.post(path, toolCall("9", tool, `{"v":2}`), "Mcp-Session-Id", session).wantText(t, `{"v":2}`)
		}
	}
	list := r.modern("/mcp", "1", "tools/list", "", "")
	for _, name := range []string{`"a__echo"`, `"b__echo"`} {
		if !strings.Contains(list.body, name) {
			t.Errorf("%s is not in %.300s", name, list.body)
		}
	}
	if a := r.call("/s/nobody/mcp", "echo", "{}"); a.status != 404 {
		t.Errorf("a server that does not exist: %d", a.status)
	}
	if a := r.do(t.Context(), "GET", "/healthz", nil); a.status != 200 || a.body != "ok\n" {
		t.Errorf("healthz: %d %q", a.status, a.body)
	}
}

// sseClient is a client of 2024-11-05, over HTTP+SSE.
type sseClient struct {
	r      *rig
	events *stream
	post   string
	header []string // of each request
}

// dialSSE opens an HTTP+SSE stream and reads its endpoint event.
func dialSSE(r *rig, path string, header ...string) *sseClient {
	r.t.Helper()
	c := &sseClient{r: r, header: header}
	resp, err := r.request(context.Background(), "GET", path, nil, append([]string{"Accept", "text/event-stream"}, header...)...)
	if err != nil || resp.StatusCode != 200 {
		r.t.Fatalf("GET %s: %v %v", path, resp, err)
	}
	// readStream cannot read the endpoint event, because it is not a JSON-RPC message.
	var head []byte
	b := make([]byte, 1)
	for !strings.HasSuffix(string(head), "\n\n") {
		if _, err := resp.Body.Read(b); err != nil {
			r.t.Fatal(err)
		}
		head = append(head, b[0])
	}
	for line := range strings.SplitSeq(string(head), "\n") {
		if data, ok := strings.CutPrefix(line, "data:"); ok {
			base, _ := url.Parse(r.base + path)
			at, err := base.Parse(strings.TrimSpace(data))
			if err != nil {
				r.t.Fatal(err)
			}
			c.post = at.RequestURI()
		}
	}
	c.events = readStream(r.t, resp, func() { _ = resp.Body.Close() })
	return c
}

func (c *sseClient) send(body string) {
	c.r.t.Helper()
	if a := c.r.post(c.post, body, c.header...); a.status != 202 {
		c.r.t.Fatalf("POST %s: %d %s", c.post, a.status, a.body)
	}
}

// TestServeSSE checks that a client of HTTP+SSE can call tools of servers of both eras.
func TestServeSSE(t *testing.T) {
	t.Parallel()
	r := serve(t, snapshot(child(t, "a", "legacy"), child(t, "b", "modern")))
	for path, tool := range map[string]string{
		"/sse": "b__echo", "/p/default/sse": "a__echo", "/s/b/sse": "echo", "/p/default/s/a/sse": "echo",
	} {
		c := dialSSE(r, path)
		c.send(initializeBody("2024-11-05", "{}"))
		if m := c.events.event(); m == nil || !strings.Contains(string(m.Raw), `"protocolVersion":"2024-11-05"`) {
			t.Fatalf("%s: initialize: %v", path, m)
		}
		c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		c.send(toolCall("2", tool, `{"v":1}`))
		for {
			m := c.events.event()
			if m == nil {
				t.Fatalf("%s: the stream has ended", path)
			}
			if m.ID == "2" {
				if toolText(m) != `{"v":1}` {
					t.Errorf("%s: %s", path, m.Raw)
				}
				break
			}
		}
		c.events.stop()
	}
}

// TestT17_SlowAndDead uses a server that never answers and a server that exits at once. They do not
// delay requests that a third server or Dragoman itself can answer.
func TestT17_SlowAndDead(t *testing.T) {
	t.Parallel()
	slow, dead, good := child(t, "slow", "mute"), child(t, "dead", "exit"), child(t, "good", "legacy")
	r := serve(t, snapshot(slow, dead, good))
	r.call("/s/good/mcp", "echo", "{}").wantText(t, "{}")
	within := func(what string, most time.Duration, f func()) {
		t.Helper()
		start := time.Now()
		f()
		if took := time.Since(start); took > patience(most) {
			t.Errorf("%s took %v", what, took)
		}
	}
	// Only the first merged list waits for the servers, for at most 1.5 s.
	within("the first list", 3*time.Second, func() { r.modern("/mcp", "1", "tools/list", "", "") })
	within("discover", time.Second, func() { r.modern("/mcp", "1", "server/discover", "", "") })
	within("initialize", time.Second, func() { r.initialize("/mcp", "2025-06-18", "{}") })
	within("tools/list", time.Second, func() {
		if a := r.modern("/mcp", "1", "tools/list", "", ""); !strings.Contains(a.body, "good__echo") {
			t.Errorf("tools/list: %s", a.body)
		}
	})
	within("tools/call", time.Second, func() { r.call("/mcp", "good__echo", `{"v":1}`).wantText(t, `{"v":1}`) })
	within("logging/setLevel", 3*time.Second, func() {
		session := r.initialize("/mcp", "2025-06-18", "{}")
		if a := r.post("/mcp", `{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}`, "Mcp-Session-Id", session); a.code(t) != 0 {
			t.Errorf("setLevel: %s", a.body)
		}
	})
	within("subscriptions/listen", 3*time.Second, func() {
		s := r.open("POST", "/mcp", modernBody("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), modernHeader("subscriptions/listen", "")...)
		if m := s.event(); m == nil || m.Method != mcp.NoteAcknowledged {
			t.Errorf("the first message is %v", m)
		}
		s.stop()
	})
}

// TestStrictRevisions checks the error for an unsupported version with `otherwise: refuse`. The
// error has the supported versions under every member name that clients read.
func TestStrictRevisions(t *testing.T) {
	t.Parallel()
	s := snapshot(child(t, "a", "legacy"))
	rev, _ := mcp.ParseRevision("2025-06-18")
	s.Revisions = config.Revisions{Accept: []mcp.Revision{rev}, Refuse: true}
	r := serve(t, s)
	a := r.post("/mcp", initializeBody("2024-11-05", "{}"))
	m := a.message(t)
	for key, want := range map[string]string{
		"supported": `["2025-06-18"]`, "requested": "2024-11-05",
		"supported_versions": `["2025-06-18"]`, "received_version": "2024-11-05", "code": "INVALID_PROTOCOL_VERSION",
	} {
		if got := errorData(m, key); got != want {
			t.Errorf("data.%s is %s, want %s", key, got, want)
		}
	}
	if text, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, m.Error, "message")); text != "Unsupported protocol version. Expected: 2025-06-18" {
		t.Errorf("the message is %q", text)
	}
	if errorCode(m) != -32602 || a.header.Get("Mcp-Session-Id") != "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	r.initialize("/mcp", "2025-06-18", "{}")
}

// TestIdentity checks that an environment variable overrides the server title in the configuration.
func TestIdentity(t *testing.T) {
	t.Setenv("DRAGOMAN_SERVER_TITLE", "From the environment")
	s := snapshot(child(t, "a", "legacy"))
	s.Identity.Name, s.Identity.Title, s.Identity.Version = "configured", "From the file", "7"
	r := serve(t, s)
	for era, body := range map[string]string{
		"legacy": r.post("/mcp", initializeBody("2025-06-18", "{}")).body,
		"modern": r.modern("/mcp", "1", "server/discover", "", "").body,
	} {
		for _, want := range []string{`"name":"configured"`, `"title":"From the environment"`, `"version":"7"`} {
			if !strings.Contains(body, want) {
				t.Errorf("%s: %s is not in %s", era, want, body)
			}
		}
	}
}

// TestInstructions checks instructions from the configuration, from a file that changes, from a
// command, and from sources that Dragoman cannot read. Dragoman joins them with the servers' own
// instructions as config.Instructions.Join says.
func TestInstructions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "text")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	told := func(r *rig) string {
		t.Helper()
		m := r.post("/mcp", initializeBody("2025-06-18", "{}")).message(t)
		s, ok := jsonrpc.Text(m.Raw, m.ResultMember("instructions"))
		if !ok {
			t.Errorf("the result has no instructions: %s", m.Raw)
		}
		d := r.modern("/mcp", "9", "server/discover", "", "").message(t)
		if young, ok := jsonrpc.Text(d.Raw, d.ResultMember("instructions")); !ok || young != s && !strings.Contains(s, "2025-06-18") {
			t.Errorf("initialize says %q, server/discover says %q, %t", s, young, ok)
		}
		return s
	}
	with := func(in config.Instructions) *rig {
		t.Helper()
		s := snapshot(child(t, "a", "legacy"))
		s.Identity.Instructions = in
		r := serve(t, s)
		r.call("/s/a/mcp", "echo", "{}").wantText(t, "{}")
		return r
	}
	theirs := "## a\n\nbe kind"
	if got := told(with(config.Instructions{Text: "mine"})); got != "mine\n\n"+theirs {
		t.Errorf("text: %q", got)
	}
	if got := told(with(config.Instructions{Text: "{{client.name}} {{ client.version }} {{revision}} {{project}} {{other}} {{", Join: config.OwnOnly})); got != "t 1 2025-06-18 default {{other}} {{" {
		t.Errorf("placeholders: %q", got)
	}
	r := with(config.Instructions{File: file, Join: config.OwnOnly})
	if got := told(r); got != "first" {
		t.Errorf("file: %q", got)
	}
	write("second, and longer")
	if got := told(r); got != "second, and longer" {
		t.Errorf("changed file: %q", got)
	}
	write("not UTF-8 \xff")
	if got := told(r); got != "" {
		t.Errorf("broken file: %q", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := told(r); got != "" {
		t.Errorf("no file: %q", got)
	}
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := told(r); got != "" {
		t.Errorf("a named pipe without a writer: %q", got)
	}
	if got := told(with(config.Instructions{Command: []string{"/bin/sh", "-c", "echo from a command"}, Join: config.UpstreamsFirst})); got != theirs+"\n\nfrom a command" {
		t.Errorf("command: %q", got)
	}
	if got := told(with(config.Instructions{Command: []string{"/bin/sh", "-c", "echo no; exit 1"}, Join: config.OwnOnly})); got != "" {
		t.Errorf("failing command: %q", got)
	}
}

// TestInitializeRate checks a client that opens sessions in a loop. Dragoman refuses many of its
// requests with 429 and Retry-After. Other clients with the same address can still open sessions
// over HTTP and HTTP+SSE, and can make calls.
func TestInitializeRate(t *testing.T) {
	t.Parallel()
	s := snapshot(child(t, "a", "legacy"))
	s.Limits.InitializePerSecond = 1
	r := serve(t, s)
	session := r.initialize("/mcp", "2025-06-18", "{}")
	ctx, stop := context.WithCancel(t.Context())
	var looping sync.WaitGroup
	var limited atomic.Int64
	body := strings.Replace(initializeBody("2025-06-18", "{}"), `"name":"t"`, `"name":"loop"`, 1)
	for range 80 {
		looping.Go(func() {
			for ctx.Err() == nil {
				// Each request uses a new connection.
				c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				req, _ := http.NewRequestWithContext(ctx, "POST", r.base+"/mcp", strings.NewReader(body))
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Accept", "application/json, text/event-stream")
				resp, err := c.Do(req)
				if err != nil {
					continue
				}
				b, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode == http.StatusTooManyRequests {
					limited.Add(1)
					if resp.Header.Get("Retry-After") == "" || !strings.Contains(string(b), `"cause":"rate_limited"`) {
						t.Errorf("%v %s", resp.Header, b)
					}
				}
			}
		})
	}
	await(t, "the loops are limited", 20*time.Second, func() bool { return limited.Load() > 100 })
	r.initialize("/mcp", "2025-11-25", "{}")
	r.initialize("/s/a/mcp", "2025-03-26", "{}")
	dialSSE(r, "/sse").open()
	r.post("/mcp", toolCall("2", "a__echo", `{"v":1}`), "Mcp-Session-Id", session).wantText(t, `{"v":1}`)
	r.call("/mcp", "a__echo", `{"v":2}`).wantText(t, `{"v":2}`)
	stop()
	looping.Wait()
}

// TestReadyzAndMetrics checks the output of /readyz and /metrics, and that Dragoman refuses
// requests with a foreign Host or Origin.
func TestReadyzAndMetrics(t *testing.T) {
	t.Parallel()
	a, dead := child(t, "a", "legacy"), child(t, "dead", "exit")
	r := serve(t, snapshot(a, dead))
	r.call("/mcp", "a__echo", "{}").wantText(t, "{}")
	r.call("/mcp", "a__nothing", "{}")
	r.modern("/mcp", "1", "server/discover", "", "")
	session := r.initialize("/s/a/mcp", "2025-03-26", "{}")
	r.post("/s/a/mcp", toolCall("2", "nothing", `{}`), "Mcp-Session-Id", session)
	await(t, "the dead server has failed", 30*time.Second, func() bool {
		return strings.Contains(r.do(t.Context(), "GET", "/readyz", nil).body, `"name":"dead","state":"failed"`)
	})
	ready := r.do(t.Context(), "GET", "/readyz", nil)
	for _, want := range []string{`"ready":true`, `"reason":"some servers could not be opened"`, `"since":"2`, `"name":"a","state":"ready"`} {
		if !strings.Contains(ready.body, want) {
			t.Errorf("readyz: %s is not in %s", want, ready.body)
		}
	}
	metrics := r.do(t.Context(), "GET", "/metrics", nil)
	for _, want := range []string{
		`dragoman_calls_total{client_era="modern",outcome="ok",project="default",server="a",server_era="legacy"} 1`,
		`dragoman_calls_total{client_era="legacy",outcome="failed",project="default",server="a",server_era="legacy"} 1`,
		`dragoman_handshakes_total{client="t",outcome="ok",requested="2026-07-28"} 1`,
		`dragoman_handshakes_total{client="t",outcome="ok",requested="2025-03-26"} 1`,
		`dragoman_server_up{project="default",revision="2025-11-25",server="a",state="ready"} 1`,
		`dragoman_server_up{project="default",revision="unknown",server="dead",state="failed"} 0`,
		"process_open_fds",
	} {
		if !strings.Contains(metrics.body, want) {
			t.Errorf("metrics: %s is missing", want)
		}
	}
	for _, path := range []string{"/readyz", "/metrics", "/healthz", "/sse", "/s/a/mcp"} {
		if x := r.do(t.Context(), "GET", path, nil, "Host", "evil.example"); x.status != 403 && x.status != 421 {
			t.Errorf("%s for a foreign host: %d", path, x.status)
		}
		if x := r.do(t.Context(), "GET", path, nil, "Origin", "https://evil.example"); x.status != 403 {
			t.Errorf("%s for a foreign page: %d", path, x.status)
		}
	}
}

// TestW09_PortInUse checks that Run and Serve return an error with the address if they cannot
// listen on it.
func TestW09_PortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	start := time.Now()
	for _, address := range []string{l.Addr().String(), "127.0.0.1:notaport", "203.0.113.1:7300"} {
		u := child(t, "a", "legacy")
		err := Run(t.Context(), RunOptions{Server: u.Server, Listen: address})
		if err == nil || !strings.Contains(err.Error(), address) {
			t.Errorf("%s: %v", address, err)
		}
		o := ServeOptions{Config: snapshot(u), Listen: address, Stdio: true}
		in, out := io.Pipe()
		o.Stdin, o.Stdout = in, nopCloser{io.Discard}
		err = Serve(t.Context(), o)
		_ = out.Close()
		if err == nil || !strings.Contains(err.Error(), address) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if took := time.Since(start); took > patience(4*time.Second) {
		t.Errorf("took %v", took)
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// TestManySessions opens two thousand sessions without closing any. Dragoman accepts every new
// session and still serves calls.
func TestManySessions(t *testing.T) {
	t.Parallel()
	if testing.Short() || raceEnabled {
		t.Skip("opens thousands of sessions")
	}
	r := serve(t, snapshot(child(t, "a", "legacy")))
	r.call("/s/a/mcp", "echo", "{}").wantText(t, "{}")
	const n = 2000
	var wait sync.WaitGroup
	for c := range 16 {
		wait.Go(func() {
			for i := range n / 16 {
				if a := r.post("/mcp", initializeBody("2025-06-18", "{}")); a.status != 200 {
					t.Errorf("client %d session %d: %d %s", c, i, a.status, a.body)
					return
				}
			}
		})
	}
	wait.Wait()
	r.call("/mcp", "a__echo", fmt.Sprintf(`{"after":%d}`, n)).wantText(t, fmt.Sprintf(`{"after":%d}`, n))
}
