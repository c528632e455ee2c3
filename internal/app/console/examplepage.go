package console

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/pins"
)

// Exampler keeps runs as examples; *admin.API implements it.
type Exampler interface {
	KeptExamples() (admin.Examples, *admin.Problem)
	KeptExample(ctx context.Context, id string) (admin.ExampleDetails, *admin.Problem)
	KeepExample(r *http.Request, q admin.ExampleRequest) (admin.Example, *admin.Problem)
	RunExample(ctx context.Context, by admin.RunBy, id string) (admin.Run, *admin.Problem)
	RemoveExample(r *http.Request, id string) (admin.Example, *admin.Problem)
}

// exampleRow is a kept example as a row of a table.
type exampleRow struct {
	admin.Example
	Path, Class, Word string
}

func exampleRowOf(x admin.Example) exampleRow {
	run := runRowOf(admin.Run{State: x.State})
	return exampleRow{x, pathOf("playground", x.ID), run.Class, run.Word}
}

// exampleRows returns the kept examples that are meant.
func (p *playPages) exampleRows(meant func(*admin.Example) bool) (rows []exampleRow) {
	all, _ := p.examples.KeptExamples() // without a store there are none
	for i := range all.Examples {
		if meant(&all.Examples[i]) {
			rows = append(rows, exampleRowOf(all.Examples[i]))
		}
	}
	return rows
}

// exampleView has the values of the page of a kept example.
type exampleView struct {
	exampleRow
	Form      string // the path of the form with the example's values
	Asks      bool   // the example has to be run from the form, because something is to be filled in or confirmed
	Arguments message
	Result    message // as it was kept; empty if it was too large
	Again     *runRow // the run to compare with, or nil
	Compared  *review // nil if there is nothing to compare
	Differs   string
	Runs      []runRow
	Snippets  []snippet
	Number    string
	Key       string
}

func (p *playPages) registerExamples(f *frame) {
	f.add(Page{Path: "/playground/{id}", Least: identity.Viewer, Template: "example.html", Sheet: "review.css", View: p.example})
	f.handle("POST /playground/{id}", identity.Operator, p.changeExample)
	f.handle("POST /runs/{id}/keep", identity.Operator, p.keep)
}

func (p *playPages) example(r *http.Request) (*View, error) {
	x, bad := p.examples.KeptExample(r.Context(), r.PathValue("id"))
	if bad != nil {
		return nil, &pageError{Status: bad.Status, Title: bad.Title, Text: bad.Detail, Next: Crumb{"Show the playground", pathOf("playground")}}
	}
	all := r.URL.Query().Get("all") != ""
	v := &exampleView{exampleRow: exampleRowOf(x.Example), Number: formNumber(), Form: pathOf("playground") + "?example=" + url.QueryEscape(x.ID)}
	if item, err := p.find(x.Server, kindOf(x.Method), x.Item); err == nil {
		v.Asks = item.Destructive
	}
	v.Asks = v.Asks || x.Secret
	if len(x.Arguments) > 0 {
		v.Arguments = messageOf(formatted(x.Arguments), all, "?all=1#arguments")
	}
	if len(x.Result) > 0 {
		v.Result = messageOf(formatted(x.Result), all, "?all=1#kept")
	}
	for _, run := range p.source.FindRuns(x.Server, x.Item, mostRecentRuns) {
		v.Runs = append(v.Runs, runRowOf(run))
		v.Key += run.ID + run.State
	}
	moving := false
	if id := r.URL.Query().Get("run"); id != "" {
		if run, bad := p.source.FindRun(id); bad == nil && run.Server == x.Server && run.Item == x.Item {
			row := runRowOf(run)
			v.Again, moving = &row, !row.Over()
			v.compare(x.Result, &run)
			v.Key += run.State
		}
	}
	server, q := x.Request()
	v.Snippets = snippetsOf(admin.Base(r), server, &q)
	return &View{Title: x.Name, Crumbs: []Crumb{{"Playground", pathOf("playground")}}, Data: v, Moving: moving}, nil
}

