package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
)

// of returns the API of a project.
func (r *rig) of(project string) *API {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "/?project="+project, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	api, bad := r.api.in(q)
	if bad != nil {
		r.t.Fatal(bad)
	}
	return api
}

// withKeys returns a rig that knows its keys, as a daemon does after use.
func withKeys(t testing.TB, c *config.Snapshot) (r *rig, use func()) {
	gate := access.NewGate(true)
	r = servingSnapshot(t, c, func(o *runtime.Options) {
		o.Principal, o.Reach, o.Barred, o.Holder, o.Caller = gate.Principal, gate.Reach, gate.Barred, gate.Holder, gate.Caller
	})
	return r, func() {
		keys, err := r.api.desk().Keys(r.t.Context())
		if err != nil {
			t.Fatal(err)
		}
		gate.Own(r.api.Access().Key())
		gate.Use(keys)
		r.api.Access().VisitorsFrom(gate.Visitor)
		r.api.Access().RolesFrom(gate.Roles)
	}
}

// TestWhatRulesWouldChange checks new rules, and compares what the answer says with what keys, people and roles see before
// and after: a preview that differs from what happens would be worse than none.
func TestWhatRulesWouldChange(t *testing.T) {
	t.Parallel()
	c := *config.Default()
	c.Servers = []config.Server{demoServer(t, "old", "legacy")}
	c.Policy = policy.Rules{{Match: []string{"old/count"}, Keys: []string{"ci"}, Do: policy.Deny}}
	r, use := withKeys(t, &c)
	r.ready("old")
	if a := r.put("shop", "use: [old]\n"); a.status != 201 {
		t.Fatal(a.body)
	}
	for _, key := range []string{`{"name":"ci"}`, `{"name":"narrow","tools":["old/greet"]}`, `{"name":"wide"}`} {
		r.tell("POST", "/keys?project=shop", key, 201, &NewAPIKey{})
	}
	use()
	await(t, "the lists are known", func() bool {
		var v RuleView
		r.tell("GET", "/rules/for?name=ci&project=shop", "", 200, &v)
		return len(v.Items) > 0 && len(v.Unread) == 0
	})
	check := func(rules string) KeptRules {
		var kept KeptRules
		tag := r.do(http.MethodGet, "/api/v1/rules?project=shop", "").header.Get("ETag")
		a := r.do(http.MethodPut, "/api/v1/rules?project=shop&check=true", rules, "Content-Type", yamlType, "If-Match", tag)
		if a.status != 200 {
			t.Fatal(a.body)
		}
		a.into(t, &kept)
		return kept
	}
	for _, x := range []struct{ rules, want string }{
		{"- {match: old/recall, do: deny}", "hides 1 tool from everybody, 2 keys among them, saves N tokens"},
		{"- {match: [old/recall, old/greet], who: {keys: [ci]}, do: deny}", "hides 2 tools from 1 key, saves N tokens"},
		{"- {match: old/count, who: {keys: [ci, wide]}, do: deny}", "hides 1 tool from 1 key, saves N tokens"}, // ci sees it no longer, because of default
		{"- {match: old/greet, do: confirm}", "asks before each use of 1 tool, by everybody, 3 keys among them"},
		{"- {match: old/greet, who: {keys: [narrow]}, do: confirm}", "asks before each use of 1 tool, by 1 key"},
		{"- {match: old/recall, who: {roles: [operator]}, do: allow}\n- {match: old/recall, do: deny}", "hides 1 tool from 2 keys, saves N tokens"},
		{"- {match: old/recall, as: {name: plus}}", "changes how clients see 1 tool"},
		{"- {match: old/nothing, do: deny}", ""},
	} {
		kept, got := check(x.rules), []string{}
		for _, o := range kept.Effect.Changes {
			text := o.Sentence()
			if o.Tokens > 0 {
				text = strings.Replace(text, " "+countOf(o.Tokens, "token", "tokens"), " N tokens", 1)
			}
			got = append(got, text)
		}
		if strings.Join(got, "; ") != x.want || kept.Effect.Emptied {
			t.Errorf("%s: %q %+v", x.rules, got, kept.Effect)
		}
	}
	if kept := check("- {match: '*', do: deny}"); !kept.Effect.Emptied {
		t.Errorf("%+v", kept.Effect)
	}
	// What was said is what happens.
	said := check("- {match: [old/recall, 'old/ask*'], who: {keys: [ci]}, do: deny}").Effect.Changes[0]
	sees := func() (n int) {
		var v RuleView
		r.tell("GET", "/rules/for?name=ci&project=shop", "", 200, &v)
		for _, x := range v.Items {
			if x.Do != "deny" {
				n++
			}
		}
		return n
	}
	before := sees()
	tag := r.do(http.MethodGet, "/api/v1/rules?project=shop", "").header.Get("ETag")
	if a := r.do(http.MethodPut, "/api/v1/rules?project=shop", "- {match: [old/recall, 'old/ask*'], who: {keys: [ci]}, do: deny}", "Content-Type", yamlType, "If-Match", tag); a.status != 200 || strings.Contains(a.body, `"effect"`) {
		t.Fatal(a.body)
	}
	if after := sees(); said.Items < 2 || before-after != said.Items || len(said.Names) != 1 || said.Names[0].Name != "ci" {
		t.Errorf("%d of %d are left; it was %+v", after, before, said)
	}
	// Rules of the file can be tried, too.
	a := r.do(http.MethodPut, "/api/v1/rules?check=true", "- {match: old/recall, do: deny}\n", "Content-Type", yamlType)
	var kept KeptRules
	if a.into(t, &kept); a.status != 200 || kept.Written || len(kept.Effect.Changes) != 1 || kept.Added != 1 || kept.Removed != 1 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.do(http.MethodPut, "/api/v1/rules?check=true", "- {match: old, do: deny}\n", "Content-Type", yamlType); a.status != 422 || !strings.Contains(a.body, "can never match") {
		t.Errorf("%d %s", a.status, a.body)
	}

	// An operator tries rules without learning the names of keys.
	guard := r.api.Access()
	guard.RolesFrom(func(who *identity.Principal, project string) []identity.Role {
		if who.Subject == "ann" {
			return map[string][]identity.Role{"shop": {identity.Operator}}[project]
		}
		return localRoles(who, project)
	})
	cookie := enter(guard, guard.LinkFor(identity.Named("ann"), ""))
	tag = r.do(http.MethodGet, "/api/v1/rules?project=shop", "").header.Get("ETag")
	b := r.ask(http.MethodPut, "/api/v1/rules?project=shop&check=true", "- {match: old/greet, do: deny}\n", "Cookie", cookie, "Host", guard.Name()+":7300", "Content-Type", yamlType, "If-Match", tag, "Sec-Fetch-Site", "same-origin")
	var seen KeptRules
	if err := json.Unmarshal([]byte(b.body), &seen); err != nil || len(seen.Effect.Changes) == 0 || seen.Effect.Changes[0].Keys != 3 || strings.Contains(b.body, "narrow") || strings.Contains(b.body, "wide") {
		t.Errorf("%d %s", b.status, b.body)
	}
	api := r.of("shop")
	uses, bad := api.UsesFor(t.Context(), identity.Named("ann"), "old", "echo", "", 0, 10)
	if bad != nil || uses.Knows || len(uses.Named) > 0 || len(uses.Bare) == 0 {
		t.Errorf("%+v %v", uses, bad)
	}
	if _, bad := api.ViewFor(t.Context(), identity.Named("ann"), "key", "ci"); bad == nil || bad.Status != 403 {
		t.Error("an operator sees what a key sees")
	}
}

