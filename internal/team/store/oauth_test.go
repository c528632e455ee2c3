package store

import (
	"context"
	"testing"
	"time"
)

// TestOAuth adds clients, grants and consents, and ends them in each way. What belongs to somebody else stays.
func TestOAuth(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		s := open(t, o)
		write := func(f func(*Tx) error) {
			t.Helper()
			if err := s.Write(context.Background(), "local", f); err != nil {
				t.Fatal(err)
			}
		}
		add := func(id string, most int) (added bool) {
			write(func(x *Tx) (err error) {
				added, err = x.AddOAuthClient(OAuthClient{ID: id, Text: "{}", Sum: []byte("sum")}, most)
				return err
			})
			return added
		}
		if !add("one", 2) || !add("two", 2) || add("three", 2) {
			t.Error("the limit of clients that wait is another one")
		}
		// Strangers who have used up the limit keep nobody out for a day: what has waited for longer than a sign-in takes
		// makes room, the oldest first, and one at a time.
		for id, age := range map[string]time.Duration{"one": PatientClient + time.Minute, "two": PatientClient + 2*time.Minute} {
			write(func(x *Tx) error {
				return x.t.Exec("UPDATE oauth_clients SET made = ? WHERE id = ?", textOf(time.Now().Add(-age)), id)
			})
		}
		there := func(id string) bool {
			_, ok, err := s.OAuthClient(t.Context(), id)
			return ok && err == nil
		}
		if !add("flood", 2) || there("two") || !there("one") {
			t.Error("a client that has waited for long makes no room")
		}
		write(func(x *Tx) error { return x.t.Exec("UPDATE oauth_clients SET id = 'two' WHERE id = 'flood'") })
		until := time.Now().Add(time.Hour)
		grant := func(id, subject, client string) {
			write(func(x *Tx) error {
				if err := x.Consent("consent of "+id, subject, client); err != nil {
					return err
				}
				return x.AddGrant(Grant{ID: id, Subject: subject, Client: client, Text: "text", Sum: []byte("sum"), Open: true, Until: until})
			})
		}
		grant("g1", "p:ada", "one")
		grant("g2", "p:bob", "one")
		grant("g3", "p:ada", "https://claude.ai/client")
		if !add("three", 2) {
			t.Error("a client that somebody uses counts as one that waits")
		}
		if x, there, err := s.OAuthClient(t.Context(), "one"); !there || err != nil || x.Used.IsZero() || string(x.Sum) != "sum" {
			t.Errorf("%+v %t %v", x, there, err)
		}
		if n := len(s.Snapshot().Grants()); n != 0 {
			t.Errorf("%d grants are in force without tokens", n)
		}
		for _, id := range []string{"g1", "g2", "g3"} {
			write(func(x *Tx) error {
				g, there, err := x.Grant(id)
				if err != nil || !there || !g.Open {
					t.Errorf("%s: %+v %v", id, g, err)
				}
				g.Open, g.Text = false, "new"
				return x.SetGrant(g, "")
			})
		}
		is := func(what string, want ...string) {
			t.Helper()
			for _, s := range []*Store{s, open(t, o)} {
				all := s.Snapshot().Grants()
				got := map[string]bool{}
				for _, g := range all {
					got[g.ID] = g.Text == "new" && g.Until.Equal(until)
					_, there := s.Snapshot().Grant(g.ID)
					got[g.ID] = got[g.ID] && there
				}
				if len(got) != len(want) {
					t.Errorf("%s: %+v", what, all)
				}
				for _, id := range want {
					if !got[id] {
						t.Errorf("%s: no %s in %+v", what, id, all)
					}
				}
			}
		}
		is("at first", "g1", "g2", "g3")
		write(func(x *Tx) error { _, err := x.RemoveOAuthClient("one"); return err })
		is("without a client", "g3")
		if yes, err := s.Consented(t.Context(), "consent of g2"); yes || err != nil {
			t.Errorf("the consent of a client that was removed: %t %v", yes, err)
		}
		if yes, _ := s.Consented(t.Context(), "consent of g3"); !yes {
			t.Error("another consent is gone")
		}
		grant("g4", "p:bob", "two")
		write(func(x *Tx) error { _, err := x.endGrants("subject", "p:bob"); return err })
		write(func(x *Tx) error {
			_, there, err := x.Grant("g4")
			if there {
				t.Error("the grant of somebody who was removed is there")
			}
			return err
		})
		write(func(x *Tx) error {
			if there, err := x.EndGrant("g5", "revoked"); there || err != nil {
				t.Errorf("a grant that isn't there: %t %v", there, err)
			}
			_, err := x.EndGrant("g3", "revoked")
			return err
		})
		is("at last")
	})
}
