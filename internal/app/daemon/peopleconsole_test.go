//go:build unix

package daemon

import (
	"html"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

var (
	formNumber = regexp.MustCompile(`name="number" value="([A-Z2-7]+)"`)
	shownKey   = regexp.MustCompile(`drgk_[0-9A-Za-z_-]+`)
)

// sends fills in a form of a page, which has a number.
func (p *invited) sends(r *rig, page, to, form string) answer {
	r.t.Helper()
	a := r.do(r.t.Context(), "GET", page, nil, p.header...)
	number := formNumber.FindStringSubmatch(a.body)
	if number == nil {
		r.t.Fatalf("%s has no form: %d %s", page, a.status, a.body)
	}
	return r.do(r.t.Context(), "POST", to, strings.NewReader(form+"&number="+number[1]), append(slices.Clone(sameOrigin), p.header...)...)
}

// TestAccessInTheConsole has Ada, an admin, and Ben and Cleo, who are callers, in the console. Ben makes a key with which
// a client opens a stream, and revokes it: the page says what ends, and the stream ends within five seconds. Ada ends
// one of Cleo's two sessions, and then takes her role: the streams of her pages end, one after the other, within five
// seconds each. Ben goes on. What they did is in the audit, as done in the console.
func TestAccessInTheConsole(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	few := func(s *webServer) { s.tools = `{"name":"echo","inputSchema":{"type":"object"}}` }
	r := serve(t, snapshot(newWeb(t, true, few).as(t, "new")), behindProxy(database))
	desk := deskAt(t, database)
	roster := rosterAt(t, desk)
	ada, ben := invites(t, roster, "Ada", identity.Admin), invites(t, roster, "Ben", identity.Caller, identity.Viewer)
	cleo := invites(t, roster, "Cleo", identity.Caller, identity.Viewer)
	for _, p := range []*invited{ada, ben, cleo} {
		p.enters(r)
	}
	second := *cleo
	token, _, err := roster.Link(t.Context(), "local", cleo.id, "default")
	if err != nil {
		t.Fatal(err)
	}
	second.token, second.header = token, cleo.header[:2:2]
	second.enters(r)

	for form, want := range map[string]int{"name=x&role=admin&life=30d": 403, "name=x&role=caller&life=never": 403, "name=x&role=caller&life=200d": 403} {
		if a := ben.sends(r, "/console/keys/new", "/console/keys/new", form); a.status != want || shownKey.MatchString(a.body) {
			t.Errorf("%s: %d", form, a.status)
		}
	}
	made := ben.sends(r, "/console/keys/new", "/console/keys/new", "name=laptop&role=caller&life=30d&owner="+cleo.id)
	text := shownKey.FindString(made.body)
	if made.status != 200 || text == "" || made.header.Get("Cache-Control") != "no-store" || made.header.Get("Set-Cookie") != "" {
		t.Fatalf("%d %v", made.status, made.header)
	}
	id := regexp.MustCompile(`href="/console/keys/([^"]{12})"`).FindStringSubmatch(made.body)[1]
	key := bearer(text)
	a := r.post("/mcp", initializeBody("2025-11-25", "{}"), key...)
	if a.status != 200 {
		t.Fatalf("the key: %d %s", a.status, a.body)
	}
	session := append([]string{"Mcp-Session-Id", a.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}, key...)
	r.post("/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
	client := r.open(http.MethodGet, "/mcp", "", append([]string{"Accept", "text/event-stream"}, session...)...)
	page := "/console/keys/" + id
	if a := r.do(t.Context(), "GET", page, nil, cleo.header...); a.status != 404 {
		t.Errorf("cleo sees the key of ben: %d", a.status)
	}
	if a := r.do(t.Context(), "POST", page, strings.NewReader("do=revoke&number=X"), append(slices.Clone(sameOrigin), cleo.header...)...); a.status != 404 {
		t.Errorf("cleo revokes the key of ben: %d", a.status)
	}
	if a := r.do(t.Context(), "DELETE", "/api/v1/keys/"+id, nil, append(slices.Clone(key), "Host", publicName)...); a.status != 403 {
		t.Errorf("a key revokes itself: %d %s", a.status, a.body)
	}
	if a := r.do(t.Context(), "GET", page, nil, ben.header...); a.status != 200 || !strings.Contains(a.body, "1 session, 0 open streams and 0 running calls") || strings.Contains(a.body, text) {
		t.Errorf("the key's page: %d %s", a.status, a.body)
	}
	began := time.Now()
	gone := ben.sends(r, page, page, "do=revoke")
	if said, _ := url.QueryUnescape(gone.header.Get("Set-Cookie")); gone.status != 303 || !strings.Contains(said, "1 session, 0 open streams and 0 running calls") {
		t.Errorf("revoked: %d %v %s", gone.status, gone.header, gone.body)
	}
	endsWithin(t, "with the key", 5*time.Second-time.Since(began), client)
	if a := r.post("/mcp", initializeBody("2025-11-25", "{}"), key...); a.status != 401 {
		t.Errorf("the key still works: %d", a.status)
	}

	bens, first, other := ben.follows(r), cleo.follows(r), second.follows(r)
	about := "/console/people/" + cleo.id
	ids := regexp.MustCompile(`name="session" value="([^"]+)"`).FindAllStringSubmatch(r.do(t.Context(), "GET", about, nil, ada.header...).body, -1)
	if len(ids) != 2 {
		t.Fatalf("the page has %d sessions", len(ids))
	}
	began = time.Now()
	if a := ada.sends(r, about, about, "do=end&session="+ids[0][1]); a.status != 303 {
		t.Fatalf("ended: %d %s", a.status, a.body)
	}
	soon(t, "one of the sessions has ended", func() bool { return cleo.sees(r) == 401 != (second.sees(r) == 401) })
	left, out, its := cleo, first, other
	if cleo.sees(r) == 200 {
		out, its = other, first
	} else {
		left = &second
	}
	endsWithin(t, "with the session", 5*time.Second-time.Since(began), out)
	if a := ada.sends(r, about, about, "do=end&session="+ids[0][1]); a.status != 404 || !strings.Contains(html.UnescapeString(a.body), "It has ended already") {
		t.Errorf("ended again: %d", a.status)
	}
	if !goesOn(its) || left.sees(r) != 200 {
		t.Error("the other session has ended, too")
	}
	if a := ada.sends(r, about, about, "do=roles&was=caller"); a.status != 409 || !strings.Contains(a.body, "has the roles caller and viewer in the project default by now") {
		t.Errorf("other roles: %d %s", a.status, a.body)
	}
	began = time.Now()
	if a := ada.sends(r, about, about, "do=roles&was=caller+viewer"); a.status != 303 {
		t.Fatalf("roles: %d %s", a.status, a.body)
	}
	endsWithin(t, "with the role", 5*time.Second-time.Since(began), its)
	if ben.sees(r) != 200 || !goesOn(bens) {
		t.Error("ben is out, too")
	}
	list := r.do(t.Context(), "GET", "/api/v1/audit?what=key", nil, ada.header...)
	for _, want := range []string{`"what": "made"`, `"what": "revoked"`, `"via": "console `} {
		if !strings.Contains(list.body, want) {
			t.Errorf("the audit doesn't have %s: %s", want, list.body)
		}
	}
	if strings.Contains(r.log.String()+list.body, text) || strings.Contains(r.log.String(), token) {
		t.Error("the log or the audit has the key or the link")
	}
}
