package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// Ruler knows the rules that say who may use what, changes those of the project, and says what they decide and what
// others would. *admin.API implements Ruler. KnownRules is the same as RulesFor without warnings, and takes less time.
// ChangeRules asks the sender's role itself.
type Ruler interface {
	RulesFor(context.Context, *identity.Principal) admin.Rules
	KnownRules(*identity.Principal) admin.Rules
	ChangeRules(*http.Request, admin.RuleChange) (admin.ChangedRules, *admin.Problem)
	UsesFor(ctx context.Context, who *identity.Principal, server, tool, text string, from, limit int) (admin.ToolUses, *admin.Problem)
	ViewFor(ctx context.Context, who *identity.Principal, kind, name string) (admin.RuleView, *admin.Problem)
}

const (
	rulesPath = prefix + "/rules"
	editRule  = rulesPath + "/edit"
	seesPath  = rulesPath + "/sees"
	// ruleWords are what somebody types who changes rules; see sure.
	ruleWords = "change the rules"
)

// rulePages are the list of rules, the page that changes one, and the page of what a key or a person sees.
type rulePages struct {
	frame  *frame
	source Ruler
	forms  forms
}

func (p *rulePages) register(f *frame) {
	f.add(p.listPage())
	f.handleSure("POST /rules", identity.Operator, ruleWords, p.reorder)
	f.add(p.editPage())
	f.handleSure("POST /rules/edit", identity.Operator, ruleWords, p.change)
	f.add(Page{Path: "/rules/sees", Least: identity.Admin, Template: "sees.html", Sheet: "second.css", View: p.sees})
}

func (p *rulePages) listPage() Page {
	return Page{
		Path: "/rules", Least: identity.Viewer, Template: "rules.html", Sheet: "second.css", Nav: "Rules", Group: accesses, Key: "W",
		View: func(r *http.Request) (*View, error) { return p.list(r, &ruleList{}) },
	}
}

// ruleList has the values of the list of rules.
type ruleList struct {
	homeOf
	Rows    []ruleRow
	Own     int    // how many of them are the project's own
	Draft   string // the ids of the project's own rules in an order that isn't saved; "" if nothing was moved
	Order   string // the ids in the order of the page
	Tried   *tried // what the order would change; nil if nothing was moved
	Problem string // why nothing was saved
	Edits   bool   // the viewer may change rules, or gets the text to change
	Sees    bool   // the viewer may know what others see
	Number  string // of the form; see forms
	Sure    string // see sureWords
	All     string // what to type before everything is hidden; "" if nothing has to be
	Key     string
}

// homeOf is where the rules of a project are written.
type homeOf struct{ admin.Rules }

// Stored reports whether the project's own rules are changed here.
func (h homeOf) Stored() bool { return h.Home == "store" }

// FileName returns the name of the configuration file without its folder.
func (h homeOf) FileName() string { return cmp.Or(baseName(h.File), "the configuration file") }

func baseName(file string) string {
	if file == "" {
		return ""
	}
	return filepath.Base(file)
}

// ruleRow is a rule, as a row of the list.
type ruleRow struct {
	admin.RuleEntry
	Mine     bool // the rule is the project's own
	Place    int  // its place on the page, from 1
	Up, Down bool // it can be moved
	Moved    bool // it was moved last
	Went     string
}

// Class and Word are the label of what the rule does.
func (x *ruleRow) Class() string {
	return map[string]string{"allow": "ok quiet", "deny": "off", "confirm": "held"}[cmp.Or(x.Do, "none")]
}

// Word is described at Class.
func (x *ruleRow) Word() string {
	return map[string]string{"allow": "allow", "deny": "deny", "confirm": "ask first"}[x.Do]
}

// People says for whom the rule is.
func (x *ruleRow) People() string { return whoText(x.Who) }

func whoText(who *admin.RuleWho) string {
	if who == nil {
		return "everybody"
	}
	var parts []string
	for _, x := range []struct {
		one, many string
		list      []string
	}{{"key", "keys", who.Keys}, {"", "", who.People}, {"role", "roles", who.Roles}} {
		if len(x.list) == 1 {
			parts = append(parts, strings.TrimSpace(x.one+" "+x.list[0]))
		} else if len(x.list) > 1 {
			parts = append(parts, strings.TrimSpace(x.many+" "+strings.Join(x.list, ", ")))
		}
	}
	if who.Hidden {
		parts = append(parts, "some keys or people")
	}
	return strings.Join(parts, "; ")
}

