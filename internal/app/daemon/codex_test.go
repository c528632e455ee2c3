//go:build unix

package daemon

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// runAsFake runs the process as a profile of package fake, with the settings after the profile's
// name. It writes the protocol violations to the journal.
func runAsFake(mode string) {
	words := strings.Fields(mode)
	set := map[string]string{}
	for _, kv := range words[1:] {
		k, v, _ := strings.Cut(kv, "=")
		set[k] = v
	}
	journal := (&fakeServer{}).note
	journal("start %d", os.Getpid())
	if v, ok := os.LookupEnv("CODEX_WORKER_SUPERVISED"); ok {
		journal("supervised %s", v)
	}
	s, err := fake.NewServer(words[0], fake.Options{Set: set})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	// In non-blocking mode, Go can interrupt a read of stdin, so the process can exit.
	_ = syscall.SetNonblock(0, true)
	err = s.ServePipe(context.Background(), os.NewFile(0, "stdin"), os.Stdout)
	for _, v := range s.Violations() {
		journal("violation %s", v)
	}
	if err != nil {
		os.Exit(1)
	}
}

// pipeDaemon is a Dragoman on a pipe with one server, and a fake client of one revision.
type pipeDaemon struct {
	*fake.Client
	log   *journal
	trace *journal
	stop  func()
}

