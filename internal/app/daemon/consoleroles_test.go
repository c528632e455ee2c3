//go:build unix

package daemon

import (
	"context"
	"errors"
	"html"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/console"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/testkit/idptest"
)

// consoleTable is the table of the console's routes. It doesn't depend on who asks, or for what.
func consoleTable(t *testing.T) []console.Route {
	c := console.New(console.Options{Off: "the test needs only its table"})
	t.Cleanup(c.Close)
	return c.Table()
}

// sameOrigin are the headers that a browser adds to a form of our own page.
var sameOrigin = []string{"Sec-Fetch-Site", "same-origin", "Origin", "https://" + publicName, "Content-Type", "application/x-www-form-urlencoded"}

// TestTA50_EveryRouteOfTheConsole asks for each route of the console with everything that a request can have: nothing,
// a session that has ended, keys and tokens with every role, and the sessions of people with and without a role in the
// project. Whoever has no session gets 401 and nothing else; whoever has too low a role gets 403 in the frame, which
// names nothing of the project. It does the same below the path of another project, where who has no role gets the 404 of
// a project that doesn't exist.
func TestTA50_EveryRouteOfTheConsole(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "dragoman.db")
	p := idptest.New(t)
	r := serve(t, snapshot(newWeb(t, true).as(t, "adas-server")), behindProxy(database), func(o *ServeOptions) {
		o.Config.Projects = []config.Project{{Name: "shop", Config: snapshot(newWeb(t, true).as(t, "shops-server"))}}
		o.Config.Access.Issuers = []config.Issuer{{Issuer: p.URL, Audience: []string{"api://dragoman"}, Roles: roles}}
	})
	desk := deskAt(t, database)
	roster := rosterAt(t, desk)
	key, _ := makeKey(t, desk, access.Wish{Name: "k", Project: "default", Role: identity.Admin})
	token := bearer(p.Token("api://dragoman", idptest.Claims{"groups": []string{"admins"}}))
	soon(t, "the key and the token count", func() bool {
		return r.do(t.Context(), "GET", "/api/v1/status", nil, append(key, "Host", publicName)...).status == 200 && r.do(t.Context(), "GET", "/api/v1/status", nil, append(token, "Host", publicName)...).status == 200
	})
	people := map[string]*invited{}
	for name, role := range map[string]identity.Role{"caller": identity.Caller, "viewer": identity.Viewer, "operator": identity.Operator, "admin": identity.Admin, "ended": identity.Admin} {
		people[name] = invites(t, roster, name, role)
	}
	for name, role := range map[string]identity.Role{"other viewer": identity.Viewer, "other admin": identity.Admin} {
		people[name] = invitesTo(t, roster, "shop", name, role)
	}
	credentials := map[string][]string{"nobody": {"Host", publicName}, "an MCP key": append(key, "Host", publicName), "an MCP token": append(token, "Host", publicName)}
	for name, who := range people {
		who.enters(r)
		credentials[name] = who.header
	}
	if _, err := roster.SignOut(t.Context(), "local", people["ended"].id); err != nil {
		t.Fatal(err)
	}
	soon(t, "a session has ended", func() bool { return people["ended"].sees(r) == 401 })

	has := map[string]map[string]identity.Role{
		"default": {"viewer": identity.Viewer, "operator": identity.Operator, "admin": identity.Admin, "caller": identity.Caller},
		"shop":    {"other viewer": identity.Viewer, "other admin": identity.Admin},
		"nowhere": {},
	}
	for project, roles := range has {
		for _, x := range consoleTable(t) {
			if project != "default" && x.Whole {
				continue
			}
			tryRoute(t, r, project, x, credentials, roles)
		}
	}
	for _, name := range []string{"an MCP key", "an MCP token"} {
		if a := r.do(t.Context(), "GET", "/console/events?page=/console/", nil, credentials[name]...); a.status != 401 {
			t.Errorf("the events with %s: %d", name, a.status)
		}
	}
	for _, name := range []string{"viewer", "operator", "admin", "caller", "other viewer", "other admin"} {
		for _, path := range []string{"/mcp", "/p/default/mcp", "/s/adas-server/mcp", "/p/shop/mcp", "/p/shop/s/shops-server/mcp"} {
			if a := r.modern(path, "1", "tools/list", "", "", credentials[name]...); a.status != 401 {
				t.Errorf("the session of %s at %s: %d", name, path, a.status)
			}
		}
		if a := r.post("/console/signout", "", append(slices.Clone(sameOrigin), credentials[name]...)...); a.status != 200 {
			t.Errorf("%s signs out: %d", name, a.status)
		}
	}
}

