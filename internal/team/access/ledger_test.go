package access

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// ledgerRig is a ledger with two people, of whom each has allowed a client something.
type ledgerRig struct {
	t      *testing.T
	safe   *store.Safe
	desk   *Desk
	gate   *Gate
	roster *Roster
	ledger *Ledger
	ada    store.Person
	bob    store.Person
}

func newLedgerRig(t *testing.T) *ledgerRig {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Database: filepath.Join(t.TempDir(), "dragoman.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	r := &ledgerRig{t: t, safe: store.NewSafe(s, vault.New(vault.Options{File: filepath.Join(t.TempDir(), "vault.key")})), gate: NewGate(false)}
	r.desk = NewDesk(r.safe)
	r.roster = NewRoster(r.desk, r.gate)
	r.ledger = NewLedger(r.desk, r.gate)
	for name, into := range map[string]*store.Person{"ada": &r.ada, "bob": &r.bob} {
		if _, *into, err = r.roster.Invite(t.Context(), "local", name, "default", []identity.Role{identity.Caller}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// allow makes a grant for a person, and returns its code.
func (r *ledgerRig) allow(p store.Person, resource string) string {
	r.t.Helper()
	code, err := r.ledger.Begin(r.t.Context(), store.PersonSubject+p.ID, "https://claude.ai/client", "", Terms{Redirect: "https://claude.ai/back", Resource: resource, Scopes: []string{"mcp"}})
	if err != nil {
		r.t.Fatal(err)
	}
	return code
}

func fitsAll(string, *Terms) error { return nil }

// redeem exchanges a code for tokens.
func (r *ledgerRig) redeem(code string) Issued {
	r.t.Helper()
	got, err := r.ledger.Redeem(r.t.Context(), code, fitsAll)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// enters returns the status with which the gate answers a token at a path.
func (r *ledgerRig) enters(token, path string) int {
	r.t.Helper()
	_, err := r.gate.Principal(request(path, "Authorization", "Bearer "+token))
	return status(err)
}

// TestCodes uses codes in all the ways that are wrong. Each time, the tokens of somebody else stay good.
func TestCodes(t *testing.T) {
	r := newLedgerRig(t)
	innocent := r.redeem(r.allow(r.bob, ""))
	no := errors.New("another client")
	code := r.allow(r.ada, "/mcp")
	if _, err := r.ledger.Redeem(t.Context(), code, func(string, *Terms) error { return no }); err != no {
		t.Errorf("another client: %v", err)
	}
	got := r.redeem(code)
	if got.Life != tokenLife || r.enters(got.Access, "/mcp") != 200 || got.Subject != store.PersonSubject+r.ada.ID {
		t.Errorf("%+v, %d", got, r.enters(got.Access, "/mcp"))
	}
	for path, want := range map[string]int{"/mcp": 200, "/mcp/": 200, "/mcpx": 401, "/sse": 401, "/s/git/mcp": 401, "/p/shop/mcp": 401, "/metrics": 401} {
		if is := r.enters(got.Access, path); is != want {
			t.Errorf("a token for /mcp at %s: %d", path, is)
		}
	}
	for _, wrong := range []string{got.Refresh, code, got.Access + "x", got.Access[:len(got.Access)-1]} {
		if is := r.enters(wrong, "/mcp"); is != 401 {
			t.Errorf("%s: %d", wrong[:5], is)
		}
	}
	if _, err := r.ledger.Redeem(t.Context(), code, fitsAll); err != ErrReplay {
		t.Errorf("a second use: %v", err)
	}
	if r.enters(got.Access, "/mcp") != 401 {
		t.Error("the tokens of a code that was used twice are good")
	}
	if _, err := r.ledger.Refresh(t.Context(), got.Refresh, fitsAll); err != ErrGrant {
		t.Errorf("its refresh token: %v", err)
	}
	if r.enters(innocent.Access, "/s/git/mcp") != 200 {
		t.Error("somebody else's token is not good any more")
	}
}

// TestTA22RefreshRaces refreshes a hundred times at once, loses answers, and uses spent tokens: there is one
// lineage, a lost answer costs nothing, and a replay revokes.
func TestTA22RefreshRaces(t *testing.T) {
	r := newLedgerRig(t)
	innocent := r.redeem(r.allow(r.bob, ""))
	first := r.redeem(r.allow(r.ada, ""))
	var wait sync.WaitGroup
	all := make([]Issued, 100)
	for i := range all {
		wait.Go(func() {
			var err error
			if all[i], err = r.ledger.Refresh(t.Context(), first.Refresh, fitsAll); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for _, x := range all {
		if x.Refresh != all[0].Refresh || x.Access != all[0].Access || x.Refresh == first.Refresh {
			t.Fatal("there is more than one lineage")
		}
	}
	if r.enters(first.Access, "/mcp") != 200 || r.enters(all[0].Access, "/mcp") != 200 {
		t.Error("an access token ended with a refresh")
	}
	third, err := r.ledger.Refresh(t.Context(), all[0].Refresh, fitsAll)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.ledger.Refresh(t.Context(), all[0].Refresh, fitsAll); err != nil || again.Refresh != third.Refresh {
		t.Errorf("a lost answer: %v", err)
	}
	if _, err := r.ledger.Refresh(t.Context(), textOf(refreshMark, ID([]byte(first.Grant)), NewSecret()), fitsAll); err != ErrGrant || r.enters(third.Access, "/mcp") != 200 {
		t.Errorf("a guess: %v, and then %d", err, r.enters(third.Access, "/mcp"))
	}
	if _, err := r.ledger.Refresh(t.Context(), first.Refresh, fitsAll); err != ErrReplay {
		t.Errorf("a replay: %v", err)
	}
	for _, x := range []Issued{first, all[0], third} {
		if _, err := r.ledger.Refresh(t.Context(), x.Refresh, fitsAll); err != ErrGrant || r.enters(x.Access, "/mcp") != 401 {
			t.Errorf("after a replay: %v", err)
		}
	}
	if r.enters(innocent.Access, "/mcp") != 200 {
		t.Error("somebody else's token is not good any more")
	}
	if acts, _ := r.safe.Store().Acts(t.Context(), 0, 1); len(acts) != 1 || acts[0].Action != "replayed, so revoked" || acts[0].Object != "grant:"+first.Grant {
		t.Errorf("%+v", acts)
	}
}

// TestTokenLives lets time pass.
func TestTokenLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newGrantMACs(MACKey(NewSecret()))
		id, seed := NewID(), NewSecret()
		now := time.Now().UTC()
		row := store.Grant{ID: id.String(), Subject: "local", Until: now.Add(idleLife)}
		x := grantText{Seed: seed[:], Made: now, Until: now.Add(tokenLife)}
		token := func(n int) string { return textOf(accessMark, id, m.access.of(row.ID, seed[:], n)) }
		in := func() *Grants {
			if err := m.sign(&row, &x); err != nil {
				t.Fatal(err)
			}
			return newGrants(&m, []store.Grant{row}, func(s string) string { return s }, &Grants{})
		}
		good := func(what string, tokens *Grants, n int, want bool) {
			t.Helper()
			if is := tokens.find(token(n), time.Now()) != nil; is != want {
				t.Errorf("%s: %t", what, is)
			}
		}
		one := in()
		good("at once", one, 0, true)
		good("the one before the first", one, -1, false)
		time.Sleep(tokenLife - time.Second)
		good("a second before its end", one, 0, true)
		x.Token, x.Last, x.Until = 1, x.Until, time.Now().Add(tokenLife)
		two := in()
		good("the one before", two, 0, true)
		good("the newest", two, 1, true)
		time.Sleep(time.Second)
		good("the one before, an hour later", two, 0, false)
		if two.find(token(0), time.Time{}) == nil || two.find(token(7), time.Time{}) != nil {
			t.Error("nobody knows which tokens have only expired")
		}
		good("the newest", two, 1, true)
		row.Until = time.Now().Add(time.Minute)
		three := in()
		time.Sleep(time.Minute)
		good("when the grant has ended", three, 1, false)
		row.Until = time.Now().Add(time.Hour)
		row.Sum[0] ^= 1
		if forged := newGrants(&m, []store.Grant{row}, nil, &Grants{}); forged.forged != 1 || len(forged.byID) != 0 {
			t.Error("a row that somebody has changed is in force")
		}
	})
}

// TestTA11Grants ends what a client was allowed in each way, while another person's client goes on.
func TestTA11Grants(t *testing.T) {
	for name, end := range map[string]func(r *ledgerRig, x Issued) error{
		"by the client, with the refresh token": func(r *ledgerRig, x Issued) error {
			return r.ledger.Revoke(t.Context(), "https://claude.ai/client", x.Refresh)
		},
		"by the client, with the access token": func(r *ledgerRig, x Issued) error {
			return r.ledger.Revoke(t.Context(), "https://claude.ai/client", x.Access)
		},
		"by an admin": func(r *ledgerRig, x Issued) error {
			_, err := r.ledger.End(t.Context(), "local", x.Grant)
			return err
		},
		"without the role": func(r *ledgerRig, x Issued) error {
			return r.roster.SetRoles(t.Context(), "local", r.ada.ID, "default", []identity.Role{identity.Admin})
		},
		"without the person": func(r *ledgerRig, x Issued) error { return r.roster.Remove(t.Context(), "local", r.ada.ID) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newLedgerRig(t)
			x, innocent := r.redeem(r.allow(r.ada, "")), r.redeem(r.allow(r.bob, ""))
			for _, client := range []string{"https://evil.example/client", ""} {
				if err := r.ledger.Revoke(t.Context(), client, x.Refresh); err != nil || r.enters(x.Access, "/mcp") != 200 {
					t.Errorf("another client revokes: %v", err)
				}
			}
			seats, _ := r.gate.Seats(time.Now())
			who, _ := r.gate.Principal(request("/mcp", "Authorization", "Bearer "+x.Access))
			if who == nil || !seats[who.Seat] || who.Subject != store.PersonSubject+r.ada.ID || who.Name != "ada" || who.Via != "token" {
				t.Fatalf("%+v %v", who, seats)
			}
			if _, ok := r.gate.Reach(who, "shop"); ok {
				t.Error("it reaches a project that its person does not")
			}
			if err := end(r, x); err != nil {
				t.Fatal(err)
			}
			after, _ := r.gate.Seats(time.Now())
			if r.enters(x.Access, "/mcp") != 401 || after[who.Seat] || len(r.gate.Roles(who, "default")) > 0 {
				t.Errorf("it still enters: %v", after)
			}
			if r.enters(innocent.Access, "/mcp") != 200 {
				t.Error("somebody else's token is not good any more")
			}
		})
	}
}

// TestTokensOfLocal checks that tokens of the local user are worth nothing where others can reach the address.
func TestTokensOfLocal(t *testing.T) {
	r := newLedgerRig(t)
	code, err := r.ledger.Begin(t.Context(), "local", "client-1", "", Terms{})
	if err != nil {
		t.Fatal(err)
	}
	x := r.redeem(code)
	if r.enters(x.Access, "/mcp") != 401 {
		t.Error("it enters from other machines")
	}
	r.gate.Own("the key of the process")
	if r.enters(x.Access, "/mcp") != 200 {
		t.Error("it does not enter")
	}
	who, _ := r.gate.Principal(request("/mcp", "Authorization", "Bearer "+x.Access))
	if roles := r.gate.Roles(who, "default"); len(roles) != 1 || roles[0] != identity.Caller {
		t.Errorf("roles %v", roles)
	}
}

// TestTokenCost checks that a token costs a request no allocation, like a key.
func TestTokenCost(t *testing.T) {
	r := newLedgerRig(t)
	x := r.redeem(r.allow(r.ada, ""))
	tokens, now := r.gate.grants.Load(), time.Now()
	if n := testing.AllocsPerRun(100, func() {
		if tokens.find(x.Access, now) == nil {
			t.Error("not found")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