// dial starts the daemon and the client. Both end with the test.
func dial(t *testing.T, u *upstreamUnderTest, client string, o fake.ClientOptions) *pipeDaemon {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	theirIn, ourOut := io.Pipe()
	ourIn, theirOut := io.Pipe()
	p := &pipeDaemon{log: &journal{}, trace: &journal{}}
	var running sync.WaitGroup
	running.Go(func() {
		err := Run(ctx, RunOptions{
			Server: u.Server, Log: p.log.logger(), Stdin: theirIn, Stdout: theirOut, Version: "test",
			Trace: func(_, trace string) { fmt.Fprint(p.trace, trace) },
		})
		if err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	opening, stop := context.WithTimeout(ctx, 60*time.Second)
	defer stop()
	c, err := fake.OpenClient(opening, client, fake.Where{In: ourIn, Out: ourOut}, o)
	p.stop = sync.OnceFunc(func() {
		if c != nil {
			_ = c.Close()
		}
		cancel()
		_ = ourOut.Close()
		_ = ourIn.Close()
		running.Wait()
		if v := u.entries("violation"); len(v) > 0 && !u.complains {
			t.Errorf("the server saw violations: %q", v)
		}
		if c != nil && len(c.Violations()) > 0 {
			t.Errorf("the client saw violations: %q", c.Violations())
		}
		if t.Failed() {
			t.Logf("trace:\n%slog:\n%s", p.trace, tailOf(p.log.String(), 4000))
		}
	})
	t.Cleanup(p.stop)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	p.Client = c
	return p
}

func (p *pipeDaemon) tool(t *testing.T, o fake.CallOptions, name, arguments string) *fake.Reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	r, err := p.Call(ctx, "tools/call", []byte(`{"name":"`+name+`","arguments":`+arguments+`}`), o)
	if err != nil || r.Err != nil {
		t.Fatalf("%s %s: %v, %+v", name, arguments, err, r)
	}
	return r
}

// memberOf returns the string at a path in an object.
func memberOf(raw []byte, path ...string) string {
	at := jsonrpc.Whole(raw)
	for _, key := range path {
		at = jsonrpc.Find(raw, at, key)
	}
	s, _ := jsonrpc.Text(raw, at)
	return s
}

func codexWorker(t *testing.T, mode string) *upstreamUnderTest {
	return child(t, "codex", "fake "+mode, func(s *config.Server) { s.Dialect = dialect.CodexAppServer })
}

// TestCodex calls Codex workers of both generations, with every kind of handshake, from
// ordinary clients of all revisions.
func TestCodex(t *testing.T) {
	t.Parallel()
	revisions := []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}
	for _, worker := range []struct {
		mode, version, approved, denied string
		slow                            bool
	}{
		{mode: "codex-app-server v2=accept", version: "v2"},
		{mode: "reject-v2 events=yes", version: "v1"},
		{mode: "codex-app-server v2=-32600", version: "v1"},
		{mode: "codex-app-server v2=silence events=yes", version: "v1", slow: true},
		{mode: "codex-app-server-old v2=accept", version: "v2", approved: "approved", denied: "denied"},
		{mode: "codex-app-server-old v2=-32600", version: "v1", approved: "approved", denied: "denied"},
	} {
		if worker.approved == "" {
			worker.approved, worker.denied = "accept", "decline"
		}
		for i, revision := range revisions {
			if worker.slow && (i < 3 || testing.Short()) {
				continue // each run takes at least five seconds, because the worker does not answer initialize with v2
			}
			t.Run(worker.mode+"/"+revision, func(t *testing.T) {
				t.Parallel()
				u := codexWorker(t, worker.mode)
				p := dial(t, u, "strict-"+revision, fake.ClientOptions{})

				list, err := p.Call(t.Context(), "tools/list", nil, fake.CallOptions{})
				if err != nil || !strings.Contains(string(list.Result), `"name":"codex"`) || !strings.Contains(string(list.Result), `"name":"codex-reply"`) {
					t.Fatalf("tools/list: %v, %s", err, list.Result)
				}
				r := p.tool(t, fake.CallOptions{Progress: true}, "codex", `{"prompt":"hello there"}`)
				thread := memberOf(r.Result, "structuredContent", "threadId")
				if memberOf(r.Result, "structuredContent", "content") != "You said: hello there" || thread == "" {
					t.Errorf("codex: %s", r.Result)
				}
				var streamed strings.Builder
				for _, n := range r.Progress {
					streamed.WriteString(memberOf(n.Params, "message"))
				}
				if i > 0 && !strings.Contains(streamed.String(), "hello") { // 2024-11-05 has no message in progress notifications
					t.Errorf("progress: %q", streamed.String())
				}

				asked := len(p.Asks())
				r = p.tool(t, fake.CallOptions{}, "codex-reply", `{"threadId":"`+thread+`","prompt":"run make"}`)
				said := memberOf(r.Result, "structuredContent", "content")
				if can := i >= 2; can { // elicitation was added in 2025-06-18
					if said != "the command got "+worker.approved || len(p.Asks()) != asked+1 {
						t.Errorf("an approval: %s, after %d requests to the client", r.Result, len(p.Asks())-asked)
					} else if q := p.Asks()[asked]; !strings.Contains(memberOf(q.Params, "message"), "make") || strings.Contains(string(q.Params), "progressToken") {
						t.Errorf("the request to the client: %s", q.Params)
					}
				} else if said != "the command got "+worker.denied || !strings.Contains(string(r.Result), "Dragoman declined") {
					t.Errorf("an approval of a client without elicitation: %s", r.Result)
				}

				ctx, cancel := context.WithCancel(t.Context())
				_, err = p.Call(ctx, "tools/call", []byte(`{"name":"codex-reply","arguments":{"threadId":"`+thread+`","prompt":"wait"}}`),
					fake.CallOptions{Progress: true, OnProgress: func(fake.Notice) { cancel() }})
				cancel()
				if err == nil {
					t.Error("a cancelled call got an answer")
				}
				for try := 0; ; try++ { // the worker needs some time to interrupt the turn
					r = p.tool(t, fake.CallOptions{}, "codex-reply", `{"threadId":"`+thread+`","prompt":"on"}`)
					if !strings.Contains(string(r.Result), "already running in this thread") || try > 200 {
						break
					}
					time.Sleep(50 * time.Millisecond)
				}
				if memberOf(r.Result, "structuredContent", "content") != "You said: on" {
					t.Errorf("after the interruption: %s", r.Result)
				}
				if log := p.log.String(); !strings.Contains(log, "version="+worker.version+" ") {
					t.Errorf("the log does not say %s", worker.version)
				}
				if n := u.count("start"); n != 1 {
					t.Errorf("%d processes, want one", n)
				}
			})
		}
	}
}

