package console

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/form"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/tokens"
	"github.com/dragoman-mcp/dragoman/internal/relay/pins"
	"github.com/dragoman-mcp/dragoman/internal/team/prompt"
)

// promptEditor writes the next version of a prompt, or the first one of a new prompt. Versions never change.
type promptEditor struct {
	pages *promptPages
	forms forms
}

// newPromptPath is the path of the page for a new prompt, which can't be the name of one.
const newPromptPath = "/prompts/_new"

func (e *promptEditor) register(f *frame) {
	f.add(e.page(newPromptPath))
	f.add(e.page("/prompts/{name}/edit"))
	f.handle("POST "+newPromptPath, identity.Operator, e.save)
	f.handle("POST /prompts/{name}/edit", identity.Operator, e.save)
}

func (e *promptEditor) page(path string) Page {
	return Page{Path: path, Least: identity.Operator, Template: "promptedit.html", Sheet: "second.css", View: e.view}
}

// promptDraft has the values of the page: what somebody has written, and what is wrong with it.
type promptDraft struct {
	kept
	New                     bool
	Name, Description, Text string
	Arguments               []draftArgument
	Base                    int64             // the newest version when the page was opened; 0 for a new prompt
	Errors                  []form.Error      // for the list at the top
	Wrong                   map[string]string // what is wrong, by the name of a field
	Lead                    string
	Preview                 template.HTML
	Tokens                  string
	Number                  string
	Other                   string // the comparison with what somebody else has written meanwhile; "" for none
}

// draftArgument is an argument that the text has.
type draftArgument struct {
	Name, Description, Values string
	Value                     string // for the preview
	Error                     string
}

// Path is where the form goes, and Back where the page came from.
func (d *promptDraft) Path() string {
	if d.New {
		return prefix + newPromptPath
	}
	return promptPath(d.Name, "edit")
}

// Back returns where Cancel leads.
func (d *promptDraft) Back() string {
	if d.New {
		return promptsPath
	}
	return promptPath(d.Name)
}

// view shows the newest version, or the one that the address names, or nothing for a new prompt.
func (e *promptEditor) view(r *http.Request) (*View, error) {
	d := &promptDraft{Name: r.PathValue("name")}
	if d.New = d.Name == ""; !d.New {
		x, err := e.pages.versions(r, d.Name, 0, 1)
		if err != nil {
			return nil, err
		}
		d.Base = x.Newest
		from, _ := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
		_, v, err := e.pages.version(r, d.Name, cmp.Or(max(from, 0), x.Newest))
		if err != nil {
			return nil, err
		}
		if v != nil {
			d.Description, d.Text = v.Description, v.Text
			for _, a := range v.Arguments {
				d.Arguments = append(d.Arguments, draftArgument{Name: a.Name, Description: a.Description, Values: strings.Join(a.Values, ", ")})
			}
		}
	}
	return e.show(r, d), nil
}

// show returns the page for a draft.
func (e *promptEditor) show(r *http.Request, d *promptDraft) *View {
	d.kept, d.Number = keptFor(r, e.pages.source.StoreAway(), identity.Operator), formNumber()
	v := admin.PromptVersion{Text: d.Text}
	values := url.Values{}
	for _, a := range d.Arguments {
		v.Arguments = append(v.Arguments, admin.PromptArgument{Name: a.Name})
		values.Set("value."+a.Name, a.Value)
	}
	_, filled := previewOf(&v, values)
	d.Preview, d.Tokens = exact([]pins.Part{{Text: cmp.Or(filled, d.Text)}}, "", true), tokens.About(tokens.Text(d.Text))
	out := &View{Title: "New prompt", Crumbs: []Crumb{{"Prompts", promptsPath}}, Data: d}
	if !d.New {
		out.Title, out.Crumbs = "Edit", append(out.Crumbs, Crumb{d.Name, promptPath(d.Name)})
	}
	return out
}

// read reads the form. The arguments of the request are those that the form has fields for. Those of the draft are the
// ones that the text has now.
func (e *promptEditor) read(r *http.Request) (d *promptDraft, q admin.PromptRequest) {
	get := func(name string) string { return strings.ReplaceAll(r.PostForm.Get(name), "\r\n", "\n") }
	d = &promptDraft{Name: r.PathValue("name"), Description: strings.TrimSpace(get("description")), Text: get("text"), Wrong: map[string]string{}}
	if d.New = d.Name == ""; d.New {
		d.Name = strings.TrimSpace(get("name"))
	}
	d.Base, _ = strconv.ParseInt(get("base"), 10, 64)
	q = admin.PromptRequest{Name: d.Name, Description: d.Description, Text: d.Text}
	for _, name := range r.PostForm["argument"] {
		a := admin.PromptArgument{Name: name, Description: strings.TrimSpace(get("about." + name))}
		for _, v := range strings.Split(get("values."+name), ",") {
			if v = strings.TrimSpace(v); v != "" {
				a.Values = append(a.Values, v)
			}
		}
		q.Arguments = append(q.Arguments, a)
	}
	used, _ := prompt.Names(d.Text) // a mistake in the text is found when it's saved
	if used == nil && strings.Contains(d.Text, "{{") {
		used = r.PostForm["argument"] // what was written about them isn't lost
	}
	for _, name := range used[:min(len(used), prompt.MaxArguments)] {
		d.Arguments = append(d.Arguments, draftArgument{Name: name, Description: get("about." + name), Values: get("values." + name), Value: get("value." + name)})
	}
	return d, q
}

