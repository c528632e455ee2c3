package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/limits"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/server/demo"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestSetRules replaces the rules of a project of the store, and sends what can't be: that has a sentence and a next
// step, and changes nothing. The rest of the project's text stays, and each change is an act.
func TestSetRules(t *testing.T) {
	t.Parallel()
	r := serving(t)
	const rest = "# Ours.\ntitle: Shop # a shop\nmcpServers:\n  git: {url: \"http://127.0.0.1:1/mcp\"}\n"
	r.put("shop", rest+"policy:\n  # At first.\n  - {match: \"git/push\", do: deny}\nexpose: {tools: {deny: [x]}} # hidden\n")
	r.put("mall", rest)
	text := func(project string) string { return r.do(http.MethodGet, "/api/v1/projects/"+project, "").body }
	tag := func() string { return r.do(http.MethodGet, "/api/v1/rules?project=shop", "").header.Get("ETag") }
	const own = "\n# Those who may.\n- match: git/push\n  do: confirm\n"
	bomb := "- &a {match: 'o/x', do: deny}\n- &b0 [*a]\n"
	for i := range 12 {
		bomb += fmt.Sprintf("- &b%d [%s*b%d]\n", i+1, strings.Repeat(fmt.Sprintf("*b%d, ", i), 9), i)
	}
	stays := rest + "policy:\n  # Those who may.\n  - match: git/push\n    do: confirm\nexpose: {tools: {deny: [x]}} # hidden\n"
	for _, c := range []struct {
		name, body, query, match string
		status                   int
		want, text               string // a part of the answer, and the text afterwards; "" if it's as before
	}{
		{"no version", own, "", "-", 428, "Send the ETag", ""},
		{"another version", own, "", `"7"`, 412, "Nothing was changed.", ""},
		{"no list", "match: git/push", "", "", 422, "Line 1: policy: must be a list", ""},
		{"no YAML", "\n- {", "", "", 422, `"urn:dragoman:problem:rules"`, ""},
		{"where", "\n- {", "", "", 422, "Line 2: syntax error", ""},
		{"an alias bomb", bomb, "", "", 422, "aliases", ""},
		{"a check of one", bomb, "&check=true", "", 422, "aliases", ""},
		{"too deep", strings.Repeat("[", 100_000), "", "", 422, "nested too deeply", ""},
		{"nothing", "\n", "", "", 422, "write [].", ""},
		{"only a comment", "# none\n", "", "", 422, "write [].", ""},
		{"never", own + "- {match: \"git/push\", do: deny}\n", "", "", 422, "Line 5: policy[1]: can never decide anything, because policy[0] comes first and is for everybody; move it up, or remove it.", ""},
		{"only a check of it", "- {match: git, do: deny}", "&check=true", "", 422, `Line 1: policy[0].match: \"git\" can never match`, ""},
		{"a collision", "- {match: git/a, as: {name: x}}\n- {match: git/b, as: {name: x}}", "", "", 422, `Line 2: policy[1]: gives the name \"x\" to a second tool of the server, after git/a; choose another name.`, ""},
		{"a check", own, "&check=true", "", 200, `"written": false`, ""},
		{"what a check counts", own + "- {match: git/x, do: deny}\n", "&check=true", "", 200, "\"added\": 2,\n  \"removed\": 1", ""},
		{"what isn't right with a rule", "- {match: git/x, who: {keys: [nobody]}, do: deny}", "&check=true", "", 200, `Rule 1: no API key has the name \"nobody\"`, ""},
		{"a warning", "- {match: gitt/push, do: deny}", "&check=true", "", 200, `did you mean git/…?`, ""},
		{"a change", own, "", "", 200, `"written": true`, stays},
		{"JSON", `[{"match": "git/*", "do": "deny"}]`, "", "", 200, `"match": [`, strings.Replace(stays, "policy:\n  # Those who may.\n  - match: git/push\n    do: confirm\n", "policy: [{\"match\": \"git/*\", \"do\": \"deny\"}]\n", 1)},
		{"no rules", "[] # none\n", "&check=true", "", 200, `"removed": 1`, ""},
		{"no rules", "[]", "", "", 200, `"rules": []`, rest + "expose: {tools: {deny: [x]}} # hidden\n"},
		{"something again", own, "", "", 200, `"number": 1`, rest + "expose: {tools: {deny: [x]}} # hidden\npolicy:\n  # Those who may.\n  - match: git/push\n    do: confirm\n"},
	} {
		before, header := text("shop"), []string{"Content-Type", yamlType, "If-Match", c.match}
		if c.match == "" {
			header[3] = tag()
		} else if c.match == "-" {
			header = header[:2]
		}
		a := r.do(http.MethodPut, "/api/v1/rules?project=shop"+c.query, c.body, header...)
		if a.status != c.status || !strings.Contains(a.body, c.want) {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
		if want := c.text; want == "" && text("shop") != before || want != "" && (text("shop") != want || a.header.Get("ETag") != tag()) {
			t.Errorf("%s: the text is\n%s", c.name, text("shop"))
		}
	}
	r.put("only", "policy:\n- {match: git/push, do: deny}\n")
	if a := r.do(http.MethodPut, "/api/v1/rules?project=only", "[]\n", "Content-Type", yamlType, "If-Match", "*"); a.status != 200 || text("only") != "" {
		t.Errorf("%d %s: %q", a.status, a.body, text("only"))
	}
	if text("mall") != rest {
		t.Error("another project has changed")
	}
	for _, project := range []string{"", "?project=default"} {
		if a := r.do(http.MethodPut, "/api/v1/rules"+project, own, "Content-Type", yamlType, "If-Match", "*"); a.status != 409 || !strings.Contains(a.body, "edit it there") {
			t.Errorf("in the file: %d %s", a.status, a.body)
		}
	}
	var found AuditEntries
	r.tell("GET", "/audit?what=shop&who=local", "", 200, &found)
	var acts []string
	for _, x := range found.Entries {
		acts = append(acts, fmt.Sprintf("%s %s %s: %s -> %s", x.Via, x.What, x.Object, x.Was, x.Became))
	}
	if all := strings.Join(acts, "\n"); strings.Count(all, "api changed project:shop") != 4 || !strings.Contains(all, "confirm") {
		t.Error(all)
	}
}

// TestRulesOfTwoProjects reads the rules of default and of a project that uses one of its servers: each has its place, and
// of default only those that count.
func TestRulesOfTwoProjects(t *testing.T) {
	t.Parallel()
	c := *config.Default()
	c.Servers = []config.Server{demoServer(t, "old", "legacy"), demoServer(t, "new", "modern")}
	c.Policy = policy.Rules{{Match: []string{"new/*"}, Keys: []string{"ci"}, Do: policy.Deny}, {Match: []string{"*/echo"}, Do: policy.Confirm}, {Match: []string{"old/add"}, As: &policy.As{Name: "plus", Hints: []policy.Hint{{Name: "readOnlyHint", Is: true}}}},
		{Match: []string{"old/x"}, Keys: []string{"ci"}, People: []string{"Ada"}, Roles: []identity.Role{identity.Operator}, Do: policy.Deny}}
	r := servingSnapshot(t, &c)
	if a := r.put("shop", "use: [old]\npolicy: [{match: old/add, who: {roles: [operator]}, do: allow}]\n"); a.status != 201 {
		t.Fatal(a.body)
	}
	for project, want := range map[string]string{
		"default": "default 1 dragoman.policy[0] [new/*] ci deny; default 2 dragoman.policy[1] [*/echo]  confirm; default 3 dragoman.policy[2] [old/add]  plus map[readOnlyHint:true]; default 4 dragoman.policy[3] [old/x] ci operator deny; ",
		"shop":    "shop 1 policy[0] [old/add] operator allow; default 2 dragoman.policy[1] [*/echo]  confirm; default 3 dragoman.policy[2] [old/add]  plus map[readOnlyHint:true]; default 4 dragoman.policy[3] [old/x] ci operator deny; ",
	} {
		var all Rules
		r.tell("GET", "/rules?project="+project, "", 200, &all)
		got := ""
		for _, x := range all.Rules {
			who := ""
			if x.Who != nil {
				who = strings.Join(append(x.Who.Keys, x.Who.Roles...), " ")
			}
			got += fmt.Sprint(x.Project, " ", x.Number, " ", x.Path, " ", x.Match, " ", who, " ", x.Do)
			if x.As != nil {
				got += fmt.Sprint(x.As.Name, " ", x.As.Annotations)
			}
			got += "; "
		}
		if got != want {
			t.Errorf("%s: %s", project, got)
		}
	}
	// A viewer of shop doesn't learn the names that default's rules have, nor where its file is.
	r.api.ruleAPI.projects.file = "/home/us/dragoman.yaml"
	guard := r.api.Access()
	guard.RolesFrom(func(who *identity.Principal, project string) []identity.Role {
		if who.Subject == "ann" {
			return map[string][]identity.Role{"shop": {identity.Viewer}}[project]
		}
		return localRoles(who, project)
	})
	a := r.ask(http.MethodGet, "/api/v1/rules?project=shop", "", "Cookie", enter(guard, guard.LinkFor(identity.Named("ann"), "")), "Host", guard.Name()+":7300")
	var seen Rules
	if err := json.Unmarshal([]byte(a.body), &seen); err != nil || len(seen.Rules) != 4 || strings.Contains(a.body, `"ci"`) || strings.Contains(a.body, "Ada") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if got := seen.Rules[3].Who; !got.Hidden || len(got.Roles) != 1 || seen.Rules[3].File != "dragoman.yaml" {
		t.Errorf("%+v %+v", got, seen.Rules[3].RulePlace)
	}
	// Only an admin learns which name was perhaps meant.
	r.tell("POST", "/keys", `{"name":"cii"}`, 201, &NewAPIKey{})
	var all Rules
	var status Report
	r.tell("GET", "/rules", "", 200, &all)
	r.tell("GET", "/status", "", 200, &status)
	if got := all.Rules[0].Warnings; len(got) != 1 || got[0] != `No API key has the name "ci". Did you mean cii?` {
		t.Errorf("%q", got)
	}
	if got := status.RuleWarnings; len(got) == 0 || got[0] != "Rule 1: no API key has the name \"ci\". `dragoman keys` lists the names." {
		t.Errorf("%q", got)
	}
}

// TestNamesThatNobodyHas checks that the status names limits for keys and people whom nobody knows, and tools that are
// always listed and that nobody has, with what was perhaps meant.
func TestNamesThatNobodyHas(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "old", demo.Legacy))
	r.ready("old")
	r.tell("POST", "/keys", `{"name":"ci"}`, 201, &NewAPIKey{})
	c := *r.runtime.Default().Current()
	c.Limits.Traffic = []limits.Limit{
		{Per: limits.Key, Keys: []string{"C*", "cj"}, Calls: 1, Burst: 1}, {Per: limits.Person, People: []string{"ada"}, InFlight: 1}, {Per: limits.Key, Keys: []string{"x*"}, InFlight: 1},
	}
	c.Tools.Always = []string{"old/greet", "old/gret", "old/*"}
	r.runtime.Apply(event.DefaultProject, &c)
	var got Report
	await(t, "the list of tools is there", func() bool {
		r.tell("GET", "/tools?server=old", "", 200, &Tools{})
		r.tell("GET", "/status", "", 200, &got)
		return len(got.RuleWarnings) == 4
	})
	for i, want := range []string{
		`In limits.traffic[0], no API key has the name "cj".`, `In limits.traffic[1], no person has the name "ada".`, `In limits.traffic[2], no API key has the name "x*".`,
		`In tools.always[1], "old/gret" matches nothing that there is. Did you mean old/greet?`,
	} {
		if !strings.HasPrefix(got.RuleWarnings[i], want) {
			t.Errorf("%q, want %q", got.RuleWarnings[i], want)
		}
	}
}

