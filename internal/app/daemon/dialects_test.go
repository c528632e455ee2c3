//go:build unix

package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// runWithTrace is like run, but also returns a function that returns the traces of the handshakes.
func runWithTrace(t *testing.T, u *upstreamUnderTest) (*rig, func() string) {
	t.Helper()
	var trace journal
	r := launch(t, func(ctx context.Context, log *slog.Logger, ready func(string)) error {
		return Run(ctx, RunOptions{Server: u.Server, Listen: "127.0.0.1:0", Log: log, Ready: ready, Version: "test",
			Trace: func(_, text string) { _, _ = io.WriteString(&trace, text) }})
	})
	return r, trace.String
}

// strictClients are the strict profiles of package fake, one for each revision, with the URL paths
// that they use.
var strictClients = []struct{ profile, path string }{
	{"strict-2024-11-05", "/sse"}, {"strict-2025-03-26", "/mcp"}, {"strict-2025-06-18", "/mcp"},
	{"strict-2025-11-25", "/mcp"}, {"strict-2026-07-28", "/mcp"},
}

// withStrictClients runs play with a strict client of each revision. The test fails if a client
// gets a message that its revision does not allow.
func withStrictClients(t *testing.T, r *rig, play func(t *testing.T, ctx context.Context, c *fake.Client)) {
	for _, e := range strictClients {
		t.Run(e.profile, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			c, err := fake.OpenClient(ctx, e.profile, fake.Where{URL: r.base + e.path}, fake.ClientOptions{})
			if err != nil {
				t.Fatal(err)
			}
			play(t, ctx, c)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			for _, v := range c.Violations() {
				t.Errorf("the client saw: %s", v)
			}
		})
	}
}

// result calls a method and returns its result.
func result(t *testing.T, ctx context.Context, c *fake.Client, method, params string) string {
	t.Helper()
	reply, err := c.Call(ctx, method, []byte(params), fake.CallOptions{})
	if err != nil || reply.Err != nil {
		t.Fatalf("%s %s: %v, %+v", method, params, err, reply)
	}
	return string(reply.Result)
}

// wholeList returns a list that has the items of all servers. On a busy machine a server may need
// longer to start than a list request waits.
func wholeList(t *testing.T, ctx context.Context, c *fake.Client, method string) (list string) {
	t.Helper()
	pollUntil(t, func() string {
		list = result(t, ctx, c, method, `{}`)
		if strings.Contains(list, mcp.KeyMissing) {
			return "a server is missing: " + list
		}
		return ""
	})
	return list
}

func wantAll(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("no %s in %s", w, got)
		}
	}
}

// TestManifestServers checks every kind of server that lists its tools in the handshake. Each works
// with strict clients of all revisions.
func TestManifestServers(t *testing.T) {
	t.Parallel()
	for profile, spoken := range map[string]string{
		"manifest-ts": dialect.Manifest, "manifest-parameters": dialect.Manifest,
		"manifest-python": dialect.ManifestPython, "push-manifest": dialect.ManifestPushed,
	} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			u := child(t, "files", "fake "+profile)
			r, trace := runWithTrace(t, u)
			withStrictClients(t, r, func(t *testing.T, ctx context.Context, c *fake.Client) {
				list := wholeList(t, ctx, c, mcp.MethodListTools)
				wantAll(t, list,
					`"name":"files.move"`, `"inputSchema":{`, `"exclusiveMinimum":0`, `"type":["number","null"]`,
					`"readOnlyHint":false`, `"destructiveHint":true`,
					`"io.github.dragoman-mcp/dialect":{"name":"`+spoken+`","confirmationRequired":true,"undoSupported":true,"original":{`,
					`"minimum":0,"exclusiveMinimum":true`, // part of the schema as the server sent it
				)
				wantAll(t, result(t, ctx, c, mcp.MethodCallTool, `{"name":"files.add","arguments":{"a":2,"b":3}}`), `{\"sum\":5}`)
				wantAll(t, result(t, ctx, c, mcp.MethodCallTool, `{"name":"files.bare","arguments":{}}`), `"content":[{"type":"text","text":"{\"moved\":3,\"skipped\":[]}"}]`)
				for code, means := range map[string]string{"-32001": "outside", "-32002": "confirm", "-32003": "not found", "-32004": "Permission denied"} {
					got := result(t, ctx, c, mcp.MethodCallTool, `{"name":"files.fail","arguments":{"code":`+code+`}}`)
					wantAll(t, got, `"isError":true`, means, "failed as requested", `"error":{"code":`+code)
				}
				// A ping or an unknown method crashes these servers.
				wantAll(t, result(t, ctx, c, mcp.MethodCallTool, `{"name":"files.seen"}`), `"content":`)
				seen := result(t, ctx, c, mcp.MethodCallTool, `{"name":"files.seen","arguments":{}}`)
				if strings.Contains(seen, "notifications/") || strings.Contains(seen, "ping") || strings.Contains(seen, "resources/") || strings.Contains(seen, "logging/") {
					t.Errorf("the server got a message that crashes it: %s", seen)
				}
			})
			wantAll(t, trace(), "dialect "+spoken, "tools in the result: 5")
		})
	}
}

