package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// Editor changes the servers of the configuration file. *admin.API implements Editor. The results
// contain no secrets.
type Editor interface {
	ServerText(server string) (admin.ServerText, *admin.Problem)
	PreviewEdit(server string, e admin.ServerEdit) (admin.Preview, *admin.Problem)
	KeepEdit(ctx context.Context, server string, e admin.ServerEdit) (admin.Kept, *admin.Problem)
}

// editView has the values of the page that changes a server in the configuration file.
type editView struct {
	Name       string
	Text       admin.ServerText
	Do         string // the change, as in admin.ServerEdit
	Title      string
	About      string // what the change means for clients
	Button     string // the label of the button that saves the change
	Problem    string // why the last action failed; "" if it succeeded
	Preview    *admin.Preview
	Sure       string   // see sureWords
	Show, Hide []string // the tools of the change
	Back       string
	Disabled   bool
	base       string
}

// Way returns the address of this page for another change.
func (v *editView) Way(do string) string { return v.base + "?do=" + do }

// DiffLines returns the lines of the diff of the configuration file.
func (v *editView) DiffLines() []diffLine { return diffLines(v.Preview.Diff) }

// editWords are what somebody types who changes the configuration file; see sure.
const editWords = "change it"

// editPage is the page that changes a server in the configuration file: its text, its tools, whether it is
// disabled, and whether it is there at all. Nothing is written before the page has shown the change.
type editPage struct {
	frame  *frame
	editor Editor                  // may be nil; see Options.Add
	config func() *config.Snapshot // may be nil
	where  *where
}

func (p *editPage) register(f *frame) {
	f.add(p.page())
	f.handleSure("POST /servers/{name}/edit", identity.Admin, editWords, p.change)
}

func (p *editPage) page() Page {
	return Page{Path: "/servers/{name}/edit", Least: identity.Admin, Template: "edit.html", View: func(r *http.Request) (*View, error) {
		return p.view(r, &editView{}, admin.ServerEdit{Do: r.URL.Query().Get("do")})
	}}
}

// editPath returns the address of the page for a server.
func editPath(server string) string { return pathOf("servers", server, "edit") }

// can reports whether whoever sent a request may change a server here, and whether the configuration file
// has it.
func (p *editPage) can(r *http.Request, server string) bool {
	if p.editor == nil || p.config == nil || !may(r, identity.Admin) {
		return false
	}
	s := p.config()
	_, ok := s.Server(server)
	return ok && p.where.of(s)["mcpServers."+server] > 0
}

// edits has the titles, the buttons and the explanations of the changes.
var edits = map[string]struct{ title, button, about string }{
	admin.EditDisable: {"Disable", "Disable", "The server stops, and its tools leave the lists of all clients. Running calls have 30 s to end. The entry stays in the file, so you can enable it again."},
	admin.EditEnable:  {"Enable", "Enable", "Dragoman starts the server again, and clients see its tools."},
	admin.EditRemove:  {"Remove", "Remove", "The server stops, and its tools leave the lists of all clients. Running calls have 30 s to end. The entry leaves the file, and so do its settings."},
	admin.EditTools:   {"Change the tools of", "Save", "What expose hides is in no list, and clients can't call it. The server itself keeps running."},
	admin.EditEntry:   {"Edit", "Save", "This is what the configuration file says about the server. Secrets are shown as ***; a line that you leave as it is keeps its secret."},
}

