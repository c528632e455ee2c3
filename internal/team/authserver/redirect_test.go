package authserver

import (
	"strings"
	"testing"
)

// TestTA18RedirectURIs compares near misses with the redirect URIs of three clients. Only those that differ in the
// port of a loopback address are theirs.
func TestTA18RedirectURIs(t *testing.T) {
	c := &Client{Redirects: []string{"https://claude.ai/api/mcp/auth_callback", "http://localhost/callback", "http://127.0.0.1:8787/callback?x=1", "http://[::1]", "cursor://anysphere.cursor/oauth"}}
	for _, uri := range []string{
		"https://claude.ai/api/mcp/auth_callback", "http://localhost/callback", "http://localhost:1/callback", "http://localhost:65535/callback",
		"http://127.0.0.1:8787/callback?x=1", "http://127.0.0.1/callback?x=1", "http://[::1]", "http://[::1]:99", "cursor://anysphere.cursor/oauth",
	} {
		if !c.allows(uri) {
			t.Errorf("%s is refused", uri)
		}
	}
	for _, uri := range []string{
		"", "https://claude.ai/api/mcp/auth_callback/", "https://claude.ai/api/mcp/auth_callback?", "https://claude.ai/api/mcp/auth_callback#", "https://claude.ai/api/mcp/auth_callback%00",
		"https://claude.ai/api/mcp/../mcp/auth_callback", "https://claude.ai//api/mcp/auth_callback", "https://claude.ai:443/api/mcp/auth_callback", "https://claude.ai:8443/api/mcp/auth_callback",
		"https://CLAUDE.ai/api/mcp/auth_callback", "https://claude.ai./api/mcp/auth_callback", "https://claude.ai.evil.example/api/mcp/auth_callback", "https://evil.example/claude.ai/api/mcp/auth_callback",
		"https://claude.ai@evil.example/api/mcp/auth_callback", "https://evil.example\\@claude.ai/api/mcp/auth_callback", "http://claude.ai/api/mcp/auth_callback", " https://claude.ai/api/mcp/auth_callback",
		"https://claude.ai/api/mcp/AUTH_callback", "https://claude.ai/api/mcp/auth_callback\n", "//claude.ai/api/mcp/auth_callback",
		"http://localhost:/callback", "http://localhost:123456/callback", "http://localhost:80a/callback", "http://localhost:80@evil.example/callback", "http://localhost.evil.example/callback",
		"http://localhost:1/callback/", "http://localhost:1/Callback", "http://localhost:1/callback?x", "http://localhost:1/callback#x", "https://localhost/callback", "http://LOCALHOST/callback",
		"http://127.0.0.1/callback", "http://127.0.0.2:8787/callback?x=1", "http://[::1]/", "http://[::1]:80:80", "http://localhost@evil.example/callback", "http://localhost:1:2/callback",
		"http://2130706433/callback?x=1", "cursor://anysphere.cursor/oauth?x", "CURSOR://anysphere.cursor/oauth", "cursor:anysphere.cursor/oauth",
	} {
		if c.allows(uri) {
			t.Errorf("%s is accepted", uri)
		}
	}
}

// TestCheckRedirect checks which redirect URIs a client may have: one with a document, and one that has registered.
func TestCheckRedirect(t *testing.T) {
	const doc, both, registered, no = 1, 3, 2, 0
	for uri, want := range map[string]int{
		"https://vendor.example/back": both, "https://vendor.example:443/back": both, "https://VENDOR.example/back": both,
		"https://other.example/back": registered, "https://vendor.example:8443/back": registered, "https://www.vendor.example/back": registered,
		"http://localhost/back": both, "http://127.0.0.1:80/": both, "http://[::1]:80/": both,
		"http://vendor.example/back": no, "http://localhost.vendor.example/": no, "http://10.0.0.1/": no, "http://127.0.0.2/": no,
		"cursor://x/y": registered, "vscode://x/y": registered, "com.example.app:/back": registered, "app:/back": no, "com.example.app:back": no,
		"javascript:alert(1)": no, "data:text/html,x": no, "file:///etc/passwd": no, "vbscript:x": no, "blob:https://vendor.example/x": no, "JavaScript://vendor.example/%0aalert(1)": no,
		"https://user@vendor.example/": no, "https://user:pw@vendor.example/": no, "https://vendor.example/#x": no, "https://vendor.example/#": no, "https:///x": no, "https:vendor.example": no,
		"https://vendor.example/a b": no, "https://vendor.example/\x00": no, "https://vendor.example/é": no, "https://vendor.example\\@evil.example/": no, "/back": no, "": no,
		"https://vendor.example/" + strings.Repeat("a", mostURI): no,
	} {
		got := no
		if checkRedirect(uri, "https://vendor.example") == nil {
			got |= doc
		}
		if checkRedirect(uri, "") == nil {
			got |= registered
		}
		if got != want {
			t.Errorf("%q: %d, want %d", uri, got, want)
		}
	}
}

// TestKnownDocuments checks that each built-in document obeys the rules of those that are fetched.
func TestKnownDocuments(t *testing.T) {
	for id := range knownDocuments {
		c := known(id)
		if !isDocument(id) || c.ID != id || c.Proof != proofNone || c.Name == "" || !strings.HasPrefix(id, "https://"+c.Host+"/") {
			t.Errorf("%+v", c)
		}
		for _, uri := range c.Redirects {
			if err := checkRedirect(uri, "https://"+c.Host); err != nil {
				t.Errorf("%s: %s %v", id, uri, err)
			}
		}
	}
	if known("https://claude.ai/another") != nil {
		t.Error("another document is known")
	}
}

func FuzzRedirect(f *testing.F) {
	for _, s := range []string{"https://claude.ai/x", "http://localhost:1/callback", "http://[::1]", "cursor://x", "http://localhost:80@evil.example/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		if checkRedirect(uri, "") != nil {
			return
		}
		if strings.HasPrefix(uri, "http:") && !isLoopback(uri) {
			t.Errorf("%q", uri)
		}
		if to := sendsTo(uri); strings.ContainsAny(to, " ;,'\"\n") {
			t.Errorf("%q makes %q of the policy", uri, to)
		}
		if !(&Client{Redirects: []string{uri}}).allows(uri) {
			t.Errorf("%q is not itself", uri)
		}
	})
}
