package failure

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"
)

// TestCertificates checks what is said about certificates that are not accepted, and about refused TLS
// handshakes. The certificates are real ones, since the texts come from their contents.
func TestCertificates(t *testing.T) {
	day := func(year int) time.Time { return time.Date(year, 3, 5, 0, 0, 0, 0, time.UTC) }
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issue := func(c, parent *x509.Certificate) *x509.Certificate {
		c.SerialNumber = big.NewInt(1)
		if c.NotAfter.IsZero() {
			c.NotBefore, c.NotAfter = day(2020), day(2120)
		}
		if parent == nil {
			parent = c
		}
		raw, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		out, err := x509.ParseCertificate(raw)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	authority := issue(&x509.Certificate{Subject: pkix.Name{CommonName: "Our CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	trusted := x509.NewCertPool()
	trusted.AddCert(authority)
	named := func(names ...string) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: "h.example"}, DNSNames: names}
	}
	with := func(c *x509.Certificate, change func(*x509.Certificate)) *x509.Certificate { change(c); return c }
	refusal := func(c *x509.Certificate, host string) error {
		_, err := c.Verify(x509.VerifyOptions{DNSName: host, Roots: trusted})
		if err == nil {
			t.Fatalf("%v is accepted", c.Subject)
		}
		return &tls.CertificateVerificationError{UnverifiedCertificates: []*x509.Certificate{c}, Err: err}
	}
	remote := func(text string) error { return &net.OpError{Op: "remote error", Err: errors.New("tls: " + text)} }
	const bad = `the TLS certificate of server "gh" is not valid: `
	for _, tt := range []struct {
		err              error
		sentence, action string
	}{
		{refusal(issue(named("h.example"), nil), "h.example"), bad + "it is self-signed",
			"if you trust it, save it to a file and set --cacert FILE"},
		{refusal(issue(named("h.example"), issue(&x509.Certificate{Subject: pkix.Name{CommonName: "Their \x1bCA"}, IsCA: true, BasicConstraintsValid: true}, nil)), "h.example"),
			bad + `it is signed by "Their CA", an authority that this machine does not know`, "if you trust this authority, add its certificate with --cacert FILE"},
		{x509.UnknownAuthorityError{}, bad + "it is signed by an authority that this machine does not know", "if you trust this authority, add its certificate with --cacert FILE"},
		{errors.New("x509: “h.example” certificate is not trusted"), bad + "it is signed by an authority that this machine does not know", "if you trust this authority, add its certificate with --cacert FILE"},
		{refusal(issue(named("a.example", "b.example"), authority), "h.example"), bad + "it was issued for a.example and b.example, and not for h.example",
			"use a host name that the certificate contains, or issue a certificate with the subject alternative name DNS:h.example"},
		{refusal(issue(named("a", "b", "c", "d", "e"), authority), "h.example"), bad + "it was issued for a, b, c and 2 more names, and not for h.example",
			"use a host name that the certificate contains, or issue a certificate with the subject alternative name DNS:h.example"},
		{refusal(issue(named("h.example"), authority), "127.0.0.1"), bad + "it was issued for h.example, and not for 127.0.0.1",
			"use a host name that the certificate contains, or issue a certificate with the subject alternative name IP:127.0.0.1"},
		{refusal(issue(named(), authority), "h.example"), bad + "it contains no subject alternative name (SAN), and its common name does not count",
			"issue a certificate with the subject alternative name DNS:h.example"},
		{refusal(issue(with(named("h.example"), func(c *x509.Certificate) { c.NotBefore, c.NotAfter = day(2020), day(2021) }), authority), "h.example"),
			bad + "it expired on 2021-03-05", "renew the certificate of the server, or correct the clock of this machine"},
		{refusal(issue(with(named("h.example"), func(c *x509.Certificate) { c.NotBefore, c.NotAfter = day(2120), day(2121) }), authority), "h.example"),
			bad + "it is valid only from 2120-03-05", "correct the clock of this machine, or issue another certificate"},
		{refusal(issue(with(named("h.example"), func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), authority), "h.example"),
			bad + "it was not issued for servers", "issue a certificate with the extended key usage serverAuth"},
		{x509.CertificateInvalidError{Reason: x509.TooManyIntermediates}, bad + "its chain of authorities is not valid", "issue another certificate for the server, and check which certificates the server sends with it"},
		{remote("certificate required"), `server "gh" refused the TLS handshake, because it wants a client certificate, and Dragoman has none`, "let the server accept clients without a certificate, for example with a token"},
		{remote("protocol version not supported"), `server "gh" refused the TLS handshake, because it supports neither TLS 1.2 nor 1.3`, "update the server or its TLS settings"},
		{remote("unrecognized name"), `server "gh" refused the TLS handshake, because it does not know the host name "h.example"`, "correct the host name in the URL"},
		{remote("internal error"), `the TLS handshake with server "gh" failed: "internal error"`, "check that the URL is right, and read the log of the server"},
		{errors.New("tls: server selected unsupported curve"), `the TLS handshake with server "gh" failed: "server selected unsupported curve"`, "check that the URL is right, and read the log of the server"},
	} {
		f := Of(fmt.Errorf("could not send: %w", tt.err), Facts{Server: "gh", Given: true, Cause: "unreachable", Address: "https://h.example/x"})
		if f.Class != TLS || f.Sentence != tt.sentence || f.Action != tt.action {
			t.Errorf("%v\n got %s: %s; %s\nwant %s: %s; %s", tt.err, f.Class, f.Sentence, f.Action, TLS, tt.sentence, tt.action)
		}
	}
}
