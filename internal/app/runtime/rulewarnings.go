package runtime

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// RuleWarning is what isn't right with a rule that is in use.
type RuleWarning struct {
	Number     int    // the rule's place in the project's list, from 1
	Text, Next string // what isn't right, and what to do about it
}

// Known are the names that rules of a project can mean.
type Known struct {
	Keys, People []string
	Foreign      bool // people may have other names, which an identity provider knows
	Secret       bool // whoever reads the warnings must not learn the names of keys and people
}

// RuleWarnings returns what isn't right with the project's own list of rules in a configuration of it, as far as it can be told now: a name that
// nobody has, a pattern that matches nothing although the lists are known, and a name that a rule gives and that
// another item has already. It sends no requests.
func (p *Project) RuleWarnings(s *config.Snapshot, known Known) (all []RuleWarning) {
	if s == nil || len(s.Policy) == 0 {
		return nil
	}
	names := p.itemNames(s)
	for i := range s.Policy {
		r := &s.Policy[i]
		add := func(text, next string) { all = append(all, RuleWarning{i + 1, text, next}) }
		known.missing(r.Keys, r.People, strings.EqualFold, add)
		for _, match := range r.Match {
			if near, nothing := names.matchNothing(match); nothing {
				add(fmt.Sprintf("%s matches nothing that there is", quoted(match)), meantOr(near, "`dragoman list tools` lists the tools"))
			}
		}
		if server, item, ok := names.renamedOver(s.Policy, r); ok {
			add(fmt.Sprintf("%s gets the name %s, which %s has too, so no client sees that one", quoted(r.Match[0]), quoted(r.As.Name), quoted(server+"/"+item)), "choose another name, or deny the other one")
		}
	}
	return all
}

// missing calls add for each name of keys and people that nobody has. means says whether a name means another.
func (k *Known) missing(keys, people []string, means func(name, has string) bool, add func(text, next string)) {
	for _, x := range []struct {
		names, known []string
		what, list   string
		sure         bool
	}{{keys, k.Keys, "API key", "keys", true}, {people, k.People, "person", "people", !k.Foreign}} {
		for _, name := range x.names {
			if !x.sure || slices.ContainsFunc(x.known, func(has string) bool { return means(name, has) }) {
				continue
			}
			near := ""
			if !k.Secret {
				near = config.Suggest(name, x.known)
			}
			add(fmt.Sprintf("no %s has the name %s", x.what, quoted(name)), meantOr(near, "`dragoman "+x.list+"` lists the names"))
		}
	}
}

// NameWarning says that another setting than a rule names what there isn't.
type NameWarning struct {
	Setting    string // such as limits.traffic[0]
	Text, Next string // as in a RuleWarning
}

// NameWarnings does for limits.traffic and tools.always what RuleWarnings does for rules: a limit for a misspelt key
// limits nobody.
func (p *Project) NameWarnings(s *config.Snapshot, known Known) (all []NameWarning) {
	if s == nil {
		return nil
	}
	for i := range s.Limits.Traffic {
		l := &s.Limits.Traffic[i]
		means := func(name, has string) bool { return pattern.Glob(strings.ToLower(name), strings.ToLower(has)) }
		known.missing(l.Keys, l.People, means, func(text, next string) {
			all = append(all, NameWarning{fmt.Sprintf("limits.traffic[%d]", i), text, next})
		})
	}
	if len(s.Tools.Always) == 0 {
		return all
	}
	names := p.itemNames(s)
	for i, match := range s.Tools.Always {
		if near, nothing := names.matchNothing(match); nothing {
			all = append(all, NameWarning{fmt.Sprintf("tools.always[%d]", i), fmt.Sprintf("%s matches nothing that there is", quoted(match)), meantOr(near, "`dragoman list tools` lists the tools")})
		}
	}
	return all
}

func meantOr(near, next string) string {
	if near != "" {
		return "did you mean " + near + "?"
	}
	return next
}