// save handles the form: it shows the preview, or keeps the version.
func (e *promptEditor) save(w http.ResponseWriter, r *http.Request) {
	if !e.pages.frame.parsed(w, r) {
		return
	}
	d, q := e.read(r)
	status := http.StatusOK
	if r.PostForm.Get("do") == "save" {
		k, bad := e.keep(r, d, q)
		if bad == nil {
			say(w, noted(k.Note, "Version %s of %s is written. Nobody gets it before you publish it. ", number(k.Newest), k.Name))
			http.Redirect(w, r, promptPath(k.Name)+"?version="+strconv.FormatInt(k.Newest, 10), http.StatusSeeOther)
			return
		}
		d.refused(bad, q.Arguments)
		status = bad.Status
	}
	page := newPromptPath
	if !d.New {
		page = "/prompts/{name}/edit"
	}
	e.pages.frame.again(w, r, e.page(page), func(r *http.Request) (*View, error) {
		v := e.show(r, d)
		v.Status = status
		return v, nil
	})
}

// keep adds the version, unless somebody else has added one meanwhile.
func (e *promptEditor) keep(r *http.Request, d *promptDraft, q admin.PromptRequest) (admin.KeptPrompt, *admin.Problem) {
	sent := r.PostForm.Get("number")
	if sent == "" {
		return admin.KeptPrompt{}, &admin.Problem{Status: http.StatusBadRequest, Title: "The form can't be read", Detail: "The form can't be read. Send it again."}
	}
	answer, _ := e.forms.once(r, sent, doing(func() (out admin.KeptPrompt, bad *admin.Problem) {
		all, bad := e.pages.source.OwnPrompts()
		if bad != nil {
			return out, bad
		}
		i := slices.IndexFunc(all, func(x admin.PromptEntry) bool { return x.Name == d.Name })
		switch {
		case i < 0:
		case d.New:
			return out, &admin.Problem{Status: http.StatusConflict, Title: "There is such a prompt", Errors: []admin.ValueError{{Pointer: "/name", Detail: "there is a prompt " + d.Name + " already: choose another name, or edit that one"}}}
		case all[i].Newest != d.Base:
			return out, &admin.Problem{Type: changedMeanwhile, Status: http.StatusConflict, Title: "Somebody else has written a version", Detail: fmt.Sprintf("%s has written version %d since you opened this page. What you have written is still here, and becomes the version after it if you send it again.", all[i].By, all[i].Newest)}
		}
		ctx, by := acting(r)
		return e.pages.source.AddPrompt(ctx, by, q)
	}))
	k, bad := acted[admin.KeptPrompt](answer)
	if bad != nil && bad.Type == changedMeanwhile {
		now, _ := e.pages.versions(r, d.Name, 0, 1)
		d.Other, d.Base = promptPath(d.Name, fmt.Sprintf("%d..%d", d.Base, now.Newest)), now.Newest
	}
	return k, bad
}

// changedMeanwhile is the type of the problem if two people write at the same time.
const changedMeanwhile = "changed"

// refused puts what is wrong beside the fields that it's about, and into the list at the top. sent are the arguments
// that the form had fields for.
func (d *promptDraft) refused(bad *admin.Problem, sent []admin.PromptArgument) {
	d.Lead = "The version was not written."
	if len(bad.Errors) == 0 {
		d.Lead += " " + bad.Error()
	}
	for _, x := range bad.Errors {
		field, label := strings.TrimPrefix(x.Pointer, "/"), ""
		if at, ok := strings.CutPrefix(field, "arguments/"); ok {
			i, err := strconv.Atoi(at)
			if err != nil || i < 0 || i >= len(sent) {
				continue
			}
			label, field = sent[i].Name, "text" // where it is if the text doesn't have it any more
			for j := range d.Arguments {
				if d.Arguments[j].Name == label {
					d.Arguments[j].Error, field = x.Detail, "about."+label
				}
			}
		}
		if !strings.Contains(field, ".") {
			d.Wrong[field] = x.Detail
		}
		d.Errors = append(d.Errors, form.Error{ID: "p-" + field, Name: cmp.Or(label, field), Text: excerpt.Cut(x.Detail, 400)})
	}
}
