package admin

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// decide returns what decides about an item for somebody.
func (a *ruleAPI) decide(places rulePlaces, who runtime.Asker, kind catalog.Kind, item ruledItem) RuleDecision {
	d := a.project.Decide(who, kind, item.server, item.name)
	out := RuleDecision{Do: d.Do.String(), By: string(d.By), Match: d.Match}
	switch d.By {
	case runtime.ByRule:
		place := places.rule(d.Of, d.Rule.Number)
		out.Place, out.Why = &place, "rule "+strconv.Itoa(d.Rule.Number)
		if d.Of != a.project.name() {
			out.Why += " of " + d.Of
		}
		out.Why += ", " + d.Match
	case runtime.ByExpose:
		place := places.of(d.Of, d.Path)
		out.Place, out.Why = &place, place.Path
	case runtime.ByCredential:
		out.Why = "what the key is for"
		if !who.In {
			out.Why = "may call nothing"
		}
	default:
		out.Why = "no rule"
	}
	if out.Do != policy.Deny.String() && item.hidden != "" {
		out = RuleDecision{Do: policy.Deny.String(), By: "list", Why: item.hidden}
	}
	return out
}

// ruledItem is an item of a server, and why no client sees it, if the server's list says so.
type ruledItem struct{ server, name, hidden string }

// asking is somebody about whom the rules can be asked.
type asking struct {
	kind, name, id string        // as in RuleUse
	role           identity.Role // of whoever has only a role
	asker          func() runtime.Asker
}

// bareRoles are the roles about which the rules are asked without a name.
var bareRoles = []identity.Role{identity.Caller, identity.Viewer, identity.Operator, identity.Admin}

// askers returns all about whom the rules can be asked: the keys and the people of the project, those who have only a
// role, and whoever needs no key. What somebody may do is computed only when it's asked for: there may be thousands.
func (a *ruleAPI) askers(ctx context.Context) (all []asking, bad *Problem) {
	keys, err := a.signedKeys(ctx)
	if err != nil {
		return nil, a.problem(err)
	}
	for _, k := range a.keysHere() {
		if who := keys.Principal(k.ID); who != nil {
			all = append(all, asking{kind: "key", name: k.Name, id: k.ID, asker: func() runtime.Asker { return a.withKey(&k, who) }})
		}
	}
	for _, p := range a.roster.People().All() {
		if len(p.Roles[a.project.name()]) > 0 {
			all = append(all, asking{kind: "person", name: p.Name, id: p.ID, asker: func() runtime.Asker { return a.asker(&p) }})
		}
	}
	return append(all, a.bareAskers()...), nil
}

// bareAskers returns those of askers who have no name.
func (a *ruleAPI) bareAskers() (all []asking) {
	for _, role := range bareRoles {
		name := role.String()
		if role != identity.Caller { // which alone doesn't open the endpoints
			name = identity.Caller.String() + " and " + name
		}
		all = append(all, asking{kind: "role", name: name, role: role, asker: func() runtime.Asker {
			return runtime.Asker{Caller: policy.Caller{Roles: []identity.Role{identity.Caller, role}}, In: true}
		}})
	}
	if a.open {
		all = append(all, asking{kind: "local", name: "local", asker: func() runtime.Asker { return a.project.Asker(identity.Local) }})
	}
	return all
}

