// Package certtest makes certificates for tests.
//
// Each one has issued itself, so a client has to trust it by name; none is for anything but this
// machine and mcp.example.com. The key lies in a file beside it, as operators have it. What is
// wrong with a certificate in a test, such as its dates, is up to the test. The package imports
// testing, so only tests may import it.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"testing"
	"time"
)

// Write writes a new certificate that has issued itself, and its key, to two files. It's for this machine and for
// mcp.example.com, and valid from a time before now until a time after it, which may be negative.
func Write(t testing.TB, cert, key string, before, after time.Duration) *x509.Certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "test"}, NotBefore: now.Add(-before), NotAfter: now.Add(after), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"localhost", "mcp.example.com"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