// Looks returns what the rule changes of an item, line by line.
func (x *ruleRow) Looks() []string { return looksOf(x.As) }

func looksOf(as *admin.RuleAs) (out []string) {
	if as == nil {
		return nil
	}
	for _, f := range []struct{ name, text string }{{"name", as.Name}, {"title", as.Title}, {"description", as.Description}} {
		if f.text != "" {
			out = append(out, f.name+": "+f.text)
		}
	}
	for _, h := range hints {
		if is, ok := as.Annotations[h]; ok {
			out = append(out, h+": "+strconv.FormatBool(is))
		}
	}
	return out
}

// Where says where the rule stands.
func (x *ruleRow) Where() string { return whereText(&x.RulePlace) }

func whereText(p *admin.RulePlace) string {
	switch {
	case p.Line > 0:
		return baseName(p.File) + ":" + strconv.Itoa(p.Line)
	case p.File == "" && !strings.HasPrefix(p.Path, "dragoman."):
		return "the store"
	}
	return p.Path
}

// Edit and Remove are the addresses of the pages that change and remove the rule.
func (x *ruleRow) Edit() string   { return editRule + "?" + url.Values{"rule": {x.ID()}}.Encode() }
func (x *ruleRow) Remove() string { return x.Edit() + "&do=" + admin.RuleRemove }

// tried is what a change of rules would do.
type tried struct {
	*admin.RuleEffect
	Warnings []string
	Diff     []diffLine // of the list as it is written
	Own      string     // the text of the changed rule
	After    string     // the whole list as it would be written
}

// list returns the page with the rules, and sets the remaining values of l.
func (p *rulePages) list(r *http.Request, l *ruleList) (*View, error) {
	st := stateOf(r)
	out := &View{Title: "Rules", Data: l}
	if st.feed {
		l.Rules = p.source.KnownRules(st.viewer.who)
		l.Key = keyOfRules(&l.Rules)
		return out, nil
	}
	l.Rules = p.source.RulesFor(r.Context(), st.viewer.who)
	l.Key, l.Number = keyOfRules(&l.Rules), formNumber()
	l.Edits, l.Sees = may(r, identity.Operator), may(r, identity.Admin)
	own := ownRules(&l.Rules)
	l.Own = len(own)
	order, moved, went := own, "", ""
	if l.Edits {
		l.Sure = sureWords(r, ruleWords)
		order, moved, went = ordered(own, r.FormValue("order"), r.FormValue("move"))
	}
	for i, x := range order {
		row := ruleRow{RuleEntry: x, Mine: true, Place: i + 1, Up: l.Edits && i > 0, Down: l.Edits && i+1 < len(order)}
		if row.Moved = x.ID() == moved; row.Moved {
			row.Went = went
		}
		l.Rows = append(l.Rows, row)
	}
	for _, x := range l.Rules.Rules {
		if x.Project != l.Project {
			l.Rows = append(l.Rows, ruleRow{RuleEntry: x, Place: x.Number})
		}
	}
	if l.Order = idsOf(order); l.Order != idsOf(own) {
		l.Draft = l.Order
		done, bad := p.source.ChangeRules(r, admin.RuleChange{Do: admin.RuleOrder, Order: strings.Split(l.Draft, ","), ETag: l.ETag, Check: true})
		if bad != nil {
			l.Problem = cmp.Or(l.Problem, plainRule(bad.Error()))
		} else {
			if l.Tried = triedOf(&done); l.Tried.Emptied {
				l.All = everythingWords
			}
		}
	}
	return out, nil
}

// ownRules returns the project's own rules in the order in which they are asked.
func ownRules(all *admin.Rules) (own []admin.RuleEntry) {
	for _, x := range all.Rules {
		if x.Project == all.Project {
			own = append(own, x)
		}
	}
	return own
}

