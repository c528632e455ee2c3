package egress

import (
	"net/netip"
	"strconv"
)

// Nearness says how close an address is to this machine.
type Nearness uint8

// The zero value is the farthest, so whoever forgets to say how near a server is may reach least.
const (
	Public   Nearness = iota
	Private           // RFC 1918, unique local addresses, carrier-grade NAT, and what nobody routes publicly
	Loopback          // this machine
)

func (n Nearness) String() string {
	switch n {
	case Public:
		return "public"
	case Private:
		return "private"
	case Loopback:
		return "loopback"
	}
	return strconv.Itoa(int(n))
}

// phrase says where an address lies.
func (n Nearness) phrase() string {
	switch n {
	case Public:
		return "on the internet"
	case Private:
		return "in a private network"
	default:
		return "on this machine"
	}
}

var (
	// forbidden are the networks that are never reached. Linux takes 0.0.0.0 and :: for itself
	// (RFC 1122 §3.2.1.3); the rest is link-local, multicast, reserved, or keeps the credentials of
	// a machine in a cloud that has not chosen a link-local address for them.
	forbidden = networks("0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "100.100.100.200/32", "168.63.129.16/32",
		"::/128", "fe80::/10", "ff00::/8", "100::/64", "fd00:ec2::254/128", "fd20:ce::254/128")
	// private are the networks that nobody routes on the internet. 192.0.0.0/24 and 198.18.0.0/15 are
	// among them because translators and VPNs use them on a machine (RFC 6890, RFC 2544).
	private = networks("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15")

	loopback4 = netip.MustParsePrefix("127.0.0.0/8")
	global6   = netip.MustParsePrefix("2000::/3") // the only part of IPv6 that is routed (RFC 4291 §2.4)
)

func networks(all ...string) (out []netip.Prefix) {
	for _, s := range all {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func within(a netip.Addr, all []netip.Prefix) bool {
	for _, p := range all {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Of returns how near an address is. It returns false for an address that is never reached. An IPv6
// address with IPv4 addresses in it is as near as the nearest of them.
func Of(a netip.Addr) (Nearness, bool) {
	a = a.WithZone("")
	switch {
	case !a.IsValid(), within(a, forbidden):
		return Public, false
	case a.Is4():
		switch {
		case loopback4.Contains(a):
			return Loopback, true
		case within(a, private):
			return Private, true
		}
		return Public, true
	case a == netip.IPv6Loopback():
		return Loopback, true
	}
	held, guess := carried(a)
	if len(held) == 0 {
		if global6.Contains(a) {
			return Public, true
		}
		return Private, true
	}
	nearest, some := Public, false
	for _, x := range held {
		n, ok := Of(x)
		switch {
		case ok:
			nearest, some = max(nearest, n), true
		case !guess || x.As4()[0] != 0:
			return Public, false
		}
	}
	return nearest, some
}

// translations are the networks whose addresses have an IPv4 address in their last four bytes:
// IPv4-mapped, IPv4-compatible and IPv4-translated addresses, and NAT64 (RFC 4291 §2.5.5, RFC 2765
// §2.1, RFC 6052 §2.1).
var translations = networks("::ffff:0:0/96", "::/96", "::ffff:0:0:0/96", "64:ff9b::/96")

var (
	sixToFour = netip.MustParsePrefix("2002::/16")      // RFC 3056 §2
	teredo    = netip.MustParsePrefix("2001::/32")      // RFC 4380 §4: the server, and the client inverted
	localNAT  = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215: the operator chooses the length of the prefix
)

// carried returns the IPv4 addresses in an IPv6 address. If guess is true, the address can be read in
// several ways, and only some of the results are meant.
func carried(a netip.Addr) (all []netip.Addr, guess bool) {
	b := a.As16()
	at := func(i ...int) netip.Addr { return netip.AddrFrom4([4]byte{b[i[0]], b[i[1]], b[i[2]], b[i[3]]}) }
	last := at(12, 13, 14, 15)
	switch {
	case a.Is4In6(), within(a, translations):
		return []netip.Addr{last}, false
	case sixToFour.Contains(a):
		return []netip.Addr{at(2, 3, 4, 5)}, false
	case teredo.Contains(a):
		for i := 12; i < 16; i++ {
			b[i] = ^b[i]
		}
		return []netip.Addr{at(4, 5, 6, 7), at(12, 13, 14, 15)}, false
	case localNAT.Contains(a):
		// The forms of RFC 6052 §2.2 for prefixes of 48, 56, 64 and 96 bits. The eighth byte is zero.
		return []netip.Addr{at(6, 7, 9, 10), at(7, 9, 10, 11), at(9, 10, 11, 12), last}, true
	}
	return nil, false
}
