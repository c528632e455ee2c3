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
