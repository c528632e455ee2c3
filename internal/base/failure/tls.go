package failure

import (
	"bytes"
	"crypto/x509"
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// tls describes a TLS handshake that failed. The texts of Go's libraries stand in the evidence only.
func (f *Facts) tls(err error) saying {
	var (
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	s := saying{sentence: "the TLS certificate of " + f.who() + " is not valid: "}
	why := ""
	switch text := innermost(err, "x509: "); {
	case errors.As(err, &host):
		why, s.action = f.otherHost(host)
	case errors.As(err, &invalid):
		why, s.action = unusableCertificate(invalid)
	case errors.As(err, &unknown), strings.Contains(text, "unknown authority"), strings.Contains(text, "not trusted"):
		why, s.action = f.unknownAuthority(unknown.Cert)
	case text != "":
		_, why, _ = strings.Cut(text, "x509: ")
		s.action = "issue another certificate for the server"
	default:
		return f.handshake(innermost(err, "tls: "))
	}
	s.sentence += why
	return s
}

// unknownAuthority says who has signed a certificate. c is nil if it is not known.
func (f *Facts) unknownAuthority(c *x509.Certificate) (why, action string) {
	flag := f.add("--cacert FILE", "caFile: FILE")
	if c != nil && bytes.Equal(c.RawIssuer, c.RawSubject) {
		return "it is self-signed", "if you trust it, save it to a file and set " + flag
	}
	why = "it is signed by "
	if c != nil && c.Issuer.CommonName != "" {
		why += strconv.Quote(f.say(c.Issuer.CommonName, 80)) + ", "
	}
	return why + "an authority that this machine does not know", "if you trust this authority, add its certificate with " + flag
}

// otherHost says for which hosts a certificate was issued. Only subject alternative names count (RFC 9525
// §2).
func (f *Facts) otherHost(e x509.HostnameError) (why, action string) {
	kind := "DNS:"
	if _, err := netip.ParseAddr(e.Host); err == nil {
		kind = "IP:"
	}
	action = "issue a certificate with the subject alternative name " + kind + e.Host
	var names []string
	if e.Certificate != nil {
		names = append(names, e.Certificate.DNSNames...)
		for _, a := range e.Certificate.IPAddresses {
			names = append(names, a.String())
		}
	}
	if len(names) == 0 {
		return "it contains no subject alternative name (SAN), and its common name does not count", action
	}
	for i := range names {
		names[i] = f.say(names[i], 80)
	}
	if n := len(names) - 3; n > 1 {
		names = append(names[:3], strconv.Itoa(n)+" more names")
	}
	list := names[0]
	if last := len(names) - 1; last > 0 {
		list = strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return "it was issued for " + list + ", and not for " + e.Host, "use a host name that the certificate contains, or " + action
}

// unusableCertificate says why a certificate is refused that has the right name.
func unusableCertificate(e x509.CertificateInvalidError) (why, action string) {
	switch {
	case e.Reason == x509.Expired && e.Cert != nil && strings.Contains(e.Detail, "is before"):
		return "it is valid only from " + e.Cert.NotBefore.Format(time.DateOnly), "correct the clock of this machine, or issue another certificate"
	case e.Reason == x509.Expired && e.Cert != nil:
		return "it expired on " + e.Cert.NotAfter.Format(time.DateOnly), "renew the certificate of the server, or correct the clock of this machine"
	case e.Reason == x509.IncompatibleUsage:
		return "it was not issued for servers", "issue a certificate with the extended key usage serverAuth"
	}
	return "its chain of authorities is not valid", "issue another certificate for the server, and check which certificates the server sends with it"
}

// handshake describes a handshake that failed for another reason than the server's certificate. text is
// the text of package crypto/tls, or "".
func (f *Facts) handshake(text string) saying {
	_, text, _ = strings.Cut(text, "tls: ")
	refused := f.who() + " refused the TLS handshake, because it "
	switch text {
	case "certificate required", "bad certificate":
		return saying{sentence: refused + "wants a client certificate, and Dragoman has none", action: "let the server accept clients without a certificate, for example with a token"}
	case "protocol version not supported":
		return saying{sentence: refused + "supports neither TLS 1.2 nor 1.3", action: "update the server or its TLS settings"}
	case "unrecognized name":
		host := ""
		if u, err := url.Parse(f.Address); err == nil {
			host = " " + strconv.Quote(u.Hostname())
		}
		return saying{sentence: refused + "does not know the host name" + host, action: "correct the host name in the URL"}
	}
	s := saying{sentence: "the TLS handshake with " + f.who() + " failed", action: "check that the URL is right, and read the log of the server"}
	if text != "" {
		s.sentence += said(f.say(text, maxQuoted))
	}
	return s
}

// innermost searches the chain of err for errors whose text contains the string word, and returns
// the text of the innermost one. It returns "" if no such error exists.
func innermost(err error, word string) (text string) {
	for ; err != nil; err = errors.Unwrap(err) {
		if t := err.Error(); strings.Contains(t, word) {
			text = t
		}
		if several, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range several.Unwrap() {
				if t := innermost(e, word); t != "" {
					return t
				}
			}
		}
	}
	return text
}