// readRulesWho answers GET /rules/who.
func (a *ruleAPI) readRulesWho(r *http.Request) (out RuleUses, bad *Problem) {
	if bad := a.closed(); bad != nil {
		return out, bad
	}
	text := r.URL.Query().Get("item")
	server, rest, ok := strings.Cut(text, "/")
	if !ok || rest == "" || server == "" {
		why := excerpt.Quote(text, maxName) + " names nothing of a server. Write SERVER/TOOL, SERVER/prompt:NAME or SERVER/resource:URI."
		if near := a.offered(text); near != "" {
			why += " Did you mean " + excerpt.Line(near, maxName) + "?"
		}
		return out, badParameter("item", why)
	}
	if server != policy.ProjectPrompts {
		if bad := a.project.noServer(server); bad != nil {
			return out, bad
		}
	}
	kind, item := catalog.KindTool, ruledItem{server: server}
	out.Item = text
	switch what, name := policy.Item(rest); what {
	case "prompt":
		kind, item.name = catalog.KindPrompt, name
	case "resource":
		kind, item.name = catalog.KindResource, name
	default:
		item.name = name
		out.Item = server + "/" + policy.Tool(name)
	}
	a.project.refresh(r.Context(), server, map[catalog.Kind]string{catalog.KindTool: mcp.MethodListTools, catalog.KindPrompt: mcp.MethodListPrompts, catalog.KindResource: mcp.MethodListResources}[kind])
	if out.Note, item.hidden = a.listed(kind, &item); strings.Contains(item.name, "*") && !a.has(kind, &item) {
		return out, badParameter("item", excerpt.Quote(text, maxName)+" is a pattern. Write the name of one item; `dragoman rules for NAME` lists all that somebody may use.")
	}
	askers, bad := a.askers(r.Context())
	if bad != nil {
		return out, bad
	}
	out.Who = a.uses(askers, kind, item)
	return out, nil
}

// uses says which of some people may use an item.
func (a *ruleAPI) uses(askers []asking, kind catalog.Kind, item ruledItem) (out []RuleUse) {
	places := a.places()
	for _, x := range askers {
		out = append(out, RuleUse{x.kind, x.name, x.id, a.decide(places, x.asker(), kind, item)})
	}
	return out
}

// ToolUses says who may use a tool. It sends no requests.
type ToolUses struct {
	Item  string    // the tool, as rules write it
	Bare  []RuleUse // those who have only a role, and whoever needs no key
	Named []RuleUse // a page of the keys and people; none if who asks may not know them
	Total int       // number of keys and people that fit, on all pages
	All   int       // number of all of them
	Knows bool      // whether who asks may know them
}

// UsesFor returns for who which keys and people whose names have a text may use a tool of a server. It returns at most
// limit of them, without the first from.
func (a *ruleAPI) UsesFor(ctx context.Context, who *identity.Principal, server, tool, text string, from, limit int) (out ToolUses, bad *Problem) {
	if bad := a.closed(); bad != nil {
		return out, bad
	}
	item := ruledItem{server: server, name: tool}
	_, item.hidden = a.listed(catalog.KindTool, &item)
	out.Item, out.Knows = server+"/"+policy.Tool(tool), a.knowsAll(who)
	out.Bare = a.uses(a.bareAskers(), catalog.KindTool, item)
	if !out.Knows {
		return out, nil
	}
	askers, bad := a.askers(ctx)
	if bad != nil {
		return out, bad
	}
	var fit []asking
	for _, x := range askers {
		if x.id == "" {
			continue
		}
		if out.All++; strings.Contains(strings.ToLower(x.name), strings.ToLower(text)) {
			fit = append(fit, x)
		}
	}
	out.Total, from = len(fit), max(0, min(from, len(fit)))
	out.Named = a.uses(fit[from:min(from+limit, len(fit))], catalog.KindTool, item)
	return out, nil
}

// signedKeys returns the keys whose signatures are right. It checks these only if what is stored has changed.
func (a *ruleAPI) signedKeys(ctx context.Context) (*access.Keys, error) {
	if keys := a.signed.Load(); keys != nil && a.desk.Has(keys) {
		return keys, nil
	}
	keys, err := a.desk.Keys(ctx)
	if err == nil {
		a.signed.Store(keys)
	}
	return keys, err
}

// keysHere returns the project's keys, sorted by name.
func (a *ruleAPI) keysHere() []store.Key {
	all := slices.DeleteFunc(a.safe.Store().Snapshot().Keys(), func(k store.Key) bool { return k.Project != a.project.name() })
	slices.SortStableFunc(all, func(x, y store.Key) int { return strings.Compare(strings.ToLower(x.Name), strings.ToLower(y.Name)) })
	return all
}

