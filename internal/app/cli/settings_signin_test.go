//go:build unix

package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"github.com/spf13/cobra"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// oauthWeb starts a server that wants a sign-in, and returns its URL.
func oauthWeb(t *testing.T) string {
	a, err := fake.NewOAuth("ok", fake.Options{Set: map[string]string{"revision": "2025-06-18", "consent": "none", "documents": "yes"}})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(a.Handler())
	t.Cleanup(func() {
		_ = a.Close()
		web.Close()
	})
	return web.URL + a.Path()
}

// program returns dragoman with arguments and the configuration of the stage, and what it will print.
func (s *stage) program(args ...string) (*cobra.Command, *logtest.Buffer) {
	said := &logtest.Buffer{}
	a := &app{world: world{backend: Daemon(), stdin: strings.NewReader(""), stdout: said, env: s.env, program: "dragoman", status: newStatus(said, false, s.env)}}
	root := a.root()
	root.SetArgs(append(args, "-c", filepath.Join(s.dir, "dragoman.yaml")))
	return root, said
}

// command runs dragoman against the daemon of the stage, and returns what it prints.
func (s *stage) command(args ...string) string {
	s.Helper()
	root, said := s.program(append(args, "--listen", strings.TrimPrefix(s.base, "http://"))...)
	if err := root.ExecuteContext(s.Context()); err != nil {
		s.Errorf("%v: %v", args, err)
	}
	return said.String()
}

// login runs `dragoman login a` with the configuration of the stage until it has printed a link, which is what login
// returns, or has failed. With until, it runs until it has printed that.
func (s *stage) login(until string) string {
	s.Helper()
	root, said := s.program("login", "a", "--json")
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	visited := false
	for {
		select {
		case err := <-done:
			if err != nil {
				return said.String() + "\n" + err.Error()
			}
			return said.String()
		case <-time.After(10 * time.Millisecond):
		}
		link := regexp.MustCompile(anyLink).FindStringSubmatch(said.String())
		switch {
		case link == nil || visited:
		case until == "":
			cancel()
			<-done
			return link[1]
		default:
			visited = true
			resp, err := http.Get(link[1])
			if err != nil {
				s.Error(err)
				continue
			}
			_ = resp.Body.Close()
		}
	}
}

// signInSettings returns the rows for dragoman.servers.NAME.signIn.
func signInSettings() map[string]setting {
	const begin = `{mcpServers: {a: {url: "@OAUTH@"}}, dragoman: {listen: "127.0.0.1:0", database: own.db, servers: {a: {signIn: {`
	link := func(body string, parts ...string) setting {
		return setting{whole: begin + body + `}}}}}`, effect: func(s *stage) { s.wants(s.login(""), parts...) }}
	}
	// A program's token request goes to the web server of the stage, which records it.
	token := func(body string, parts ...string) setting {
		return setting{whole: begin + body + `, tokenURL: "@WEB@/token"}}}}}`, effect: func(s *stage) {
			s.ask("/s/a/mcp", "tools/list", "", "")
			s.wants(s.requests(), append(parts, "POST /token")...)
		}}
	}
	const client = `how: client-credentials, clientID: me`
	key := strings.ReplaceAll(newKeyPEM(), "\n", `\n`)
	rows := map[string]setting{
		"how":               link(`how: none`, "nobody signs in"),
		"per":               {whole: begin + `per: shared}}}}}`, effect: func(s *stage) { s.wants(s.login("signed in"), `"subject": "shared"`) }},
		"scopes":            link(`scopes: ["x:y", z]`, "scope=x%3Ay+z"),
		"clientID":          link(`clientID: "https://example.com/me.json"`, "client_id=https%3A%2F%2Fexample.com%2Fme.json"),
		"clientMetadataURL": link(`clientMetadataURL: "https://example.com/c.json"`, "client_id=https%3A%2F%2Fexample.com%2Fc.json"),
		"issuer":            link(`issuer: "https://other.example"`, "other.example"),
		"authorizationURL":  link(`clientID: me, authorizationURL: "http://127.0.0.1:9/mine/authorize", tokenURL: "http://127.0.0.1:9/t"`, "http://127.0.0.1:9/mine/authorize?"),
		"callback":          link(`callback: "http://localhost:39117/back"`, "redirect_uri=http%3A%2F%2Flocalhost%3A39117%2Fback"),
		"resource":          link(`resource: "urn:mine"`, "resource=urn%3Amine"),
		"params":            link(`params: {access_type: offline}`, "access_type=offline"),
		"tokenURL":          token(client+`, clientSecret: hunter2`, "grant_type=client_credentials"),
		"clientSecret":      token(client+`, clientSecret: hunter2`, "Basic bWU6aHVudGVyMg=="),
		"privateKey":        token(client+`, privateKey: "`+key+`"`, "client_assertion="),
		"assertion":         token(`how: workload, clientID: me, assertion: token.jwt`, "assertion=ey.from.the-file"),
		"provider": {whole: begin + `how: enterprise, assertion: token.jwt, provider: {issuer: "http://127.0.0.1:9/idp", clientID: me}}}}}}`, effect: func(s *stage) {
			s.ask("/s/a/mcp", "tools/list", "", "")
			s.wants(s.log.String(), "127.0.0.1:9")
		}},
		"hold": {whole: begin + `hold: 1s}}}}}`, effect: func(s *stage) {
			began := time.Now()
			s.wants(s.held(), `"input_required"`)
			if took := time.Since(began); took < 900*time.Millisecond || took > 40*time.Second {
				s.Errorf("a call waited %v for the person", took)
			}
		}},
	}
	out := map[string]setting{}
	for name, row := range rows {
		out["dragoman.servers.NAME.signIn."+name] = row
	}
	return out
}

// held calls the tool sign_in for a client that says at once that its person has agreed to open the link. It returns the
// second answer, for which the call has waited.
func (s *stage) held() string {
	s.Helper()
	s.ask("/s/a/mcp", "tools/list", "", "")
	const caps = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}}`
	header := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "sign_in"}
	first := s.post("/s/a/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sign_in","arguments":{},`+caps+`}}`, header...)
	state := regexp.MustCompile(`"requestState":"([^"]+)"`).FindStringSubmatch(first)
	name := regexp.MustCompile(`"inputRequests":\{"([^"]+)":`).FindStringSubmatch(first)
	if state == nil || name == nil {
		s.Errorf("the first answer is %s", first)
		return ""
	}
	return s.post("/s/a/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sign_in","arguments":{},"requestState":"`+state[1]+`","inputResponses":{"`+name[1]+`":{"action":"accept"}},`+caps+`}}`, header...)
}

// newKeyPEM returns a private key as issuers register them.
func newKeyPEM() string {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
