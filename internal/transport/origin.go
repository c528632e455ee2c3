package transport

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// Origin returns the scheme, host and port of a URL in lower case, without the default port: two URLs have the same
// origin (RFC 6454 §4) if these texts are equal.
func Origin(u *url.URL) string {
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	if port != "" && (scheme != "https" || port != "443") && (scheme != "http" || port != "80") {
		return scheme + "://" + net.JoinHostPort(host, port)
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return scheme + "://" + host
}

// IsLoopback reports whether a host is a loopback name or address, which only this machine can reach. An IPv6 address
// has no brackets.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
