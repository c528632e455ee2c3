package httpdoor

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

// TestTrustedProxies reads the address of a client behind proxies. Whoever isn't one of them can say what they
// like, and so can a client in front of them.
func TestTrustedProxies(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("127.0.0.1/32")}
	for _, tt := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"no proxy", "203.0.113.9:80", nil, "203.0.113.9"},
		{"a liar that is no proxy", "203.0.113.9:80", []string{"198.51.100.1"}, "203.0.113.9"},
		{"a proxy", "10.1.2.3:80", []string{"203.0.113.9"}, "203.0.113.9"},
		{"a proxy that says nothing", "10.1.2.3:80", nil, "10.1.2.3"},
		{"a liar behind a proxy", "10.1.2.3:80", []string{"198.51.100.1, 203.0.113.9"}, "203.0.113.9"},
		{"a liar with a header of their own", "10.1.2.3:80", []string{"198.51.100.1", "203.0.113.9"}, "203.0.113.9"},
		{"a liar who names a proxy", "10.1.2.3:80", []string{"198.51.100.1, 10.9.9.9, 203.0.113.9"}, "203.0.113.9"},
		{"two proxies", "10.1.2.3:80", []string{"198.51.100.1, 203.0.113.9, 10.9.9.9"}, "203.0.113.9"},
		{"proxies alone", "10.1.2.3:80", []string{"10.5.5.5,10.9.9.9"}, "10.5.5.5"},
		{"IPv6", "[fd00::1]:80", []string{"2001:db8::7"}, "2001:db8::7"},
		{"IPv6 in brackets with a port", "[fd00::1]:80", []string{"[2001:db8::7]:4711"}, "2001:db8::7"},
		{"IPv6 in brackets", "[fd00::1]:80", []string{"[2001:db8::7]"}, "2001:db8::7"},
		{"a port", "127.0.0.1:80", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		{"IPv4 in IPv6", "[::ffff:10.1.2.3]:80", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		{"no address", "10.1.2.3:80", []string{"203.0.113.9, unknown"}, "10.1.2.3"},
		{"no address behind two proxies", "10.1.2.3:80", []string{"203.0.113.9, <script>, 10.9.9.9"}, "10.9.9.9"},
		{"a zone", "10.1.2.3:80", []string{"203.0.113.9, fe80::1%eth0"}, "10.1.2.3"},
		{"nothing after a comma", "10.1.2.3:80", []string{"203.0.113.9,"}, "10.1.2.3"},
		{"a pipe", "@", []string{"203.0.113.9"}, "@"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = Remote(r) })
			r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
			r.RemoteAddr = tt.peer
			r.Header["X-Forwarded-For"] = tt.forwarded
			Trust(trusted, next).ServeHTTP(nil, r)
			if got != tt.want {
				t.Errorf("it comes from %s", got)
			}
			if Trust(nil, next).ServeHTTP(nil, r); got != Remote(r) || r.RemoteAddr != tt.peer {
				t.Errorf("without trusted proxies, it comes from %s", got)
			}
		})
	}
}
