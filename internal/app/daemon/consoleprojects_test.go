//go:build unix

package daemon

import (
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// form sends a form of the console as somebody who was invited.
func (p *invited) form(r *rig, path string, form url.Values) answer {
	r.t.Helper()
	return r.do(r.t.Context(), "POST", path, strings.NewReader(form.Encode()), append(slices.Clone(sameOrigin), p.header...)...)
}

// TestProjectsInTheConsole lets an admin add a project on its page, whose viewer then begins there. Somebody else's
// change is shown beside one's own. When the project is removed, its pages are gone at once, and so is its viewer's
// way to any page; the acts say that all of it was done with the console.
func TestProjectsInTheConsole(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "dragoman.db")
	web := newWeb(t, true)
	r := serve(t, snapshot(newWeb(t, true).as(t, "hub")), behindProxy(database))
	roster := rosterAt(t, deskAt(t, database))
	ada := invites(t, roster, "Ada", identity.Admin)
	ada.enters(r)
	page := func(who *invited, path string) answer {
		t.Helper()
		return r.do(t.Context(), "GET", path, nil, who.header...)
	}
	text := "title: Shop\nuse: [hub]\nmcpServers: {shops-server: {url: \"" + web.web.URL + "/mcp\"}}\n"
	number := regexp.MustCompile(`name="number" value="([^"]*)"`).FindStringSubmatch(page(ada, "/console/projects").body)
	if number == nil {
		t.Fatal("an admin has no form for a new project")
	}
	if a := ada.form(r, "/console/projects", url.Values{"number": {number[1]}, "name": {"shop"}, "text": {text}}); a.status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.status, a.body)
	}
	ben := invitesTo(t, roster, "shop", "Ben", identity.Viewer)
	ben.enters(r)
	if a := page(ben, "/console/"); a.status != 303 || a.header.Get("Location") != "/console/p/shop/" {
		t.Errorf("ben begins at %d %s", a.status, a.header.Get("Location"))
	}
	soon(t, "the pages of the project show its servers", func() bool {
		a := page(ben, "/console/p/shop/servers")
		return a.status == 200 && strings.Contains(a.body, "/console/p/shop/servers/shops-server") && strings.Contains(a.body, "/console/p/shop/servers/hub")
	})
	for path, status := range map[string]int{"/console/servers": 403, "/console/p/default/servers": 303, "/console/projects/shop": 200, "/console/projects/default": 404, "/console/projects/shop/export": 403, "/console/p/shop/settings": 200} {
		if a := page(ben, path); a.status != status || strings.Contains(a.body, "publicURL") {
			t.Errorf("ben gets %d from %s", a.status, path)
		}
	}
	if a := ben.form(r, "/console/projects/shop", url.Values{"do": {"save"}, "match": {"*"}, "text": {"title: Ben's"}}); a.status != 403 {
		t.Errorf("ben saves: %d", a.status)
	}
	if a := ben.form(r, "/console/projects", url.Values{"number": {"1"}, "name": {"bens"}}); a.status != 404 {
		t.Errorf("ben adds a project: %d", a.status)
	}

	shown := page(ada, "/console/projects/shop").body
	match := regexp.MustCompile(`name="match" value="&#34;([0-9]+)&#34;"`).FindStringSubmatch(shown)
	if match == nil || !strings.Contains(shown, "title: Shop") || !strings.Contains(shown, "Ben") {
		t.Fatalf("the project's page: %s", shown)
	}
	version := `"` + match[1] + `"`
	if a := ada.form(r, "/console/projects/shop", url.Values{"do": {"preview"}, "match": {version}, "text": {strings.Replace(text, "Shop", "Store", 1)}}); a.status != 200 || !strings.Contains(a.body, "<ins>") {
		t.Errorf("the preview: %d %s", a.status, a.body)
	}
	if a := ada.form(r, "/console/projects/shop", url.Values{"do": {"save"}, "match": {version}, "text": {strings.Replace(text, "Shop", "Store", 1)}}); a.status != 303 {
		t.Errorf("the change: %d %s", a.status, a.body)
	}
	slow := ada.form(r, "/console/projects/shop", url.Values{"do": {"save"}, "match": {version}, "text": {"title: Slow"}})
	if slow.status != 412 || !strings.Contains(slow.body, "title: Store") || !strings.Contains(slow.body, "title: Slow</textarea>") {
		t.Errorf("who was slower: %d %s", slow.status, slow.body)
	}
	next := regexp.MustCompile(`name="match" value="&#34;([0-9]+)&#34;"`).FindStringSubmatch(slow.body)
	if a := page(ada, "/console/projects/shop/export"); a.status != 200 || !strings.Contains(a.body, "    shop:\n") || !strings.Contains(a.body, "title: Store") {
		t.Errorf("the export: %d %s", a.status, a.body)
	}
	if a := ada.form(r, "/console/projects/shop", url.Values{"do": {"remove"}, "match": {`"` + next[1] + `"`}, "name": {"shop"}}); a.status != 303 {
		t.Fatalf("the end: %d %s", a.status, a.body)
	}
	soon(t, "the project's pages are gone", func() bool { return page(ben, "/console/p/shop/servers").status == 404 })
	if a := page(ben, "/console/"); a.status != 403 {
		t.Errorf("ben begins at %d", a.status)
	}
	acts := page(ada, "/console/audit?what=project").body
	if n := strings.Count(acts, "project"); n < 3 {
		t.Errorf("the acts: %s", acts)
	}
}
