//go:build unix

package daemon

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

func withShortStart(s *config.Server) { s.StartTimeout = time.Second }

func withShortCalls(s *config.Server) { s.CallTimeout = time.Second }

// wantFault fails the test unless a is Dragoman's error for a call that its server did not answer,
// with this cause and outcome.
func (a answer) wantFault(t testing.TB, cause, outcome string) {
	t.Helper()
	m := a.message(t)
	if errorCode(m) != -32603 || errorData(m, "cause") != cause || errorData(m, "outcome") != outcome || errorData(m, "origin") != "gateway" {
		t.Errorf("got %d %.400s, want -32603 with cause %s, outcome %s", a.status, a.body, cause, outcome)
	}
	if strings.Contains(a.body, "/") && strings.Contains(a.body, "daemon.test") {
		t.Errorf("the error leaks internal details: %s", a.body)
	}
}

// TestU01_NoSuchCommand checks that calls to a server fail at once if Dragoman cannot start the
// server's command. Calls to other servers work.
func TestU01_NoSuchCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, command := range map[string]string{"missing": dir + "/none", "directory": dir} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := child(t, "bad", "legacy", func(s *config.Server) { s.Command = command })
			good := child(t, "good", "legacy")
			r := serve(t, snapshot(bad, good))
			start := time.Now()
			r.call("/s/bad/mcp", "echo", "{}").wantFault(t, "exec", "not_sent")
			if took := time.Since(start); took > patience(time.Second) {
				t.Errorf("took %v", took)
			}
			r.call("/mcp", "good__echo", `{"v":1}`).wantText(t, `{"v":1}`)
			if ready := r.do(t.Context(), "GET", "/readyz", nil); ready.status != 200 || !strings.Contains(ready.body, `"name":"bad","state":"failed"`) {
				t.Errorf("readyz: %d %s", ready.status, ready.body)
			}
		})
	}
}

// TestU02_DiesBeforeFirstByte checks a server that exits before it writes any output. The client
// gets an error quickly, the log has the exit status and the last line of stderr, and Dragoman does
// not start a new process for every call.
func TestU02_DiesBeforeFirstByte(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ mode, exit, words string }{
		{"exit", "exited with status 3", "THE_TOKEN is not set"},
		{"kill", "was killed by SIGKILL", "SIGKILL"},
	} {
		t.Run(x.mode, func(t *testing.T) {
			t.Parallel()
			u := child(t, "child", x.mode)
			r := run(t, u)
			for range 5 {
				m := r.call("/mcp", "echo", "{}").message(t)
				if errorCode(m) != -32603 || errorData(m, "outcome") != "not_sent" || errorData(m, "retryable") != "true" {
					t.Errorf("got %s", m.Raw)
				}
			}
			if n := u.count("start"); n > 4 {
				t.Errorf("started %d times in a row", n)
			}
			// Dragoman writes the log line after the calls have failed.
			await(t, fmt.Sprintf("the log says %q and %q", x.exit, x.words), 20*time.Second, func() bool {
				text := r.log.String()
				return strings.Contains(text, x.exit) && strings.Contains(text, x.words)
			})
		})
	}
}

// TestU03_DiesAfterInitialize checks a server that exits after initialize. The list fails with
// an error that says that a retry is safe.
func TestU03_DiesAfterInitialize(t *testing.T) {
	t.Parallel()
	r := run(t, child(t, "child", "leave"))
	a := r.modern("/mcp", "1", "tools/list", "", "")
	if m := a.message(t); errorCode(m) != -32603 || errorData(m, "retryable") != "true" {
		t.Errorf("got %s", m.Raw)
	}
}

