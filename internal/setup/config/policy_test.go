package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// TestPolicy reads the rules of default and of a project, and prints them so that they are read again.
func TestPolicy(t *testing.T) {
	const text = `
mcpServers: {git: {command: x}, db: {command: x}}
dragoman:
  policy:
    - {match: "git/*", who: {keys: [ci, "n b"], people: [Ada], roles: [viewer, admin]}, do: allow}
    - {match: [git/push, "*/prompt:x", "db/resource:a:b/*"], do: deny}
    - {match: db/drop, do: confirm}
    - {match: git/log, as: {name: history, title: "Past: all", description: d, annotations: {readOnlyHint: true, openWorldHint: false}}}
  projects:
    shop: {use: [git], mcpServers: {own: {command: x}}, policy: [{match: "git/log", do: deny}]}
    bare: {use: [git]}
`
	s, problems := Parse("f", []byte(text), nil)
	if s == nil || len(problems) > 0 {
		t.Fatal(listing(problems))
	}
	want := policy.Rules{
		{Match: []string{"git/*"}, Keys: []string{"ci", "n b"}, People: []string{"Ada"}, Roles: []identity.Role{identity.Viewer, identity.Admin}},
		{Match: []string{"git/push", "*/prompt:x", "db/resource:a:b/*"}, Do: policy.Deny},
		{Match: []string{"db/drop"}, Do: policy.Confirm},
		{Match: []string{"git/log"}, As: &policy.As{Name: "history", Title: "Past: all", Description: "d", Hints: []policy.Hint{{Name: "readOnlyHint", Is: true}, {Name: "openWorldHint"}}}},
	}
	shop, _ := s.Project("shop")
	bare, _ := s.Project("bare")
	for _, x := range []struct{ want, got policy.Rules }{
		{want, s.Policy}, {nil, s.House}, {policy.Rules{{Match: []string{"git/log"}, Do: policy.Deny}}, shop.Config.Policy},
		{want, shop.Config.House}, {nil, bare.Config.Policy}, {want, bare.Config.House},
	} {
		if d := cmp.Diff(x.want, x.got); d != "" {
			t.Error(d)
		}
	}
	again, problems := Parse("f", s.AppendYAML(nil), nil)
	if again == nil {
		t.Fatalf("%s\n%s", listing(problems), s.AppendYAML(nil))
	}
	other, _ := again.Project("shop")
	if d := cmp.Diff([]policy.Rules{s.Policy, shop.Config.Policy}, []policy.Rules{again.Policy, other.Config.Policy}); d != "" {
		t.Error(d)
	}
	alone, problems := ParseProject("mall", []byte(`{use: [git], policy: [{match: "git/log", do: allow}]}`), s, nil)
	if alone.Config == nil || len(problems) > 0 || cmp.Diff(want, alone.Config.House) != "" || len(alone.Config.Policy) != 1 {
		t.Errorf("a project of the store: %s", listing(problems))
	}
}

// TestManyRules checks that a list with too many rules or patterns is one problem, however they are written, and that
// the longest lists can be used.
func TestManyRules(t *testing.T) {
	rules := func(rules, patterns int) string {
		list := strings.Repeat("git/a*b, ", patterns)
		return "mcpServers: {git: {command: x}}\nx-all: &all [" + list + "]\ndragoman:\n  policy:\n" + strings.Repeat("    - {match: *all, who: {keys: [ci]}, do: deny}\n", rules)
	}
	for _, c := range []struct {
		rules, patterns int
		want            string
	}{
		{1000, 5, ""}, {1, 5000, ""}, {1001, 1, "dragoman.policy: has more than 1000 rules"}, {1000, 6, "dragoman.policy: has more than 5000 patterns in match"},
	} {
		s, problems := Parse("f", []byte(rules(c.rules, c.patterns)), nil)
		if (s != nil) != (c.want == "") || len(problems) > 1 || !strings.Contains(listing(problems), c.want) {
			t.Errorf("%d rules with %d patterns: %d problems: %.300s", c.rules, c.patterns, len(problems), listing(problems))
		}
	}
}

