//go:build unix

package daemon

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/testkit/fronttest"
)

// TestPublicURL checks Dragoman behind a proxy that publishes it under a path. The proxy either
// removes this path from requests or leaves it, and it sends the public host name in the Host
// header. Clients of all transports work, and the endpoint event of HTTP+SSE has the public path.
func TestPublicURL(t *testing.T) {
	t.Parallel()
	for name, removes := range map[string]bool{"the proxy removes the path": true, "the proxy leaves the path": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := snapshot(child(t, "a", "legacy"))
			s.PublicURL = "https://Gateway.example/tools/mcp-gateway"
			direct := serve(t, s)
			target, err := url.Parse(direct.base)
			if err != nil {
				t.Fatal(err)
			}
			proxy := httptest.NewServer(fronttest.Proxy(func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				if removes {
					r.Out.URL.Path = strings.TrimPrefix(r.In.URL.Path, "/tools/mcp-gateway")
				}
				r.Out.Host = "gateway.example"
			}, nil))
			defer proxy.Close()
			defer proxy.CloseClientConnections()
			r := &rig{t: t, base: proxy.URL, http: newClient(), log: direct.log}
			defer r.http.CloseIdleConnections()
			const prefix = "/tools/mcp-gateway"
			r.call(prefix+"/mcp", "a__echo", `{"v":1}`).wantText(t, `{"v":1}`)
			r.call(prefix+"/s/a/mcp", "echo", `{"v":2}`).wantText(t, `{"v":2}`)
			for _, path := range []string{"", "/s/a", "/p/default"} {
				c := dialSSE(r, prefix+path+"/sse")
				if !strings.HasPrefix(c.post, prefix+path+"/messages?sessionId=") {
					t.Errorf("the endpoint event of %s/sse is %s", path, c.post)
				}
				c.send(initializeBody("2024-11-05", "{}"))
				if m := c.events.event(); m == nil || m.Kind != jsonrpc.Result {
					t.Errorf("initialize at %s/sse: %v", path, m)
				}
				c.events.stop()
			}
			if a := r.do(t.Context(), "GET", prefix+"/readyz", nil); a.status != 200 {
				t.Errorf("readyz: %d %s", a.status, a.body)
			}
			// Dragoman accepts requests whose Origin is that of the public URL. The page at / shows
			// the public URL.
			if a := r.do(t.Context(), "GET", prefix+"/", nil, "Origin", "https://gateway.example", "Accept", "text/plain"); a.status != 200 || !strings.Contains(a.body, "https://Gateway.example/tools/mcp-gateway/mcp") {
				t.Errorf("the page: %d %s", a.status, a.body)
			}
			if a := r.do(t.Context(), "GET", prefix+"/readyz", nil, "Origin", "https://other.example"); a.status != http.StatusForbidden {
				t.Errorf("another origin: %d", a.status)
			}
			// A client that does not use the proxy also gets the public path.
			c := dialSSE(direct, "/sse")
			if !strings.HasPrefix(c.post, prefix+"/messages?") {
				t.Errorf("without the proxy the endpoint event is %s", c.post)
			}
			c.events.stop()
		})
	}
}

// TestForeignHostIsNamed checks requests with an unknown Host header. The error names the host each
// time, and the log names it once. With --allow-host, Dragoman accepts the host.
func TestForeignHostIsNamed(t *testing.T) {
	t.Parallel()
	u := child(t, "a", "legacy")
	refused := serve(t, snapshot(u))
	for range 3 {
		a := refused.do(t.Context(), "GET", "/readyz", nil, "Host", "gateway.lan:7300")
		if a.status != http.StatusForbidden || !strings.Contains(a.body, "gateway.lan:7300") || !strings.Contains(a.body, "--allow-host gateway.lan") {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	await(t, "the line in the log", 30*time.Second, func() bool { return strings.Contains(refused.log.String(), "--allow-host gateway.lan") })
	if n := strings.Count(refused.log.String(), "value=gateway.lan"); n != 1 {
		t.Errorf("the host is in %d lines of the log", n)
	}
	allowed := serve(t, snapshot(u), func(o *ServeOptions) { o.Hosts = []string{"Gateway.lan"} })
	if a := allowed.do(t.Context(), "GET", "/readyz", nil, "Host", "gateway.lan:7300"); a.status != 200 {
		t.Errorf("an allowed host: %d %s", a.status, a.body)
	}
}
