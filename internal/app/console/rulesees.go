package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// decided is whether somebody may use an item, as a row of a table.
type decided struct{ admin.RuleDecision }

// Class and Word are the label of the decision.
func (d decided) Class() string {
	return map[string]string{"allow": "ok quiet", "confirm": "held"}[d.Do] + map[bool]string{true: "off"}[d.Do == "deny"]
}

// Word is described at Class.
func (d decided) Word() string {
	return map[string]string{"allow": "yes", "confirm": "asked first", "deny": "no"}[d.Do]
}

// Because says what decides, and Where where that stands, or "".
func (d decided) Because() string { return d.Why }

// Where is described at Because.
func (d decided) Where() string {
	if d.Place == nil || whereText(d.Place) == d.Why {
		return ""
	}
	return whereText(d.Place)
}

// whoView says who may use a tool.
type whoView struct {
	Item    string
	Bare    []whoRow
	Named   []whoRow
	Pager   pager
	Search  string
	All     int    // number of keys and people
	Knows   bool   // the viewer may know them
	Problem string // why nothing can be said
}

// whoRow is somebody who may use a tool or not.
type whoRow struct {
	decided
	Kind, Name string
	Sees       string // the address of the page of what they see; "" if there is none
}

// who returns who may use a tool.
func (p *toolPages) who(r *http.Request, t *admin.Tool) *whoView {
	q := r.URL.Query()
	v := &whoView{Search: q.Get("who")}
	page, err := strconv.Atoi(q.Get("page"))
	if err != nil || page < 1 || page > 1<<20 {
		page = 1
	}
	find := func(from int) (admin.ToolUses, *admin.Problem) {
		return p.source.UsesFor(r.Context(), stateOf(r).viewer.who, t.Server, t.Name, v.Search, from, pageRows)
	}
	found, bad := find((page - 1) * pageRows)
	if bad != nil {
		v.Problem = bad.Error()
		return v
	}
	v.Item, v.All, v.Knows, v.Pager = found.Item, found.All, found.Knows, pagerOf(found.Total, url.Values{"who": {v.Search}, "page": {strconv.Itoa(page)}})
	if from := max(0, v.Pager.From-1); from != (page-1)*pageRows {
		found, _ = find(from)
	}
	for _, link := range []*string{&v.Pager.Prev, &v.Pager.Next} {
		if *link != "" {
			*link += "#who"
		}
	}
	for _, x := range found.Bare {
		row := whoRow{decided: decided{x.RuleDecision}, Kind: "with the role", Name: x.Name}
		if x.Kind == "local" {
			row.Kind, row.Name = "without a key", "on this machine"
		}
		v.Bare = append(v.Bare, row)
	}
	for _, x := range found.Named {
		row := whoRow{decided: decided{x.RuleDecision}, Kind: x.Kind, Name: x.Name}
		if may(r, identity.Admin) {
			row.Sees = seesOf(x.Kind, x.ID)
		}
		v.Named = append(v.Named, row)
	}
	return v
}

// seesOf returns the address of the page of what a key or a person sees.
func seesOf(kind, id string) string { return seesPath + "?" + url.Values{kind: {id}}.Encode() }

// seesView has the values of the page of what a key or a person sees.
type seesView struct {
	admin.RuleView
	Asked   string // the name or the id that was typed
	Problem string // why there is nothing to show
	Rows    []seesRow
	Pager   pager
	Sees    int // how many items they may use
	Search  string
	States  []choice
	Any     bool // a filter is set
	Hidden  []choice
}

// seesRow is an item that somebody may use or not.
type seesRow struct {
	decided
	Item, Offered, Path string
}

