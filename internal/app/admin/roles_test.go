package admin

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
)

// keyring is a gate with a key of each role in the projects default and shop, as "default admin", and keys that
// nobody may use.
type keyring struct {
	gate  *access.Gate
	texts map[string]string
}

func newKeyring() *keyring {
	k := &keyring{gate: access.NewGate(true), texts: map[string]string{"bad": access.Text(access.NewID(), access.NewSecret())}}
	mac, list := access.MACKey(access.NewSecret()), []access.Key(nil)
	add := func(name string, x access.Key, keep bool) {
		s := access.NewSecret()
		x.ID, x.Sum = access.NewID(), mac.Sum(&s)
		k.texts[name] = access.Text(x.ID, s)
		if keep {
			list = append(list, x)
		}
	}
	for _, project := range []string{"default", "shop"} {
		for _, role := range []identity.Role{identity.Caller, identity.Viewer, identity.Operator, identity.Admin} {
			add(project+" "+role.String(), access.Key{Project: project, Role: role}, true)
		}
	}
	add("expired", access.Key{Project: "default", Role: identity.Admin, Until: time.Now()}, true)
	add("revoked", access.Key{Project: "default", Role: identity.Admin}, false)
	k.gate.Use(access.NewKeys(mac, list))
	return k
}

// place is a way in which a request comes to an API.
type place struct {
	name          string
	local, closed bool
	publicURL     string
	tls           bool // to us
	headers       []string
	// way is what the place lets through: nothing, those with an API key, or also the local user.
	way string
}

var places = []place{
	{"loopback", true, false, "", false, nil, "local"},
	{"loopback: keys", true, true, "", false, nil, "local"},
	{"loopback behind a public URL, directly", true, false, "https://mcp.example.com", false, nil, "local"},
	{"loopback through the proxy of the public URL", true, false, "https://mcp.example.com", false, []string{"Host", "mcp.example.com", "X-Forwarded-For", "192.0.2.1"}, "keys"},
	{"loopback at the public URL's host, directly", true, false, "https://mcp.example.com:8443", false, []string{"Host", "MCP.example.com:8443"}, "keys"},
	{"loopback through a proxy that changes Host", true, false, "https://mcp.example.com", false, []string{"X-Forwarded-For", "192.0.2.1"}, "nobody"},
	{"loopback through a proxy without https", true, false, "http://mcp.example.com", false, []string{"Host", "mcp.example.com", "Via", "1.1 p"}, "nobody"},
	{"loopback through a proxy that we don't know", true, false, "", false, []string{"X-Forwarded-For", "192.0.2.1"}, "nobody"},
	{"network", false, false, "", false, []string{"Host", "192.0.2.7:7300"}, "nobody"},
	{"network with a local host", false, false, "", false, nil, "nobody"},
	{"network with TLS", false, false, "", true, []string{"Host", "mcp.example.com"}, "keys"},
	{"network with TLS and a local host", false, false, "", true, nil, "keys"},
	{"network behind a public URL", false, false, "https://mcp.example.com", false, []string{"Host", "mcp.example.com"}, "keys"},
	{"network behind a public URL, past the proxy", false, false, "https://mcp.example.com", false, []string{"Host", "mcp.example.com:7300"}, "nobody"},
}

// credential is what a request shows, and the project that it asks for.
type credential struct {
	name, project string
	headers       []string
	query         string
	// want returns the status of the refusal, or 0, where those with an API key may come in. local is true
	// where the local user may come in, too, and open if the route is open there.
	want func(x *route, local, open bool) int
}

