//go:build unix

package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestLimitOfAServersMessage checks that limits.message applies to every transport, and can be
// higher than the default. If a message exceeds the limit, only its call fails, and the server
// keeps running.
func TestLimitOfAServersMessage(t *testing.T) {
	t.Parallel()
	old := &oldWeb{streams: map[string]chan []byte{}}
	web := httptest.NewServer(old)
	defer web.Close()
	limited := func(most int) func(*config.Server) { return func(s *config.Server) { s.Message = most } }
	sse, problem := config.Complete(config.Server{Name: "sse", URL: web.URL + "/sse", Kind: config.KindSSE, Message: 10 << 10})
	if problem != nil {
		t.Fatal(problem)
	}
	pipe := child(t, "pipe", "legacy", limited(10<<10))
	big := child(t, "big", "legacy", limited(20<<20))
	r := serve(t, snapshot(pipe, big, newWeb(t, true).as(t, "web", limited(10<<10)), &upstreamUnderTest{Server: sse}))
	defer func() { _ = r.stop() }()
	args := func(n int) string { return `{"v":"` + strings.Repeat("x", n) + `"}` }
	for _, server := range []string{"pipe", "web", "sse"} {
		r.call("/mcp", server+"__echo", args(9000)).wantText(t, args(9000))
		r.call("/mcp", server+"__echo", args(12000)).wantFault(t, "too_large", "unknown")
		r.call("/mcp", server+"__echo", args(10)).wantText(t, args(10))
	}
	if got := toolText(r.call("/s/big/mcp", "large", fmt.Sprintf(`{"n":%d}`, 18<<20)).message(t)); len(got) != 18<<20 {
		t.Errorf("got %d bytes", len(got))
	}
	pipe.wantOneLeft(t)
}

// TestLimitOfAClientsMessageOnAPipe checks that limits.body also applies to stdin. If a request is
// too long, the client gets an error with the id of that request. Dragoman serves the next request.
func TestLimitOfAClientsMessageOnAPipe(t *testing.T) {
	t.Parallel()
	s := snapshot(child(t, "a", "legacy"))
	s.Limits.Body = 10 << 10
	p := pipeTo(t, func(ctx context.Context, log *slog.Logger, in io.Reader, out io.WriteCloser) error {
		return Serve(ctx, ServeOptions{Config: s, Listen: "127.0.0.1:0", Stdio: true, Log: log, Stdin: in, Stdout: out})
	})
	p.initialize("{}")
	long := strings.Repeat("x", 12000)
	p.send(toolCall("5", "a__echo", `{"v":"`+long+`"}`))
	if m := p.answerTo("5"); errorCode(m) != -32600 || !strings.Contains(string(m.Raw), "exceeds 10240 bytes") {
		t.Errorf("got %.300s", m.Raw)
	}
	p.send(toolCall("6", "a__echo", `{"v":1}`))
	if got := toolText(p.answerTo("6")); got != `{"v":1}` {
		t.Errorf("got %s", got)
	}
}

// TestReloadOfTimeouts checks that a changed call timeout applies to the next call, and that the
// server keeps its process. A changed message limit also applies to the next call.
func TestReloadOfTimeouts(t *testing.T) {
	t.Parallel()
	u := child(t, "a", "legacy")
	w := serveFile(t, text(u))
	w.call("/mcp", "a__echo", "{}").wantText(t, "{}")
	w.write(t, strings.Replace(text(u), "limits: {", "servers: {a: {callTimeout: 1s}}, limits: {", 1))
	w.waitLog(t, "configuration applied", 1)
	start := time.Now()
	w.call("/mcp", "a__hang", "{}").wantFault(t, "timeout", "unknown")
	if took := time.Since(start); took > patience(5*time.Second) {
		t.Errorf("took %v", took)
	}
	if n := len(u.pids(t)); n != 1 {
		t.Errorf("the server was started %d times", n)
	}
	w.write(t, strings.Replace(text(u), "limits: {", "limits: {message: 10KiB, ", 1))
	w.waitLog(t, "configuration applied", 2)
	w.call("/s/a/mcp", "large", `{"n":12000}`).wantFault(t, "too_large", "unknown")
}

// TestReloadOfLimits checks that changed limits and revisions count for the next request and the next
// session, in both eras and over both HTTP transports. A client with a session and a stream from
// before goes on, and the server keeps its process.
func TestReloadOfLimits(t *testing.T) {
	t.Parallel()
	u := child(t, "a", "legacy")
	w := serveFile(t, text(u))
	session := []string{"Mcp-Session-Id", w.initialize("/s/a/mcp", "2025-11-25", "{}"), "MCP-Protocol-Version", "2025-11-25"}
	old := dialSSE(w.rig, "/sse")
	defer old.events.stop()
	long := `{"v":"` + strings.Repeat("x", 12000) + `"}`
	if report, _ := w.status(); report.InFlight.Limit != 96<<20 {
		t.Errorf("limits.inFlight is %d", report.InFlight.Limit)
	}
	w.call("/mcp", "a__echo", long).wantText(t, long)

	w.write(t, strings.Replace(text(u), "limits: {initializePerSecond: 1000}", "limits: {initializePerSecond: 1000, body: 10KiB, inFlight: 2MiB}, revisions: {accept: [\"2025-11-25\"], otherwise: refuse}", 1))
	w.waitLog(t, "configuration applied", 1)
	if strings.Contains(w.log.String(), "only with a restart") {
		t.Error("the log says that a restart is needed")
	}
	if report, _ := w.status(); report.InFlight.Limit != 2<<20 {
		t.Errorf("limits.inFlight is still %d", report.InFlight.Limit)
	}
	if a := w.modern("/mcp", "1", "tools/call", "a__echo", `"name":"a__echo","arguments":{}`); a.code(t) != -32022 {
		t.Errorf("a modern request: %d %s", a.status, a.body)
	}
	if a := w.post("/mcp", initializeBody("2025-06-18", "{}")); a.code(t) != -32602 {
		t.Errorf("another revision: %d %s", a.status, a.body)
	}
	for _, path := range []string{"/s/a/mcp", old.post} {
		if a := w.post(path, toolCall("5", "echo", long), session...); a.status != 413 {
			t.Errorf("%s: a long body: %d %s", path, a.status, a.body)
		}
	}
	if a := w.post("/s/a/mcp", toolCall("6", "echo", `{"v":1}`), session...); toolText(a.message(t)) != `{"v":1}` {
		t.Errorf("the session from before: %d %s", a.status, a.body)
	}
	w.initialize("/mcp", "2025-11-25", "{}")

	w.write(t, text(u))
	w.waitLog(t, "configuration applied", 2)
	w.call("/mcp", "a__echo", long).wantText(t, long)
	u.wantOneLeft(t)
}
