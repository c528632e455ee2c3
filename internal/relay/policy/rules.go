package policy

import (
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
)

// Rules say which items of servers somebody may use. Of all rules that match an item and who asks, the
// first decides; what none matches is allowed. They must not be changed after their first use.
type Rules []Rule

// Rule says what becomes of the use of some items.
type Rule struct {
	// Match are patterns in which a * matches any text, slashes included. An item is written SERVER/TOOL,
	// SERVER/prompt:NAME or SERVER/resource:URI, with the server's own name or URI; see [Tool], [Prompt] and
	// [Resource].
	Match []string
	// Keys, People and Roles say for whom the rule is; one that fits is enough. If all are empty, it's for
	// everybody.
	Keys, People []string
	Roles        []identity.Role
	Do           Do
	// As, if set, says how clients see the items. Such a rule is for everybody and decides nothing else, so Do doesn't
	// count.
	As *As
	// Of is the project whose list has the rule, and Number its place there, from 1. [Rules.Concern] sets them.
	Of     string
	Number int
}

// As says how clients see an item. What is "" or nil stays as the server has it.
type As struct {
	Name               string // of one tool or prompt
	Title, Description string
	Hints              []Hint // of tools
}

// Hint is an annotation of a tool, such as readOnlyHint.
type Hint struct {
	Name string
	Is   bool
}

// As returns how clients see an item of a server: as the first rule says that matches the item and has As. It
// returns nil if there is none.
func (r Rules) As(server, item string) *As {
	for i := range r {
		if r[i].As != nil && r[i].matches(server+"/"+item) != "" {
			return r[i].As
		}
	}
	return nil
}

// Do is what a rule says about the use of an item. The zero value is Allow.
type Do uint8

// What a rule can say. Confirm allows an item after the person has agreed to each use of it. So the item is
// there, as with Allow.
const (
	Allow Do = iota
	Deny
	Confirm
)

// Dos returns what a configuration writes for each Do, in their order.
func Dos() []string { return []string{"allow", "deny", "confirm"} }

// String returns what a configuration writes.
func (d Do) String() string { return Dos()[d] }

// Caller is what rules know of who asks. The zero value has no name and no role, so only the rules for
// everybody are for it.
type Caller struct {
	Key    string // the name of the API key; "" for none
	Person string // the name of the person, also if a key acts for them; "" for none
	Roles  []identity.Role
}

// ProjectPrompts is how rules write the server of the prompts that are a project's own. No server can have
// this name, since it has a colon.
const ProjectPrompts = "project:prompts"

// Tool returns how rules write the tool with a name. A tool with a name like prompt:x would read like the
// prompt x, and get what is allowed to prompts, so it's written tool:prompt:x.
func Tool(name string) string {
	for _, kind := range []string{"tool:", "prompt:", "resource:"} {
		if strings.HasPrefix(name, kind) {
			return "tool:" + name
		}
	}
	return name
}

// Prompt returns how rules write the prompt with a name.
func Prompt(name string) string { return "prompt:" + name }

// Resource returns how rules write the resource with a URI, or the template with a URI template.
func Resource(uri string) string { return "resource:" + uri }

// Item returns what kind of item rules write so, "tool", "prompt" or "resource", and its name.
func Item(item string) (kind, name string) {
	for _, kind := range []string{"tool", "prompt", "resource"} {
		if name, ok := strings.CutPrefix(item, kind+":"); ok {
			return kind, name
		}
	}
	return "tool", item
}

// Allow reports whether who may use an item of a server. It takes no lock and doesn't block.
func (r Rules) Allow(who Caller, server, item string) bool {
	return r.Say(who, server, item).Do != Deny
}

// Said is what rules say of the use of an item, and which rule says so.
type Said struct {
	Do   Do
	Rule *Rule // nil if no rule matches
	// Match is the pattern of it that matches, which is what people know the rule by.
	Match string
}

// Say returns what becomes of the use of an item of a server by who. It takes no lock and doesn't block.
func (r Rules) Say(who Caller, server, item string) Said {
	name := server + "/" + item
	for i := range r {
		if by := r[i].matches(name); by != "" && r[i].As == nil && r[i].For(who) {
			return Said{r[i].Do, &r[i], by}
		}
	}
	return Said{}
}

