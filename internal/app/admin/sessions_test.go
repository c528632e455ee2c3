package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// rolesOfPeople gives people the roles that they have, and the local user all.
func (r *rig) rolesOfPeople() {
	roster := r.api.opts.Roster
	r.api.Access().RolesFrom(func(who *identity.Principal, project string) []identity.Role {
		if p, ok := roster.People().Find(strings.TrimPrefix(who.Subject, store.PersonSubject)); ok {
			return p.Roles[project]
		}
		return localRoles(who, project)
	})
}

// signIn invites somebody and accepts the invitation. It returns whose session that is.
func (r *rig) signIn(name string, roles ...identity.Role) (who *identity.Principal, id string) {
	r.t.Helper()
	roster := r.api.opts.Roster
	token, p, err := roster.Invite(r.t.Context(), "local", name, "default", roles)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.session(token), p.ID
}

func (r *rig) session(token string) *identity.Principal {
	r.t.Helper()
	roster := r.api.opts.Roster
	session, _, err := roster.Accept(r.t.Context(), token, access.Arrival{Browser: "Firefox on Linux", Address: "192.0.2.7"})
	if err != nil {
		r.t.Fatal(err)
	}
	return roster.People().Session(session, time.Now())
}

// TestSessions lists somebody's sessions, and ends one of them: once, and not as an admin of another project.
func TestSessions(t *testing.T) {
	t.Parallel()
	r := serving(t)
	r.runtime.Apply("shop", config.Default())
	r.rolesOfPeople()
	who, ada := r.signIn("ada", identity.Viewer)
	token, _, err := r.api.opts.Roster.Link(t.Context(), "local", ada, "default")
	if err != nil {
		t.Fatal(err)
	}
	other := r.session(token)
	var list PersonSessions
	r.tell("GET", "/people/ADA/sessions", "", 200, &list)
	if len(list.Sessions) != 2 || list.Sessions[0].Browser != "Firefox on Linux" || list.Sessions[0].Address != "192.0.2.7" || list.Sessions[0].Way != access.ByInvitation || time.Since(list.Sessions[0].Began) > time.Hour {
		t.Errorf("%+v", list)
	}
	mine, _ := r.api.opts.Roster.People().SessionOf(who)
	_, bob := r.signIn("bob", identity.Viewer)
	for _, c := range []struct {
		path, want string
		status     int
	}{
		{"/people/bob/sessions/" + mine.ID, "no-such-session", 404}, {"/people/ada/sessions/none", "no-such-session", 404}, {"/people/eve/sessions/" + mine.ID, "no-such-person", 404},
		{"/people/ada/sessions/" + mine.ID + "?project=shop", "no-such-person", 404}, // she isn't in it
		{"/people/ada/sessions/" + mine.ID, `"browser": "Firefox on Linux"`, 200}, {"/people/ada/sessions/" + mine.ID, "It has ended already", 404},
	} {
		if a := r.do("DELETE", "/api/v1"+c.path, ""); a.status != c.status || !strings.Contains(a.body, c.want) {
			t.Errorf("%s: %d %s", c.path, a.status, a.body)
		}
	}
	people := r.api.opts.Roster.People()
	if _, ok := people.SessionOf(who); ok {
		t.Error("the session goes on")
	}
	if _, ok := people.SessionOf(other); !ok {
		t.Error("the other session has ended, too")
	}
	var p PersonDetails
	r.tell("GET", "/people/"+bob, "", 200, &p)
	if p.Name != "bob" || len(p.Browsers) != 1 || len(p.Keys) != 0 {
		t.Errorf("%+v", p)
	}
	if _, bad := r.api.PersonFor(t.Context(), other, "bob"); bad == nil || bad.Status != 403 {
		t.Errorf("a viewer sees bob's sessions: %v", bad)
	}
	if _, bad := r.api.EndSessionFor(t.Context(), other, "bob", p.Browsers[0].ID); bad == nil || bad.Status != 403 {
		t.Errorf("a viewer ends bob's session: %v", bad)
	}
}

