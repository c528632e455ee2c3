package authserver

import (
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// That of the flow says that this browser has begun a sign-in. The other one has the request with which it goes on when
// the person has signed in.
const (
	flowCookie   = "dragoman_flow"
	returnCookie = "dragoman_return"
)

// Cookies are those of pages to which other sites lead, so they are SameSite=Lax. They are good for ten minutes, and open
// nothing.
type Cookies struct{ PublicURL string }

// name returns the name of a cookie, which has the port, because browsers don't tell ports apart. Over https, they take
// a cookie with the prefix __Host- from no other host.
func (c Cookies) name(r *http.Request, name string) string {
	if port := portOf(r.Host); port != "" {
		name += "_" + port
	}
	if c.secure(r) {
		name = "__Host-" + name
	}
	return name
}

func (c Cookies) secure(r *http.Request) bool {
	host := strings.TrimSuffix(r.Host, ":"+portOf(r.Host))
	return r.TLS != nil || !httpdoor.IsLocal(r.Host) && strings.HasPrefix(c.PublicURL, "https:") && !strings.HasSuffix(host, ".localhost")
}

// Set sets a cookie, or removes it if the value is "".
func (c Cookies) Set(w http.ResponseWriter, r *http.Request, name, value string) {
	age := int(flowLife / time.Second)
	if value == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: c.name(r, name), Value: value, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.secure(r),
	})
}

// All returns the cookies with a name.
func (c Cookies) All(r *http.Request, name string) []*http.Cookie {
	return r.CookiesNamed(c.name(r, name))
}

func portOf(hostport string) string {
	_, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return ""
	}
	return port
}

// atAddress reports whether a browser has come to an address of this machine without TLS, where cookies reach every
// program that listens at any port. People have no session there, unless it's a password.
func (s *Server) atAddress(r *http.Request) bool { return r.TLS == nil && httpdoor.IsLocal(r.Host) }

// setFlow makes the browser's flow last, and returns its value. A browser has one, however many sign-ins it has
// begun: what is allowed stands in the form.
func (s *Server) setFlow(w http.ResponseWriter, r *http.Request, q *request) string {
	value, ok := s.flow(r)
	if !ok {
		value = oauth.Random()
	}
	s.cookies.Set(w, r, flowCookie, value)
	return value
}

// flow returns the value of the browser's flow.
func (s *Server) flow(r *http.Request) (value string, ok bool) {
	for _, c := range s.cookies.All(r, flowCookie) {
		if isRandom(c.Value) {
			return c.Value, true
		}
	}
	return "", false
}

// setReturn notes how the browser goes on when its person has signed in.
func (s *Server) setReturn(w http.ResponseWriter, r *http.Request, q *request) {
	raw := q.raw
	if s.atAddress(r) && s.o.PublicURL == "" { // the console has another name
		raw = withoutAt(raw) + "&" + atQuery + "=" + strings.TrimPrefix(q.issuer, "http://")
	}
	s.cookies.Set(w, r, returnCookie, base64.RawURLEncoding.EncodeToString([]byte(raw)))
}

// Return returns where a browser goes on that has just signed in, below the path of the public URL, or "" if it
// hasn't come from a client, or if the server is nil. It forgets that.
func (s *Server) Return(w http.ResponseWriter, r *http.Request) string {
	if s == nil {
		return ""
	}
	for _, c := range s.cookies.All(r, returnCookie) {
		raw, err := base64.RawURLEncoding.DecodeString(c.Value)
		if err != nil || len(raw) > mostQuery+100 || strings.ContainsFunc(string(raw), odd) {
			continue
		}
		s.cookies.Set(w, r, returnCookie, "")
		return pathAuthorize + "?" + string(raw)
	}
	return ""
}

// withoutAt returns a query without what only we may say in it.
func withoutAt(raw string) string {
	parts := slices.DeleteFunc(strings.Split(raw, "&"), func(part string) bool {
		name, _, _ := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(name)
		return err != nil || plain == atQuery
	})
	return strings.Join(parts, "&")
}