// view returns the page and sets the remaining values of v.
func (p *editPage) view(r *http.Request, v *editView, e admin.ServerEdit) (*View, error) {
	name := r.PathValue("name")
	if p.editor == nil {
		return nil, notFound("There is no page at this address", "This console cannot change servers.", Crumb{"Show all servers", pathOf("servers")})
	}
	text, bad := p.editor.ServerText(name)
	if bad != nil {
		return nil, &pageError{Status: bad.Status, Title: bad.Title, Text: bad.Detail, Next: Crumb{"Show all servers", pathOf("servers")}}
	}
	v.Name, v.Text, v.base, v.Back, v.Disabled = name, text, editPath(name), pathOf("servers", name), text.Disabled
	if text.Disabled {
		v.Back = pathOf("servers")
	}
	words, known := edits[e.Do]
	if !known || e.Do == admin.EditTools && len(e.Tools) == 0 {
		e.Do = admin.EditEntry
		words = edits[e.Do]
	}
	v.Sure = sureWords(r, editWords)
	v.Do, v.Title, v.Button, v.About = e.Do, words.title+" server "+name, words.button, words.about
	if e.Do != admin.EditTools && e.Do != admin.EditEntry {
		v.Button += " server " + name // a server may be called everything
	}
	if e.Do != admin.EditEntry || r.Method == http.MethodPost {
		preview, bad := p.editor.PreviewEdit(name, e)
		if v.Preview = &preview; bad != nil {
			return nil, bad
		}
	}
	if e.Do == admin.EditEntry && r.Method == http.MethodPost {
		v.Text.Entry, v.Text.Settings = e.Entry, e.Settings
	}
	for tool, shown := range e.Tools {
		if shown {
			v.Show = append(v.Show, tool)
		} else {
			v.Hide = append(v.Hide, tool)
		}
	}
	slices.Sort(v.Show)
	slices.Sort(v.Hide)
	return &View{Title: strings.Replace(words.title, "Change the tools of", "Tools", 1), Crumbs: []Crumb{{"Servers", pathOf("servers")}, {name, v.Back}}, Data: v, Stream: v.base}, nil
}

// editOf reads a change from a form. The server's page sends the names of all tools that it shows, and
// those that are on. Names come from the server, so they are escaped: no attribute has invisible
// characters, and no browser changes line breaks in them.
func (p *editPage) editOf(r *http.Request) admin.ServerEdit {
	q := r.PostForm
	e := admin.ServerEdit{Do: q.Get("do"), Entry: q.Get("entry"), Settings: q.Get("settings"), Hash: q.Get("hash"), Tools: map[string]bool{}}
	s, _ := p.config().Server(r.PathValue("name"))
	for _, field := range []string{"tool", "show", "hide"} {
		for _, value := range q[field] {
			name, err := url.QueryUnescape(value)
			if err != nil {
				continue
			}
			shown := field == "show" || field == "tool" && slices.Contains(q["on"], value)
			if _, hidden := s.Expose.Tools.Hides(name); field != "tool" || shown == hidden {
				e.Tools[name] = shown
			}
		}
	}
	return e
}

// change shows a change, or saves it if the form has the hash of its preview.
func (p *editPage) change(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	name := r.PathValue("name")
	if p.editor == nil || p.config == nil {
		p.frame.fail(w, r, notFound("There is no page at this address", "This console cannot change servers.", Crumb{"Show all servers", pathOf("servers")}))
		return
	}
	v, e, status := &editView{}, p.editOf(r), 0
	if e.Do == admin.EditTools && len(e.Tools) == 0 {
		say(w, "No tool of "+excerpt.Line(name, 64)+" has changed.")
		http.Redirect(w, r, pathOf("servers", name)+"#tools", http.StatusSeeOther)
		return
	}
	switch {
	case r.PostForm.Has("save") && !sure(r, editWords):
		v.Problem, status = unsure(editWords), http.StatusForbidden
	case r.PostForm.Has("save"):
		kept, bad := p.editor.KeepEdit(r.Context(), name, e)
		if bad == nil {
			sayLonger(w, keptText(name, e.Do, &kept))
			to := url.URL{Path: pathOf("servers")}
			if e.Do != admin.EditRemove && e.Do != admin.EditDisable {
				to.Path = pathOf("servers", name)
			}
			http.Redirect(w, r, to.Path, http.StatusSeeOther)
			return
		}
		v.Problem, status = bad.Error(), bad.Status
	}
	p.frame.again(w, r, p.page(), func(r *http.Request) (*View, error) {
		view, err := p.view(r, v, e)
		if view != nil {
			view.Status = status
		}
		return view, err
	})
}

// keptText says what was saved and where the backup is.
func keptText(name, do string, kept *admin.Kept) string {
	done := map[string]string{admin.EditDisable: "is disabled", admin.EditEnable: "is enabled", admin.EditRemove: "is removed"}[do]
	if done == "" {
		done = "is changed"
	}
	out := name + " " + done + ". The file as it was is " + kept.Backup + "."
	if kept.Problem != "" {
		out += " " + strings.TrimSuffix(kept.Problem, ".") + "."
	}
	return out
}
