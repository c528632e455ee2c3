package config

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// CheckListen returns the problem with a listen address, or nil. Clients do not authenticate, so an
// address that other machines can reach is a problem. If allowed is true, such an address is valid.
// permit is the setting or flag that the hint suggests. CheckListen does not resolve host names, so
// it assumes that other machines can reach every host name except localhost.
func CheckListen(address string, allowed bool, permit string) *Problem {
	shown := func(s string) string { // without the user and the password of a URL
		if at := strings.LastIndex(s, "@"); at >= 0 {
			s = mask + s[at:]
		}
		return strconv.Quote(printable(s))
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		hint := "write host:port, for example 127.0.0.1:7300"
		if _, err := strconv.ParseUint(address, 10, 16); err == nil {
			hint = "write 127.0.0.1:" + address
		}
		return &Problem{Text: shown(address) + " is not a listen address", Hint: hint}
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return &Problem{Text: shown(port) + " is not a port", Hint: "write a number from 0 to 65535; 0 picks a free port"}
	}
	if allowed || IsLoopback(host) {
		return nil
	}
	return &Problem{
		Text: "other machines can reach " + shown(address) + " and use every tool without credentials",
		Hint: "listen on 127.0.0.1:" + port + ", or write " + permit + " if a firewall controls who can connect",
	}
}

// IsLoopback reports whether a host is a loopback name or address, which only this machine can
// reach.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
