package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/pins"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/prompt"
)

// PromptKeeper has a project's own prompts. *admin.API implements PromptKeeper. by is the subject of who acts. Only
// FindPrompt, the changes, and InstructionsWith may block: that reads what the configuration says of instructions.
type PromptKeeper interface {
	OwnPrompts() ([]admin.PromptEntry, *admin.Problem)
	FindPrompt(ctx context.Context, name string, before int64, limit int) (admin.PromptDetails, *admin.Problem)
	InstructionsWith(context.Context, *admin.PromptVersion) (all []admin.Instructions, unread []string)
	AddPrompt(ctx context.Context, by string, q admin.PromptRequest) (admin.KeptPrompt, *admin.Problem)
	PublishPrompt(ctx context.Context, by, name string, version int64) (admin.KeptPrompt, *admin.Problem)
	ActivatePrompt(ctx context.Context, by, name string) (admin.KeptPrompt, *admin.Problem)
	PutOffPrompt(ctx context.Context, by, name string) (admin.KeptPrompt, *admin.Problem)
	StoreAway() string
}

// promptsPath is the path of the list of prompts.
const promptsPath = prefix + "/prompts"

// versionRows is how many versions of a prompt are on one page.
const versionRows = 20

// promptPages are the list of prompts, and the pages of each of the project's own: its versions, two of them side by
// side, and what clients get as instructions. promptEditor has the page that writes a version.
type promptPages struct {
	frame  *frame
	source interface {
		PromptKeeper
		FindItems(admin.ItemQuery) admin.FoundItems
	}
	forms forms
}

func (p *promptPages) register(f *frame) {
	f.add(Page{Path: "/prompts", Least: identity.Viewer, Template: "ownprompts.html", Sheet: "second.css", Nav: "Prompts", Group: catalogs, Key: "B", View: p.list})
	f.add(p.promptPage())
	f.add(p.instructionsPage())
	f.add(Page{Path: "/prompts/{name}/{versions}", Least: identity.Viewer, Template: "promptdiff.html", Sheet: "review.css", View: p.compare})
	f.handle("POST /prompts/{name}", identity.Operator, p.change)
	f.handle("POST /prompts/{name}/instructions", identity.Operator, p.activate)
}

func (p *promptPages) promptPage() Page {
	return Page{Path: "/prompts/{name}", Least: identity.Viewer, Template: "prompt.html", Sheet: "second.css", View: func(r *http.Request) (*View, error) { return p.prompt(r, "") }}
}

func (p *promptPages) instructionsPage() Page {
	return Page{Path: "/prompts/{name}/instructions", Least: identity.Viewer, Template: "instructions.html", Sheet: "second.css", View: func(r *http.Request) (*View, error) { return p.instructions(r, "") }}
}

// ownPrompt is a prompt of the project, as a row of the list.
type ownPrompt struct{ admin.PromptEntry }

// Class and Word are the state label.
func (x ownPrompt) Class() string {
	if x.Published == 0 {
		return "off"
	}
	return "ok"
}

func (x ownPrompt) Word() string {
	switch {
	case x.Active:
		return "active"
	case x.Published != 0:
		return "published"
	}
	return "not published"
}

// Play returns the path of the prompt's page in the playground.
func (x ownPrompt) Play() string { return playPath("", kindPrompt, x.Name) }

// Which returns which version clients get, of how many there are.
func (x ownPrompt) Which() string {
	switch x.Published {
	case 0:
		return "none of " + number(x.Newest)
	case x.Newest:
		return number(x.Newest)
	}
	return number(x.Published) + " of " + number(x.Newest)
}

// serversPrompts are the prompts of one server, as a row of the list.
type serversPrompts struct {
	Server string
	Total  int
	Some   []Crumb // the first, as clients call them, with their pages in the playground
}

// promptList has the values of the list of prompts.
type promptList struct {
	kept
	Search  string
	Own     []ownPrompt
	Pager   pager
	Any     bool // there are prompts of the project, whatever the search
	Servers []serversPrompts
	Problem string // why nothing is kept
	Key     string
}