// withKey returns how the project knows whoever comes with a key. If it has expired, nobody does.
func (a *ruleAPI) withKey(k *store.Key, who *identity.Principal) runtime.Asker {
	x := a.project.Asker(who)
	x.In = x.In && (k.Until.IsZero() || time.Now().Before(k.Until))
	return x
}

// asker returns how the project knows a person whose clients come with all that the person may do.
func (a *ruleAPI) asker(p *store.Person) runtime.Asker {
	c := a.roster.People().Caller(p, a.project.name())
	return runtime.Asker{Caller: c, In: slices.Contains(c.Roles, identity.Caller)}
}

// listed returns a sentence if a server lists no such tool or prompt, and why no client sees it if that's so.
func (a *ruleAPI) listed(kind catalog.Kind, item *ruledItem) (note, hidden string) {
	lists := a.project.Lists()
	if lists == nil {
		return "", ""
	}
	var names []string
	for x := range lists.All(kind) {
		if x.Server != item.server {
			continue
		}
		if x.Name == item.name {
			return "", leftOut(x)
		}
		names = append(names, x.Name)
	}
	own := item.server == policy.ProjectPrompts
	if kind == catalog.KindResource && !own || len(names) == 0 && !own { // a server may have resources that it doesn't list
		return "", ""
	}
	if note = "The server lists no such item."; own {
		note = "The project has no such prompt."
	}
	if near := config.Suggest(item.name, names); near != "" {
		note += " Did you mean " + excerpt.Quote(near, maxName) + "?"
	}
	return note, ""
}

// has reports whether a server lists an item, or a template if it's a resource.
func (a *ruleAPI) has(kind catalog.Kind, item *ruledItem) bool {
	return a.listedItem(func(of catalog.Kind, x *catalog.Item) bool {
		return (of == kind || of == catalog.KindTemplate && kind == catalog.KindResource) && x.Server == item.server && x.Name == item.name
	}) != ""
}

// offered returns how rules write the item that clients see under a name at the endpoint of all servers, or "".
func (a *ruleAPI) offered(name string) string {
	return a.listedItem(func(_ catalog.Kind, x *catalog.Item) bool { return x.Offered == name })
}

// listedItem returns how rules write the first item of all lists that is meant, or "".
func (a *ruleAPI) listedItem(meant func(catalog.Kind, *catalog.Item) bool) string {
	lists := a.project.Lists()
	if lists == nil {
		return ""
	}
	for _, kind := range []catalog.Kind{catalog.KindTool, catalog.KindPrompt, catalog.KindResource, catalog.KindTemplate} {
		for x := range lists.All(kind) {
			if meant(kind, x) {
				return x.Server + "/" + ruleName(kind, x.Name)
			}
		}
	}
	return ""
}

// ruleName returns how rules write an item after its server.
func ruleName(kind catalog.Kind, name string) string {
	switch kind {
	case catalog.KindTool:
		return policy.Tool(name)
	case catalog.KindPrompt:
		return policy.Prompt(name)
	}
	return policy.Resource(name)
}

// leftOut returns why no client sees an item, or "".
func leftOut(x *catalog.Item) string {
	if x.Everywhere {
		return x.Hidden
	}
	return ""
}

// readRulesFor answers GET /rules/for.
func (a *ruleAPI) readRulesFor(r *http.Request) (out RuleView, bad *Problem) {
	if bad := a.closed(); bad != nil {
		return out, bad
	}
	who, bad := a.find(r.Context(), "", r.URL.Query().Get("name"), &out)
	if bad == nil {
		a.readLists(r.Context())
		a.view(who, &out)
	}
	return out, bad
}

// ViewFor returns what a key or a person may use, for who, who must be allowed to know that. kind is "key", "person" or "" for
// both, and name a name or an id. It sends no requests.
func (a *ruleAPI) ViewFor(ctx context.Context, who *identity.Principal, kind, name string) (out RuleView, bad *Problem) {
	if bad := a.closed(); bad != nil {
		return out, bad
	}
	if !a.knowsAll(who) {
		return out, &Problem{Type: kindRole, Title: "This needs the role admin", Status: http.StatusForbidden, Detail: "Only admins of the project see what others may use. Ask one."}
	}
	asker, bad := a.find(ctx, kind, name, &out)
	if bad == nil {
		a.view(asker, &out)
	}
	return out, bad
}

