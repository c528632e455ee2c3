//go:build unix

package daemon

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/console"
)

// TestKeyOfServe checks that serve, while it runs, keeps its key in a file for commands of the same
// user, and that the API accepts the key.
func TestKeyOfServe(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "dragoman")
	r := serve(t, snapshot(), func(o *ServeOptions) { o.KeyFolders = []string{folder} })
	keys, err := admin.ReadKeys([]string{folder}, strings.TrimPrefix(r.base, "http://"))
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	if a := r.post("/api/v1/console/link", "", "Authorization", "Bearer "+keys[0]); a.status != 200 || !strings.Contains(a.body, r.base+"/console/?link=") {
		t.Errorf("%d %s", a.status, a.body)
	}
	flag := " --listen " + strings.TrimPrefix(r.base, "http://")
	if a := r.post("/api/v1/console/link", ""); a.status != 401 || !strings.Contains(a.body, "`dragoman console"+flag+"`") {
		t.Errorf("without the key: %d %s", a.status, a.body)
	}
	for _, path := range []string{"/", "/console/"} {
		if a := r.do(t.Context(), "GET", path, nil, "Accept", "text/html"); !strings.Contains(a.body, "dragoman console --open"+flag) {
			t.Errorf("%s does not name the address: %s", path, a.body)
		}
	}
	if strings.Contains(r.log.String(), keys[0]) {
		t.Error("the log has the key")
	}
	if all := admin.Presences([]string{folder}); len(all) != 1 || "http://"+all[0].Address != r.base || !all[0].Alive() {
		t.Errorf("serve says that it is at %+v", all)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(folder); len(left) != 1 || left[0].Name() != "task-key" {
		t.Errorf("%v is left", left)
	}
}

// TestServeWithoutKeyFolder checks that serve works if it can write its key nowhere, as on a read-only
// file system, and that it says so once.
func TestServeWithoutKeyFolder(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := serve(t, snapshot(), func(o *ServeOptions) { o.KeyFolders = []string{filepath.Join(blocked, "dragoman")} })
	if a := r.do(t.Context(), "GET", "/healthz", nil); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if n := strings.Count(r.log.String(), "code=key_not_kept"); n != 1 {
		t.Errorf("%d records:\n%s", n, r.log.String())
	}
}

// TestTM02_CookieOpensNoEndpoint checks that the session of a browser and the key open only the console.
// An MCP endpoint treats a request from the console's page in the same way as a request from any
// other page, and does not exist at the console's name.
func TestTM02_CookieOpensNoEndpoint(t *testing.T) {
	t.Parallel()
	var link string
	r := serve(t, snapshot(), func(o *ServeOptions) { o.Console = func(c Console) { link = c.Link() } })
	browser := r.enter(link)
	name, cookie := browser[1], browser[3]
	if a := r.do(t.Context(), "GET", "/console/", nil, browser...); a.status != 200 || !strings.Contains(a.body, "<h1>") {
		t.Errorf("the console: %d %.200s", a.status, a.body)
	}
	for _, header := range [][]string{nil, {"Cookie", cookie}} {
		for _, origin := range []string{"https://evil.example", "http://127.0.0.1:1", "http://" + name} {
			if a := r.post("/mcp", initializeBody("2025-11-25", "{}"), append(header, "Origin", origin)...); a.status != 403 {
				t.Errorf("/mcp from %s with %v: %d", origin, header, a.status)
			}
		}
	}
	for _, path := range []string{"/mcp", "/s/a/mcp", "/sse", "/metrics", "/readyz", "/"} {
		if a := r.do(t.Context(), "GET", path, nil, browser...); a.status != 403 {
			t.Errorf("%s at the console's name: %d", path, a.status)
		}
	}
	if a := r.post("/mcp", initializeBody("2025-11-25", "{}"), append(browser, "Origin", "http://"+name)...); a.status != 403 {
		t.Errorf("/mcp at the console's name: %d", a.status)
	}
	for _, secret := range []string{cookie, link, name} {
		if strings.Contains(r.log.String(), secret) {
			t.Errorf("the log has the secret %s", secret)
		}
	}
}

