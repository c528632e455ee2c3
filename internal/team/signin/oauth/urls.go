package oauth

import (
	"errors"
	"net/url"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Covers reports whether resource, an absolute URL, is the server's URL or a parent of it: the same
// origin, and a path that the server's path begins with, segment by segment. A slash at the end doesn't
// count. RFC 9728 §3.3 wants them identical; the field publishes origins, and AU §Canonical Server URI calls
// both valid.
func Covers(resource, server string) bool {
	r, err1 := parseURL(resource)
	s, err2 := parseURL(server)
	if err1 != nil || err2 != nil || transport.Origin(r) != transport.Origin(s) {
		return false
	}
	parent, path := strings.TrimSuffix(r.EscapedPath(), "/"), strings.TrimSuffix(s.EscapedPath(), "/")
	switch {
	case r.RawQuery != "" && r.RawQuery != s.RawQuery:
		return false
	case parent == path:
		return true
	}
	// What a path with dots means depends on who resolves it.
	return !dotted(s.Path) && strings.HasPrefix(path, parent+"/")
}

func dotted(path string) bool {
	return strings.Contains(path+"/", "/./") || strings.Contains(path+"/", "/../")
}

// Canonical returns the URL of a server as the identifier that we send when no metadata names one: lower
// case scheme and host, no default port, no user, no fragment, no slash as the only path (AU §Canonical
// Server URI).
func Canonical(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", errors.New("the server's URL is not valid")
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	if _, err = parseURL(u.String()); err != nil {
		return "", err
	}
	path := u.EscapedPath()
	if path == "/" {
		path = ""
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return transport.Origin(u) + path, nil
}

// parseURL reads an absolute http or https URL in printable ASCII, without user and fragment.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case len(s) > 2048:
		return nil, errors.New("it is longer than 2,048 characters")
	case err != nil, u.Host == "", u.Hostname() == "", u.Opaque != "":
		return nil, errors.New("it is not an absolute URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("it is neither an https nor an http URL")
	case u.User != nil:
		return nil, errors.New("it has a user name")
	case u.Fragment != "" || strings.Contains(s, "#"):
		return nil, errors.New("it has a fragment")
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return nil, errors.New("it has characters that don't belong into a URL")
	}
	return u, nil
}

// pageURL reads the URL of a page for a browser. It has nothing that could mean something to a shell, though
// none should ever see it: $(…), quotes, pipes (TA28).
func pageURL(s string) (*url.URL, error) {
	u, err := parseURL(s)
	if err == nil && strings.ContainsAny(s, "\"$'();<>\\^`{|}") {
		err = errors.New("it has characters that mean something to a shell")
	}
	return u, err
}

// wellKnown returns the well-known URL that inserts a name between the host of u and its path (RFC 8414
// §3.1, RFC 9728 §3.1).
func wellKnown(u *url.URL, name, path string) string {
	w := url.URL{Scheme: u.Scheme, Host: u.Host}
	return w.String() + "/.well-known/" + name + path
}

// show makes a URL of a peer safe to print.
func show(s string) string { return excerpt.Word(s, 200) }