// TestChangeOneRule changes single rules of a list: all other lines stay, comments included, and a list in brackets is
// written anew.
func TestChangeOneRule(t *testing.T) {
	t.Parallel()
	rule := RuleEntry{Match: []string{"git/new", "git/b: #x"}, Who: &RuleWho{Keys: []string{"ci"}, Roles: []string{"operator"}}, Do: "deny"}
	written := "- match: [git/new, \"git/b: #x\"]\n  who:\n    keys: [ci]\n    roles: [operator]\n  do: deny\n"
	list := "# Ours.\n\n- match: git/a # first\n  do: deny\n# Two.\n- {match: git/b, who: {keys: [x]}, do: allow}\n-\n  match: git/c\n  as:\n    name: d\n    description: |\n      - no rule\n      # no comment\n# The end.\n"
	parsed := func(text string) policy.Rules {
		rules, problems := config.ParseRules([]byte(text), config.Default())
		for _, p := range problems {
			if !p.Warning {
				t.Fatal(p, text)
			}
		}
		return rules
	}
	rules := parsed(list)
	id := func(i int) string { x := showRule(&rules[i]); return x.ID() }
	for _, c := range []struct {
		name   string
		change RuleChange
		want   string
	}{
		{"at the end", RuleChange{Do: RuleAdd, Rule: rule}, strings.Replace(list, "# The end", written+"# The end", 1)},
		{"before the second", RuleChange{Do: RuleAdd, At: 2, Rule: rule}, strings.Replace(list, "# Two", written+"# Two", 1)},
		{"the second", RuleChange{Do: RuleEdit, ID: id(1), Rule: rule}, strings.Replace(list, "- {match: git/b, who: {keys: [x]}, do: allow}\n", written, 1)},
		{"without the first", RuleChange{Do: RuleRemove, ID: id(0)}, list[strings.Index(list, "# Two"):]},
		{"the last first", RuleChange{Do: RuleOrder, Order: []string{id(2), id(0), id(1)}}, list[strings.Index(list, "-\n"):strings.Index(list, "# The end")] + list[:strings.Index(list, "-\n")] + "# The end.\n"},
		{"only two of them", RuleChange{Do: RuleOrder, Order: []string{id(1), id(0), "gone"}}, list[strings.Index(list, "# Two"):strings.Index(list, "-\n")] + list[:strings.Index(list, "# Two")] + list[strings.Index(list, "-\n"):]},
	} {
		got, bad := c.change.apply(list, rules)
		if bad != nil || got != c.want {
			t.Errorf("%s: %v\n%s\nnot\n%s", c.name, bad, got, c.want)
		}
		parsed(got)
	}
	if _, bad := (&RuleChange{Do: RuleEdit, ID: "gone", Rule: rule}).apply(list, rules); bad == nil || bad.Status != 404 {
		t.Error(bad)
	}
	for _, brackets := range []string{`[{"match": "git/a", "do": "deny"}, {match: git/b, do: confirm}]`, "[\n {match: git/a, do: deny},\n {match: git/b, do: confirm}\n]\n"} {
		rules := parsed(brackets)
		got, _ := (&RuleChange{Do: RuleAdd, At: 1, Rule: rule}).apply(brackets, rules)
		if want := written + "- match: git/a\n  do: deny\n- match: git/b\n  do: confirm\n"; got != want {
			t.Errorf("%s", got)
		}
	}
	got, _ := (&RuleChange{Do: RuleRemove, ID: id(0)}).apply("- match: git/a\n  do: deny\n", rules[:1])
	if got != "[]\n" {
		t.Errorf("%q", got)
	}
	// What somebody types is no reference to a secret.
	secret := RuleEntry{Match: []string{"git/a"}, As: &RuleAs{Title: "${secret:gh}"}}
	if x := parsed(secret.Text()); x[0].As.Title != "${secret:gh}" {
		t.Errorf("%s: %q", secret.Text(), x[0].As.Title)
	}
}

