//go:build unix

package issuers

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/zitadel/oidc/v3/example/server/storage"

	"github.com/dragoman-mcp/dragoman/test/tab"
)

// serve runs `dragoman serve` in an empty home with these settings and more servers, and returns its URL.
func serve(t *testing.T, program, settings string, servers ...string) string {
	t.Helper()
	home := t.TempDir()
	file := filepath.Join(home, "dragoman.yaml")
	text := "mcpServers: {demo: {command: " + program + ", args: [server, filesystem, " + home + "]}" + strings.Join(append([]string{""}, servers...), ", ") + "}\ndragoman:\n  listen: 127.0.0.1:0\n" + settings
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "serve", "-c", file, "--log-format", "json")
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_DATA_HOME=", "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "XDG_STATE_HOME=", "XDG_RUNTIME_DIR=")
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	at, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			log.WriteString(lines.Text() + "\n")
			if m := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(lines.Text()); m != "" {
				select {
				case at <- m:
				default:
				}
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("dragoman serve:\n%s", log.String())
		}
	})
	select {
	case base := <-at:
		return base
	case <-ended:
	case <-time.After(30 * time.Second):
	}
	t.Fatal("serve doesn't say where it listens")
	return ""
}

// TestTokens signs the Go SDK's client in at an issuer for an endpoint of Dragoman: it finds the issuer in our metadata,
// and its token is a JWT for the endpoint that it typed. At another endpoint, the token doesn't count.
func TestTokens(t *testing.T) {
	if os.Getenv("DRAGOMAN_ISSUERS") == "" {
		t.Skip("set DRAGOMAN_ISSUERS=1 (or make issuers) to run issuers from npm")
	}
	is := oidcProvider(t, time.Hour)
	base := serve(t, build(t), `
  access:
    loopback: keys
    issuers: [{issuer: "`+is.url+`", scopes: ["mcp:basic"], roles: {claim: sub, map: {ann: caller}}}]
`)
	for _, path := range []string{"/mcp", "/s/demo/mcp"} {
		session, err := bySDK(t, base+path, is)
		if err != nil {
			t.Fatal(err)
		}
		tools, err := session.ListTools(t.Context(), &mcp.ListToolsParams{})
		if err != nil || len(tools.Tools) == 0 {
			t.Errorf("%s: %v, %v", path, tools, err)
		}
		_ = session.Close()
	}
	is.person.Fill = map[string]string{"login": "eve", "password": "x"} // who has no role
	if session, err := bySDK(t, base+"/mcp", is); err == nil {
		_ = session.Close()
		t.Error("eve gets in")
	}
}