// TestWhatManifestServersDieOf checks that Dragoman sends manifest servers no message that makes
// them crash.
func TestWhatManifestServersDieOf(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"manifest-ts", "manifest-python"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			u := child(t, "files", "fake "+profile)
			r := run(t, u)
			id := r.initialize("/mcp", "2025-03-26", "{}")
			header := []string{"Mcp-Session-Id", id}
			if a := r.post("/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call"}`, header...); a.code(t) != -32602 {
				t.Errorf("no params: %s", a.body)
			}
			for _, args := range []string{"", `,"arguments":null`, `,"arguments":{}`} {
				a := r.post("/mcp", `{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"files.bare"`+args+`}}`, header...)
				if m := a.message(t); m.Kind != jsonrpc.Result || m.ID != "0" {
					t.Errorf("%s: %s", args, a.body)
				}
			}
			// Dragoman must split a batch into single messages, because the server does not accept
			// batches.
			a := r.post("/mcp", `[`+toolCall("7", "files.bare", "{}")+`,`+toolCall("8", "files.bare", "{}")+`]`, header...)
			if a.status != 200 || strings.Count(a.body, `moved`) != 2 {
				t.Errorf("a batch: %d %s", a.status, a.body)
			}
			// Dragoman must not forward the notification, which the server would answer with an
			// error.
			r.post("/mcp", `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, header...)
			long := r.post("/mcp", toolCall("9", "files.bare", `{"x":"`+strings.Repeat("x", 70_000)+`"}`), header...)
			if died := long.code(t) != 0; died != (profile == "manifest-python") {
				t.Errorf("a long message: %.300s", long.body)
			} else if died {
				wantAll(t, long.body, "accepts at most 65536", `"outcome":"not_sent"`)
			}
			if a := r.post("/mcp", toolCall("10", "files.bare", "{}"), header...); a.code(t) != 0 {
				t.Errorf("afterwards: %s", a.body)
			}
			if n := u.count("start"); n != 1 {
				t.Errorf("the server was started %d times", n)
			}
		})
	}
}

