package console

import (
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// graded gives each user of a console the role in their name; the local user has role.
func (h *testConsole) graded(role *identity.Role) {
	h.access.RolesFrom(func(who *identity.Principal, _ string) []identity.Role {
		if who == identity.Local {
			return []identity.Role{*role}
		}
		if who == nil {
			return nil
		}
		if r, ok := identity.RoleOf(who.Subject); ok {
			return []identity.Role{r}
		}
		return nil
	})
}

// TestRolesOfTheConsole asks each route of the console with the sessions of a caller, a viewer, an
// operator and an admin. Who has too low a role gets 403, on the page and on its stream of events, and
// the local user still gets in. The daemon's tests ask with everything else that a request can have; see TestTA50.
func TestRolesOfTheConsole(t *testing.T) {
	h, local := open(t, &admin.Report{}), identity.Admin
	h.graded(&local)
	sessions := map[string]string{}
	for _, name := range []string{"caller", "viewer", "operator", "admin", "guest"} {
		sessions[name] = h.cookieOf(name)
	}
	may := map[string][]string{"caller": {"none", "caller"}, "viewer": {"none", "caller", "viewer"}, "operator": {"none", "caller", "viewer", "operator"}, "admin": {"none", "caller", "viewer", "operator", "admin"}, "guest": {"none"}}
	for _, x := range h.console.Table() {
		if x.Path == signOutPath {
			continue // it ends the session
		}
		path := regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(strings.TrimSuffix(x.Path, "{$}"), "1")
		for name, session := range sessions {
			allowed := slices.Contains(may[name], x.Least.String())
			if resp, body := h.ask(x.Method, path, "Cookie", session); strings.Contains(body, "needs the role "+x.Least.String()) == allowed || (resp.StatusCode == 403) == allowed {
				t.Errorf("%s %s as %s: %d", x.Method, x.Path, name, resp.StatusCode)
			}
			if x.Method == "GET" && !allowed {
				for _, page := range []string{path, "/console/x/.." + strings.TrimPrefix(path, "/console")} {
					if resp, _ := h.ask("GET", "/console/events?page="+url.QueryEscape(page), "Cookie", session); resp.StatusCode != 403 {
						t.Errorf("the events of %s as %s: %d", page, name, resp.StatusCode)
					}
				}
			}
		}
		if resp, _ := h.ask(x.Method, path); resp.StatusCode == 403 || resp.StatusCode == 401 {
			t.Errorf("%s %s as the local user: %d", x.Method, x.Path, resp.StatusCode)
		}
	}
	for _, name := range []string{"caller", "guest"} {
		if resp, _ := h.ask("GET", "/console/nope", "Cookie", sessions[name]); resp.StatusCode != 403 {
			t.Errorf("an unknown page as %s: %d", name, resp.StatusCode)
		}
	}
}

// TestTable compares the routes with the table in docs/console.md, where people look them up. With -update it writes
// the table.
func TestTable(t *testing.T) {
	h := open(t, &admin.Report{})
	const file, from, to = "../../../docs/console.md", "<!-- routes -->\n", "<!-- end of routes -->\n"
	var table strings.Builder
	table.WriteString("| address | method | least role | typed words |\n|---|---|---|---|\n")
	for _, x := range h.console.Table() {
		least := strings.Replace(x.Least.String(), "none", "any session", 1)
		table.WriteString(strings.Join([]string{"| `" + strings.TrimSuffix(x.Path, "{$}") + "`", x.Method, least, x.Sure}, " | ") + " |\n")
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), from)
	now, after, ended := strings.Cut(rest, to)
	if !ok || !ended {
		t.Fatal("docs/console.md has no place for the table")
	}
	if *update {
		now = table.String()
		if err := os.WriteFile(file, []byte(before+from+now+to+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if now != table.String() {
		t.Errorf("docs/console.md has another table; run `go test ./internal/app/console -run TestTable -update` and read the difference:\n%s", table.String())
	}
}

var (
	postForm   = regexp.MustCompile(`<form[^>]*method="post"[^>]*>`)
	formAction = regexp.MustCompile(` action="([^"]*)"`)
	ownLink    = regexp.MustCompile(` href="(/console/[^"]*)"`)
)

// TestRoleOfThePages looks at every page of every scene as somebody without a role, a viewer, an operator and an
// admin: no page has a form or a link that its user may not use, and the palette has none either. The admin sees some
// of each, so the test finds them.
func TestRoleOfThePages(t *testing.T) {
	seen := map[identity.Role]map[identity.Role]int{} // what pages offer, by role and by what that needs
	for name, pages := range pagesOf {
		synctest.Test(t, func(t *testing.T) {
			h, role := stage(t, name), identity.Role(0)
			h.graded(&role)
			offers := func(method, to, on string) {
				to, _, _ = strings.Cut(strings.ReplaceAll(to, "&amp;", "&"), "#")
				r := h.request(method, to)
				x := h.console.frame.find(r)
				if v := (viewer{role: role}); !v.may(x.least) {
					t.Errorf("%s: %s offers %s %s to whoever has the role %s", name, on, method, to, role)
				}
				if seen[role] == nil {
					seen[role] = map[identity.Role]int{}
				}
				seen[role][x.least]++
			}
			for _, role = range []identity.Role{0, identity.Viewer, identity.Operator, identity.Admin} {
				for _, page := range append([]string{"/me"}, pages...) {
					resp, body := h.ask("GET", "/console"+page)
					if closed := resp.StatusCode == http.StatusForbidden; closed == (&viewer{role: role}).may(h.console.frame.find(h.request("GET", "/console"+page)).least) {
						t.Errorf("%s as %s: %d", page, role, resp.StatusCode)
					}
					for _, form := range postForm.FindAllString(body, -1) {
						to := "/console" + page
						if a := formAction.FindStringSubmatch(form); a != nil {
							to = a[1]
						}
						offers("POST", to, page)
					}
					for _, link := range ownLink.FindAllStringSubmatch(body, -1) {
						if !strings.HasPrefix(link[1], "/console/static/") {
							offers("GET", link[1], page)
						}
					}
				}
				_, found := h.ask("GET", "/console/palette.json")
				for _, to := range regexp.MustCompile(`"p":"([^"]*)"`).FindAllStringSubmatch(found, -1) {
					offers("GET", to[1], "the palette")
				}
			}
		})
	}
	for role, want := range map[identity.Role][]identity.Role{0: {anyone}, identity.Viewer: {anyone, identity.Viewer}, identity.Operator: {anyone, identity.Viewer, identity.Operator}, identity.Admin: {anyone, identity.Viewer, identity.Operator, identity.Admin}} {
		for _, least := range want {
			if seen[role][least] == 0 {
				t.Errorf("as %s, no page offers what needs %s", role, least)
			}
		}
	}
}
