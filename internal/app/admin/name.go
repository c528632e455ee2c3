package admin

import (
	"crypto/rand"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
)

// PasswordUser is the user name that belongs to the password of a session.
const PasswordUser = "dragoman"

// NamePaths are the beginnings of the paths that exist at the console's name. MCP endpoints do not.
var NamePaths = []string{"/console/", apiRoot + "/"}

// namePattern matches the names that newName returns.
var namePattern = pattern.Later(`^dragoman-[a-z2-7]{26}\.localhost$`)

// newName returns a new host name for the console, with 130 random bits. It is not kept, although
// bookmarks would then survive a restart: while serve is stopped, another program can listen on its
// port, and an open page of the console tells that program the name.
func newName() string { return "dragoman-" + strings.ToLower(rand.Text()) + ".localhost" }

// Name returns the host name at which browsers have the console. Each process has another one. Only
// whoever has opened a link knows it, so no other program can make the browser send it the cookies
// of this name. Browsers resolve names below localhost to the loopback addresses without DNS
// (https://fetch.spec.whatwg.org/#resolve-an-origin), if resolvesNames says so.
func (a *Access) Name() string { return a.name }

// UseName allows links to lead to the console's name. Call it only if no other program can listen
// on the port of this process, neither at 127.0.0.1 nor at [::1]. A browser may use either address
// for the name. Until this call, browsers can enter only with a password.
func (a *Access) UseName() { a.named.Store(true) }

// AtName reports whether the Host of a request is the console's name.
func (a *Access) AtName(r *http.Request) bool {
	host, _ := hostOf(r)
	return strings.EqualFold(host, a.name)
}

// AtFormerName reports whether the Host of a request can be the console's name of another process,
// for example of one that ran before on the same port.
func (a *Access) AtFormerName(r *http.Request) bool {
	host, _ := hostOf(r)
	return !a.AtName(r) && namePattern().MatchString(strings.ToLower(host))
}

// Forward exchanges a link for one at the console's name. The old link works no more, so nobody can
// look up the name without being noticed. ok is false, and the link still works, if the browser that
// has sent r must use a password. ok is also false if the link is
// not valid.
func (a *Access) Forward(r *http.Request, token string) (link string, ok bool) {
	if !a.here(r) || !a.named.Load() || !resolvesNames(r.UserAgent()) {
		return "", false
	}
	who := a.use(token, false)
	if who == nil {
		return "", false
	}
	return a.LinkFor(who, "http://"+net.JoinHostPort(a.name, portOf(r))), true
}

// resolvesNames reports whether a browser resolves the names below localhost itself. Other browsers
// ask DNS (Safari: https://bugs.webkit.org/show_bug.cgi?id=160504), so whoever answers for DNS could
// get the link and the cookie. We cannot find out in a better way than from the name of the browser:
// an attempt of the browser to open the name shows only what DNS answers this time.
func resolvesNames(userAgent string) bool {
	return strings.Contains(userAgent, "Chrome/") || strings.Contains(userAgent, "Chromium/") || strings.Contains(userAgent, "Firefox/")
}

// Address returns the host and port at which the sender of a request reaches this process by an IP
// address. Another program may listen at one of the addresses of "localhost".
func Address(r *http.Request) string {
	if isAddress(r.Host) {
		return r.Host
	}
	ip := "127.0.0.1"
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && at.IP.IsLoopback() {
		ip = at.IP.String()
	}
	return net.JoinHostPort(ip, portOf(r))
}

// isAddress reports whether the host in a Host header is an IP address.
func isAddress(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	_, err = netip.ParseAddr(host)
	return err == nil
}

func hostOf(r *http.Request) (host, port string) {
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		return r.Host, "80"
	}
	return host, port
}

func portOf(r *http.Request) string {
	_, port := hostOf(r)
	return port
}
