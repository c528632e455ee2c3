package cli

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWrongScheme checks that a URL with the wrong scheme is named as the fault, also if the server only
// ends the connection, as most programs but Go's do when they get plain HTTP at a TLS port.
func TestWrongScheme(t *testing.T) {
	u := newUser(t)
	secure, plain := httptest.NewUnstartedServer(http.NotFoundHandler()), httptest.NewServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are expected
	secure.StartTLS()
	defer secure.Close()
	defer plain.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 1)
			if _, err := c.Read(b); err == nil && b[0] == 0x16 { // a TLS handshake
				_ = tls.Server(first{c, b}, secure.TLS).Handshake()
			}
			_ = c.Close()
		}
	}()
	defer func() {
		_ = l.Close()
		<-done
	}()
	closes := l.Addr().String()
	for _, c := range []struct{ url, want string }{
		{"http://" + closes + "/mcp?token=s3cr3t", "https at this port, but its URL begins with http\n"},
		{strings.Replace(secure.URL, "https", "http", 1), "https at this port, but its URL begins with http\n"},
		{strings.Replace(plain.URL, "http", "https", 1), "http at this port, but its URL begins with https\n"},
	} {
		for _, verb := range []string{"list", "doctor"} {
			_, out, said := u.run(verb, c.url)
			if !strings.Contains(out+said, c.want) || strings.Contains(out+said, "s3cr3t") || strings.Contains(said, "got could not") {
				t.Errorf("%s %s:\n%s%s", verb, c.url, out, said)
			}
		}
	}
}

// first is a connection of which the bytes b were read already.
type first struct {
	net.Conn
	b []byte
}

func (f first) Read(p []byte) (int, error) {
	if f.b[0] != 0 {
		n := copy(p, f.b)
		f.b[0] = 0
		return n, nil
	}
	return f.Conn.Read(p)
}