func (p *promptPages) list(r *http.Request) (*View, error) {
	q := r.URL.Query()
	v := &promptList{kept: keptFor(r, p.source.StoreAway(), identity.Operator), Search: q.Get("q")}
	all, bad := p.source.OwnPrompts()
	if bad != nil {
		v.Problem, v.Acts = bad.Detail, false
	}
	v.Any = len(all) > 0
	all = slices.DeleteFunc(all, func(x admin.PromptEntry) bool { return !matches(v.Search, x.Name, x.Description, x.By) })
	all, v.Pager = paged(all, q)
	for _, x := range all {
		v.Own = append(v.Own, ownPrompt{x})
	}
	const some = 5
	for _, s := range statusOf(r).Servers {
		found := p.source.FindItems(admin.ItemQuery{Server: s.Name, Method: mcp.MethodListPrompts, Text: v.Search, Limit: some})
		if found.Total == 0 {
			continue
		}
		row := serversPrompts{Server: s.Name, Total: found.Total}
		for _, x := range found.Items {
			row.Some = append(row.Some, Crumb{cmp.Or(x.Offered, x.Name), playPath(s.Name, kindPrompt, x.Name)})
		}
		v.Servers = append(v.Servers, row)
	}
	v.Key = fmt.Sprint(v.kept, v.Own, v.Pager.Total, v.Servers)
	return &View{Title: "Prompts", Data: v}, nil
}

// promptView has the values of the page of a prompt.
type promptView struct {
	kept
	ownPrompt
	Shown    *admin.PromptVersion // nil if it can't be read
	Text     template.HTML
	Preview  []previewValue // the arguments of the version that is shown
	Filled   string         // its text with their values; "" if it has no arguments
	Versions []versionRow
	Older    string // the link to older versions; "" for none
	Number   string
	Problem  string
	Key      string
}

// previewValue is a value of an argument for a preview.
type previewValue struct {
	admin.PromptArgument
	Value string
}

// versionRow is a version of a prompt, as a row of its page.
type versionRow struct {
	admin.PromptVersion
	Served bool
	Before int64 // the version before it, for a comparison; 0 if it's the first
}

// path returns the path of a page of a prompt.
func promptPath(name string, more ...string) string {
	return pathOf(append([]string{"prompts", name}, more...)...)
}

// versions returns a prompt with some of its versions. The error suggests another one if there's none with the name.
func (p *promptPages) versions(r *http.Request, name string, before int64, limit int) (admin.PromptDetails, error) {
	x, bad := p.source.FindPrompt(r.Context(), name, before, limit)
	next := Crumb{"Show all prompts", promptsPath}
	switch {
	case bad == nil || bad.Status == http.StatusServiceUnavailable && x.Name != "":
		return x, nil
	case bad.Status == http.StatusNotFound:
		var near []Crumb
		var names []string
		all, _ := p.source.OwnPrompts()
		for _, o := range all {
			names = append(names, o.Name)
		}
		if n := config.Suggest(name, names); n != "" {
			near = append(near, Crumb{n, promptPath(n)})
		}
		return x, notFound("The project has no prompt "+excerpt.Quote(name, prompt.MaxName)+" of its own", "Prompts of servers are on the pages of the servers.", next, near...)
	}
	return x, problemError(bad, next)
}

// version returns one version of a prompt, or nil if it can't be read. The error says that there is none.
func (p *promptPages) version(r *http.Request, name string, version int64) (x admin.PromptDetails, v *admin.PromptVersion, err error) {
	if x, err = p.versions(r, name, version+1, 1); err != nil {
		return x, nil, err
	}
	if len(x.Versions) > 0 && x.Versions[0].Version == version {
		return x, &x.Versions[0], nil
	}
	if p.source.StoreAway() != "" {
		return x, nil, nil
	}
	return x, nil, notFound(fmt.Sprintf("The prompt %s has no version %d", name, version), fmt.Sprintf("The newest is %d.", x.Newest), Crumb{"Show the prompt", promptPath(name)})
}

func (p *promptPages) prompt(r *http.Request, problem string) (*View, error) {
	name, q := r.PathValue("name"), r.URL.Query()
	v := &promptView{kept: keptFor(r, p.source.StoreAway(), identity.Operator), Number: formNumber(), Problem: problem}
	out := &View{Title: name, Crumbs: []Crumb{{"Prompts", promptsPath}}, Data: v}
	if stateOf(r).feed { // only the key is live, so we needn't read the database
		all, _ := p.source.OwnPrompts()
		for _, x := range all {
			if x.Name == name {
				v.PromptEntry, v.Key = x, promptKey(&x, v.Stale)
			}
		}
		return out, nil
	}
	before, _ := strconv.ParseInt(q.Get("before"), 10, 64)
	x, err := p.versions(r, name, max(0, before), versionRows+1)
	if err != nil {
		return nil, err
	}
	v.PromptEntry, v.Key = x.PromptEntry, promptKey(&x.PromptEntry, v.Stale)
	for _, one := range x.Versions[:min(len(x.Versions), versionRows)] {
		v.Versions = append(v.Versions, versionRow{one, one.Version == x.Published, one.Version - 1})
	}
	if n := len(v.Versions); len(x.Versions) > versionRows {
		v.Older = queryWith(q, "before", strconv.FormatInt(v.Versions[n-1].Version, 10))
	}
	shown, _ := strconv.ParseInt(q.Get("version"), 10, 64)
	if shown <= 0 {
		shown = cmp.Or(x.Published, x.Newest)
	}
	if _, v.Shown, err = p.version(r, name, shown); err != nil {
		return nil, err
	}
	if v.Shown != nil {
		v.Text = exact([]pins.Part{{Text: v.Shown.Text}}, "", true)
		v.Preview, v.Filled = previewOf(v.Shown, q)
	}
	return out, nil
}

