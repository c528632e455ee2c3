package config

import "testing"

func TestPublicURL(t *testing.T) {
	for _, tt := range []struct{ text, url, path, host, origin string }{
		{"https://Example.com/", "https://Example.com", "", "example.com", "https://example.com"},
		{"https://example.com/tools/dragoman/", "https://example.com/tools/dragoman", "/tools/dragoman", "example.com", "https://example.com"},
		{"http://example.com:8080/x", "http://example.com:8080/x", "/x", "example.com", "http://example.com:8080"},
		{"https://[::1]:443/x", "https://[::1]:443/x", "/x", "[::1]", "https://[::1]"},
		{"", "", "", "", ""},
	} {
		text := "dragoman: {publicURL: \"" + tt.text + "\"}"
		if tt.text == "" {
			text = "dragoman: {}"
		}
		s := good(t, text)
		if host, origin := s.PublicHost(); s.PublicURL != tt.url || s.PublicPath() != tt.path || host != tt.host || origin != tt.origin {
			t.Errorf("%s: %s, path %s, host %s, origin %s", tt.text, s.PublicURL, s.PublicPath(), host, origin)
		}
	}
}

func TestInvalidPublicURLs(t *testing.T) {
	for _, text := range []string{
		"example.com", "ftp://example.com", "https://", "https://example.com/?q=1", "https://example.com/#a", "https://me:pw@example.com/",
		"https://example.com/a//b", "https://example.com/a/../b", "https://example.com/a b", "https://example.com/s/x", "https://example.com/p",
		"https://example.com/x/mcp", "https://example.com/sse/", "https://exa*mple.com/", "https://example.com/%2e%2e/x",
	} {
		if s, problems := Parse("f", []byte("dragoman: {publicURL: \""+text+"\"}"), nil); s != nil || problems.Err() == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

func TestCheckHost(t *testing.T) {
	for _, host := range []string{"gateway.lan", "gateway.lan:7300", "[fe80::1]:80"} {
		if p := CheckHost(host); p != nil {
			t.Errorf("%s: %v", host, p)
		}
	}
	for _, host := range []string{"", "*.lan", "http://gateway.lan", "gateway.lan/mcp", "a b"} {
		if CheckHost(host) == nil {
			t.Errorf("%q is accepted", host)
		}
	}
}
