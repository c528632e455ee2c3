//go:build unix

package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// fileDaemon is a daemon that reads its configuration from the file at path.
type fileDaemon struct {
	*rig
	path string
}

// serveFile writes text to a file and starts a daemon with this configuration file.
func serveFile(t testing.TB, text string, more ...func(*ServeOptions)) *fileDaemon {
	t.Helper()
	w := &fileDaemon{path: filepath.Join(t.TempDir(), "dragoman.yaml")}
	w.write(t, text)
	s, problems := config.Load(w.path)
	if s == nil {
		t.Fatal(problems.Err())
	}
	w.rig = serve(t, s, append([]func(*ServeOptions){func(o *ServeOptions) { o.ConfigPath = w.path }}, more...)...)
	return w
}

func (w *fileDaemon) write(t testing.TB, text string) {
	t.Helper()
	next := w.path + ".new"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, w.path); err != nil {
		t.Fatal(err)
	}
}

// text returns the text of a configuration file with these servers.
func text(all ...*upstreamUnderTest) string {
	out := "dragoman: {limits: {initializePerSecond: 1000}}\nmcpServers:\n"
	for _, u := range all {
		var env []string
		for name, value := range u.Env {
			env = append(env, fmt.Sprintf("%s: %q", name, value.Reveal()))
		}
		slices.Sort(env)
		out += fmt.Sprintf("  %s: {command: %q, cwd: %q, env: {%s}}\n", u.Name, u.Command, u.Dir, strings.Join(env, ", "))
	}
	return out
}

func (w *fileDaemon) waitLog(t testing.TB, what string, times int) {
	t.Helper()
	await(t, what, 10*time.Second, func() bool { return w.log.count(what) >= times })
}

// TestReloadEvents checks that each reload publishes an event. The event says whether Dragoman
// applied or refused the file, and which settings change only with a restart.
func TestReloadEvents(t *testing.T) {
	kept, came := child(t, "kept", "legacy"), child(t, "came", "legacy")
	var mu sync.Mutex
	var got []string
	heard := make(chan os.Signal, 1) // handle SIGHUP, which would otherwise end the test process
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	events := &event.Publisher{}
	defer events.Tap(event.Of(event.Reload), func(e event.Event) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, e.Kind.String()+" "+string(e.Outcome)+": "+e.Detail)
	})()
	w := serveFile(t, text(kept), func(o *ServeOptions) { o.Events = events })
	wait := func(n int, want string) {
		t.Helper()
		// Send SIGHUP too, because Dragoman may not watch the file yet.
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		var all []string
		await(t, want, 30*time.Second, func() bool {
			mu.Lock()
			defer mu.Unlock()
			all = slices.Clone(got)
			return len(all) >= n
		})
		if all[n-1] != strings.ReplaceAll(want, "FILE", w.path) || len(all) > n {
			t.Errorf("got %q, want %q", all, want)
		}
	}
	w.write(t, text(kept, came)+"  broken: {command: \"${UNSET_IN_THIS_TEST}\"}\n")
	wait(1, "reload ok: The changed configuration was applied. Added: came, broken. Not started because of an error: broken.")
	// What is wrong with a server that stays as it is was said before, and it's no reason to refuse the file.
	slower := strings.Replace(text(kept, came), "mcpServers:", "# a line more\nmcpServers:", 1) + "  broken: {command: \"${UNSET_IN_THIS_TEST}\"}\n"
	w.write(t, strings.Replace(slower, "initializePerSecond: 1000", "initializePerSecond: 1001", 1))
	wait(2, "reload ok: The changed configuration was applied. Settings: limits.")
	if n := w.log.count("a server is not started"); n != 1 {
		t.Errorf("after two reloads the log says %d times that a server is not started", n)
	}
	w.write(t, strings.Replace(slower, "initializePerSecond", "initialisePerSecond", 1))
	wait(3, "reload failed: The changed configuration was refused, and the current one stays in use. FILE:1:21: dragoman.limits.initialisePerSecond: unknown key; did you mean initializePerSecond?")
	if n := w.log.count("${UNSET_IN_THIS_TEST"); n != 1 {
		t.Errorf("%d records have the unset variable", n)
	}
	w.write(t, "mcpServers: [\n")
	wait(4, "reload failed: The changed configuration was refused, and the current one stays in use. FILE:1:13: syntax error: this [ is not closed; check indentation, quotes and brackets here and on the line before.")
	w.write(t, "")
	wait(5, "reload failed: The file is empty. All servers stay. To remove all servers, write mcpServers: {}.")
	if report, _ := w.status(); report.Refusal == nil || !strings.HasPrefix(report.Refusal.Text, "The file is empty.") || report.Refusal.Since.IsZero() {
		t.Errorf("the status has the refusal %+v", report.Refusal)
	}
	w.write(t, text(came))
	wait(6, "reload ok: The changed configuration was applied. Removed: kept, broken. Settings: limits.")
	if report, _ := w.status(); report.Refusal != nil {
		t.Errorf("the status still has the refusal %+v", report.Refusal)
	}
	set := func(settings string) string {
		return strings.Replace(text(came), "initializePerSecond: 1000", settings, 1)
	}
	w.write(t, set("initializePerSecond: 1000, body: 1MiB}, allowedHosts: [example.com], server: {title: T"))
	wait(7, "reload ok: The changed configuration was applied. Settings: server, limits. Settings that change only with a restart: allowedHosts.")
	w.write(t, set("initializePerSecond: 1000, body: 1MiB, call: 7m}, allowedHosts: [example.com], server: {title: T"))
	wait(8, "reload ok: The changed configuration was applied. Changed: came. Settings: limits.")
}