// TestProblemsOfPolicy checks that each rule that can't count refuses the file, with one sentence and a way out, and
// in a project the project alone.
func TestProblemsOfPolicy(t *testing.T) {
	for rules, want := range map[string]string{
		`{match: "*", do: deny}`:            "dragoman.policy: must be a list",
		`[x]`:                               "dragoman.policy[0]: must be a mapping",
		`[{do: deny}]`:                      "dragoman.policy[0].match: is missing",
		`[{match: [], do: deny}]`:           "can never match",
		`[{match: git, do: deny}]`:          `"git" can never match`,
		`[{match: git/, do: deny}]`:         `"git/" can never match`,
		`[{match: git/tool:x, do: deny}]`:   `"git/tool:x" is not how a tool is written; write git/x; tool: is`,
		`[{match: "git/tool:*", do: deny}]`: `"git/tool:*" is not how a tool is written`,
		`[{match: "git/*", do: confrm}]`:    "did you mean confirm? write allow, deny or confirm",
		`[{match: [git/x, "git/resource:git://{path}"], do: confirm}]`: `"git/resource:git://{path}" is a template, which nobody reads, so nobody is asked`,
		`[{match: "git/*"}]`:                                    "dragoman.policy[0].do: is missing",
		`[{match: git/a, do: allow, as: {name: x}}]`:            "can't stand beside as",
		`[{match: git/a, who: {keys: [k]}, as: {name: x}}]`:     "can't be for some people only",
		`[{match: git/a, as: {}}]`:                              "changes nothing",
		`[{match: git/a, as: }]`:                                "do: is missing",
		`[{match: git/a, as: {annotations: {readOnly: true}}}]`: "valid keys: readOnlyHint, destructiveHint",
		`[{match: ["git/prompt:a", "git/resource:*"], as: {annotations: {readOnlyHint: true}}}]`: "dragoman.policy[0].as.annotations: are for tools, and no tool can match",
		`[{match: "git/*", as: {name: x}}]`:                                        "is for a single tool or prompt",
		`[{match: git/resource:x:y, as: {name: x}}]`:                               "is for a single tool or prompt",
		`[{match: git/a, as: {name: "x y"}}]`:                                      "is a name that clients refuse",
		`[{match: git/a, as: {name: x}}, {match: git/b, as: {name: x}}]`:           "dragoman.policy[1]: gives the name \"x\" to a second tool of the server, after git/a",
		`[{match: "git/*", as: {title: x}}, {match: git/b, as: {title: y}}]`:       "dragoman.policy[1]: can never decide anything",
		`[{match: "git/*", do: deny, who: }]`:                                      "names nobody",
		`[{match: "git/*", do: deny, who: {}}]`:                                    "names nobody",
		`[{match: "git/*", do: deny, who: {keys: []}}]`:                            "names nobody",
		`[{match: "git/*", do: deny, who: ada}]`:                                   "who: must be a mapping",
		`[{match: "git/*", do: deny, who: {keys: ada}}]`:                           "write [ada]",
		`[{match: git/a, as: {nmae: x}}]`:                                          "did you mean name?",
		`[{match: "project:prompts/review", do: deny}]`:                            `"project:prompts/review" can never match`,
		`[{match: "project:prompts/rev*", do: deny}]`:                              `"project:prompts/rev*" can never match`,
		`[{match: "git/*", do: deny, who: {keys: [""]}}]`:                          "must not be empty",
		`[{match: "git/*", do: deny, who: {roles: [boss]}}]`:                       `"boss" is not a role`,
		`[{match: "git/*", do: deny, who: {user: [ada]}}]`:                         "unknown key",
		`[{match: "${NOT_SET}/*", do: deny}]`:                                      "NOT_SET",
		`[{match: "*", do: allow}, {match: git/x, do: deny}]`:                      "dragoman.policy[1]: can never decide anything",
		`[{match: "git/a*", do: allow}, {match: ["git/abc*", "git/a"], do: deny}]`: "dragoman.policy[1]: can never decide anything",
	} {
		s, problems := Parse("f", []byte("mcpServers: {git: {command: x}}\ndragoman:\n  policy: "+rules+"\n"), nil)
		if s != nil || !strings.Contains(listing(problems), want) || len(problems) > 1 && rules != "[x]" {
			t.Errorf("%s: %s", rules, listing(problems))
		}
		s, problems = Parse("f", []byte("dragoman:\n  projects:\n    shop:\n      mcpServers: {git: {command: x}}\n      policy: "+rules+"\n    mall: {mcpServers: {git: {command: x}}}\n"), nil)
		if s == nil || s.Projects[0].Config != nil || s.Projects[0].Unusable == nil || s.Projects[1].Config == nil {
			t.Errorf("in a project: %s: %s", rules, listing(problems))
		}
	}
	for rules, want := range map[string]string{
		`[{match: "gitt/*", do: deny}]`: "did you mean git/",
		`[{match: "x/*", do: deny}]`:    "matches nothing of a server that is configured",
		`[{match: ["git/prompt:a", "git/*"], as: {annotations: {readOnlyHint: true}}}, {match: "*/prompt:x*", as: {annotations: {readOnlyHint: true}}}]`: "",
		`[{match: "git/*", do: allow, who: {keys: [a]}}, {match: "git/*", do: deny}]`:                                                                    "",
		`[{match: "git/*", do: deny}, {match: git/a, as: {name: x}}, {match: git/prompt:a, as: {name: x}}]`:                                              "",
		`[{match: ["git/tool:prompt:a", "git/tool:tool:*"], do: deny}]`:                                                                                  "",
		`[{match: ["project:prompts/prompt:x", "project:prompts/*", "project:prompts/p*"], do: deny}]`:                                                   "",
	} {
		s, problems := Parse("f", []byte("mcpServers: {git: {command: x}}\ndragoman:\n  policy: "+rules+"\n"), nil)
		if s == nil || (want == "") != (len(problems) == 0) || !strings.Contains(listing(problems), want) {
			t.Errorf("%s: %s", rules, listing(problems))
		}
	}
}
