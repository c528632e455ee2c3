package httpdoor

import (
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Guard refuses requests that a browser sends on behalf of a foreign web page, before any other
// handler gets them. It refuses a request if its Host header does not name this server (DNS
// rebinding), or if its Origin header is not allowed (2026-07-28 §Streamable HTTP, "Security &
// Endpoint"; the same in all earlier revisions). It protects every route, answers with JSON-RPC
// errors without an id, and never sends a CORS header.
//
// A nil *Guard allows only the loopback names. Guard is safe for concurrent use.
type Guard struct {
	hosts   map[string]struct{} // lower case, with or without port
	origins map[string]struct{} // compared exactly
	methods []string
	log     *slog.Logger // receives the refusals; nil means no log
	own     ownName
	explain func(http.ResponseWriter, *http.Request) bool // see Explain
	public  func(*http.Request) bool                      // see Public; may be nil

	refused atomic.Int64
	denied  atomic.Int64
	told    foreign
}

// NewGuard returns a guard that allows the loopback names, the hosts and the origins. A host
// without a port matches any port. An origin has the form that browsers send: scheme, "://", host,
// and ":port" if the port is not the scheme's default. methods are the HTTP methods that the guard
// allows. Nil means GET, HEAD, POST and DELETE. A route may allow fewer methods.
func NewGuard(hosts, origins, methods []string) *Guard {
	g := &Guard{
		hosts:   make(map[string]struct{}, len(hosts)),
		origins: make(map[string]struct{}, len(origins)),
		methods: methods,
	}
	for _, h := range hosts {
		g.hosts[strings.ToLower(h)] = struct{}{}
	}
	for _, o := range origins {
		g.origins[o] = struct{}{}
	}
	return g
}

// ownName is a host name that only some paths have.
type ownName struct {
	host  string
	paths []string       // the beginnings of the paths
	label *regexp.Regexp // matches the first label of host; nil if there is no name
}

// hide masks the first label of the name wherever it is in a text, such as a host below the name.
func (o *ownName) hide(text string) string {
	if o.label == nil {
		return text
	}
	return o.label.ReplaceAllLiteralString(text, excerpt.Mask)
}

// Own allows the name host for the paths that begin with one of paths, and for no other path. A page
// at this name may send requests only to this name. Own must be called before the guard is used.
func (g *Guard) Own(host string, paths ...string) {
	label, _, _ := strings.Cut(host, ".")
	g.own = ownName{strings.ToLower(host), paths, regexp.MustCompile("(?i)" + regexp.QuoteMeta(label))}
}

// Explain lets f answer the requests that are refused because of their Host. f returns false if it
// has not answered. Explain must be called before the guard is used.
func (g *Guard) Explain(f func(http.ResponseWriter, *http.Request) bool) { g.explain = f }

// Public lets pages of every origin send the requests for which f returns true: those that answer everybody
// alike and look at no cookie, such as the documents of OAuth, which clients in browsers read. Their Host is
// checked as that of all others. Public must be called before the guard is used.
func (g *Guard) Public(f func(*http.Request) bool) { g.public = f }

// owns reports whether a request is for the name of Own, and for one of its paths.
func (g *Guard) owns(r *http.Request) bool {
	name, _ := splitHost(r.Host)
	return g.isOwn(name) && slices.ContainsFunc(g.own.paths, func(begin string) bool { return strings.HasPrefix(r.URL.Path, begin) })
}

// isOwn reports whether name is the name of Own.
func (g *Guard) isOwn(name string) bool {
	return g != nil && g.own.host != "" && strings.EqualFold(name, g.own.host)
}

var usualMethods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete}

// Refused returns the number of requests that the guard has refused, without those in Denied.
func (g *Guard) Refused() int64 {
	if g == nil {
		return 0
	}
	return g.refused.Load()
}

// Denied returns the number of requests whose sender Identify has refused. We don't count them for
// each endpoint: who is not known must not learn which endpoints exist, so none has been looked up.
func (g *Guard) Denied() int64 {
	if g == nil {
		return 0
	}
	return g.denied.Load()
}