// TestServersThatAreNearlyRight checks that servers with one small fault each work with strict
// clients of every revision. The trace says how Dragoman handled the fault.
func TestServersThatAreNearlyRight(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]struct {
		starts int
		trace  []string
	}{
		"strict-version":                            {1, []string{"error INVALID_PROTOCOL_VERSION", "the server accepts only certain versions; retry with 2025-03-26"}},
		"strict-version says=text":                  {1, []string{"Expected: 2025-03-26", "the server accepts only certain versions; retry with 2025-03-26"}},
		"strict-version revision=2024-11-05":        {1, []string{"retry with 2024-11-05"}},
		"gate-initialized":                          {1, []string{`Client not initialized yet [1]`, "retrying in 50ms", "retrying in 200ms"}},
		"gate-initialized refusals=3":               {1, []string{"retrying in 800ms"}},
		"silent-on-unknown":                         {1, []string{"no response for 10s", "the server may be legacy"}},
		"string-codes":                              {1, []string{"error METHOD_NOT_FOUND", "so the server is legacy"}},
		"dies-on-probe":                             {2, []string{"so Dragoman restarts the server and sends initialize first"}},
		"wrong-code-on-unknown":                     {1, []string{"error -32600", "so the server is legacy"}},
		"wrong-code-on-unknown code=-32602":         {1, []string{"error -32602", "so the server is legacy"}},
		"string-codes revision=2025-11-25":          {1, []string{"the server uses 2025-11-25"}},
		"dies-on-probe revision=2024-11-05 page=50": {2, []string{"the server uses 2024-11-05"}},
	} {
		if strings.HasPrefix(mode, "silent") {
			want.trace[0] = "no response for"
		}
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			u := child(t, "near", "fake "+mode)
			r, trace := runWithTrace(t, u)
			// Start with the modern client, because Dragoman probes the server only if a modern
			// client connects first.
			for _, e := range slices.Backward(strictClients) {
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				c, err := fake.OpenClient(ctx, e.profile, fake.Where{URL: r.base + e.path}, fake.ClientOptions{})
				if err != nil {
					t.Fatalf("%s: %v\n%s\nstarted %d times", e.profile, err, trace(), u.count("start"))
				}
				wantAll(t, result(t, ctx, c, mcp.MethodCallTool, `{"name":"echo","arguments":{"text":"hi"}}`), `"hi"`)
				// Every client gets an error that is valid in its revision.
				if reply, err := c.Call(ctx, mcp.MethodCallTool, []byte(`{"name":"refuse","arguments":{}}`), fake.CallOptions{}); err != nil || reply.Err == nil || reply.Err.Code == 0 {
					t.Errorf("%s: %v, %+v", e.profile, err, reply)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				for _, v := range c.Violations() {
					t.Errorf("%s saw: %s", e.profile, v)
				}
			}
			if n := u.count("start"); n < want.starts {
				t.Errorf("started %d times", n)
			}
			wantAll(t, trace(), want.trace...)
		})
	}
}

