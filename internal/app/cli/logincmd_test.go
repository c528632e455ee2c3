//go:build unix

package cli

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// visitor is somebody who runs commands and has a browser, which may be on another machine.
type visitor struct {
	*user
	vars  map[string]string
	input *io.PipeWriter  // what the person types, if they have a terminal
	said  *logtest.Buffer // stderr of the last command
}

func newVisitor(t *testing.T) *visitor {
	p := &visitor{user: newUser(t), vars: map[string]string{}}
	t.Setenv("XDG_DATA_HOME", filepath.Join(p.home, "data"))
	return p
}

func (p *visitor) look(name string) (string, bool) {
	if v, ok := p.vars[name]; ok {
		return v, true
	}
	return p.env(name)
}

// does runs a command line. while, if it isn't nil, runs beside it.
func (p *visitor) does(while func(), args ...string) (code int, stdout, stderr string) {
	p.Helper()
	var out syncBuffer
	p.said = &logtest.Buffer{}
	a := &app{world: world{backend: Daemon(), stdin: strings.NewReader(""), stdout: &out, env: p.look, program: "dragoman", status: newStatus(p.said, false, noEnv)}}
	if p.input != nil {
		in, typed := io.Pipe()
		p.input = typed
		a.interactive, a.openInput = true, func() (io.ReadCloser, error) { return in, nil }
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if while != nil {
			while()
		}
	}()
	code = a.main(args)
	<-done
	return code, out.take(), p.said.String()
}

// link waits for a link in what the command says.
func (p *visitor) find(pattern string) string {
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if m := re.FindStringSubmatch(p.said.String()); m != nil {
			return m[1]
		}
	}
	p.Errorf("no %s in %s", pattern, p.said.String())
	return ""
}

const anyLink = `(?m)^  (http://\S+/authorize\S+)$`

// visit opens a link and returns the address at which the browser ends. Unless all is set, it doesn't follow the last
// redirect, as if it were on another machine.
func (p *visitor) visit(link string, all bool) (end string) {
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error {
		if all {
			return nil
		}
		return http.ErrUseLastResponse
	}}
	resp, err := c.Get(link)
	if err != nil {
		p.Error(err)
		return ""
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if all {
		return resp.Request.URL.String()
	}
	return resp.Header.Get("Location")
}

// secured starts a server that wants a sign-in.
func secured(t *testing.T, profile string, set ...string) (*fake.OAuth, string) {
	t.Helper()
	o := fake.Options{Set: map[string]string{"revision": "2025-06-18", "consent": "none"}}
	for _, kv := range set {
		k, v, _ := strings.Cut(kv, "=")
		o.Set[k] = v
	}
	a, err := fake.NewOAuth(profile, o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(a.Handler())
	t.Cleanup(func() {
		_ = a.Close()
		web.Close()
	})
	return a, web.URL + a.Path()
}

// TestLogin signs in by a browser, uses it, and signs out.
func TestLogin(t *testing.T) {
	p := newVisitor(t)
	a, address := secured(t, "ok")
	p.vars["BROWSER"] = p.write("browser", "#!/bin/sh\necho \"$1\" >> '"+p.home+"/links'\n")
	if err := os.Chmod(p.vars["BROWSER"], 0o700); err != nil {
		t.Fatal(err)
	}
	links := func() []string {
		b, _ := os.ReadFile(filepath.Join(p.home, "links"))
		return strings.Fields(string(b))
	}
	p.write("config.yaml", "mcpServers: {gh: {url: \""+address+"\"}}\n")
	with := func(args ...string) []string { return append(args, "-c", filepath.Join(p.home, "config.yaml")) }

	if code, _, said := p.does(nil, with("signins")...); code != 0 || !strings.Contains(said, "nobody is signed in") {
		t.Errorf("%d %s", code, said)
	}
	code, out, said := p.does(func() {
		for end := time.Now().Add(20 * time.Second); len(links()) == 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		}
		for _, l := range links() {
			p.visit(l, true)
		}
	}, with("login", "gh")...)
	if code != 0 || out != "" || !strings.Contains(said, "you are signed in to gh at 127.0.0.1") || len(links()) != 1 {
		t.Fatalf("%d %s %s %q", code, out, said, links())
	}
	if code, _, said = p.does(nil, with("login", address)...); code != 0 || !strings.Contains(said, "you are already signed in to") {
		t.Errorf("%d %s", code, said)
	}
	for _, args := range [][]string{with("list", "gh"), with("list", address), with("list", "gh", "--json"), with("list")} {
		if code, out, said := p.does(nil, args...); code != 0 || out == "" || strings.Contains(said, "Sign in") {
			t.Errorf("%q: %d %s %s", args, code, out, said)
		}
	}
	var all []signedIn
	code, out, _ = p.does(nil, with("signins", "--json")...)
	if err := json.Unmarshal([]byte(out), &all); code != 0 || err != nil || len(all) != 1 || all[0].Server != "gh" || all[0].URL != address || !all[0].Renews || all[0].Ended || all[0].Subject != "local" {
		t.Errorf("%d %s", code, out)
	}
	if code, out, _ = p.does(nil, with("signins")...); code != 0 || !strings.Contains(out, "renewed by itself") {
		t.Errorf("%d %s", code, out)
	}
	if code, _, said = p.does(nil, with("logout", "gh")...); code != 0 || !strings.Contains(said, "signed out of gh") || strings.Contains(said, "warning") {
		t.Errorf("%d %s", code, said)
	}
	if n := a.Counts(); n["register"] != 1 || n["authorize"] != 1 || n["revoke"] != 2 {
		t.Errorf("%v", n)
	}
	if code, _, said = p.does(nil, with("logout", "gh")...); code != exitFailure || !strings.Contains(said, "nobody is signed in") || !strings.Contains(said, "dragoman signins") {
		t.Errorf("%d %s", code, said)
	}
	if v := a.Violations(); len(v) > 0 {
		t.Errorf("%q", v)
	}
}