// TestP3_AtMostOnce checks the ways in which a server can stop during a call (U04, U05, U06, U14).
// The error says that the server may have executed the call. Dragoman does not send the call again.
// The next call uses a new process.
func TestP3_AtMostOnce(t *testing.T) {
	for _, server := range []string{"legacy", "modern"} {
		for _, tool := range []string{"crash", "progress", "half", "mute"} {
			for _, client := range []string{"legacy", "modern"} {
				t.Run(server+"/"+tool+"/"+client, func(t *testing.T) {
					t.Parallel()
					u := child(t, "child", server)
					r := run(t, u)
					body := strings.Replace(toolCall("5", tool, "{}"), `"arguments"`, `"_meta":{"progressToken":"p"},"arguments"`, 1)
					var header []string
					if client == "modern" {
						body = strings.Replace(modernBody("5", "tools/call", `"name":"`+tool+`"`), `"_meta":{`, `"_meta":{"progressToken":"p",`, 1)
						header = modernHeader("tools/call", tool)
					} else {
						header = []string{"Mcp-Session-Id", r.initialize("/mcp", "2025-06-18", "{}")}
					}
					start := time.Now()
					a := r.post("/mcp", body, header...)
					a.wantFault(t, "exited", "unknown")
					if took := time.Since(start); took > patience(5*time.Second) {
						t.Errorf("took %v", took)
					}
					if got := strings.Contains(a.body, `"progressToken":"p"`); got != (tool == "progress") {
						t.Errorf("progress seen: %v in %s", got, a.body)
					}
					r.call("/mcp", "echo", `{"v":1}`).wantText(t, `{"v":1}`)
					if n := u.count("call " + tool); n != 1 {
						t.Errorf("the call was executed %d times", n)
					}
					if n := u.count("start"); n < 2 {
						t.Errorf("no new process was started")
					}
				})
			}
		}
	}
}

// TestU07_NeverOpens checks a server that does not answer. Calls to it fail after StartTimeout, and
// other servers work.
func TestU07_NeverOpens(t *testing.T) {
	t.Parallel()
	bad, good := child(t, "bad", "mute", withShortStart), child(t, "good", "legacy")
	r := serve(t, snapshot(bad, good))
	start := time.Now()
	r.call("/s/bad/mcp", "echo", "{}").wantFault(t, "timeout", "not_sent")
	if took := time.Since(start); took > patience(3*time.Second) {
		t.Errorf("took %v", took)
	}
	r.call("/mcp", "good__echo", `{"v":1}`).wantText(t, `{"v":1}`)
	list := r.modern("/mcp", "1", "tools/list", "", "")
	if !strings.Contains(list.body, "good__echo") || strings.Contains(list.body, "bad__") {
		t.Errorf("the list is %s", list.body)
	}
}

// TestCallOfAServerThatNeverOpened calls a tool of a server that cannot start, through the merged
// endpoint. The error says that the server is unavailable. For a tool name with an unknown prefix,
// or an unknown tool of a ready server, the error is still "unknown tool".
func TestCallOfAServerThatNeverOpened(t *testing.T) {
	t.Parallel()
	bad, good := child(t, "bad", "exit"), child(t, "good", "legacy")
	r := serve(t, snapshot(bad, good))
	session := r.initialize("/mcp", "2025-11-25", "{}")
	var m *jsonrpc.Message
	await(t, "the list of the server has failed", 10*time.Second, func() bool {
		m = r.call("/mcp", "bad__echo", "{}").message(t)
		return errorData(m, "cause") == "unavailable"
	})
	legacy := r.post("/mcp", toolCall("2", "bad__echo", "{}"), "Mcp-Session-Id", session).message(t)
	for _, m := range []*jsonrpc.Message{m, legacy} {
		if errorCode(m) != -32603 || errorData(m, "upstream") != "bad" || errorData(m, "outcome") != "not_sent" || errorData(m, "retryable") != "true" || !strings.Contains(string(m.Raw), `"class":"missing_variable"`) || !strings.Contains(string(m.Raw), "THE_TOKEN is not set") {
			t.Errorf("got %s", m.Raw)
		}
	}
	for _, name := range []string{"worse__echo", "good__nothing"} {
		if m := r.call("/mcp", name, "{}").message(t); errorCode(m) != -32602 {
			t.Errorf("%s: %s", name, m.Raw)
		}
	}
	r.call("/mcp", "good__echo", `{"v":1}`).wantText(t, `{"v":1}`)
}

