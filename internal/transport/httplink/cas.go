package httplink

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
)

// maxCAFile is the maximum size of a certificate file in bytes.
const maxCAFile = 4 << 20

// CAFileError means that a file of certificate authorities cannot be used.
type CAFileError struct {
	File string
	Err  error
}

func (e *CAFileError) Error() string {
	return fmt.Sprintf("the certificate file %q cannot be read: %s", e.File, failure.Reason(e.Err))
}

// Unwrap returns the cause.
func (e *CAFileError) Unwrap() error { return e.Err }

// DescribeFailure implements failure.Source.
func (e *CAFileError) DescribeFailure(f *failure.Facts) {
	if f.Class == "" {
		f.Class, f.Sentence, f.Action = failure.TLS, e.Error(), "use a file with certificates in PEM format"
	}
}

// LoadCAs returns the certificate authorities of the system together with those in a PEM file. If
// file is "", LoadCAs returns nil. Each error is a *CAFileError.
func LoadCAs(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	b, err := readFile(file)
	if err != nil {
		return nil, &CAFileError{file, err}
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(b) {
		return nil, &CAFileError{file, errors.New("the file contains no certificate in PEM format")}
	}
	return pool, nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxCAFile+1))
	if err == nil && len(b) > maxCAFile {
		err = errors.New("the file is too large")
	}
	return b, err
}

// Trust sets the certificate authorities that a transport trusts. If cas is nil, the transport
// trusts the authorities of the system.
func Trust(t *http.Transport, cas *x509.CertPool) {
	if cas != nil {
		t.TLSClientConfig = &tls.Config{RootCAs: cas, MinVersion: tls.VersionTLS12}
	}
}
