package console

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/form"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
)

// hints are the annotations that a rule can change.
var hints = []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}

// ruleForm has the fields of a rule as somebody has typed them. Lists have an entry on each line.
type ruleForm struct {
	Match, Keys, People      string
	Roles                    []string
	Do                       string // allow, deny, confirm or as
	Name, Title, Description string
	Hints                    map[string]string // true or false by hint
	At                       string            // the place of a new rule
}

// rule returns the rule that the fields say.
func (f *ruleForm) rule() admin.RuleEntry {
	x := admin.RuleEntry{Match: filledLines(f.Match)}
	if who := (admin.RuleWho{Keys: filledLines(f.Keys), People: filledLines(f.People), Roles: f.Roles}); len(who.Keys)+len(who.People)+len(who.Roles) > 0 {
		x.Who = &who
	}
	if f.Do != "as" {
		x.Do = f.Do
		return x
	}
	x.As = &admin.RuleAs{Name: f.Name, Title: f.Title, Description: f.Description}
	for _, h := range hints {
		if is, err := strconv.ParseBool(f.Hints[h]); err == nil {
			if x.As.Annotations == nil {
				x.As.Annotations = map[string]bool{}
			}
			x.As.Annotations[h] = is
		}
	}
	return x
}

// formOfRule returns the fields of a rule.
func formOfRule(x *admin.RuleEntry) ruleForm {
	f := ruleForm{Match: strings.Join(x.Match, "\n"), Do: x.Do, Hints: map[string]string{}}
	if x.Who != nil {
		f.Keys, f.People, f.Roles = strings.Join(x.Who.Keys, "\n"), strings.Join(x.Who.People, "\n"), x.Who.Roles
	}
	if x.As != nil {
		f.Do, f.Name, f.Title, f.Description = "as", x.As.Name, x.As.Title, x.As.Description
		for h, is := range x.As.Annotations {
			f.Hints[h] = strconv.FormatBool(is)
		}
	}
	return f
}

// readRule reads the fields from a form, or from an address that fills in some of them.
func readRule(q map[string][]string) ruleForm {
	get := func(name string) string { return strings.ReplaceAll(strings.Join(q[name], "\n"), "\r\n", "\n") }
	f := ruleForm{
		Match: get("match"), Keys: get("keys"), People: get("people"), Roles: q["role"], Do: cmp.Or(get("what"), "deny"), At: get("at"),
		Name: strings.TrimSpace(get("as-name")), Title: strings.TrimSpace(get("as-title")), Description: strings.TrimSpace(get("as-description")), Hints: map[string]string{},
	}
	for _, h := range hints {
		f.Hints[h] = get("as-" + h)
	}
	return f
}

// ruleView has the values of the page that changes a rule.
type ruleView struct {
	homeOf
	Form  ruleForm
	Do    string           // what the page does: admin.RuleAdd, RuleEdit or RuleRemove
	Rule  *admin.RuleEntry // the rule that is changed, as it is now; nil for a new one
	Place int              // its place
	ID    string           // its id
	ETag  string           // the version that the page changes
	Tried *tried           // what the change would do; nil if it can't be said yet
	Seen  string           // names the change that Tried is about
	// Theirs is the rule as somebody else has made it meanwhile, field by field; nil if nobody has.
	Theirs  []theirRow
	Notice  string // what has happened meanwhile
	Problem string // why nothing was saved
	Errors  []form.Error
	Number  string
	Sure    string
	All     string // what to type before everything is hidden; "" if nothing has to be
}

// theirRow is a field of a rule that two people have changed.
type theirRow struct {
	Field, Mine, Theirs string
	Same                bool
}

// Heading is the title of the page.
func (v *ruleView) Heading() string {
	switch v.Do {
	case admin.RuleRemove:
		return "Remove rule " + strconv.Itoa(v.Place)
	case admin.RuleEdit:
		return "Rule " + strconv.Itoa(v.Place)
	}
	return "New rule"
}

