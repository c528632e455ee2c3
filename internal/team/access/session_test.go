package access

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// arrives invites somebody and lets them in with a browser.
func arrives(t *testing.T, r *Roster, name string, at Arrival) *identity.Principal {
	t.Helper()
	token, _, err := r.Invite(t.Context(), "local", name, "shop", []identity.Role{identity.Viewer})
	if err != nil {
		t.Fatal(err)
	}
	return enters(t, r, token, at)
}

func enters(t *testing.T, r *Roster, token string, at Arrival) *identity.Principal {
	t.Helper()
	secret, until, err := r.Accept(t.Context(), token, at)
	if err != nil {
		t.Fatal(err)
	}
	who := r.People().Session(secret, time.Now())
	if who == nil || !who.Until.Equal(until) {
		t.Fatalf("the session is %+v, until %s", who, until)
	}
	return who
}

// session returns the session that somebody has.
func (r *Roster) session(t *testing.T, who *identity.Principal) store.Session {
	t.Helper()
	s, ok := r.People().SessionOf(who)
	if !ok {
		t.Fatalf("%+v has no session", who)
	}
	return s
}

// TestSee checks that a session that is used is noted at most once in ten minutes, and in memory too if the database
// doesn't have it.
func TestSee(t *testing.T) {
	r, desk, gate := house(t, filepath.Join(t.TempDir(), "dragoman.db"))
	who := arrives(t, r, "ada", Arrival{Address: "192.0.2.1"})
	r.See(t.Context(), who, "192.0.2.2")
	if s := r.session(t, who); s.Address != "192.0.2.1" {
		t.Errorf("a new session is noted at once: %+v", s)
	}
	long := time.Now().Add(-11 * time.Minute)
	gate.people.Load().of(who).Seen = long
	r.See(t.Context(), identity.Local, "192.0.2.3")
	before := desk.safe.Store().Snapshot()
	for range 3 {
		r.See(t.Context(), who, "192.0.2.2")
	}
	after := desk.safe.Store().Snapshot()
	if s := r.session(t, who); before == after || time.Since(s.Seen) > 10*time.Minute || s.Address != "192.0.2.2" {
		t.Errorf("%+v", s)
	}
	gate.people.Load().of(who).Seen = long
	if r.See(t.Context(), who, "192.0.2.4"); desk.safe.Store().Snapshot() != after {
		t.Error("it is noted again at once")
	}
}

// TestSessionsOfOnesOwn lets Ada open a second browser with a link of her own, sign in again in the first, and end the
// second. Her link is as good as her session and no longer; Bob can neither end hers nor loses his.
func TestSessionsOfOnesOwn(t *testing.T) {
	r, _, gate := house(t, filepath.Join(t.TempDir(), "dragoman.db"))
	firefox := Arrival{Browser: "Firefox on Linux", Address: "192.0.2.1"}
	ada, bob := arrives(t, r, "ada", firefox), arrives(t, r, "bob", Arrival{})
	first := r.session(t, ada)
	if first.Browser != firefox.Browser || first.Address != firefox.Address || first.Way != ByInvitation || time.Since(first.Began) > time.Minute || time.Since(first.Seen) > time.Minute {
		t.Errorf("the session is %+v", first)
	}

	if _, _, err := r.OwnLink(t.Context(), identity.Local); !errors.Is(err, ErrNoPerson) {
		t.Errorf("a link of somebody who has no session: %v", err)
	}
	token, until, err := r.OwnLink(t.Context(), ada)
	if left := time.Until(until); err != nil || left > OwnLinkLife+time.Second || left < OwnLinkLife-time.Minute {
		t.Fatalf("the link can be used until %s: %v", until, err)
	}
	if _, ok := r.People().Invited(token, until); ok {
		t.Error("the link does not expire")
	}
	phone := enters(t, r, token, Arrival{Browser: "Safari on iPhone"})
	if second := r.session(t, phone); phone.Subject != ada.Subject || phone.Seat == ada.Seat || second.Way != ByLink || !second.Until.Equal(first.Until) {
		t.Errorf("the second session is %+v, the first ends at %s", second, first.Until)
	}
	if _, _, err := r.Accept(t.Context(), token, Arrival{}); !errors.Is(err, ErrNoLink) {
		t.Errorf("a link opens twice: %v", err)
	}

	// Another link, with an end that somebody has written into the database, opens nothing.
	if token, _, err = r.OwnLink(t.Context(), ada); err != nil {
		t.Fatal(err)
	}
	person, _ := r.People().Find("ada")
	open := person.Open
	open.Ends = open.Ends.Add(time.Hour)
	if err := r.change(t.Context(), "x", func(t *store.Tx) (bool, error) { return t.Invite(person.ID, open) }); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Accept(t.Context(), token, Arrival{}); !errors.Is(err, ErrNoLink) || r.People().Forged() != 1 {
		t.Errorf("a session that somebody made longer: %v", err)
	}

	// She signs in again in the first browser: the session is renewed.
	if token, _, err = r.Link(t.Context(), "local", person.ID, "shop"); err != nil {
		t.Fatal(err)
	}
	again := enters(t, r, token, Arrival{Before: []string{first.ID, "of nobody"}})
	if gate.people.Load().of(ada) != nil {
		t.Error("the browser has two sessions")
	}
	ids := func() (all []string) {
		for _, s := range r.People().Sessions(person.ID) {
			all = append(all, s.ID)
		}
		slices.Sort(all)
		return all
	}
	second, renewed := r.session(t, phone).ID, r.session(t, again).ID
	if want := []string{second, renewed}; !slices.Equal(ids(), slices.Sorted(slices.Values(want))) {
		t.Errorf("her sessions are %q, want %q", ids(), want)
	}
	for _, who := range []*identity.Principal{bob, identity.Local, nil} {
		if ok, err := r.End(t.Context(), who, second); ok || err != nil {
			t.Errorf("%+v ends ada's session: %v", who, err)
		}
	}
	for _, want := range []bool{true, false} {
		if ok, err := r.End(t.Context(), again, second); ok != want || err != nil {
			t.Errorf("ada ends a session: %t %v", ok, err)
		}
	}
	if gate.people.Load().of(phone) != nil || gate.people.Load().of(again) == nil || gate.people.Load().of(bob) == nil {
		t.Error("the wrong session has ended")
	}
}
