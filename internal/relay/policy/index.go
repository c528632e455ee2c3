package policy

import (
	"math"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
)

// Index is the rules about one server. For an item it looks only at the patterns that begin as the item is written,
// and so says in the same time what 5 rules say and what 500 do. It can be used by many at the same time.
type Index struct {
	rules  Rules
	server string
	// begin has the patterns by what they have before their first *, and lengths how long these beginnings are, in
	// ascending order.
	begin   map[string][]indexed
	lengths []int
}

// indexed is a pattern of a rule. place counts the patterns of all rules.
type indexed struct {
	place, rule int
	pattern     string
}

// NewIndex returns the rules about a server, as [Rules.Concern] has them.
func NewIndex(server string, r Rules) *Index {
	x := &Index{rules: r, server: server, begin: make(map[string][]indexed)}
	place := 0
	for i := range r {
		for _, p := range r[i].Match {
			begin, _, _ := strings.Cut(p, "*")
			x.begin[begin] = append(x.begin[begin], indexed{place, i, p})
			x.lengths = append(x.lengths, len(begin))
			place++
		}
	}
	slices.Sort(x.lengths)
	x.lengths = slices.Compact(x.lengths)
	return x
}

// Named reports whether any of the rules is not for everybody.
func (x *Index) Named() bool {
	return slices.ContainsFunc(x.rules, func(r Rule) bool { return !r.Everybody() })
}

// Confirms reports whether any of the rules wants a confirmation.
func (x *Index) Confirms() bool {
	return slices.ContainsFunc(x.rules, func(r Rule) bool { return r.Do == Confirm })
}

// View is what the rules about one server say to one caller.
type View struct {
	x *Index
	// mine says which rules are for the caller; nil means all of them.
	mine   []bool
	hidden bool
}

// For returns what the rules say to who.
func (x *Index) For(who Caller) View {
	v := View{x: x, hidden: !x.rules.AllowServer(who, x.server)}
	if x.Named() {
		v.mine = make([]bool, len(x.rules))
		for i := range x.rules {
			v.mine[i] = x.rules[i].For(who)
		}
	}
	return v
}

// ForAny returns what the rules say to somebody for whom all are that allow something, and of those that deny something
// only the ones for everybody. What they deny to this caller, they deny to all.
func (x *Index) ForAny() View {
	v := View{x: x, mine: make([]bool, len(x.rules))}
	for i := range x.rules {
		v.mine[i] = x.rules[i].Everybody() || x.rules[i].Do != Deny
	}
	return v
}

// AllowServer is [Rules.AllowServer] for the caller and the server.
func (v View) AllowServer() bool { return !v.hidden }

// Say is [Rules.Say] for the caller and the server.
func (v View) Say(item string) (said Said) {
	name, first := v.x.server+"/"+item, math.MaxInt
	for _, n := range v.x.lengths {
		if n > len(name) {
			break
		}
		for _, p := range v.x.begin[name[:n]] {
			if p.place > first {
				break
			}
			if (v.mine == nil || v.mine[p.rule]) && pattern.Glob(p.pattern, name) {
				r := &v.x.rules[p.rule]
				said, first = Said{r.Do, r, p.pattern}, p.place
				break
			}
		}
	}
	return said
}
