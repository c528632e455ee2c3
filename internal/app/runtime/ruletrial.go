package runtime

import (
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// RuleTrial compares the rules that a project has with others that it might have. It asks both as lists and calls ask
// those in use, so what it says is what would happen. It's for one goroutine.
type RuleTrial struct {
	before, after *rules
	// differ are the rules that only one of the two lists has, or that stand elsewhere. What none of them matches stays
	// as it is, and so does everything for whom none of them is.
	differ policy.Rules
	who    policy.Rules // all rules of both lists that aren't for everybody
}

// TryRules compares the project's own rules with next. It returns nil if the project has no configuration.
func (p *Project) TryRules(next policy.Rules) *RuleTrial {
	s := p.Current()
	if s == nil {
		return nil
	}
	then := *s
	then.Policy = next
	t := &RuleTrial{before: rulesOf(p.name, s, nil), after: rulesOf(p.name, &then, nil)}
	a, b := s.Policy, next
	for len(a) > 0 && len(b) > 0 && a[0].Equal(&b[0]) {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1].Equal(&b[len(b)-1]) {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	t.differ = slices.Concat(a, b)
	for _, x := range slices.Concat(s.Policy, next, s.House) {
		if !x.Everybody() {
			t.who = append(t.who, x)
		}
	}
	return t
}

// Concerns reports whether anything may change for an item.
func (t *RuleTrial) Concerns(kind catalog.Kind, server, name string) bool {
	return t.differ.Match(server, itemName(kind, name))
}

// Class returns a text that is the same for all who get the same answers before and after. It returns "" for whom
// nothing changes.
func (t *RuleTrial) Class(who policy.Caller) string {
	if !slices.ContainsFunc(t.differ, func(x policy.Rule) bool { return x.As == nil && x.For(who) }) {
		return ""
	}
	var class strings.Builder
	class.WriteByte('.')
	for i := range t.who {
		if t.who[i].For(who) {
			class.WriteByte('1')
		} else {
			class.WriteByte('0')
		}
	}
	return class.String()
}

// Says is what the rules say of the use of an item.
type Says func(kind catalog.Kind, server, name string) policy.Do

// Both returns what the rules say to somebody before and after.
func (t *RuleTrial) Both(who policy.Caller) (before, after Says) {
	says := func(r *rules) Says {
		x := newRuling(r, who)
		return func(kind catalog.Kind, server, name string) policy.Do { return x.say(kind, server, name).Do }
	}
	return says(t.before), says(t.after)
}

// Renames reports whether clients see an item in another way afterwards.
func (t *RuleTrial) Renames(kind catalog.Kind, server, name string) bool {
	item := itemName(kind, name)
	before, after := t.before.as[server].As(server, item), t.after.as[server].As(server, item)
	return !before.Equal(after)
}