// TestRepeatedRefusals checks that Dragoman publishes the same refusal only once until it applies a
// configuration. If the file explicitly has no servers, Dragoman waits before it applies the file,
// and publishes nothing.
func TestRepeatedRefusals(t *testing.T) {
	t.Parallel()
	u, other := child(t, "u", "legacy"), child(t, "other", "legacy")
	var mu sync.Mutex
	var got []string
	events := &event.Publisher{}
	defer events.Tap(event.Of(event.Reload), func(e event.Event) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, string(e.Outcome)+": "+e.Detail)
	})()
	w := serveFile(t, text(u), func(o *ServeOptions) { o.Events, o.secondLook = events, time.Hour })
	read := func(text, logged string) {
		t.Helper()
		before, again := strings.Count(w.log.String(), logged), time.Time{}
		await(t, logged, 30*time.Second, func() bool {
			if now := time.Now(); now.After(again) { // repeat the write, because Dragoman may not watch the file yet
				w.write(t, fmt.Sprintf("%s# %d\n", text, now.UnixNano()))
				again = now.Add(500 * time.Millisecond)
			}
			return strings.Count(w.log.String(), logged) > before
		})
	}
	for range 3 {
		read("mcpServers: {}\n", "the changed configuration has no servers")
		read("", "ignored an empty configuration file")
	}
	read(text(u, other), "configuration applied")
	read("", "ignored an empty configuration file")
	read(text(u), "configuration applied")
	const empty = "failed: The file is empty. All servers stay. To remove all servers, write mcpServers: {}."
	want := []string{
		empty, "ok: The changed configuration was applied. Added: other.",
		empty, "ok: The changed configuration was applied. Removed: other.",
	}
	equal := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Equal(got, want)
	}
	for end := time.Now().Add(30 * time.Second); !equal() && time.Now().Before(end); { // Dragoman writes the log line before it publishes the event
		time.Sleep(5 * time.Millisecond)
	}
	if !equal() {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestReload checks a changed file. A server that is in the old and in the new file keeps its
// process and its sessions. Dragoman starts the server that is only in the new file, and stops the
// server that is only in the old file.
func TestReload(t *testing.T) {
	t.Parallel()
	kept, gone, came := child(t, "kept", "legacy"), child(t, "gone", "modern"), child(t, "came", "legacy")
	w := serveFile(t, text(kept, gone))
	w.call("/mcp", "kept__echo", "{}").wantText(t, "{}")
	w.call("/mcp", "gone__echo", "{}").wantText(t, "{}")
	session := w.initialize("/mcp", "2025-11-25", "{}")
	single := w.initialize("/s/gone/mcp", "2025-11-25", "{}")
	events := w.open("GET", "/mcp", "", "Mcp-Session-Id", session)
	w.write(t, text(came, kept))
	w.waitLog(t, "configuration applied", 1)
	for _, line := range []string{
		`msg="server added" code=server_added server=came`, `msg="server removed" code=server_removed server=gone`,
		`msg="configuration applied" code=config_applied added=1 removed=1 changed=0 kept=1`,
	} {
		if !strings.Contains(w.log.String(), line) {
			t.Errorf("the log lacks %s", line)
		}
	}
	w.call("/mcp", "came__echo", `{"v":1}`).wantText(t, `{"v":1}`)
	w.post("/mcp", toolCall("5", "kept__echo", `{"v":2}`), "Mcp-Session-Id", session).wantText(t, `{"v":2}`)
	w.initialize("/s/came/mcp", "2025-06-18", "{}")
	if a := w.call("/mcp", "gone__echo", "{}"); a.code(t) != -32602 {
		t.Errorf("a tool of a removed server: %s", a.body)
	}
	if a := w.call("/s/gone/mcp", "echo", "{}"); a.status != 404 {
		t.Errorf("the endpoint of a removed server: %d", a.status)
	}
	if a := w.post("/s/gone/mcp", toolCall("5", "echo", `{}`), "Mcp-Session-Id", single); a.status != 404 {
		t.Errorf("a session of a removed server: %d", a.status)
	}
	if m := events.event(); m == nil || !strings.HasSuffix(m.Method, "list_changed") {
		t.Errorf("the client got %v", m)
	}
	gone.wantGone(t)
	if n := len(kept.pids(t)); n != 1 {
		t.Errorf("the server in both files was started %d times", n)
	}
	// Change the file back. The endpoint of the server "gone" works again.
	w.write(t, text(gone, kept))
	w.waitLog(t, "configuration applied", 2)
	w.call("/s/gone/mcp", "echo", `{"v":3}`).wantText(t, `{"v":3}`)
	came.wantGone(t)
}

// TestP7_BadConfigChangesNothing checks that Dragoman ignores a bad file, both when the file
// changes and after SIGHUP (W07). Dragoman logs each problem with its line number and keeps the
// server running. Afterwards, it applies a valid file.
func TestP7_BadConfigChangesNothing(t *testing.T) {
	u := child(t, "a", "legacy")
	w := serveFile(t, text(u))
	w.call("/mcp", "a__echo", "{}").wantText(t, "{}")
	slow := make(chan answer, 1)
	var calling sync.WaitGroup
	calling.Go(func() { slow <- w.call("/s/a/mcp", "slow", `{"v":"slow"}`) })
	await(t, "the call has arrived", 30*time.Second, func() bool { return u.count("call slow") == 1 })
	for i, bad := range []string{
		"mcpServers: [",
		"mcpServers:\n  b: {comand: x}\n  c: {command: y, url: z}\n",
		"mcpServers:\n  a: {command: x}\n  a: {command: y}\n",
		"",
	} {
		w.write(t, bad)
		if bad == "" {
			_ = os.Remove(w.path)
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}
		w.waitLog(t, "is invalid; keeping the current one", i+1)
		w.call("/mcp", "a__echo", `{"v":1}`).wantText(t, `{"v":1}`)
	}
	for _, want := range []string{":1:", ":2:", ":3:", "comand"} {
		if !strings.Contains(w.log.String(), want) {
			t.Errorf("the log does not name %q", want)
		}
	}
	calling.Wait()
	a := <-slow
	a.wantText(t, `{"v":"slow"}`)
	if len(u.pids(t)) != 1 {
		t.Error("the server was started again")
	}
	w.write(t, strings.Replace(text(u), "dragoman: {", "dragoman: {allowedHosts: [example.com], server: {title: Changed}, ", 1))
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	w.waitLog(t, "configuration applied", 1)
	if a := w.modern("/mcp", "1", "server/discover", "", ""); !strings.Contains(a.body, `"title":"Changed"`) {
		t.Errorf("discover: %s", a.body)
	}
	w.waitLog(t, "change only with a restart\" settings=allowedHosts", 1)
}

// TestSignalBeforeReady sends SIGHUP while Serve calls Ready. Serve must read the file again.
func TestSignalBeforeReady(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // with one thread, the goroutine that watches the file starts later
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	u, other := child(t, "u", "legacy"), child(t, "other", "legacy")
	path := filepath.Join(t.TempDir(), "dragoman.yaml")
	w := &fileDaemon{path: path}
	w.write(t, text(u))
	s, problems := config.Load(path)
	if s == nil {
		t.Fatal(problems.Err())
	}
	w.write(t, text(u, other)) // write before Dragoman watches the file, so that only the signal makes Dragoman read it
	w.rig = serve(t, s, func(o *ServeOptions) {
		ready := o.Ready
		o.ConfigPath = path
		o.Ready = func(mcp string) {
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				t.Error(err)
			}
			ready(mcp)
		}
	})
	w.waitLog(t, "configuration applied", 1)
	w.call("/mcp", "other__echo", "{}").wantText(t, "{}")
}

