package admin

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/logring"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// tell sends a JSON body with the key of the process, and decodes the answer, which must have the status.
func (r *rig) tell(method, path, body string, status int, to any) reply {
	r.t.Helper()
	a := r.do(method, "/api/v1"+path, body, "Content-Type", "application/json")
	if a.status != status || a.header.Get("Cache-Control") != "no-store" {
		r.t.Fatalf("%s %s: %d %v %s", method, path, a.status, a.header, a.body)
	}
	a.into(r.t, to)
	return a
}

// lets reports whether a key that a client sends is in force.
func (r *rig) lets(text string) bool {
	r.t.Helper()
	keys, err := r.api.desk().Keys(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	g := access.NewGate(false)
	g.Use(keys)
	if err := access.NewRoster(r.api.desk(), g).Refresh(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	who, err := g.Principal(asked("POST", "/mcp", "Authorization", "Bearer "+text))
	return err == nil && who != nil
}

func (a *API) desk() *access.Desk { return a.opts.Desk }

// TestKeys makes, lists, rotates and revokes keys, and looks whether a client gets in with them.
func TestKeys(t *testing.T) {
	t.Parallel()
	r := serving(t)
	var ci, mine, moved NewAPIKey
	r.tell("POST", "/keys", `{"name":"ci","servers":["files","git*"],"tools":["files/read_*"]}`, 201, &ci)
	r.tell("POST", "/keys", `{"name":"ci","mine":true,"role":"admin","life":"never"}`, 201, &mine)
	if ci.Role != "caller" || ci.By != "local" || ci.Owner != "" || !strings.Contains(ci.Note, `"git*", "files/read_*"`) || ci.Expired || ci.OverlapUntil != nil || ci.Expires == nil ||
		time.Until(*ci.Expires).Round(time.Hour) != access.DefaultLife || !slices.Equal(ci.Servers, []string{"files", "git*"}) || !slices.Equal(ci.Tools, []string{"files/read_*"}) ||
		!strings.HasPrefix(ci.Text, "drgk_"+ci.ID+"_") || !strings.Contains(ci.Text, ci.Hint+"_") {
		t.Errorf("%+v", ci)
	}
	if mine.Role != "admin" || mine.Owner != "local" || mine.Expires != nil {
		t.Errorf("%+v", mine)
	}
	r.tell("POST", "/keys/"+ci.ID+"/rotate", `{"overlap":"24h","life":"7d"}`, 200, &moved)
	if moved.ID != ci.ID || moved.Text == ci.Text || moved.OverlapUntil == nil || time.Until(*moved.OverlapUntil).Round(time.Hour) != 24*time.Hour || time.Until(*moved.Expires).Round(time.Hour) != 7*24*time.Hour {
		t.Errorf("%+v", moved)
	}
	if !r.lets(ci.Text) || !r.lets(moved.Text) || !r.lets(mine.Text) {
		t.Error("a key is refused")
	}
	var last NewAPIKey
	r.tell("POST", "/keys/"+ci.ID+"/rotate", `{}`, 200, &last)
	if last.OverlapUntil != nil || r.lets(ci.Text) || r.lets(moved.Text) || !r.lets(last.Text) {
		t.Errorf("after a rotation without overlap: %+v", last)
	}
	var first, page APIKeys
	a := r.tell("GET", "/keys?limit=1", "", 200, &first)
	r.tell("GET", "/keys?limit=1&cursor="+first.Next, "", 200, &page)
	if first.Total != 2 || first.Next == "" || page.Next != "" || first.Keys[0].ID != ci.ID || page.Keys[0].ID != mine.ID || strings.Contains(a.body, "drgk_") {
		t.Errorf("%+v %+v", first, page)
	}
	var gone APIKey
	r.tell("DELETE", "/keys/"+ci.ID, "", 200, &gone)
	if gone.ID != ci.ID || r.lets(last.Text) || !r.lets(mine.Text) {
		t.Errorf("after the key was revoked: %+v", gone)
	}
}

// TestBadKeysAndSecrets checks that what can't be has no effect, and gets a problem that says why.
func TestBadKeysAndSecrets(t *testing.T) {
	t.Parallel()
	r := serving(t)
	var k NewAPIKey
	r.tell("POST", "/keys", `{"name":"innocent"}`, 201, &k)
	long := strings.Repeat("x", vault.MaxValue+1)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/keys", `{"name":" "}`, 422, "name of 1 to 100 bytes"},
		{"POST", "/keys", `{"name":"x","role":"owner"}`, 422, "caller, viewer, operator or admin"},
		{"POST", "/keys", `{"name":"x","role":"admin","servers":["a"]}`, 422, "Only a key with the role caller"},
		{"POST", "/keys", `{"name":"x","tools":["a"]}`, 422, "SERVER/TOOL"},
		{"POST", "/keys", `{"name":"x","life":"0"}`, 422, "say never"},
		{"POST", "/keys", `{"name":"x","life":"-1h"}`, 422, "is no duration"},
		{"POST", "/keys", `{"name":"x","life":"9999999999999999999d"}`, 422, "is no duration"},
		{"POST", "/keys", `{"name":"x","secret":"drgk_mine"}`, 400, "unknown field"},
		{"POST", "/keys", `{"name":"` + long + `"}`, 413, "too large"},
		{"POST", "/keys/" + k.ID + "/rotate", `{"overlap":"soon"}`, 422, "is no duration"},
		{"POST", "/keys/" + strings.Repeat("a", 12) + "/rotate", `{}`, 404, "no-such-key"},
		{"DELETE", "/keys/x", ``, 404, "no-such-key"},
		{"PUT", "/secrets/a%20b", `{"value":"v"}`, 422, "letters, digits"},
		{"PUT", "/secrets/.a", `{"value":"v"}`, 422, "begins with none"},
		{"PUT", "/secrets/x", `{"value":""}`, 422, "is empty"},
		{"PUT", "/secrets/x", `{"value":"a\u0000"}`, 422, "NUL"},
		{"PUT", "/secrets/x", "{\"value\":\"caf\xe9\"}", 422, "UTF-8"},
		{"PUT", "/secrets/x", `{"value":"` + long + `"}`, 422, "has 65537 bytes"},
		{"PUT", "/secrets/x", `{"value":1}`, 400, "invalid"},
		{"PUT", "/secrets/rotate-key", `{"value":"v"}`, 405, "POST"},
		{"DELETE", "/secrets/x", ``, 404, "no-such-secret"},
	} {
		a := r.do(c.method, "/api/v1"+c.path, c.body, "Content-Type", "application/json")
		if a.status != c.status || !strings.Contains(a.body, c.want) || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s %.60s: %d %.300s", c.method, c.path, c.body, a.status, a.body)
		}
	}
	snapshot := r.api.opts.Safe.Store().Snapshot()
	if len(snapshot.Keys()) != 1 || len(snapshot.Secrets()) != 0 || !r.lets(k.Text) {
		t.Errorf("the store has %d keys and %d secrets", len(snapshot.Keys()), len(snapshot.Secrets()))
	}
}

