//go:build unix

package daemon

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/audit"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/dbtest"
)

// TestTA40 checks that there is one record of each thing that has to do with who may come in: a sign-in, a consent, a
// key that is refused, a revocation, a replay, and an answer that doesn't belong to its sign-in. Both chains are whole
// then, and what an innocent second person does leaves records of its own.
func TestTA40(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, where, schema string) {
		s, err := store.Open(t.Context(), store.Options{Database: where, Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		safe := store.NewSafe(s, vault.New(vault.Options{File: filepath.Join(t.TempDir(), "vault.key")}))
		gate, desk := access.NewGate(false), access.NewDesk(safe)
		roster, ledger := access.NewRoster(desk, gate), access.NewLedger(desk, gate)
		d := &daemon{trail: audit.New(audit.Options{Folder: t.TempDir(), Store: s, Settings: func() audit.Settings { return audit.Settings{Level: audit.Names, Size: 1 << 20, Files: 2} }})}
		t.Cleanup(d.trail.Close)
		gate.Tell(d.denied)

		must := func(errs ...error) {
			t.Helper()
			for _, err := range errs {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		people := map[string]string{}
		for _, name := range []string{"ada", "bob"} {
			_, p, err := roster.Invite(t.Context(), "local", name, "default", []identity.Role{identity.Caller})
			must(err)
			people[name] = store.PersonSubject + p.ID
		}
		fits := func(string, *access.Terms) error { return nil }
		begin := func(name string) string {
			code, err := ledger.Begin(t.Context(), people[name], "https://claude.ai/client", "", access.Terms{Scopes: []string{"mcp"}})
			must(err)
			_, err = ledger.Redeem(t.Context(), code, fits)
			must(err)
			return code
		}
		adas, _ := begin("ada"), begin("bob")
		_, err = ledger.Redeem(t.Context(), adas, fits)
		if err != access.ErrReplay {
			t.Fatal(err)
		}
		text, key, err := desk.Make(t.Context(), people["ada"], access.Wish{Name: "ci", Owner: people["ada"], Project: "default", Role: identity.Caller})
		must(err, desk.Revoke(t.Context(), people["ada"], key.ID))
		keys, err := desk.Keys(t.Context())
		must(err)
		gate.Use(keys)
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Header.Set("Authorization", "Bearer "+text)
		if _, err := gate.Principal(r); err == nil {
			t.Fatal("a revoked key was accepted")
		}
		of := store.SignIn{Project: "default", Server: "https://s.example/mcp", Subject: people["ada"]}
		must(s.Write(t.Context(), people["ada"], func(x *store.Tx) error {
			if err := x.SetCredential(store.Credential{SignIn: of, Issuer: "https://i.example", Sealed: []byte("x")}); err != nil {
				return err
			}
			if _, err := x.BeginFlow(store.Flow{ID: "f", SignIn: of, Sealed: []byte("x"), Until: time.Now().Add(time.Minute)}, time.Now()); err != nil {
				return err
			}
			_, err := x.EndFlow("f", "the answer is of another issuer")
			return err
		}))
		d.denied(r, "a sign-in link of somebody else", &identity.Principal{Subject: people["bob"], Seat: people["bob"]})

		list, _, err := d.trail.Read(t.Context(), audit.Query{Most: 1000})
		must(err)
		counts := map[string]int{}
		for _, e := range list {
			if e.Act != nil {
				kind, _, _ := strings.Cut(e.Act.Object, ":")
				counts[e.Act.Action+" "+kind]++
			} else {
				counts[e.Line.Method]++
			}
		}
		for what, want := range map[string]int{
			"signed in credential": 1, "allowed grant": 2, "replayed, so revoked grant": 1, "revoked key": 1, "made key": 1, "failed to sign in credential": 1,
			"a wrong credential": 1, "a sign-in link of somebody else": 1,
		} {
			if counts[what] != want {
				t.Errorf("%d records of %s, want %d: %v", counts[what], what, want, counts)
			}
		}
		v, err := d.trail.Verify(t.Context())
		must(err)
		if v.Acts.Broken != "" || len(v.Chains) != 1 || v.Chains[0].Broken != "" {
			t.Errorf("%+v", v)
		}
	})
}

// TestAuditOfServe checks what serve records: nothing while everybody is the local user, and names as soon as there is
// a key, also of what doesn't exist.
func TestAuditOfServe(t *testing.T) {
	t.Parallel()
	folder, keys := t.TempDir(), t.TempDir()
	r := serve(t, snapshot(), func(o *ServeOptions) { o.Database, o.KeyFolders = filepath.Join(folder, "dragoman.db"), []string{keys} })
	all, err := admin.ReadKeys([]string{keys}, strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	root := []string{"Authorization", "Bearer " + all[0], "Content-Type", "application/json"}
	r.call("/mcp", "before", "{}")
	if a := r.post("/api/v1/keys", `{"name":"ci"}`, root...); a.status != http.StatusCreated {
		t.Fatal(a)
	}
	r.call("/mcp", "nowhere__x", `{"n":1}`)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Options{Database: filepath.Join(folder, "dragoman.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	acts, err := s.Acts(t.Context(), 0, 100)
	var through []string
	for _, a := range acts {
		through = append(through, a.Action+" "+a.Via)
	}
	if got := strings.Join(through, ", "); err != nil || !strings.HasPrefix(got, "ended serve, began serve, made api") {
		t.Errorf("%v: the acts were made through %s", err, got)
	}
	files, _ := filepath.Glob(filepath.Join(folder, "audit", "*"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	b, err := os.ReadFile(files[0])
	if text := string(b); err != nil || strings.Contains(text, "before") || strings.Contains(text, `"n":1`) || !strings.Contains(text, `"method":"tools/call","item":"nowhere__x","outcome":"refused"`) || !strings.Contains(text, `"why":"closed"`) {
		t.Errorf("%v\n%s", err, b)
	}
}

// TestAuditUnwritable checks that requests are refused, or go on, if they can't be recorded, that the status says so,
// and that all goes on when they can be.
func TestAuditUnwritable(t *testing.T) {
	t.Parallel()
	for _, on := range []config.OnFailure{config.FailAuto, config.FailContinue} {
		folder := t.TempDir()
		blocks := filepath.Join(folder, "audit")
		if err := os.WriteFile(blocks, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c := snapshot()
		c.Audit.Calls, c.Audit.OnFailure = config.AuditNames, on
		r := serve(t, c, func(o *ServeOptions) { o.Database = filepath.Join(folder, "dragoman.db") })
		refuses := on == config.FailAuto
		list := func() answer { return r.modern("/mcp", "1", "tools/list", "", "") }
		if a := list(); strings.Contains(a.body, "can't be recorded") != refuses || strings.Contains(a.body, folder) {
			t.Errorf("%d: %s", on, a.body)
		}
		await(t, "the state of the audit", 30*time.Second, func() bool { report, _ := r.status(); return report.Audit != nil && report.Audit.Problem != "" })
		if report, _ := r.status(); report.Audit.Refuses != refuses || !strings.Contains(report.Audit.Line(), map[bool]string{true: "requests are refused", false: "go on without a record"}[refuses]) {
			t.Errorf("%+v", report.Audit)
		}
		if err := os.Remove(blocks); err != nil {
			t.Fatal(err)
		}
		await(t, "the state of the audit", 30*time.Second, func() bool { report, _ := r.status(); return report.Audit.Problem == "" })
		if a := list(); strings.Contains(a.body, "can't be recorded") {
			t.Errorf("%d: %s", on, a.body)
		}
	}
}