// tryRoute asks for a route of the console in a project, with every method and all credentials; roles are those in the
// project of who has a session.
func tryRoute(t *testing.T, r *rig, project string, x console.Route, credentials map[string][]string, roles map[string]identity.Role) {
	path := regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(strings.TrimSuffix(x.Path, "{$}"), "none")
	if project != "default" {
		path = "/console/p/" + project + strings.TrimPrefix(path, "/console")
	}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE"} {
		for name, header := range credentials {
			role := roles[name]
			signedIn := name != "nobody" && name != "ended" && !strings.HasPrefix(name, "an MCP")
			if signedIn && path == "/console/signout" && method == "POST" {
				continue // it's what it says
			}
			a := r.do(t.Context(), method, path, nil, append(slices.Clone(sameOrigin), header...)...)
			ours := method == x.Method || method == "HEAD" && x.Method == "GET"
			switch {
			case method == "PUT" && a.status == 405, method == "DELETE" && a.status == 405: // nobody's
			case !signedIn && a.status != 401:
				t.Errorf("%s %s with %s: %d", method, path, name, a.status)
			case !signedIn, project == "default" && !ours:
			case project != "default" && role == 0:
				if a.status != 404 || method != "HEAD" && !strings.Contains(a.body, "No project has the name") {
					t.Errorf("%s %s as %s: %d", method, path, name, a.status)
				}
			case !ours:
			case path == "/console/" && role == 0:
				if a.status != 303 || a.header.Get("Location") != "/console/p/shop/" {
					t.Errorf("%s begins at %d %s", name, a.status, a.header.Get("Location"))
				}
			case x.Least == 0 || role.Includes(x.Least) || x.Least == identity.Caller && role != 0:
				if a.status == 401 || a.status == 403 || a.status >= 500 {
					t.Errorf("%s %s as %s: %d", method, path, name, a.status)
				}
			case a.status != 403 || method != "HEAD" && !(strings.Contains(a.body, `id="nav"`) && strings.Contains(a.body, "needs the role "+x.Least.String())):
				t.Errorf("%s %s as %s: %d %s", method, path, name, a.status, a.body)
			}
			for server, of := range map[string]string{"adas-server": "default", "shops-server": "shop"} {
				if strings.Contains(a.body, server) && (of != project || !signedIn || role < identity.Viewer) {
					t.Errorf("%s %s with %s names %s: %s", method, path, name, server, a.body)
				}
			}
		}
	}
}

// streamOf returns what the stream of a page's live values sends within five seconds, or the status if there is none.
func (p *invited) streamOf(r *rig, page string) (status int, text string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer cancel()
	resp, err := r.request(ctx, "GET", "/console/events?page="+url.QueryEscape(page), nil, p.header...)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// TestTA49_OnePageForTwo has an admin, a viewer and a viewer of another project ask for the same pages, and follow
// their streams at the same time. The viewer gets nothing of what only the admin may use, and nothing about the admin;
// the other one no byte about the project, neither in a page nor in a stream, the palette or the page of something
// that doesn't exist.
func TestTA49_OnePageForTwo(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "dragoman.db")
	r := serve(t, snapshot(newWeb(t, true).as(t, "adas-server")), behindProxy(database), func(o *ServeOptions) {
		o.Config.Projects = []config.Project{{Name: "shop", Config: snapshot(newWeb(t, true).as(t, "shops-server"))}}
	})
	roster := rosterAt(t, deskAt(t, database))
	ada, ben, eve := invites(t, roster, "Ada-Admin", identity.Admin), invites(t, roster, "Ben", identity.Viewer), invitesTo(t, roster, "shop", "Eve-Viewer", identity.Viewer)
	for _, who := range []*invited{ada, ben, eve} {
		who.enters(r)
	}
	pages := []string{"/console/", "/console/servers", "/console/servers/adas-server", "/console/servers/adas-serve", "/console/settings", "/console/me", "/console/servers/add", "/console/palette.json", "/console/nope",
		"/console/p/shop/", "/console/p/shop/servers", "/console/p/shop/servers/shops-server", "/console/p/shop/settings", "/console/p/shop/servers/add", "/console/p/shop/palette.json", "/console/p/shop/nope"}
	streams := map[string]chan [2]string{}
	var reading sync.WaitGroup
	defer reading.Wait()
	for name, who := range map[string]*invited{"ada": ada, "ben": ben, "eve": eve} {
		streams[name] = make(chan [2]string, len(pages))
		for _, page := range pages {
			reading.Go(func() {
				_, text := who.streamOf(r, page)
				streams[name] <- [2]string{page, text}
			})
		}
	}
	admins := []string{"/edit", "/servers/add", "Ada-Admin", ada.id, "shops-serve", "Eve-Viewer"}
	projects := []string{"/edit", "/servers/add", "Ada-Admin", ada.id, "adas-serve", `"/console/calls`, "Ben"}
	for name, x := range map[string]struct {
		who  *invited
		bad  []string
		sees bool
	}{"ben": {ben, admins, true}, "eve": {eve, projects, false}} {
		look := func(where, page, text string) {
			text = strings.NewReplacer(page, "", url.QueryEscape(page), "").Replace(text) // what the browser asked for is in its page
			for _, bad := range x.bad {
				// The refusal tells a viewer who has the role, and the 404 of Ben names a server that he sees.
				told := name == "ben" && (bad == "Ada-Admin" && page == "/console/servers/add" || bad == "/servers/add" && strings.Contains(text, "needs the role"))
				if strings.Contains(text, bad) && !told {
					t.Errorf("%s gets %q in %s of %s: %s", name, bad, where, page, text)
				}
			}
		}
		for _, page := range pages {
			a := r.do(t.Context(), "GET", page, nil, x.who.header...)
			look("the page", page, a.body)
			own := strings.HasPrefix(page, "/console/p/shop/") && page != "/console/p/shop/servers/add" && page != "/console/p/shop/nope"
			if name == "eve" && (a.status == 200) != (own || page == "/console/me" || page == "/console/palette.json") {
				t.Errorf("eve gets %d from %s", a.status, page)
			}
			if name == "ben" && strings.HasPrefix(page, "/console/p/shop/") && a.status != 404 {
				t.Errorf("ben gets %d from %s", a.status, page)
			}
		}
		for range pages {
			got := <-streams[name]
			look("the stream", got[0], got[1])
		}
	}
	live := 0
	for range pages {
		if got := <-streams["ada"]; strings.Contains(got[1], "event: patch") {
			live++
		}
	}
	if live < 5 {
		t.Errorf("%d streams of the admin have values", live)
	}
}