// TestAnotherPort checks that a program on another port cannot use what the browser of a user sends
// it: neither the cookies, which browsers send to all ports of a host, nor what the program can
// learn by asking serve itself.
func TestAnotherPort(t *testing.T) {
	var console Console
	r := serve(t, snapshot(), func(o *ServeOptions) { o.Console = func(c Console) { console = c } })
	innocent := r.enter(console.Link())
	victim := &browser{t: t, cookies: map[string]string{}}
	link := console.Link()
	if a := victim.open(r, link); a.status != 200 || !strings.Contains(a.body, "<h1>Overview") && !strings.Contains(a.body, "<nav") {
		t.Fatalf("the victim is not in the console: %d %.300s", a.status, a.body)
	}
	asked := &browser{t: t, cookies: map[string]string{}, agent: "Version/26.0 Safari/605.1.15"}
	password := asked.password(r, console.Link())

	// The user opens pages of the other program, under each name that the program can think of.
	// Only the console's own name would have the cookie.
	var stolen []string
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "evil.localhost", "dragoman.localhost", "dragoman-" + strings.Repeat("a", 26) + ".localhost"} {
		for _, b := range []*browser{victim, asked} {
			if c := b.cookies[host]; c != "" {
				stolen = append(stolen, c)
			}
		}
	}
	name := innocent[1]
	ask := func(header ...string) (bodies string) {
		for _, path := range []string{"/", "/console", "/console/", "/console/?link=x", link[len(r.base):], "/console/calls", "/console/signin", "/api/v1/openapi.json", "/api/v1/status", "/api/v1/calls/1"} {
			for _, host := range []string{"127.0.0.1", "localhost", "evil.localhost", "dragoman-" + strings.Repeat("a", 26) + ".localhost"} {
				a := r.do(t.Context(), "GET", path, nil, append(header, "Host", host+":"+name[strings.LastIndexByte(name, ':')+1:], "User-Agent", "Chrome/140.0.0.0")...)
				bodies += a.body + strings.Join(a.header["Location"], "") + strings.Join(a.header["Set-Cookie"], "")
			}
		}
		return bodies
	}
	if label, _, _ := strings.Cut(name, "."); strings.Contains(ask(), label) {
		t.Error("a program without a link can learn the console's name")
	}

	// The program replays everything, with each Host header, against each route.
	stolen = append(stolen, "dragoman_console_7300=AAAA")
	for _, cookie := range stolen {
		for _, route := range guardedRoutes(r) {
			for _, host := range []string{strings.TrimPrefix(r.base, "http://"), "localhost" + name[strings.LastIndexByte(name, ':'):], name} {
				method, path, _ := strings.Cut(route, " ")
				a := r.do(t.Context(), method, path, nil, "Cookie", cookie, "Host", host, "Sec-Fetch-Site", "same-origin")
				if a.status != 401 && a.status != 403 {
					t.Errorf("%s at %s with %s: %d %.200s", route, host, cookie, a.status, a.body)
				}
			}
		}
	}
	if len(stolen) > 1 {
		t.Errorf("the browser sends cookies of serve to another port: %v", stolen)
	}

	// A page of the other program makes the browser send its password to serve.
	for _, site := range []string{"same-site", "cross-site"} {
		for _, route := range guardedRoutes(r) {
			method, path, _ := strings.Cut(route, " ")
			a := r.do(t.Context(), method, path, nil, "Authorization", password, "Sec-Fetch-Site", site, "Sec-Fetch-Dest", "iframe", "Origin", "http://127.0.0.1:9999")
			if a.status != 403 {
				t.Errorf("%s from a page of the other program: %d", route, a.status)
			}
		}
	}

	for who, header := range map[string][]string{"the innocent user": innocent, "the user with a password": {"Authorization", password}} {
		if a := r.do(t.Context(), "GET", "/console/settings", nil, header...); a.status != 200 || strings.Contains(a.body, ".localhost") {
			t.Errorf("%s: %d %.200s", who, a.status, a.body)
		}
	}
}

// guardedRoutes returns the routes of the console and of the API that show messages or change
// something, each as METHOD PATH.
func guardedRoutes(r *rig) (routes []string) {
	for _, path := range console.New(console.Options{Off: "the test needs only its paths"}).Paths() {
		routes = append(routes, "GET "+pathWithNames(path))
	}
	for _, path := range []string{"/theme", "/signout", "/servers/add", "/servers/a/stop", "/servers/a/tools/t", "/runs/1", "/servers/a/findings", "/servers/a/resources", "/servers/a/prompts"} {
		routes = append(routes, "POST /console"+path)
	}
	routes = append(routes, "GET /console/palette.json", "GET /console/events?page=/console/", "GET /console/calls/1/wires.json", "GET /console/calls/1/wires.txtar", "GET /console/runs/1/result.json")
	var document struct {
		Paths map[string]map[string]struct{ Security []map[string]any }
	}
	if err := json.Unmarshal([]byte(r.do(r.t.Context(), "GET", "/api/v1/openapi.json", nil).body), &document); err != nil {
		r.t.Fatal(err)
	}
	for path, methods := range document.Paths {
		for method, route := range methods {
			if len(route.Security) > 0 && len(route.Security[0]) > 0 { // an empty one says that a request may have none
				routes = append(routes, strings.ToUpper(method)+" "+pathWithNames("/api/v1"+strings.TrimPrefix(path, "/api/v1")))
			}
		}
	}
	if len(routes) < 40 {
		r.t.Fatalf("only %d routes: %v", len(routes), routes)
	}
	return routes
}

var pathName = regexp.MustCompile(`\{[^}]*\}`)

func pathWithNames(path string) string { return pathName.ReplaceAllString(path, "a") }

