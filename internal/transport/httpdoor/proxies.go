package httpdoor

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Trust returns a handler for which the requests of trusted proxies come from the addresses that these have put
// into X-Forwarded-For, so that Remote returns them. A header of anybody else counts for nothing. Nothing but
// limits, logs and lists may depend on these addresses: whoever is on the machine of a proxy can make them up.
func Trust(proxies []netip.Prefix, next http.Handler) http.Handler {
	if len(proxies) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at, ok := behind(proxies, r); ok {
			inner := *r
			inner.RemoteAddr = net.JoinHostPort(at.String(), "0")
			r = &inner
		}
		next.ServeHTTP(w, r)
	})
}

// behind returns the address of the client behind trusted proxies. Each proxy appends the address from which it got
// the request, so we read from the right, and stop at the first address that isn't a proxy's: what stands before it
// is what the client says. At something that is no address, we stop before it.
func behind(proxies []netip.Prefix, r *http.Request) (at netip.Addr, ok bool) {
	at, err := netip.ParseAddr(Remote(r))
	if err != nil {
		return at, false
	}
	at = at.Unmap()
	said := strings.Join(r.Header["X-Forwarded-For"], ",")
	for slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(at) }) && said != "" {
		i := strings.LastIndexByte(said, ',')
		next, valid := hop(strings.TrimSpace(said[i+1:]))
		if !valid {
			break
		}
		at, ok, said = next, true, said[:max(i, 0)]
	}
	return at, ok
}

// hop returns an address of X-Forwarded-For, to which some proxies add a port.
func hop(text string) (netip.Addr, bool) {
	at, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if err != nil {
		var with netip.AddrPort
		with, err = netip.ParseAddrPort(text)
		at = with.Addr()
	}
	return at.Unmap(), err == nil && at.Zone() == ""
}