// TestManifestClient checks that a client that sends initialize without params works with servers
// of every kind, alone and merged. When the client sends shutdown, Dragoman exits within five
// seconds, even if a call hangs and the server does not exit by itself.
func TestManifestClient(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, start func(ctx context.Context, log *slog.Logger, in io.Reader, out io.WriteCloser) error) (*fake.ManifestClient, *io.PipeWriter, chan error) {
		t.Helper()
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		done := make(chan error, 1)
		var running sync.WaitGroup
		running.Go(func() {
			done <- start(context.Background(), (&journal{}).logger(), inR, outW)
			_ = outW.Close()
		})
		t.Cleanup(func() { _, _ = inW.Close(), outR.Close(); running.Wait() })
		c, err := fake.OpenManifest(outR, inW)
		if err != nil {
			t.Fatal(err)
		}
		return c, inW, done
	}
	alone := func(u *upstreamUnderTest) func(ctx context.Context, log *slog.Logger, in io.Reader, out io.WriteCloser) error {
		return func(ctx context.Context, log *slog.Logger, in io.Reader, out io.WriteCloser) error {
			return Run(ctx, RunOptions{Server: u.Server, Log: log, Stdin: in, Stdout: out, Version: "test"})
		}
	}
	ends := func(t *testing.T, c *fake.ManifestClient, done chan error) {
		t.Helper()
		begun := time.Now()
		if err := c.Shutdown(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("Dragoman does not end")
		}
		if took := time.Since(begun); took > patience(5*time.Second) {
			t.Errorf("Dragoman took %v to end, but the client kills it after 5 s", took)
		}
	}
	find := func(t *testing.T, c *fake.ManifestClient, name string) fake.ManifestTool {
		t.Helper()
		i := slices.IndexFunc(c.Tools, func(x fake.ManifestTool) bool { return x.Name == name })
		if i < 0 {
			t.Fatalf("no %s in %+v", name, c.Tools)
		}
		return c.Tools[i]
	}
	t.Run("manifest server", func(t *testing.T) {
		t.Parallel()
		c, _, done := open(t, alone(child(t, "files", "fake manifest-ts")))
		if move := find(t, c, "files.move"); !move.Confirm || !move.Undo || move.Description == "" || !strings.Contains(move.Schema, `"source"`) {
			t.Errorf("%+v", move)
		}
		if add := find(t, c, "files.add"); add.Confirm || !strings.Contains(add.Schema, `"exclusiveMinimum":0`) {
			t.Errorf("%+v", add)
		}
		m, err := c.Call("files.add", `{"a":2,"b":2}`)
		if err != nil || m.Kind != jsonrpc.Result {
			t.Fatalf("%v %s", err, m.Raw)
		}
		ends(t, c, done)
	})
	for _, mode := range []string{"fake strict-2025-06-18", "fake strict-2026-07-28", "fake strict-2024-11-05"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c, _, done := open(t, alone(child(t, "s", mode)))
			// The list has several pages. A server of 2024-11-05 has no annotations. Its tools may
			// change anything, so they need confirmation.
			if add := find(t, c, "add"); add.Confirm != strings.HasSuffix(mode, "2024-11-05") || add.Undo || add.Description == "" {
				t.Errorf("%+v", add)
			}
			find(t, c, "wait")
			m, err := c.Call("echo", `{"text":"hi"}`)
			if err != nil || toolText(m) != "hi" {
				t.Fatalf("%v %s", err, m.Raw)
			}
			if m, err = c.Call("refuse", `{}`); err != nil || m.Kind != jsonrpc.Failure || errorCode(m) != -32602 {
				t.Errorf("%v %s", err, m.Raw)
			}
			ends(t, c, done)
		})
	}
	t.Run("joined, one slow", func(t *testing.T) {
		t.Parallel()
		s := snapshot(child(t, "files", "fake manifest-python"), child(t, "slow", "fake slow-start ms=2500"))
		c, _, done := open(t, func(ctx context.Context, log *slog.Logger, in io.Reader, out io.WriteCloser) error {
			return Serve(ctx, ServeOptions{Config: s, Listen: "127.0.0.1:0", Log: log, Stdio: true, Stdin: in, Stdout: out, Version: "test"})
		})
		find(t, c, "files__files.move")
		find(t, c, "slow__echo") // this server starts slowly, and the client gets only one list, so Dragoman must wait
		m, err := c.Call("slow__echo", `{"text":"hi"}`)
		if err != nil || toolText(m) != "hi" {
			t.Fatalf("%v %s", err, m.Raw)
		}
		ends(t, c, done)
	})
	t.Run("a server that hangs and stays", func(t *testing.T) {
		t.Parallel()
		c, in, done := open(t, alone(child(t, "stubborn", "stubborn")))
		if _, err := io.WriteString(in, toolCall("77", "hang", "{}")+"\n"); err != nil {
			t.Fatal(err)
		}
		ends(t, c, done)
	})
}

// TestBareHTTPClients checks that clients without a session work with servers of every kind,
// although they use the same id for all requests. Progress notifications have the client's own
// token.
func TestBareHTTPClients(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"fake strict-2025-06-18", "fake strict-2026-07-28", "fake manifest-ts"} {
		for _, version := range []string{"", "2025-06-18"} {
			t.Run(mode+" "+version, func(t *testing.T) {
				t.Parallel()
				r := run(t, child(t, "s", mode))
				post := func(tool, args, meta string) []*jsonrpc.Message {
					t.Helper()
					all, err := fake.BareCall{URL: r.base + "/mcp", Version: version, Tool: tool, Args: args, Meta: meta}.Post(t.Context(), r.http)
					if err != nil || len(all) == 0 {
						t.Fatalf("%v %v", all, err)
					}
					return all
				}
				if mode == "fake manifest-ts" {
					wantAll(t, string(post("files.add", `{"a":1,"b":1}`, "")[0].Raw), `"id":"1"`, "sum")
					return
				}
				// Concurrent calls with the same id each get the right answer.
				var all sync.WaitGroup
				for i := range 8 {
					all.Go(func() {
						text := fmt.Sprint("text ", i)
						got, err := fake.BareCall{URL: r.base + "/mcp", Version: version, Tool: "echo", Args: `{"text":"` + text + `"}`}.Post(t.Context(), r.http)
						if err != nil || len(got) != 1 || got[0].ID != `"1"` || toolText(got[0]) != text {
							t.Errorf("%v %v", got, err)
						}
					})
				}
				all.Wait()
				got := post("wait", `{"steps":3,"ms":10}`, `"progressToken":"mine"`)
				if len(got) < 2 || got[0].Method != mcp.NoteProgress || !strings.Contains(string(got[0].Raw), `"progressToken":"mine"`) {
					t.Errorf("%d messages: %s", len(got), got[0].Raw)
				}
				// All calls use the same session with the server, so the server's counter
				// continues.
				if strings.Contains(mode, "2025") {
					first, second := toolText(post("count", `{}`, "")[0]), toolText(post("count", `{}`, "")[0])
					if first != "1" || second != "2" {
						t.Errorf("counted %s and %s", first, second)
					}
				}
			})
		}
	}
}

