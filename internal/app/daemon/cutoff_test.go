//go:build unix

package daemon

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestW01_CutOff stops Dragoman and checks calls that still run when the drain time ends. Each
// client gets a JSON-RPC error in a complete response. The test covers every form of HTTP response,
// HTTP+SSE, and both eras of client and server.
func TestW01_CutOff(t *testing.T) {
	t.Parallel()
	const token = `"_meta":{"progressToken":"p"},`
	for _, mode := range []string{"legacy", "modern"} {
		t.Run(mode, func(t *testing.T) {
			u := child(t, "u", mode)
			r := serve(t, snapshot(u), func(o *ServeOptions) { o.Drain = 500 * time.Millisecond })
			r.call("/s/u/mcp", "echo", "{}").wantText(t, "{}")
			session := []string{"Mcp-Session-Id", r.initialize("/s/u/mcp", "2025-11-25", "{}")}
			old := []string{"Mcp-Session-Id", r.initialize("/s/u/mcp", "2025-03-26", "{}")}
			sse := dialSSE(r, "/s/u/sse")
			sse.open()
			call := func(id, tool, meta string) string {
				return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{` + meta + `"name":"` + tool + `","arguments":{"v":1}}}`
			}
			var calling sync.WaitGroup
			arrived := 0
			expect := func(name string, calls int, how func() answer) {
				arrived += calls
				calling.Go(func() {
					a := how()
					if strings.Contains(name, "stream") != strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
						t.Errorf("%s: the response has the type %s", name, a.header.Get("Content-Type"))
					}
					if !strings.HasPrefix(name, "a batch") {
						a.wantFault(t, "shutdown", "unknown")
					} else if n := strings.Count(a.body, `"cause":"shutdown","outcome":"unknown"`); n != calls {
						t.Errorf("%s: %d of %d calls got the error: %s", name, n, calls, a.body)
					}
				})
			}
			expect("modern", 1, func() answer { return r.call("/s/u/mcp", "hang", `{}`) })
			expect("modern stream", 1, func() answer {
				body := strings.Replace(modernBody("1", "tools/call", `"name":"work","arguments":{}`), `"_meta":{`, `"_meta":{"progressToken":"p",`, 1)
				return r.post("/s/u/mcp", body, modernHeader("tools/call", "work")...)
			})
			expect("legacy", 1, func() answer { return r.post("/s/u/mcp", call("1", "hang", ""), session...) })
			expect("legacy stream", 1, func() answer { return r.post("/s/u/mcp", call("2", "work", token), session...) })
			expect("a batch", 2, func() answer {
				return r.post("/s/u/mcp", "["+call("1", "hang", "")+","+call("2", "hang", "")+"]", old...)
			})
			expect("a batch as a stream", 2, func() answer {
				return r.post("/s/u/mcp", "["+call("3", "work", token)+","+call("4", "hang", "")+"]", old...)
			})
			expect("without a session", 1, func() answer { return r.post("/s/u/mcp", call("2", "hang", "")) })
			sse.send(call("8", "hang", ""))
			sse.send(call("9", "work", token))
			arrived += 2
			await(t, "the calls have arrived", 30*time.Second, func() bool { return u.count("call") == arrived+1 })
			stopped := make(chan error, 1)
			calling.Go(func() { stopped <- r.stop() })
			for seen := map[string]bool{}; len(seen) < 2; {
				m := sse.events.event()
				if m == nil {
					t.Errorf("the HTTP+SSE stream ended after %d answers", len(seen))
					break
				}
				if m.Kind == jsonrpc.Failure {
					if errorData(m, "cause") != "shutdown" || errorData(m, "outcome") != "unknown" {
						t.Errorf("HTTP+SSE: %s", m.Raw)
					}
					seen[string(m.ID)] = true
				}
			}
			calling.Wait()
			if err := <-stopped; err != nil {
				t.Errorf("ended with %v", err)
			}
			u.wantGone(t)
		})
	}
}

// TestW01_CutOffQuestion stops Dragoman while a call waits for the client's answer to a server
// request. The client gets either the server's result or an error with the cause "shutdown".
func TestW01_CutOffQuestion(t *testing.T) {
	t.Parallel()
	u := child(t, "u", "legacy")
	r := serve(t, snapshot(u), func(o *ServeOptions) { o.Drain = 200 * time.Millisecond })
	s := r.open("POST", "/s/u/mcp", toolCall("3", "ask", "{}"), "Mcp-Session-Id", r.initialize("/s/u/mcp", "2025-11-25", `{"elicitation":{}}`))
	if m := s.event(); m == nil || m.Method != mcp.MethodElicit {
		t.Fatalf("the first message is %v", m)
	}
	var stopping sync.WaitGroup
	stopping.Go(func() { _ = r.stop() })
	defer stopping.Wait()
	for {
		m := s.event()
		if m == nil {
			t.Fatal("the response ended without an answer")
		}
		if string(m.ID) == "3" && (m.Kind == jsonrpc.Result || errorData(m, "cause") == "shutdown") {
			return
		}
	}
}

// TestW01_CutOffUnsent stops Dragoman while calls wait for their server to start. The errors say
// that Dragoman has not sent the calls.
func TestW01_CutOffUnsent(t *testing.T) {
	t.Parallel()
	u := child(t, "u", "mute")
	r := serve(t, snapshot(u), func(o *ServeOptions) { o.Drain = 200 * time.Millisecond })
	sse := dialSSE(r, "/s/u/sse")
	var calling sync.WaitGroup
	calling.Go(func() { r.call("/s/u/mcp", "echo", `{}`).wantFault(t, "shutdown", "not_sent") })
	calling.Go(func() {
		r.post("/s/u/mcp", toolCall("5", "echo", "{}")).wantFault(t, "shutdown", "not_sent")
	})
	sse.send(toolCall("5", "echo", "{}"))
	waiting := func() int { // the bytes that Dragoman holds for the three waiting calls
		s, _ := r.status()
		return int(s.InFlight.Held)
	}
	await(t, "the server was started", 30*time.Second, func() bool { return u.count("start") == 1 && waiting() > 300 })
	calling.Go(func() { _ = r.stop() })
	if m := sse.events.event(); m == nil || errorData(m, "cause") != "shutdown" || errorData(m, "outcome") != "not_sent" {
		t.Errorf("HTTP+SSE: %v", m)
	}
	calling.Wait()
	u.wantGone(t)
}

// TestW01_CutOffPipe is like TestW01_CutOff, but the client uses the stdin and stdout of run or of
// serve --stdio.
func TestW01_CutOffPipe(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"legacy", "modern"} {
		for name, start := range map[string]func(ctx context.Context, u *upstreamUnderTest, log *slog.Logger, in io.Reader, out io.WriteCloser) error{
			"run": func(ctx context.Context, u *upstreamUnderTest, log *slog.Logger, in io.Reader, out io.WriteCloser) error {
				return Run(ctx, RunOptions{Server: u.Server, Log: log, Stdin: in, Stdout: out})
			},
			"serve": func(ctx context.Context, u *upstreamUnderTest, log *slog.Logger, in io.Reader, out io.WriteCloser) error {
				return Serve(ctx, ServeOptions{Config: snapshot(u), Listen: "127.0.0.1:0", Stdio: true, Log: log, Stdin: in, Stdout: out, Drain: time.Second})
			},
		} {
			t.Run(mode+" "+name, func(t *testing.T) {
				u := child(t, "u", mode)
				ctx, stop := context.WithCancel(context.Background())
				defer stop()
				p := pipeTo(t, func(_ context.Context, log *slog.Logger, in io.Reader, out io.WriteCloser) error {
					return start(ctx, u, log, in, out)
				})
				p.initialize(`{"elicitation":{}}`)
				prefix := map[string]string{"run": "", "serve": "u__"}[name]
				calls := map[string]bool{"2": true, "3": true}
				p.send(toolCall("2", prefix+"hang", "{}"))
				p.send(toolCall("3", prefix+"hang", "{}"))
				if mode == "legacy" {
					p.send(toolCall("4", prefix+"ask", "{}"))
					calls["4"] = true
				}
				await(t, "the calls have arrived", 30*time.Second, func() bool { return u.count("call") == len(calls) })
				stop()
				for len(calls) > 0 {
					m := p.read()
					if m.Kind == jsonrpc.Request || m.Kind == jsonrpc.Notification {
						continue
					}
					if string(m.ID) == "4" && strings.Contains(toolText(m), "cannot be answered") {
						// Dragoman refused the server request of call 4, and the server then
						// answered call 4 before Dragoman cut it off.
						delete(calls, "4")
						continue
					}
					if !calls[string(m.ID)] || errorData(m, "cause") != "shutdown" || errorData(m, "outcome") != "unknown" {
						t.Errorf("%s", m.Raw)
					}
					delete(calls, string(m.ID))
				}
				if err := p.wait(5 * time.Second); err != nil {
					t.Errorf("ended with %v", err)
				}
				u.wantGone(t)
			})
		}
	}
}
