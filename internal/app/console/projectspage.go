package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// ProjectKeeper shows projects to those who may read of them, and changes those of the store.
type ProjectKeeper interface {
	ProjectsFor(ctx context.Context, who *identity.Principal) ([]admin.ProjectEntry, *admin.Problem)
	ProjectFor(ctx context.Context, who *identity.Principal, name string) (admin.ProjectDetails, *admin.Problem)
	MayAddProjects(who *identity.Principal) bool
	// ProjectSums says how all projects do. Only an admin of default may see that.
	ProjectSums() []admin.ProjectSum
	// TryProject says what a new text would change, and PutProject replaces a text that still has the version match; ""
	// adds a project. RemoveProject removes one, and ExportProject returns it as a configuration file.
	TryProject(r *http.Request, name, text string) (admin.ProjectPreview, *admin.Problem)
	PutProject(r *http.Request, name, text, match string) (admin.KeptProject, *admin.Problem)
	RemoveProject(r *http.Request, name, match string) (admin.RemovedProject, *admin.Problem)
	ExportProject(r *http.Request, name string) ([]byte, *admin.Problem)
}

// projectPages are the pages about the projects. They're about the whole process; package admin decides who sees which
// project, and who may change it.
type projectPages struct {
	frame  *frame
	source ProjectKeeper
	forms  forms
}

// projectList has the values of the page that lists the projects.
type projectList struct {
	All     int
	Rows    []projectRow
	Pager   pager
	Search  string
	Key     string
	Add     bool // the viewer may add a project
	Number  string
	Name    string // what was typed
	Text    string
	Problem string
	Sure    string // what to type before the project is added; "" if nothing has to be
}

// projectRow is a project in a list, or at the top of its page.
type projectRow struct {
	admin.ProjectEntry
	Enters bool // the viewer has a role in the project, so they may see its pages
}

// Page returns the path of the page about the project, and First that of the first of its own pages.
func (p projectRow) Page() string  { return pathOf("projects", p.Name) }
func (p projectRow) First() string { return firstOf(p.Name) }

func (v *projectView) Page() string  { return pathOf("projects", v.Name) }
func (v *projectView) First() string { return firstOf(v.Name) }

// firstOf returns the path of the first page of a project, on a page of default.
func firstOf(name string) string {
	if name == event.DefaultProject {
		return prefix + "/"
	}
	return projectPath(name)
}

// projectView has the values of the page of one project.
type projectView struct {
	admin.ProjectDetails
	Enters  bool   // see projectRow
	Match   string // the version of the text that the form is about
	Text    string // the text in the form
	Typed   bool   // the text in the form isn't the project's
	Preview *admin.ProjectPreview
	Theirs  string // the text that somebody else has written meanwhile
	Problem string
	Sure    string // what to type before the text is saved; "" if nothing has to be
	Key     string
}

func (p *projectPages) register(f *frame) {
	f.add(p.listPage())
	f.add(p.page())
	personal := allowed{personal: true, sure: addWords}
	f.register("POST /projects", personal, p.add)
	f.register("POST /projects/{name}", personal, p.change)
	f.register("GET /projects/{name}/export", allowed{personal: true}, p.export)
}

func (p *projectPages) listPage() Page {
	return Page{Path: "/projects", Whole: true, Personal: true, Template: "projects.html", Sheet: "second.css", Nav: "Projects", Group: systems, Key: "P", View: func(r *http.Request) (*View, error) { return p.list(r, &projectList{}) }}
}

func (p *projectPages) page() Page {
	return Page{Path: "/projects/{name}", Whole: true, Personal: true, Template: "project.html", Sheet: "second.css", View: func(r *http.Request) (*View, error) { return p.view(r, &projectView{}) }}
}

// refusedProject returns the error for a project that the viewer can't see.
func refusedProject(bad *admin.Problem) error {
	return problemError(bad, Crumb{"Show all projects", pathOf("projects")})
}

