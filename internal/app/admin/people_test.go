package admin

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
)

// tokenOf returns the token of an invitation's link.
func tokenOf(t testing.TB, x *NewInvitation) string {
	t.Helper()
	u, err := url.Parse(x.Link)
	if err != nil || u.Path != InvitationPath || len(u.Query().Get(InvitationQuery)) != 43 {
		t.Fatalf("the link is %q, %v", x.Link, err)
	}
	return u.Query().Get(InvitationQuery)
}

// rolesOf returns a person's roles as "default: caller viewer, shop: admin".
func rolesOf(p *Person) string {
	var all []string
	for _, x := range p.Roles {
		all = append(all, x.Project+": "+strings.Join(x.Roles, " "))
	}
	return strings.Join(all, ", ")
}

// TestPeople invites people, gives them roles, signs them out and removes one of them.
func TestPeople(t *testing.T) {
	t.Parallel()
	r := serving(t)
	roster := r.api.opts.Roster
	var ada, bob, again NewInvitation
	r.tell("POST", "/people", `{"name":"ada"}`, 201, &ada)
	r.tell("POST", "/people", `{"name":"Bob <b>/~","roles":["viewer","caller","operator"]}`, 201, &bob)
	if ada.Name != "ada" || rolesOf(&ada.Person) != "default: caller viewer" || ada.By != "local" || ada.Sessions != 0 || ada.Seen != "" || ada.Note != "" ||
		ada.Invited == nil || !ada.Invited.Equal(ada.Expires) || time.Until(ada.Expires).Round(time.Hour) != access.InvitationLife || !strings.HasPrefix(ada.Link, r.web.URL+InvitationPath) {
		t.Errorf("%+v", ada)
	}
	if rolesOf(&bob.Person) != "default: caller operator" {
		t.Errorf("%+v", bob)
	}
	accept := func(x *NewInvitation) {
		t.Helper()
		if _, _, err := roster.Accept(t.Context(), tokenOf(t, x), access.Arrival{}); err != nil {
			t.Error(err)
		}
	}
	accept(&ada)
	var p Person
	r.tell("PUT", "/people/ADA/roles", `{"roles":["operator","admin","caller"]}`, 200, &p)
	if rolesOf(&p) != "default: caller admin" || p.Sessions != 1 || p.Invited != nil || p.Seen != time.Now().UTC().Format(time.DateOnly) {
		t.Errorf("%+v", p)
	}
	r.tell("POST", "/people/"+ada.ID+"/invitation", "", 200, &again)
	accept(&again)
	var first, page People
	a := r.tell("GET", "/people?limit=1", "", 200, &first)
	r.tell("GET", "/people?limit=1&cursor="+first.Next, "", 200, &page)
	if first.Total != 2 || page.Next != "" || first.People[0].ID != ada.ID || first.People[0].Sessions != 2 || page.People[0].ID != bob.ID || strings.Contains(a.body, "link") {
		t.Errorf("%+v %+v", first, page)
	}
	var key NewAPIKey
	r.tell("POST", "/keys", `{"name":"hers","owner":"ada"}`, 201, &key)
	if key.Owner != "ada" || !r.lets(key.Text) {
		t.Errorf("%+v", key)
	}
	var out SignedOut
	r.tell("POST", "/people/ada/sign-out", "", 200, &out)
	if out.Ended != 2 || out.Sessions != 0 || out.Seen != "" {
		t.Errorf("%+v", out)
	}
	r.tell("PUT", "/people/ada/roles", `{"roles":[]}`, 200, &p)
	if rolesOf(&p) != "" {
		t.Errorf("%+v", p)
	}
	r.tell("DELETE", "/people/ada", "", 200, &p)
	if p.ID != ada.ID || r.lets(key.Text) {
		t.Errorf("%+v, and her key is in force: %t", p, r.lets(key.Text))
	}
	accept(&bob)
	name := PathName(bob.Name)
	r.tell("PUT", "/people/"+name+"/roles", `{"roles":["viewer"]}`, 200, &p)
	if p.ID != bob.ID || p.Sessions != 1 {
		t.Errorf("%+v", p)
	}
}

// TestBadPeople checks that what can't be has no effect, and gets a problem that says why.
func TestBadPeople(t *testing.T) {
	t.Parallel()
	r := serving(t)
	var innocent NewInvitation
	r.tell("POST", "/people", `{"name":"innocent"}`, 201, &innocent)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/people", `{"name":""}`, 422, "name of 1 to 64 bytes"},
		{"POST", "/people", `{"name":"a\u202eb"}`, 422, "control characters"},
		{"POST", "/people", `{"name":"local"}`, 422, "which is the user who runs dragoman"},
		{"POST", "/people", `{"name":"x","roles":["owner"]}`, 422, "caller, viewer, operator and admin"},
		{"POST", "/people", `{"name":"INNOCENT"}`, 409, "person-exists"},
		{"POST", "/people", `{"name":"x","project":"shop"}`, 400, "unknown field"},
		{"POST", "/people?project=shop", `{"name":"x"}`, 404, "no-such-project"},
		{"PUT", "/people/x/roles", `{"roles":["viewer"]}`, 404, "no-such-person"},
		{"PUT", "/people/innocent/roles", `{"roles":["viewer,caller"]}`, 422, "each by itself"},
		{"PUT", "/people/p%3A" + innocent.ID + "/roles", `{"roles":["admin"]}`, 404, "no-such-person"},
		{"POST", "/people/x/invitation", ``, 404, "no-such-person"},
		{"POST", "/people/x/sign-out", ``, 404, "no-such-person"},
		{"DELETE", "/people/x", ``, 404, "no-such-person"},
		{"DELETE", "/people/innocent?project=shop", ``, 400, "leave the parameter out"},
		{"POST", "/keys", `{"name":"x","owner":"nobody"}`, 404, "no-such-person"},
		{"POST", "/keys", `{"name":"x","owner":"innocent","mine":true}`, 422, "either for you or for somebody else"},
	} {
		a := r.do(c.method, "/api/v1"+c.path, c.body, "Content-Type", "application/json")
		if a.status != c.status || !strings.Contains(a.body, c.want) || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, a.status, a.body)
		}
	}
	now := r.api.opts.Safe.Store().Snapshot()
	if len(now.People()) != 1 || len(now.Keys()) != 0 || !slices.Equal(now.People()[0].Roles["default"], []identity.Role{identity.Caller, identity.Viewer}) {
		t.Errorf("the people are %+v", now.People())
	}
	if _, _, err := r.api.opts.Roster.Accept(t.Context(), tokenOf(t, &innocent), access.Arrival{}); err != nil {
		t.Error(err)
	}
}