// TestOwnKeys lets people without the role admin make, see, rotate and revoke keys: those that act for them, with their
// own roles, for 90 days, and only in their session. A key that acts for them can't do it, whatever it may do.
func TestOwnKeys(t *testing.T) {
	t.Parallel()
	r := serving(t)
	r.rolesOfPeople()
	ada, adaID := r.signIn("ada", identity.Caller, identity.Operator)
	ben, benID := r.signIn("ben", identity.Caller)
	admin, _ := r.signIn("root", identity.Admin)
	request := func(who *identity.Principal, q APIKeyRequest, want string) NewAPIKey {
		t.Helper()
		q.Name = "k"
		k, bad := r.api.MakeKeyFor(t.Context(), who, q)
		got := "made"
		if bad != nil {
			got = bad.Type
		}
		if got != want {
			t.Errorf("%+v asks for %+v: %s, want %s", who, q, got, want)
		}
		return k
	}
	hers, his := request(ada, APIKeyRequest{Mine: true}, "made"), request(ben, APIKeyRequest{Owner: benID, Life: "24h"}, "made")
	strong := request(ada, APIKeyRequest{Owner: adaID, Role: "operator"}, "made")
	if hers.Owner != "ada" || !hers.Mine || !r.lets(hers.Text) || !strings.Contains(strong.Note, "Another key has this name") {
		t.Errorf("%+v %+v", hers, strong)
	}
	request(ben, APIKeyRequest{}, kindRole)
	request(ben, APIKeyRequest{Owner: adaID}, kindRole)
	request(ben, APIKeyRequest{Owner: "nobody"}, kindRole)
	request(ben, APIKeyRequest{Mine: true, Role: "viewer"}, "key-role")
	request(ada, APIKeyRequest{Mine: true, Role: "admin"}, "key-role")
	request(ada, APIKeyRequest{Mine: true, Life: "never"}, "key-life")
	request(ada, APIKeyRequest{Mine: true, Life: "91d"}, "key-life")
	request(identity.Named("ben"), APIKeyRequest{Mine: true}, kindRole) // a session that isn't a person's
	request(nobody, APIKeyRequest{Mine: true}, kindRole)
	forBen := request(admin, APIKeyRequest{Owner: "ben", Role: "viewer", Life: "never"}, "made")
	if !strings.Contains(forBen.Note, "ben doesn't have the role viewer") {
		t.Errorf("%+v", forBen)
	}
	request(admin, APIKeyRequest{Role: "admin"}, "made")

	for who, want := range map[*identity.Principal]int{ada: 5, ben: 2, admin: 5, identity.Named("eve"): 0} {
		if all, bad := r.api.KeysFor(t.Context(), who); bad != nil || len(all) != want {
			t.Errorf("%s sees %d keys, want %d", who.Subject, len(all), want)
		}
	}
	withKey := func(k *NewAPIKey) *identity.Principal {
		keys, err := r.api.desk().Keys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return keys.Principal(k.ID)
	}
	for _, c := range []struct {
		who  *identity.Principal
		id   string
		life string
		want string
	}{
		{ben, hers.ID, "", "no-such-key"}, // he doesn't see it
		{ada, his.ID, "", kindRole},       // she sees it, and it isn't hers
		{withKey(&hers), hers.ID, "", kindRole},
		{withKey(&strong), hers.ID, "", kindRole},
		{ben, his.ID, "never", "key-life"},
		{ben, forBen.ID, "91d", "key-life"},
		{nobody, his.ID, "", "no-such-key"},
		{ben, his.ID, "90d", ""},
		{admin, his.ID, "never", ""},
	} {
		_, bad := r.api.RotateKeyFor(t.Context(), c.who, c.id, APIKeyRotation{Life: c.life})
		if got := typeOf(bad); got != c.want {
			t.Errorf("%v rotates %s for %s: %q, want %q", c.who, c.id, c.life, got, c.want)
		}
	}
	if _, bad := r.api.RotateKeyFor(t.Context(), admin, his.ID, APIKeyRotation{Hint: his.Hint}); typeOf(bad) != "key-changed" {
		t.Errorf("a key that has another secret by now: %v", bad)
	}
	if _, bad := r.api.RevokeKeyFor(t.Context(), ben, hers.ID); typeOf(bad) != "no-such-key" {
		t.Errorf("ben revokes ada's key: %v", bad)
	}
	if gone, bad := r.api.RevokeKeyFor(t.Context(), ada, hers.ID); bad != nil || gone.ID != hers.ID || r.lets(hers.Text) {
		t.Errorf("ada revokes hers: %v", bad)
	}
	if _, bad := r.api.KeyFor(t.Context(), ada, hers.ID); typeOf(bad) != "no-such-key" {
		t.Errorf("a revoked key: %v", bad)
	}
}

