package signin

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/team/egress"
)

// TestNearByOwnAuthority checks that a server whose certificate comes from the authority in its caFile counts as being as
// near as it is. Otherwise an issuer beside it could not be asked.
func TestNearByOwnAuthority(t *testing.T) {
	web := httptest.NewTLSServer(http.NotFoundHandler()) // its certificate is for example.com
	defer web.Close()
	d := New(Options{Egress: egress.New(egress.Options{
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
	})})
	defer d.Close()
	pool := x509.NewCertPool()
	pool.AddCert(web.Certificate())
	address := "https://example.com:" + web.URL[strings.LastIndexByte(web.URL, ':')+1:] + "/mcp"
	for want, cas := range map[egress.Nearness]func() *x509.CertPool{
		egress.Loopback: func() *x509.CertPool { return pool },
		egress.Public:   nil, // nobody has proved that it's here
	} {
		s, err := d.Server("default", want.String(), address, Settings{CAs: cas})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.near(t.Context()); got != want || err != nil {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}
