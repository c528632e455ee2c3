package admin

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// RuleEffect is what other rules would change. What decides about calls has computed it, for the lists that are known.
type RuleEffect struct {
	Changes []RuleOutcome `json:"changes" doc:"what would become of items, one entry for each kind of change"`
	Emptied bool          `json:"emptied" doc:"true: callers without a name or another role would see nothing any more, although they see something now"`
	Partial bool          `json:"partial,omitempty" doc:"true: there was too much to compare, so there may be more"`
}

// RuleOutcome is one kind of change.
type RuleOutcome struct {
	Becomes   string         `json:"becomes" enum:"hidden,shown,asked,unasked,described" doc:"hidden and shown: whether the item is there; asked and unasked: whether a person confirms each use; described: clients see it with another name, title, description or annotations"`
	Items     int            `json:"items" doc:"number of items"`
	Tools     int            `json:"tools" doc:"how many of them are tools"`
	Tokens    int            `json:"tokens" doc:"the estimated tokens of these tools in a model's context"`
	Everybody bool           `json:"everybody" doc:"true: for whoever may use the project, the keys and people included"`
	Keys      int            `json:"keys" doc:"for how many of the project's API keys"`
	People    int            `json:"people" doc:"for how many people of the project"`
	Roles     []string       `json:"roles,omitempty" doc:"for which roles, each of them beside caller and without a name"`
	Names     []RuleAffected `json:"names,omitempty" doc:"the first of these keys and people; only for admins"`
	Some      []string       `json:"some" doc:"the first of the items, as rules write them"`
}

// RuleAffected is somebody for whom something changes.
type RuleAffected struct {
	Kind string `json:"kind" enum:"key,person" doc:"what Name is"`
	Name string `json:"name" doc:"the name"`
	ID   string `json:"id" doc:"the id"`
}

const (
	mostOutcomes = 100       // how many names and items of each outcome an answer has
	mostCompared = 3_000_000 // how many questions what decides gets for one answer
)

// outcomes are what can become of an item, in the order in which an answer has them.
var outcomes = []string{"hidden", "shown", "asked", "unasked", "described"}

// outcomeOf returns what becomes of an item of which rules say before and after what they do, as an index of outcomes,
// or -1 if nothing does.
func outcomeOf(before, after policy.Do) int {
	switch {
	case before == after:
		return -1
	case after == policy.Deny:
		return 0
	case before == policy.Deny:
		return 1
	case after == policy.Confirm:
		return 2
	}
	return 3
}

// ruleTrial computes a RuleEffect.
type ruleTrial struct {
	*runtime.RuleTrial
	all     []triedItem // what somebody may see by all but the rules
	touched []int       // those of them that the change may concern
	classes map[string]*triedClass
	items   [][]bool // by outcome: which of touched
	of      []RuleOutcome
	spared  [5]bool // by outcome: the rules don't do it to somebody
	left    int     // how many more questions we ask
	names   bool
}

type triedItem struct {
	*catalog.Item
	kind catalog.Kind
}

// triedClass is what changes for all who get the same answers from the rules.
type triedClass struct {
	changed [][]int // by outcome: places in touched
	marked  bool    // the items of all changes are marked
}

// effect returns what next would change as the project's own rules.
func (a *ruleAPI) effect(ctx context.Context, who *identity.Principal, next policy.Rules) (*RuleEffect, *Problem) {
	t := &ruleTrial{RuleTrial: a.project.TryRules(next), classes: map[string]*triedClass{}, left: mostCompared, names: a.knowsAll(who)}
	out := &RuleEffect{Changes: []RuleOutcome{}}
	lists := a.project.Lists()
	if t.RuleTrial == nil || lists == nil {
		return out, nil
	}
	for _, kind := range []catalog.Kind{catalog.KindTool, catalog.KindPrompt, catalog.KindResource, catalog.KindTemplate} {
		for x := range lists.All(kind) {
			if x.Name == "" || leftOut(x) != "" {
				continue
			}
			if t.all = append(t.all, triedItem{x, kind}); t.Concerns(kind, x.Server, x.Name) {
				t.touched = append(t.touched, len(t.all)-1)
			}
		}
	}
	for _, x := range outcomes {
		t.of, t.items = append(t.of, RuleOutcome{Becomes: x, Some: []string{}}), append(t.items, make([]bool, len(t.touched)))
	}
	for i, at := range t.touched {
		x := t.all[at]
		t.items[4][i] = t.Renames(x.kind, x.Server, x.Name)
	}
	askers, bad := a.askers(ctx)
	if bad != nil {
		return nil, bad
	}
	for i := range askers {
		t.ask(&askers[i])
	}
	for i := range t.of {
		if t.count(i); t.of[i].Items > 0 {
			t.of[i].Everybody = t.of[i].Becomes == "described" || !t.spared[i]
			out.Changes = append(out.Changes, t.of[i])
		}
	}
	caller := policy.Caller{Roles: []identity.Role{identity.Caller}}
	before, after := t.Both(caller)
	out.Emptied = len(t.touched) > 0 && t.any(before) && !t.any(after)
	out.Partial = t.left <= 0
	return out, nil
}

