package authserver

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// appSchemes are the private schemes of known programs. Others need a dot, as RFC 8252 §7.1 asks: a name that
// its owner could register.
var appSchemes = []string{"cursor", "vscode", "vscode-insiders"}

// checkRedirect returns an error if a client may not have a redirect URI. origin is that of the client's document,
// which vouches only for itself and for programs on the person's own machine; "" for a client that has registered.
func checkRedirect(uri, origin string) error {
	u, err := url.Parse(uri)
	scheme, _, _ := strings.Cut(uri, ":")
	switch {
	case err != nil || len(uri) > mostURI || strings.ContainsFunc(uri, odd) || u.User != nil || strings.Contains(uri, "#") || u.Opaque != "":
		return errors.New("is not a plain absolute URI without a fragment and a user")
	case scheme == "https" && u.Host != "" && (origin == "" || transport.Origin(u) == origin):
		return nil
	case scheme == "https":
		return errors.New("is not on the origin of the document")
	case scheme == "http" && isLoopback(uri):
		return nil
	case scheme == "http":
		return errors.New("is http, which only a loopback address may be")
	case origin == "" && (slices.Contains(appSchemes, scheme) || strings.Contains(scheme, ".") && scheme == strings.ToLower(scheme) && u.Scheme == scheme):
		return nil
	}
	return errors.New("has a scheme that is not accepted")
}

// Bounds of what clients say about themselves.
const (
	mostURI       = 512 // bytes
	mostRedirects = 16
	mostName      = 100 // bytes
)

// odd reports whether a character has no place in a URI. Browsers and parsers read some of them in different ways.
func odd(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`\"<>^{|}`+"`", r) }

// loopbackHosts are the hosts of programs on the person's machine (RFC 8252 §7.3, and localhost, which clients use
// although §8.3 advises against it).
var loopbackHosts = [...]string{"http://127.0.0.1", "http://[::1]", "http://localhost"}

// splitLoopback splits a redirect URI to a loopback host into the host and what follows the port.
func splitLoopback(uri string) (host, rest string, ok bool) {
	for _, host := range loopbackHosts {
		rest, found := strings.CutPrefix(uri, host)
		if !found {
			continue
		}
		if port, is := strings.CutPrefix(rest, ":"); is {
			rest = strings.TrimLeft(port, "0123456789")
			if n := len(port) - len(rest); n == 0 || n > 5 {
				return "", "", false
			}
		}
		if rest == "" || rest[0] == '/' || rest[0] == '?' {
			return host, rest, true
		}
	}
	return "", "", false
}

func isLoopback(uri string) bool {
	_, _, ok := splitLoopback(uri)
	return ok
}

// isApp reports whether a redirect URI belongs to a program by its scheme.
func isApp(uri string) bool {
	return !strings.HasPrefix(uri, "https:") && !strings.HasPrefix(uri, "http:")
}

// allows reports whether a redirect URI is one of a client's: byte for byte, but on loopback with any port (RFC
// 8252 §7.3).
func (c *Client) allows(uri string) bool {
	host, rest, loopback := splitLoopback(uri)
	return slices.ContainsFunc(c.Redirects, func(has string) bool {
		if has == uri {
			return true
		}
		hasHost, hasRest, ok := splitLoopback(has)
		return loopback && ok && hasHost == host && hasRest == rest
	})
}

// withQuery adds parameters to a redirect URI, and keeps the query that it has (RFC 6749 §3.1.2).
func withQuery(uri string, more url.Values) string {
	sep := "?"
	if strings.Contains(uri, "?") {
		sep = "&"
	}
	return uri + sep + more.Encode()
}

// hostOf returns the host of a redirect URI, or the scheme of one that belongs to a program.
func hostOf(uri string) string {
	if isApp(uri) {
		scheme, _, _ := strings.Cut(uri, ":")
		return scheme + ":"
	}
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	return u.Host
}