// TestReloadTwice changes the file and then also sends SIGHUP. Dragoman applies the change only
// once. SIGHUP does not close the streams that a client has opened after the change.
func TestReloadTwice(t *testing.T) {
	u, other := child(t, "u", "legacy"), child(t, "other", "modern")
	w := serveFile(t, text(u))
	w.call("/mcp", "u__echo", "{}").wantText(t, "{}") // Dragoman now watches the file
	w.write(t, text(u, other))
	w.waitLog(t, "configuration applied", 1)
	session := w.initialize("/mcp", "2025-11-25", "{}")
	events := w.open("GET", "/mcp", "", "Mcp-Session-Id", session)
	listen := w.open("POST", "/mcp", modernBody(`"l"`, mcp.MethodListen, `"notifications":{"toolsListChanged":true}`), modernHeader(mcp.MethodListen, "")...)
	if m := listen.event(); m == nil || m.Method != mcp.NoteAcknowledged {
		t.Fatalf("the first message of the listen is %v", m)
	}
	await(t, "all is listed", 20*time.Second, func() bool {
		a := w.modern("/mcp", "1", "tools/list", "", "")
		return strings.Contains(a.body, "u__echo") && strings.Contains(a.body, "other__echo")
	})
	for len(events.next) > 0 {
		events.event()
	}
	for i := range 2 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		w.waitLog(t, "configuration is unchanged", i+1)
	}
	w.write(t, text(u, other)+"# only a comment\n")
	w.waitLog(t, "configuration is unchanged", 3)
	w.post("/mcp", toolCall("5", "u__echo", `{"v":1}`), "Mcp-Session-Id", session).wantText(t, `{"v":1}`)
	for name, s := range map[string]*stream{"listen": listen, "events": events} {
		for len(s.next) > 0 {
			if m := s.event(); m == nil || m.Kind != jsonrpc.Notification {
				t.Errorf("%s has ended with %v", name, m)
				break
			}
		}
	}
	if n := strings.Count(w.log.String(), "configuration applied"); n != 1 {
		t.Errorf("applied %d times", n)
	}
}

