//go:build unix

package issuers

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
	"github.com/dragoman-mcp/dragoman/test/tab"
)

// TestRig signs in with the Go SDK's own client, without Dragoman. If it fails, the test set-up is wrong.
func TestRig(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) *issuer{
		"zitadel": func(t *testing.T) *issuer {
			return zitadel(t, "") // the SDK wants the issuer to be spelled as in its metadata
		},
		"oidc-provider": func(t *testing.T) *issuer {
			if os.Getenv("DRAGOMAN_ISSUERS") == "" {
				t.Skip("set DRAGOMAN_ISSUERS=1 (or make issuers) to run issuers from npm")
			}
			return oidcProvider(t, time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := start(t)
			session, err := bySDK(t, protected(t, is), is)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "whoami"}); err != nil {
				t.Error(err)
			}
		})
	}
}

// bySDK connects the Go SDK's client to a protected server.
func bySDK(t *testing.T, server string, is *issuer) (*mcp.ClientSession, error) {
	t.Helper()
	callback := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(callback.Close)
	redirect := callback.URL + "/callback"
	c := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: redirect,
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			page, err := tab.Open(ctx, args.URL, is.person)
			if err != nil {
				return nil, err
			}
			q := page.URL.Query()
			if q.Get("code") == "" {
				return nil, fmt.Errorf("the visit ended after %q with %d: %s", page.Seen, page.Status, page.Body)
			}
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		},
	}
	if id, ok := is.signIn["clientID"].(string); ok {
		c.PreregisteredClient = &oauthex.ClientCredentials{ClientID: id}
		c.ScopeFilter = func([]string) []string { return []string{"openid", "offline_access"} }
	} else {
		c.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: "none", GrantTypes: []string{"authorization_code", "refresh_token"},
		}}
	}
	h, err := auth.NewAuthorizationCodeHandler(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return mcp.NewClient(&mcp.Implementation{Name: "rig", Version: "1"}, nil).Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: server, OAuthHandler: h, MaxRetries: -1}, nil)
}

// TestFakes signs in with the Go SDK's client at the fakes of `dragoman fake oauth`: it gets into those
// that are right, breaks no rule there, and calls a tool. Those with a fault that a client has to notice
// refuse it or are refused.
func TestFakes(t *testing.T) {
	// A client can cope with these faults, or they show at a refresh only. The SDK has no objection to the
	// last two either, but we do.
	tolerated := []string{
		"bare-challenge", "changed-issuer", "every-path", "forgets-clients", "html-errors", "no-grace", "no-second-refresh", "issuer-slash",
		"refresh-drops-resource", "duplicate-members", "resource-mismatch",
	}
	right := []string{"ok", "step-up", "no-metadata", "no-rotation", "slow-token"}
	for _, p := range fake.OAuthProfiles() {
		t.Run(p.Name, func(t *testing.T) {
			a, err := fake.NewOAuth(p.Name, fake.Options{Set: map[string]string{"ms": "100", "revision": "2025-11-25"}})
			if err != nil {
				t.Fatal(err)
			}
			h := httptest.NewServer(a.Handler())
			t.Cleanup(func() {
				_ = a.Close()
				h.Close()
			})
			session, err := bySDK(t, h.URL+a.Path(), &issuer{person: tab.Script{Fill: map[string]string{"person": "bob"}}})
			said := ""
			if err == nil {
				defer session.Close()
				var res *mcp.CallToolResult
				if res, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "whoami"}); err == nil {
					said = res.Content[0].(*mcp.TextContent).Text
				}
			}
			t.Logf("%q, %v, %v", said, err, a.Violations())
			if ok := err == nil && strings.HasPrefix(said, "bob by client-"); ok != slices.Contains(slices.Concat(right, tolerated), p.Name) {
				t.Errorf("the SDK got in: %v", ok)
			}
			if slices.Contains(right, p.Name) && len(a.Violations()) > 0 {
				t.Errorf("the SDK broke rules: %q", a.Violations())
			}
		})
	}
}