// sees returns the page of what a key or a person sees.
func (p *rulePages) sees(r *http.Request) (*View, error) {
	q := r.URL.Query()
	v := &seesView{Search: q.Get("q"), States: choices(q.Get("may"), "all of it", "yes", "what they may use", "asked", "what they are asked about", "no", "what they don't see")}
	out := &View{Title: "What somebody sees", Crumbs: []Crumb{{"Rules", rulesPath}}, Data: v}
	kind := ""
	for _, k := range []string{"key", "person", "name"} {
		if v.Asked = q.Get(k); v.Asked != "" {
			kind = strings.TrimPrefix(k, "name")
			v.Hidden = []choice{{Title: k, Value: v.Asked}}
			break
		}
	}
	if v.Asked == "" || stateOf(r).feed {
		return out, nil
	}
	view, bad := p.source.ViewFor(r.Context(), stateOf(r).viewer.who, kind, v.Asked)
	if bad != nil {
		v.Problem, out.Status = bad.Error(), bad.Status
		return out, nil
	}
	v.RuleView, out.Title = view, "What "+view.Name+" sees"
	may := map[string]string{"yes": "allow", "asked": "confirm", "no": "deny"}[q.Get("may")]
	v.Any = may != "" || v.Search != ""
	fit := slices.DeleteFunc(slices.Clone(view.Items), func(x admin.RuleItem) bool {
		if x.Do != "deny" {
			v.Sees++
		}
		return may != "" && x.Do != may || !matches(v.Search, x.Server+"/"+x.Item, x.Offered)
	})
	var rows []admin.RuleItem
	rows, v.Pager = paged(fit, q)
	for _, x := range rows {
		row := seesRow{decided: decided{x.RuleDecision}, Item: x.Server + "/" + x.Item, Offered: x.Offered}
		if name := strings.TrimPrefix(x.Item, "tool:"); !strings.HasPrefix(x.Item, "prompt:") && !strings.HasPrefix(x.Item, "resource:") {
			row.Path = pathOf("servers", x.Server, "tools", name)
		}
		v.Rows = append(v.Rows, row)
	}
	return out, nil
}

// toolSwitch hides a tool from all clients, or shows it again. The page behind it says first what that changes.
type toolSwitch struct {
	Word string // what the switch does: Disable or Enable
	Path string // the page; with a form if Form is set
	Form bool   // the switch changes expose in the configuration file
	On   bool   // clients see the tool
}

// switches returns what makes the switch of a tool, or nil if the viewer can't switch it. In a project of the store it's a
// rule. In the file it's expose, which Dragoman writes there; rules are written into the file by hand.
func (p *toolPages) switches(r *http.Request) func(*admin.Tool) *toolSwitch {
	if !may(r, identity.Operator) || stateOf(r).feed {
		return func(*admin.Tool) *toolSwitch { return nil }
	}
	rules := p.source.KnownRules(stateOf(r).viewer.who)
	exact := map[string]string{} // the ids of rules that hide one item from everybody
	for _, x := range ownRules(&rules) {
		if len(x.Match) == 1 && x.Do == "deny" && x.Who == nil {
			exact[x.Match[0]] = x.ID()
		}
	}
	can := map[string]bool{}
	return func(t *admin.Tool) *toolSwitch {
		on := t.State == "shown"
		x := &toolSwitch{Word: map[bool]string{true: "Disable", false: "Enable"}[on], On: on}
		ruled := slices.ContainsFunc(t.Hidden, func(h admin.Hidden) bool { return strings.HasPrefix(h.Why, "rule ") })
		item := t.Server + "/" + admin.ToolInRules(t.Name)
		switch id := exact[item]; {
		case t.Name == "" || t.State == "invalid" || strings.Contains(t.Name, "*"): // a rule would take it for a pattern
			return nil
		case rules.Home == "store" && ruled && id != "":
			x.Path = editRule + "?" + url.Values{"rule": {id}, "do": {admin.RuleRemove}}.Encode()
		case rules.Home == "store" && (on || ruled):
			x.Path = editRule + "?" + url.Values{"match": {item}, "what": {map[bool]string{true: "deny", false: "allow"}[on]}, "at": {"1"}}.Encode()
		case rules.Home == "store" || ruled:
			return nil
		default:
			if _, known := can[t.Server]; !known {
				can[t.Server] = p.edit.can(r, t.Server)
			}
			exposed := on || slices.ContainsFunc(t.Hidden, func(h admin.Hidden) bool { return h.Rule == "expose.tools.deny: "+t.Name })
			if !can[t.Server] || !exposed {
				return nil
			}
			x.Path, x.Form = editPath(t.Server), true
		}
		return x
	}
}

// patternFor returns a pattern that matches what a filter of the list of tools selects, as far as one can.
func patternFor(server, text string) string {
	if server == "" {
		server = "*"
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		if server == "*" {
			return ""
		}
		return server + "/*"
	}
	return server + "/*" + strings.Join(words, "*") + "*"
}
