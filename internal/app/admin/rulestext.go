package admin

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// What a RuleChange does.
const (
	RuleAdd    = "add"
	RuleEdit   = "edit"
	RuleRemove = "remove"
	RuleOrder  = "order"
)

// RuleChange is a change of the rules that a project has of its own. It leaves the texts of all other rules as they
// are, with their comments.
type RuleChange struct {
	Do    string
	ID    string    // for RuleEdit and RuleRemove: which rule; see RuleEntry.ID
	At    int       // for RuleAdd: the place of the new rule, from 1; any other number is the end
	Rule  RuleEntry // for RuleAdd and RuleEdit: what it says; its place and its warnings don't count
	Order []string  // for RuleOrder: ids of rules. Those of the list that it names get their places in this order
	ETag  string    // the version of the rules that is changed; "" if they live in the file, where nothing is written
	Check bool      // write nothing, and say what it would do
}

// ChangedRules is the answer to a RuleChange.
type ChangedRules struct {
	KeptRules
	Before, After string // the list as it was written, and as it is or would be
	Own           string // the text of the rule that was added or edited
}

// ID names the rule: rules that say the same have the same ID, wherever they stand.
func (x *RuleEntry) ID() string {
	text, _ := json.Marshal(ruleTextOf(x))
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%x", sum[:6])
}

// ruleText is a rule as it's written.
type ruleText struct {
	Match any      `json:"match"`
	Who   *ruleWho `json:"who,omitempty"`
	Do    string   `json:"do,omitempty"`
	As    *RuleAs  `json:"as,omitempty"`
}

type ruleWho struct {
	Keys   []string `json:"keys,omitempty"`
	People []string `json:"people,omitempty"`
	Roles  []string `json:"roles,omitempty"`
}

func ruleTextOf(x *RuleEntry) ruleText {
	out := ruleText{Match: x.Match, Do: x.Do, As: x.As}
	if len(x.Match) == 1 {
		out.Match = x.Match[0]
	}
	if x.Who != nil {
		out.Who = &ruleWho{x.Who.Keys, x.Who.People, x.Who.Roles}
	}
	return out
}

// Text returns the rule as an item of a list in YAML.
func (x *RuleEntry) Text() string {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	_ = out.Encode(map[string]any{"policy": []ruleText{ruleTextOf(x)}})
	// What people type is what they mean, and no reference to a secret or a variable.
	text, _ := config.ProjectText([]byte(strings.ReplaceAll(b.String(), "${", "$${")))
	_, item, _ := strings.Cut(string(text), "\n")
	var lines strings.Builder
	for line := range strings.Lines(item) {
		lines.WriteString(strings.TrimPrefix(line, "  "))
	}
	return strings.Replace(lines.String(), "-\n  ", "- ", 1)
}

// ruleTexts are the rules of a list as they are written, each with the comments above it.
type ruleTexts struct {
	items []string
	end   string // comments after the last one
}

// cutRules cuts a list into the texts of its rules. A list in brackets is written anew.
func cutRules(list string, rules policy.Rules) (t ruleTexts) {
	indent := -1
	var above strings.Builder
	for line := range strings.Lines(list) {
		text := strings.TrimLeft(line, " ")
		deep := len(line) - len(text)
		plain := strings.TrimSpace(text)
		dash := plain == "-" || strings.HasPrefix(plain, "- ")
		switch {
		case dash && (indent < 0 || deep == indent):
			indent = deep
			t.items = append(t.items, above.String()+line)
			above.Reset()
		case plain == "" || plain[0] == '#' && deep <= max(indent, 0):
			above.WriteString(line)
		case len(t.items) > 0:
			t.items[len(t.items)-1] += above.String() + line
			above.Reset()
		}
	}
	t.end = above.String()
	whole := len(t.items) == len(rules)
	for _, x := range t.items {
		n, _ := config.ListText([]byte(x))
		whole = whole && n == 1
	}
	if whole {
		return t
	}
	t = ruleTexts{}
	for i := range rules {
		x := showRule(&rules[i])
		t.items = append(t.items, x.Text())
	}
	return t
}

