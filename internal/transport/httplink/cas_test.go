package httplink

import (
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
)

// TestCAs checks that a server is trusted if a certificate authority in the file has signed its
// certificate. Without the file, the server is not trusted.
func TestCAs(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(file, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	get := func(file string) error {
		cas, err := LoadCAs(file)
		if err != nil {
			return err
		}
		l, err := New(s.URL, Options{CAs: cas})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		r, err := l.Send(t.Context(), "GET", l.NewHeader(0), nil)
		if err == nil {
			if r.ProtoMajor != 2 {
				t.Errorf("the protocol is %s", r.Proto)
			}
			r.Close()
		}
		return err
	}
	if err := get(file); err != nil {
		t.Errorf("with the authority the request got %v", err)
	}
	if err := get(""); err == nil || failure.Of(err, failure.Facts{}).Class != failure.TLS {
		t.Errorf("without the authority the request got %v", err)
	}
}

func TestBadCAFiles(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, []byte("no certificate\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		empty:                        "the file contains no certificate in PEM format",
		filepath.Join(dir, "absent"): "no such file",
		dir:                          "directory",
	} {
		_, err := LoadCAs(file)
		var bad *CAFileError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "cannot") {
			t.Errorf("%s: %v", file, err)
		}
		if f := failure.Of(err, failure.Facts{Server: "x"}); f.Class != failure.TLS || !strings.Contains(f.Sentence, filepath.Base(file)) {
			t.Errorf("%s: %+v", file, f)
		}
	}
}