// Dos are the entries of the menu of what the rule does.
func (v *ruleView) Dos() []choice {
	all := choices(v.Form.Do, "", "deny", "deny: the item isn't there", "allow", "allow", "confirm", "confirm: ask a person before each use", "as", "as: change how clients see it")[1:]
	return all
}

// RoleBoxes are the boxes of the roles, and HintMenus the menus of the annotations.
func (v *ruleView) RoleBoxes() (out []choice) {
	for _, role := range []identity.Role{identity.Caller, identity.Viewer, identity.Operator, identity.Admin} {
		out = append(out, choice{role.String(), role.String(), slices.Contains(v.Form.Roles, role.String())})
	}
	return out
}

// hintMenu is the menu of an annotation.
type hintMenu struct {
	Name    string
	Choices []choice
}

// HintMenus is described at RoleBoxes.
func (v *ruleView) HintMenus() (out []hintMenu) {
	for _, h := range hints {
		out = append(out, hintMenu{h, choices(v.Form.Hints[h], "as the server says", "true", "true", "false", "false")})
	}
	return out
}

// Places are the entries of the menu of where a new rule comes.
func (v *ruleView) Places() []choice {
	n := len(ownRules(&v.Rules))
	var pairs []string
	for i := range n {
		pairs = append(pairs, strconv.Itoa(i+1), "before rule "+strconv.Itoa(i+1))
	}
	return choices(v.Form.At, "at the end", pairs...)
}

// Error returns what is wrong with a field.
func (v *ruleView) Error(id string) string {
	for _, e := range v.Errors {
		if e.ID == id {
			return e.Text
		}
	}
	return ""
}

// Where says where the rule of the file stands or has to be written.
func (v *ruleView) Where() string {
	if v.Rule != nil {
		return whereText(&v.Rule.RulePlace)
	}
	return v.FileName()
}

// Row returns the rule as the list shows it.
func (v *ruleView) Row() *ruleRow { return &ruleRow{RuleEntry: *v.Rule} }

func (p *rulePages) editPage() Page {
	return Page{
		Path: "/rules/edit", Least: identity.Operator, Template: "rule.html", Sheet: "second.css",
		View: func(r *http.Request) (*View, error) {
			q := r.URL.Query()
			return p.edit(r, &ruleView{Do: q.Get("do"), ID: q.Get("rule"), Form: readRule(q)}, q.Get("match") != "" || q.Get("do") == admin.RuleRemove)
		},
	}
}

// edit returns the page that changes a rule, and sets the remaining values of v. try says that the page says what the
// change would do.
func (p *rulePages) edit(r *http.Request, v *ruleView, try bool) (*View, error) {
	out := &View{Title: "New rule", Crumbs: []Crumb{{"Rules", rulesPath}}, Data: v, Stream: editRule}
	if stateOf(r).feed {
		return out, nil
	}
	v.Rules = p.source.RulesFor(r.Context(), stateOf(r).viewer.who)
	v.ETag, v.Number, v.Sure = cmp.Or(v.ETag, v.Rules.ETag), formNumber(), sureWords(r, ruleWords)
	own := ownRules(&v.Rules)
	if i := slices.IndexFunc(own, func(x admin.RuleEntry) bool { return x.ID() == v.ID }); i >= 0 {
		v.Rule, v.Place = &own[i], i+1
	}
	switch {
	case v.ID == "":
		v.Do = admin.RuleAdd
	case v.Rule == nil && r.Method != http.MethodPost:
		return nil, notFound("The project has no such rule", "Somebody has changed or removed it since this link was made.", Crumb{"Show all rules", rulesPath})
	case v.Do != admin.RuleRemove:
		v.Do = admin.RuleEdit
	}
	if v.Rule != nil && (v.Do == admin.RuleRemove || r.Method != http.MethodPost) {
		v.Form = formOfRule(v.Rule)
	}
	if at, _ := strconv.Atoi(v.Form.At); at < 1 || at > len(own) {
		v.Form.At = "" // the menu has no such place, so the form would come back with another one than was shown
	}
	if out.Title = v.Heading(); try && v.Problem == "" {
		p.try(r, v)
	}
	if len(v.Errors) > 0 && out.Status == 0 {
		out.Status = http.StatusUnprocessableEntity
	}
	return out, nil
}

