//go:build unix

package daemon

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// TestOwnSignIn lets two people sign two clients in: each client acts for its own person, refreshes, and is
// revoked without the other.
func TestOwnSignIn(t *testing.T) {
	t.Parallel()
	o := serveOwn(t)
	web, local := o.client(issuer, claude, claudeBack), o.client(issuer, claudeCode, claudeCodeBack)
	o.ada.opens(web.link()).asks("claude.ai asks for access", "It calls itself “Claude”", "You are", "ada", "Answer goes to", "claude.ai")
	if deny, allow := strings.Index(o.ada.page.body, `value="deny"`), strings.Index(o.ada.page.body, `value="allow"`); deny > allow {
		t.Error("Deny is not the first button")
	}
	o.ada.answers("deny")
	if code, problem := web.back(o.ada); code != "" || problem != "access_denied" {
		t.Errorf("denied: %q %q", code, problem)
	}
	web.signsIn(o.ada)
	local.signsIn(o.bob)
	for path, want := range map[string]int{"/mcp": 200, "/s/a/mcp": 401, "/p/default/mcp": 401} {
		if got := web.enters(web.access, path); got != want {
			t.Errorf("a token for /mcp at %s: %d", path, got)
		}
	}
	before := web.access
	if problem := web.refreshes(web.refreshToken); problem != "" || web.enters(web.access, "/mcp") != 200 || web.enters(before, "/mcp") != 200 {
		t.Errorf("refreshed: %s", problem)
	}
	if status, _ := web.posts("/revoke", map[string][]string{"client_id": {web.id}, "token": {web.refreshToken}}); status != 200 {
		t.Errorf("revoke: %d", status)
	}
	if got := web.enters(web.access, "/mcp"); got != 401 {
		t.Errorf("a revoked token: %d", got)
	}
	if got := local.enters(local.access, "/mcp"); got != 200 {
		t.Errorf("bob's client: %d", got)
	}
}

// TestOwnSignInOnLoopback signs a client in without a public URL, at each of our three names. The browser gets from
// the client's page to the consent page with a link to the console, at the console's secret name, and the client is
// told the issuer that it has asked.
func TestOwnSignInOnLoopback(t *testing.T) {
	t.Parallel()
	var link func() string
	r := serve(t, snapshot(child(t, "a", "legacy")), func(o *ServeOptions) {
		c := *o.Config
		c.Access.LoopbackKeys, c.Access.Own.On = true, true
		o.Config, o.documents, o.Console = &c, &pages{}, func(c Console) { link = c.Link }
	})
	_, port, _ := strings.Cut(strings.TrimPrefix(r.base, "http://"), ":")
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]"} {
		at := "http://" + host + ":" + port
		c, b := r.client(at, claudeCode, claudeCodeBack), newSurfer(r)
		b.opens(c.link())
		b.says("Open the console to go on", "Claude Code asks for access", "dragoman console --open")
		if b.page.status != 200 || strings.Contains(b.page.body, ".localhost") {
			t.Fatalf("%s: %d %s", host, b.page.status, b.page.body)
		}
		b.types(link()).asks("A program asks for access", "claude.ai", "the user who runs this Dragoman", "localhost:41234", at+"/mcp")
		code, problem := c.back(b.answers("allow"))
		if problem += c.redeems(code); problem != "" || c.enters(c.access, "/mcp") != 200 {
			t.Errorf("%s: %q", host, problem)
		}
		for _, seen := range b.seen {
			if strings.Contains(seen, ".localhost") && strings.Contains(seen, "code=") {
				t.Errorf("a code at %s", seen)
			}
		}
		// The same browser has a session now, but the client's page still can't know it.
		other := r.client(at, claudeCode, claudeCodeBack)
		b.opens(other.link("code_challenge_method", "plain"))
		if code, problem := other.back(b); code != "" || problem != "invalid_request" {
			t.Errorf("%s: plain: %q %q", host, code, problem)
		}
	}
	if got := r.modern("/mcp", "1", "tools/list", "", "").status; got != 401 {
		t.Errorf("without a token: %d", got)
	}
}

// TestGrantsOverTheAPI lets people see and end what they have allowed, and an admin what all have.
func TestGrantsOverTheAPI(t *testing.T) {
	t.Parallel()
	o := serveOwn(t)
	eve := invites(t, rosterAt(t, deskAt(t, o.database)), "eve", identity.Admin)
	eve.enters(o.rig)
	web, local := o.client(issuer, claude, claudeBack), o.registers(`{"client_name":"Local","redirect_uris":["http://localhost/x"]}`)
	web.signsIn(o.ada)
	local.signsIn(o.bob)
	ask := func(p *invited, method, path string) (status int, ids, people []string) {
		t.Helper()
		a := o.do(t.Context(), method, path, nil, append(p.header, "Sec-Fetch-Site", "same-origin", "Origin", issuer)...)
		var out struct {
			Grants []struct{ ID, Client, Person, Resource string }
		}
		if err := json.Unmarshal([]byte(a.body), &out); err != nil {
			t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
		}
		for _, g := range out.Grants {
			if g.Resource != "/mcp" {
				t.Errorf("%+v", g)
			}
			ids, people = append(ids, g.ID), append(people, g.Person)
		}
		return a.status, ids, people
	}
	_, adas, people := ask(o.adaIs, "GET", "/api/v1/grants")
	if len(adas) != 1 || people[0] != "ada" {
		t.Fatalf("ada sees %v of %v", adas, people)
	}
	_, all, people := ask(eve, "GET", "/api/v1/grants")
	if len(all) != 2 || !slices.Contains(people, "ada") || !slices.Contains(people, "bob") {
		t.Fatalf("the admin sees %v of %v", all, people)
	}
	for _, id := range all {
		if id == adas[0] {
			continue
		}
		if status, _, _ := ask(o.adaIs, "DELETE", "/api/v1/grants/"+id); status != 404 {
			t.Errorf("ada ends bob's grant: %d", status)
		}
	}
	if status, _, _ := ask(o.adaIs, "DELETE", "/api/v1/grants?client="+local.id); status != 403 {
		t.Errorf("ada removes a client: %d", status)
	}
	if status, _, _ := ask(o.adaIs, "DELETE", "/api/v1/grants/"+adas[0]); status != 200 || web.enters(web.access, "/mcp") != 401 || local.enters(local.access, "/mcp") != 200 {
		t.Errorf("ada ends her own: %d", status)
	}
	if status, _, _ := ask(eve, "DELETE", "/api/v1/grants?client="+local.id); status != 200 || local.refreshes(local.refreshToken) != "invalid_client" {
		t.Errorf("the admin removes a client: %d", status)
	}
}