// TestSecrets sets, lists, replaces and removes secrets, and seals them again with another key.
func TestSecrets(t *testing.T) {
	t.Parallel()
	r := serving(t)
	safe := r.api.opts.Safe
	has := func(name, want string) {
		t.Helper()
		if value, ok, err := safe.Secret(t.Context(), "default", name); err != nil || ok != (want != "") || ok && value.Reveal() != want {
			t.Errorf("the secret %s: %t %v", name, ok, err)
		}
	}
	var kept KeptSecret
	most := strings.Repeat("\\u0001", vault.MaxValue) // each byte escaped
	r.tell("PUT", "/secrets/long", `{"value":"`+most+`"}`, 200, &kept)
	r.tell("PUT", "/secrets/gh", `{"value":"one"}`, 200, &kept)
	r.tell("PUT", "/secrets/gh", `{"value":"two\n"}`, 200, &kept)
	if kept.Name != "gh" || kept.Project != "default" || kept.By != "local" || kept.Note != "" || time.Since(kept.Changed) > time.Minute {
		t.Errorf("%+v", kept)
	}
	has("gh", "two\n")
	has("long", strings.Repeat("\x01", vault.MaxValue))
	var k NewAPIKey
	r.tell("POST", "/keys", `{"name":"ci"}`, 201, &k)
	sealed, _ := safe.Store().Snapshot().Secret("default", "gh")
	var n Resealed
	r.tell("POST", "/secrets/rotate-key", "", 200, &n)
	if again, _ := safe.Store().Snapshot().Secret("default", "gh"); n.Values != 3 || slices.Equal(again.Sealed, sealed.Sealed) || !r.lets(k.Text) {
		t.Errorf("%d values were sealed again", n.Values)
	}
	has("gh", "two\n")
	var first, page Secrets
	r.tell("GET", "/secrets?limit=1", "", 200, &first)
	if first.Total != 2 || first.Secrets[0].Name != "gh" {
		t.Errorf("%+v", first)
	}
	r.tell("GET", "/secrets?cursor="+first.Next, "", 200, &page)
	if page.Next != "" || len(page.Secrets) != 1 || page.Secrets[0].Name != "long" {
		t.Errorf("%+v", page)
	}
	var gone SecretEntry
	r.tell("DELETE", "/secrets/gh", "", 200, &gone)
	has("gh", "")
}

