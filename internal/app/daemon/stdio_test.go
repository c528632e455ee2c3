//go:build unix

package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestHostilePipe sends hostile lines to stdin. Dragoman answers each with the expected number of
// errors. After each line, a correct call works. No hostile line reaches the server.
func TestHostilePipe(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "legacy")
	p := runPipe(t, u)
	p.initialize("{}")
	for _, h := range []struct {
		row, line string
		code      int64
		answers   int
	}{
		{"J01 broken", `{`, -32700, 1},
		{"J02 number", `42`, -32600, 1},
		{"J02 null", `null`, -32600, 1},
		{"J04 batch", `[` + toolCall("5", "echo", "{}") + `]`, -32600, 1},
		{"J06 jsonrpc 1.0", strings.Replace(toolCall("5", "echo", "{}"), "2.0", "1.0", 1), -32600, 1},
		{"J07 null id", toolCall("null", "echo", "{}"), -32600, 1},
		{"J08 fraction", toolCall("1.5", "echo", "{}"), -32600, 1},
		{"J12 long id", toolCall(`"`+strings.Repeat("i", 64<<10)+`"`, "echo", "{}"), -32600, 1},
		{"J14 case", strings.Replace(toolCall("5", "echo", "{}"), "method", "METHOD", 1), -32600, 1},
		{"J16 duplicate", strings.Replace(toolCall("5", "echo", "{}"), `"method"`, `"method":"ping","method"`, 1), -32600, 1},
		{"J18 not UTF-8", toolCall("5", "echo", "\"\xff\xfe\""), -32700, 1},
		{"J20 deep", toolCall("5", "echo", strings.Repeat("[", 10_001)+strings.Repeat("]", 10_001)), 0, 1},
		{"J23 two", toolCall("5", "echo", "{}") + toolCall("6", "echo", "{}"), -32700, 1},
		{"J24 long method", `{"jsonrpc":"2.0","id":5,"method":"` + strings.Repeat("m", 1<<20) + `"}`, -32600, 1},
		{"J25 array", `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":[1]}`, -32602, 1},
		{"J28 unknown notification", `{"jsonrpc":"2.0","method":"notifications/foo"}`, 0, 0},
		{"S02 blank", " \t \r", 0, 0},
		{"S04 long", strings.Repeat("x", 5<<20), -32600, 1},
		{"S05 pretty", "{\n \"jsonrpc\": \"2.0\",\n \"id\": 9,\n \"method\": \"ping\"\n}", -32700, 5},
		{"L02 second initialize", initializeBody("2025-11-25", "{}"), -32600, 1},
		{"L13 malformed cancel", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}`, 0, 0},
		{"L14 answer to nothing", `{"jsonrpc":"2.0","id":5,"result":{}}`, 0, 0},
	} {
		t.Run(strings.ReplaceAll(h.row, " ", "_"), func(t *testing.T) {
			p.t = t
			calls := u.count("call")
			p.send(h.line)
			p.send(`{"jsonrpc":"2.0","id":"after","method":"ping"}`)
			n := 0
			for m := p.read(); m.ID != `"after"`; m = p.read() {
				if n++; m.Kind != jsonrpc.Failure || h.code != 0 && errorCode(m) != h.code {
					t.Errorf("got %.300s, want code %d", m.Raw, h.code)
				}
				if len(m.Raw) > 4<<10 {
					t.Errorf("the answer has %d bytes", len(m.Raw))
				}
			}
			if n != h.answers {
				t.Errorf("%d answers, want %d", n, h.answers)
			}
			p.send(toolCall("2", "echo", `{"v":1}`))
			if m := p.answerTo("2"); toolText(m) != `{"v":1}` {
				t.Errorf("a correct call: %s", m.Raw)
			}
			if n := u.count("call") - calls; n != 1 {
				t.Errorf("the server was called %d times, want once", n)
			}
		})
	}
	p.t = t
}

// TestJ13_ReusedID checks that an id cannot be used again while its request is running.
func TestJ13_ReusedID(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "legacy")
	p := runPipe(t, u)
	p.initialize("{}")
	p.send(toolCall("7", "slow", `{"first":1}`))
	await(t, "the call has arrived", 30*time.Second, func() bool { return u.count("call slow") == 1 })
	p.send(toolCall("7", "echo", `{"second":1}`))
	if m := p.answerTo("7"); errorCode(m) != -32600 {
		t.Errorf("the second: %s", m.Raw)
	}
	if m := p.answerTo("7"); toolText(m) != `{"first":1}` {
		t.Errorf("the first: %s", m.Raw)
	}
	if u.count("call echo") != 0 {
		t.Error("the second was executed")
	}
}

// TestT3_BothErasOnePipe checks that a client can use both eras on the same pipe: first
// server/discover and a modern call, then initialize and a legacy call, then a modern call again.
func TestT3_BothErasOnePipe(t *testing.T) {
	t.Parallel()
	p := runPipe(t, child(t, "child", "legacy"))
	p.send(modernBody(`"d"`, "server/discover", ""))
	if m := p.answerTo(`"d"`); m.Kind != jsonrpc.Result {
		t.Fatalf("discover: %s", m.Raw)
	}
	p.send(modernBody(`"c"`, "tools/call", `"name":"echo","arguments":{"era":"modern"}`))
	if m := p.answerTo(`"c"`); toolText(m) != `{"era":"modern"}` {
		t.Errorf("modern call: %s", m.Raw)
	}
	p.initialize("{}")
	p.send(toolCall("2", "echo", `{"era":"legacy"}`))
	if m := p.answerTo("2"); toolText(m) != `{"era":"legacy"}` {
		t.Errorf("legacy call: %s", m.Raw)
	}
	p.send(modernBody("3", "tools/call", `"name":"echo","arguments":{"era":"modern"}`))
	if m := p.answerTo("3"); toolText(m) != `{"era":"modern"}` {
		t.Errorf("modern call: %s", m.Raw)
	}
}

// TestS10_EndOfInput checks a client that closes stdin while calls are running. Dragoman cancels
// the calls at the server and exits, and no server process is left.
func TestS10_EndOfInput(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "legacy")
	p := runPipe(t, u)
	p.initialize("{}")
	for i := range 3 {
		p.send(toolCall(fmt.Sprint(10+i), "hang", "{}"))
	}
	await(t, "the calls have arrived", 30*time.Second, func() bool { return u.count("call hang") == 3 })
	_ = p.in.Close()
	if err := p.wait(5 * time.Second); err != nil {
		t.Errorf("ended with %v", err)
	}
	if n := u.count("cancelled"); n != 3 {
		t.Errorf("the server got %d cancellations, want 3", n)
	}
	u.wantGone(t)
}

// TestS06_HalfMessage checks that Dragoman does not execute an incomplete message at the end of
// stdin.
func TestS06_HalfMessage(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "legacy")
	p := runPipe(t, u)
	p.initialize("{}")
	p.send(`{"jsonrpc":"2.0","id":5,"method":"ping"}`)
	p.answerTo("5")
	_, _ = io.WriteString(p.in, `{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"echo"`)
	_ = p.in.Close()
	if err := p.wait(2 * time.Second); err != nil {
		t.Errorf("ended with %v", err)
	}
	if u.count("call") != 0 {
		t.Error("an incomplete message was executed")
	}
	u.wantGone(t)
}

// TestS06_EndDuringInitialize checks that Dragoman exits soon if the client closes stdin while the
// server does not answer its handshake.
func TestS06_EndDuringInitialize(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "mute")
	p := runPipe(t, u)
	p.send(initializeBody("2025-11-25", "{}"))
	await(t, "the server was started", 30*time.Second, func() bool { return u.count("start") == 1 })
	_ = p.in.Close()
	if err := p.wait(5 * time.Second); err != nil {
		t.Errorf("ended with %v", err)
	}
	u.wantGone(t)
}

// TestS12_OnlyMessages checks that Dragoman writes only messages to stdout, even if the server
// misbehaves. pipe.read checks each line.
func TestS12_OnlyMessages(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "noisy")
	p := runPipe(t, u)
	p.initialize("{}")
	for i, tool := range []string{"echo", "twice", "storm", "nothing", "echo"} {
		id := fmt.Sprint(20 + i)
		p.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"i":1},"_meta":{"progressToken":"` + tool + `"}}}`)
		p.answerTo(id)
	}
	p.send(`{"jsonrpc":"2.0","id":30,"method":"resources/subscribe","params":{"uri":"test://one"}}`)
	p.answerTo("30")
	p.send(`{"jsonrpc":"2.0","id":31,"method":"logging/setLevel","params":{"level":"debug"}}`)
	p.answerTo("31")
}