// TestU08_NeverAnswers checks a call that hangs until its timeout. The server gets a
// cancellation, and the same process serves the next call.
func TestU08_NeverAnswers(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"legacy", "modern"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			u := child(t, "child", mode, withShortCalls)
			r := run(t, u)
			// Wait for the server first, so that the timeout of the call does not include the start
			// of the process.
			await(t, "the server is ready", 30*time.Second, func() bool { return toolText(r.call("/mcp", "echo", `{"v":0}`).message(t)) == `{"v":0}` })
			cancelled, starts := u.count("cancelled"), u.count("start")
			r.call("/mcp", "hang", "{}").wantFault(t, "timeout", "unknown")
			await(t, "the cancellation", 30*time.Second, func() bool { return u.count("cancelled") == cancelled+1 })
			r.call("/mcp", "echo", `{"v":1}`).wantText(t, `{"v":1}`)
			if u.count("start") != starts {
				t.Error("the process was replaced")
			}
		})
	}
}

// TestU09_Stopped stops a server's process with SIGSTOP. Only calls to this server time out. They
// work again after SIGCONT.
func TestU09_Stopped(t *testing.T) {
	t.Parallel()
	bad, good := child(t, "bad", "legacy", withShortCalls), child(t, "good", "legacy")
	r := serve(t, snapshot(bad, good))
	// The timeout of a call includes the start of the process, which may take long on a busy machine.
	await(t, "the server is ready", 30*time.Second, func() bool { return toolText(r.call("/mcp", "bad__echo", `{}`).message(t)) == `{}` })
	pid := bad.pids(t)[0]
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// The threads of the process stop one after another, and until all have stopped, the process
	// may still answer.
	await(t, "the process is stopped", 30*time.Second, func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		return !slices.ContainsFunc(threads, func(f string) bool {
			b, err := os.ReadFile(f)
			return err == nil && !strings.Contains(string(b), ") T ")
		})
	})
	r.call("/mcp", "bad__echo", `{}`).wantFault(t, "timeout", "unknown")
	r.call("/mcp", "good__echo", `{"v":1}`).wantText(t, `{"v":1}`)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	await(t, "the server is back", 30*time.Second, func() bool {
		return toolText(r.call("/mcp", "bad__echo", `{"v":2}`).message(t)) == `{"v":2}`
	})
}

// TestU11_Flood checks a server that floods a client with progress notifications. Calls to another
// server are not delayed. When the client ends its call, the server gets a cancellation.
func TestU11_Flood(t *testing.T) {
	t.Parallel()
	bad, good := child(t, "bad", "legacy"), child(t, "good", "legacy")
	r := serve(t, snapshot(bad, good))
	r.initialize("/mcp", "2025-06-18", "{}")
	flood := r.open("POST", "/s/bad/mcp", strings.Replace(modernBody("1", "tools/call", `"name":"flood"`), `"_meta":{`, `"_meta":{"progressToken":1,`, 1), modernHeader("tools/call", "flood")...)
	if m := flood.event(); m == nil || m.Method != mcp.NoteProgress {
		t.Fatalf("got %v", m)
	}
	for i := range 50 {
		args := fmt.Sprintf(`{"i":%d}`, i)
		start := time.Now()
		r.call("/mcp", "good__echo", args).wantText(t, args)
		if took := time.Since(start); took > patience(2*time.Second) {
			t.Fatalf("call %d took %v", i, took)
		}
	}
	flood.stop()
	await(t, "the cancellation", 10*time.Second, func() bool { return bad.count("cancelled") == 1 })
}

