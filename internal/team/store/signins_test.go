package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// signInsOf returns the credentials, registrations and flows of a snapshot.
func signInsOf(s *Snapshot) string {
	var all []string
	for _, x := range s.AllCredentials() {
		text := fmt.Sprintf("%s at %s: %s", x.Subject, x.Issuer, x.Sealed)
		if x.Spent {
			text += " spent"
		}
		all = append(all, text)
	}
	for _, x := range slices.SortedFunc(maps.Values(s.registrations), func(a, b Registration) int {
		return slices.Compare([]string{a.Issuer, a.Redirect}, []string{b.Issuer, b.Redirect})
	}) {
		all = append(all, fmt.Sprintf("client %s: %s", x.Client, x.Sealed))
	}
	for _, x := range slices.SortedFunc(maps.Values(s.flows), func(a, b Flow) int { return a.Began.Compare(b.Began) }) {
		text := fmt.Sprintf("flow %s of %s", x.ID, x.Subject)
		if !x.Opened.IsZero() {
			text += " opened"
		}
		if !x.Taken.IsZero() {
			text += " taken"
		}
		all = append(all, text+" "+x.Outcome)
	}
	return strings.Join(all, "; ")
}

// TestSignIns goes through what happens to credentials, registrations and flows. Each change reaches another
// store, those of other people stay as they are, and only what a person does is an act.
func TestSignIns(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		s := open(t, o)
		var other *Store
		now := time.Now()
		of := func(subject string) SignIn { return SignIn{"shop", "https://s.example/mcp", subject} }
		credential := func(subject, issuer, sealed string, generation int64) Credential {
			return Credential{SignIn: of(subject), Issuer: issuer, Client: "c", Resource: "r", Sealed: []byte(sealed), Until: now.Add(time.Hour), Renews: true, Generation: generation}
		}
		flow := func(id, subject string, until time.Duration) Flow {
			return Flow{ID: id, SignIn: of(subject), Sealed: []byte("state"), Until: now.Add(until)}
		}
		is := func(want bool, ok bool, err error) error {
			if err == nil && ok != want {
				err = fmt.Errorf("it says %t", ok)
			}
			return err
		}
		set := func(x Credential) func(*Tx) error {
			return func(t *Tx) error { return t.SetCredential(x) }
		}
		// lease expects a fence, which is negative if the lease before was abandoned, or 0 for no lease.
		lease := func(x Credential, owner string, most time.Duration, fence int64) func(*Tx) error {
			return func(t *Tx) error {
				got, ok, err := t.LeaseCredential(x, owner, most)
				if ok && got != (Lease{max(fence, -fence), fence < 0}) {
					return fmt.Errorf("the lease is %+v", got)
				}
				return is(fence != 0, ok, err)
			}
		}
		renew := func(x Credential, want int64) func(*Tx) error {
			return func(t *Tx) error {
				got, err := t.RenewCredential(x)
				if err == nil && got != want {
					err = fmt.Errorf("the generation is %d", got)
				}
				return err
			}
		}
		spend := func(x Credential, fence int64, want bool) func(*Tx) error {
			return func(t *Tx) error { ok, err := t.SpendCredential(x, fence); return is(want, ok, err) }
		}
		register := func(client, replaces string, want bool) func(*Tx) error {
			return func(t *Tx) error {
				ok, err := t.SetRegistration(Registration{Issuer: "i", Redirect: "http://127.0.0.1:1/", Client: client, Sealed: []byte("secret")}, replaces)
				return is(want, ok, err)
			}
		}
		begin := func(x Flow, want bool) func(*Tx) error {
			return func(t *Tx) error { ok, err := t.BeginFlow(x, now); return is(want, ok, err) }
		}
		openTab := func(id string, since time.Duration, want bool) func(*Tx) error {
			return func(t *Tx) error { ok, err := t.OpenFlow(id, now, now.Add(since)); return is(want, ok, err) }
		}
		take := func(id string, want bool) func(*Tx) error {
			return func(t *Tx) error { ok, err := t.TakeFlow(id, now); return is(want, ok, err) }
		}
		end := func(id, outcome string, want bool) func(*Tx) error {
			return func(t *Tx) error { ok, err := t.EndFlow(id, outcome); return is(want, ok, err) }
		}
		for i, c := range []struct {
			change func(*Tx) error
			want   string // "" for what was there before
			act    string
		}{
			{set(credential("p:bob", "i", "b1", 0)), "p:bob at i: b1", "signed in credential:shop/p:bob/https://s.example/mcp"},
			{set(credential("p:ada", "i", "a1", 0)), "p:ada at i: a1; p:bob at i: b1", "signed in credential:shop/p:ada/https://s.example/mcp"},
			{lease(credential("p:ada", "i", "", 2), "one", time.Minute, 1), "", ""},
			{lease(credential("p:ada", "i", "", 2), "two", time.Minute, 0), "", ""},
			{lease(credential("p:ada", "i", "", 1), "two", time.Minute, 0), "", ""}, // another generation
			{lease(credential("p:ada", "i", "", 2), "one", -time.Second, 2), "", ""},
			{lease(credential("p:ada", "i", "", 2), "two", time.Minute, -3), "", ""},
			{spend(credential("p:ada", "i", "gone", 2), 2, false), "", ""},
			{spend(credential("p:ada", "i", "gone", 2), 3, true), "p:ada at i: gone spent; p:bob at i: b1", "expired credential:shop/p:ada/https://s.example/mcp"},
			{lease(credential("p:ada", "i", "", 2), "two", time.Minute, 0), "", ""},
			{renew(credential("p:ada", "i", "a2", 2), 3), "p:ada at i: a2; p:bob at i: b1", ""}, // an answer that was late
			{renew(credential("p:ada", "i", "a2", 2), 0), "", ""},
			{lease(credential("p:ada", "i", "", 3), "two", time.Minute, 4), "", ""},
			{func(t *Tx) error { return t.EndLease(credential("p:ada", "i", "", 3), 3) }, "", ""},
			{lease(credential("p:ada", "i", "", 3), "one", time.Minute, 0), "", ""},
			{func(t *Tx) error { return t.EndLease(credential("p:ada", "i", "", 3), 4) }, "", ""},
			{lease(credential("p:ada", "i", "", 3), "one", time.Minute, 5), "", ""},
			{set(credential("p:ada", "j", "a3", 0)), "p:ada at j: a3; p:ada at i: a2; p:bob at i: b1", "signed in credential:shop/p:ada/https://s.example/mcp"},
			{func(t *Tx) error {
				gone, err := t.RemoveCredentials(of("p:ada"))
				return is(true, len(gone) == 2 && string(gone[0].Sealed) == "a3", err)
			}, "p:bob at i: b1", "signed out credential:shop/p:ada/https://s.example/mcp"},
			{func(t *Tx) error {
				gone, err := t.RemoveCredentials(of("p:ada"))
				return is(false, len(gone) > 0, err)
			}, "", ""},
			{func(t *Tx) error { return t.removeCredentials("subject", "p:bob") }, "-", "signed out credential:shop/p:bob/https://s.example/mcp"},

			{register("c1", "", true), "client c1: secret", "made registration:i"},
			{register("c2", "", false), "", ""},
			{func(t *Tx) error {
				return t.RemoveRegistration(Registration{Issuer: "i", Redirect: "http://127.0.0.1:1/", Client: "c0"})
			}, "", ""},
			{register("c2", "c1", true), "client c2: secret", "made registration:i"},
			{func(t *Tx) error {
				return t.RemoveRegistration(Registration{Issuer: "i", Redirect: "http://127.0.0.1:1/", Client: "c2"})
			}, "-", "removed registration:i"},

			{begin(flow("f1", "p:ada", 10*time.Minute), true), "flow f1 of p:ada ", ""},
			{begin(flow("f2", "p:ada", 10*time.Minute), false), "", ""},
			{begin(flow("f3", "p:bob", 10*time.Minute), true), "flow f1 of p:ada ; flow f3 of p:bob ", ""},
			{openTab("f1", -2*time.Minute, true), "flow f1 of p:ada opened ; flow f3 of p:bob ", ""},
			{openTab("f1", -2*time.Minute, false), "", ""},
			{openTab("f3", -2*time.Minute, false), "", ""},
			{openTab("f3", time.Second, true), "flow f1 of p:ada opened ; flow f3 of p:bob opened ", ""}, // Ada takes too long
			{take("f0", false), "", ""},
			{take("f1", true), "flow f1 of p:ada opened taken ; flow f3 of p:bob opened ", ""},
			{take("f1", false), "", ""},
			{begin(flow("f9", "p:eve", 10*time.Minute), true), "flow f1 of p:ada opened taken ; flow f3 of p:bob opened ; flow f9 of p:eve ", ""},
			{openTab("f9", -2*time.Minute, false), "", ""}, // Bob isn't back
			{end("f3", "", true), "flow f1 of p:ada opened taken ; flow f9 of p:eve ", ""},
			{openTab("f9", -2*time.Minute, true), "flow f1 of p:ada opened taken ; flow f9 of p:eve opened ", ""}, // Ada is back
			{end("f9", "", true), "flow f1 of p:ada opened taken ", ""},
			{begin(flow("f3", "p:bob", 10*time.Minute), true), "flow f1 of p:ada opened taken ; flow f3 of p:bob ", ""},
			{openTab("f3", -2*time.Minute, true), "flow f1 of p:ada opened taken ; flow f3 of p:bob opened ", ""},
			{func(t *Tx) error { return t.TouchFlow("f1", now) }, "", ""},
			{func(t *Tx) error { return t.TouchFlow("f3", now) }, "", ""}, // nobody finishes it
			{end("f1", "no", true), "flow f1 of p:ada opened taken no; flow f3 of p:bob opened ", "failed to sign in credential:shop/p:ada/https://s.example/mcp"},
			{openTab("f1", time.Second, false), "", ""},
			{begin(flow("f4", "p:ada", -time.Second), true), "flow f3 of p:bob opened ; flow f4 of p:ada ", ""},
			{take("f4", false), "", ""}, // too late
			{end("f3", "", true), "flow f4 of p:ada ", ""},
			{end("f3", "", false), "", ""},
			{begin(Flow{ID: "p1", SignIn: of("p:eve"), Until: now.Add(time.Second)}, true), "flow p1 of p:eve ", ""}, // being prepared; f4 is over
			{func(t *Tx) error { ok, err := t.ExtendFlow("p1", now.Add(time.Minute)); return is(true, ok, err) }, "", ""},
			{func(t *Tx) error { ok, err := t.ExtendFlow("p2", now.Add(time.Minute)); return is(false, ok, err) }, "", ""},
			{begin(flow("p2", "p:eve", time.Minute), false), "", ""},
			{func(t *Tx) error {
				ok, err := t.ReadyFlow("p1", flow("f6", "p:eve", time.Minute))
				return is(true, ok, err)
			}, "flow f6 of p:eve ", ""},
			{func(t *Tx) error {
				ok, err := t.ReadyFlow("p1", flow("f6", "p:eve", time.Minute))
				return is(false, ok, err)
			}, "", ""},
			{end("f6", "", true), "-", ""},
			{begin(flow("f5", "p:bob", time.Minute), true), "flow f5 of p:bob ", ""},
			{func(t *Tx) error { return t.removeCredentials("project", "shop") }, "-", ""},
		} {
			was, acts := signInsOf(s.Snapshot()), actsOf(t, s)
			if err := s.Write(t.Context(), "eve", c.change); err != nil {
				t.Fatalf("%d: %v", i, err)
			}
			want := c.want
			if want == "" {
				want = was
			}
			want = strings.TrimPrefix(want, "-")
			if got := sorted(signInsOf(s.Snapshot())); got != sorted(want) {
				t.Fatalf("%d: the snapshot is %q, want %q", i, got, want)
			}
			now := actsOf(t, s)
			if c.act == "" && len(now) != len(acts) || c.act != "" && now[0] != "eve "+c.act {
				t.Errorf("%d: the acts are %q", i, now)
			}
			if other == nil {
				other = open(t, o)
			}
			if err := other.Refresh(t.Context()); err != nil || sorted(signInsOf(other.Snapshot())) != sorted(want) {
				t.Errorf("%d: another store has %q (%v)", i, signInsOf(other.Snapshot()), err)
			}
		}
	})
}