// TestPeopleOfTwoProjects checks what an admin of one project may do with people of another: see, link, sign out and
// remove none of them, nor make a key that acts for them, however the admin names them.
func TestPeopleOfTwoProjects(t *testing.T) {
	t.Parallel()
	r := serving(t)
	r.runtime.Apply("shop", config.Default())
	guard := r.api.Access()
	guard.RolesFrom(func(who *identity.Principal, project string) []identity.Role {
		if who.Subject == "ann" && project == "shop" {
			return []identity.Role{identity.Admin}
		}
		return localRoles(who, project)
	})
	var ours, both, hers NewInvitation
	r.tell("POST", "/people", `{"name":"ours"}`, 201, &ours)
	r.tell("POST", "/people", `{"name":"both"}`, 201, &both)
	at := []string{"Cookie", enter(guard, guard.LinkFor(identity.Named("ann"), "")), "Host", guard.Name() + ":7300", "Content-Type", "application/json"}
	ann := func(method, path, body string) reply { return r.ask(method, "/api/v1"+path, body, at...) }
	if a := ann("POST", "/people?project=shop", `{"name":"hers","roles":["admin"]}`); a.status != 201 {
		t.Fatalf("%d %s", a.status, a.body)
	} else {
		a.into(t, &hers)
	}
	if a := ann("PUT", "/people/both/roles?project=shop", `{"roles":["viewer"]}`); a.status != 200 || strings.Contains(a.body, "default") {
		t.Errorf("ann gives somebody of another project a role in hers: %d %s", a.status, a.body)
	}
	list := ann("GET", "/people?project=shop", "")
	if strings.Contains(list.body, ours.ID) || strings.Contains(list.body, "default") || !strings.Contains(list.body, both.ID) || !strings.Contains(list.body, hers.ID) {
		t.Errorf("ann sees %s", list.body)
	}
	var all People
	r.tell("GET", "/people", "", 200, &all)
	if all.Total != 3 || rolesOf(&all.People[0]) != "default: caller viewer, shop: viewer" || rolesOf(&all.People[1]) != "shop: admin" || all.People[1].By != "ann" {
		t.Errorf("the local user sees %+v", all)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/people", "", 403}, {"POST", "/people", `{"name":"x"}`, 403}, {"PUT", "/people/hers/roles", `{"roles":["admin"]}`, 403},
		{"POST", "/people/ours/invitation?project=shop", "", 404}, {"POST", "/people/ours/sign-out?project=shop", "", 404},
		{"POST", "/people/both/invitation?project=shop", "", 403}, {"POST", "/people/both/sign-out?project=shop", "", 403},
		{"POST", "/people/hers/invitation", "", 403}, {"DELETE", "/people/hers", "", 403}, {"DELETE", "/people/hers?project=shop", "", 403},
		{"POST", "/keys?project=shop", `{"name":"x","owner":"ours"}`, 404}, {"POST", "/keys?project=shop", `{"name":"x","owner":"both"}`, 403},
		{"POST", "/people/hers/invitation?project=shop", "", 200}, {"POST", "/people/hers/sign-out?project=shop", "", 200}, {"POST", "/keys?project=shop", `{"name":"x","owner":"hers"}`, 201},
	} {
		for _, name := range []string{"ours", "both", "hers"} {
			c.path = strings.Replace(c.path, name, map[string]string{"ours": ours.ID, "both": both.ID, "hers": hers.ID}[name], 1)
		}
		if a := ann(c.method, c.path, c.body); a.status != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
		}
	}
	if _, _, err := r.api.opts.Roster.Accept(t.Context(), tokenOf(t, &both), access.Arrival{}); err != nil {
		t.Errorf("the innocent can't come in: %v", err)
	}
}

// TestPublicConsole checks at which public URLs people can open the console.
func TestPublicConsole(t *testing.T) {
	for public, want := range map[string]string{
		"https://mcp.example.com": "https://mcp.example.com", "https://mcp.example.com:8443/": "https://mcp.example.com:8443",
		"https://example.com/mcp": "", "http://mcp.example.com": "", "": "", "https://": "", "mcp.example.com": "",
	} {
		if got := PublicConsole(public); got != want {
			t.Errorf("%q: %q, want %q", public, got, want)
		}
	}
}
