package authserver

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Sessions says who has sent a request from a browser.
type Sessions interface {
	// SignedIn returns whose session the browser has, or nil.
	SignedIn(r *http.Request) *identity.Principal
}

// Options are the options of New. All but PublicURL, Provider, Command, Allow, NoRegistration and Log are required.
type Options struct {
	// PublicURL is the issuer, without a slash at the end: https, or a loopback host. "" means that only this
	// machine can reach us, by the name that it used.
	PublicURL string
	Ledger    *access.Ledger
	Store     *store.Store // has the registered clients
	Sessions  Sessions
	// Provider returns Page.Provider for a browser. It may be nil.
	Provider  func(*http.Request) string
	Documents oauth.Doer // see documents
	// Show answers with a page.
	Show func(w http.ResponseWriter, r *http.Request, status int, p *Page)
	// Command returns the command that opens the console of this process, and Address the host at which that
	// opens a link on this machine.
	Command, Address func(*http.Request) string
	Allow            Allow
	NoRegistration   bool // clients can't register themselves
	Log              *slog.Logger
}

// Server is the authorization server. It is safe for concurrent use.
type Server struct {
	o         Options
	documents *documents
	cookies   Cookies
	cross     *http.CrossOriginProtection
	tries     *access.Tries // the registrations
	seen      seen          // the assertions of clients
}

// New returns a server.
func New(o Options) *Server {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Server{o: o, documents: newDocuments(o.Documents), cookies: Cookies{o.PublicURL}, cross: http.NewCrossOriginProtection(), tries: access.NewTries(mostPerHour, time.Hour)}
}

// The paths, below that of the public URL. Without one they are the defaults of 2025-03-26 §Authorization,
// "Fallbacks for Servers without Metadata Discovery", for clients that find no metadata.
const (
	pathAuthorize = "/authorize"
	pathConsent   = "/consent"
	pathToken     = "/token"
	pathRegister  = "/register"
	pathRevoke    = "/revoke"
	pathMetadata  = "/.well-known/oauth-authorization-server"
)

// PagePaths returns the beginnings of the paths of pages, which people see.
func (s *Server) PagePaths() []string {
	if s == nil {
		return nil
	}
	return []string{pathAuthorize, pathConsent}
}

// Routes registers the handlers with mux. A nil server has none.
func (s *Server) Routes(mux *http.ServeMux) {
	if s == nil {
		return
	}
	mux.HandleFunc(pathAuthorize, s.authorize)
	mux.HandleFunc(pathConsent, s.consent)
	mux.HandleFunc(pathToken, s.shared("POST", s.token))
	mux.HandleFunc(pathRevoke, s.shared("POST", s.revoke))
	mux.HandleFunc(pathMetadata, s.shared("GET", s.metadata))
	if below := s.below(); below != "" { // RFC 8414 §3.1 inserts the path behind the well-known part
		mux.HandleFunc(pathMetadata+below, s.shared("GET", s.metadata))
	}
	if s.registers() {
		mux.HandleFunc(pathRegister, s.shared("POST", s.register))
	}
}

func (s *Server) registers() bool { return !s.o.NoRegistration && s.o.Allow.registers() }

// below returns the path of the public URL.
func (s *Server) below() string {
	u, err := url.Parse(s.o.PublicURL)
	if err != nil {
		return ""
	}
	return strings.TrimRight(u.Path, "/")
}

// IsShared reports whether a request is for what pages of every origin may use; see httpdoor.Guard.Public. path is
// that of the request without the path of the public URL.
func IsShared(path string) bool {
	switch path {
	case pathToken, pathRegister, pathRevoke, pathMetadata:
		return true
	}
	return strings.HasPrefix(path, pathMetadata+"/")
}

// shared returns a handler that pages of every origin may use: it looks at no cookie.
func (s *Server) shared(method string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("X-Content-Type-Options", "nosniff")
		switch {
		case r.Method == http.MethodOptions:
			h.Set("Access-Control-Allow-Methods", method+", OPTIONS")
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, MCP-Protocol-Version")
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
		case r.Method != method && !(method == http.MethodGet && r.Method == http.MethodHead):
			httpdoor.RefuseMethod(w, method+", OPTIONS")
		default:
			next(w, r)
		}
	}
}