// TestChangeRules changes the rules of a project of the store for whoever has sent a form: with the version that they have
// seen, once, and as an act of the console.
func TestChangeRules(t *testing.T) {
	t.Parallel()
	r := serving(t)
	r.put("shop", "title: Shop\nmcpServers:\n  git: {url: \"http://127.0.0.1:1/mcp\"}\npolicy:\n  # At first.\n  - {match: git/push, do: deny}\n")
	api := r.of("shop")
	guard := r.api.Access()
	form := func() *http.Request {
		q, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+guard.Name()+":7300/console/rules/edit", http.NoBody)
		q.Host = guard.Name() + ":7300"
		q.Header.Set("Cookie", enter(guard, guard.LinkFor(identity.Local, "")))
		q.Header.Set("Sec-Fetch-Site", "same-origin")
		return q
	}
	now := api.KnownRules(identity.Local)
	add := RuleChange{Do: RuleAdd, Rule: RuleEntry{Match: []string{"git/x"}, Do: "confirm"}, ETag: now.ETag, Check: true}
	done, bad := api.ChangeRules(form(), add)
	if bad != nil || done.Written || done.Effect == nil || !strings.HasSuffix(done.After, "- match: git/x\n  do: confirm\n") || done.Own != "- match: git/x\n  do: confirm\n" {
		t.Fatalf("%v %+v", bad, done)
	}
	add.Check = false
	if done, bad = api.ChangeRules(form(), add); bad != nil || !done.Written || len(done.Rules.Rules) != 2 {
		t.Fatalf("%v %+v", bad, done)
	}
	if _, bad = api.ChangeRules(form(), add); bad == nil || bad.Status != 412 {
		t.Error(bad)
	}
	add.ETag = ""
	if _, bad = api.ChangeRules(form(), add); bad == nil || bad.Status != 428 {
		t.Error(bad)
	}
	if text := r.do(http.MethodGet, "/api/v1/projects/shop", "").body; !strings.HasSuffix(text, "policy:\n  # At first.\n  - {match: git/push, do: deny}\n  - match: git/x\n    do: confirm\n") {
		t.Error(text)
	}
	var found AuditEntries
	r.tell("GET", "/audit?what=shop", "", 200, &found)
	if len(found.Entries) < 2 || found.Entries[0].Via != identity.Console {
		t.Error(fmt.Sprint(found.Entries))
	}
	own := r.api.KnownRules(identity.Local)
	done, bad = r.api.ChangeRules(form(), RuleChange{Do: RuleAdd, Rule: RuleEntry{Match: []string{"*/x"}, Do: "deny"}, Check: true})
	if bad != nil || own.Home != "file" || done.Effect == nil {
		t.Errorf("%v %+v", bad, done)
	}
	if _, bad = r.api.ChangeRules(form(), RuleChange{Do: RuleAdd, Rule: RuleEntry{Match: []string{"*/x"}, Do: "deny"}}); bad == nil || bad.Status != 409 {
		t.Error(bad)
	}
}