// TestHouseOfTwoProjects checks that what one project has, nobody of another project learns, changes or
// removes: not its admin, and not its viewer.
func TestHouseOfTwoProjects(t *testing.T) {
	t.Parallel()
	r := serving(t)
	r.runtime.Apply("shop", config.Default())
	guard := r.api.Access()
	guard.RolesFrom(func(who *identity.Principal, project string) []identity.Role {
		switch {
		case who.Subject == "ann" && project == "shop":
			return []identity.Role{identity.Admin}
		case who.Subject == "bob" && project == "default":
			return []identity.Role{identity.Operator}
		}
		return localRoles(who, project)
	})
	var ours, theirs NewAPIKey
	var kept KeptSecret
	r.tell("POST", "/keys", `{"name":"ours"}`, 201, &ours)
	r.tell("PUT", "/secrets/gh", `{"value":"ours"}`, 200, &kept)
	r.tell("POST", "/keys?project=shop", `{"name":"theirs"}`, 201, &theirs)
	r.tell("PUT", "/secrets/gh?project=shop", `{"value":"theirs"}`, 200, &kept)
	if theirs.Project != "shop" || kept.Project != "shop" {
		t.Errorf("%+v %+v", theirs, kept)
	}
	as := func(name string) func(method, path, body string) reply {
		at := []string{"Cookie", enter(guard, guard.LinkFor(identity.Named(name), "")), "Host", guard.Name() + ":7300", "Content-Type", "application/json"}
		return func(method, path, body string) reply { return r.ask(method, "/api/v1"+path, body, at...) }
	}
	ann, bob := as("ann"), as("bob")
	if a := ann("GET", "/keys?project=shop", ""); a.status != 200 || !strings.Contains(a.body, theirs.ID) || strings.Contains(a.body, ours.ID) {
		t.Errorf("ann lists the keys of her project: %d %s", a.status, a.body)
	}
	for _, x := range []struct{ method, path, body string }{
		{"GET", "/keys", ""}, {"POST", "/keys", `{"name":"x"}`}, {"POST", "/keys/" + ours.ID + "/rotate", "{}"}, {"DELETE", "/keys/" + ours.ID, ""},
		{"GET", "/secrets", ""}, {"PUT", "/secrets/gh", `{"value":"x"}`}, {"DELETE", "/secrets/gh", ""}, {"POST", "/secrets/rotate-key", ""}, {"GET", "/audit/verify", ""},
	} {
		for name, ask := range map[string]func(string, string, string) reply{"ann": ann, "bob": bob} {
			if name == "bob" && x.method == "GET" && x.path == "/keys" {
				continue // an operator sees the keys of their project
			}
			want := 403
			if name == "bob" && x.method+x.path == "GET/secrets" {
				want = 200 // an operator sees the names
			}
			if a := ask(x.method, x.path, x.body); a.status != want || strings.Contains(a.body, "shop") || strings.Contains(a.body, ours.ID) && !strings.Contains(x.path, ours.ID) {
				t.Errorf("%s: %s %s: %d %s", name, x.method, x.path, a.status, a.body)
			}
		}
		if a := bob(x.method, x.path+"?project=shop", x.body); a.status != 404 && a.status != 403 && a.status != 400 {
			t.Errorf("bob: %s %s of shop: %d %s", x.method, x.path, a.status, a.body)
		}
	}
	// An operator sees what was done in their project, and nothing of another.
	if a := bob("GET", "/audit", ""); a.status != 200 || !strings.Contains(a.body, ours.ID) || strings.Contains(a.body, "shop") || strings.Contains(a.body, theirs.ID) {
		t.Errorf("bob: GET /audit: %d %s", a.status, a.body)
	}
	if a := bob("GET", "/audit?project=shop", ""); a.status != 403 && a.status != 404 {
		t.Errorf("bob: GET /audit of shop: %d %s", a.status, a.body)
	}
	if a := ann("GET", "/audit", ""); a.status != 403 {
		t.Errorf("ann: GET /audit: %d %s", a.status, a.body)
	}
	for _, x := range []struct{ method, path string }{{"POST", "/keys/" + ours.ID + "/rotate?project=shop"}, {"DELETE", "/keys/" + ours.ID + "?project=shop"}} {
		there := ann(x.method, x.path, "{}")
		none := ann(x.method, strings.Replace(x.path, ours.ID, "aaaaaaaaaaaa", 1), "{}")
		if there.status != 404 || strings.ReplaceAll(there.body, ours.ID, "aaaaaaaaaaaa") != none.body {
			t.Errorf("ann: %s %s: %d %s, and without such a key %s", x.method, x.path, there.status, there.body, none.body)
		}
	}
	if a := ann("GET", "/audit?project=shop", ""); a.status != 200 || !strings.Contains(a.body, theirs.ID) || strings.Contains(a.body, ours.ID) || strings.Contains(a.body, "house:") {
		t.Errorf("ann reads the audit of her project: %d %s", a.status, a.body)
	}
	if a := ann("POST", "/keys?project=shop", `{"name":"hers","mine":true}`); a.status != 201 || !strings.Contains(a.body, `"owner": "ann"`) {
		t.Errorf("ann makes a key: %d %s", a.status, a.body)
	}
	if a := ann("DELETE", "/secrets/gh?project=shop", ""); a.status != 200 {
		t.Errorf("ann removes her secret: %d %s", a.status, a.body)
	}
	if value, ok, err := r.api.opts.Safe.Secret(t.Context(), "default", "gh"); !ok || err != nil || value.Reveal() != "ours" || !r.lets(ours.Text) {
		t.Errorf("what is ours was changed: %t %v", ok, err)
	}
}