// view adds all that somebody may use, and what they may not.
func (a *ruleAPI) view(who runtime.Asker, out *RuleView) {
	out.Items, out.Unread = []RuleItem{}, []string{}
	lists := a.project.Lists()
	if lists == nil {
		return
	}
	for _, x := range lists.Of(mcp.MethodListTools) {
		if !x.Have && len(x.Others) == 0 && x.Server != policy.ProjectPrompts {
			out.Unread = append(out.Unread, x.Server)
		}
	}
	places := a.places()
	for _, kind := range []catalog.Kind{catalog.KindTool, catalog.KindPrompt, catalog.KindResource, catalog.KindTemplate} {
		for x := range lists.All(kind) {
			out.Items = append(out.Items, RuleItem{x.Server, ruleName(kind, x.Name), x.Offered, a.decide(places, who, kind, ruledItem{x.Server, x.Name, leftOut(x)})})
		}
	}
	slices.SortStableFunc(out.Items, func(x, y RuleItem) int {
		return cmp.Or(strings.Compare(x.Server, y.Server), strings.Compare(x.Item, y.Item))
	})
}

// readLists reads those lists of all servers that aren't fresh. It waits only briefly for them.
func (a *ruleAPI) readLists(ctx context.Context) {
	s := a.project.Current()
	if s == nil {
		return
	}
	var reading sync.WaitGroup
	for i := range s.Servers {
		for _, method := range []string{mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates} {
			reading.Go(func() { a.project.refresh(ctx, s.Servers[i].Name, method) })
		}
	}
	reading.Wait()
}

// find finds the key or the person with a name or an id. kind says which of both is meant; "" is any.
func (a *ruleAPI) find(ctx context.Context, kind, name string, out *RuleView) (who runtime.Asker, bad *Problem) {
	keys, err := a.signedKeys(ctx)
	if err != nil {
		return who, a.problem(err)
	}
	found, names := []RuleView{}, map[string]bool{}
	for _, k := range a.keysHere() {
		if kind == "person" {
			break
		}
		names[k.Name] = true
		if p := keys.Principal(k.ID); p != nil && (k.ID == name || strings.EqualFold(k.Name, name)) {
			found, who = append(found, RuleView{Kind: "key", Name: k.Name, ID: k.ID}), a.withKey(&k, p)
		}
	}
	for _, p := range a.roster.People().All() {
		if kind == "key" || len(p.Roles[a.project.name()]) == 0 {
			continue
		}
		names[p.Name] = true
		if p.ID == name || strings.EqualFold(p.Name, name) {
			found, who = append(found, RuleView{Kind: "person", Name: p.Name, ID: p.ID}), a.asker(&p)
		}
	}
	switch len(found) {
	case 1:
		out.Kind, out.Name, out.ID = found[0].Kind, found[0].Name, found[0].ID
		return who, nil
	case 0:
		bad := &Problem{Type: "no-such-name", Title: "No such key or person", Status: http.StatusNotFound, Detail: "No key and no person of the project has the name or the id " + excerpt.Quote(name, maxName) + "."}
		if near := config.Suggest(name, slices.Sorted(maps.Keys(names))); near != "" {
			bad.Detail += " Did you mean " + excerpt.Quote(near, maxName) + "?"
		}
		return who, bad
	}
	var ids []string
	for _, x := range found {
		ids = append(ids, "the "+x.Kind+" "+x.ID)
	}
	return who, conflict("several", "Several have this name", "Several have the name "+excerpt.Quote(name, maxName)+". Use an id instead: "+strings.Join(ids, ", ")+".")
}

// ToolInRules returns how rules write a tool after its server.
func ToolInRules(name string) string { return policy.Tool(name) }
