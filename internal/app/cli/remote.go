package cli

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// keyVariable is the environment variable with the API key for --url. There's no flag for it, since other users of
// this machine can see a command's arguments, and shells remember them.
const keyVariable = "DRAGOMAN_KEY"

// remote returns the serve process at the URL of --url, which gets the API key in DRAGOMAN_KEY. Only loopback
// addresses may do without TLS.
func (l locator) remote(f *runningFlags) (*running, error) {
	if f.listen != "" || f.file != "" {
		return nil, usagef("use --url alone", "--url already says which `dragoman serve` to use")
	}
	base, err := l.env.serveAddress(f.url, "")
	if err != nil {
		return nil, usagef("use a URL such as https://mcp.example.com", "%q is not the URL of a `dragoman serve`", withoutUser(f.url))
	}
	u, _ := url.Parse(base) // as serveAddress has made it
	key, _ := l.env(keyVariable)
	switch {
	case u.Scheme == "http" && !transport.IsLoopback(u.Hostname()):
		return nil, usagef("use https://, so that nobody on the way can read the key", "%q has no TLS", base)
	case key == "":
		return nil, usagef("set "+keyVariable+" to an API key; an admin makes one with `dragoman keys add NAME --role ROLE`", "--url needs the environment variable %s", keyVariable)
	case !access.IsKey(key):
		return nil, usagef("copy the whole key again; it begins with drgk_", "the text in %s is not an API key", keyVariable)
	}
	s, err := l.runningAt(base)
	if err != nil {
		return nil, err
	}
	s.key = key
	s.http.Transport.(*http.Transport).Proxy = http.ProxyFromEnvironment
	return s, nil
}

// withoutUser returns a URL without what may be a password in front of its host.
func withoutUser(text string) string {
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		if i := strings.LastIndexByte(rest, '@'); i >= 0 {
			return scheme + "://" + rest[i+1:]
		}
	}
	return text
}

// unverified makes s accept any certificate. It must not get a key then, except at a loopback address, where
// nobody can listen in.
func (s *running) unverified() {
	s.tls = true
	s.http.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
}

// unreachable returns the error for a request to --url that got no answer.
func (s *running) unreachable(err error) error {
	var wrapped *url.Error // its text repeats the URL
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var untrusted x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var plain tls.RecordHeaderError
	var dns *net.DNSError
	switch {
	case errors.As(err, &untrusted):
		return &absentError{"nobody whom this machine trusts has issued the certificate of " + s.address, trust()}
	case errors.As(err, &name):
		return &absentError{"the certificate of " + s.address + " is for another name", "use a URL with the name in the certificate"}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return &absentError{"the certificate of " + s.address + " has expired or is not valid yet", "renew it, or check the clock of this machine"}
	case errors.As(err, &plain), errors.Is(err, http.ErrSchemeMismatch):
		hint := "check the URL"
		if host, _, _ := net.SplitHostPort(s.address); transport.IsLoopback(host) {
			hint = "use http:// in the URL"
		}
		return &absentError{"the program at " + s.address + " does not speak TLS", hint}
	case errors.As(err, &dns):
		return &absentError{"there is no host " + dns.Name, "check the URL"}
	}
	return &absentError{"no `dragoman serve` answers at " + s.address + ": " + clean(failure.Reason(err)), "check the URL and the network"}
}

// trust returns how this machine comes to trust a certificate.
func trust() string {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		return "if it is yours, add its issuer to the certificates of this system"
	}
	return "if it is yours, set SSL_CERT_FILE to a PEM file with the certificate of its issuer"
}

// refusedKey returns the error of a problem, if it is about the key in DRAGOMAN_KEY.
func (s *running) refusedKey(p *problemError, detail string) error {
	if s.key == "" {
		return p
	}
	switch p.kind {
	case "credential", "no-access", "wrong-key":
		p.text = s.address + " does not accept the key in " + keyVariable + ": " + lowerFirst(cmp.Or(detail, p.text))
	case "no-such-project":
		return usagef("check the name; a key works only in its own project", "%s", p.text) // as without --url
	case "role":
		why, _, _ := strings.Cut(lowerFirst(detail), ". ") // what a person could do comes next
		p.text, p.hint = "the role of the key in "+keyVariable+" does not suffice: "+why, "use a key with this role; a key works only in its own project"
	}
	return p
}
