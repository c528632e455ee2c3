//go:build unix

package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// late makes the server fail to start until the file exists. The parameter how is "exit" or "wait";
// see gateVar.
func (u *upstreamUnderTest) late(how, file string) *upstreamUnderTest {
	u.Env[gateVar] = config.NewSecret(how + " " + file)
	return u
}

// TestServersComeBackByThemselves runs six servers. At first, two of them cannot start: "exits"
// exits, and "waits" does not answer. After the test creates the gate file, both become ready
// without a call. Dragoman notifies connected clients of both eras, and the log and /readyz report
// the change. Then the test kills each server in turn, and Dragoman restarts each of them without a
// call.
func TestServersComeBackByThemselves(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	all := []*upstreamUnderTest{
		child(t, "one", "legacy"), child(t, "two", "modern"), child(t, "three", "legacy"), child(t, "four", "modern"),
		child(t, "exits", "legacy").late("exit", gate), child(t, "waits", "modern").late("wait", gate),
	}
	r := serve(t, snapshot(all...))
	server := func(name string) admin.Server {
		s, _ := r.status()
		return serverIn(t, s, name)
	}
	await(t, "four are ready and one has failed twice", time.Minute, func() bool {
		ready := 0
		for _, u := range all[:4] {
			if server(u.Name).State == "ready" {
				ready++
			}
		}
		x := server("exits")
		return ready == 4 && x.State == "failed" && x.Attempts >= 2
	})
	if body := r.do(t.Context(), "GET", "/readyz", nil).body; !strings.Contains(body, "some servers could not be opened") || !strings.Contains(body, `"attempts":`) {
		t.Errorf("readyz: %s", body)
	}
	old := dialSSE(r, "/sse")
	defer old.events.stop()
	old.send(initializeBody("2024-11-05", "{}"))
	if m := old.events.event(); m == nil {
		t.Fatal("no answer to initialize")
	}
	old.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	listen := r.open("POST", "/mcp", modernBody(`"l"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), modernHeader("subscriptions/listen", "")...)
	defer listen.stop()
	if m := listen.event(); m == nil {
		t.Fatal("the listen has ended")
	}
	await(t, "the client is attached", time.Minute, func() bool { return server("one").Hearers == 2 })

	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for who, events := range map[string]*stream{"the legacy client": old.events, "the modern client": listen} {
		if m := events.event(); m == nil || m.Method != mcp.NoteToolsChanged {
			t.Errorf("%s got %v", who, m)
		}
	}
	for _, name := range []string{"exits", "waits"} {
		await(t, name+" is ready", time.Minute, func() bool { return server(name).State == "ready" })
	}
	await(t, "the log", time.Minute, func() bool {
		text := r.log.String()
		return strings.Contains(text, `msg="server ready" server=exits took=`) && strings.Contains(text, `msg="server ready" server=waits took=`)
	})
	await(t, "readyz has turned", time.Minute, func() bool {
		return strings.Contains(r.do(t.Context(), "GET", "/readyz", nil).body, `"reason":"serving"`)
	})

	for _, u := range all {
		before := server(u.Name)
		pids := 0
		for _, x := range before.Sessions {
			pids++
			_ = syscall.Kill(x.PID, syscall.SIGKILL)
		}
		if pids == 0 {
			t.Errorf("%s has no process", u.Name)
		}
		await(t, u.Name+" is back", time.Minute, func() bool {
			x := server(u.Name)
			return x.State == "ready" && x.Restarts == before.Restarts+1 && len(x.Sessions) > 0 && x.Sessions[0].PID != before.Sessions[0].PID && x.LastError != nil
		})
	}
	for _, u := range all {
		r.call("/mcp", u.Name+"__echo", `{"v":1}`).wantText(t, `{"v":1}`)
	}
}

// TestUnsetVariableFailsOneServer checks a server whose configuration uses an environment variable
// that is not set. Only this server fails. The status, /readyz and the errors to clients show the
// reason. After the configuration file no longer needs the variable, the server works.
func TestUnsetVariableFailsOneServer(t *testing.T) {
	t.Parallel()
	good, bad := child(t, "good", "legacy"), child(t, "bad", "legacy")
	needs := strings.Replace(text(good, bad), "bad: {command:", "bad: {args: [\"${DAEMON_TEST_NOT_SET}\"], command:", 1)
	w := serveFile(t, needs)
	const reason = "the environment variable DAEMON_TEST_NOT_SET is not set"
	await(t, "the good one is ready", time.Minute, func() bool {
		s, _ := w.status()
		return serverIn(t, s, "good").State == "ready"
	})
	w.call("/mcp", "good__echo", `{"v":1}`).wantText(t, `{"v":1}`)
	s, _ := w.status()
	x := serverIn(t, s, "bad")
	if x.State != "failed" || !strings.Contains(x.Reason, reason) || x.RetryAt != nil || x.Failure == nil || x.Failure.Class != "missing_variable" {
		t.Errorf("the status: %+v", x)
	}
	for what, a := range map[string]answer{
		"readyz": w.do(t.Context(), "GET", "/readyz", nil), "a call": w.call("/mcp", "bad__echo", "{}"), "alone": w.call("/s/bad/mcp", "echo", "{}"),
	} {
		if !strings.Contains(a.body, reason) {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
	if n := bad.count("start"); n != 0 {
		t.Errorf("the bad one was started %d times", n)
	}
	w.write(t, strings.Replace(needs, "${DAEMON_TEST_NOT_SET}", "${DAEMON_TEST_NOT_SET:-set}", 1))
	await(t, "the bad one is ready", time.Minute, func() bool {
		s, _ := w.status()
		return serverIn(t, s, "bad").State == "ready"
	})
	w.call("/mcp", "bad__echo", `{"v":2}`).wantText(t, `{"v":2}`)
	w.write(t, needs)
	await(t, "the bad one has failed again", time.Minute, func() bool {
		s, _ := w.status()
		return serverIn(t, s, "bad").State == "failed"
	})
	await(t, "the log says so", time.Minute, func() bool {
		text := w.log.String()
		return strings.Contains(text, `"a server is not started" server=bad`) && strings.Contains(text, "class=missing_variable")
	})
}

// TestStrictRefusesUnsetVariablesOnReload sets Strict and adds a server that needs an environment
// variable that is not set. Dragoman refuses the changed configuration and keeps the current one.
func TestStrictRefusesUnsetVariablesOnReload(t *testing.T) {
	t.Parallel()
	good, bad := child(t, "good", "legacy"), child(t, "bad", "legacy")
	w := serveFile(t, text(good), func(o *ServeOptions) { o.Strict = true })
	changed := strings.Replace(text(good, bad), "bad: {command:", "bad: {args: [\"${DAEMON_TEST_NOT_SET}\"], command:", 1)
	n := 0
	await(t, "the changed file is refused", time.Minute, func() bool {
		if n++; n%200 == 1 { // repeat the write, because Dragoman may not watch the file yet
			w.write(t, changed+fmt.Sprintf("# %d\n", n))
		}
		return strings.Contains(w.log.String(), "the changed configuration is invalid")
	})
	if s, _ := w.status(); len(s.Servers) != 1 {
		t.Errorf("%d servers", len(s.Servers))
	}
}

// TestManifestClientGetsWhatIsReady checks that a client that sends initialize without params gets
// the tools of the servers that are ready, even if another server does not answer.
func TestManifestClientGetsWhatIsReady(t *testing.T) {
	t.Parallel()
	s := snapshot(child(t, "good", "legacy"), child(t, "mute", "mute"))
	s.Limits.ManifestClient = time.Second
	r := serve(t, s)
	await(t, "the good one is ready", time.Minute, func() bool {
		s, _ := r.status()
		x := serverIn(t, s, "good")
		return x.State == "ready" && len(x.Lists) > 0 && x.Lists[0].Items > 0
	})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	a := r.do(ctx, "POST", "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`))
	if !strings.Contains(a.body, `"good__echo"`) || strings.Contains(a.body, `"error"`) {
		t.Errorf("the list of tools: %d %s", a.status, a.body)
	}
	a = r.do(ctx, "POST", "/s/mute/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`))
	if want := fmt.Sprintf("no server was ready within %s", s.Limits.ManifestClient); !strings.Contains(a.body, want) {
		t.Errorf("the dead server alone: %d %s", a.status, a.body)
	}
}