// String returns the list as it is written now.
func (t *ruleTexts) String() string {
	if len(t.items) == 0 {
		return "[]\n"
	}
	return strings.Join(t.items, "") + t.end
}

// comments returns the comments above a rule.
func comments(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "-") {
			break
		}
		out.WriteString(line)
	}
	return out.String()
}

// apply makes the change of a list.
func (c *RuleChange) apply(list string, rules policy.Rules) (string, *Problem) {
	t := cutRules(list, rules)
	ids := make([]string, len(rules))
	for i := range rules {
		x := showRule(&rules[i])
		ids[i] = x.ID()
	}
	at := slices.Index(ids, c.ID)
	indent := ""
	if len(t.items) > 0 {
		_, rest, _ := strings.Cut("\n"+strings.TrimPrefix(t.items[0], comments(t.items[0])), "\n")
		indent = rest[:len(rest)-len(strings.TrimLeft(rest, " "))]
	}
	switch {
	case (c.Do == RuleEdit || c.Do == RuleRemove) && at < 0:
		return "", &Problem{Type: "no-such-rule", Title: "No such rule", Status: http.StatusNotFound, Detail: "The project has no such rule any more: somebody has changed or removed it. Nothing was changed."}
	case c.Do == RuleAdd:
		place := len(t.items)
		if c.At > 0 && c.At <= place {
			place = c.At - 1
		}
		t.items = slices.Insert(t.items, place, indented(c.Rule.Text(), indent))
	case c.Do == RuleEdit && strings.Contains(strings.ReplaceAll(t.items[at], "$${", ""), "${"):
		return "", noRules("The rule has a reference to a secret or a variable, which a form would lose. Change it with `dragoman rules edit`.")
	case c.Do == RuleEdit:
		t.items[at] = comments(t.items[at]) + indented(c.Rule.Text(), indent)
	case c.Do == RuleRemove:
		t.items = slices.Delete(t.items, at, at+1)
	default:
		t.order(ids, c.Order)
	}
	return t.String(), nil
}

func indented(text, indent string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(indent + line)
	}
	return out.String()
}

// order puts the rules that order names into its order. All others keep their places.
func (t *ruleTexts) order(ids, order []string) {
	var places []int
	var moved []string
	items := slices.Clone(t.items)
	ids = slices.Clone(ids)
	for i, id := range ids {
		if slices.Contains(order, id) {
			places = append(places, i)
		}
	}
	for _, id := range order {
		if i := slices.Index(ids, id); i >= 0 {
			moved, ids[i] = append(moved, items[i]), "" // each text once, also if two rules say the same
		}
	}
	if len(moved) != len(places) {
		return
	}
	for i, at := range places {
		t.items[at] = moved[i]
	}
}

// ChangeRules changes the project's own rules for the sender of a request to the console.
func (a *ruleAPI) ChangeRules(r *http.Request, c RuleChange) (out ChangedRules, bad *Problem) {
	r = a.projects.door.through(r)
	asked := *r
	asked.Header = r.Header.Clone()
	asked.Header.Del("If-None-Match")
	if asked.Header.Del("If-Match"); c.ETag != "" {
		asked.Header.Set("If-Match", c.ETag)
	}
	if c.Do == RuleAdd || c.Do == RuleEdit {
		out.Own = c.Rule.Text()
	}
	out.KeptRules, bad = a.putRules(&asked, c.Check, func(list string, rules policy.Rules) (string, *Problem) {
		out.Before = list
		out.After, bad = c.apply(list, rules)
		return out.After, bad
	})
	return out, bad
}

// rulesAsWritten returns the project's own list of rules as text, from what it has in use.
func rulesAsWritten(s *config.Snapshot) string {
	var out strings.Builder
	for i := range s.Policy {
		x := showRule(&s.Policy[i])
		out.WriteString(x.Text())
	}
	return out.String()
}