// TestCodexAtOnce makes two calls at the same time through one worker process. The worker asks for
// approval in each call, and each call gets its own approval.
func TestCodexAtOnce(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			u := codexWorker(t, "codex-app-server")
			both := make(chan struct{})
			var mu sync.Mutex
			open := 0
			p := dial(t, u, "strict-"+revision, fake.ClientOptions{Answer: func(ctx context.Context, a fake.Ask) ([]byte, *jsonrpc.Error) {
				mu.Lock()
				if open++; open == 2 {
					close(both)
				}
				mu.Unlock()
				select {
				case <-both: // wait until the approvals of both calls have been requested
				case <-ctx.Done():
				}
				decision := "accept"
				if strings.Contains(memberOf(a.Params, "message"), "second") {
					decision = "decline"
				}
				return []byte(`{"action":"accept","content":{"decision":"` + decision + `"}}`), nil
			}})
			var wg sync.WaitGroup
			for command, want := range map[string]string{"first": "accept", "second": "decline"} {
				wg.Go(func() {
					r := p.tool(t, fake.CallOptions{}, "codex", `{"prompt":"run `+command+`"}`)
					if got := memberOf(r.Result, "structuredContent", "content"); got != "the command got "+want {
						t.Errorf("%s: %s", command, r.Result)
					}
				})
			}
			wg.Wait()
			if n := u.count("start"); n != 1 {
				t.Errorf("%d processes, want one", n)
			}
		})
	}
}

// TestCodexUnnamed checks that a worker without a configured dialect is recognised by its first
// answer, and that Dragoman restarts it.
func TestCodexUnnamed(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			u := child(t, "codex", "fake codex-app-server")
			p := dial(t, u, "strict-"+revision, fake.ClientOptions{})
			r := p.tool(t, fake.CallOptions{}, "codex", `{"prompt":"hello"}`)
			if memberOf(r.Result, "structuredContent", "content") != "You said: hello" {
				t.Errorf("codex: %s", r.Result)
			}
			if n := u.count("start"); n != 2 {
				t.Errorf("%d processes, want two", n)
			}
			if trace := p.trace.String(); !strings.Contains(trace, "userAgent and without capabilities") || !strings.Contains(trace, "initialize v2") {
				t.Errorf("the trace does not have these lines")
			}
		})
	}
}

// TestCodexSupervised checks the environment of the processes. A worker gets
// CODEX_WORKER_SUPERVISED=true unless the user sets another value. A server that is not a worker
// does not get the variable.
func TestCodexSupervised(t *testing.T) {
	t.Parallel()
	codex := func(s *config.Server) { s.Dialect = dialect.CodexAppServer }
	own := func(s *config.Server) { s.Env["CODEX_WORKER_SUPERVISED"] = config.NewSecret("no") }
	for name, c := range map[string]struct {
		worker    *upstreamUnderTest
		processes int
		want      []string
	}{
		"worker":                {child(t, "codex", "fake codex-app-server form=shim", codex), 1, []string{"true"}},
		"older worker":          {child(t, "codex", "fake codex-app-server-old", codex), 1, []string{"true"}},
		"silent without it":     {child(t, "codex", "fake codex-app-server form=shim supervised=required", codex), 1, []string{"true"}},
		"recognised by a line":  {child(t, "codex", "fake codex-app-server form=shim supervised=answers"), 2, []string{"true"}},
		"set by the user":       {child(t, "codex", "fake codex-app-server", codex, own), 1, []string{"no"}},
		"recognised by answers": {child(t, "codex", "fake codex-app-server"), 2, []string{"true"}},
		"not a worker":          {child(t, "mcp", "fake strict-2025-11-25"), 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := dial(t, c.worker, "strict-2025-11-25", fake.ClientOptions{})
			if _, err := p.Call(t.Context(), "tools/list", nil, fake.CallOptions{}); err != nil {
				t.Fatal(err)
			}
			p.stop()
			if n := c.worker.count("start"); n != c.processes {
				t.Errorf("%d processes, want %d", n, c.processes)
			}
			if got := c.worker.entries("supervised"); !slices.Equal(got, c.want) {
				t.Errorf("the values are %q, want %q", got, c.want)
			}
		})
	}
}