// change returns the change that the page makes.
func (v *ruleView) change() admin.RuleChange {
	at, _ := strconv.Atoi(v.Form.At)
	return admin.RuleChange{Do: v.Do, ID: v.ID, At: at, Rule: v.Form.rule(), ETag: v.ETag}
}

// seen names a change of a version. What somebody saves is what they have seen the effect of.
func (v *ruleView) seen() string {
	if v.Do == admin.RuleRemove {
		return v.Do + " " + v.ID + " " + v.ETag
	}
	rule := v.Form.rule()
	return strings.Join([]string{v.Do, v.ID, rule.ID(), v.Form.At, v.ETag}, " ")
}

// try sets what the change would do, or what is wrong with it.
func (p *rulePages) try(r *http.Request, v *ruleView) {
	c := v.change()
	c.Check = true
	done, bad := p.source.ChangeRules(r, c)
	if bad != nil && bad.Status == http.StatusPreconditionFailed {
		p.meanwhile(r, v)
		c = v.change()
		c.Check = true
		done, bad = p.source.ChangeRules(r, c)
	}
	switch {
	case bad != nil && bad.Status == http.StatusUnprocessableEntity:
		p.fail(v, bad)
		return
	case bad != nil:
		v.Problem = plainRule(bad.Error())
		return
	}
	v.Tried, v.Seen = triedOf(&done), v.seen()
	if v.Tried.Emptied {
		v.All = everythingWords
	}
}

var (
	ruleLine = regexp.MustCompile(`^Line \d+: policy\[\d+\](?:\.([a-zA-Z.]+))?(?:\[\d+\])?: `)
	ruleName = regexp.MustCompile(`policy\[(\d+)\]`)
)

// plainRule returns a sentence about a list of rules without what only its text has.
func plainRule(text string) string {
	return ruleName.ReplaceAllStringFunc(text, func(x string) string {
		n, _ := strconv.Atoi(ruleName.FindStringSubmatch(x)[1])
		return "rule " + strconv.Itoa(n+1)
	})
}

// fail shows what is wrong at the field that it's about.
func (p *rulePages) fail(v *ruleView, bad *admin.Problem) {
	field, name, text := "r-match", "match", bad.Error()
	if at := ruleLine.FindStringSubmatch(bad.Detail); at != nil {
		text = strings.TrimPrefix(bad.Detail, at[0])
		switch first, rest, _ := strings.Cut(at[1], "."); first {
		case "who":
			field, name = "r-"+cmp.Or(strings.TrimSuffix(rest, "s"), "key"), cmp.Or(rest, "who")
		case "as":
			field, name = "r-as-"+cmp.Or(rest, "name"), cmp.Or(rest, "as")
		case "do":
			field, name = "r-do", "do"
		}
	}
	v.Errors = append(v.Errors, form.Error{ID: field, Name: name, Text: strings.TrimSuffix(upper(plainRule(text)), ".")})
}

// change handles the form of a rule: it shows what the change would do, or saves it if the form has just shown that.
func (p *rulePages) change(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	q := r.PostForm
	v := &ruleView{Do: q.Get("do"), ID: q.Get("rule"), ETag: q.Get("etag"), Form: readRule(q)}
	v.Place, _ = strconv.Atoi(q.Get("place"))
	if v.ID == "" {
		v.Do = admin.RuleAdd
	} else if v.Do != admin.RuleRemove {
		v.Do = admin.RuleEdit
	}
	status := http.StatusOK
	if q.Has("save") {
		done := ""
		if done, status = p.saveRule(r, v); done != "" {
			say(w, done)
			http.Redirect(w, r, rulesPath, http.StatusSeeOther)
			return
		}
	}
	p.frame.again(w, r, p.editPage(), func(r *http.Request) (*View, error) {
		problem := v.Problem
		v.Problem = ""
		view, err := p.edit(r, v, len(v.Errors) == 0)
		v.Problem = cmp.Or(problem, v.Problem)
		if view != nil && view.Status == 0 {
			view.Status = status
		}
		return view, err
	})
}