var madeLink = regexp.MustCompile(`id="own-link">([^<]+)<`)

// TestLinkForAnotherBrowser makes a link on the page about Ada, who was invited, and about Cy, who comes by way of a
// provider. What it opens ends when the session ends in which it was made, and the acts say what happened.
func TestLinkForAnotherBrowser(t *testing.T) {
	t.Parallel()
	p := idptest.New(t)
	r := signedInAt(t, p)
	p.Person = idptest.Claims{"sub": "cy", "name": "Cy", "groups": []string{"staff"}}
	cy := newVisitor(r)
	if a := cy.back(cy.begin()); a.status != 200 || !cy.in() {
		t.Fatalf("cy: %d %s", a.status, a.body)
	}
	form := func(v *visitor, path, sent string) answer {
		v.t.Helper()
		a := v.do(t.Context(), "POST", path, strings.NewReader(sent), append(slices.Clone(sameOrigin), "Host", publicName, "Cookie", v.jar())...)
		for _, c := range (&http.Response{Header: a.header}).Cookies() {
			v.cookies[c.Name] = c.Value
		}
		return a
	}
	a := form(cy, "/console/me", "do=link&number=ABC")
	found := madeLink.FindStringSubmatch(a.body)
	if a.status != 200 || found == nil {
		t.Fatalf("%d %s", a.status, a.body)
	}
	link, err := url.Parse(html.UnescapeString(found[1]))
	if err != nil || link.Scheme+"://"+link.Host+link.Path != "https://"+publicName+"/console/invitation" {
		t.Fatalf("the link is %s", found[1])
	}
	again := form(cy, "/console/me", "do=link&number=ABC")
	if x := madeLink.FindStringSubmatch(again.body); x == nil || x[1] != found[1] {
		t.Errorf("the form that is sent again makes another link: %d", again.status)
	}
	phone := newVisitor(r)
	if a := phone.ask("GET", link.RequestURI(), "none"); a.status != 200 || !strings.Contains(a.body, "Sign in here") || !strings.Contains(a.body, "one more browser as Cy") {
		t.Errorf("the link: %d %s", a.status, a.body)
	}
	a = form(phone, "/console/invitation", link.RawQuery)
	cookies := (&http.Response{Header: a.header}).Cookies()
	if a.status != http.StatusSeeOther || len(cookies) != 1 || cookies[0].MaxAge > 12*3600 || cookies[0].MaxAge < 11*3600 || !phone.in() {
		t.Fatalf("%d %v", a.status, a.header)
	}
	other := regexp.MustCompile(`name="session" value="([^"]+)"`).FindStringSubmatch(cy.ask("GET", "/console/me", "same-origin").body)
	if other == nil {
		t.Fatal("the page doesn't have the second browser")
	}
	if a := form(cy, "/console/me", "do=end&session="+other[1]); a.status != http.StatusSeeOther || phone.in() || !cy.in() {
		t.Errorf("cy ends the second session: %d", a.status)
	}
	// Signing in again in the same browser ends the session before.
	former := newVisitor(r)
	for name, value := range cy.cookies {
		former.cookies[name] = value
	}
	if a := cy.back(cy.begin()); a.status != 200 || !cy.in() || former.in() {
		t.Errorf("after another sign-in: %d, and the former session goes on: %t", a.status, former.in())
	}
}