// TestP8_KilledDragoman checks that no server process is left after Dragoman is killed with
// SIGKILL.
func TestP8_KilledDragoman(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"legacy", "stubborn"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			u := child(t, "child", mode)
			d := exec.Command(u.Command)
			d.Env = append(d.Environ(), asDragoman+"="+mode, journalVar+"="+u.journal)
			in, err := d.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			d.Stdout, d.Stderr = &out, &out
			if err := d.Start(); err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			_, _ = fmt.Fprintln(in, initializeBody("2025-11-25", "{}"))
			_, _ = fmt.Fprintln(in, toolCall("2", "hang", "{}"))
			await(t, "the call has arrived", 10*time.Second, func() bool { return u.count("call hang") == 1 })
			_ = d.Process.Kill()
			_ = d.Wait()
			// A "stubborn" child does not exit at the end of stdin, so the kernel must have
			// killed it.
			u.wantGone(t)
		})
	}
}

// TestQuestionsAcrossEndpoints checks two clients of one server that use the same request id on
// different endpoints. Each client gets only the server requests of its own call.
func TestQuestionsAcrossEndpoints(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "legacy", func(s *config.Server) { s.Isolation = config.IsolateAuto })
	r := serve(t, snapshot(u))
	type client struct{ path, tool, session, args, message string }
	clients := []*client{
		{path: "/mcp", tool: "child__ask", args: `{"who":"A"}`, message: `child asks: {"who":"A"}`},
		{path: "/s/child/mcp", tool: "ask", args: `{"who":"B"}`, message: `{"who":"B"}`},
	}
	for _, c := range clients {
		c.session = r.initialize(c.path, "2025-11-25", `{"elicitation":{}}`)
	}
	var streams []*stream
	for _, c := range clients {
		streams = append(streams, r.open("POST", c.path, toolCall("5", c.tool, c.args), "Mcp-Session-Id", c.session))
	}
	for i, c := range clients {
		m := streams[i].event()
		if m == nil || m.Kind != jsonrpc.Request {
			t.Fatalf("%s: %v instead of a request", c.args, m)
		}
		if text, _ := jsonrpc.Text(m.Raw, m.Param("message")); text != c.message {
			t.Errorf("%s got the request %s", c.args, text)
		}
		answer := `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept","content":` + c.args + `}}`
		if a := r.post(c.path, answer, "Mcp-Session-Id", c.session); a.status != 202 {
			t.Fatalf("answer: %d %s", a.status, a.body)
		}
		if m := streams[i].event(); m == nil || toolText(m) != c.args+" "+c.args {
			t.Errorf("%s: got %v", c.args, m)
		}
	}
}

// TestP6_DeadReaders opens streams whose clients never read, while the server floods another client
// with notifications. Calls to the server are still answered without delay.
func TestP6_DeadReaders(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "legacy")
	r := run(t, u)
	for range 20 {
		session := r.initialize("/mcp", "2025-06-18", "{}")
		for _, request := range []string{
			"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\nMcp-Session-Id: " + session + "\r\n\r\n",
			"GET /sse HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n",
		} {
			c, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			_ = c.(*net.TCPConn).SetReadBuffer(1 << 10)
			_, _ = io.WriteString(c, request)
		}
	}
	flood := r.open("POST", "/mcp", strings.Replace(modernBody("1", "tools/call", `"name":"flood"`), `"_meta":{`, `"_meta":{"progressToken":1,`, 1), modernHeader("tools/call", "flood")...)
	if m := flood.event(); m == nil || m.Method != mcp.NoteProgress {
		t.Fatalf("got %v", m)
	}
	for i := range 20 {
		args := fmt.Sprintf(`{"i":%d}`, i)
		start := time.Now()
		r.call("/mcp", "echo", args).wantText(t, args)
		if took := time.Since(start); took > patience(2*time.Second) {
			t.Fatalf("call %d took %v", i, took)
		}
	}
	flood.stop()
	await(t, "the cancellation", 10*time.Second, func() bool { return u.count("cancelled") == 1 })
}
