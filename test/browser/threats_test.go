//go:build unix

package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/team/signin"
)

// siege is a serve that other machines could reach, with Grace, an admin, and Ben, a viewer, who are both signed in.
type siege struct {
	*rig
	h          *serveRun
	grace, ben *tab
	key        string        // of a client
	leaks      *atomic.Int64 // how many requests came to where a hostile server's pictures and schemas are
}

// threats has those tests of the design by their names that need a browser, each with two people signed in. TA49 is in
// people, projects, questions and audit; TA52 is in reviews; access has TA12 to TA16 on this machine alone.
func (r *rig) threats(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &siege{rig: r, leaks: &atomic.Int64{}}
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.leaks.Add(1) }))
	defer trap.Close()
	var link string
	s.h, link = r.open(t, fmt.Sprintf("mcpServers:\n  one: {url: %q}\n  evil: {command: %q, env: {BROWSER_TEST_SERVER: hostile, BROWSER_TEST_LEAK: %q}}\n", issuer(t, "ok", "page"), self, trap.URL), "  audit: {calls: names}\n")
	s.grace = r.chrome.newTab(t, "")
	s.grace.accept(link, "Grace")
	s.ben = r.chrome.newTab(t, "")
	s.ben.accept(strings.TrimSpace(s.h.run("people", "invite", "Ben", "-c", s.h.config)), "Ben")
	for _, x := range []struct {
		name string
		test func(*testing.T)
	}{
		{"TA12 TM01", s.foreignName}, {"TA13 TM02 TA16", s.foreignPage}, {"TA14", s.cookies}, {"TA15", s.link}, {"TA16 TM30 TM31", s.names},
		{"TA33 TA34", s.signIns}, {"TM16", s.commands}, {"TM29", s.lines},
	} {
		t.Run(x.name, func(t *testing.T) {
			s.grace.t, s.ben.t = t, t
			x.test(t)
			for name, p := range map[string]*tab{"Grace": s.grace, "Ben": s.ben} { // both sessions go on, and neither has become the other
				p.open(p.origin + "/console/me")
				if got := eval[string](p, `document.querySelector("h1").textContent`); got != name {
					t.Errorf("%s is now %q", name, got)
				}
				p.clean(name)
			}
		})
	}
	s.grace.t, s.ben.t = t, t
}

// foreignName opens the address by a name that isn't ours, and that the certificate could be for.
func (s *siege) foreignName(t *testing.T) {
	name := strings.Replace(s.h.origin, publicName, "rebound.example", 1)
	for _, p := range []*tab{s.grace, s.ben} {
		p.origin = ""
		for _, path := range []string{"/console/", "/console/invitation?token=x", "/console/events?page=/console/", "/connect/x", "/oauth/callback?state=x&code=y", "/mcp", "/api/v1/status", "/metrics"} {
			p.loaded()
			p.open(name + path)
			if text := eval[string](p, `document.body.innerText`); !strings.Contains(text, "rebound.example") {
				t.Errorf("%s says %.200s", path, text)
			}
			for _, l := range p.loaded() {
				if l.Kind == "Document" && l.Status != http.StatusForbidden {
					t.Errorf("%s: %d", l.URL, l.Status)
				}
			}
		}
		p.origin = s.h.origin
		p.clean("a foreign name", "status of 403")
	}
}