// itemNames are the names of the tools and prompts of each server, as rules write them. A server has a kind only if its
// list is known.
type itemNames map[string]map[catalog.Kind][]string

func (p *Project) itemNames(s *config.Snapshot) itemNames {
	all := itemNames{policy.ProjectPrompts: {catalog.KindTool: nil, catalog.KindPrompt: nil}}
	for i := range s.Servers {
		all[s.Servers[i].Name] = map[catalog.Kind][]string{}
	}
	for _, x := range p.prompts.stored() {
		of := all[policy.ProjectPrompts]
		of[catalog.KindPrompt] = append(of[catalog.KindPrompt], policy.Prompt(x.Name))
	}
	lists := p.Lists()
	if lists == nil {
		return all
	}
	for kind, method := range map[catalog.Kind]string{catalog.KindTool: mcp.MethodListTools, catalog.KindPrompt: mcp.MethodListPrompts} {
		for _, x := range lists.Of(method) {
			if of := all[x.Server]; of != nil && x.Server != policy.ProjectPrompts && (x.Have || len(x.Others) > 0) {
				of[kind] = []string{}
			}
		}
		for x := range lists.All(kind) {
			if of := all[x.Server]; of[kind] != nil && x.Server != policy.ProjectPrompts {
				of[kind] = append(of[kind], itemName(kind, x.Name))
			}
		}
	}
	return all
}

// matchNothing reports whether a pattern certainly matches no item of any server, and which it was perhaps meant to
// match. It says nothing of patterns that may match a resource, since servers have more of them than they list.
func (n itemNames) matchNothing(match string) (near string, nothing bool) {
	for server, of := range n {
		if !policy.MayName(match, server) {
			continue
		}
		if policy.MayNameResource(match, server) {
			return "", false
		}
		one := policy.Rules{{Match: []string{match}, Do: policy.Deny}}
		for _, kind := range []catalog.Kind{catalog.KindTool, catalog.KindPrompt} {
			names, known := of[kind]
			if !known && policy.MayBe(match, server, kind == catalog.KindPrompt) {
				return "", false
			}
			if slices.ContainsFunc(names, func(item string) bool { return !one.Allow(policy.Caller{}, server, item) }) {
				return "", false
			}
			if near == "" {
				near = nearestItem(match, server, names)
			}
		}
		nothing = true
	}
	return near, nothing
}

// nearestItem returns the pattern that was perhaps meant: one for an item of a server, or with a * at the end one for
// items that begin so.
func nearestItem(match, server string, names []string) string {
	item, ok := strings.CutPrefix(match, server+"/")
	first, rest, wild := strings.Cut(item, "*")
	if !ok || rest != "" {
		return ""
	}
	if !wild {
		if near := config.Suggest(item, names); near != "" {
			return server + "/" + near
		}
		return ""
	}
	var begins []string
	for _, name := range names {
		for n := len(first) - 1; n <= len(first)+1; n++ {
			if n > 0 && n <= len(name) {
				begins = append(begins, name[:n])
			}
		}
	}
	if near := config.Suggest(first, begins); near != "" {
		return server + "/" + near + "*"
	}
	return ""
}

// renamedOver returns the item of a server that has the name which a rule gives to another one, unless nobody may use
// it, or it gets another name as well.
func (n itemNames) renamedOver(rules policy.Rules, r *policy.Rule) (server, item string, ok bool) {
	if r.As == nil || r.As.Name == "" {
		return "", "", false
	}
	server, from, _ := strings.Cut(r.Match[0], "/")
	kind, name := policy.Item(from)
	item = policy.Tool(r.As.Name)
	of := catalog.KindTool
	if kind == "prompt" {
		item, of = policy.Prompt(r.As.Name), catalog.KindPrompt
	}
	if r.As.Name == name || !slices.Contains(n[server][of], item) || !rules.Allow(policy.Caller{}, server, item) {
		return "", "", false
	}
	as := rules.As(server, item)
	return server, item, as == nil || as.Name == ""
}