// TestLoginElsewhere signs in with a browser of another machine: by pasting the address at which it ends, and by a code.
func TestLoginElsewhere(t *testing.T) {
	p := newVisitor(t)
	a, address := secured(t, "ok")
	p.vars["SSH_CONNECTION"] = "192.0.2.1 1 192.0.2.9 22"
	p.input = new(io.PipeWriter)
	code, _, said := p.does(func() {
		end := p.visit(p.find(anyLink), false)
		other, _ := url.Parse(end)
		q := other.Query()
		q.Set("state", "of-another-sign-in")
		other.RawQuery = q.Encode()
		for _, line := range []string{"hello", other.String(), "", end} {
			if _, err := io.WriteString(p.input, line+"\n"); err != nil {
				t.Error(err)
			}
		}
	}, "login", address)
	if code != 0 || strings.Count(said, "didn't work") != 2 || !strings.Contains(said, "another sign-in") || !strings.Contains(said, "ssh -N -L ") || !strings.Contains(said, "192.0.2.9") {
		t.Errorf("%d %s", code, said)
	}
	if code, _, said := p.does(nil, "logout", address); code != 0 {
		t.Errorf("%d %s", code, said)
	}
	p.input = nil
	code, _, said = p.does(func() {
		p.agree(p.find(`(?m)^or open (\S+)$`), "allow")
	}, "login", address, "--device")
	if code != 0 || strings.Contains(said, "/authorize?") {
		t.Errorf("with a code: %d %s", code, said)
	}
	if n := a.Counts(); n["device_authorization"] != 2 {
		t.Errorf("%v", n)
	}
}

// agree answers the page that asks for consent.
func (p *visitor) agree(page, answer string) {
	code, err := url.Parse(page)
	if err != nil {
		p.Error(err)
		return
	}
	resp, err := http.PostForm("http://"+code.Host+"/consent", url.Values{"request": {code.Query().Get("user_code")}, "answer": {answer}})
	if err == nil && resp.StatusCode == http.StatusNotFound || err == nil && resp.StatusCode == http.StatusMethodNotAllowed {
		_ = resp.Body.Close()
		resp, err = http.PostForm("http://"+code.Host+"/authorize", url.Values{"request": {code.Query().Get("user_code")}, "answer": {answer}})
	}
	if err != nil {
		p.Error(err)
		return
	}
	_ = resp.Body.Close()
}

