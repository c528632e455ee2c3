//go:build unix

package daemon

import (
	"strings"
	"testing"
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
