package httpdoor

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Certificate is a certificate with its key for TLS, from two PEM files. It is safe for concurrent use.
type Certificate struct {
	certFile, keyFile string
	pair              atomic.Pointer[tls.Certificate]
}

// CertificateError says why the files of a Certificate can't be used.
type CertificateError struct {
	Text string // a sentence without a full stop that begins with a small letter
	Next string // what to do, in the same form
	Key  bool   // it is about the file with the key
	err  error
}

func (e *CertificateError) Error() string { return e.Text }

func (e *CertificateError) Unwrap() error { return e.err }

// LoadCertificate reads a certificate and its key. The error is a *CertificateError.
func LoadCertificate(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	if err := c.Load(); err != nil {
		return nil, err
	}
	return c, nil
}

// Load reads the files again. If they can't be used, it returns a *CertificateError, and the certificate
// stays as it was.
func (c *Certificate) Load() error {
	cert, err := readPEM("certificate", c.certFile, false)
	if err != nil {
		return err
	}
	key, err := readPEM("key", c.keyFile, true)
	if err != nil {
		return err
	}
	name, keyName := strconv.Quote(c.certFile), strconv.Quote(c.keyFile)
	block := find(cert, func(kind string) bool { return kind == "CERTIFICATE" })
	if block == nil {
		return &CertificateError{Text: name + " has no certificate", Next: "name the PEM file that begins with -----BEGIN CERTIFICATE-----"}
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return &CertificateError{Text: "the certificate in " + name + " is damaged", Next: "get it again from whoever has issued it", err: err}
	}
	if err := checkKey(key, keyName); err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil { // each of the two is good
		return &CertificateError{Text: "the key in " + keyName + " does not belong to the certificate in " + name, Next: "name two files that were made together", Key: true, err: err}
	}
	switch now := time.Now(); {
	case now.After(leaf.NotAfter):
		return &CertificateError{Text: "the certificate in " + name + " expired on " + leaf.NotAfter.UTC().Format(time.DateOnly), Next: "renew it"}
	case now.Before(leaf.NotBefore):
		return &CertificateError{Text: "the certificate in " + name + " is valid only from " + leaf.NotBefore.UTC().Format(time.DateTime) + " UTC", Next: "check the clock of this machine"}
	}
	c.pair.Store(&pair)
	return nil
}

// Exposed returns why the file with the key should be protected better, or "" if only its owner can read it.
func (c *Certificate) Exposed() (text, next string) {
	info, err := os.Stat(c.keyFile)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o004 == 0 {
		return "", ""
	}
	return "every user of this machine can read the key in " + strconv.Quote(c.keyFile), "run chmod o-r on it"
}

// Config returns the settings of a TLS server that always shows the certificate that was loaded last.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Load(), nil },
	}
}

// mostPEM is the maximum size in bytes of a PEM file.
const mostPEM = 1 << 20

// readPEM reads a file. what names what is in it.
func readPEM(what, path string, key bool) ([]byte, error) {
	shown := "the file " + strconv.Quote(path) + " with the " + what
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &CertificateError{Text: shown + " does not exist", Next: "write its path into dragoman.tls", Key: key, err: err}
	case err == nil && (!info.Mode().IsRegular() || info.Size() > mostPEM):
		return nil, &CertificateError{Text: strconv.Quote(path) + " is no file with a " + what, Next: "name a PEM file", Key: key}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, &CertificateError{Text: shown + " cannot be read: " + err.Error(), Next: "let the user who starts dragoman read it", Key: key, err: err}
	}
	return b, nil
}

// checkKey returns a *CertificateError if a PEM file has no key that we can read. name is the quoted name of the
// file.
func checkKey(text []byte, name string) error {
	block := find(text, func(kind string) bool { return strings.HasSuffix(kind, "PRIVATE KEY") })
	switch {
	case block == nil:
		return &CertificateError{Text: name + " has no key", Next: "name the PEM file that has -----BEGIN PRIVATE KEY-----", Key: true}
	case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
		return &CertificateError{Text: "the key in " + name + " needs a password", Next: "write it without one: openssl pkey -in OLD -out NEW", Key: true}
	}
	_, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		_, err = x509.ParseECPrivateKey(block.Bytes)
	}
	if err != nil {
		_, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	}
	if err != nil {
		return &CertificateError{Text: "the key in " + name + " is damaged, or of a kind that we don't know", Next: "use an ECDSA, RSA or Ed25519 key", Key: true, err: err}
	}
	return nil
}

// find returns the first block of a PEM file that is of a kind, or nil.
func find(text []byte, is func(kind string) bool) *pem.Block {
	for {
		block, rest := pem.Decode(text)
		if block == nil || is(block.Type) {
			return block
		}
		text = rest
	}
}