// TestLoginFails checks what people hear of a server or an issuer that has published something wrong, and the exit
// code.
func TestLoginFails(t *testing.T) {
	p := newVisitor(t)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	open := httptest.NewServer(http.NotFoundHandler())
	defer open.Close()
	challenge := func(metadata string) *httptest.Server {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/mcp" {
				w.Header().Set("Content-Type", "text/html")
				_, _ = io.WriteString(w, "<!doctype html><title>Sign in</title>")
				return
			}
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+strings.ReplaceAll(metadata, "SELF", "http://"+r.Host)+`"`)
			w.WriteHeader(http.StatusUnauthorized)
		}))
		t.Cleanup(web.Close)
		return web
	}
	page, near := challenge("SELF/metadata"), challenge("http://169.254.169.254/metadata")
	for name, c := range map[string]struct {
		profile, url string
		code         int
		says         string
	}{
		"no way to register": {profile: "no-registration", code: 1, says: "/callback"},
		"two token URLs":     {profile: "duplicate-members", code: 1, says: "duplicate member"},
		"too large":          {profile: "huge-metadata", code: 1, says: "bytes"},
		"another issuer":     {profile: "wrong-issuer", code: 1, says: "other.example"},
		"another resource":   {profile: "resource-mismatch", code: 1, says: "other.example"},
		"without PKCE":       {profile: "no-pkce", code: 1, says: "S256"},
		"moved":              {profile: "moved-metadata", code: 1, says: "redirects to"},
		"nothing listens":    {url: closed.URL + "/mcp", code: exitUnreachable, says: "nothing listens"},
		"no MCP":             {url: open.URL + "/mcp", code: 1, says: "no MCP endpoint"},
		"no name":            {url: "gh", code: exitUsage, says: "no configuration file"},
		"a page of HTML":     {url: page.URL + "/mcp", code: 1, says: "web page and not JSON"},
		"nearer":             {url: near.URL + "/mcp", code: 1, says: "169.254.169.254"},
	} {
		t.Run(name, func(t *testing.T) {
			address := c.url
			if c.profile != "" {
				_, address = secured(t, c.profile)
			}
			code, _, said := p.does(nil, "login", address)
			if code != c.code || !strings.Contains(said, c.says) || !strings.Contains(said, "hint: ") || strings.Contains(said, "Open this link") || strings.Count(said, "error: ") != 1 {
				t.Errorf("%d %s", code, said)
			}
		})
	}
}

// TestLoginRefused refuses at the issuer, and takes the port away to which the browser would come back.
func TestLoginRefused(t *testing.T) {
	p := newVisitor(t)
	_, address := secured(t, "ok", "consent=page")
	code, _, said := p.does(func() {
		p.refuse(p.find(anyLink))
	}, "login", address)
	if code != exitFailure || !strings.Contains(said, "access_denied") || strings.Contains(said, "signed in to") {
		t.Errorf("%d %s", code, said)
	}
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	p.write("config.yaml", "mcpServers: {gh: {url: \""+address+"\"}}\ndragoman: {servers: {gh: {signIn: {callback: \"http://"+other.Addr().String()+"/callback\"}}}}\n")
	code, _, said = p.does(nil, "login", "gh", "-c", filepath.Join(p.home, "config.yaml"))
	if code != exitFailure || !strings.Contains(said, "another program listens") || !strings.Contains(said, "hint: ") {
		t.Errorf("a port in use: %d %s", code, said)
	}
	p.write("dragoman.yaml", "mcpServers: {gh: {url: \""+address+"\"}}\n")
	if code, _, said := p.does(nil, "login", "gh"); code != exitUsage || !strings.Contains(said, "has never been used") {
		t.Errorf("a file of the working directory: %d %s", code, said)
	}
	code, _, said = p.does(nil, "login", address, "--timeout", "300ms")
	if code != exitFailure || !strings.Contains(said, "nobody has signed in to 127.0.0.1") {
		t.Errorf("nobody came: %d %s", code, said)
	}
}

// refuse opens a link, and presses the button that refuses.
func (p *visitor) refuse(link string) {
	resp, err := http.Get(link)
	if err != nil {
		p.Error(err)
		return
	}
	b, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	id := regexp.MustCompile(`name=request value="([^"]+)"`).FindSubmatch(b)
	action := regexp.MustCompile(`action="([^"]+)"`).FindSubmatch(b)
	if id == nil || action == nil {
		p.Errorf("no form in %s", b)
		return
	}
	at, _ := url.Parse(link)
	resp, err = http.PostForm("http://"+at.Host+string(action[1]), url.Values{"request": {string(id[1])}, "answer": {"refuse"}})
	if err != nil {
		p.Error(err)
		return
	}
	_ = resp.Body.Close()
}