// foreignPage lets a page of another site frame the console, post forms to all that a cookie opens, and send what needs no
// question before.
func (s *siege) foreignPage(t *testing.T) {
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.Contains(req.Referer(), publicName) || req.Header.Get("Cookie") != "" {
			t.Errorf("the other site gets %v", req.Header)
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!doctype html><title>foreign</title><iframe src="%s/console/"></iframe>`, s.h.origin)
	}))
	defer foreign.Close()
	for _, p := range []*tab{s.grace, s.ben} {
		p.origin = ""
		for _, path := range []string{"/console/signout", "/console/servers/one/stop", "/console/people", "/console/invitation", "/connect/x"} {
			p.open(foreign.URL)
			p.wait("the frame to be refused", `document.querySelector("iframe").contentDocument === null`)
			p.loaded()
			if err := p.try(fmt.Sprintf(`document.body.insertAdjacentHTML("beforeend", "<form method=post action='%s%s'><input name=do value=end></form>"); document.forms[0].submit()`, s.h.origin, path), nil); err != nil {
				t.Error(err)
			}
			p.wait("an answer", fmt.Sprintf(`location.origin === %q && document.readyState === "complete"`, s.h.origin))
			for _, l := range p.loaded() {
				if l.Kind == "Document" && strings.HasPrefix(l.URL, s.h.origin+path) && l.Status != http.StatusForbidden {
					t.Errorf("a form for %s: %d", path, l.Status)
				}
			}
		}
		p.open(foreign.URL)
		p.loaded()
		if err := p.try(fmt.Sprintf(`fetch("%s/mcp", { method: "POST", mode: "no-cors", credentials: "include", headers: { "Content-Type": "text/plain" }, body: '{"jsonrpc":"2.0","id":1,"method":"ping"}' }).then(() => true)`, s.h.origin), nil); err != nil {
			t.Error(err)
		}
		p.wait("the answer", `true`)
		for _, l := range p.loaded() {
			if strings.HasSuffix(l.URL, "/mcp") && l.Status != http.StatusForbidden {
				t.Errorf("a simple request to /mcp: %d", l.Status)
			}
		}
		var text string
		if err := p.try(fmt.Sprintf(`fetch("%s/console/me", { credentials: "include" }).then((a) => a.text())`, s.h.origin), &text); err == nil {
			t.Errorf("the other site reads %.200s", text)
		}
		p.origin = s.h.origin
		p.clean("another site", "status of 403", "frame-ancestors", "ERR_BLOCKED_BY_RESPONSE", "ERR_FAILED", "blocked by CORS policy", "status of 401")
	}
}

// cookies looks at what the browser keeps, and where that gets anybody. A second serve on the same host has cookies of its
// own.
func (s *siege) cookies(t *testing.T) {
	key := strings.TrimSpace(s.h.run("-q", "keys", "add", "laptop", "-c", s.h.config))
	s.key = key
	other, link := s.open(t, "", "")
	for _, p := range []*tab{s.grace, s.ben} {
		var kept struct {
			Cookies []struct {
				Name, Value, Path, SameSite string
				HTTPOnly, Secure            bool
			}
		}
		p.do("Network.getCookies", object{"urls": []string{p.origin + "/"}}, &kept)
		found := false
		for _, c := range kept.Cookies {
			if strings.HasPrefix(c.Name, "__Host-dragoman_console_") {
				found = c.HTTPOnly && c.Secure && c.SameSite == "Strict" && c.Path == "/"
			}
		}
		if !found || eval[string](p, `document.cookie.includes("console_") ? document.cookie : ""`) != "" {
			t.Errorf("the browser keeps %+v", kept.Cookies)
		}
		for what, js := range map[string]string{
			"the cookie at an MCP endpoint": `fetch("/mcp", { method: "POST", headers: { "Content-Type": "application/json", Accept: "application/json, text/event-stream" }, body: '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}' })`,
			"a key at a page":               fmt.Sprintf(`fetch("/console/servers", { credentials: "omit", headers: { Authorization: "Bearer %s" } })`, key),
		} {
			if got := eval[int](p, js+`.then((a) => a.status)`); got != http.StatusUnauthorized {
				t.Errorf("%s: %d", what, got)
			}
		}
		p.clean("credentials out of place", "status of 401")
		p.origin = other.origin
		p.open(other.origin + "/console/servers")
		if eval[bool](p, `!!document.querySelector("nav")`) {
			t.Error("the second serve lets somebody in with a cookie of the first")
		}
		p.clean("the second serve", "status of 401")
		if p == s.grace {
			p.accept(link, "Grace")
			p.open(p.origin + "/console/me")
			p.click(button("Sign out"))
			p.wait("the end of the session", `document.querySelector("h1").textContent === "The session has ended"`)
		}
		p.origin = s.h.origin
	}
}

// link lets others open an invitation before the one it's for. That spends nothing; whoever accepts it does.
func (s *siege) link(t *testing.T) {
	link := strings.TrimSpace(s.h.run("people", "invite", "Cleo", "-c", s.h.config))
	for range 2 { // such as a program that looks at links in mails
		s.ben.open(link)
		s.ben.wait("the question", `document.querySelector("h1").textContent === "You are invited"`)
	}
	cleo := s.chrome.newTab(t, "")
	cleo.accept(link, "Cleo")
	// The page before is ours, and the link is spent; no other site gets it (foreignPage).
	for _, js := range []string{`location.href`, `document.cookie`, `document.documentElement.outerHTML`} {
		if text := eval[string](cleo, js); strings.Contains(text, "token=") {
			t.Errorf("%s has the link: %.300s", js, text)
		}
	}
	for _, p := range []*tab{s.grace, s.ben, cleo} {
		p.open(link)
		if got := eval[string](p, `document.querySelector("h1").textContent`); got != "This invitation does not work any more" {
			t.Errorf("the link that was used says %q", got)
		}
		p.clean("a used link", "status of 403", "status of 410")
	}
}

// names shows what a server and people may be called. It becomes nothing but text, and neither the browsers nor serve
// ask where its pictures and schemas are said to be.
func (s *siege) names(t *testing.T) {
	const name = `<img src=x onerror=alert(1)>"'`
	s.h.run("people", "invite", name, "-c", s.h.config)
	s.grace.open(s.grace.origin + "/console/servers/evil")
	s.grace.wait("the server", `fetch("/console/servers/evil/tools/evil").then((a) => a.ok)`)
	for _, p := range []*tab{s.grace, s.ben} {
		for _, path := range []string{"/console/", "/console/servers", "/console/servers/evil", "/console/servers/evil/tools/evil", "/console/servers/evil/prompts", "/console/servers/evil/resources", "/console/tools", "/console/prompts", "/console/playground?server=evil&tool=evil", "/console/connections", "/console/clients", "/console/events", "/console/people"} {
			p.open(p.origin + path)
			for _, f := range eval[[]string](p, active) {
				t.Errorf("%s: a text became %s", path, f)
			}
			if p == s.grace && path == "/console/people" && !eval[bool](p, fmt.Sprintf(`document.querySelector("main").textContent.includes(%q)`, name)) {
				t.Error("the name isn't shown as it is")
			}
			p.clean(path, "status of 404", "status of 403")
		}
		if policy := eval[string](p, `fetch("/console/servers/evil").then((a) => a.headers.get("Content-Security-Policy"))`); strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("the policy is %s", policy)
		}
	}
	if n := s.leaks.Load(); n > 0 {
		t.Errorf("%d requests for what a server has named", n)
	}
}