// list returns the page with all projects, and sets the remaining values of v.
func (p *projectPages) list(r *http.Request, v *projectList) (*View, error) {
	who := stateOf(r).viewer.who
	all, bad := p.source.ProjectsFor(r.Context(), who)
	if bad != nil {
		return nil, refusedProject(bad)
	}
	v.All, v.Search, v.Add, v.Number = len(all), r.URL.Query().Get("q"), p.source.MayAddProjects(who), formNumber()
	var found []admin.ProjectEntry
	for _, x := range all {
		if v.Key += fmt.Sprint(x.Name, x.Home, x.Servers, x.Problem, x.ETag, "\n"); strings.Contains(strings.ToLower(x.Name+" "+x.Title), strings.ToLower(v.Search)) {
			found = append(found, x)
		}
	}
	found, v.Pager = paged(found, r.URL.Query())
	for _, x := range found {
		v.Rows = append(v.Rows, projectRow{x, p.enters(r, &x)})
	}
	return &View{Title: "Projects", Data: v}, nil
}

// enters reports whether the viewer may see the pages of a project.
func (p *projectPages) enters(r *http.Request, x *admin.ProjectEntry) bool {
	return hasRole(stateOf(r).from.access, stateOf(r).viewer.who, x.Name)
}

// view returns the page of a project, and sets the remaining values of v.
func (p *projectPages) view(r *http.Request, v *projectView) (*View, error) {
	name := r.PathValue("name")
	x, bad := p.source.ProjectFor(r.Context(), stateOf(r).viewer.who, name)
	if bad != nil {
		return nil, refusedProject(bad)
	}
	v.ProjectDetails, v.Enters = x, p.enters(r, &x.ProjectEntry)
	if !v.Typed {
		v.Text, v.Match = x.Text, x.ETag
	}
	if v.Preview != nil && v.Preview.Grows {
		v.Sure = sureWords(r, addWords)
	}
	v.Key = fmt.Sprint(x.ETag, x.Problem, x.Servers, x.Members)
	return &View{Title: name, Crumbs: []Crumb{{"Projects", pathOf("projects")}}, Data: v}, nil
}

// add handles the form that adds a project.
func (p *projectPages) add(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	if r.PostForm.Get("number") == "" {
		p.frame.fail(w, r, &pageError{Status: http.StatusBadRequest, Title: "The form can't be read", Text: "Load the page again.", Next: Crumb{"Show all projects", pathOf("projects")}})
		return
	}
	v := &projectList{Name: strings.TrimSpace(r.PostForm.Get("name")), Text: r.PostForm.Get("text")}
	result, _ := p.forms.once(r, r.PostForm.Get("number"), func() any {
		if v.Name == "" {
			return &admin.Problem{Status: http.StatusUnprocessableEntity, Title: "The project needs a name"}
		}
		if v.Text != "" && !sure(r, addWords) {
			if seen, bad := p.source.TryProject(r, v.Name, v.Text); bad != nil || seen.Grows {
				return cmp.Or(bad, notSure)
			}
		}
		_, bad := p.source.PutProject(r, v.Name, v.Text, "")
		return bad
	})
	bad, known := result.(*admin.Problem)
	switch {
	case !known:
		v.Problem = "This form was sent some minutes ago. See in the list whether there is the project."
		bad = &admin.Problem{Status: http.StatusConflict}
	case bad == nil:
		say(w, "The project "+v.Name+" was added.")
		http.Redirect(w, r, pathOf("projects", v.Name), http.StatusSeeOther)
		return
	default:
		v.Problem = problemText(bad)
		switch {
		case bad == notSure:
			v.Sure = addWords
		case bad.Status == http.StatusPreconditionFailed:
			v.Problem = "There is already a project with this name. Choose another one."
		}
	}
	p.forms.forget(r, r.PostForm.Get("number"))
	p.frame.again(w, r, p.listPage(), func(r *http.Request) (*View, error) { return withStatus(p.list, r, v, bad.Status) })
}

// withStatus returns the page that view makes, with a status.
func withStatus[V any](view func(*http.Request, V) (*View, error), r *http.Request, v V, status int) (*View, error) {
	page, err := view(r, v)
	if page != nil {
		page.Status = status
	}
	return page, err
}