// compare sets how the result of a run differs from what was kept.
func (v *exampleView) compare(kept []byte, run *admin.Run) {
	now := admin.ResultOf(run)
	switch {
	case run.Ended == nil:
		return
	case len(kept) == 0 || len(now) == 0:
		v.Differs = "One of the results is larger than 64 KiB, or missing, so they can't be compared."
		return
	}
	v.Compared = &review{}
	v.Compared.show(pins.Compare(kept, now))
	if v.Compared.Masked() {
		v.Compared, v.Differs = nil, "Both results are the same."
	}
}

// keep handles the form that keeps a run.
func (p *playPages) keep(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	type kept struct {
		x   admin.Example
		bad *admin.Problem
	}
	answer, _ := p.forms.once(r, r.PostForm.Get("number"), func() any {
		x, bad := p.examples.KeepExample(r, admin.ExampleRequest{Run: r.PathValue("id"), Name: r.PostForm.Get("name")})
		return kept{x, bad}
	})
	made, _ := answer.(kept)
	if made.bad != nil || made.x.ID == "" {
		p.forms.forget(r, r.PostForm.Get("number"))
		text := "This form was sent some minutes ago. Send it again."
		if made.bad != nil {
			text = made.bad.Error()
		}
		sayLonger(w, text)
		http.Redirect(w, r, pathOf("runs", r.PathValue("id")), http.StatusSeeOther)
		return
	}
	say(w, "The run is kept.")
	http.Redirect(w, r, pathOf("playground", made.x.ID), http.StatusSeeOther)
}

// changeExample handles the buttons of a kept example.
func (p *playPages) changeExample(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	id := r.PathValue("id")
	back := pathOf("playground", id)
	if r.PostForm.Get("do") == "remove" {
		x, bad := p.examples.RemoveExample(r, id)
		if bad != nil {
			sayLonger(w, bad.Error())
			http.Redirect(w, r, back, http.StatusSeeOther)
			return
		}
		say(w, excerpt.Line(x.Name, 80)+" was removed.")
		http.Redirect(w, r, pathOf("playground"), http.StatusSeeOther)
		return
	}
	type started struct {
		run admin.Run
		bad *admin.Problem
	}
	answer, _ := p.forms.once(r, r.PostForm.Get("number"), func() any {
		run, bad := p.examples.RunExample(r.Context(), admin.ByConsole(r, stateOf(r).viewer.who), id)
		return started{run, bad}
	})
	made, _ := answer.(started)
	switch {
	case made.bad != nil:
		p.forms.forget(r, r.PostForm.Get("number"))
		sayLonger(w, made.bad.Error())
	case made.run.ID == "":
		say(w, "This form was sent some minutes ago. Press the button again.")
	default:
		back += "?run=" + url.QueryEscape(made.run.ID)
	}
	http.Redirect(w, r, back, http.StatusSeeOther)
}

// snippet is a text with which somebody repeats a run elsewhere.
type snippet struct{ ID, Title, Text string }

// snippetsOf returns how a run is repeated elsewhere; see [admin.Base]. server is "" for an endpoint of the project.
func snippetsOf(base, server string, q *admin.RunRequest) (all []snippet) {
	endpoint := endpointOf(base, server)
	if server == "" && q.Endpoint == admin.AtSearch {
		endpoint = base + "/find/mcp"
	}
	c := callOf(q)
	if command := c.command(endpoint); command != "" {
		all = append(all, snippet{"copy-cli", "As a command", command})
	}
	return append(all,
		snippet{"copy-curl", "With curl", c.curl(endpoint)},
		snippet{"copy-ts", "In TypeScript", c.typescript(endpoint)},
		snippet{"copy-go", "In Go", c.golang(endpoint)})
}

// visibleArguments returns the arguments of a call as a snippet shows them.
func visibleArguments(raw []byte) string {
	if len(raw) == 0 || strings.TrimSpace(string(raw)) == "" {
		return "{}"
	}
	return visibleJSON(string(raw))
}