// sorted brings flows that began in the same millisecond into one order.
func sorted(text string) string {
	list := strings.Split(text, "; ")
	slices.Sort(list)
	return strings.Join(list, "; ")
}

// TestSignInsAreSealed rotates the vault's key under credentials, registrations and flows: all can be opened
// afterwards, generations stay, and nothing can be opened that was moved to another person.
func TestSignInsAreSealed(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		s := NewSafe(open(t, o), vault.New(vault.Options{File: filepath.Join(t.TempDir(), "vault.key")}))
		of := SignIn{"shop", "https://s.example/mcp", "p:ada"}
		c := Credential{SignIn: of, Issuer: "i", Client: "c", Resource: "r"}
		f := Flow{ID: "f", SignIn: of, Until: time.Now().Add(time.Minute)}
		r := Registration{Issuer: "i", Redirect: "http://127.0.0.1:1/", Client: "c"}
		keep := func(row Sealable, value string, keep func(*Tx, []byte) error) {
			t.Helper()
			if err := s.Keep(t.Context(), "ada", row, []byte(value), keep); err != nil {
				t.Fatal(err)
			}
		}
		keep(&c, "canary 1", func(t *Tx, sealed []byte) error { c.Sealed = sealed; return t.SetCredential(c) })
		keep(&f, "canary 2", func(t *Tx, sealed []byte) error { f.Sealed = sealed; _, err := t.BeginFlow(f, time.Now()); return err })
		keep(&r, "canary 3", func(t *Tx, sealed []byte) error { r.Sealed = sealed; _, err := t.SetRegistration(r, ""); return err })
		if err := s.Begin(t.Context(), "ada", "callback", []byte("1")); err != nil {
			t.Fatal(err)
		}
		was := s.Store().Snapshot().House("callback")
		for _, value := range []string{"2", "3"} { // the second one finds another value than it has read
			if err := s.Replace(t.Context(), "ada", "callback", was, []byte(value)); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			now := s.Store().Snapshot()
			c, f := now.Credentials(of)[0], f
			f, _ = now.Flow(of)
			r, _ := now.Registration("i", "http://127.0.0.1:1/")
			for _, x := range []struct {
				row    Sealable
				sealed []byte
				want   string
			}{{&c, c.Sealed, "canary 1"}, {&f, f.Sealed, "canary 2"}, {&r, r.Sealed, "canary 3"}} {
				got, err := s.Reveal(t.Context(), x.row, x.sealed)
				if err != nil || got.Reveal() != x.want || bytes.Contains(x.sealed, []byte("canary")) {
					t.Errorf("%s: %v", x.want, err)
				}
			}
			moved := c
			moved.Subject = "p:eve"
			movedFlow := f
			movedFlow.Subject = "p:eve"
			for _, err := range []error{second(s.Reveal(t.Context(), &moved, c.Sealed)), second(s.Reveal(t.Context(), &movedFlow, f.Sealed))} {
				if err == nil {
					t.Error("eve opens what is ada's")
				}
			}
			if port, _, err := s.OfHouse(t.Context(), "callback"); err != nil || port.Reveal() != "2" || c.Generation != 1 {
				t.Errorf("the port: %v; the generation is %d", err, c.Generation)
			}
			if n, err := s.RotateKey(t.Context(), "ada"); err != nil || n != 4 {
				t.Errorf("rotated %d values: %v", n, err)
			}
		}
	})
}

