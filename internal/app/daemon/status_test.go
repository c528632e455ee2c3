//go:build unix

package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

const canary = "canary-b7f3-token"

// leakingServer returns a server that writes its token to stderr and exits.
func leakingServer(t *testing.T) *upstreamUnderTest {
	s, problem := config.Complete(config.Server{
		Name: "leaky", Command: "sh", Args: []string{"-c", `echo "token $KEY is not valid" >&2; exit 3`}, Dir: t.TempDir(),
		Env: map[string]config.Secret{"KEY": config.NewSecret(canary), "LEVEL": config.NewSecret("warn")},
	})
	if problem != nil {
		t.Fatal(problem)
	}
	return &upstreamUnderTest{Server: s}
}

func (r *rig) status() (*admin.Report, string) {
	r.t.Helper()
	a := r.do(r.t.Context(), "GET", "/api/v1/status", nil)
	if a.status != 200 || a.header.Get("Content-Type") != "application/json" || a.header.Get("Cache-Control") != "no-store" {
		r.t.Fatalf("status: %d %v %s", a.status, a.header, a.body)
	}
	out := &admin.Report{}
	if err := json.Unmarshal([]byte(a.body), out); err != nil {
		r.t.Fatalf("%v: %s", err, a.body)
	}
	return out, a.body
}

func serverIn(t *testing.T, r *admin.Report, name string) admin.Server {
	t.Helper()
	for _, x := range r.Servers {
		if x.Name == name {
			return x
		}
	}
	t.Fatalf("no server %s in %+v", name, r)
	return admin.Server{}
}