// signIns lets Grace begin a sign-in at a server. Her link does nothing for Ben, and neither does what the issuer sends her
// back with. She can go on, once.
func (s *siege) signIns(t *testing.T) {
	p := s.grace
	p.origin = "" // it goes to the issuer
	defer func() { p.origin = s.h.origin }()
	p.open(s.h.origin + "/console/connections")
	p.wait("the server", `fetch(location.href).then((a) => a.text()).then((text) => text.includes("Sign in: one"))`)
	p.open(s.h.origin + "/console/connections")
	p.click(`document.querySelector('main button[aria-label="Sign in: one"]')`)
	p.wait("the issuer", `location.hostname === "127.0.0.1" && document.querySelector("button")`)
	at, err := url.Parse(eval[string](p, `location.href`))
	if err != nil {
		t.Fatal(err)
	}
	state := at.Query().Get("state")
	if state == "" {
		t.Fatalf("the issuer has %s", at)
	}
	link := s.h.origin + "/connect/" + signin.FlowOf(state)
	says := func(p *tab, address, want string) {
		t.Helper()
		p.open(address) // which may lead on at once
		p.wait(want, fmt.Sprintf(`document.body.innerText.includes(%q)`, want))
	}
	says(s.ben, link, "This link is not for you")
	if got := eval[int](s.ben, fmt.Sprintf(`fetch(%q, { method: "POST", redirect: "manual", body: new URLSearchParams("answer=allow") }).then((a) => a.status)`, link)); got != http.StatusForbidden {
		t.Errorf("Ben presses the button: %d", got)
	}
	says(s.ben, s.h.origin+"/oauth/callback?code=guessed&state="+url.QueryEscape(state), "no sign-in of this browser")

	p.loaded()
	p.click(`document.querySelector("button[value=allow]")`)
	// The page at which she arrives first loads itself again, which would end a visit elsewhere that has just begun.
	p.wait("the way back", `location.origin === "`+s.h.origin+`" && location.search.includes("done=one") && document.body.innerText.includes("You are signed in")`)
	back := ""
	for _, l := range p.loaded() {
		if strings.HasPrefix(l.URL, s.h.origin+"/oauth/callback") {
			back = l.URL
		}
	}
	if back == "" {
		t.Fatal("the issuer has not sent her back")
	}
	for _, again := range []*tab{s.grace, s.ben} {
		says(again, back, "no sign-in of this browser")
	}
	s.ben.open(s.h.origin + "/console/connections")
	if text := eval[string](s.ben, `document.querySelector("main").textContent`); !strings.Contains(text, "not signed in") {
		t.Errorf("Ben's connections: %s", text)
	}
	for _, p := range []*tab{s.grace, s.ben} {
		p.clean("a sign-in", "status of 403", "status of 400", "status of 410", "status of 404")
	}
	if out := s.h.run("audit", "show", "-c", s.h.config, "--json"); !strings.Contains(out, "of another browser") {
		t.Errorf("the audit has nothing of Ben's attempt: %s", out)
	}
}

