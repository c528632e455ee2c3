//go:build unix

package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/testkit/certtest"
)

// issue writes a new certificate for this machine and its key to the files of t.
func issue(t *testing.T, to config.TLS) *x509.Certificate {
	t.Helper()
	return certtest.Write(t, to.Cert, to.Key, time.Hour, time.Hour)
}

// keyed sends an API key with each request.
type keyed struct {
	http.RoundTripper
	header []string
	major  int // of the HTTP version that the answers must have
	t      *testing.T
}

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for i := 0; i+1 < len(k.header); i += 2 {
		r.Header.Set(k.header[i], k.header[i+1])
	}
	resp, err := k.RoundTripper.RoundTrip(r)
	if err == nil && resp.ProtoMajor != k.major {
		k.t.Errorf("%s %s was answered over %s", r.Method, r.URL, resp.Proto)
	}
	return resp, err
}

// over returns r with a client that trusts a certificate, speaks a version of HTTP and sends a key.
func (r *rig) over(t *testing.T, cert *x509.Certificate, major int, key []string) *rig {
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: major == 2, MaxIdleConnsPerHost: 16}
	if major == 1 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	t.Cleanup(transport.CloseIdleConnections)
	out := *r
	out.t = t
	out.base = strings.Replace(r.base, "[::]", "127.0.0.1", 1)
	out.http = &http.Client{Transport: keyed{transport, key, major, t}}
	return &out
}

// TestTLS serves at an address that other machines can reach, with a certificate: MCP in both eras and over SSE,
// the API with its streams, and the console's door, over HTTP/1.1 and HTTP/2. Without a credential, nothing but
// what is open everywhere answers.
func TestTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	c := snapshot(newWeb(t, false).as(t, "old"), newWeb(t, true).as(t, "new"))
	c.TLS = config.TLS{Cert: filepath.Join(folder, "cert.pem"), Key: filepath.Join(folder, "key.pem")}
	c.PublicURL = "https://mcp.example.com"
	cert := issue(t, c.TLS)
	database := filepath.Join(folder, "dragoman.db")
	desk := deskAt(t, database)
	caller, _ := makeKey(t, desk, access.Wish{Name: "caller", Project: "default", Role: identity.Caller})
	viewer, viewerID := makeKey(t, desk, access.Wish{Name: "viewer", Project: "default", Role: identity.Viewer})
	other, _ := makeKey(t, desk, access.Wish{Name: "other", Project: "default", Role: identity.Viewer})
	var console Console
	r := serve(t, c, func(o *ServeOptions) {
		o.Database, o.Listen, o.Console = database, "0.0.0.0:0", func(c Console) { console = c }
	})
	if !strings.HasPrefix(r.base, "https://") || console.Off != "" || console.URL != "https://mcp.example.com/console/" || console.Link != nil {
		t.Errorf("serve is at %s, its console %+v", r.base, console)
	}
	var streams []io.Closer
	read := func(r *rig, path string, header ...string) chan struct{} {
		resp, err := r.request(t.Context(), http.MethodGet, path, nil, header...)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(path, resp, err)
		}
		streams = append(streams, resp.Body)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(io.Discard, resp.Body)
		}()
		return done
	}
	var revoked, innocent []chan struct{}
	for _, major := range []int{1, 2} {
		mcp := r.over(t, cert, major, caller)
		mcp.call("/mcp", "new__echo", `{"text":"a"}`).wantText(t, `{"text":"a"}`)
		session := []string{"Mcp-Session-Id", mcp.initialize("/mcp", "2025-11-25", "{}"), "MCP-Protocol-Version", "2025-11-25"}
		if a := mcp.post("/mcp", toolCall("7", "old__echo", `{"text":"b"}`), session...); toolText(a.message(t)) != `{"text":"b"}` {
			t.Errorf("a legacy client over HTTP/%d: %d %s", major, a.status, a.body)
		}
		innocent = append(innocent, read(mcp, "/mcp", append(session, "Accept", "text/event-stream")...))
		listening := mcp.open(http.MethodPost, "/mcp", modernBody("5", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), modernHeader("subscriptions/listen", "")...)
		if m := <-listening.next; m == nil {
			t.Errorf("a listen over HTTP/%d ended", major)
		}
		dialSSE(mcp, "/sse")
		api := r.over(t, cert, major, viewer)
		for _, path := range []string{"/api/v1/logs/stream", "/api/v1/calls/stream"} {
			revoked = append(revoked, read(api, path))
			innocent = append(innocent, read(r.over(t, cert, major, other), path))
		}
		if a := api.do(t.Context(), "GET", "/api/v1/calls", nil); a.status != 200 || !strings.Contains(a.body, `"echo"`) {
			t.Errorf("a viewer reads the calls over HTTP/%d: %d %.300s", major, a.status, a.body)
		}
		nobody := r.over(t, cert, major, nil)
		for path, want := range map[string]int{"/api/v1/status": 401, "/api/v1/logs/stream": 401, "/mcp": 401, "/console/": 401, "/console/events": 401, "/healthz": 200, "/readyz": 200} {
			if a := nobody.do(t.Context(), "GET", path, nil); a.status != want || path == "/console/" && !strings.Contains(a.body, "ask an admin for another one") {
				t.Errorf("nobody gets %d at %s over HTTP/%d: %.300s", a.status, path, major, a.body)
			}
		}
		for _, path := range []string{"/", "/mcp", "/sse", "/s/old/mcp", "/p/default/mcp", "/messages", "/api/v1/status", "/api/v1/keys", "/console/", "/console/?link=x", "/healthz", "/readyz", "/metrics", "/none"} {
			for _, r := range []*rig{nobody, api} { // TA12
				if a := r.do(t.Context(), "GET", path, nil, "Host", "evil.example"); a.status != 403 {
					t.Errorf("%s at a foreign host: %d", path, a.status)
				}
			}
		}
	}
	ada := invites(t, rosterAt(t, desk), "ada", identity.Viewer)
	browser := r.over(t, cert, 1, nil)
	if ada.enters(browser); ada.sees(browser) != 200 || !strings.HasPrefix(ada.cookie.Name, "__Host-") || !ada.cookie.Secure {
		t.Errorf("an invited person sees %d with the cookie %+v", ada.sees(browser), ada.cookie)
	}
	address := strings.TrimPrefix(r.over(t, cert, 1, nil).base, "https://")
	if conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.1 is accepted")
	}
	if resp, err := http.Get("http://" + address + "/api/v1/status"); err != nil || resp.StatusCode != 400 {
		t.Errorf("without TLS: %v %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	if err := desk.Revoke(t.Context(), "local", viewerID); err != nil {
		t.Fatal(err)
	}
	limit := time.After(patience(6 * time.Second))
	for _, done := range revoked {
		select {
		case <-done:
		case <-limit:
			t.Fatal("a stream of the revoked key goes on")
		}
	}
	for _, done := range innocent {
		select {
		case <-done:
			t.Error("a stream of another key has ended, too")
		default:
		}
	}
	for _, s := range streams {
		_ = s.Close()
	}
}

