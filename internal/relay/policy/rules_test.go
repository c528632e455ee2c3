package policy

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// TestRules checks which items some lists of rules allow to whom, and whether the server is hidden.
func TestRules(t *testing.T) {
	items := []string{"log", "push", Tool("prompt:x"), Prompt("x"), Resource("git://a/b"), Resource("git://{path}")}
	all := strings.Join(items, " ")
	deny := func(match ...string) Rule { return Rule{Match: match, Do: Deny} }
	allow := func(match ...string) Rule { return Rule{Match: match} }
	confirm := func(match ...string) Rule { return Rule{Match: match, Do: Confirm} }
	ada := Caller{Key: "ci", Person: "Ada", Roles: []identity.Role{identity.Caller, identity.Operator}}
	for name, c := range map[string]struct {
		rules  Rules
		who    Caller
		want   string
		hidden bool
	}{
		"none":                          {nil, ada, all, false},
		"another server":                {Rules{deny("gi/*", "gith/*")}, ada, all, false},
		"first wins":                    {Rules{allow("git/log"), deny("git/*")}, ada, "log", false},
		"first wins, turned round":      {Rules{deny("git/*"), allow("git/log")}, ada, "", true},
		"confirm, then deny":            {Rules{confirm("git/log"), deny("git/*")}, ada, "log", false},
		"deny, then confirm":            {Rules{deny("git/log"), confirm("git/*")}, ada, strings.Replace(all, "log ", "", 1), false},
		"part of a name":                {Rules{deny("*/pu*")}, ada, strings.Replace(all, "push ", "", 1), false},
		"every server":                  {Rules{deny("*")}, ada, "", true},
		"pattern over the slash":        {Rules{deny("g*")}, ada, "", true},
		"only prompts":                  {Rules{allow("*/prompt:*"), deny("*")}, ada, "prompt:x", false},
		"only the odd tool":             {Rules{allow("git/tool:*"), deny("*")}, ada, "tool:prompt:x", false},
		"resources":                     {Rules{deny("git/resource:git://*")}, ada, "log push tool:prompt:x prompt:x", false},
		"a key":                         {Rules{{Match: []string{"*"}, Keys: []string{"CI"}, Do: Deny}}, ada, "", true},
		"another key":                   {Rules{{Match: []string{"*"}, Keys: []string{"ada", "c"}, Do: Deny}}, ada, all, false},
		"a person":                      {Rules{{Match: []string{"git/log"}, People: []string{"bob", "ada"}}, deny("*")}, ada, "log", false},
		"another person":                {Rules{{Match: []string{"git/log"}, People: []string{"ci"}}, deny("*")}, ada, "", true},
		"a role":                        {Rules{{Match: []string{"*"}, Roles: []identity.Role{identity.Viewer}}, deny("*")}, ada, all, false},
		"a role that nobody has":        {Rules{{Match: []string{"*"}, Roles: []identity.Role{identity.Admin}}, deny("*")}, ada, "", true},
		"a rule for names, a nobody":    {Rules{{Match: []string{"*"}, Keys: []string{""}, People: []string{""}}, deny("*")}, Caller{}, "", true},
		"a key or a person":             {Rules{{Match: []string{"*"}, Keys: []string{"x"}, People: []string{"ada"}}, deny("*")}, ada, all, false},
		"allowed to another, shows not": {Rules{{Match: []string{"git/log"}, Keys: []string{"x"}}, deny("git/*")}, ada, "", true},
	} {
		var got []string
		for _, item := range items {
			if c.rules.Allow(c.who, "git", item) {
				got = append(got, item)
			}
			if concern(c.rules).Allow(c.who, "git", item) != c.rules.Allow(c.who, "git", item) {
				t.Errorf("%s: Concern has lost a rule about %s", name, item)
			}
		}
		if x := strings.Join(got, " "); x != c.want {
			t.Errorf("%s: allowed are %q, want %q", name, x, c.want)
		}
		if x := !c.rules.AllowServer(c.who, "git"); x != c.hidden {
			t.Errorf("%s: the server is hidden: %t", name, x)
		}
	}
}

func concern(r Rules) Rules {
	decide, _ := r.Concern("git", "")
	return decide
}