// TestEmptyFile checks that an empty file, which a full disk or a crashed editor may leave, removes
// no server. A file that explicitly has no servers removes all servers after SIGHUP, or if it does
// not change again for some time.
func TestEmptyFile(t *testing.T) {
	for name, made := range map[string]string{"no bytes": "", "blanks": " \n\n", "a comment": "# soon\n", "a mark": "\ufeff"} {
		t.Run(name, func(t *testing.T) {
			u := child(t, "u", "legacy")
			w := serveFile(t, text(u), func(o *ServeOptions) { o.secondLook = 50 * time.Millisecond })
			session := w.initialize("/mcp", "2025-11-25", "{}")
			w.write(t, made)
			w.waitLog(t, "ignored an empty configuration file", 1)
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil { // Dragoman must not apply the file on SIGHUP either
				t.Fatal(err)
			}
			w.waitLog(t, "ignored an empty configuration file", 2)
			w.post("/mcp", toolCall("5", "u__echo", "{}"), "Mcp-Session-Id", session).wantText(t, "{}")
			if n := len(u.pids(t)); n != 1 {
				t.Errorf("the server was started %d times", n)
			}
			if s, _ := w.status(); len(s.Servers) != 1 || s.Servers[0].State != "ready" {
				t.Errorf("the status is %+v", s.Servers)
			}
			w.write(t, text(u, child(t, "other", "legacy")))
			w.waitLog(t, "configuration applied", 1)
			w.call("/mcp", "other__echo", "{}").wantText(t, "{}")
		})
	}
	t.Run("no servers", func(t *testing.T) {
		u := child(t, "u", "legacy")
		w := serveFile(t, text(u), func(o *ServeOptions) { o.secondLook = 50 * time.Millisecond })
		w.call("/mcp", "u__echo", "{}").wantText(t, "{}")
		w.write(t, "mcpServers: {}\n")
		w.waitLog(t, "configuration applied", 1)
		if !strings.Contains(w.log.String(), "the changed configuration has no servers") {
			t.Error("no warning was logged")
		}
		u.wantGone(t)
	})
	t.Run("no servers, asked for", func(t *testing.T) {
		u := child(t, "u", "legacy")
		w := serveFile(t, text(u), func(o *ServeOptions) { o.secondLook = time.Hour })
		w.call("/mcp", "u__echo", "{}").wantText(t, "{}")
		w.write(t, "mcpServers: {}\n")
		w.waitLog(t, "the changed configuration has no servers", 1)
		w.call("/mcp", "u__echo", "{}").wantText(t, "{}")
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		w.waitLog(t, "configuration applied", 1)
		u.wantGone(t)
	})
	t.Run("servers come back", func(t *testing.T) {
		u := child(t, "u", "legacy")
		w := serveFile(t, text(u), func(o *ServeOptions) { o.secondLook = time.Hour })
		w.call("/mcp", "u__echo", "{}").wantText(t, "{}")
		w.write(t, "mcpServers: {}\n")
		w.waitLog(t, "the changed configuration has no servers", 1)
		w.write(t, text(u)+"# again\n")
		w.waitLog(t, "configuration is unchanged", 1)
		w.call("/mcp", "u__echo", "{}").wantText(t, "{}")
		if n := len(u.pids(t)); n != 1 {
			t.Errorf("the server was started %d times", n)
		}
	})
}

