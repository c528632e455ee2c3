package authserver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestResourcePath checks which resource indicators name our endpoints, at a public URL, below a path and on loopback.
func TestResourcePath(t *testing.T) {
	const no = "no"
	for _, x := range []struct{ public, issuer, resource, want string }{
		{"https://mcp.example.com", "", "https://mcp.example.com/mcp", "/mcp"},
		{"https://mcp.example.com", "", "https://MCP.example.com:443/mcp/", "/mcp"},
		{"https://mcp.example.com", "", "https://mcp.example.com", ""},
		{"https://mcp.example.com", "", "https://mcp.example.com/", ""},
		{"https://mcp.example.com", "", "https://mcp.example.com/s/git/mcp", "/s/git/mcp"},
		{"https://mcp.example.com", "", "https://mcp.example.com/p/shop", "/p/shop"},
		{"https://mcp.example.com", "", "https://mcp.example.com/p/shop/s/git/sse", "/p/shop/s/git/sse"},
		{"https://mcp.example.com", "", "https://mcp.example.com/p/shop/console", no},
		{"https://mcp.example.com", "", "https://mcp.example.com/console/", no},
		{"https://mcp.example.com", "", "https://mcp.example.com/s/../mcp", no},
		{"https://mcp.example.com", "", "https://mcp.example.com/mcp?x=1", no},
		{"https://mcp.example.com", "", "https://mcp.example.com/mcp#x", no},
		{"https://mcp.example.com", "", "http://mcp.example.com/mcp", no},
		{"https://mcp.example.com", "", "https://mcp.example.com:8443/mcp", no},
		{"https://mcp.example.com", "", "https://user@mcp.example.com/mcp", no},
		{"https://mcp.example.com", "", "https://mcp.example.com.evil.example/mcp", no},
		{"https://mcp.example.com", "", "mcp", no},
		{"https://mcp.example.com/tools", "", "https://mcp.example.com/tools/mcp", "/mcp"},
		{"https://mcp.example.com/tools", "", "https://mcp.example.com/mcp", no},
		{"https://mcp.example.com/tools", "", "https://mcp.example.com/toolsmcp", no},
		{"", "http://localhost:7300", "http://localhost:7300/mcp", "/mcp"},
		{"", "http://localhost:7300", "http://127.0.0.1:7300/mcp", "/mcp"},
		{"", "http://localhost:7300", "http://127.0.0.1:7301/mcp", no},
		{"", "http://localhost:7300", "http://evil.example:7300/mcp", no},
	} {
		s := New(Options{PublicURL: x.public})
		if x.issuer == "" {
			x.issuer = x.public
		}
		got, ok := s.resourcePath(x.issuer, x.resource)
		if !ok {
			got = no
		}
		if got != x.want {
			t.Errorf("%s at %s: %s, want %s", x.resource, x.issuer, got, x.want)
		}
	}
}

// TestTA24Limit counts registrations by address, or by the /64 of IPv6. Addresses may share a cell, but not all of them.
func TestTA24Limit(t *testing.T) {
	tries, now := New(Options{}).tries, time.Unix(3600*1000, 0)
	for i := range 2 * mostPerHour {
		wait := tries.Take(fmt.Sprintf("2001:db8::%x", i), now)
		if (wait > 0) != (i >= mostPerHour) || wait > time.Hour {
			t.Fatalf("registration %d waits %s", i, wait)
		}
	}
	others := 0
	for i := range 10 {
		if tries.Take(fmt.Sprintf("192.0.2.%d", i), now) > 0 {
			others++
		}
	}
	if others > 3 || tries.Take("2001:db8::1", now.Add(time.Hour)) > 0 {
		t.Errorf("%d other addresses wait, or one in another hour does", others)
	}
}

// TestTA24Pages registers from pages of the web until it's enough. A page can send requests to the machine of whoever looks
// at it, and the programs there have the same address: these still register.
func TestTA24Pages(t *testing.T) {
	s, now := New(Options{PublicURL: "https://mcp.example.com"}), time.Unix(3600*1000, 0)
	try := func(addr, origin string) time.Duration {
		r := httptest.NewRequest(http.MethodPost, "/register", nil)
		r.RemoteAddr = addr
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		return s.tries.Take(fromHere(r), now)
	}
	for _, addr := range []string{"127.0.0.1:1000", "[2001:db8::1]:1000"} {
		for i := range 2 * mostPerHour {
			if wait := try(addr, fmt.Sprintf("https://evil%d.example", i)); (wait > 0) != (i >= mostPerHour) {
				t.Fatalf("registration %d of a page waits %s", i, wait)
			}
		}
		if wait := try(addr, ""); wait > 0 {
			t.Errorf("a program at %s waits %s", addr, wait)
		}
	}
	if wait := try("[2001:db8::2]:1000", "https://other.example"); wait == 0 {
		t.Error("another address of the same /64 begins anew")
	}
}

// TestAllow checks which clients a setting lets sign in.
func TestAllow(t *testing.T) {
	const claude = "https://claude.ai/oauth/mcp-oauth-client-metadata"
	for name, x := range map[string]struct {
		allow Allow
		want  map[string]bool
	}{
		"any":     {Allow{}, map[string]bool{claude: true, vendor: true, "client-1": true}},
		"known":   {Allow{Known: true}, map[string]bool{claude: true, vendor: false, "client-1": false}},
		"a host":  {Allow{Only: []string{"vendor.example"}}, map[string]bool{claude: false, vendor: true, "client-1": false, "https://vendor.example.evil.example/x": false}},
		"an id":   {Allow{Only: []string{"client-1", claude}}, map[string]bool{claude: true, vendor: false, "client-1": true, "client-2": false}},
		"nothing": {Allow{Only: []string{""}}, map[string]bool{claude: false, vendor: false, "client-1": false, "": true}},
	} {
		for id, want := range x.want {
			if got := x.allow.allows(id); got != want {
				t.Errorf("%s: %q %t", name, id, got)
			}
		}
	}
}
