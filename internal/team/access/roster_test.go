package access

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// house opens a roster with its desk and its gate. Several may use one database.
func house(t *testing.T, where string) (*Roster, *Desk, *Gate) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Database: where})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	d, g := NewDesk(store.NewSafe(s, vault.New(vault.Options{File: filepath.Join(filepath.Dir(where), "vault.key")}))), NewGate(false)
	r := NewRoster(d, g)
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r, d, g
}

// TestRoster invites Ada and Bob, lets them in, and takes Ada's roles, session and account away. After each step it
// asks who they are and what their keys may do, here and where the database is read anew.
func TestRoster(t *testing.T) {
	where := filepath.Join(t.TempDir(), "dragoman.db")
	r, desk, gate := house(t, where)
	if _, _, err := r.Accept(t.Context(), NewSecret().text(), Arrival{}); !errors.Is(err, ErrNoLink) {
		t.Errorf("an invitation that was never made: %v", err)
	}
	enter := func(name string, roles ...identity.Role) (session, id string) {
		t.Helper()
		token, p, err := r.Invite(t.Context(), "local", name, "shop", roles)
		if err != nil || time.Until(p.Open.Until) > InvitationLife+time.Second || time.Until(p.Open.Until) < InvitationLife-time.Minute {
			t.Fatalf("%+v %v", p, err)
		}
		now := gate.people.Load()
		if _, ok := now.Invited(token, p.Open.Until.Add(-1)); !ok {
			t.Error("an invitation has expired too early")
		}
		if _, ok := now.Invited(token, p.Open.Until); ok {
			t.Error("an invitation does not expire")
		}
		session, _, err = r.Accept(t.Context(), token, Arrival{})
		if err != nil {
			t.Fatal(err)
		}
		who := gate.people.Load().Session(session, time.Now())
		if left := time.Until(who.Until); left < SessionLife-time.Minute || left > SessionLife+time.Second || gate.people.Load().Session(session, who.Until) != nil {
			t.Errorf("a session lasts %s", left)
		}
		if _, _, err := r.Accept(t.Context(), token, Arrival{}); !errors.Is(err, ErrNoLink) {
			t.Errorf("an invitation opens twice: %v", err)
		}
		if gate.people.Load().Session(token, time.Now()) != nil {
			t.Error("the invitation itself is a session")
		}
		return session, p.ID
	}
	bob, _ := enter("Bob", identity.Caller, identity.Viewer)
	ada, id := enter("ada", identity.Caller, identity.Operator)
	keys := map[string]string{}
	for name, role := range map[string]identity.Role{"calls": identity.Caller, "admin": identity.Admin, "views": identity.Viewer} {
		text, _, err := desk.Make(t.Context(), "local", Wish{Name: name, Owner: "p:" + id, Project: "shop", Role: role})
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = text
	}
	is := func(when string, session bool, want map[string]string) {
		t.Helper()
		_, anew, other := house(t, where)
		for at, x := range map[string]struct {
			desk *Desk
			gate *Gate
		}{"here": {desk, gate}, "anew": {anew, other}} {
			k, err := x.desk.Keys(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			x.gate.Use(k)
			people := x.gate.people.Load()
			who := people.Session(ada, time.Now())
			if (who != nil) != session || session && (who.Subject != "p:"+id || !strings.HasPrefix(who.Seat, "s:") || who.Via != "link" || who.Until.IsZero()) {
				t.Errorf("%s, %s: ada is %+v", when, at, who)
			}
			got := map[string]string{}
			text := func(roles []identity.Role) string {
				if len(roles) == 0 {
					return ""
				}
				names := make([]string, len(roles))
				for i := range roles {
					names[i] = roles[i].String()
				}
				return strings.Join(names, " ")
			}
			if session {
				got["session"] = text(x.gate.Roles(who, "shop"))
			}
			seats, _ := x.gate.Seats(time.Now())
			for name, key := range keys {
				who, err := x.gate.Principal(request("/mcp", "Authorization", "Bearer "+key))
				if err != nil {
					got[name] = "refused"
					continue
				}
				got[name] = text(x.gate.Roles(who, "shop"))
				if _, reaches := x.gate.Reach(who, "shop"); reaches != (got[name] == "caller") || !seats[who.Seat] || who.Subject != "p:"+id {
					t.Errorf("%s, %s: %s has %q and reaches %t", when, at, name, got[name], reaches)
				}
				if x.gate.Roles(who, "default") != nil {
					t.Errorf("%s, %s: %s has a role in another project", when, at, name)
				}
			}
			for name, role := range want {
				if got[name] != role {
					t.Errorf("%s, %s: %s has %q, want %q", when, at, name, got[name], role)
				}
			}
			if who := people.Session(bob, time.Now()); who == nil || text(x.gate.Roles(who, "shop")) != "caller viewer" || x.gate.Roles(who, "default") != nil || people.Name(who.Subject) != "Bob" {
				t.Errorf("%s, %s: bob is %+v", when, at, who)
			}
		}
	}
	is("at first", true, map[string]string{"session": "caller operator", "calls": "caller", "admin": "operator", "views": "viewer"})
	set := func(roles ...identity.Role) {
		t.Helper()
		if err := r.SetRoles(t.Context(), "local", id, "shop", roles); err != nil {
			t.Fatal(err)
		}
	}
	set(identity.Viewer)
	is("a viewer", true, map[string]string{"session": "viewer", "calls": "refused", "admin": "viewer", "views": "viewer"})
	set(identity.Caller)
	is("a caller", true, map[string]string{"session": "caller", "calls": "caller", "admin": "refused", "views": "refused"})
	set()
	is("without a role", true, map[string]string{"session": "", "calls": "refused", "admin": "refused", "views": "refused"})
	set(identity.Caller, identity.Admin)
	is("an admin", true, map[string]string{"session": "caller admin", "calls": "caller", "admin": "admin", "views": "viewer"})
	before := gate.people.Load().Session(ada, time.Now())
	if n, err := r.SignOut(t.Context(), "local", id); n != 1 || err != nil {
		t.Errorf("signed out of %d sessions, %v", n, err)
	}
	is("signed out", false, map[string]string{"calls": "caller", "admin": "admin"})
	if gate.Roles(before, "shop") != nil {
		t.Error("a principal outlives its session")
	}
	token, _, err := r.Link(t.Context(), "local", id, "shop")
	if err == nil {
		ada, _, err = r.Accept(t.Context(), token, Arrival{})
	}
	if err != nil {
		t.Fatal(err)
	}
	is("with another link", true, map[string]string{"session": "caller admin"})
	if err := errors.Join(r.Leave(t.Context(), ada), r.Leave(t.Context(), ada), r.Leave(t.Context(), "x")); err != nil {
		t.Error(err)
	}
	is("after leaving", false, map[string]string{"calls": "caller"})
	if err := r.Remove(t.Context(), "local", id); err != nil {
		t.Fatal(err)
	}
	is("removed", false, map[string]string{"calls": "refused", "admin": "refused", "views": "refused"})
	_, _, link := r.Link(t.Context(), "local", id, "shop")
	_, out := r.SignOut(t.Context(), "local", id)
	for _, err := range []error{link, out, r.Remove(t.Context(), "local", id), r.SetRoles(t.Context(), "local", id, "shop", nil)} {
		if !errors.Is(err, ErrNoPerson) {
			t.Errorf("nobody has the id: %v", err)
		}
	}
}

// TestTA08WrittenPeople checks that Eve, who has an account, an API key and the database, gets nothing out of rows that
// she writes or moves: not another role, person or project, nor a longer life. Bob's rows stay good.
func TestTA08WrittenPeople(t *testing.T) {
	later := time.Now().Add(365 * 24 * time.Hour).Truncate(time.Second)
	type rows struct {
		eve, bob store.Person
		session  store.Session // eve's
		key      store.Key
	}
	yes := func(_ bool, err error) error { return err }
	// begin begins a session with an invitation of Eve's own.
	begin := func(x *store.Tx, s store.Session) error {
		sum := []byte("eve's own")
		if _, err := x.Invite(s.Person, store.Invitation{Sum: sum, Project: "shop", Until: later}); err != nil {
			return err
		}
		return yes(x.Accept(sum, s))
	}
	for name, write := range map[string]func(x *store.Tx, r *rows) error{
		"nothing": func(*store.Tx, *rows) error { return nil },
		"a role": func(x *store.Tx, r *rows) error {
			return yes(x.SetRoles(r.eve.ID, "shop", []identity.Role{identity.Admin}, r.eve.Sums["shop"]))
		},
		"a project": func(x *store.Tx, r *rows) error {
			return yes(x.SetRoles(r.eve.ID, "default", r.eve.Roles["shop"], r.eve.Sums["shop"]))
		},
		"bob's role": func(x *store.Tx, r *rows) error {
			return yes(x.SetRoles(r.eve.ID, "shop", r.bob.Roles["shop"], r.bob.Sums["shop"]))
		},
		"an unsigned role": func(x *store.Tx, r *rows) error {
			return yes(x.SetRoles(r.eve.ID, "shop", []identity.Role{identity.Admin}, nil))
		},
		"bob's session": func(x *store.Tx, r *rows) error {
			r.session.Person = r.bob.ID
			return errors.Join(yes(x.EndSession(r.eve.ID, r.session.ID)), begin(x, r.session))
		},
		"a longer session": func(x *store.Tx, r *rows) error {
			r.session.Until = later
			return errors.Join(yes(x.EndSession(r.eve.ID, r.session.ID)), begin(x, r.session))
		},
		"a session of her key": func(x *store.Tx, r *rows) error {
			r.session.Sum = r.key.Sum
			return errors.Join(yes(x.EndSession(r.eve.ID, r.session.ID)), begin(x, r.session))
		},
		"an invitation of bob": func(x *store.Tx, r *rows) error {
			r.eve.Open.Until = later
			return yes(x.Invite(r.bob.ID, r.eve.Open))
		},
		"her name on another id": func(x *store.Tx, r *rows) error { return yes(x.AddPerson("another", "Eve 2", r.eve.Sum)) },
	} {
		r, desk, gate := house(t, filepath.Join(t.TempDir(), "dragoman.db"))
		join := func(name string, role identity.Role) (session string, p store.Person) {
			token, p, err := r.Invite(t.Context(), "local", name, "shop", []identity.Role{role})
			if err == nil {
				session, _, err = r.Accept(t.Context(), token, Arrival{})
			}
			if err != nil {
				t.Fatal(err)
			}
			return session, p
		}
		bobs, bob := join("bob", identity.Admin)
		eves, eve := join("eve", identity.Viewer)
		token, eve, err := r.Link(t.Context(), "local", eve.ID, "shop")
		if err != nil {
			t.Fatal(err)
		}
		text, key, err := desk.Make(t.Context(), "local", Wish{Name: "eve", Project: "shop", Role: identity.Caller})
		if err != nil {
			t.Fatal(err)
		}
		was := rows{eve, bob, gate.people.Load().seats[gate.people.Load().Session(eves, time.Now()).Seat].Session, key}
		if err := desk.safe.Store().Write(t.Context(), "eve", func(x *store.Tx) error { return write(x, &was) }); err != nil {
			t.Fatal(name, err)
		}
		if err := r.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := gate.people.Load()
		if forged := now.Forged() > 0; forged == (name == "nothing") {
			t.Errorf("%s: %d forged rows", name, now.Forged())
		}
		for _, secret := range []string{eves, token, text, text[secretAt : secretAt+textSize]} {
			who := now.Session(secret, time.Now())
			if who != nil && (who.Subject != "p:"+eve.ID || who.Until.After(later.Add(-24*time.Hour))) {
				t.Errorf("%s: eve is %+v", name, who)
			}
			if roles := append(gate.Roles(who, "shop"), gate.Roles(who, "default")...); len(roles) > 1 || len(roles) == 1 && roles[0] != identity.Viewer {
				t.Errorf("%s: eve has the roles %v", name, roles)
			}
		}
		if p, ok := now.Invited(token, time.Now()); ok && p.ID != eve.ID {
			t.Errorf("%s: eve's link is %s's", name, p.Name)
		}
		if who := now.Session(bobs, time.Now()); who == nil || !slices.Equal(gate.Roles(who, "shop"), []identity.Role{identity.Admin}) {
			t.Errorf("%s: bob is out", name)
		}
	}
}

// TestInvitationOfAMomentAgo opens an invitation that another process has just made, with the database itself. Many
// made-up ones at once open nothing.
func TestInvitationOfAMomentAgo(t *testing.T) {
	where := filepath.Join(t.TempDir(), "dragoman.db")
	here, _, _ := house(t, where)
	there, _, _ := house(t, where)
	token, ada, err := there.Invite(t.Context(), "local", "ada", "shop", []identity.Role{identity.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	if p, people, ok := here.Invited(t.Context(), token); !ok || p.Name != "ada" || people.Name(store.PersonSubject+p.ID) != "ada" {
		t.Errorf("who was invited a moment ago is %+v", p)
	}
	if token, _, err = there.Link(t.Context(), "local", ada.ID, "shop"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := here.Accept(t.Context(), token, Arrival{}); err != nil {
		t.Errorf("a link of a moment ago: %v", err)
	}
	if _, _, err := there.Accept(t.Context(), token, Arrival{}); !errors.Is(err, ErrNoLink) {
		t.Errorf("the link a second time, at the other process: %v", err)
	}
	var asks sync.WaitGroup
	for range 50 {
		asks.Go(func() {
			if _, _, ok := here.Invited(t.Context(), NewSecret().text()); ok {
				t.Error("somebody made up an invitation")
			}
		})
	}
	asks.Wait()
}

// TestPeopleWhoCannotBe checks which names and roles nobody can have.
func TestPeopleWhoCannotBe(t *testing.T) {
	for name, good := range map[string]bool{
		"ada": true, "Ada Lovelace": true, "ada@example.com": true, "李": true, "<img src=x onerror=alert(1)>": true, strings.Repeat("x", 64): true,
		"": false, " ada": false, "a\nb": false, "a\u202eb": false, "a\u200bb": false, "a\u2066b": false, "a\u0085b": false, "a\u009bb": false, "\xff": false, "local": false, "Me": false, "-x": false, "p:1": false,
		strings.Repeat("x", 65): false, Text(NewID(), NewSecret())[:60]: false,
	} {
		var m Mistake
		if err := CheckName(name); (err == nil) != good || err != nil && !errors.As(err, &m) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for names, want := range map[string][]identity.Role{
		"": nil, "caller": {identity.Caller}, "viewer caller": {identity.Caller, identity.Viewer}, "viewer admin operator viewer": {identity.Admin}, "owner": nil, "none": nil,
	} {
		got, err := RolesNamed(strings.Fields(names))
		if !slices.Equal(got, want) || (err != nil) != (names == "owner" || names == "none") {
			t.Errorf("%q: %v %v", names, got, err)
		}
	}
}

// TestRefreshOnce checks that people and keys are made anew only if theirs is what has changed, and then once.
func TestRefreshOnce(t *testing.T) {
	r, desk, _ := house(t, filepath.Join(t.TempDir(), "dragoman.db"))
	times := 0
	desk.Then(func(ctx context.Context) { // as serve does
		before := r.People()
		if err := r.Refresh(ctx); err != nil {
			t.Error(err)
		}
		if r.People() != before {
			times++
		}
	})
	_, ada, err := r.Invite(t.Context(), "local", "ada", "shop", []identity.Role{identity.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := desk.Keys(t.Context())
	if err != nil || !desk.Has(keys) {
		t.Fatal("the keys are others at once", err)
	}
	people := r.People()
	if err := r.Refresh(t.Context()); err != nil || times != 1 || r.People() != people {
		t.Errorf("one change makes the people anew %d times (%v)", times, err)
	}
	if err := desk.safe.SetSecret(t.Context(), "local", "shop", "x", []byte("y")); err != nil {
		t.Fatal(err)
	}
	if err := r.Refresh(t.Context()); err != nil || r.People() != people || !desk.Has(keys) {
		t.Error("a secret makes people or keys anew", err)
	}
	if _, _, err := desk.Make(t.Context(), "local", Wish{Name: "ci", Project: "shop", Role: identity.Caller}); err != nil {
		t.Fatal(err)
	}
	if r.People() != people || desk.Has(keys) {
		t.Error("a key makes the people anew, or not the keys")
	}
	if err := r.SetRoles(t.Context(), "local", ada.ID, "shop", []identity.Role{identity.Admin}); err != nil {
		t.Fatal(err)
	}
	if now, ok := r.People().Find("ada"); !ok || now.Roles["shop"][0] != identity.Admin || times != 2 {
		t.Errorf("after another role, made anew %d times: %+v", times, now)
	}
}