func credentials(k *keyring, a *Access) []credential {
	refused := func(status int) func(*route, bool, bool) int { return func(*route, bool, bool) int { return status } }
	stranger := func(_ *route, _, open bool) int {
		if open {
			return 0
		}
		return 401
	}
	owner := func(x *route, local, open bool) int {
		if local {
			return 0
		}
		return 401
	}
	bearer := func(text string) []string { return []string{"Authorization", "Bearer " + text} }
	all := []credential{
		{"nothing", "", nil, "", stranger},
		{"a cookie of nobody", "", []string{"Cookie", "dragoman_console_7300=x; __Host-dragoman_console_80=x"}, "", stranger},
		{"bad", "", bearer(k.texts["bad"]), "", refused(401)},
		{"expired", "", bearer(k.texts["expired"]), "", refused(401)},
		{"revoked", "", []string{"X-API-Key", k.texts["revoked"]}, "", refused(401)},
		{"two", "", append(bearer(k.texts["default admin"]), "X-API-Key", k.texts["default admin"]), "", refused(400)},
		{"the key of the process and another", "", append(bearer(a.Key()), "X-API-Key", k.texts["default admin"]), "", refused(400)},
		{"in the query", "", nil, "?key=" + k.texts["default admin"], refused(401)},
		{"in the query, hidden, with the key of the process", "", bearer(a.Key()), "?key=%64rgk_" + k.texts["default admin"][5:], refused(401)},
		{"the key of the process", "", bearer(a.Key()), "", owner},
	}
	for _, role := range []identity.Role{identity.Caller, identity.Viewer, identity.Operator, identity.Admin} {
		all = append(all,
			credential{"default " + role.String(), "", bearer(k.texts["default "+role.String()]), "", func(x *route, _, _ bool) int {
				if role.Includes(x.least) && x.name != "consoleLink" {
					return 0
				}
				return 403
			}},
			credential{"default " + role.String() + " in shop", "shop", bearer(k.texts["default "+role.String()]), "", func(x *route, _, _ bool) int {
				switch {
				case !x.process:
					return 404
				case role.Includes(x.least):
					return 0
				}
				return 403
			}},
			credential{"shop " + role.String() + " in default", "", bearer(k.texts["shop "+role.String()]), "", refused(403)},
			credential{"shop " + role.String(), "shop", bearer(k.texts["shop "+role.String()]), "", func(x *route, _, _ bool) int {
				if role.Includes(x.least) && !x.process {
					return 0
				}
				return 403
			}},
		)
	}
	return all
}

// wantOfShop returns the status of the refusal by a route whose path names the project shop, or 0. The query
// doesn't matter. other is that of credentials without a role.
func wantOfShop(x *route, credential string, other int) int {
	project, rest, _ := strings.Cut(credential, " ")
	word, _, _ := strings.Cut(rest, " ")
	role, ok := identity.RoleOf(word)
	switch {
	case !ok || project != "default" && project != "shop":
		return other
	case project == "default" && role == identity.Admin, project == "shop" && role.Includes(x.least):
		return 0
	case project == "default":
		return 404
	}
	return 403
}