// TestPlacesOfHouse checks what is said where nothing is stored, where it's stored in memory alone, and where
// the vault's key is gone.
func TestPlacesOfHouse(t *testing.T) {
	t.Parallel()
	none := serving(t)
	none.api.keyAPI, none.api.peopleAPI, none.api.secretAPI = keyAPI{}, peopleAPI{}, secretAPI{}
	for _, x := range []struct{ method, path, body string }{
		{"GET", "/keys", ""}, {"POST", "/keys", "{}"}, {"POST", "/keys/x/rotate", "{}"}, {"DELETE", "/keys/x", ""},
		{"GET", "/secrets", ""}, {"PUT", "/secrets/x", "{}"}, {"DELETE", "/secrets/x", ""}, {"POST", "/secrets/rotate-key", ""},
		{"GET", "/people", ""}, {"POST", "/people", "{}"}, {"PUT", "/people/x/roles", "{}"}, {"POST", "/people/x/invitation", ""}, {"POST", "/people/x/sign-out", ""}, {"DELETE", "/people/x", ""},
	} {
		var p Problem
		if none.tell(x.method, x.path, x.body, 409, &p); p.Type != problemURI+"no-store" {
			t.Errorf("%+v", p)
		}
	}

	r := serving(t)
	db, err := store.Open(t.Context(), store.Options{MayForget: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	safe := store.NewSafe(db, vault.New(vault.Options{Memory: true}))
	r.api.keyAPI.safe, r.api.secretAPI.safe = safe, safe
	r.api.keyAPI.desk = access.NewDesk(safe)
	r.api.opts.Desk = r.api.keyAPI.desk
	var k NewAPIKey
	var kept KeptSecret
	var n Resealed
	r.tell("POST", "/keys", `{"name":"x"}`, 201, &k)
	r.tell("PUT", "/secrets/x", `{"value":"x"}`, 200, &kept)
	r.tell("POST", "/secrets/rotate-key", "", 200, &n)
	if want := "This lasts only until dragoman ends, because"; !strings.HasPrefix(k.Note, want) || !strings.HasPrefix(kept.Note, want) || n.Note != k.Note || n.Values != 2 || !r.lets(k.Text) {
		t.Errorf("in memory: %q %q %+v", k.Note, kept.Note, n)
	}

	lost := serving(t)
	lost.tell("PUT", "/secrets/x", `{"value":"x"}`, 200, &kept)
	file := filepath.Join(filepath.Dir(lost.api.opts.Safe.Store().State().Database), "vault.key")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	safe = store.NewSafe(lost.api.opts.Safe.Store(), vault.New(vault.Options{File: file})) // as after a restart
	lost.api.secretAPI.safe = safe
	var p Problem
	lost.tell("PUT", "/secrets/x", `{"value":"y"}`, 503, &p)
	if p.Type != problemURI+"vault" || !strings.Contains(p.Detail, file) || !strings.Contains(p.Detail, "backup") {
		t.Errorf("without the vault's key: %+v", p)
	}
}

// TestNoLeak checks that neither a value nor a key's text is anywhere but in the answer that shows the
// key (TA37): not in another answer, a log record, or a file.
func TestNoLeak(t *testing.T) {
	t.Parallel()
	r := serving(t)
	const value = "canary-3f9a1c-value"
	var k, moved NewAPIKey
	var kept KeptSecret
	r.tell("POST", "/keys", `{"name":"ci"}`, 201, &k)
	r.tell("POST", "/keys/"+k.ID+"/rotate", `{"overlap":"24h"}`, 200, &moved)
	secretOf := func(x NewAPIKey) string { return strings.TrimPrefix(x.Text, "drgk_"+x.ID+"_")[:20] }
	canaries := []string{value, secretOf(k), secretOf(moved)}
	clean := func(where, text string) {
		t.Helper()
		for _, c := range canaries {
			if strings.Contains(text, c) {
				t.Errorf("%s has %q: %.500s", where, c, text)
			}
		}
	}
	clean("the answer to a set secret", r.tell("PUT", "/secrets/gh", `{"value":"`+value+`"}`, 200, &kept).body)
	for _, x := range []struct{ method, path, body string }{
		{"GET", "/keys", ""}, {"GET", "/secrets", ""}, {"GET", "/status", ""}, {"GET", "/logs", ""}, {"GET", "/calls", ""},
		{"PUT", "/secrets/..%2f", fmt.Sprintf(`{"value":%q}`, value)}, {"PUT", "/secrets/a%20b", fmt.Sprintf(`{"value":%q}`, value)},
		{"PUT", "/secrets/gh", fmt.Sprintf(`%q`, value)}, {"PUT", "/secrets/gh", fmt.Sprintf(`{"value":[%q]}`, value)}, {"PUT", "/secrets/gh", fmt.Sprintf(`{"value":"%s\ufffd"}`, value)},
		{"POST", "/keys", fmt.Sprintf(`{"name":"x","life":{"a":%q}}`, moved.Text)}, {"DELETE", "/keys/" + k.ID, ""}, {"POST", "/secrets/rotate-key", ""}, {"DELETE", "/secrets/gh", ""},
	} {
		clean(x.method+" "+x.path, r.do(x.method, "/api/v1"+x.path, x.body, "Content-Type", "application/json").body)
	}
	records, _ := r.api.opts.Recent.Read(logring.Cursor{}, logring.Filter{}, 1000)
	for _, x := range records {
		clean("the log", fmt.Sprintf("%+v", x))
	}
	folder := filepath.Dir(r.api.opts.Safe.Store().State().Database)
	files, err := os.ReadDir(folder)
	if err != nil || len(files) < 2 {
		t.Fatalf("%v %v", files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		clean(f.Name(), string(b))
	}
}