// Issuer returns our issuer for the sender of a request: the public URL, or on loopback the name that the
// guard has found in Host, because clients compare what a document says with what they have asked.
func (s *Server) Issuer(r *http.Request) string { return s.issuerAt(r.Host) }

func (s *Server) issuerAt(host string) string {
	if s.o.PublicURL != "" {
		return s.o.PublicURL
	}
	return "http://" + host
}

// isOurHost reports whether a host with a port is one of the three names that we have on loopback.
func isOurHost(hostport string) bool {
	return httpdoor.IsLocal(hostport) && isLoopback("http://"+hostport)
}

// metadata answers with our metadata (RFC 8414 §2).
func (s *Server) metadata(w http.ResponseWriter, r *http.Request) {
	issuer := s.Issuer(r)
	m := map[string]any{
		"issuer": issuer, "authorization_endpoint": issuer + pathAuthorize, "token_endpoint": issuer + pathToken, "revocation_endpoint": issuer + pathRevoke,
		"response_types_supported": []string{"code"}, "response_modes_supported": []string{"query"},
		"grant_types_supported":                            []string{"authorization_code", "refresh_token"},
		"code_challenge_methods_supported":                 []string{"S256"},
		"token_endpoint_auth_signing_alg_values_supported": algorithms,
		"token_endpoint_auth_methods_supported":            proofs,
		"revocation_endpoint_auth_methods_supported":       proofs,
		"client_id_metadata_document_supported":            true,
		"authorization_response_iss_parameter_supported":   true,
		"scopes_supported":                                 []string{Scope},
	}
	if s.registers() {
		m["registration_endpoint"] = issuer + pathRegister
	}
	answer(w, http.StatusOK, m)
}

// Scope is the only scope: to use what the role of the person allows.
const Scope = "mcp"

// answer answers with JSON.
func answer(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"server_error"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

// problem is an error of RFC 6749 §5.2 or RFC 7591 §3.2.2.
type problem struct {
	Code   string `json:"error"`
	Text   string `json:"error_description"`
	status int
}

func (p *problem) Error() string { return p.Text }

func bad(code, text string) *problem { return &problem{code, text, http.StatusBadRequest} }

// sorry answers with a problem. Other errors are those of the database.
func (s *Server) sorry(w http.ResponseWriter, r *http.Request, err error) {
	p, ok := err.(*problem)
	if !ok {
		if context.Cause(r.Context()) == nil {
			s.o.Log.Warn("the authorization server cannot use the database", "cause", err.Error())
		}
		p = &problem{"temporarily_unavailable", "the database cannot be used now; try again later", http.StatusServiceUnavailable}
	}
	if p.status == http.StatusUnauthorized && r.Header.Get("Authorization") != "" {
		w.Header().Set("WWW-Authenticate", `Basic realm="dragoman"`)
	}
	answer(w, p.status, p)
}

// resourcePath returns the path of the endpoint that a resource indicator names (RFC 8707 §2), without that of the
// public URL. It is "" for all endpoints. Whether there is such a project or server doesn't matter, so that
// nobody learns it.
func (s *Server) resourcePath(issuer, resource string) (path string, ok bool) {
	u, err := url.Parse(resource)
	base, bad := url.Parse(issuer)
	if err != nil || bad != nil || len(resource) > mostURI || strings.ContainsAny(resource, "?#") || u.User != nil || u.Opaque != "" || !strings.EqualFold(u.Scheme, base.Scheme) {
		return "", false
	}
	if !sameHost(u, base) && (s.o.PublicURL != "" || !isOurHost(u.Host) || u.Port() != base.Port()) {
		return "", false
	}
	path, below := strings.CutPrefix(strings.TrimRight(u.EscapedPath(), "/"), strings.TrimRight(base.EscapedPath(), "/"))
	return path, below && (access.IsEndpoint(path) || access.IsEndpoint(path+"/mcp")) // the latter is the beginning of several
}

func sameHost(a, b *url.URL) bool {
	port := func(u *url.URL) string {
		return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)])
	}
	return strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

// fromHere returns whom we count together for limits. Pages are counted apart, because any of them can send requests
// from the machine of whoever looks at it, and must not use up what the programs there need.
func fromHere(r *http.Request) string {
	host := access.Network(httpdoor.Remote(r))
	if r.Header.Get("Origin") != "" {
		return "pages at " + host
	}
	return host
}
