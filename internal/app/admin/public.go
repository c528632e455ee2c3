package admin

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// publicHost is the host of a public URL with https. The zero value is no host.
type publicHost struct {
	host, port string
	below      bool // the public URL has a path
}

// UsePublicURL says at which URL a proxy receives the requests of other machines; see config.Snapshot.PublicURL.
// If it begins with https, those for its host may use the API with a credential. UsePublicURL must be called
// before the Access is used.
func (a *Access) UsePublicURL(text string) {
	if u, err := url.Parse(text); err == nil && u.Scheme == "https" {
		a.public = publicHost{u.Hostname(), cmp.Or(u.Port(), "443"), strings.Trim(u.Path, "/") != ""}
	}
}

// is reports whether a request is for the host. Proxies may leave the port out.
func (p publicHost) is(r *http.Request) bool {
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		host, port = strings.Trim(r.Host, "[]"), p.port
	}
	return p.host != "" && strings.EqualFold(host, p.host) && port == p.port
}

// secure reports whether a request has come over https: to us, or to the proxy at the public URL. A proxy that
// passes on what came without TLS isn't ours to find out; a client that sends a key there has shown it already.
func (a *Access) secure(r *http.Request) bool { return r.TLS != nil || a.public.is(r) }

// Remote reports whether a request that CheckOrigin allows has come from another machine, or may have.
func (a *Access) Remote(r *http.Request) bool { return a.secure(r) && !a.here(r) }

// NoConsole returns why there is no console where a request has come to, or "". Its pages and its cookie are for
// all paths of a host.
func (a *Access) NoConsole(r *http.Request) string {
	if a.Remote(r) && r.TLS == nil && a.public.below {
		return "The public URL has a path, and the console has no place below one. Give Dragoman a host name of its own at the proxy."
	}
	return ""
}

// insecure says why a request that has not come over https is refused.
func (a *Access) insecure(r *http.Request) string {
	const give = "set dragoman.tls, or dragoman.publicURL to the https URL of a proxy."
	switch {
	case a.public.host != "":
		return "Without TLS, Dragoman answers this only at its public URL. Use https://" + net.JoinHostPort(a.public.host, a.public.port) + ", and let the proxy pass on the Host header."
	case a.local && forwarded(r):
		return "A proxy forwarded the request. Send it directly, without a proxy, or " + give
	case a.local:
		return "The request names another host. Send it to 127.0.0.1, or " + give
	}
	return "Dragoman listens on an address that other machines can reach, without TLS, so it refuses this request. Listen on 127.0.0.1, or " + give
}

// cookieName returns the name of the session cookie. The name contains the port, so that the ends
// of two SSH tunnels to the same process do not overwrite each other's cookie. Over https, browsers take
// a cookie with the prefix __Host- only from the host itself, with Secure and without a Domain.
func (a *Access) cookieName(r *http.Request) string {
	name := "dragoman_console_" + portOf(r)
	if a.Remote(r) {
		return "__Host-" + name
	}
	return name
}