// BenchmarkRulesOfManyKeys measures what the pages about rules ask for, with 10,000 keys of which half have tools of
// their own.
func BenchmarkRulesOfManyKeys(b *testing.B) {
	c := *config.Default()
	c.Servers = []config.Server{demoServer(b, "old", "legacy")}
	r, use := withKeys(b, &c)
	r.ready("old")
	var wishes []access.Wish
	for i := range 10_000 {
		w := access.Wish{Name: fmt.Sprintf("key-%d", i), Project: "default", Role: identity.Caller}
		if i%2 == 0 {
			w.Tools = []string{"old/greet"}
		}
		wishes = append(wishes, w)
	}
	if _, _, err := r.api.desk().MakeAll(b.Context(), "local", wishes); err != nil {
		b.Fatal(err)
	}
	use()
	next := policy.Rules{{Match: []string{"old/*"}, Do: policy.Deny}, {Match: []string{"*"}, Keys: []string{"key-1"}, Do: policy.Deny}}
	for name, ask := range map[string]func() any{
		"preview": func() any {
			x, _ := r.api.effect(b.Context(), identity.Local, next)
			return x.Changes[0].Keys == 10_000
		},
		"who": func() any {
			x, _ := r.api.UsesFor(b.Context(), identity.Local, "old", "greet", "", 9000, 50)
			return len(x.Named) == 50
		},
		"sees": func() any {
			x, _ := r.api.ViewFor(b.Context(), identity.Local, "key", "key-7")
			return x.Name == "key-7"
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if ask() != true {
					b.Fatal("another answer")
				}
			}
		})
	}
}