// TestTheDocumentsProfile checks that the example in docs/dialects.md is a valid configuration, and
// that a server like the one in the example works with and without the profile.
func TestTheDocumentsProfile(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "dialects.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no example")
	}
	s, problems := config.Parse("docs/dialects.md", []byte(example), nil)
	if s == nil || len(problems) > 0 {
		t.Fatalf("%v", problems)
	}
	_, rest, _ = strings.Cut(string(doc), "```json\n")
	answer, _, _ := strings.Cut(rest, "```")
	if err := jsonrpc.Valid([]byte(strings.TrimSpace(answer)), jsonrpc.Limits{}); err != nil {
		t.Fatalf("the answer of the server: %v", err)
	}
	for name, chosen := range map[string]bool{"chosen": true, "recognised": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := *s
			c.Limits.InitializePerSecond = 1000
			toolbox := s.Servers[0]
			toolbox.Command, toolbox.Args, toolbox.Dir = os.Args[0], nil, t.TempDir()
			u := &upstreamUnderTest{journal: filepath.Join(t.TempDir(), "journal")}
			toolbox.Env = childEnv("toolbox "+strings.Join(strings.Fields(answer), " "), u.journal)
			if !chosen {
				toolbox.Dialect, toolbox.Profile = "", nil
			}
			c.Servers = []config.Server{toolbox}
			r := serve(t, &c)
			withStrictClients(t, r, func(t *testing.T, ctx context.Context, cl *fake.Client) {
				wantAll(t, wholeList(t, ctx, cl, mcp.MethodListTools), `"name": "toolbox__find_invoice"`, `"exclusiveMinimum": 0`, `"destructiveHint":true`, `"original":{"args":{"properties"`)
				wantAll(t, result(t, ctx, cl, mcp.MethodCallTool, `{"name":"toolbox__find_invoice","arguments":{"number":7}}`), `"text":"invoice 7"`)
				wantAll(t, result(t, ctx, cl, mcp.MethodCallTool, `{"name":"toolbox__find_invoice","arguments":{"number":404}}`), `"isError":true`, "There is no such invoice: 404")
			})
			if bad := u.entries("bad"); len(bad) > 0 {
				t.Errorf("the server got %q", bad)
			}
		})
	}
}

// runAsToolbox runs a server like the example in docs/dialects.md. answer is its result of
// initialize.
func runAsToolbox(answer string) {
	s := &fakeServer{out: os.Stdout}
	s.note("start")
	warm := 0
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		m, err := jsonrpc.Scan(line, jsonrpc.Limits{Bytes: len(line) + 1})
		if err != nil {
			s.note("bad line")
			continue
		}
		switch {
		case m.Kind == jsonrpc.Notification, m.Method == mcp.MethodPing:
			s.note("bad %s", m.Method)
		case m.Method == mcp.MethodInitialize:
			version, caps := string(m.Param("protocolVersion").Of(m.Raw)), m.Param("capabilities")
			if version == "3" && caps.IsZero() && warm == 0 {
				warm++
				s.write(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: -1, Message: "Warming up, one moment"}))
				continue
			}
			s.write(jsonrpc.AppendResult(nil, m.ID, []byte(answer)))
		case m.Method == mcp.MethodCallTool:
			n := string(jsonrpc.Find(m.Raw, m.Param("arguments"), "number").Of(m.Raw))
			if n == "404" {
				s.write(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: 4001, Message: "404"}))
				continue
			}
			s.write([]byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":"invoice ` + n + `"}`))
		case m.Method != mcp.MethodDiscover:
			s.note("bad %s", m.Method)
			fallthrough
		default:
			s.write(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: -2, Message: "what?"}))
		}
	}
}