func promptKey(x *admin.PromptEntry, stale string) string {
	return fmt.Sprint(x.Newest, x.Published, x.Active, stale)
}

// previewOf returns the text of a version with the values that a form has for its arguments. Arguments without a value
// stay as they are in the text. It returns nothing for a version without arguments.
func previewOf(v *admin.PromptVersion, form url.Values) (all []previewValue, filled string) {
	x, values := prompt.Prompt{Name: "prompt", Text: v.Text}, map[string]string{}
	for _, a := range v.Arguments {
		value := form.Get("value." + a.Name)
		all = append(all, previewValue{a, value})
		values[a.Name] = cmp.Or(value, "{{"+a.Name+"}}")
		x.Arguments = append(x.Arguments, prompt.Argument(a))
	}
	if len(all) == 0 {
		return nil, ""
	}
	filled, err := x.Fill(values)
	if m, ok := prompt.MistakeOf(err); ok {
		filled = upper(m.Text) + ": " + m.Next + "."
	}
	return all, filled
}

// change publishes a version, or puts the prompt off.
func (p *promptPages) change(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	name, do, sent := r.PathValue("name"), r.PostForm.Get("do"), r.PostForm.Get("number")
	version, err := strconv.ParseInt(r.PostForm.Get("version"), 10, 64)
	if (do != "publish" || err != nil || version < 1) && do != "off" || sent == "" {
		p.frame.fail(w, r, unreadable(promptPath(name)))
		return
	}
	answer, _ := p.forms.once(r, sent, doing(func() (admin.KeptPrompt, *admin.Problem) {
		ctx, by := acting(r)
		if do == "off" {
			return p.source.PutOffPrompt(ctx, by, name)
		}
		return p.source.PublishPrompt(ctx, by, name, version)
	}))
	k, bad := acted[admin.KeptPrompt](answer)
	if bad != nil {
		p.refuse(w, r, p.promptPage(), p.prompt, bad)
		return
	}
	text := "Clients don't get " + name + " any more. "
	if do == "publish" {
		text = "Version " + number(version) + " of " + name + " is published. "
		if k.Active {
			text += "New sessions get it as instructions, too. "
		}
	}
	say(w, noted(k.Note, "%s", text))
	http.Redirect(w, r, promptPath(name), http.StatusSeeOther)
}

// refuse shows a page again, with the problem that a form has had.
func (p *promptPages) refuse(w http.ResponseWriter, r *http.Request, page Page, view func(*http.Request, string) (*View, error), bad *admin.Problem) {
	p.frame.again(w, r, page, func(r *http.Request) (*View, error) {
		v, err := view(r, bad.Error())
		if v != nil {
			v.Status = bad.Status
		}
		return v, err
	})
}

// instructionsView has the values of the page about instructions.
type instructionsView struct {
	kept
	ownPrompt
	Shown   *admin.PromptVersion // nil if it can't be read
	All     []instructionsText   // one for each different text
	Unread  []string             // servers whose part isn't known
	Before  string               // the prompt that is active now, if that's another one
	Why     string               // why the version can't be the active one; "" if it can
	Number  string
	Problem string
}

// instructionsText is what clients of some revisions get.
type instructionsText struct {
	admin.Instructions
	HTML  template.HTML
	Every bool // clients of all revisions get it
}