// commands has Grace add a server with arguments that a shell would run. The page shows them all, and the program gets
// them as they are. Ben can't.
func (s *siege) commands(t *testing.T) {
	folder := t.TempDir()
	got, pwned := filepath.Join(folder, "got"), filepath.Join(folder, "pwned")
	args := []string{"-c", `printf '%s\n' "$@" >"$0"`, got, ";id", "$(touch " + pwned + ")", "`touch " + pwned + "`", "| touch " + pwned, strings.Repeat("long ", 400) + "end"}
	snippet, err := json.Marshal(object{"mcpServers": object{"shell": object{"command": "sh", "args": args}}})
	if err != nil {
		t.Fatal(err)
	}
	for form, want := range map[string]int{"do=paste&text=" + url.QueryEscape(string(snippet)): 403, "do=run": 403, "do=keep": 403} {
		if got := eval[int](s.ben, fmt.Sprintf(`fetch("/console/servers/add", { method: "POST", body: new URLSearchParams(%q) }).then((a) => a.status)`, form)); got != want {
			t.Errorf("Ben's %.20s: %d", form, got)
		}
	}
	s.ben.clean("Ben adds a server", "status of 403")
	p := s.grace
	p.open(p.origin + "/console/servers/add")
	p.wait("the field", `document.activeElement?.id === "snip"`)
	p.paste(string(snippet))
	p.wait("what will be started", `location.search.includes("draft=")`)
	if text := eval[string](p, `document.querySelector("main").textContent`); slices.ContainsFunc(args[3:], func(arg string) bool { return !strings.Contains(text, arg) }) {
		t.Errorf("not all of the command is shown: %s", text)
	}
	p.click(button("Start and test"))
	p.wait("the result", `/failed|not connected/.test(document.querySelector("main").textContent) && !document.querySelector(".st.run")`)
	b, err := os.ReadFile(got)
	if err != nil || string(b) != strings.Join(args[3:], "\n")+"\n" {
		t.Errorf("the program got %v %q", err, b)
	}
	if _, err := os.Stat(pwned); err == nil {
		t.Error("a shell has run an argument")
	}
}

// lines has a client call a tool whose name would be another line of the audit. It's one line, on the page and in the
// file.
func (s *siege) lines(t *testing.T) {
	forged := "x\n" + `{"seq":1,"kind":"act","action":"forged"}` + "\r\x1b[2K"
	quoted, err := json.Marshal(forged)
	if err != nil {
		t.Fatal(err)
	}
	call := fmt.Sprintf(`(async () => {
		const headers = { Authorization: "Bearer %s", "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
		const post = (body, more) => fetch("/mcp", { method: "POST", credentials: "omit", headers: { ...headers, ...more }, body: JSON.stringify({ jsonrpc: "2.0", ...body }) });
		const first = await post({ id: 1, method: "initialize", params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "x", version: "1" } } });
		await first.text();
		return (await post({ id: 2, method: "tools/call", params: { name: %s, arguments: {} } }, { "Mcp-Session-Id": first.headers.get("Mcp-Session-Id") })).status;
	})()`, s.key, quoted)
	if got := eval[int](s.grace, call); got != http.StatusOK {
		t.Fatalf("the call: %d", got)
	}
	s.grace.open(s.grace.origin + "/console/audit?what=forged")
	s.grace.wait("the call", `fetch(location.href).then((a) => a.text()).then((text) => text.includes("forged"))`)
	s.grace.open(s.grace.origin + "/console/audit?what=forged")
	if n := eval[int](s.grace, `document.querySelectorAll("main tbody tr").length`); n != 1 {
		t.Errorf("the page has %d entries", n)
	}
	for _, f := range eval[[]string](s.grace, active) {
		t.Errorf("a text became %s", f)
	}
	file := eval[string](s.grace, `fetch("/console/audit", { method: "POST", body: new URLSearchParams(new FormData(document.querySelector("main form[method=post]"))) }).then((a) => a.text())`)
	var line struct{ Kind, Object string }
	if err := json.Unmarshal([]byte(file), &line); err != nil || line.Kind != "call" || strings.Count(file, "\n") != 1 {
		t.Errorf("%v: the file is %q", err, file)
	}
	if got := eval[int](s.ben, `fetch("/console/audit").then((a) => a.status)`); got != http.StatusForbidden {
		t.Errorf("Ben reads the audit: %d", got)
	}
	s.ben.clean("Ben", "status of 403")
}
