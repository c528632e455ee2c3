//go:build unix

package issuers

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"

	"github.com/dragoman-mcp/dragoman/test/npm"
	"github.com/dragoman-mcp/dragoman/test/tab"
)

var (
	//go:embed package.json
	packageJSON []byte
	//go:embed package-lock.json
	packageLock []byte
	//go:embed provider.mjs
	provider []byte
)

// issuer is a running authorization server.
type issuer struct {
	url    string   // as a protected server names it
	scopes []string // those of a protected server
	signIn map[string]any
	person tab.Script
	verify func(resource string) auth.TokenVerifier
	stop   func()           // of oidc-provider: ends it
	again  func(key string) // of oidc-provider: starts it with a new key of this id
}

// oidcProvider starts oidc-provider. Its access tokens are JWTs for the resource, good for life.
func oidcProvider(t *testing.T, life time.Duration) *issuer {
	t.Helper()
	dir := npm.Install(t, "issuers", map[string][]byte{"package.json": packageJSON, "package-lock.json": packageLock, "provider.mjs": provider})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	arguments := []string{filepath.Join(dir, "provider.mjs"), strconv.Itoa(port), strconv.Itoa(int(life.Seconds()))}
	stop := runProvider(t, arguments)
	at := fmt.Sprintf("http://127.0.0.1:%d", port)
	return &issuer{
		url:    at,
		scopes: []string{"mcp:basic"}, // oidc-provider denies access to a client that asks for nothing
		person: tab.Script{Fill: map[string]string{"login": "ann", "password": "anything"}},
		verify: func(resource string) auth.TokenVerifier { return byKeys(t, at, resource) },
		stop:   stop,
		again:  func(key string) { runProvider(t, append(arguments, key)) },
	}
}

// runProvider runs oidc-provider until the test ends, or until stop is called.
func runProvider(t *testing.T, arguments []string) (stop func()) {
	t.Helper()
	cmd := exec.Command(npm.Node(t), arguments...)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("oidc-provider: %s", log.String())
		}
	})
	ready := make([]byte, len("ready"))
	if _, err := io.ReadFull(out, ready); err != nil {
		t.Fatalf("oidc-provider ended: %v", err)
	}
	return stop
}

// byKeys verifies JWTs with the keys of an issuer.
func byKeys(t *testing.T, at, resource string) auth.TokenVerifier {
	t.Helper()
	p, err := oidc.NewProvider(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	v := p.Verifier(&oidc.Config{ClientID: resource})
	return func(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		id, err := v.Verify(ctx, token)
		if err != nil {
			return nil, errors.Join(auth.ErrInvalidToken, err)
		}
		return &auth.TokenInfo{UserID: id.Subject, Expiration: id.Expiry}, nil
	}
}

// zitadel starts the example provider of zitadel/oidc in this process. It has OpenID discovery alone, no
// registration and no iss. Its issuer ends with slash, which the protected server leaves out. Its access
// tokens are opaque.
func zitadel(t *testing.T, slash string) *issuer {
	t.Helper()
	h := httptest.NewUnstartedServer(nil)
	at := "http://" + strings.Replace(h.Listener.Addr().String(), "127.0.0.1", "localhost", 1)
	storage.RegisterClients(storage.NativeClient("dragoman", "http://127.0.0.1/callback"))
	h.Config.Handler = exampleop.SetupServer(at+slash, storage.NewStorage(storage.NewUserStore(at+slash)), nil, false)
	h.Start()
	t.Cleanup(h.Close)
	return &issuer{
		url:    at,
		signIn: map[string]any{"clientID": "dragoman", "scopes": []string{"openid", "offline_access"}},
		person: tab.Script{Fill: map[string]string{"username": "test-user@localhost", "password": "verysecure"}},
		verify: func(string) auth.TokenVerifier { return byUserinfo(at + "/userinfo") },
	}
}

// byUserinfo verifies opaque tokens by asking the issuer whose they are.
func byUserinfo(endpoint string) auth.TokenVerifier {
	return func(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint, nil)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		var claims struct {
			Sub string `json:"sub"`
		}
		if err := json.NewDecoder(res.Body).Decode(&claims); err != nil || res.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%w: %d, %v", auth.ErrInvalidToken, res.StatusCode, err)
		}
		return &auth.TokenInfo{UserID: claims.Sub, Expiration: time.Now().Add(time.Minute)}, nil
	}
}

// protected starts an MCP server that an issuer protects. Its tool whoami returns the person.
func protected(t *testing.T, is *issuer) (url string) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "protected", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "whoami", Description: "Returns the person."}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: r.Extra.TokenInfo.UserID}}}, nil, nil
	})
	h := httptest.NewUnstartedServer(nil)
	at := "http://" + h.Listener.Addr().String()
	const known = "/.well-known/oauth-protected-resource/mcp"
	mux := http.NewServeMux()
	mux.Handle(known, auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{Resource: at + "/mcp", AuthorizationServers: []string{is.url}, ScopesSupported: is.scopes}))
	guard := auth.RequireBearerToken(is.verify(at+"/mcp"), &auth.RequireBearerTokenOptions{ResourceMetadataURL: at + known})
	mux.Handle("/mcp", guard(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Logger: slog.New(slog.DiscardHandler)})))
	h.Config.Handler = mux
	h.Start()
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return at + "/mcp"
}