func second(_ vault.Secret, err error) error { return err }

// TestRegistrationsAreBounded registers at one issuer after the other, as a server does that names another one each time.
// The one with which somebody has signed in stays, and of the others the newest.
func TestRegistrationsAreBounded(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		s := open(t, o)
		write := func(f func(*Tx) error) {
			t.Helper()
			if err := s.Write(context.Background(), "ada", f); err != nil {
				t.Fatal(err)
			}
		}
		register := func(issuer string) func(*Tx) error {
			return func(x *Tx) error {
				_, err := x.SetRegistration(Registration{Issuer: issuer, Redirect: "http://127.0.0.1:1/", Client: "me", Sealed: []byte("secret")}, "")
				return err
			}
		}
		write(register("https://good.example"))
		write(func(x *Tx) error {
			return x.SetCredential(Credential{SignIn: SignIn{"default", "https://s.example/mcp", "p:ada"}, Issuer: "https://good.example", Client: "me", Sealed: []byte("secret")})
		})
		write(register("https://old.example"))
		write(func(x *Tx) error {
			return x.t.Exec("UPDATE registrations SET made = ?", textOf(time.Now().Add(-time.Hour)))
		})
		write(func(x *Tx) (err error) {
			for i := range mostRegistrations {
				err = cmp.Or(err, register(fmt.Sprintf("https://evil.example/%d", i))(x))
			}
			return err
		})
		there := func(issuer string) bool {
			_, ok := s.Snapshot().Registration(issuer, "http://127.0.0.1:1/")
			return ok
		}
		if n := len(s.Snapshot().registrations); n != mostRegistrations {
			t.Errorf("%d registrations are kept", n)
		}
		if !there("https://good.example") || there("https://old.example") || !there(fmt.Sprintf("https://evil.example/%d", mostRegistrations-1)) {
			t.Error("another registration was forgotten than the oldest that nobody uses")
		}
	})
}