// saveRule saves the change of a form and returns what to tell its sender. If nothing was saved, it sets why in v.
func (p *rulePages) saveRule(r *http.Request, v *ruleView) (done string, status int) {
	q := r.PostForm
	switch {
	case q.Get("number") == "":
		v.Problem = "The form can't be read. Load the page again."
		return "", http.StatusBadRequest
	case q.Get("seen") != v.seen():
		v.Notice = "Nothing is saved yet, because you have changed the rule since its effect was shown. This is the effect now."
		return "", http.StatusOK
	case !sure(r, ruleWords):
		v.Problem = unsure(ruleWords)
		return "", http.StatusForbidden
	}
	bad := p.save(r, v.change())
	if bad == nil {
		return map[string]string{admin.RuleAdd: "The rule was added.", admin.RuleEdit: "The rule was changed.", admin.RuleRemove: "The rule was removed."}[v.Do], 0
	}
	switch bad.Status {
	case http.StatusPreconditionFailed:
		p.meanwhile(r, v)
	case http.StatusUnprocessableEntity:
		p.fail(v, bad)
	default:
		v.Problem = plainRule(bad.Error())
	}
	return "", bad.Status
}

// meanwhile compares the form with what somebody else has made of the rules. The next time, the form changes that.
func (p *rulePages) meanwhile(r *http.Request, v *ruleView) {
	now := p.source.RulesFor(r.Context(), stateOf(r).viewer.who)
	own := ownRules(&now)
	v.ETag = now.ETag
	const nothing = "Nothing was changed, because somebody has changed the rules meanwhile. "
	switch there := slices.ContainsFunc(own, func(x admin.RuleEntry) bool { return x.ID() == v.ID }); {
	case v.Do == admin.RuleAdd:
		v.Notice = nothing + "Your rule is as you typed it. Look where it comes now, and save again."
	case there:
		v.Notice = nothing + "This rule is as it was. Look at the effect now, and save again."
	case v.Place < 1 || v.Place > len(own):
		v.Notice = nothing + "They have removed this rule. If you save again, yours is a new one at the end."
		v.ID, v.Do, v.Form.At = "", admin.RuleAdd, ""
	default:
		theirs := &own[v.Place-1]
		v.Notice = nothing + "This is rule " + strconv.Itoa(v.Place) + " as they have made it, beside yours. If you save again, yours replaces theirs."
		v.ID, v.Theirs = theirs.ID(), theirsBeside(v.Form, formOfRule(theirs))
	}
}

// theirsBeside compares two versions of a rule field by field.
func theirsBeside(mine, theirs ruleForm) (out []theirRow) {
	look := func(f *ruleForm) []string {
		x := f.rule()
		return []string{f.Match, f.Keys, f.People, strings.Join(f.Roles, ", "), f.Do, strings.Join(looksOf(x.As), "\n")}
	}
	a, b := look(&mine), look(&theirs)
	for i, field := range []string{"match", "keys", "people", "roles", "do", "as"} {
		if a[i]+b[i] != "" {
			out = append(out, theirRow{field, a[i], b[i], strings.TrimSpace(a[i]) == strings.TrimSpace(b[i])})
		}
	}
	return out
}

// rulesDiff returns how the list changes as it's written.
func rulesDiff(done *admin.ChangedRules) string {
	return clientfile.Diff("policy", []byte(done.Before), []byte(done.After), func(s string) string { return s })
}