// any reports whether rules leave anything of what there is.
func (t *ruleTrial) any(says runtime.Says) bool {
	return slices.ContainsFunc(t.all, func(x triedItem) bool { return says(x.kind, x.Server, x.Name) != policy.Deny })
}

// ask adds what changes for somebody.
func (t *ruleTrial) ask(x *asking) {
	who := x.asker()
	if !who.In {
		return
	}
	name := t.Class(who.Caller)
	if name == "" {
		t.spared = [5]bool{true, true, true, true, true}
		return
	}
	c := t.classes[name]
	if c == nil {
		c = t.compare(who.Caller)
		t.classes[name] = c
	}
	for i, places := range c.changed {
		mine := false
		t.spared[i] = t.spared[i] || len(places) == 0
		for _, at := range places {
			if c.marked && mine {
				break
			}
			item := t.all[t.touched[at]]
			if who.Show != nil {
				if t.left--; t.left < 0 || !who.Show.Shows(item.kind, item.Server, item.Name) {
					continue
				}
			}
			mine, t.items[i][at] = true, true
		}
		if mine {
			t.of[i].add(x, t.names)
		}
	}
	c.marked = c.marked || who.Show == nil
}

// compare asks the rules before and after about everything that may change for somebody.
func (t *ruleTrial) compare(who policy.Caller) *triedClass {
	c := &triedClass{changed: make([][]int, len(outcomes))}
	before, after := t.Both(who)
	for i, at := range t.touched {
		if t.left -= 2; t.left < 0 {
			break
		}
		x := t.all[at]
		if o := outcomeOf(before(x.kind, x.Server, x.Name), after(x.kind, x.Server, x.Name)); o >= 0 {
			c.changed[o] = append(c.changed[o], i)
		}
	}
	return c
}

// add counts somebody for whom there is such a change.
func (x *RuleOutcome) add(who *asking, names bool) {
	switch who.kind {
	case "role":
		x.Roles = append(x.Roles, who.role.String())
		return
	case "key":
		x.Keys++
	case "person":
		x.People++
	default:
		return
	}
	if names && len(x.Names) < mostOutcomes {
		x.Names = append(x.Names, RuleAffected{who.kind, who.name, who.id})
	}
}

// count counts the items of an outcome.
func (t *ruleTrial) count(outcome int) {
	x := &t.of[outcome]
	for i, is := range t.items[outcome] {
		if !is {
			continue
		}
		item := t.all[t.touched[i]]
		if x.Items++; item.kind == catalog.KindTool {
			x.Tools++
			x.Tokens += item.Tokens
		}
		if len(x.Some) < mostOutcomes {
			x.Some = append(x.Some, item.Server+"/"+ruleName(item.kind, item.Name))
		}
	}
}

// outcomeVerbs say what rules do. What stands before the names of those for whom they do it is in outcomeFor.
var (
	outcomeVerbs = map[string]string{"hidden": "hides ", "shown": "shows ", "asked": "asks before each use of ", "unasked": "no longer asks before the use of ", "described": "changes how clients see "}
	outcomeFor   = map[string]string{"hidden": " from ", "shown": " to ", "asked": ", by ", "unasked": ", by "}
)

// Sentence says what changes, such as "hides 14 tools from 3 keys, saves 5,200 tokens".
func (x *RuleOutcome) Sentence() string {
	var what []string
	if x.Tools > 0 {
		what = append(what, countOf(x.Tools, "tool", "tools"))
	}
	if others := x.Items - x.Tools; others > 0 {
		what = append(what, countOf(others, "prompt or resource", "prompts and resources"))
	}
	out := outcomeVerbs[x.Becomes] + strings.Join(what, " and ")
	if x.Becomes != "described" {
		out += outcomeFor[x.Becomes] + x.Whom()
	}
	if saves := map[string]string{"hidden": "saves", "shown": "costs"}[x.Becomes]; saves != "" && x.Tools > 0 {
		out += ", " + saves + " " + countOf(x.Tokens, "token", "tokens")
	}
	return out
}

// Named returns how many keys and people there are.
func (x *RuleOutcome) Named() int { return x.Keys + x.People }

// Whom says for whom something changes.
func (x *RuleOutcome) Whom() string {
	var who []string
	if x.Keys > 0 {
		who = append(who, countOf(x.Keys, "key", "keys"))
	}
	if x.People > 0 {
		who = append(who, countOf(x.People, "person", "people"))
	}
	named := strings.Join(who, " and ")
	switch {
	case x.Everybody && named != "":
		return "everybody, " + named + " among them"
	case x.Everybody:
		return "everybody"
	case named == "" && len(x.Roles) > 0:
		return "whoever has the role " + strings.Join(x.Roles, " or ")
	case named == "":
		return "programs on this machine without a key"
	}
	return named
}

// countOf writes a number with commas, and what it counts.
func countOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text + " " + many
}