func (p *promptPages) instructions(r *http.Request, problem string) (*View, error) {
	name := r.PathValue("name")
	v := &instructionsView{kept: keptFor(r, p.source.StoreAway(), identity.Operator), Number: formNumber(), Problem: problem}
	out := &View{Title: "Instructions", Crumbs: []Crumb{{"Prompts", promptsPath}, {name, promptPath(name)}}, Data: v}
	if stateOf(r).feed {
		return out, nil // nothing on the page is live, since somebody reads it to decide
	}
	all, bad := p.source.OwnPrompts()
	if bad != nil {
		return nil, problemError(bad, Crumb{"Show all prompts", promptsPath})
	}
	version, _ := strconv.ParseInt(r.URL.Query().Get("version"), 10, 64)
	for _, x := range all {
		switch {
		case x.Name == name && version <= 0:
			version = cmp.Or(x.Published, x.Newest)
		case x.Active && x.Name != name:
			v.Before = x.Name
		}
	}
	x, shown, err := p.version(r, name, max(version, 1))
	if err != nil {
		return nil, err
	}
	v.PromptEntry, v.Shown = x.PromptEntry, shown
	if shown == nil {
		return out, nil
	}
	switch {
	case len(shown.Arguments) > 0:
		v.Why = fmt.Sprintf("This version has the argument %s, and clients send no arguments for instructions. Write a version without arguments.", shown.Arguments[0].Name)
		return out, nil
	case shown.Version != x.Published:
		v.Why = fmt.Sprintf("Version %d is not published, and only what is published can be active.", shown.Version)
	case x.Active:
		v.Why = "This version is the active one, so clients get this now."
	}
	texts, unread := p.source.InstructionsWith(r.Context(), shown)
	for _, x := range texts {
		v.All = append(v.All, instructionsText{x, exact([]pins.Part{{Text: x.Text}}, "", true), len(texts) == 1})
	}
	v.Unread = unread
	return out, nil
}

// activate makes a prompt the active one.
func (p *promptPages) activate(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	name, form := r.PathValue("name"), r.PostForm.Get("number")
	x, err := p.versions(r, name, 0, 1)
	switch {
	case err != nil:
		p.frame.fail(w, r, err)
		return
	case form == "":
		p.frame.fail(w, r, unreadable(promptPath(name)))
		return
	}
	answer, _ := p.forms.once(r, form, doing(func() (admin.KeptPrompt, *admin.Problem) {
		ctx, by := acting(r)
		if sent := r.PostForm.Get("version"); sent != strconv.FormatInt(x.Published, 10) {
			return admin.KeptPrompt{}, &admin.Problem{Status: http.StatusConflict, Title: "Another version is published", Detail: fmt.Sprintf("The prompt is not active: version %d is published now, and you have looked at version %s. Look at what clients would get, and decide again.", x.Published, excerpt.Line(sent, 20))}
		}
		return p.source.ActivatePrompt(ctx, by, name)
	}))
	k, bad := acted[admin.KeptPrompt](answer)
	if bad != nil {
		p.refuse(w, r, p.instructionsPage(), p.instructions, bad)
		return
	}
	say(w, noted(k.Note, "%s is active: new sessions get version %s as instructions. ", name, number(k.Published)))
	http.Redirect(w, r, promptPath(name), http.StatusSeeOther)
}

// promptDiff has the values of the page that compares two versions.
type promptDiff struct {
	kept
	Name     string
	Old, New *admin.PromptVersion
	review
}

// compare shows two versions side by side, as the page of a changed definition does.
func (p *promptPages) compare(r *http.Request) (*View, error) {
	name := r.PathValue("name")
	v := &promptDiff{kept: kept{Stale: p.source.StoreAway()}, Name: name}
	out := &View{Title: r.PathValue("versions"), Crumbs: []Crumb{{"Prompts", promptsPath}, {name, promptPath(name)}}, Data: v}
	if stateOf(r).feed {
		return out, nil // versions never change
	}
	first, second, two := strings.Cut(r.PathValue("versions"), "..")
	a, errA := strconv.ParseInt(first, 10, 64)
	b, errB := strconv.ParseInt(second, 10, 64)
	if !two || errors.Join(errA, errB) != nil || a < 1 || b < 1 {
		return nil, notFound("No page has this address", "Two versions are compared at an address such as 1..2.", Crumb{"Show all prompts", promptsPath})
	}
	var err error
	if _, v.Old, err = p.version(r, name, a); err == nil {
		_, v.New, err = p.version(r, name, b)
	}
	if err != nil {
		return nil, err
	}
	if v.Old == nil || v.New == nil {
		return nil, &pageError{Status: http.StatusServiceUnavailable, Title: "The versions can't be compared now", Text: v.Stale, Next: Crumb{"Show the prompt", promptPath(name)}}
	}
	v.All = r.URL.Query().Get("view") == "all"
	v.show(pins.Compare(promptJSON(v.Old), promptJSON(v.New)))
	return out, nil
}

// promptJSON returns what people write of a version, for a comparison.
func promptJSON(v *admin.PromptVersion) []byte {
	b, _ := json.Marshal(struct { // strings only, so there's no error
		Description string                 `json:"description,omitempty"`
		Text        string                 `json:"text"`
		Arguments   []admin.PromptArgument `json:"arguments,omitempty"`
	}{v.Description, v.Text, v.Arguments})
	return b
}