// TestS16_StrayAnswers checks a server that sends second answers and answers with unknown ids. The
// client gets exactly one answer to each call.
func TestS16_StrayAnswers(t *testing.T) {
	t.Parallel()
	p := runPipe(t, child(t, "child", "noisy"))
	p.initialize("{}")
	for i := range 20 {
		id := fmt.Sprint(100 + i)
		p.send(toolCall(id, "twice", "{}"))
		if m := p.read(); string(m.ID) != id || toolText(m) != "first" {
			t.Fatalf("got %s", m.Raw)
		}
		p.send(toolCall(`"`+id+`"`, "echo", `{"i":`+id+`}`))
		if m := p.read(); string(m.ID) != `"`+id+`"` || toolText(m) != `{"i":`+id+`}` {
			t.Fatalf("got %s", m.Raw)
		}
	}
}

// TestS18_ModernServerAsks checks a modern server that sends a request, which its revision
// forbids. Dragoman drops the request and does not answer it.
func TestS18_ModernServerAsks(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "modern")
	r := run(t, u)
	r.call("/mcp", "request", "{}").wantText(t, "done")
	if !strings.Contains(r.log.String(), "discarded a server request that its revision does not allow") {
		t.Error("the log does not mention the request")
	}
}

// TestS19_TM18_Environment checks that a server gets the variables of its configuration, but not all
// variables of Dragoman's environment.
func TestS19_TM18_Environment(t *testing.T) {
	t.Setenv("DRAGOMAN_TEST_SECRET", "canary")
	u := child(t, "child", "legacy", func(s *config.Server) { s.Env["GIVEN"] = config.NewSecret("yes") })
	r := run(t, u)
	text := toolText(r.call("/mcp", "env", "{}").message(t))
	if strings.Contains(text, "canary") || !strings.Contains(text, "GIVEN=yes") {
		t.Errorf("the server sees %q", text)
	}
}