// ordered returns rules in an order, which a list of ids says, after one step of a rule: ID.up or ID.down. It also
// returns which rule was moved, and where to. Rules that order doesn't name stay where they are.
func ordered(own []admin.RuleEntry, order, move string) (out []admin.RuleEntry, moved, went string) {
	out = slices.Clone(own)
	if order != "" {
		place := map[string]int{}
		for i, id := range strings.Split(order, ",") {
			place[id] = i
		}
		var at []int
		var named []admin.RuleEntry
		for i := range own {
			if _, ok := place[own[i].ID()]; ok {
				at, named = append(at, i), append(named, own[i])
			}
		}
		slices.SortStableFunc(named, func(a, b admin.RuleEntry) int { return cmp.Compare(place[a.ID()], place[b.ID()]) })
		for i, x := range named {
			out[at[i]] = x
		}
	}
	moved, went, _ = strings.Cut(move, ".")
	i := slices.IndexFunc(out, func(x admin.RuleEntry) bool { return x.ID() == moved })
	to := i + map[string]int{"up": -1, "down": 1}[went]
	if i < 0 || to == i || to < 0 || to >= len(out) {
		return out, "", ""
	}
	out[i], out[to] = out[to], out[i]
	return out, moved, went
}

func idsOf(all []admin.RuleEntry) string {
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].ID()
	}
	return strings.Join(ids, ",")
}

// keyOfRules returns text that changes when the rules do. It's the same for all viewers.
func keyOfRules(all *admin.Rules) string {
	key := all.ETag + all.Problem + all.Home
	for i := range all.Rules {
		x := &all.Rules[i]
		if x.Project == all.Project {
			key += x.ID() + strconv.Itoa(x.Line) + " "
		} else {
			key += fmt.Sprint(x.Number, x.Match, x.Do, x.As, " ")
		}
	}
	return key
}

// triedOf returns what a change would do.
func triedOf(done *admin.ChangedRules) *tried {
	t := &tried{RuleEffect: done.Effect, Warnings: done.Warnings, Own: done.Own, After: done.After}
	if t.RuleEffect == nil {
		t.RuleEffect = &admin.RuleEffect{}
	}
	t.Diff = diffLines(rulesDiff(done))
	return t
}

// reorder handles the form that saves the order of the rules.
func (p *rulePages) reorder(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	l, status := &ruleList{}, http.StatusForbidden
	number := r.PostForm.Get("number")
	switch {
	case number == "" || r.PostForm.Get("order") == "":
		l.Problem, status = "The form can't be read. Load the page again.", http.StatusBadRequest
	case !sure(r, ruleWords):
		l.Problem = unsure(ruleWords)
	default:
		bad := p.save(r, admin.RuleChange{Do: admin.RuleOrder, Order: strings.Split(r.PostForm.Get("order"), ","), ETag: r.PostForm.Get("etag")})
		if bad == nil {
			say(w, "The rules have a new order.")
			http.Redirect(w, r, rulesPath, http.StatusSeeOther)
			return
		}
		l.Problem, status = plainRule(bad.Error()), bad.Status
		if bad.Status == http.StatusPreconditionFailed {
			l.Problem = "Nothing was changed, because somebody has changed the rules meanwhile. These are the rules as they are now, in the order that you wanted. Save again if that's still right."
		}
	}
	p.frame.again(w, r, p.listPage(), func(r *http.Request) (*View, error) {
		view, err := p.list(r, l)
		if view != nil {
			view.Status = status
		}
		return view, err
	})
}

// everythingWords are what somebody types whose change leaves nothing to callers.
const everythingWords = "hide everything"

// save makes a change once, however often its form is sent. If the change leaves nothing to callers, the form must say so.
func (p *rulePages) save(r *http.Request, c admin.RuleChange) *admin.Problem {
	number := r.PostForm.Get("number")
	answer, _ := p.forms.once(r, number, func() any {
		check := c
		check.Check = true
		done, bad := p.source.ChangeRules(r, check)
		switch typed := strings.Join(strings.Fields(r.PostForm.Get("everything")), " "); {
		case bad != nil:
			return bad
		case done.Effect != nil && done.Effect.Emptied && !strings.EqualFold(typed, everythingWords):
			return &admin.Problem{Status: http.StatusForbidden, Title: "Nothing has been done yet", Detail: "Nothing has been done yet. This would hide everything, so type “" + everythingWords + "” into the field and send the form again."}
		}
		_, bad = p.source.ChangeRules(r, c)
		return bad
	})
	bad, known := answer.(*admin.Problem)
	if !known {
		bad = &admin.Problem{Status: http.StatusConflict, Title: "This form was sent before", Detail: "Look at the rules, and repeat your change if it isn't there."}
	}
	if bad != nil {
		p.forms.forget(r, number)
	}
	return bad
}
