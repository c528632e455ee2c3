package signin

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
)

// TestTA26_NobodyIsSentNearer publishes sign-in pages for a server on the internet. People aren't sent to one in their own
// network, and to any other they are.
func TestTA26_NobodyIsSentNearer(t *testing.T) {
	for page, want := range map[string]string{
		"https://example.com/authorize": "", "https://elsewhere.example/authorize": "", "https://unknown.example/authorize": "",
		"https://router.example/authorize": "router.example/authorize lies in a private network", "https://192.168.1.1/authorize": "192.168.1.1", "https://127.0.0.1/authorize": "127.0.0.1",
		"http://elsewhere.example/authorize": "https",
	} {
		web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch r.URL.Path {
			case "/.well-known/oauth-protected-resource/mcp":
				_, _ = io.WriteString(w, `{"resource":"https://example.com/mcp","authorization_servers":["https://example.com"]}`)
			case "/.well-known/oauth-authorization-server":
				_, _ = fmt.Fprintf(w, `{"issuer":"https://example.com","authorization_endpoint":%q,"token_endpoint":"https://example.com/token","response_types_supported":["code"],"code_challenge_methods_supported":["S256"]}`, page)
			default:
				http.NotFound(w, r)
			}
		}))
		pool := x509.NewCertPool()
		pool.AddCert(web.Certificate())
		names := map[string]string{"example.com": "203.0.113.7", "elsewhere.example": "198.51.100.9", "router.example": "192.168.1.1"}
		d := New(Options{Egress: egress.New(egress.Options{
			CAs:   pool,
			Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
			Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
				if names[host] == "" {
					return nil, &net.DNSError{Name: host, IsNotFound: true}
				}
				return []netip.Addr{netip.MustParseAddr(names[host])}, nil
			},
			Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, web.Listener.Addr().String())
			},
		})})
		s, err := d.Server("default", "srv", "https://example.com/mcp", Settings{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.discover(t.Context(), oauth.Challenge{}); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", page, err)
		}
		d.Close()
		web.Close()
	}
}

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
