//go:build linux

package remote

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	site     = "mcp.example.com"
	user     = "ada"
	password = "correct horse"
)

func init() {
	ways["nginx"] = func(t *testing.T) {
		certificate, key := certify(t)
		write(t, "/etc/ssl/mcp.example.com.pem", certificate)
		write(t, "/etc/ssl/mcp.example.com.key", key)
		write(t, "/etc/nginx/mcp.htpasswd", user+":"+hash(t, "-apr1")+"\n")
		dir := t.TempDir()
		temp := "" // nginx would write below /var
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			temp += kind + "_temp_path " + dir + "/" + kind + ";\n"
		}
		file := filepath.Join(dir, "nginx.conf")
		write(t, file, "daemon off; user root; pid "+dir+"/pid;\nevents {}\nhttp {\naccess_log off;\n"+temp+block(t, "nginx")+"}\n")
		through(t, certificate, exec.Command(program(t, "nginx"), "-p", dir, "-e", "stderr", "-c", file))
	}
	ways["caddy"] = func(t *testing.T) {
		certificate, key := certify(t)
		write(t, "/etc/caddy/mcp.pem", certificate)
		write(t, "/etc/caddy/mcp.key", key)
		dir := t.TempDir()
		caddy := program(t, "caddy")
		made := strings.TrimSpace(run(t, exec.Command(caddy, "hash-password", "--plaintext", password)))
		// Without a network, Caddy can't get its certificate by itself.
		text := replace(t, block(t, "caddy"), "$2a$14$…", made)
		text = replace(t, text, site+" {\n", site+" {\n\ttls /etc/caddy/mcp.pem /etc/caddy/mcp.key\n")
		write(t, "/etc/caddy/Caddyfile", text)
		cmd := exec.Command(caddy, "run", "--config", "/etc/caddy/Caddyfile")
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
		through(t, certificate, cmd)
	}
	ways["haproxy"] = func(t *testing.T) {
		certificate, key := certify(t)
		write(t, "/etc/haproxy/mcp.example.com.pem", certificate+key)
		write(t, "/etc/haproxy/haproxy.cfg", replace(t, block(t, "haproxy"), "$6$…", hash(t, "-6")))
		through(t, certificate, exec.Command(program(t, "haproxy"), "-db", "-f", "/etc/haproxy/haproxy.cfg"))
	}
}

// through starts everything and does what clients do, through a proxy.
func through(t *testing.T, certificate string, proxy *exec.Cmd) {
	hosts, err := os.ReadFile("/etc/hosts")
	if err != nil {
		t.Fatal(err)
	}
	write(t, "/etc/hosts", "127.0.0.1 "+site+"\n"+string(hosts))
	backend := newBackend(t)
	link := serve(t, block(t, "yaml")+"  limits: {call: 2m}\nmcpServers: {work: {url: "+backend.url+"}}\n")
	start(t, "127.0.0.1:443", proxy)

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(certificate))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	outside := &person{http: &http.Client{Transport: transport}, base: "https://" + site}
	inside := *outside
	inside.password = password
	w := &world{backend: backend, outside: outside, inside: &inside, link: link}
	for name, check := range map[string]func(*testing.T, *world){
		"who comes in": access, "the console": console, "a large message": large, "an idle call": idle,
		"a legacy client": legacyClient, "a modern client": modernClient, "a client of HTTP+SSE": eventsClient,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the next test begins while a call is idle
			check(t, w)
		})
	}
}

type world struct {
	backend         *backend
	outside, inside *person // without and with a password
	link            func() string
}

func access(t *testing.T, w *world) {
	wrong := *w.outside
	wrong.password = "wrong"
	for _, p := range []*person{w.outside, &wrong} {
		for _, path := range []string{"/mcp", "/sse", "/", "/console/"} {
			if got := p.get(t, path).StatusCode; got != http.StatusUnauthorized {
				t.Errorf("a stranger gets %s: %d", path, got)
			}
		}
	}
	for _, path := range []string{"/metrics", "/readyz", "/api/v1/status"} {
		if got := w.inside.get(t, path).StatusCode; got != http.StatusNotFound {
			t.Errorf("clients get %s: %d", path, got)
		}
	}
	if page := w.inside.get(t, "/"); page.StatusCode != http.StatusOK || !strings.Contains(page.text(t), "https://"+site+"/mcp") {
		t.Errorf("/ is %s", page.Status)
	}
}

// console checks that the console shows nothing through the proxy, and that an attempt spends no link.
func console(t *testing.T, w *world) {
	link := w.link()
	_, query, _ := strings.Cut(link, "/console/")
	for _, path := range []string{"/console/", "/console/servers", "/console/" + query} {
		page := w.inside.get(t, path)
		if text := page.text(t); page.StatusCode != http.StatusForbidden || !strings.Contains(text, "A proxy forwarded the request") {
			t.Errorf("%s: %s\n%s", path, page.Status, text)
		}
	}
	here := &person{http: http.DefaultClient, base: "http://127.0.0.1:7300"}
	if page := here.get(t, "/console/"+query); page.StatusCode != http.StatusOK || !strings.Contains(page.text(t), "Make a password") {
		t.Errorf("the link doesn't work any more: %s", page.Status)
	}
}