// TestKeysOfOthers lets an admin of one project rotate the keys there. The new secret acts for the owner of the key, so
// it must be somebody whom the admin may decide about: not a person who is in other projects too, nor the local user.
func TestKeysOfOthers(t *testing.T) {
	t.Parallel()
	r := serving(t)
	r.rolesOfPeople()
	r.runtime.Apply("shop", config.Default())
	shop, _ := r.api.For("shop")
	roster := r.api.opts.Roster
	_, adaID := r.signIn("ada", identity.Viewer)
	if err := roster.SetRoles(t.Context(), "local", adaID, "shop", []identity.Role{identity.Caller}); err != nil {
		t.Fatal(err)
	}
	join := func(name string, role identity.Role) *identity.Principal {
		token, _, err := roster.Invite(t.Context(), "local", name, "shop", []identity.Role{role})
		if err != nil {
			t.Fatal(err)
		}
		return r.session(token)
	}
	sue := join("sue", identity.Admin)
	join("tom", identity.Caller)
	root, _ := r.signIn("root", identity.Admin)
	for owner, q := range map[string]APIKeyRequest{"ada": {Owner: "ada"}, "tom": {Owner: "tom"}, "nobody": {}, "local": {Mine: true}} {
		q.Name = owner
		k, bad := shop.MakeKeyFor(t.Context(), identity.Local, q)
		if bad != nil {
			t.Fatal(owner, bad)
		}
		want := ""
		if owner == "ada" || owner == "local" {
			want = kindRole
		}
		if _, bad := shop.RotateKeyFor(t.Context(), sue, k.ID, APIKeyRotation{}); typeOf(bad) != want {
			t.Errorf("an admin of the project rotates the key of %s: %v", owner, bad)
		}
		if _, bad := shop.RotateKeyFor(t.Context(), root, k.ID, APIKeyRotation{}); bad != nil {
			t.Errorf("an admin of default rotates the key of %s: %v", owner, bad)
		}
		if _, bad := shop.RevokeKeyFor(t.Context(), sue, k.ID); bad != nil {
			t.Errorf("an admin of the project revokes the key of %s: %v", owner, bad)
		}
	}
}

// nobody is who has no credential.
var nobody *identity.Principal

func typeOf(bad *Problem) string {
	if bad == nil {
		return ""
	}
	return bad.Type
}

// TestRolesByTwo changes somebody's roles twice: who hasn't seen the first change makes none.
func TestRolesByTwo(t *testing.T) {
	t.Parallel()
	r := serving(t)
	r.signIn("ada", identity.Caller, identity.Viewer)
	var p Person
	r.tell("PUT", "/people/ada/roles", `{"roles":["operator"],"was":["viewer","caller"]}`, 200, &p)
	if a := r.do("PUT", "/api/v1/people/ada/roles", `{"roles":["admin"],"was":["viewer","caller"]}`, "Content-Type", "application/json"); a.status != 409 || !strings.Contains(a.body, "ada has the roles operator in the project default by now") {
		t.Errorf("%d %s", a.status, a.body)
	}
	r.tell("PUT", "/people/ada/roles", `{"roles":[],"was":["operator"]}`, 200, &p)
	r.tell("PUT", "/people/ada/roles", `{"roles":["viewer"],"was":["none"]}`, 200, &p)
	if rolesOf(&p) != "default: viewer" {
		t.Errorf("%+v", p)
	}
}

// BenchmarkKeysFor measures how long the server needs to read 10,000 keys with their last uses, before a page of the
// console filters and sorts them.
func BenchmarkKeysFor(b *testing.B) {
	r := serving(b)
	wishes := make([]access.Wish, 10_000)
	for i := range wishes {
		wishes[i] = access.Wish{Name: "key", Project: "default", Role: identity.Caller, Life: time.Hour}
	}
	if _, _, err := r.api.desk().MakeAll(b.Context(), "local", wishes); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if all, bad := r.api.KeysFor(b.Context(), identity.Local); bad != nil || len(all) != len(wishes) {
			b.Fatal(len(all), bad)
		}
	}
}
