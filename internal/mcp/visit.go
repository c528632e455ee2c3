package mcp

import (
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// UnfitVisit reports why the parameters of an elicitation must not reach a client,
// "" when they may. An elicitation in URL mode sends a person to a page (2025-11-25
// and 2026-07-28 §Elicitation, "URL Mode Elicitation Requests"); a client that opens
// what it is given would run a script, read a file or start a program for a URL
// that is none of the web, and show a person another host than the one that is
// visited. Forms always may.
func UnfitVisit(raw []byte, params jsonrpc.Span) string {
	var at [2]jsonrpc.Span
	jsonrpc.FindAll(raw, params, []string{"mode", "url"}, at[:])
	mode, _ := jsonrpc.Text(raw, at[0])
	switch {
	case mode == "url" && at[1].IsZero():
		return "it is in URL mode and names no URL"
	case at[1].IsZero():
		return ""
	}
	// One in another mode that names a URL is looked at as well: what a client makes
	// of it is not known.
	text, ok := jsonrpc.Text(raw, at[1])
	if !ok {
		return "its URL is no string"
	}
	if !utf8.ValidString(text) {
		return "its URL has half of a surrogate pair"
	}
	return unfitURL(text)
}

// unfitURL reports why nobody should be sent to a URL, "" for nothing. It is never
// opened here.
func unfitURL(text string) string {
	const longest = 8 << 10
	if len(text) > longest {
		return "its URL is too long"
	}
	// Browsers drop tabs and line ends and take a backslash for a slash, so that what
	// is read here is not what would be visited (WHATWG URL, "URL parsing").
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return "its URL has white space, control characters or backslashes"
	}
	u, err := url.Parse(text)
	if err != nil {
		return "its URL cannot be read"
	}
	switch {
	case !strings.EqualFold(u.Scheme, "https") && !strings.EqualFold(u.Scheme, "http"):
		return "its URL is neither http nor https"
	case u.Opaque != "" || u.Host == "":
		return "its URL names no host"
	case u.User != nil:
		return "its URL has a name or password before the host"
	}
	return unfitHost(u.Hostname())
}

// unfitHost reports why a host misleads whoever reads it. Punycode does not: the
// reader sees that it is none of the names that it could look like.
func unfitHost(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return ""
	}
	host = strings.TrimSuffix(host, ".")
	if host == "" || strings.ContainsFunc(host, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_')
	}) {
		return "the host of its URL has characters that can be taken for others"
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" || isNumber(last) {
		// 2130706433, 0x7f.1 and 127.1 are addresses in a browser (WHATWG URL, "ends in
		// a number").
		return "the host of its URL is an address in disguise"
	}
	return ""
}

// isNumber reports whether a label of a host is a number, decimal or not.
func isNumber(s string) bool {
	digits := "0123456789"
	if hex, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok {
		s, digits = hex, "0123456789abcdef"
	}
	return strings.Trim(strings.ToLower(s), digits) == ""
}