// problemText returns a problem of the API as a page says it.
func problemText(bad *admin.Problem) string {
	if bad.Detail == "" {
		return bad.Title + "."
	}
	return bad.Title + ". " + bad.Detail
}

// change handles the forms of a project's page.
func (p *projectPages) change(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	name, form := r.PathValue("name"), r.PostForm
	// Browsers send CR LF; the text has LF.
	v := &projectView{Typed: true, Match: form.Get("match"), Text: strings.ReplaceAll(form.Get("text"), "\r\n", "\n")}
	var bad *admin.Problem
	switch form.Get("do") {
	case "preview":
		var seen admin.ProjectPreview
		if seen, bad = p.source.TryProject(r, name, v.Text); bad == nil {
			v.Preview = &seen
		}
	case "save":
		if bad = p.unsure(r, name, v); bad != nil {
			break
		}
		if _, bad = p.source.PutProject(r, name, v.Text, form.Get("match")); bad == nil {
			say(w, "The project "+name+" was changed.")
			http.Redirect(w, r, pathOf("projects", name), http.StatusSeeOther)
			return
		}
	case "remove":
		v.Typed = false
		if form.Get("name") != name {
			bad = &admin.Problem{Status: http.StatusForbidden, Title: "Nothing has been removed", Detail: "Type the project's name to remove it."}
			break
		}
		var gone admin.RemovedProject
		if gone, bad = p.source.RemoveProject(r, name, form.Get("match")); bad == nil {
			sayLonger(w, fmt.Sprintf("The project %s was removed. With it ended keys: %d, secrets: %d, roles of people: %d.", name, gone.EndedKeys, gone.EndedSecrets, gone.EndedPeople))
			http.Redirect(w, r, pathOf("projects"), http.StatusSeeOther)
			return
		}
	default:
		bad = &admin.Problem{Status: http.StatusBadRequest, Title: "The form can't be read", Detail: "Load the page again."}
	}
	status := http.StatusOK
	if bad != nil {
		v.Problem, status = problemText(bad), bad.Status
		if bad.Status == http.StatusPreconditionFailed {
			p.meanwhile(r, name, v)
		}
	}
	p.frame.again(w, r, p.page(), func(r *http.Request) (*View, error) { return withStatus(p.view, r, v, status) })
}

// notSure is the problem of a text that does more on this machine than the one before, sent by somebody who has signed in
// a while ago.
var notSure = &admin.Problem{Status: http.StatusForbidden, Title: "Nothing was saved", Detail: "The text starts a command, reads a file or sends something to an address. " + unsure(addWords)}

// unsure returns notSure if a text needs typed words that the form in r doesn't have. Then the page says what it changes.
func (p *projectPages) unsure(r *http.Request, name string, v *projectView) *admin.Problem {
	if sure(r, addWords) {
		return nil
	}
	seen, bad := p.source.TryProject(r, name, v.Text)
	if bad != nil || !seen.Grows {
		return nil // who saves it hears what is wrong
	}
	v.Preview = &seen
	return notSure
}

// meanwhile shows what somebody else has made of a project. The form keeps what was typed, and its next version
// replaces theirs.
func (p *projectPages) meanwhile(r *http.Request, name string, v *projectView) {
	x, bad := p.source.ProjectFor(r.Context(), stateOf(r).viewer.who, name)
	if bad != nil || !v.Typed {
		return
	}
	v.Theirs, v.Match = x.Text, x.ETag
	if seen, bad := p.source.TryProject(r, name, v.Text); bad == nil {
		v.Preview = &seen
	}
}

// export handles GET /console/projects/NAME/export. It sends the project as a configuration file.
func (p *projectPages) export(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	file, bad := p.source.ExportProject(r, name)
	if bad != nil {
		p.frame.fail(w, r, refusedProject(bad))
		return
	}
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("Content-Disposition", `attachment; filename="`+admin.PathName(name)+`.yaml"`)
	_, _ = w.Write(file)
}