// TestCertificateChanges replaces the certificate of a running serve: new connections get the new one. One that
// can't be used is not taken, with one warning.
func TestCertificateChanges(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	c := snapshot()
	c.TLS = config.TLS{Cert: filepath.Join(folder, "cert.pem"), Key: filepath.Join(folder, "key.pem")}
	first := issue(t, c.TLS).SerialNumber.Int64()
	r := serve(t, c, func(o *ServeOptions) { o.Listen, o.Open = "0.0.0.0:0", true })
	shown := func() int64 {
		conn, err := tls.Dial("tcp", strings.Replace(strings.TrimPrefix(r.base, "https://"), "[::]", "127.0.0.1", 1), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if n := shown(); n != first {
		t.Fatalf("certificate %d, want %d", n, first)
	}
	second := issue(t, c.TLS).SerialNumber.Int64()
	soon(t, "the second certificate is shown", func() bool { return shown() == second })
	elsewhere := config.TLS{Cert: c.TLS.Cert, Key: filepath.Join(folder, "other.pem")}
	issue(t, elsewhere) // the key doesn't belong to it
	soon(t, "the warning", func() bool { return r.log.count("code=certificate_refused") == 1 })
	if err := os.WriteFile(c.TLS.Cert, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	soon(t, "the second warning, which has another cause", func() bool { return r.log.count("code=certificate_refused") == 2 })
	if n := shown(); n != second {
		t.Errorf("certificate %d after two that can't be used", n)
	}
	fourth := issue(t, c.TLS).SerialNumber.Int64()
	soon(t, "the fourth certificate is shown", func() bool { return shown() == fourth })
}

// TestBadCertificate checks that serve doesn't start with a certificate that nobody can use, and that it doesn't
// need one at a loopback address.
func TestBadCertificate(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	c := snapshot()
	c.TLS = config.TLS{Cert: filepath.Join(folder, "cert.pem"), Key: filepath.Join(folder, "key.pem")}
	err := Serve(t.Context(), ServeOptions{Config: c, Listen: "0.0.0.0:0", Open: true, Database: filepath.Join(folder, "d.db"), Ready: func(string) { t.Error("it listens") }})
	var refused *Refused
	if !errors.As(err, &refused) || !strings.Contains(refused.Text, "cert.pem\" with the certificate does not exist") || refused.Next == "" {
		t.Errorf("%v", err)
	}
	r := serve(t, c)
	if a := r.do(t.Context(), "GET", "/healthz", nil); a.status != 200 || r.log.count("code=certificate_unused") != 1 {
		t.Errorf("%d at %s", a.status, r.base)
	}
}