// TestKeysOfTheIssuer ends an issuer, and starts it with another key. Tokens that nobody has seen before are taken during the
// outage, and those with the new key a minute later at the latest; those with the old key are not taken any more.
func TestKeysOfTheIssuer(t *testing.T) {
	if os.Getenv("DRAGOMAN_ISSUERS") == "" {
		t.Skip("set DRAGOMAN_ISSUERS=1 (or make issuers) to run issuers from npm")
	}
	is := oidcProvider(t, time.Hour)
	base := serve(t, build(t), `
  access:
    loopback: keys
    issuers: [{issuer: "`+is.url+`", roles: {claim: sub, map: {service: caller}}}]
`)
	token := func() string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, is.url+"/token", strings.NewReader(url.Values{"grant_type": {"client_credentials"}, "resource": {base + "/mcp"}, "scope": {"mcp:basic"}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("service", url.QueryEscape("a secret"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var out struct {
			Token string `json:"access_token"`
		}
		if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || out.Token == "" {
			t.Fatalf("%d %v", resp.StatusCode, err)
		}
		return out.Token
	}
	status := func(token string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	first, unseen, old := token(), token(), token()
	if got := status(first); got != http.StatusOK {
		t.Fatalf("before the outage: %d", got)
	}
	is.stop()
	if got := status(unseen); got != http.StatusOK {
		t.Errorf("during the outage: %d", got)
	}
	is.again("rotated")
	fresh, began := token(), time.Now()
	for status(fresh) != http.StatusOK {
		if time.Since(began) > 90*time.Second {
			t.Fatal("the new key isn't taken")
		}
		time.Sleep(10 * time.Second) // more often, our address would have too many wrong tokens
	}
	t.Logf("the new key was taken after %v", time.Since(began).Round(time.Second))
	if got := status(old); got != http.StatusUnauthorized {
		t.Errorf("a token with the old key: %d", got)
	}
}

var onward = regexp.MustCompile(`http-equiv="refresh" content="0; url=([^"]+)"`)

// TestConsole signs a person in to the console at an OpenID provider, through a proxy at mcp.example.com. Somebody else has
// no role there.
func TestConsole(t *testing.T) {
	const callback = "https://mcp.example.com/login/callback"
	for _, tc := range []struct {
		name, person string
		other        map[string]string
		start        func(t *testing.T) (is *issuer, id, secret string)
	}{
		{"zitadel", "id1", map[string]string{"username": "test-user2", "password": "verysecure"}, func(t *testing.T) (*issuer, string, string) {
			storage.RegisterClients(storage.WebClient("console", "a secret", callback))
			return zitadel(t, "/"), "console", "a secret"
		}},
		{"oidc-provider", "ann", map[string]string{"login": "eve", "password": "x"}, func(t *testing.T) (*issuer, string, string) {
			if os.Getenv("DRAGOMAN_ISSUERS") == "" {
				t.Skip("set DRAGOMAN_ISSUERS=1 (or make issuers) to run issuers from npm")
			}
			is := oidcProvider(t, time.Hour)
			resp, err := http.Post(is.url+"/reg", "application/json", strings.NewReader(`{"redirect_uris":["`+callback+`"],"application_type":"web"}`))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var c struct {
				ID     string `json:"client_id"`
				Secret string `json:"client_secret"`
			}
			if err := json.NewDecoder(resp.Body).Decode(&c); err != nil || c.Secret == "" {
				t.Fatalf("%d %v", resp.StatusCode, err)
			}
			return is, c.ID, c.Secret
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			is, id, secret := tc.start(t)
			base := serve(t, build(t), fmt.Sprintf(`
  publicURL: https://mcp.example.com
  access:
    loopback: keys
    people: {by: oidc}
    oidc: {issuer: %q, clientID: %q, clientSecret: %q, roles: {claim: sub, map: {%s: viewer}}}
`, is.url, id, secret, tc.person))
			cookies := map[string]string{}
			ask := func(method, path string) (int, string) {
				t.Helper()
				r, err := http.NewRequestWithContext(t.Context(), method, base+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Host = "mcp.example.com"
				r.Header.Set("Sec-Fetch-Site", "same-origin")
				for name, value := range cookies {
					r.AddCookie(&http.Cookie{Name: name, Value: value})
				}
				resp, err := http.DefaultTransport.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				for _, c := range resp.Cookies() {
					cookies[c.Name] = c.Value
				}
				body := new(strings.Builder)
				_, _ = bufio.NewReader(resp.Body).WriteTo(body)
				return resp.StatusCode, body.String()
			}
			signIn := func(person tab.Script) (int, string) {
				t.Helper()
				clear(cookies)
				_, page := ask(http.MethodPost, "/login")
				to := onward.FindStringSubmatch(page)
				if to == nil {
					t.Fatalf("POST /login: %s", page)
				}
				var end *url.Error // the visit ends at a host that the tab doesn't open
				if last, err := tab.Open(t.Context(), html.UnescapeString(to[1]), person); !errors.As(err, &end) || !strings.HasPrefix(end.URL, callback) {
					t.Fatalf("%v %+v", err, last)
				}
				return ask(http.MethodGet, strings.TrimPrefix(end.URL, "https://mcp.example.com"))
			}
			if status, page := signIn(is.person); status != 200 {
				t.Fatalf("%d %s", status, page)
			}
			if status, page := ask(http.MethodGet, "/console/"); status != 200 {
				t.Errorf("the console: %d %s", status, page)
			}
			if status, page := signIn(tab.Script{Fill: tc.other}); status != 403 || !strings.Contains(page, "none of its groups") {
				t.Errorf("somebody else: %d %s", status, page)
			}
			if status, _ := ask(http.MethodGet, "/console/"); status != 401 {
				t.Errorf("the console without a role: %d", status)
			}
		})
	}
}