// TestTC19 has a process whose clock is years behind or ahead. Who has the right to renew a credential keeps it, whichever
// of two processes that is, so the other one doesn't send the same refresh token.
func TestTC19(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		if o.Schema == "" {
			t.Skip("one machine has one clock")
		}
		right := open(t, o)
		x := Credential{SignIn: SignIn{"shop", "https://s.example/mcp", "p:ada"}, Issuer: "i", Client: "c", Resource: "r", Sealed: []byte("a"), Generation: 1}
		write := func(s *Store, change func(*Tx) error) {
			t.Helper()
			if err := s.Write(t.Context(), "test", change); err != nil {
				t.Fatal(err)
			}
		}
		write(right, func(t *Tx) error { return t.SetCredential(x) })
		fence := int64(0)
		leases := func(s *Store, owner string) (ok bool) {
			t.Helper()
			write(s, func(t *Tx) error {
				l, got, err := t.LeaseCredential(x, owner, time.Minute)
				if ok = got; ok {
					fence = l.Fence
				}
				return err
			})
			return ok
		}
		for name, wait := range map[string]time.Duration{"behind": 0, "ahead": 50 * 365 * 24 * time.Hour} {
			for _, first := range []bool{true, false} {
				if first && !leases(right, "right") {
					t.Fatal("nobody has the right, and one doesn't get it")
				}
				synctest.Test(t, func(t *testing.T) { // time begins in the year 2000
					time.Sleep(wait)
					if got := leases(open(t, o), name); got == first {
						t.Errorf("one that is %s gets the right: %t", name, got)
					}
				})
				if !first && leases(right, "right") {
					t.Errorf("one that is %s has the right, and another one gets it", name)
				}
				write(right, func(t *Tx) error { return t.EndLease(x, fence) })
			}
		}
	})
}