// TestLoginAs signs in an invited person, and the same server for oneself. Neither counts for the other.
func TestLoginAs(t *testing.T) {
	p := newVisitor(t)
	_, address := secured(t, "ok")
	if code, _, said := p.does(nil, "people", "invite", "Ada"); code != 0 {
		t.Fatalf("%d %s", code, said)
	}
	if code, _, said := p.does(nil, "login", address, "--as", "bob"); code != exitUsage || !strings.Contains(said, `nobody is called "bob"`) {
		t.Errorf("%d %s", code, said)
	}
	code, _, said := p.does(func() { p.visit(p.find(anyLink), true) }, "login", address, "--as", "ada")
	if code != 0 || !strings.Contains(said, "Ada is signed in to") {
		t.Errorf("%d %s", code, said)
	}
	var all []signedIn
	_, out, _ := p.does(nil, "signins", "--json")
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 1 || all[0].Person != "Ada" {
		t.Errorf("%s", out)
	}
	if code, _, said := p.does(nil, "logout", address); code != exitFailure {
		t.Errorf("somebody else's sign-in was ended: %d %s", code, said)
	}
	if code, _, said := p.does(nil, "logout", address, "--as", "ADA"); code != 0 {
		t.Errorf("%d %s", code, said)
	}
}

// TestSignInsOfARemovedServer signs people in at servers of a project in the store and of the file, by their names, and then
// removes both servers. The sign-ins stay, are shown as those of servers that aren't in the configuration, and can be ended
// with the URL.
func TestSignInsOfARemovedServer(t *testing.T) {
	p := newVisitor(t)
	a, address := secured(t, "ok")
	_, other := secured(t, "ok")
	p.write("dragoman.yaml", "mcpServers: {common: {url: \""+other+"\"}}\ndragoman: {servers: {common: {signIn: {per: shared}}}}\n")
	p.serve("--listen", anyPort)
	does := func(want int, while func(), args ...string) string {
		t.Helper()
		code, out, said := p.does(while, append(args, "-c", "dragoman.yaml")...)
		if code != want {
			t.Errorf("%q: %d %s %s", args, code, out, said)
		}
		return out + said
	}
	visit := func() { p.visit(p.find(anyLink), true) }
	text := p.write("shop.yaml", "mcpServers: {gh: {url: \""+address+"\"}}")
	does(0, nil, "projects", "add", "shop", "--file", text)
	if said := does(exitUsage, nil, "login", "gh2", "--project", "shop"); !strings.Contains(said, "gh") {
		t.Error(said)
	}
	does(exitUsage, nil, "login", "gh", "--project", "none")
	does(0, visit, "login", "gh", "--project", "shop")
	does(0, visit, "login", "common")
	const gone = "not in the configuration"
	if got := does(0, nil, "signins"); !strings.Contains(got, "gh") || !strings.Contains(got, "common") || strings.Contains(got, gone) {
		t.Errorf("nothing was removed: %s", got)
	}
	does(0, nil, "projects", "edit", "shop", "--file", p.write("shop.yaml", "title: Shop"))
	p.write("dragoman.yaml", "mcpServers: {}\n")
	if got := does(0, nil, "signins"); strings.Count(got, gone) != 2 || !strings.Contains(got, address) || !strings.Contains(got, other) {
		t.Errorf("both were removed: %s", got)
	}
	if got := does(0, nil, "signins", "--json"); strings.Count(got, `"removed": true`) != 2 {
		t.Errorf("both were removed: %s", got)
	}
	does(exitFailure, nil, "logout", address)
	does(0, nil, "logout", address, "--project", "shop")
	does(0, nil, "logout", other)
	if got := does(0, nil, "signins"); !strings.Contains(got, "nobody is signed in") {
		t.Error(got)
	}
	if n := a.Counts(); n["revoke"] < 2 || n["revoke"] > 4 { // serve revokes the two tokens as well, as soon as it notices
		t.Errorf("%v", n)
	}
}

// TestListSignsInAtServe lists a server through a running serve that can't use it yet. The command signs in, and the serve
// has the tools without a restart.
func TestListSignsInAtServe(t *testing.T) {
	p := newVisitor(t)
	a, address := secured(t, "ok")
	p.write("dragoman.yaml", "mcpServers: {gh: {url: \""+address+"\"}}\n")
	for _, serving := range []bool{false, true} {
		if serving {
			p.serve("--listen", anyPort)
		}
		if code, out, said := p.does(nil, "list", "-c", "dragoman.yaml"); code != exitFailure || !strings.Contains(out, "sign-in") || !strings.Contains(out+said, "dragoman login gh") {
			t.Errorf("serving is %v: %d %s %s", serving, code, out, said)
		}
	}
	code, out, said := p.does(func() { p.visit(p.find(anyLink), true) }, "list", "gh", "-v")
	if code != 0 || strings.Contains(out, "sign_in") || !strings.Contains(out, "add ") || !strings.Contains(said, "using the running serve") {
		t.Errorf("%d %s %s", code, out, said)
	}
	if n := a.Counts(); n["authorize"] != 1 {
		t.Errorf("%v", n)
	}
}
