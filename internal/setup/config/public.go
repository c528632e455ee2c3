package config

import (
	"net/url"
	"strings"
)

// CheckHost returns the problem with a value for allowedHosts, or nil.
func CheckHost(host string) *Problem {
	if bad := badHost(host); bad != "" {
		return &Problem{Text: "\"" + printable(host) + "\" " + bad, Hint: "write a host name; add :port to allow only one port"}
	}
	return nil
}

// badPublicURL returns the problem with a value for publicURL, and a hint on how to fix the value. Both
// are "" if the value is valid.
func badPublicURL(text string) (bad, hint string) {
	const form = "write https://host or https://host/path, as clients see it"
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "is not a URL", form
	case u.Scheme != "http" && u.Scheme != "https":
		return "must begin with http:// or https://", form
	case u.Hostname() == "" || badHost(strings.ToLower(u.Host)) != "":
		return "has no valid host", form
	case u.User != nil, u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return "must have only a scheme, a host and a path", form
	}
	for i, part := range strings.Split(strings.Trim(u.Path, "/"), "/") {
		switch {
		case part == "" && strings.Trim(u.Path, "/") == "":
		case part == "" || strings.Trim(part, ".") == "" || strings.ContainsFunc(part, func(r rune) bool { return r > 0x7f || !isNameByte(byte(r)) && r != '~' }):
			return "has a path with characters that are not allowed", "use only letters, digits, _, - and . between the slashes"
		case i == 0 && (part == "s" || part == "p" || part == "api"):
			return "begins with /" + part + ", which is a path of Dragoman itself", "use another path prefix at the proxy"
		}
	}
	for _, leaf := range []string{"/mcp", "/sse"} {
		if strings.HasSuffix(strings.TrimRight(u.Path, "/"), leaf) {
			return "is the URL of an endpoint", "remove " + leaf + ": clients connect to publicURL + " + leaf
		}
	}
	return "", ""
}

// PublicPath returns the path of PublicURL, without a slash at the end; "" for none.
func (s *Snapshot) PublicPath() string {
	u, err := url.Parse(s.PublicURL)
	if err != nil {
		return ""
	}
	return u.Path
}

// PublicHost returns the host of PublicURL without the port, in lower case. It also returns the
// origin in the form in which browsers send it. Both results are "" if there is no PublicURL.
func (s *Snapshot) PublicHost() (host, origin string) {
	u, err := url.Parse(s.PublicURL)
	if err != nil || u.Host == "" {
		return "", ""
	}
	host = strings.ToLower(strings.TrimSuffix(u.Host, ":"+u.Port()))
	port := u.Port()
	if port == "" || u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443" {
		return host, u.Scheme + "://" + host
	}
	return host, u.Scheme + "://" + host + ":" + port
}
