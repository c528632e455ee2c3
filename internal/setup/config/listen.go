package config

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// CheckListen returns the problem with a listen address, or nil. It is for addresses where clients don't
// authenticate, so one that other machines can reach is a problem. If allowed is true, such an address is
// valid. permit is the flag that the hint suggests. CheckListen does not resolve host names, so it
// assumes that other machines can reach every host name except localhost.
func CheckListen(address string, allowed bool, permit string) *Problem {
	if p := CheckAddress(address); p != nil {
		return p
	}
	host, port, _ := net.SplitHostPort(address)
	if allowed || transport.IsLoopback(host) {
		return nil
	}
	return &Problem{
		Text: "other machines can reach " + shownAddress(address) + " and use every tool without credentials",
		Hint: "listen on 127.0.0.1:" + port + ", or write " + permit + " if a firewall controls who can connect",
	}
}

// CheckAddress returns the problem with an address that nobody can listen on, or nil.
func CheckAddress(address string) *Problem {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		hint := "write host:port, for example 127.0.0.1:7300"
		if _, err := strconv.ParseUint(address, 10, 16); err == nil {
			hint = "write 127.0.0.1:" + address
		}
		return &Problem{Text: shownAddress(address) + " is not a listen address", Hint: hint}
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return &Problem{Text: shownAddress(port) + " is not a port", Hint: "write a number from 0 to 65535; 0 picks a free port"}
	}
	// No host name ends in a number (RFC 3696, section 2), so this is an address with a mistake.
	if _, err := netip.ParseAddr(host); err != nil && host != "" && strings.Trim(host, "0123456789.") == "" {
		return &Problem{Text: shownAddress(host) + " is not an IP address", Hint: "write an address of this machine, for example 127.0.0.1:" + port}
	}
	return nil
}

// shownAddress returns an address without the user and the password of a URL.
func shownAddress(s string) string {
	if at := strings.LastIndex(s, "@"); at >= 0 {
		s = mask + s[at:]
	}
	return strconv.Quote(printable(s))
}
