package fake

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// bearer returns the token of a request, or nil if it has none that is known, in time and for this
// resource. Nobody learns which of these it was.
func (a *OAuth) bearer(h http.Header) *oauthToken {
	scheme, text, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.s.access[strings.TrimSpace(text)]
	switch {
	case t == nil, t.signIn.over, t.lost, time.Since(t.made) > a.life, t.signIn.second != a.s.moved:
		return nil
	}
	t.used = true
	return t
}

// serveResource is the MCP server behind its door (2025-11-25 §Authorization, "Token Handling").
func (a *OAuth) serveResource(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != mcpPath && r.URL.Path != eventsPath && r.URL.Path != messagesPath {
		http.NotFound(w, r)
		return
	}
	if r.URL.Query().Has("access_token") {
		a.resource.violate("Authorization", "the access token is in the URL")
	}
	given := r.Header.Get("Authorization") != ""
	t := a.bearer(r.Header)
	if t == nil {
		a.count("401")
		problem := ""
		if given {
			problem = "invalid_token"
		}
		a.challenge(w, r, http.StatusUnauthorized, problem, scopeBasic)
		return
	}
	if needed := a.lacks(r, t); needed != "" {
		a.count("403")
		a.challenge(w, r, http.StatusForbidden, "insufficient_scope", needed)
		return
	}
	if a.odd.moves {
		a.mu.Lock()
		a.s.moved = true
		a.mu.Unlock()
	}
	a.resource.Handler().ServeHTTP(w, r)
}

// lacks returns the scope that a token lacks for a request, or "".
func (a *OAuth) lacks(r *http.Request, t *oauthToken) string {
	if a.odd.neverEnough {
		return scopeMore
	}
	if !a.odd.stepUp || r.Method != http.MethodPost || slices.Contains(t.scopes, scopeWrite) {
		return ""
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, maxMessage+1))
	r.Body = io.NopCloser(bytes.NewReader(b))
	if err != nil {
		return ""
	}
	if m, err := jsonrpc.Scan(b, jsonrpc.Limits{Bytes: maxMessage}); err == nil && m.Method == mcp.MethodCallTool {
		return scopeWrite
	}
	return ""
}

func (a *OAuth) challenge(w http.ResponseWriter, r *http.Request, status int, problem, scope string) {
	c := `Bearer scope="` + scope + `"`
	if !a.odd.bareChallenge {
		c += `, resource_metadata="` + originOf(r) + "/.well-known/oauth-protected-resource" + a.Path() + `"`
	}
	if problem != "" {
		c += `, error="` + problem + `"`
	}
	if a.odd.bareChallenge && problem == "" {
		c = "Bearer"
	}
	w.Header().Set("WWW-Authenticate", c)
	answer(w, status, map[string]string{"error": problem})
}
