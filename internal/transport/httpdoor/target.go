package httpdoor

import (
	"net/http"
	"strings"
)

// Target is the URL that a request is for, as its client has typed it. It's a value, and making one allocates
// nothing, since each request needs it.
type Target struct {
	Scheme string // http or https
	Host   string // with the port, if the client has typed one
	Prefix string // the path of the public URL, without a slash at the end
	Dir    string // the path behind Prefix up to the last slash, without it
	Leaf   string // the last segment of the path; sse for messages, which clients learn from the stream
}

// Base returns the URL behind which our paths are.
func (t Target) Base() string { return t.Scheme + "://" + t.Host + t.Prefix }

// Path returns the path behind Base.
func (t Target) Path() string { return t.Dir + "/" + t.Leaf }

// Covers reports whether a URL with this scheme, host and path is the target's or that of a parent: the path is
// compared segment by segment and byte for byte, a slash at its end doesn't count, and neither does the case
// of scheme and host.
func (t Target) Covers(scheme, host, path string) bool {
	if !strings.EqualFold(scheme, t.Scheme) || !strings.EqualFold(host, t.Host) {
		return false
	}
	path = strings.TrimSuffix(path, "/")
	for _, part := range [...]string{t.Prefix, t.Dir} {
		if len(path) <= len(part) {
			return part[:len(path)] == path && (len(path) == len(part) || part[len(path)] == '/' || path == "")
		}
		if path[:len(part)] != part {
			return false
		}
		path = path[len(part):]
	}
	return path == "" || path[0] == '/' && path[1:] == t.Leaf
}

// TargetOf returns the target of a request whose Host the guard has accepted. public is that of the public URL,
// of which only Scheme, Host and Prefix are set. Without one (the zero value), the target is at the Host that
// the client has typed. What proxies say in headers plays no part.
func TargetOf(r *http.Request, public Target) Target {
	if public.Host == "" {
		public.Scheme, public.Host = "http", r.Host
		if r.TLS != nil {
			public.Scheme = "https"
		}
	}
	path := strings.TrimSuffix(r.URL.Path, "/")
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return public // the origin itself
	}
	public.Dir, public.Leaf = path[:i], path[i+1:]
	if public.Leaf == "messages" {
		public.Leaf = "sse"
	}
	return public
}