// Wrap returns a handler that passes the requests that Admit accepts to the handler next.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.Admit(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// Usual returns a handler that passes the requests with one of the guard's methods to the handler
// next, and refuses the others. It is for routes that don't need Identify.
func (g *Guard) Usual(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.admitMethod(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// Admit reports whether the guard accepts the Host and the Origin of r. If it does not, Admit sends
// the refusal. Each request needs this once: who has wrapped all routes need not call it again.
func (g *Guard) Admit(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case !g.owns(r) && !g.hostAllowed(r.Host):
		if g != nil && g.explain != nil && g.explain(w, r) {
			g.refused.Add(1)
			return false
		}
		g.refuse(w, http.StatusForbidden, g.foreignHost(r.Host))
	case !g.originAllowed(r) && !g.isPublic(r):
		g.refuse(w, http.StatusForbidden, g.foreignOrigin(strings.Join(r.Header["Origin"], ", ")))
	default:
		return true
	}
	return false
}

// Identify returns the sender of a request that Admit has accepted. The function principal knows the
// sender; an endpoint that is open to everybody says [identity.Anyone]. We fail closed: if principal
// is nil, if it returns an error, or if it returns nobody, Identify refuses the request, whatever its
// method. Then it refuses the methods that the guard does not allow. If ok is false, the refusal has
// been sent.
func (g *Guard) Identify(w http.ResponseWriter, r *http.Request, principal func(*http.Request) (*identity.Principal, error)) (who *identity.Principal, ok bool) {
	var err error
	if principal != nil {
		who, err = principal(r)
	}
	if err != nil || who == nil {
		if g != nil {
			g.denied.Add(1)
		}
		RefuseDenied(w, err) // which says only that it isn't authorized if err is nil
		return nil, false
	}
	if !g.admitMethod(w, r) {
		return nil, false
	}
	return who, true
}

// Again asks once more who has sent a request that Identify has accepted, and returns an error if it
// isn't somebody with this seat any more.
func Again(r *http.Request, seat string, principal func(*http.Request) (*identity.Principal, error)) error {
	if principal == nil {
		return errNobody
	}
	again, err := principal(r)
	switch {
	case err != nil:
		return err
	case again == nil || again.SeatKey() != seat:
		return errNobody
	}
	return nil
}

var errNobody = &Denied{Reason: "not authorized"}

// admitMethod reports whether the guard allows the method of r. If it does not, admitMethod sends the
// refusal.
func (g *Guard) admitMethod(w http.ResponseWriter, r *http.Request) bool {
	if g.methodAllowed(r.Method) {
		return true
	}
	w.Header()["Allow"] = []string{strings.Join(g.allowed(), ", ")}
	g.refuse(w, http.StatusMethodNotAllowed, "this HTTP method is not allowed at this path")
	return false
}

func (g *Guard) refuse(w http.ResponseWriter, status int, why string) {
	if g != nil {
		g.refused.Add(1)
	}
	Refuse(w, status, "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: why})
}

func (g *Guard) allowed() []string {
	if g == nil || g.methods == nil {
		return usualMethods
	}
	return g.methods
}

func (g *Guard) methodAllowed(method string) bool {
	for _, m := range g.allowed() {
		if m == method {
			return true
		}
	}
	return false
}

func (g *Guard) hostAllowed(host string) bool {
	name, _ := splitHost(host)
	if isLoopback(name) {
		return true
	}
	if g == nil || len(g.hosts) == 0 || host == "" {
		return false
	}
	for _, s := range [...]string{host, name} {
		if _, ok := g.hosts[s]; ok {
			return true
		}
		if _, ok := g.hosts[strings.ToLower(s)]; ok {
			return true
		}
	}
	return false
}

// originAllowed reports whether the Origin header of a request is allowed. A request without the
// header is allowed, because only browsers send it. A page at a loopback name may send requests to
// any loopback name if the port is the same, because serve listens on this port of both loopback
// addresses. A page at the name of Own may send requests to that name.
func (g *Guard) originAllowed(r *http.Request) bool {
	values, present := r.Header["Origin"]
	if !present {
		return true
	}
	if len(values) != 1 {
		return false
	}
	origin := values[0]
	if g.owns(r) {
		return strings.EqualFold(origin, "http://"+r.Host)
	}
	if g != nil {
		if _, ok := g.origins[origin]; ok {
			return true
		}
	}
	rest, ok := strings.CutPrefix(origin, "http://")
	if !ok {
		rest, ok = strings.CutPrefix(origin, "https://")
	}
	if !ok {
		return false
	}
	name, port := splitHost(rest)
	host, ownPort := splitHost(r.Host)
	return isLoopback(name) && isLoopback(host) && port == ownPort
}

func (g *Guard) isPublic(r *http.Request) bool { return g != nil && g.public != nil && g.public(r) }

// splitHost splits a Host header into the host and the port. The port is "" if the header contains
// none. The brackets of an IPv6 address are part of the host.
func splitHost(s string) (host, port string) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || strings.IndexByte(s[i:], ']') >= 0 {
		return s, ""
	}
	return s[:i], s[i+1:]
}

func isLoopback(host string) bool {
	switch host {
	case "localhost", "127.0.0.1", "[::1]":
		return true
	}
	return len(host) == len("localhost") && strings.EqualFold(host, "localhost")
}

// IsLocal reports whether a Host header names the loopback interface, with or without a port.
func IsLocal(host string) bool {
	name, _ := splitHost(host)
	return transport.IsLoopback(strings.Trim(name, "[]"))
}

// Remote returns the network address of the client without its port. It ignores the headers that proxies
// add, except those of trusted ones; see Trust.
func Remote(r *http.Request) string {
	host, _ := splitHost(r.RemoteAddr)
	if n := len(host); n > 2 && host[0] == '[' && host[n-1] == ']' {
		return host[1 : n-1]
	}
	return host
}