// browser keeps cookies by host and without a port, as browsers do (RFC 6265 §8.5), and opens links.
type browser struct {
	t       *testing.T
	cookies map[string]string
	agent   string
}

// open opens a URL and follows its redirects. All names below localhost lead to r.
func (b *browser) open(r *rig, address string) answer {
	r.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	at, err := url.Parse(address)
	if err != nil {
		b.t.Fatal(err)
	}
	for range 5 {
		a := r.do(b.t.Context(), "GET", at.RequestURI(), nil, "Host", at.Host, "Cookie", b.cookies[at.Hostname()], "User-Agent", cmp.Or(b.agent, "Chrome/140.0.0.0"))
		if set, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";"); set != "" {
			b.cookies[at.Hostname()] = set
		}
		if a.status != http.StatusSeeOther {
			return a
		}
		if at, err = at.Parse(a.header.Get("Location")); err != nil {
			b.t.Fatal(err)
		}
	}
	b.t.Fatal("too many redirects")
	return answer{}
}

// password opens a link, makes a password, and returns the Authorization header with which the
// browser then opens the console.
func (b *browser) password(r *rig, link string) string {
	a := b.open(r, link)
	_, token, _ := strings.Cut(link, "?link=")
	if a.status != 200 || !strings.Contains(a.body, `value="`+token+`"`) {
		b.t.Fatalf("the link asks for no password: %d %s", a.status, a.body)
	}
	a = r.do(b.t.Context(), "POST", "/console/password", strings.NewReader("link="+token), "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin", "Origin", r.base)
	found := regexp.MustCompile(`Password</dt><dd class="wrap"><code>([^<]+)`).FindStringSubmatch(a.body)
	if found == nil || !strings.Contains(a.body, `href="`+r.base+`/console/signin"`) {
		b.t.Fatalf("no password: %d %s", a.status, a.body)
	}
	if a := r.do(b.t.Context(), "GET", "/console/signin", nil); a.status != 401 || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Basic ") {
		b.t.Errorf("the browser is not asked for a password: %d %v", a.status, a.header)
	}
	authorization := "Basic " + base64.StdEncoding.EncodeToString([]byte("dragoman:"+found[1]))
	if a := r.do(b.t.Context(), "GET", "/console/signin", nil, "Authorization", authorization); a.status != 303 || a.header.Get("Location") != "/console/" {
		b.t.Errorf("signing in: %d %v", a.status, a.header)
	}
	return authorization
}

// TestNoConsole checks that the console is off if other machines can reach the address, or if the
// option --no-console is given.
func TestNoConsole(t *testing.T) {
	t.Parallel()
	for why, o := range map[string]ServeOptions{"other machines": {}, "--no-console": {NoConsole: true}} {
		o.Config, o.Version = snapshot(), "test"
		d := openDaemon(o, o.NoConsole)
		a := recordedAt(d.handler(), "/console/")
		if a.status != 403 || !strings.Contains(a.body, why) {
			t.Errorf("%d %s", a.status, a.body)
		}
		d.close()
	}
}

func recordedAt(h http.Handler, path string) answer {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", path, nil)
	r.Host = "localhost:7300"
	h.ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.String()}
}

// TestBothLoopbackAddresses checks that serve listens on its port at both loopback addresses, because
// browsers may use either for the console's name. If another program has one of them, no link leads
// to the name.
func TestBothLoopbackAddresses(t *testing.T) {
	taken, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no [::1]")
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	var console Console
	r := serve(t, snapshot(), func(o *ServeOptions) { o.Listen, o.Console = "127.0.0.1:"+port, func(c Console) { console = c } })
	if a := (&browser{t: t}).open(r, console.Link()); a.status != 200 || !strings.Contains(a.body, "/console/password") {
		t.Errorf("a link leads to the name: %d %s", a.status, a.body)
	}

	r = serve(t, snapshot(), func(o *ServeOptions) { o.Console = func(c Console) { console = c } })
	_, port, _ = net.SplitHostPort(strings.TrimPrefix(r.base, "http://"))
	if l, err := net.Listen("tcp", "[::1]:"+port); err == nil {
		l.Close()
		t.Error("another program can listen at [::1]")
	}
	resp, err := http.Get("http://[::1]:" + port + "/healthz")
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
}

// TestFormerName checks what a bookmark of an earlier start gets.
func TestFormerName(t *testing.T) {
	r := serve(t, snapshot())
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(r.base, "http://"))
	former := "dragoman-" + strings.Repeat("b", 26) + ".localhost:" + port
	for target, want := range map[string]bool{"/console/calls": true, "/console/": true, "/console/events?page=/console/": true, "/mcp": false, "/api/v1/status": false, "/": false} {
		a := r.do(t.Context(), "GET", target, nil, "Host", former)
		if a.status != 403 || strings.Contains(a.body, "dragoman console --open") != want || len(a.header["Set-Cookie"]) > 0 {
			t.Errorf("%s: %d %s", target, a.status, a.body)
		}
	}
}