// AllowServer reports whether who may know of a server, because there may be an item of it that who may
// use. Only a rule that denies all items of the server hides it.
func (r Rules) AllowServer(who Caller, server string) bool {
	for i := range r {
		x := &r[i]
		switch {
		case x.As != nil, !x.For(who):
		case x.Do != Deny && x.MayMatch(server):
			return true
		case x.Do == Deny && slices.ContainsFunc(x.Match, func(p string) bool { return matchesAll(p, server) }):
			return false
		}
	}
	return true
}

// Concern returns the rules that may decide about a server's items, and those that say how clients see them. The list is
// that of the project of.
func (r Rules) Concern(server, of string) (decide, as Rules) {
	for i := range r {
		x := r[i]
		x.Of, x.Number = of, i+1
		switch {
		case !x.MayMatch(server):
		case x.As != nil:
			as = append(as, x)
		default:
			decide = append(decide, x)
		}
	}
	return decide, as
}

// MayMatch reports whether the rule may match an item of a server.
func (r *Rule) MayMatch(server string) bool {
	return slices.ContainsFunc(r.Match, func(p string) bool { return MayName(p, server) })
}

// Match reports whether any of the rules matches an item of a server.
func (r Rules) Match(server, item string) bool {
	return slices.ContainsFunc(r, func(x Rule) bool { return x.matches(server+"/"+item) != "" })
}

// Equal reports whether two rules say the same, wherever they stand.
func (r *Rule) Equal(q *Rule) bool {
	return slices.Equal(r.Match, q.Match) && slices.Equal(r.Keys, q.Keys) && slices.Equal(r.People, q.People) && slices.Equal(r.Roles, q.Roles) && r.Do == q.Do && r.As.Equal(q.As)
}

// Equal reports whether clients see an item in the same way. nil is as the server has it.
func (a *As) Equal(b *As) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Name == b.Name && a.Title == b.Title && a.Description == b.Description && slices.Equal(a.Hints, b.Hints)
}

// Everybody reports whether the rule is for everybody.
func (r *Rule) Everybody() bool { return len(r.Keys)+len(r.People)+len(r.Roles) == 0 }

// matches returns the first pattern that matches the name of an item, or "".
func (r *Rule) matches(name string) string {
	for _, p := range r.Match {
		if pattern.Glob(p, name) {
			return p
		}
	}
	return ""
}

// For reports whether the rule is for who.
func (r *Rule) For(who Caller) bool {
	return r.Everybody() || isOneOf(r.Keys, who.Key) || isOneOf(r.People, who.Person) || slices.ContainsFunc(r.Roles, func(least identity.Role) bool {
		return slices.ContainsFunc(who.Roles, func(has identity.Role) bool { return has.Includes(least) })
	})
}

// isOneOf compares names as the store does: case doesn't count.
func isOneOf(names []string, name string) bool {
	return name != "" && slices.ContainsFunc(names, func(x string) bool { return strings.EqualFold(x, name) })
}

// MayName reports whether a pattern may match an item of a server.
func MayName(p, server string) bool { return mayBegin(p, server+"/") }

// MayNameResource reports whether a pattern may match a resource of a server.
func MayNameResource(p, server string) bool { return mayBegin(p, server+"/"+Resource("")) }

// MayBe reports whether a pattern may match a prompt of a server, or else a tool. A tool's name can begin with anything but
// the prefixes of the other kinds, see [Tool].
func MayBe(p, server string, prompt bool) bool {
	if prompt {
		return mayBegin(p, server+"/"+Prompt(""))
	}
	item, exact := strings.CutPrefix(p, server+"/")
	return !exact || !strings.HasPrefix(item, Prompt("")) && !strings.HasPrefix(item, Resource(""))
}

// mayBegin reports whether a pattern may match a text with a beginning: a part of the pattern matches that.
func mayBegin(p, begin string) bool {
	last := begin[len(begin)-1]
	for i := range len(p) {
		if (p[i] == '*' || p[i] == last) && pattern.Glob(p[:i+1], begin) {
			return true
		}
	}
	return false
}

// matchesAll reports whether a pattern matches every item of a server: it ends with a *, and matches even
// without what this stands for.
func matchesAll(p, server string) bool {
	return strings.HasSuffix(p, "*") && pattern.Glob(p, server+"/")
}