// TestWholeEnvironment checks that a server with inheritEnv ["*"] gets all variables of Dragoman's
// environment. Variables in the server's own configuration take precedence.
func TestWholeEnvironment(t *testing.T) {
	t.Setenv("DRAGOMAN_TEST_SECRET", "canary")
	t.Setenv("GIVEN", "ours")
	u := child(t, "child", "legacy", func(s *config.Server) {
		s.InheritEnv, s.Env["GIVEN"] = []string{"*"}, config.NewSecret("theirs")
	})
	r := run(t, u)
	text := toolText(r.call("/mcp", "env", "{}").message(t))
	if !strings.Contains(text, "DRAGOMAN_TEST_SECRET=canary") || !strings.Contains(text, "GIVEN=theirs") || strings.Contains(text, "GIVEN=ours") {
		t.Errorf("the server sees %q", text)
	}
}

// TestE12_ProgressStorm uses a server that sends a flood of progress notifications: with wrong
// tokens, with decreasing values, and after the answer. The client gets at most 300 of them. All
// have the client's own token, and their values never decrease.
func TestE12_ProgressStorm(t *testing.T) {
	t.Parallel()
	p := runPipe(t, child(t, "child", "legacy"))
	p.initialize("{}")
	p.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"storm","arguments":{},"_meta":{"progressToken":"mine"}}}`)
	n, last := 0, 0
	for m := p.read(); m.ID != "5"; m = p.read() {
		token, _ := jsonrpc.Text(m.Raw, m.Param("progressToken"))
		at, _ := jsonrpc.Int(m.Raw, m.Param("progress"))
		if m.Method != mcp.NoteProgress || token != "mine" || int(at) < last {
			t.Fatalf("after %d: %s", last, m.Raw)
		}
		n, last = n+1, int(at)
	}
	if n == 0 || n > 300 {
		t.Errorf("the client got %d of 20000 notifications", n)
	}
	p.send(`{"jsonrpc":"2.0","id":6,"method":"ping"}`)
	if m := p.read(); m.ID != "6" {
		t.Errorf("the message after the end is %s", m.Raw)
	}
}

// TestServeStdio checks serve with a client on stdin and stdout. When the client closes stdin,
// Dragoman and all server processes exit.
func TestServeStdio(t *testing.T) {
	t.Parallel()
	a, b := child(t, "a", "legacy"), child(t, "b", "modern")
	p := pipeTo(t, func(ctx context.Context, log *slog.Logger, in io.Reader, out io.WriteCloser) error {
		return Serve(ctx, ServeOptions{Config: snapshot(a, b), Listen: "127.0.0.1:0", Stdio: true, Stdin: in, Stdout: out, Log: log})
	})
	p.initialize("{}")
	for i, tool := range []string{"a__echo", "b__echo"} {
		id := fmt.Sprint(40 + i)
		p.send(toolCall(id, tool, `{"i":`+id+`}`))
		if m := p.answerTo(id); toolText(m) != `{"i":`+id+`}` {
			t.Errorf("%s: %s", tool, m.Raw)
		}
	}
	_ = p.in.Close()
	if err := p.wait(10 * time.Second); err != nil {
		t.Errorf("ended with %v", err)
	}
	a.wantGone(t)
	b.wantGone(t)
}

// wantGone waits until all processes of the server have ended. It fails the test if a process is
// still running after ten seconds.
func (u *upstreamUnderTest) wantGone(t testing.TB) {
	t.Helper()
	for _, pid := range u.pids(t) {
		await(t, fmt.Sprintf("process %d has ended", pid), 10*time.Second, func() bool { return !alive(pid) })
	}
}

// TestLastWords checks that a client that writes requests and closes stdin at once still gets all
// answers.
func TestLastWords(t *testing.T) {
	t.Parallel()
	p := runPipe(t, child(t, "child", "legacy"))
	p.send(initializeBody("2025-11-25", "{}") + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + toolCall("2", "slow", `{"v":1}`))
	_ = p.in.Close()
	if m := p.answerTo("1"); m.Kind != jsonrpc.Result {
		t.Errorf("initialize: %s", m.Raw)
	}
	if m := p.answerTo("2"); toolText(m) != `{"v":1}` {
		t.Errorf("the call: %s", m.Raw)
	}
	if err := p.wait(5 * time.Second); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// TestN09_StopOnPipe stops Run while a client on a pipe has a listen and a call. The listen ends
// with a cancellation and its result. The call gets an error with the cause "shutdown". The
// server's process ends.
func TestN09_StopOnPipe(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"legacy", "modern"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			u := child(t, "child", mode)
			ctx, stop := context.WithCancel(context.Background())
			p := pipeTo(t, func(_ context.Context, log *slog.Logger, in io.Reader, out io.WriteCloser) error {
				return Run(ctx, RunOptions{Server: u.Server, Log: log, Stdin: in, Stdout: out})
			})
			t.Cleanup(stop)
			p.send(modernBody(`"s1"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`))
			if m := p.read(); m.Method != mcp.NoteAcknowledged {
				t.Fatalf("the first message is %s", m.Raw)
			}
			p.send(modernBody("7", "tools/call", `"name":"hang","arguments":{}`))
			await(t, "the call has arrived", 30*time.Second, func() bool { return u.count("call hang") == 1 })
			stop()
			seen := map[string]*jsonrpc.Message{}
			for range 3 {
				m := p.read()
				seen[m.Method+string(m.ID)] = m
			}
			if m := seen[mcp.NoteCancelled]; m == nil || string(m.Param("requestId").Of(m.Raw)) != `"s1"` {
				t.Errorf("no cancellation of the listen: %v", m)
			}
			if m := seen[`"s1"`]; m == nil || !strings.Contains(string(m.Raw), `"io.modelcontextprotocol/subscriptionId":"s1"`) || !strings.Contains(string(m.Raw), `"resultType":"complete"`) {
				t.Errorf("the listen has no result: %v", m)
			}
			if m := seen["7"]; m == nil || errorData(m, "cause") != "shutdown" || errorData(m, "outcome") != "unknown" {
				t.Errorf("the call has no error: %v", m)
			}
			if err := p.wait(5 * time.Second); err != nil {
				t.Errorf("ended with %v", err)
			}
			u.wantGone(t)
		})
	}
}

// TestS11_ClientThatReadsNothing checks a client that does not read stdout. Run still returns when
// its context ends. If the client closes its end of the pipe, Run returns an error.
func TestS11_ClientThatReadsNothing(t *testing.T) {
	t.Parallel()
	for _, closes := range []bool{false, true} {
		t.Run(fmt.Sprintf("closes_%t", closes), func(t *testing.T) {
			t.Parallel()
			u := child(t, "child", "legacy")
			in, toIn, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			out, fromOut, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer toIn.Close()
			defer out.Close()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			done := make(chan error, 1)
			go func() { done <- Run(ctx, RunOptions{Server: u.Server, Stdin: in, Stdout: fromOut}) }()
			_, _ = io.WriteString(toIn, initializeBody("2025-11-25", "{}")+"\n")
			for i := range 20 {
				_, _ = io.WriteString(toIn, toolCall(fmt.Sprint(10+i), "echo", `{"v":"`+strings.Repeat("x", 64<<10)+`"}`)+"\n")
			}
			await(t, "the calls have arrived", 20*time.Second, func() bool { return u.count("call echo") == 20 })
			if closes {
				_ = out.Close()
			} else {
				stop()
			}
			select {
			case err := <-done:
				if (err != nil) != closes || closes && !strings.Contains(err.Error(), "stopped reading its answers") {
					t.Errorf("ended with %v", err)
				}
			case <-time.After(30 * time.Second):
				t.Error("Dragoman is still running")
			}
			u.wantGone(t)
		})
	}
}