// TestStatus checks that the status has each server, session, list, parked call and listen, but no
// secret, as JSON and as text.
func TestStatus(t *testing.T) {
	t.Parallel()
	old, young := child(t, "old", "legacy"), child(t, "young", "modern")
	old.Lazy = true // Dragoman restarts a lazy server only for a call, so the status can show the server's exit
	dump := &journal{}
	r := serve(t, snapshot(old, young, leakingServer(t)), func(o *ServeOptions) {
		o.Dump = func(r *admin.Report) { _, _ = dump.Write(r.Text(time.Now())) }
	})
	r.call("/mcp", "old__echo", "{}").wantText(t, "{}")
	r.call("/mcp", "young__echo", "{}").wantText(t, "{}")
	session := r.initialize("/mcp", "2025-11-25", `{"elicitation":{}}`)
	r.post("/mcp", toolCall("5", "old__echo", `{}`), "Mcp-Session-Id", session).wantText(t, "{}")
	sse := dialSSE(r, "/s/old/sse")
	defer sse.events.stop()
	listen := r.open("POST", "/mcp", modernBody(`"l"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), modernHeader("subscriptions/listen", "")...)
	defer listen.stop()
	if m := listen.event(); m == nil {
		t.Fatal("the listen has ended")
	}
	asks := strings.Replace(modernBody("9", "tools/call", `"name":"ask","arguments":{}`), `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{}}`, 1)
	if a := r.post("/s/old/mcp", asks, modernHeader("tools/call", "ask")...); !strings.Contains(a.body, "input_required") {
		t.Fatalf("parked: %s", a.body)
	}
	a := r.post("/s/leaky/mcp", modernBody("1", "tools/list", ""), modernHeader("tools/list", "")...)
	a.message(t)

	// Wait until Dragoman has read the lists again after the start, and until it waits between two
	// attempts to start the failing server. Then the status has the time of the next attempt.
	var s *admin.Report
	var body string
	await(t, "fresh lists", 30*time.Second, func() bool {
		r.modern("/mcp", "1", "tools/list", "", "")
		s, body = r.status()
		x := serverIn(t, s, "old")
		return len(x.Lists) > 0 && !x.Lists[0].Stale && serverIn(t, s, "leaky").RetryAt != nil
	})
	if s.Name != "dragoman" || s.Version != "test" || s.PID != os.Getpid() || s.State != "serving" || s.Started.IsZero() || s.UptimeSeconds < 0 {
		t.Errorf("itself: %+v", s)
	}
	if s.Conversations["http"] != 1 || s.Conversations["sse"] != 1 || s.Requests != 1 {
		t.Errorf("conversations: %v, %d requests", s.Conversations, s.Requests)
	}
	if len(s.Endpoints) != 5 || s.Endpoints[0].Path != "/mcp" || s.Endpoints[0].Conversations["http"] != 1 || s.Endpoints[3].Path != "/s/old/mcp" || s.Endpoints[3].Conversations["sse"] != 1 {
		t.Errorf("endpoints: %+v", s.Endpoints)
	}
	x := serverIn(t, s, "old")
	if x.State != "ready" || x.Era != "legacy" || x.Revision != "2025-11-25" || x.Transport != "stdio" || x.Isolation != "auto" || x.Handshake == nil || len(x.Handshake.Trace) == 0 || x.LastError != nil {
		t.Errorf("old: %+v", x)
	}
	var roles []string
	for _, y := range x.Sessions {
		roles = append(roles, y.Role+" "+strings.Join(y.Capabilities, " "))
		if y.PID == 0 || y.Opened.IsZero() || y.Revision != "2025-11-25" || (y.IdleSince == nil) != (y.Running > 0) {
			t.Errorf("session: %+v", y)
		}
	}
	if got := strings.Join(roles, ", "); got != "home , home elicitation" {
		t.Errorf("sessions: %s", got)
	}
	if len(x.Lists) == 0 || x.Lists[0].Method != "tools/list" || x.Lists[0].Items != 6 || x.Lists[0].Stale || x.Lists[0].ReadAt == nil {
		t.Errorf("lists: %+v", x.Lists)
	}
	y := serverIn(t, s, "young")
	if y.Era != "modern" || len(y.Sessions) != 1 || y.Sessions[0].Role != "link" || y.Listen == nil || !y.Listen.Tools {
		t.Errorf("young: %+v", y)
	}
	z := serverIn(t, s, "leaky")
	if z.State != "failed" || z.LastError == nil || !strings.Contains(z.Reason, "token *** is not valid") || z.Attempts == 0 {
		t.Errorf("leaky: %+v", z)
	}
	if len(s.Parked) != 1 || s.Parked[0].Server != "old" || s.Parked[0].Method != "tools/call" || s.Parked[0].Questions != 1 {
		t.Errorf("parked: %+v", s.Parked)
	}
	if len(s.Listens) != 1 || s.Listens[0].Open != 1 || s.Listens[0].Client != "remote 127.0.0.1 t" {
		t.Errorf("listens: %+v", s.Listens)
	}

	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	await(t, "the dump", 20*time.Second, func() bool { return strings.Contains(dump.String(), "---- end") })
	text := dump.String()
	for _, want := range []string{
		"---- dragoman test, pid", "clients: 1 by http, 1 by sse, 1 single request\n", "/s/old/mcp: 1 by sse",
		"server old: ready for", "(legacy 2025-11-25, stdio, isolation auto)", "home session (elicitation), 2025-11-25: 1 in flight, in use",
		"link session (nothing asked), 2026-07-28", "initialize", "tools/list: 6 items, read", "server leaky: failed", "token *** is not valid",
		"parked calls: 1", "old tools/call, 1 open question,", "remote 127.0.0.1 t: 1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the dump lacks %q:\n%s", want, text)
		}
	}
	for name, said := range map[string]string{"status": body, "dump": text, "log": r.log.String(), "readiness": r.do(t.Context(), "GET", "/readyz", nil).body} {
		if strings.Contains(said, canary) {
			t.Errorf("the %s contains a secret", name)
		}
	}

	// After a server has exited, the status shows it as idle and its lists as stale.
	for _, pid := range old.pids(t) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	await(t, "the death", 20*time.Second, func() bool {
		s, _ := r.status()
		x := serverIn(t, s, "old")
		return x.State == "idle" && x.LastError != nil && len(x.Sessions) == 0 && x.Lists[0].Stale && x.Lists[0].Items == 6
	})
	r.call("/mcp", "old__echo", "{}").wantText(t, "{}")
	await(t, "the return", 20*time.Second, func() bool {
		s, _ := r.status()
		x := serverIn(t, s, "old")
		return x.State == "ready" && x.Restarts == 1
	})
}

// TestStatusIsForThisMachine checks that Dragoman refuses the status to other machines, to foreign
// pages and through proxies. The response is problem details as in RFC 9457.
func TestStatusIsForThisMachine(t *testing.T) {
	t.Parallel()
	r := serve(t, snapshot())
	problemOf := func(a answer) admin.Problem {
		t.Helper()
		p := admin.Problem{}
		if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.header.Get("Content-Type") != "application/problem+json" || p.Status != a.status || p.Title == "" || !strings.HasPrefix(p.Type, "urn:dragoman:problem:") {
			t.Errorf("no problem: %d %v %s", a.status, a.header, a.body)
		}
		return p
	}
	get := func(header ...string) answer { return r.do(t.Context(), "GET", "/api/v1/status", nil, header...) }
	if a := get(); a.status != 200 {
		t.Errorf("from this machine: %d %s", a.status, a.body)
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "CF-Connecting-IP", "Via"} {
		if a := get(name, "192.0.2.1"); a.status != 403 || problemOf(a).Type != "urn:dragoman:problem:local-only" {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	for _, site := range []string{"cross-site", "same-site"} {
		if a := get("Sec-Fetch-Site", site, "Sec-Fetch-Dest", "image"); a.status != 403 || problemOf(a).Type != "urn:dragoman:problem:foreign-page" {
			t.Errorf("as an image in a page: %d", a.status)
		}
		if a := get("Sec-Fetch-Site", site, "Sec-Fetch-Dest", "document"); a.status != 200 {
			t.Errorf("as a link in a page: %d", a.status)
		}
	}
	for _, site := range []string{"none", "same-origin"} {
		if a := get("Sec-Fetch-Site", site, "Sec-Fetch-Dest", "empty"); a.status != 200 {
			t.Errorf("%s: %d", site, a.status)
		}
	}
	if a := get("Host", "rebound.example"); a.status != 403 {
		t.Errorf("a foreign host: %d", a.status)
	}
	if a := get("Origin", "http://page.example"); a.status != 403 {
		t.Errorf("a foreign page: %d", a.status)
	}
	if a := r.post("/api/v1/status", "{}"); a.status != 405 || a.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d", a.status)
	} else {
		problemOf(a)
	}
	if a := r.do(t.Context(), "GET", "/api/v1/nothing", nil); a.status != 404 || problemOf(a).Instance != "/api/v1/nothing" {
		t.Errorf("nothing: %d", a.status)
	}

	// A proxy that adds no header can be recognised by the public host name in the Host header.
	public := snapshot()
	public.Hosts = []string{"mcp.example"}
	p := serve(t, public)
	if a := p.do(t.Context(), "GET", "/api/v1/status", nil, "Host", "mcp.example"); a.status != 403 || problemOf(a).Type != "urn:dragoman:problem:local-only" {
		t.Errorf("under a public name: %d %s", a.status, a.body)
	}
	if a := p.do(t.Context(), "GET", "/readyz", nil, "Host", "mcp.example"); a.status != 200 {
		t.Errorf("readiness under a public name: %d", a.status)
	}

	open := openDaemon(ServeOptions{Config: snapshot(), Log: (&journal{}).logger()}, false)
	defer open.close()
	open.runtime.Apply(event.DefaultProject, snapshot())
	w := httptest.NewRecorder()
	req := httptest.NewRequest("GET", "http://localhost/api/v1/status", nil)
	open.handler().ServeHTTP(w, req)
	if a := (answer{w.Code, w.Header(), w.Body.String()}); a.status != 403 || !strings.Contains(problemOf(a).Detail, "dragoman.tls") {
		t.Errorf("on an address that other machines can reach: %d %s", a.status, a.body)
	}
	for address, local := range map[string]bool{
		"127.0.0.1:7300": true, "127.9.9.9:0": true, "[::1]:0": true, "localhost:80": true, "[::ffff:127.0.0.1]:1": true,
		"0.0.0.0:7300": false, ":7300": false, "[::]:0": false, "192.168.0.1:80": false, "host.internal:80": false, "localhost": false,
	} {
		if isLocal(address) != local {
			t.Errorf("%s: %t", address, !local)
		}
	}
}

// TestN14_OneListenTooMany checks that Dragoman refuses a listen over the limit with 429. A call
// still works, and after another listen has ended, a new listen works too.
func TestN14_OneListenTooMany(t *testing.T) {
	t.Parallel()
	r := serve(t, snapshot(child(t, "u", "legacy")))
	open := func(path string, n int) *stream {
		return r.open("POST", path, modernBody(fmt.Sprint(n), "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), modernHeader("subscriptions/listen", "")...)
	}
	var all []*stream
	for n := range 64 {
		l := open([]string{"/mcp", "/s/u/mcp"}[n%2], n)
		defer l.stop()
		if m := l.event(); m == nil || !strings.Contains(string(m.Raw), "acknowledged") {
			t.Fatalf("listen %d: %v", n, m)
		}
		all = append(all, l)
	}
	a := r.modern("/mcp", "65", "subscriptions/listen", "", `"notifications":{"toolsListChanged":true}`)
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" {
		t.Errorf("one more: %d %v %s", a.status, a.header, a.body)
	}
	a.wantFault(t, "rate_limited", "not_sent")
	r.call("/mcp", "u__echo", "{}").wantText(t, "{}")
	all[0].stop()
	await(t, "room for one more", 20*time.Second, func() bool {
		s, _ := r.status()
		return len(s.Listens) == 1 && s.Listens[0].Open == 63
	})
	l := open("/mcp", 100)
	defer l.stop()
	if m := l.event(); m == nil || !strings.Contains(string(m.Raw), "acknowledged") {
		t.Errorf("after one has ended: %v", m)
	}
}