// large sends more than the 1 MB that nginx would allow.
func large(t *testing.T, w *world) {
	text := strings.Repeat("x", 3<<20)
	a := w.inside.modern(t, t.Context(), "tools/call", "work__echo", `"name":"work__echo","arguments":{"text":"`+text+`"}`)
	if got := a.text(t); a.StatusCode != http.StatusOK || !strings.Contains(got, text) {
		t.Errorf("%s, %d bytes", a.Status, len(got))
	}
}

// idle calls a tool that says nothing for longer than the 60 s after which the proxies close a stream.
// Dragoman sends comments meanwhile.
func idle(t *testing.T, w *world) {
	a := w.inside.modern(t, t.Context(), "tools/call", "work__sleep", `"name":"work__sleep","arguments":{}`)
	a.await(t, "awake")
}

// legacyClient has a session, and a GET stream on which list changes arrive.
func legacyClient(t *testing.T, w *world) {
	opened := w.inside.post(t, t.Context(), "/mcp", initialize("2025-11-25"))
	session := []string{"Mcp-Session-Id", opened.Header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}
	if got := opened.text(t); opened.StatusCode != http.StatusOK || session[1] == "" || !strings.Contains(got, `"protocolVersion":"2025-11-25"`) {
		t.Fatalf("%s, session %q: %s", opened.Status, session[1], got)
	}
	if a := w.inside.post(t, t.Context(), "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...); a.StatusCode != http.StatusAccepted {
		t.Errorf("%s", a.Status)
	}
	stream := w.inside.do(t, t.Context(), http.MethodGet, "/mcp", "", append(session, "Accept", "text/event-stream")...)
	w.backend.grow(t)
	stream.await(t, `"notifications/tools/list_changed"`)

	const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"work__wait","arguments":{"key":"legacy"},"_meta":{"progressToken":"p"}}}`
	a := w.inside.post(t, t.Context(), "/mcp", call, session...)
	a.await(t, `"progressToken":"p"`) // arrives while the call runs
	w.backend.release(t, "legacy")
	a.await(t, `"text":"released"`)

	// 2025-11-25 basic/lifecycle: a client cancels a call with a notification.
	cancelled := w.inside.post(t, t.Context(), "/mcp", replace(t, replace(t, call, `"legacy"`, `"legacy cancelled"`), `"id":2`, `"id":3`), session...)
	cancelled.await(t, `"progressToken":"p"`)
	w.inside.post(t, t.Context(), "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`, session...)
	w.backend.wantCancelled(t, "legacy cancelled")

	if a := w.inside.do(t, t.Context(), http.MethodDelete, "/mcp", "", session...); a.StatusCode/100 != 2 {
		t.Errorf("%s", a.Status)
	}
	if a := w.inside.post(t, t.Context(), "/mcp", `{"jsonrpc":"2.0","id":4,"method":"ping"}`, session...); a.StatusCode != http.StatusNotFound {
		t.Errorf("after the end of the session: %s", a.Status)
	}
}

// modernClient has no session. It listens for list changes in the response to a request, and cancels a
// call by closing the response.
func modernClient(t *testing.T, w *world) {
	listen := w.inside.modern(t, t.Context(), "subscriptions/listen", "", `"notifications":{"toolsListChanged":true}`)
	listen.await(t, `"notifications/subscriptions/acknowledged"`)
	w.backend.grow(t)
	listen.await(t, `"notifications/tools/list_changed"`)

	const params = `"name":"work__wait","arguments":{"key":"modern"}`
	a := w.inside.modern(t, t.Context(), "tools/call", "work__wait", params)
	a.await(t, `"progressToken":"p"`)
	w.backend.release(t, "modern")
	a.await(t, `"text":"released"`)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cancelled := w.inside.modern(t, ctx, "tools/call", "work__wait", replace(t, params, "modern", "modern cancelled"))
	cancelled.await(t, `"progressToken":"p"`)
	cancel()
	w.backend.wantCancelled(t, "modern cancelled")
}

// eventsClient uses the transport of 2024-11-05: one stream, and an endpoint that its first event names.
func eventsClient(t *testing.T, w *world) {
	stream := w.inside.do(t, t.Context(), http.MethodGet, "/sse", "", "Accept", "text/event-stream")
	at := stream.await(t, "/messages")
	path := strings.TrimPrefix(at, w.inside.base)
	w.inside.post(t, t.Context(), path, initialize("2024-11-05"))
	stream.await(t, `"protocolVersion":"2024-11-05"`)
	w.inside.post(t, t.Context(), path, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	w.inside.post(t, t.Context(), path, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"work__wait","arguments":{"key":"events"},"_meta":{"progressToken":"p"}}}`)
	stream.await(t, `"progressToken":"p"`)
	w.backend.release(t, "events")
	stream.await(t, `"text":"released"`)
}

func initialize(revision string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + revision + `","capabilities":{},"clientInfo":{"name":"remote","version":"1"}}}`
}

// certify returns a certificate for the site, and its key.
func certify(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{site}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", secret)
}

// hash returns the hash of the password, as `openssl passwd` makes it.
func hash(t *testing.T, kind string) string {
	t.Helper()
	return strings.TrimSpace(run(t, exec.Command("openssl", "passwd", kind, password)))
}

// replace replaces the only occurrence of a text.
func replace(t *testing.T, s, from, to string) string {
	t.Helper()
	if strings.Count(s, from) != 1 {
		t.Fatalf("%q has not one %q", s, from)
	}
	return strings.Replace(s, from, to, 1)
}