// TestTA01_TM03_EveryRoute checks that at each place, with each credential, each method of each path is refused as the
// table of routes says, and nothing else is. After each refusal, an innocent admin is let in.
func TestTA01_TM03_EveryRoute(t *testing.T) {
	t.Parallel()
	k, gone := newKeyring(), func() context.Context { c, end := context.WithCancel(t.Context()); end(); return c }()
	asked := 0
	for _, p := range places {
		a := New(Options{Local: p.local, Closed: p.closed, PublicURL: p.publicURL})
		a.Access().VisitorsFrom(k.gate.Visitor)
		a.Access().RolesFrom(k.gate.Roles)
		if p.local {
			k.gate.Own(a.Access().Key())
		} else {
			k.gate.Own("")
		}
		mux := http.NewServeMux()
		a.Routes(mux)
		ask := func(c *credential, method, path string) (int, Problem) {
			asked++
			query := c.query
			if c.project != "" {
				query = "?" + url.Values{"project": {c.project}}.Encode()
			}
			// The request has ended already, so that what is let in changes nothing and streams end.
			r := httptest.NewRequestWithContext(gone, method, path+query, nil)
			r.Host, r.RemoteAddr = "127.0.0.1:7300", fmt.Sprintf("10.%d.%d.%d:1", asked>>16&255, asked>>8&255, asked&255)
			if r.TLS = nil; p.tls {
				r.TLS = &tls.ConnectionState{}
			}
			for h := append(p.headers, c.headers...); len(h) > 1; h = h[2:] {
				if h[0] == "Host" {
					r.Host = h[1]
				} else {
					r.Header.Set(h[0], h[1])
				}
			}
			w := httptest.NewRecorder()
			func() {
				defer func() { _ = recover() }() // this API has no project, so what is let in may fail
				mux.ServeHTTP(w, r)
			}()
			if strings.Contains(r.URL.RawQuery+r.RequestURI, "rgk_") && p.way != "nobody" && w.Code != 404 && w.Code != 405 {
				t.Errorf("%s: the key stays in the URL", p.name)
			}
			var bad Problem
			if w.Header().Get("Content-Type") == "application/problem+json" {
				_ = json.Unmarshal(w.Body.Bytes(), &bad)
			}
			return w.Code, bad
		}
		admin := credential{headers: []string{"X-API-Key", k.texts["default admin"]}}
		for _, x := range routes() {
			element := "1"
			if x.named {
				element = "shop"
			}
			path := apiRoot + regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(x.path, element)
			for _, c := range credentials(k, a.Access()) {
				want := 403
				if p.way != "nobody" {
					want = c.want(&x, p.way == "local", x.open && p.way == "local" && !p.closed)
					if x.named {
						want = wantOfShop(&x, c.name, want)
					}
				}
				for _, method := range []string{x.method, http.MethodHead} {
					if method == http.MethodHead && x.method != http.MethodGet {
						continue
					}
					status, bad := ask(&c, method, path)
					// Only the door answers so. What is let in may find nothing.
					door := status == 401 || status == 403 || status == 400 && bad.Type == problemURI+kindCredential || bad.Type == problemURI+"no-such-project" && (x.named || c.project == "shop") && !strings.HasPrefix(c.name, "shop")
					if want == 0 && door || want != 0 && (!door || status != want) {
						t.Errorf("%s: %s %s with %s: %d %s, want %d", p.name, method, path, c.name, status, bad.Type, want)
					}
					if door && p.way != "nobody" && !x.process {
						if status, bad := ask(&admin, x.method, path); status == 401 || status == 403 || bad.Type == problemURI+kindCredential {
							t.Errorf("%s: %s %s with an admin's key after %s: %d", p.name, x.method, path, c.name, status)
						}
					}
				}
			}
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"} {
				if status, _ := ask(&admin, method, path); status != 405 && !strings.Contains(routeRoles, "\n"+strings.Replace(method, "HEAD", "GET", 1)+" "+x.path+" ") {
					t.Errorf("%s: %s %s: %d, but the path has no such route", p.name, method, path, status)
				}
			}
		}
		for _, c := range credentials(k, a.Access()) {
			if status, _ := ask(&c, http.MethodGet, "/api/v1/nothing"); status != 404 {
				t.Errorf("%s: a path that doesn't exist, with %s: %d", p.name, c.name, status)
			}
		}
		a.Close()
	}
}

// FuzzTA02Headers sends made-up credentials to each place: nobody becomes somebody by them. An admin's key, an innocent
// client, works after each.
func FuzzTA02Headers(f *testing.F) {
	k := newKeyring()
	all := make([]*Access, len(places))
	for i, p := range places {
		all[i] = NewAccess(p.local)
		all[i].UsePublicURL(p.publicURL)
		all[i].VisitorsFrom(k.gate.Visitor)
		all[i].RolesFrom(k.gate.Roles)
	}
	good := k.texts["default admin"]
	for _, seed := range [][3]string{{"", "", ""}, {"Bearer local", "admin", "dragoman_console_7300=local"}, {"Bearer " + good[:60], good[:66], good}, {"bearer  ", "\x00", "__Host-dragoman_console_80="}, {"Basic ZHJhZ29tYW46", "", ""}, {"Bearer " + k.texts["expired"], "", ""}} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, authorization, key, cookie string) {
		for i, p := range places {
			ask := func(header ...string) *http.Request {
				r := asked("GET", "/api/v1/keys", append(p.headers, header...)...)
				if p.tls {
					r.TLS = &tls.ConnectionState{}
				}
				return r
			}
			r := ask("Authorization", authorization, "Cookie", cookie)
			if key != "" {
				r.Header.Set("X-API-Key", key)
			}
			if who, err := all[i].Check(r); err == nil && !strings.Contains(authorization+key, good) {
				t.Errorf("%s: %q, %q, %q is %+v", p.name, authorization, key, cookie, who)
			}
			if who, err := all[i].Check(ask("X-API-Key", good)); (err == nil) != (p.way != "nobody") || err == nil && all[i].May(who, "default", identity.Admin) != nil {
				t.Errorf("%s: an admin: %v", p.name, err)
			}
		}
	})
}