// TestW08_RemovedWithCalls removes a server while it runs calls. A call that ends within the drain
// time gets its result. Any other call fails with the cause "removed".
func TestW08_RemovedWithCalls(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"legacy", "modern"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			u, other := child(t, "u", mode), child(t, "other", "legacy")
			w := serveFile(t, text(u, other), func(o *ServeOptions) { o.Drain = 600 * time.Millisecond })
			w.call("/s/u/mcp", "echo", "{}").wantText(t, "{}")
			var calling sync.WaitGroup
			calling.Go(func() { w.call("/s/u/mcp", "slow", `{"v":1}`).wantText(t, `{"v":1}`) })
			calling.Go(func() { w.call("/s/u/mcp", "hang", `{}`).wantFault(t, "removed", "unknown") })
			await(t, "the calls have arrived", 30*time.Second, func() bool { return u.count("call slow") == 1 && u.count("call hang") == 1 })
			w.write(t, text(other))
			w.waitLog(t, "configuration applied", 1)
			calling.Wait()
			u.wantGone(t)
			w.call("/mcp", "other__echo", "{}").wantText(t, "{}")
		})
	}
}

// TestW01_Stop stops Dragoman while calls and listens are open. A call that ends within the drain
// time gets its result, and any other call gets an error. A listen ends with its result (N09). No
// process of the server is left.
func TestW01_Stop(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"legacy", "modern"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			u := child(t, "u", mode)
			r := serve(t, snapshot(u), func(o *ServeOptions) { o.Drain = 3 * time.Second })
			r.call("/s/u/mcp", "echo", "{}").wantText(t, "{}")
			session := r.initialize("/s/u/mcp", "2025-06-18", "{}")
			get := r.open("GET", "/s/u/mcp", "", "Mcp-Session-Id", session)
			sse := dialSSE(r, "/s/u/sse")
			var listens []*stream
			for i := range 10 {
				path := []string{"/mcp", "/s/u/mcp"}[i%2]
				s := r.open("POST", path, modernBody(`"l"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), modernHeader("subscriptions/listen", "")...)
				if m := s.event(); m == nil || m.Method != mcp.NoteAcknowledged {
					t.Fatalf("the first message is %v", m)
				}
				listens = append(listens, s)
			}
			var calling sync.WaitGroup
			for i := range 20 {
				calling.Go(func() {
					legacy := func(tool string) answer {
						return r.post("/s/u/mcp", toolCall(fmt.Sprint(i), tool, `{"v":1}`), "Mcp-Session-Id", session)
					}
					switch i % 4 {
					case 0:
						r.call("/s/u/mcp", "slow", `{"v":1}`).wantText(t, `{"v":1}`)
					case 1:
						legacy("slow").wantText(t, `{"v":1}`)
					case 2:
						r.call("/s/u/mcp", "hang", `{}`).wantFault(t, "shutdown", "unknown")
					case 3:
						legacy("hang").wantFault(t, "shutdown", "unknown")
					}
				})
			}
			await(t, "the calls have arrived", 30*time.Second, func() bool { return u.count("call slow") == 10 && u.count("call hang") == 10 })
			start := time.Now()
			stopped := make(chan error, 1)
			calling.Go(func() { stopped <- r.stop() })
			for _, s := range listens {
				m := s.event()
				if m == nil || string(m.ID) != `"l"` || !strings.Contains(string(m.Raw), `"resultType":"complete"`) || !strings.Contains(string(m.Raw), `"io.modelcontextprotocol/subscriptionId":"l"`) {
					t.Errorf("a listen ended with %v", m)
				}
				if m := s.event(); m != nil {
					t.Errorf("the message after the result is %s", m.Raw)
				}
			}
			if m := get.event(); m != nil {
				t.Errorf("the standing stream ended with %s", m.Raw)
			}
			if m := sse.events.event(); m != nil {
				t.Errorf("the SSE stream ended with %s", m.Raw)
			}
			calling.Wait()
			if err := <-stopped; err != nil {
				t.Errorf("ended with %v", err)
			}
			if took := time.Since(start); took > patience(10*time.Second) {
				t.Errorf("took %v", took)
			}
			u.wantGone(t)
		})
	}
}

// TestStopWhileStarting checks that Serve returns soon after its context ends, even if a server has
// not yet answered its handshake.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	u := child(t, "u", "mute")
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() {
		done <- Serve(ctx, ServeOptions{Config: snapshot(u), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	})
	await(t, "the server was started", 30*time.Second, func() bool { return u.count("start") == 1 })
	start := time.Now()
	stop()
	running.Wait()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > patience(3*time.Second) {
		t.Errorf("took %v", took)
	}
	u.wantGone(t)
}

// TestFileThatIsWrittenAllTheTime checks that a client that stores its history in the configuration
// file does not fill the log. Dragoman logs the first change that has no effect at level info, and
// later ones at level debug.
func TestFileThatIsWrittenAllTheTime(t *testing.T) {
	t.Parallel()
	u := child(t, "u", "legacy")
	w := serveFile(t, text(u))
	const unchanged = `level=%s msg="configuration is unchanged"`
	polls := 0
	for i := range 3 {
		await(t, "the change is noticed", time.Minute, func() bool {
			if polls++; polls%64 == 1 { // repeat the write, because Dragoman may not watch the file yet
				w.write(t, text(u)+strings.Repeat("# history\n", polls))
			}
			return strings.Count(w.log.String(), `msg="configuration is unchanged"`) > i
		})
	}
	log := w.log.String()
	if n, m := strings.Count(log, fmt.Sprintf(unchanged, "INFO")), strings.Count(log, fmt.Sprintf(unchanged, "DEBUG")); n != 1 || m < 2 {
		t.Errorf("%d records of level info and %d of level debug, want 1 and at least 2:\n%s", n, m, log)
	}
}

// TestRefusalOf checks that the text of a refusal that ends with a question mark gets no full stop.
func TestRefusalOf(t *testing.T) {
	t.Parallel()
	_, problems := config.Parse("f", []byte("dragoman: {lissen: 1}\n"), nil)
	if got := refusalOf(problems.Err()); !strings.HasSuffix(got, "unknown key; did you mean listen?") {
		t.Errorf("got %q", got)
	}
}