// TestCodexProfile checks that a copy of the built-in profile with changed fields changes the
// handshake.
func TestCodexProfile(t *testing.T) {
	t.Parallel()
	own := *dialect.Lookup(dialect.CodexAppServer)
	own.Name, own.Open.NoInitialized, own.Errors.WrongParams = "own", false, []dialect.Sign{"not logged in"}
	u := child(t, "codex", "fake codex-app-server v2=closed", func(s *config.Server) { s.Dialect, s.Profile = own.Name, &own })
	u.complains = true // the worker records notifications/initialized as a violation, but accepts it
	p := dial(t, u, "strict-2025-11-25", fake.ClientOptions{})
	r := p.tool(t, fake.CallOptions{}, "codex", `{"prompt":"hello"}`)
	if memberOf(r.Result, "structuredContent", "content") != "You said: hello" || !strings.Contains(p.log.String(), "version=v1 ") {
		t.Errorf("codex: %s", r.Result)
	}
	p.stop()
	if v := u.entries("violation"); len(v) != 1 || !strings.HasPrefix(v[0], "initialized") {
		t.Errorf("initialized was not sent: %q", v)
	}
}

// TestCodexDies checks a worker that exits during a turn. The call fails with the outcome
// "unknown". Dragoman restarts the worker for the next turn, which can continue the same thread.
func TestCodexDies(t *testing.T) {
	t.Parallel()
	u := codexWorker(t, "codex-app-server")
	p := dial(t, u, "strict-2025-11-25", fake.ClientOptions{})
	thread := memberOf(p.tool(t, fake.CallOptions{}, "codex", `{"prompt":"hello"}`).Result, "structuredContent", "threadId")
	r, err := p.Call(t.Context(), "tools/call", []byte(`{"name":"codex-reply","arguments":{"threadId":"`+thread+`","prompt":"die"}}`), fake.CallOptions{})
	if err != nil || r.Err == nil || !strings.Contains(string(r.Err.Data), `"outcome":"unknown"`) {
		t.Fatalf("a turn during which the worker exited: %v, %+v", err, r)
	}
	r = p.tool(t, fake.CallOptions{}, "codex-reply", `{"threadId":"`+thread+`","prompt":"on"}`)
	if memberOf(r.Result, "structuredContent", "content") != "You said: on" {
		t.Errorf("after it: %s", r.Result)
	}
	if n := u.count("start"); n != 2 {
		t.Errorf("%d processes, want two", n)
	}
}

// TestCodexReadiness checks that /readyz shows the readiness of each worker.
func TestCodexReadiness(t *testing.T) {
	t.Parallel()
	good := codexWorker(t, "codex-app-server")
	bad := child(t, "bad", "fake codex-app-server v2=closed", func(s *config.Server) { s.Dialect = dialect.CodexAppServer })
	r := serve(t, snapshot(good, bad))
	await(t, "readyz shows both workers", time.Minute, func() bool {
		body := r.do(t.Context(), "GET", "/readyz", nil).body
		return strings.Contains(body, `"readiness":"handshake_complete"`) && strings.Contains(body, `"readiness":"handshake_failed"`) && strings.Contains(body, "not logged in")
	})
}
