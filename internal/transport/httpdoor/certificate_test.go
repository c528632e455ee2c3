package httpdoor

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/certtest"
)

// makePair writes a certificate with its key that is valid for a time around now, and returns the paths.
func makePair(t *testing.T, from, until time.Duration) (cert, key string) {
	t.Helper()
	folder := t.TempDir()
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	certtest.Write(t, cert, key, -from, until)
	return cert, key
}

// TestBadCertificates checks what people are told about files that can't be used. None of them replaces the pair
// in force.
func TestBadCertificates(t *testing.T) {
	cert, key := makePair(t, -time.Hour, time.Hour)
	otherCert, otherKey := makePair(t, -time.Hour, time.Hour)
	oldCert, oldKey := makePair(t, -48*time.Hour, -24*time.Hour)
	newCert, newKey := makePair(t, time.Hour, 2*time.Hour)
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	closed := write("closed.pem", "x")
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	_, closedErr := os.ReadFile(closed)
	yesterday := time.Now().Add(-24 * time.Hour).UTC().Format(time.DateOnly)
	for name, c := range map[string]struct{ cert, key, text, next string }{
		"missing":        {filepath.Join(folder, "none.pem"), key, `the file "FOLDER/none.pem" with the certificate does not exist`, "write its path into dragoman.tls"},
		"missing key":    {cert, filepath.Join(folder, "none.pem"), `the file "FOLDER/none.pem" with the key does not exist`, "write its path into dragoman.tls"},
		"a folder":       {folder, key, `"FOLDER" is no file with a certificate`, "name a PEM file"},
		"unreadable":     {cert, closed, `the file "FOLDER/closed.pem" with the key cannot be read: permission denied`, "let the user who starts dragoman read it"},
		"no certificate": {write("a.pem", "hello"), key, `"FOLDER/a.pem" has no certificate`, "name the PEM file that begins with -----BEGIN CERTIFICATE-----"},
		"damaged":        {write("b.pem", "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n"), key, `the certificate in "FOLDER/b.pem" is damaged`, "get it again from whoever has issued it"},
		"no key":         {cert, write("c.pem", "hello"), `"FOLDER/c.pem" has no key`, "name the PEM file that has -----BEGIN PRIVATE KEY-----"},
		"damaged key":    {cert, write("d.pem", "-----BEGIN PRIVATE KEY-----\naGVsbG8=\n-----END PRIVATE KEY-----\n"), `the key in "FOLDER/d.pem" is damaged, or of a kind that we don't know`, "use an ECDSA, RSA or Ed25519 key"},
		"password":       {cert, write("e.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\naGVsbG8=\n-----END ENCRYPTED PRIVATE KEY-----\n"), `the key in "FOLDER/e.pem" needs a password`, "write it without one: openssl pkey -in OLD -out NEW"},
		"mismatch":       {cert, otherKey, `the key in "` + otherKey + `" does not belong to the certificate in "` + cert + `"`, "name two files that were made together"},
		"expired":        {oldCert, oldKey, `the certificate in "` + oldCert + `" expired on ` + yesterday, "renew it"},
		"too early":      {newCert, newKey, `the certificate in "` + newCert + `" is valid only from `, "check the clock of this machine"},
	} {
		if name == "unreadable" && closedErr == nil {
			continue // this user may read everything
		}
		good, err := LoadCertificate(otherCert, otherKey)
		if err != nil {
			t.Fatal(err)
		}
		before := good.pair.Load()
		good.certFile, good.keyFile = c.cert, c.key
		err = good.Load()
		var bad *CertificateError
		if !errors.As(err, &bad) || !strings.HasPrefix(bad.Text, strings.ReplaceAll(c.text, "FOLDER", folder)) || bad.Next != c.next {
			t.Errorf("%s: %+v", name, err)
		}
		if good.pair.Load() != before {
			t.Errorf("%s: the certificate was replaced", name)
		}
	}
	c, err := LoadCertificate(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := c.Exposed(); text != "" {
		t.Error(text)
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	if text, _ := c.Exposed(); (text == "") != (runtime.GOOS == "windows") {
		t.Errorf("a key that everybody can read: %q", text)
	}
	if o := c.Config(); o.MinVersion != tls.VersionTLS12 {
		t.Errorf("TLS %x", o.MinVersion)
	}
}
