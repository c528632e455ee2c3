package access

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Resources tells OAuth clients where they get tokens for our endpoints: in protected resource metadata (RFC
// 9728), a document for each endpoint, and in the challenges that lead there. It's an http.Handler for the documents.
//
// While there is nobody to get a token from, OAuth is off: there are no documents, and challenges name none. Many
// clients open a browser at any answer but 404, and then ignore the key that they have.
//
// Create one with NewResources. It may be used by several goroutines once nobody changes it.
type Resources struct {
	public httpdoor.Target // that of the public URL; the zero value if there is none
	name   string          // what people call us

	own             bool // see UseOwn
	servers, scopes []string
}

// NewResources returns resources that are off. publicURL is config.Snapshot.PublicURL, which may be "", and name is
// what people call us.
func NewResources(publicURL, name string) *Resources {
	r := &Resources{name: name}
	scheme, rest, ok := strings.Cut(publicURL, "://")
	if host, path, slash := strings.Cut(strings.TrimRight(rest, "/"), "/"); ok {
		r.public.Scheme, r.public.Host = scheme, host
		if slash {
			r.public.Prefix = "/" + path
		}
	}
	return r
}

// UseOwn names our own authorization server, before all others, since some clients look only at the first. Its
// issuer is the URL behind which our paths are. The scopes are those that it knows, and replace all others.
func (r *Resources) UseOwn(scopes ...string) { r.own, r.scopes = true, scopes }

// UseIssuers names issuers of others, and the scopes that their clients shall ask for. Without UseOwn, a challenge
// names no other scope: an issuer that doesn't know one refuses the whole sign-in.
func (r *Resources) UseIssuers(servers, scopes []string) {
	r.servers = servers
	if !r.own {
		r.scopes = scopes
	}
}

// On reports whether OAuth is on.
func (r *Resources) On() bool { return r != nil && (r.own || len(r.servers) > 0) }

// SignIn returns the authorization servers that clients of the endpoints behind a base are told of, the first one
// first, and the scopes to ask for.
func (r *Resources) SignIn(base string) (servers, scopes []string) {
	if r.own {
		servers = append(servers, base)
	}
	return append(servers, r.servers...), r.scopes
}

// Target returns what a request is for. Its base is the public URL. Without one, it's the name that the client has
// typed, which the guard has checked, since clients compare the metadata with what they have typed.
func (r *Resources) Target(req *http.Request) httpdoor.Target {
	if r == nil {
		return httpdoor.TargetOf(req, httpdoor.Target{})
	}
	return httpdoor.TargetOf(req, r.public)
}

// wellKnown is where the documents are (RFC 9728 §3). The path of what they describe follows.
const wellKnown = "/.well-known/oauth-protected-resource"

// IsDocument reports whether a path is, or may be, that of a document. It may begin with the path of the public
// URL.
func (r *Resources) IsDocument(path string) bool {
	if !r.On() {
		return false
	}
	rest, ok := strings.CutPrefix(strings.TrimPrefix(path, r.public.Prefix), wellKnown)
	return ok && (rest == "" || rest[0] == '/')
}

// Register makes a mux serve the documents, if OAuth is on.
func (r *Resources) Register(mux *http.ServeMux) {
	if r.On() {
		mux.Handle(wellKnown, r)
		mux.Handle(wellKnown+"/", r)
	}
}

// document is protected resource metadata (RFC 9728 §2).
type document struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported,omitempty"`
	Methods  []string `json:"bearer_methods_supported"`
	Name     string   `json:"resource_name"`
}

// ServeHTTP answers a request for a document. The document depends on the URL alone: each name that a server or a
// project may have has one, whether it exists or not.
func (r *Resources) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	suffix := strings.TrimPrefix(req.URL.Path, wellKnown)
	if rest, ok := strings.CutPrefix(suffix, r.public.Prefix); ok && (rest == "" || rest[0] == '/') {
		suffix = rest // a proxy that asks us for what is at its own origin
	}
	base := r.Target(req).Base()
	if !IsEndpoint(suffix) || !isHost(base) || req.URL.RawQuery != "" {
		httpdoor.NotFound(w, req)
		return
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	switch req.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		h.Set("Access-Control-Allow-Methods", "GET, HEAD")
		h.Set("Access-Control-Allow-Headers", "*, MCP-Protocol-Version")
		h.Set("Access-Control-Max-Age", "3600")
		w.WriteHeader(http.StatusNoContent)
		return
	default:
		httpdoor.RefuseMethod(w, "GET, HEAD, OPTIONS")
		return
	}
	d := document{Resource: base + suffix, Methods: []string{"header"}, Name: r.name}
	d.Servers, d.Scopes = r.SignIn(base)
	b, err := json.Marshal(d)
	if err != nil {
		http.Error(w, "the document cannot be written", http.StatusInternalServerError)
		return
	}
	h["Content-Type"] = httpdoor.TypeJSON
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(b)
}

// IsEndpoint reports whether a path is that of an endpoint, or may be, or is "", which is the origin.
func IsEndpoint(path string) bool {
	if path == "" {
		return true
	}
	parts := strings.Split(path[1:], "/")
	last := len(parts) - 1
	if path[0] != '/' || parts[last] != "mcp" && parts[last] != "sse" {
		return false
	}
	parts = parts[:last]
	if len(parts) >= 2 && parts[0] == "p" && isName(parts[1]) {
		parts = parts[2:]
	}
	switch len(parts) {
	case 0:
		return true
	case 1:
		return parts[0] == "find"
	}
	return len(parts) == 2 && parts[0] == "s" && isName(parts[1])
}

// isName reports whether a server or a project may have a name; see package config.
func isName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, ".") != "" && strings.Trim(s, base62+"_-.") == ""
}

// isHost reports whether a base has only characters that need no escape in a document or a header. Host headers may
// have others.
func isHost(base string) bool { return strings.Trim(base, base62+"_-.~:/[]") == "" }

// Challenge returns the value of WWW-Authenticate (RFC 6750 §3, RFC 9728 §5.1) for a request without a token, or
// for one whose token is refused with a code and a description. The description and the scopes must need no escape.
// It is "" if OAuth is off, or if no document describes what the request is for.
func (r *Resources) Challenge(req *http.Request, code, description string, scopes []string) string {
	if !r.On() {
		return ""
	}
	at := r.Target(req)
	if !IsEndpoint(at.Path()) || !isHost(at.Base()) {
		return ""
	}
	if scopes == nil {
		_, scopes = r.SignIn(at.Base())
	}
	var b strings.Builder
	b.WriteString("Bearer ")
	if code != "" {
		b.WriteString(`error="` + code + `", error_description="` + description + `", `)
	}
	b.WriteString(`resource_metadata="` + at.Base() + wellKnown + at.Path() + `"`)
	if len(scopes) > 0 && !slices.ContainsFunc(scopes, func(s string) bool { return strings.ContainsAny(s, "\"\\") }) {
		b.WriteString(`, scope="` + strings.Join(scopes, " ") + `"`)
	}
	return b.String()
}