// TestToolsThatNobodySees compares what operators see of tools that rules, expose and pins hide, and of one whose name a
// rule gives to another: in the list, in a search, and in what rules decide.
func TestToolsThatNobodySees(t *testing.T) {
	t.Parallel()
	c := *config.Default()
	c.Servers = []config.Server{demoServer(t, "old", "legacy"), demoServer(t, "new", "modern")}
	c.Policy = policy.Rules{
		{Match: []string{"old/count"}, Keys: []string{"ci"}, Do: policy.Allow}, {Match: []string{"old/ask_name"}, Keys: []string{"ci"}, Do: policy.Deny},
		{Match: []string{"old/count", "old/remember"}, Do: policy.Deny}, {Match: []string{"old/recall"}, As: &policy.As{Name: "greet"}},
	}
	r := servingSnapshot(t, &c)
	r.ready("old", "new")
	r.tell("POST", "/keys", `{"name":"ci"}`, 201, &NewAPIKey{})
	if a := r.put("shop", "use: [old]\nexpose: {tools: {deny: [ask_name]}}\n"); a.status != 201 {
		t.Fatal(a.body)
	}
	for project, want := range map[string]string{
		"default": "ask_name shown; count shown; greet hidden a rule gives its name to another item; recall shown; remember hidden rule 3 of default, old/remember, denies it to everybody; ",
		"shop":    "ask_name hidden the configuration hides it; count shown; greet hidden a rule gives its name to another item; recall shown; remember hidden rule 3 of default, old/remember, denies it to everybody; ",
	} {
		var all, found Tools
		r.tell("GET", "/tools?server=old&sort=name&project="+project, "", 200, &all)
		r.tell("GET", "/tools?server=old&q=old&sort=name&project="+project, "", 200, &found)
		for _, list := range [][]Tool{all.Tools, found.Tools} {
			var got []string
			for _, x := range list {
				text := x.Name + " " + x.State
				if len(x.Hidden) > 0 {
					text += " " + x.Hidden[0].Why
				}
				got = append(got, text+"; ")
			}
			slices.Sort(got)
			if text := strings.Join(got, ""); text != want {
				t.Errorf("%s: %s", project, text)
			}
		}
	}
	for item, want := range map[string]string{"greet": "deny a rule gives its name to another item", "recall": "allow no rule"} {
		var who RuleUses
		r.tell("GET", "/rules/who?item=old/"+item, "", 200, &who)
		for _, x := range who.Who {
			if got := x.Do + " " + x.Why; x.Kind == "role" && got != want {
				t.Errorf("%s for %s: %s", item, x.Name, got)
			}
		}
	}
}
