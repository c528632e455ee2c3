package fake

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The scopes of the resource and of the authorization server.
const (
	scopeBasic   = "mcp:basic"
	scopeWrite   = "mcp:write"
	scopeMore    = "mcp:admin" // what endless-scope asks for
	scopeOffline = "offline_access"
)

// serveKnown answers below /.well-known/ with the metadata of the resource (RFC 9728) and of the
// authorization server (RFC 8414).
func (a *OAuth) serveKnown(w http.ResponseWriter, r *http.Request) {
	at, arrived := strings.CutPrefix(r.URL.Path, "/moved")
	name, path, _ := strings.Cut(strings.TrimPrefix(at, "/.well-known/"), "/")
	known := !a.odd.nothingKnown && (name == "oauth-protected-resource" && "/"+path == a.Path() ||
		name == "oauth-authorization-server" && (path == "" || path == "second" && a.odd.moves))
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "the metadata can only be read", http.StatusMethodNotAllowed)
	case !known && a.odd.everyPath:
		page(w, http.StatusOK, "<h1>Welcome</h1><p>This page answers every address.")
	case !known:
		http.NotFound(w, r)
	case a.odd.moved && !arrived:
		other := "localhost"
		if strings.HasPrefix(r.Host, other) {
			other = "127.0.0.1"
		}
		http.Redirect(w, r, "http://"+other+":"+(&url.URL{Host: r.Host}).Port()+"/moved"+r.URL.Path, http.StatusTemporaryRedirect)
	case name == "oauth-protected-resource":
		answer(w, http.StatusOK, a.resourceMetadata(r))
	default:
		a.serveServerMetadata(w, r, path)
	}
}

func (a *OAuth) resourceMetadata(r *http.Request) map[string]any {
	named, resource := "", a.odd.resource
	if a.isMoved() {
		named = "/second"
	}
	if resource == "" {
		resource = originOf(r) + a.Path()
	}
	return map[string]any{
		"resource": resource, "authorization_servers": []string{originOf(r) + named},
		"scopes_supported": []string{scopeBasic}, "bearer_methods_supported": []string{"header"},
	}
}

func (a *OAuth) isMoved() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.s.moved
}

// second returns the path of the second authorization server of changed-issuer, if it is the one.
func (a *OAuth) second() string {
	if a.isMoved() {
		return "second"
	}
	return ""
}

// issuerOf returns the issuer as the metadata at a path names it.
func (a *OAuth) issuerOf(r *http.Request, path string) string {
	switch {
	case strings.Contains(a.odd.issuer, "://"):
		return a.odd.issuer
	case path != "":
		return originOf(r) + "/" + path
	}
	return originOf(r) + a.odd.issuer
}

func (a *OAuth) serveServerMetadata(w http.ResponseWriter, r *http.Request, path string) {
	base := originOf(r)
	if path != "" {
		base += "/" + path
	}
	m := map[string]any{
		"issuer":                                         a.issuerOf(r, path),
		"authorization_endpoint":                         base + "/authorize",
		"token_endpoint":                                 base + "/token",
		"revocation_endpoint":                            base + "/revoke",
		"device_authorization_endpoint":                  base + "/device_authorization",
		"registration_endpoint":                          base + "/register",
		"response_types_supported":                       []string{"code"},
		"grant_types_supported":                          slices.Sorted(grantNames()),
		"token_endpoint_auth_methods_supported":          []string{"none", "client_secret_basic", "client_secret_post"},
		"code_challenge_methods_supported":               []string{"S256"},
		"scopes_supported":                               []string{scopeBasic, scopeWrite, scopeOffline},
		"authorization_response_iss_parameter_supported": true,
		"client_id_metadata_document_supported":          a.documents,
	}
	if a.odd.withoutS256 {
		delete(m, "code_challenge_methods_supported")
	}
	if a.odd.unregistrable {
		delete(m, "registration_endpoint")
	}
	if a.odd.huge {
		m["ui_locales_supported"] = []string{strings.Repeat("en", 1<<19)}
	}
	if !a.odd.twice {
		answer(w, http.StatusOK, m)
		return
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // it has a JSON form
	}
	// A parser that takes the first of two members is led elsewhere than one that takes the last.
	b = bytes.Replace(b, []byte("{"), []byte(`{"token_endpoint":`+quote("https://other.example/token")+`,`), 1)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}
