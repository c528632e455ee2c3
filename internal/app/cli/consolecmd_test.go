package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
)

// TestConsoleCommand checks that the command prints a link for the user who has the key, and that
// it tells any other user what to do.
func TestConsoleCommand(t *testing.T) {
	api := admin.New(admin.Options{Local: true})
	mux := http.NewServeMux()
	api.Routes(mux)
	web := httptest.NewServer(mux)
	defer web.Close()
	address := strings.TrimPrefix(web.URL, "http://")
	folder := t.TempDir()
	env := func(name string) (string, bool) {
		if name == "XDG_CACHE_HOME" || name == "LocalAppData" || name == "HOME" {
			return folder, true
		}
		return "", false
	}
	ask := func(args ...string) (code int, stdout, stderr string) {
		var out, said syncBuffer
		a := &app{world: world{stdout: &out, status: newStatus(&said, false, noEnv), env: env, program: "dragoman"}}
		code = a.main(append(args, "--listen", address))
		return code, out.take(), said.take()
	}
	if code, out, said := ask("console"); code != 1 || out != "" || !strings.Contains(said, "the key of the `dragoman serve` at "+address+" was not found") || !strings.Contains(said, "hint: run this command as the user who started") {
		t.Errorf("without the key: %d %q %q", code, out, said)
	}
	_, stale, err := admin.WriteKey(admin.KeyFolders(env), address, "stale")
	if err != nil {
		t.Fatal(err)
	}
	if code, _, said := ask("console"); code != 1 || !strings.Contains(said, "does not accept the key that was found") {
		t.Errorf("with a stale key: %d %q", code, said)
	}
	stale()
	_, remove, err := admin.WriteKey(admin.KeyFolders(env), address, api.Access().Key())
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	if code, out, said := ask("console"); code != 0 || !strings.HasPrefix(out, web.URL+"/console/?link=") || strings.Count(out, "\n") != 1 || said != "" {
		t.Errorf("%d %q %q", code, out, said)
	}
	if code, out, _ := ask("console", "--json"); code != 0 || !strings.Contains(out, `"url": "`+web.URL+`/console/?link=`) || !strings.Contains(out, `"expires": "`) {
		t.Errorf("--json: %d %q", code, out)
	}
	web.Close()
	if code, _, said := ask("console"); code != 1 || !strings.Contains(said, "no `dragoman serve` answers at "+address) {
		t.Errorf("without serve: %d %q", code, said)
	}
}

// TestKeyGoesToItsAddress checks that a command sends a key only to the address for which the key
// was written. In the test, another user listens on the same port of localhost's other address.
func TestKeyGoesToItsAddress(t *testing.T) {
	var given atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			given.Add(1)
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"type":"urn:dragoman:problem:no-access","title":"no","status":401}`)
	}))
	defer other.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(other.URL, "http://"), ":")
	folder := t.TempDir()
	if _, _, err := admin.WriteKey([]string{folder}, "[::1]:"+port, "the-key"); err != nil {
		t.Fatal(err)
	}
	a := &app{world: world{env: noEnv}}
	s, err := locator{a.env}.runningAt("http://localhost:" + port + "/base")
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	s.folders = []string{folder}
	if _, err := s.ask(t.Context(), http.MethodPost, "/x", nil); err == nil || given.Load() > 0 {
		t.Errorf("%v; the key was sent %d times", err, given.Load())
	}
	if got := s.at("[::1]:" + port).base; got != "http://[::1]:"+port+"/base" {
		t.Errorf("the base is %s", got)
	}
}

// TestShowConsole checks that a link is printed only on a terminal.
func TestShowConsole(t *testing.T) {
	const link = "http://127.0.0.1:7300/console/?link=SECRET"
	for _, tt := range []struct {
		name              string
		terminal, records bool
		quiet             bool
		off               string
		want              string
	}{
		{name: "a terminal", terminal: true, want: "dragoman: the console is at " + link + " (works\n  once, within 10 minutes)\n"},
		{name: "a pipe", want: "dragoman: the console is at http://127.0.0.1:7300/console/; run `dragoman console -c x.yaml` for a link that opens it\n"},
		{name: "off", terminal: true, off: "The console is off, because of it.", want: "dragoman: the console is off, because of it\n"},
		{name: "quiet", terminal: true, quiet: true},
		{name: "records", terminal: true, records: true, want: "run `dragoman console"},
	} {
		var said syncBuffer
		a := &app{world: world{status: newStatus(&said, tt.terminal, noEnv), quiet: tt.quiet, program: "dragoman"}}
		if tt.records {
			a.status.recordsOnly()
		}
		(&serveCommand{world: &a.world}).showConsole(daemon.Console{Off: tt.off, URL: "http://127.0.0.1:7300/console/", Link: func() string { return link }}, " -c x.yaml")
		got := said.take()
		if tt.records {
			if !strings.Contains(got, tt.want) || strings.Contains(got, "SECRET") {
				t.Errorf("%s: %q", tt.name, got)
			}
			continue
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestCheckLink checks that only a link to this machine is opened.
func TestCheckLink(t *testing.T) {
	for link, ok := range map[string]bool{
		"http://127.0.0.1:7300/console/?link=abc-_1": true, "http://localhost:7300/console/?link=a": true, "http://[::1]:7300/console/?link=a": true,
		"http://example.com/console/?link=a": false, "file:///console/": false, "http://127.0.0.1:7300/console/?link=a\"&calc": false,
		"http://127.0.0.1:7300/other": false, "javascript:alert(1)": false, "http://127.0.0.1@evil.example/console/": false, "": false,
	} {
		if err := checkLink(link); (err == nil) != ok {
			t.Errorf("%q: %v", link, err)
		}
	}
}
