//go:build unix

package issuers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

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
						t.Errorf("the visit ended after %q with %d: %s", page.Seen, page.Status, page.Body)
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
			session, err := mcp.NewClient(&mcp.Implementation{Name: "rig", Version: "1"}, nil).Connect(t.Context(),
				&mcp.StreamableClientTransport{Endpoint: protected(t, is), OAuthHandler: h}, nil)
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
