package registry

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// The grammars of names and versions. A version must be exact: a tag such as next, or a range such
// as ^1.2 or 1.x, would run something else tomorrow.
var (
	serverName = pattern.Later(`^[a-zA-Z0-9][a-zA-Z0-9.-]*/[a-zA-Z0-9._-]+$`) // server.json, name

	npmName = pattern.Later(`^(?:@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*$`)
	semver  = pattern.Later(`^\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?$`)

	pypiName    = pattern.Later(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$`)        // PEP 508
	pypiVersion = pattern.Later(`^(?:\d+!)?\d+(?:[._-]?[a-z0-9]+)*(?:\+[a-z0-9.]+)?$`) // PEP 440

	nugetName    = pattern.Later(`^[A-Za-z0-9_]+(?:[.-][A-Za-z0-9_]+)*$`)
	nugetVersion = pattern.Later(`^\d+(?:\.\d+){1,3}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?$`)

	imageHost = pattern.Later(`^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{1,5})?$`)
	imagePath = pattern.Later(`^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*$`)
	imageTag  = pattern.Later(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	digest    = pattern.Later(`^sha256:[a-f0-9]{64}$`)

	sha256Sum = pattern.Later(`^[a-f0-9]{64}$`)
	variable  = pattern.Later(`^[A-Za-z_][A-Za-z0-9_]*$`)
	header    = pattern.Later("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$") // RFC 9110, section 5.6.2
)

// These bound names, in bytes.
const (
	maxServerName = 200 // server.json, name
	maxPackage    = 214 // npm; the others allow less or do not say
	maxVersion    = 128
)

// IsName reports whether name can be the name of a server in a registry, such as
// io.github.owner/name.
func IsName(name string) bool { return badServerName(name) == "" }

// badServerName returns the problem with a name, or "".
func badServerName(name string) string {
	switch namespace, _, _ := strings.Cut(name, "/"); {
	case len(name) > maxServerName:
		return "is longer than 200 characters"
	case !serverName().MatchString(name), !strings.Contains(namespace, "."), strings.Contains(name, ".."):
		return "must have the form reverse.dns/name"
	}
	return ""
}

// badURL returns the problem with a URL, or "". It reads like the rest of a sentence about the URL.
func badURL(u *url.URL) string {
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return "is not an https URL"
	case u.Hostname() == "" || u.Opaque != "":
		return "has no host"
	case u.User != nil:
		return "contains credentials"
	case u.Scheme == "http" && !transport.IsLoopback(u.Hostname()):
		return "is not encrypted: http is only for this machine"
	}
	return ""
}

// badText returns the problem with a text that becomes an argument or a value, or "".
func badText(s string) string {
	switch {
	case len(s) > maxText:
		return "is longer than 4 KiB"
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "contains a control character"
	}
	return ""
}

// image is a reference to a container image.
type image struct {
	host string // "" for Docker Hub
	path string
	tag  string // with : or @ before it
}

// parseImage parses a reference. ok is false if the reference does not match the grammar of
// github.com/distribution/reference.
func parseImage(s string) (i image, ok bool) {
	rest, sum, pinned := strings.Cut(s, "@")
	if pinned && !digest().MatchString(sum) {
		return i, false
	}
	if at := strings.LastIndexByte(rest, ':'); at > strings.LastIndexByte(rest, '/') {
		if !imageTag().MatchString(rest[at+1:]) {
			return i, false
		}
		rest, i.tag = rest[:at], rest[at:]
	}
	if pinned {
		i.tag += "@" + sum
	}
	if first, path, more := strings.Cut(rest, "/"); more && (strings.ContainsAny(first, ".:") || first == "localhost") {
		if !imageHost().MatchString(first) {
			return i, false
		}
		i.host, rest = first, path
	}
	for part := range strings.SplitSeq(rest, "/") {
		if !imagePath().MatchString(part) {
			return i, false
		}
	}
	i.path = rest
	return i, true
}

// String returns the reference as docker takes it.
func (i image) String() string {
	if i.host == "" {
		return i.path + i.tag
	}
	return i.host + "/" + i.path + i.tag
}

// trustedImageHosts are the container registries that the official registry accepts. A name that
// starts with a dot stands for all hosts below it.
var trustedImageHosts = []string{"docker.io", "ghcr.io", "mcr.microsoft.com", ".pkg.dev", ".azurecr.io"}

// trusted reports whether the image is in one of trustedImageHosts.
func (i image) trusted() bool {
	for _, h := range trustedImageHosts {
		if i.host == "" || i.host == h || h[0] == '.' && strings.HasSuffix(i.host, h) {
			return true
		}
	}
	return false
}
