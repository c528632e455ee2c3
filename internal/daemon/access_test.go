//go:build unix

package daemon

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/admin"
)

// TestKeyOfServe checks that serve, while it runs, keeps its key in a file for commands of the same
// user, and that the API accepts the key.
func TestKeyOfServe(t *testing.T) {
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

// TestCookieOpensNoEndpoint checks that the session of a browser and the key open only the console.
// An MCP endpoint treats a request from the console's page in the same way as a request from any
// other page.
func TestCookieOpensNoEndpoint(t *testing.T) {
	var link string
	r := serve(t, snapshot(), func(o *ServeOptions) { o.Console = func(c Console) { link = c.Link() } })
	r.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	a := r.do(t.Context(), "GET", strings.TrimPrefix(link, r.base), nil)
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	if a.status != 303 || cookie == "" {
		t.Fatalf("%d %v", a.status, a.header)
	}
	if a := r.do(t.Context(), "GET", "/console/", nil, "Cookie", cookie); a.status != 200 || !strings.Contains(a.body, "<h1>") {
		t.Errorf("the console: %d %.200s", a.status, a.body)
	}
	for _, header := range [][]string{nil, {"Cookie", cookie}} {
		for _, origin := range []string{"https://evil.example", "http://127.0.0.1:1"} {
			if a := r.post("/mcp", initializeBody("2025-11-25", "{}"), append(header, "Origin", origin)...); a.status != 403 {
				t.Errorf("/mcp from %s with %v: %d", origin, header, a.status)
			}
		}
	}
	if strings.Contains(r.log.String(), cookie) || strings.Contains(r.log.String(), link) {
		t.Error("the log has a secret")
	}
}

// TestNoConsole checks that the console is off if other machines can reach the address, or if the
// option --no-console is given.
func TestNoConsole(t *testing.T) {
	for why, o := range map[string]ServeOptions{"other machines": {}, "--no-console": {NoConsole: true}} {
		o.Config, o.Version = snapshot(), "test"
		d := newDaemon(o, o.NoConsole)
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
