package mcp

import (
	"encoding/binary"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Own knows the port on which this process listens, so that no elicitation leads to Dragoman itself:
// a user who agrees to visit a page of a server must not end up in the console or the API. A nil *Own
// knows no port. It is safe for concurrent use.
type Own struct{ port atomic.Int64 }

// Listen sets the port.
func (o *Own) Listen(port int) { o.port.Store(int64(port)) }

// leadsHere reports whether a URL leads to Dragoman. Only loopback addresses count, because the
// console and the API exist at no other.
func (o *Own) leadsHere(u *url.URL) bool {
	if o == nil || PlaceOf(u) != YourMachine {
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[bool]string{true: "443", false: "80"}[strings.EqualFold(u.Scheme, "https")]
	}
	n, err := strconv.Atoi(port)
	return err == nil && n != 0 && int64(n) == o.port.Load()
}

// The places of PlaceOf.
const (
	YourMachine = "your machine"
	YourNetwork = "your network"
)

// PlaceOf returns YourMachine or YourNetwork if the host of a URL is there, as far as its name or
// address says so. Otherwise it returns "".
func PlaceOf(u *url.URL) string {
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		switch ip = inner(ip); {
		case ip.IsLoopback(), ip.IsUnspecified():
			return YourMachine
		case ip.IsPrivate(), ip.IsLinkLocalUnicast(), sharedAddresses.Contains(ip):
			return YourNetwork
		}
		return ""
	}
	if above, last, ok := cutLast(host); ok && strings.HasPrefix(last, "localdomain") {
		if _, last, _ := cutLast(above); slices.Contains(loopbackNames, last) {
			return YourMachine
		}
		return YourNetwork
	}
	switch _, last, more := cutLast(host); {
	case slices.Contains(loopbackNames, last):
		return YourMachine
	case last == "local", last == "internal":
		return YourNetwork
	default:
		if !more || strings.HasSuffix(host, ".home.arpa") {
			return YourNetwork
		}
		return ""
	}
}

// loopbackNames are the names that the hosts files of usual systems give to the loopback addresses, some
// of them also below localdomain, localdomain4 and localdomain6.
var loopbackNames = []string{"localhost", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback", "ipv6-localhost", "ipv6-loopback", "loopback"}

// cutLast splits a host name before its last label. ok is false if it has only one.
func cutLast(host string) (above, last string, ok bool) {
	dot := strings.LastIndexByte(host, '.')
	return host[:max(dot, 0)], host[dot+1:], dot >= 0
}

// inner returns the IPv4 address in an IPv6 address of the forms ::127.0.0.1 (RFC 4291 §2.5.5.1, long
// deprecated), ::ffff:127.0.0.1 and ::ffff:0:127.0.0.1 (RFC 2765). Another address it returns unchanged.
func inner(ip netip.Addr) netip.Addr {
	b := ip.As16()
	switch head := binary.BigEndian.Uint32(b[8:]); {
	case ip.Is4(), binary.BigEndian.Uint64(b[:]) != 0, ip.IsLoopback(), ip.IsUnspecified():
	case head == 0, head == 0xffff, head == 0xffff0000:
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return ip
}

// sharedAddresses are the addresses behind carrier-grade NAT, which VPNs also use (RFC 6598).
var sharedAddresses = netip.MustParsePrefix("100.64.0.0/10")

// URLProblem returns the reason why the parameters of an elicitation must not reach a client. It
// returns "" if the parameters may reach a client. An elicitation in URL mode asks the user to open
// a page (2025-11-25 and 2026-07-28 §Elicitation, "URL Mode Elicitation Requests"). If the URL is
// not a web address, a client that opens it without a check could run a script, read a file or
// start a program. A misleading URL looks as if it belonged to another host. Parameters without a
// URL, such as those of a form, are always allowed.
func (o *Own) URLProblem(raw []byte, params jsonrpc.Span) string {
	var at [2]jsonrpc.Span
	jsonrpc.FindAll(raw, params, []string{"mode", "url"}, at[:])
	mode, _ := jsonrpc.Text(raw, at[0])
	switch {
	case mode == "url" && at[1].IsZero():
		return "its mode is url, but it has no url"
	case at[1].IsZero():
		return ""
	}
	// Check the URL in any mode, because a client may open the URL in any mode.
	text, ok := jsonrpc.Text(raw, at[1])
	if !ok {
		return "its URL is not a string"
	}
	if !utf8.ValidString(text) {
		return "its URL is not valid Unicode: it contains half of a surrogate pair"
	}
	return o.checkURL(text)
}

// checkURL returns the reason why a URL must not be opened, or "" if the URL is safe. It never
// opens the URL.
func (o *Own) checkURL(text string) string {
	const longest = 8 << 10
	if len(text) > longest {
		return "its URL is longer than 8 KiB"
	}
	// Browsers drop tabs and line ends and treat a backslash as a slash. So the URL that a browser
	// opens would differ from the URL that is checked here (WHATWG URL, "URL parsing").
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return "its URL contains white space, control characters or backslashes"
	}
	u, err := url.Parse(text)
	if err != nil {
		return "its URL cannot be parsed"
	}
	switch {
	case !strings.EqualFold(u.Scheme, "https") && !strings.EqualFold(u.Scheme, "http"):
		return "its URL is neither http nor https"
	case u.Opaque != "" || u.Host == "":
		return "its URL has no host"
	case u.User != nil:
		return "its URL has a user name or password"
	case o.leadsHere(u):
		return "its URL leads to Dragoman itself"
	}
	return checkHost(u.Hostname())
}

// checkHost returns the reason why a host name is misleading, or "" if it is not. A host name in
// Punycode is not misleading, because it looks different from the name that it imitates.
func checkHost(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return ""
	}
	host = strings.TrimSuffix(host, ".")
	if host == "" || strings.ContainsFunc(host, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_')
	}) {
		return "the host of its URL contains characters that can be confused with other characters"
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" || isNumber(last) {
		// A browser treats 2130706433, 0x7f.1 and 127.1 as addresses (WHATWG URL, "ends in a
		// number").
		return "the host of its URL is an IP address in an unusual notation"
	}
	return ""
}

// isNumber reports whether a host label is a decimal or hexadecimal number.
func isNumber(s string) bool {
	digits := "0123456789"
	if hex, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok {
		s, digits = hex, "0123456789abcdef"
	}
	return strings.Trim(strings.ToLower(s), digits) == ""
}
