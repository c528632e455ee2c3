package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// peopleOf returns the people, sessions and keys of a snapshot.
func peopleOf(s *Snapshot) string {
	var all []string
	for _, x := range s.People() {
		text := x.Name
		for _, project := range []string{"default", "shop"} {
			if roles := x.Roles[project]; len(roles) > 0 {
				text += fmt.Sprint(" ", project, roles)
			}
		}
		if x.Open.Sum != nil {
			text += fmt.Sprintf(" invited to %s by %s with %s", x.Open.Project, x.Open.Actor, x.Open.Sum)
		}
		all = append(all, text)
	}
	for _, x := range s.Sessions() {
		all = append(all, strings.Join(strings.Fields(x.ID+" of "+x.Person+" "+string(x.Sum)+" "+x.Browser+" "+x.Address+" "+x.Way), " "))
	}
	for _, x := range s.Keys() {
		all = append(all, "key "+x.Name)
	}
	return strings.Join(all, "; ")
}

// TestPeople invites people, gives them roles, and lets them in and out. Each change leaves its acts, and reaches
// another store; Bob stays as he is.
func TestPeople(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		s := open(t, o)
		later, past := time.Now().Add(time.Hour).Truncate(time.Second), time.Now().Add(-time.Hour)
		yes := func(ok bool, err error) error {
			if err == nil && !ok {
				err = fmt.Errorf("nothing was done")
			}
			return err
		}
		no := func(ok bool, err error) error {
			if err == nil && ok {
				err = fmt.Errorf("it was done")
			}
			return err
		}
		invite := func(who, sum string, until time.Time) func(*Tx) error {
			return func(t *Tx) error {
				return yes(t.Invite(who, Invitation{Sum: []byte(sum), Project: "shop", Until: until}))
			}
		}
		session := func(who, id string, until time.Time) Session {
			x := Session{ID: id, Sum: []byte("sum" + id), Person: who, Until: until}
			if id == "b" {
				x.Browser, x.Address, x.Way = "Firefox on Linux", "192.0.2.1", "invitation"
			}
			return x
		}
		const bob, bobs = "Bob default[caller viewer]", "; b of 2 sumb Firefox on Linux 192.0.2.1 invitation"
		for i, c := range []struct {
			change func(*Tx) error
			want   string
			acts   []string // without the actor, the newest first
		}{
			{func(t *Tx) error { return yes(t.AddPerson("2", "Bob", []byte("2"))) }, "Bob", []string{"added person:2"}},
			{func(t *Tx) error {
				return yes(t.SetRoles("2", "default", []identity.Role{identity.Caller, identity.Viewer}, []byte("2")))
			}, bob, []string{"set roles caller viewer person:2/default"}},
			{invite("2", "x", later), bob + " invited to shop by local with x", []string{"invited person:2/shop"}},
			{func(t *Tx) error { return yes(t.Accept([]byte("x"), session("2", "b", later))) }, bob + bobs, []string{"began session:2/b", "accepted an invitation person:2"}},
			{func(t *Tx) error { return yes(t.AddPerson("1", "ada", []byte("1"))) }, "ada; " + bob + bobs, []string{"added person:1"}},
			{func(t *Tx) error { return no(t.AddPerson("3", "ADA", []byte("3"))) }, "ada; " + bob + bobs, nil},
			{func(t *Tx) error { return no(t.SetRoles("3", "shop", []identity.Role{identity.Admin}, []byte("3"))) }, "ada; " + bob + bobs, nil},
			{func(t *Tx) error { return no(t.Invite("3", Invitation{Sum: []byte("y")})) }, "ada; " + bob + bobs, nil},
			{func(t *Tx) error { return yes(t.SetRoles("1", "shop", []identity.Role{identity.Admin}, []byte("1"))) }, "ada shop[admin]; " + bob + bobs, []string{"set roles admin person:1/shop"}},
			{invite("1", "old", later), "ada shop[admin] invited to shop by local with old; " + bob + bobs, []string{"invited person:1/shop"}},
			{invite("1", "late", past), "ada shop[admin] invited to shop by local with late; " + bob + bobs, []string{"invited person:1/shop"}},
			{func(t *Tx) error { return no(t.Accept([]byte("old"), session("1", "a", later))) }, "ada shop[admin] invited to shop by local with late; " + bob + bobs, nil},
			{func(t *Tx) error { return no(t.Accept([]byte("late"), session("1", "a", later))) }, "ada shop[admin] invited to shop by local with late; " + bob + bobs, nil},
			{invite("1", "new", later), "ada shop[admin] invited to shop by local with new; " + bob + bobs, []string{"invited person:1/shop"}},
			{func(t *Tx) error { return no(t.Accept([]byte("new"), session("2", "a", later))) }, "ada shop[admin] invited to shop by local with new; " + bob + bobs, nil},
			{func(t *Tx) error { return yes(t.Accept([]byte("new"), session("1", "a", past))) }, "ada shop[admin]; " + bob + bobs + "; a of 1 suma", []string{"began session:1/a", "accepted an invitation person:1"}},
			{func(t *Tx) error { return no(t.Accept([]byte("new"), session("1", "c", later))) }, "ada shop[admin]; " + bob + bobs + "; a of 1 suma", nil},
			{invite("1", "3", later), "ada shop[admin] invited to shop by local with 3; " + bob + bobs + "; a of 1 suma", []string{"invited person:1/shop"}},
			{func(t *Tx) error { return yes(t.Accept([]byte("3"), session("1", "d", later))) }, "ada shop[admin]; " + bob + bobs + "; d of 1 sumd", []string{"began session:1/d", "accepted an invitation person:1"}}, // a has expired
			{func(t *Tx) error { return t.SeeSession("d", "::1") }, "ada shop[admin]; " + bob + bobs + "; d of 1 sumd ::1", []string{}},
			{func(t *Tx) error { return no(t.EndSession("2", "d")) }, "ada shop[admin]; " + bob + bobs + "; d of 1 sumd ::1", nil},
			{func(t *Tx) error { return yes(t.EndSession("1", "d")) }, "ada shop[admin]; " + bob + bobs, []string{"ended session:1/d"}},
			{invite("1", "4", later), "ada shop[admin] invited to shop by local with 4; " + bob + bobs, []string{"invited person:1/shop"}},
			{func(t *Tx) error { _, ok, err := t.EndSessions("1"); return yes(ok, err) }, "ada shop[admin]; " + bob + bobs, []string{"signed out person:1"}},
			{func(t *Tx) error {
				return t.AddKey(Key{ID: "0123456789ab", Name: "hers", Sum: []byte{1}, Owner: "p:1", Project: "shop", Role: identity.Caller})
			}, "ada shop[admin]; " + bob + bobs + "; key hers", []string{"made key:shop/0123456789ab"}},
			{func(t *Tx) error {
				return t.AddKey(Key{ID: "1123456789ab", Name: "his", Sum: []byte{1}, Owner: "p:2", Project: "shop", Role: identity.Caller})
			}, "ada shop[admin]; " + bob + bobs + "; key hers; key his", []string{"made key:shop/1123456789ab"}},
			{func(t *Tx) error { return yes(t.SetRoles("1", "shop", nil, []byte("1"))) }, "ada; " + bob + bobs + "; key hers; key his", []string{"set roles none person:1/shop"}},
			{invite("1", "5", later), "ada invited to shop by local with 5; " + bob + bobs + "; key hers; key his", []string{"invited person:1/shop"}},
			{func(t *Tx) error { return yes(t.RemovePerson("1")) }, bob + bobs + "; key his", []string{"removed person:1", "revoked key:shop/0123456789ab", "signed out person:1"}},
			{func(t *Tx) error { return no(t.RemovePerson("1")) }, bob + bobs + "; key his", nil},
			{func(t *Tx) error { return yes(t.AddPerson("4", "Ada", []byte("4"))) }, "Ada; " + bob + bobs + "; key his", []string{"added person:4"}},
		} {
			before := actsOf(t, s)
			if err := s.Write(t.Context(), "local", c.change); err != nil {
				t.Errorf("%d: %v", i, err)
			}
			if got := peopleOf(s.Snapshot()); got != c.want {
				t.Errorf("%d: %s\nwant %s", i, got, c.want)
			}
			now := actsOf(t, s)
			got := now[:len(now)-len(before)]
			for j := range got {
				got[j] = strings.TrimPrefix(got[j], "local ")
			}
			if !slices.Equal(got, c.acts) && len(got)+len(c.acts) > 0 {
				t.Errorf("%d: the acts are %q, want %q", i, got, c.acts)
			}
		}
		other := open(t, o)
		if got, want := peopleOf(other.Snapshot()), peopleOf(s.Snapshot()); got != want {
			t.Errorf("another store has %s, want %s", got, want)
		}
		if x, ok := other.Snapshot().Person("2"); !ok || x.Name != "Bob" || string(x.Sum) != "2" || string(x.Sums["default"]) != "2" || x.Actor != "local" || time.Since(x.Added) > time.Hour {
			t.Errorf("Bob is %+v", x)
		}
		if x := other.Snapshot().Sessions(); len(x) != 1 || !x[0].Until.Equal(later) || x[0].Seen.Before(x[0].Began.Truncate(time.Second)) || time.Since(x[0].Seen) > time.Hour {
			t.Errorf("the sessions are %+v", x)
		}
		// A row of before has the day.
		if err := s.Write(t.Context(), "local", func(t *Tx) error {
			if err := t.t.Exec("UPDATE sessions SET seen = '2026-01-02'"); err != nil {
				return err
			}
			return t.changed("seen", sessionKind, "b")
		}); err != nil {
			t.Error(err)
		}
		await(t, other, "the day of Bob's session", func(s *Snapshot) bool {
			return s.Sessions()[0].Seen.Equal(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
		})
		if err := s.Write(t.Context(), "local", func(t *Tx) error { _, _, err := t.EndSessions("2"); return err }); err != nil {
			t.Error(err)
		}
		await(t, other, "Bob's session ends", func(s *Snapshot) bool { return len(s.Sessions()) == 0 })
	})
}
