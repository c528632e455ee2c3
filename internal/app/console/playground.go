package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/form"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// The kinds of a playItem, which are also the names of the parameter with the item's name.
const (
	kindTool     = "tool"
	kindPrompt   = "prompt"
	kindResource = "resource"
)

// playItem is what a run uses: a tool, a prompt or a resource.
type playItem struct {
	Server  string // "" for an item that only the project's endpoint has, or whose server isn't known
	Kind    string
	Name    string // as the server calls it; for a resource its URI
	Offered string // as clients of the project's endpoint do; "" if they don't see it
	About   string
	// Destructive is true if the server says that the tool is destructive.
	Destructive bool
	schema      []byte // of the arguments; nil if it isn't known
	fresh       func() *form.Form
	check       func(*form.Form, []byte) bool // reports what the form itself doesn't; may be nil
}

// usual returns the endpoint at which the item is used if nobody says otherwise.
func (x *playItem) usual() string {
	if x.Server == "" {
		return admin.AtProject
	}
	return admin.AtServer
}

// Path returns the path of the item's page in the playground.
func (x *playItem) Path() string { return playPath(x.Server, x.Kind, x.Name) }

// playPath returns the path of an item's page in the playground.
func playPath(server, kind, name string) string {
	q := url.Values{kind: {name}}
	if server != "" {
		q.Set("server", server)
	}
	return pathOf("playground") + "?" + q.Encode()
}

func toolItem(t *admin.ToolDetail) playItem {
	schema, _ := inputSchema(t)
	return playItem{
		Server: t.Server, Kind: kindTool, Name: t.Name, Offered: t.Offered, About: t.About, Destructive: t.Effect == "destructive",
		schema: schema, fresh: func() *form.Form { return argumentsForm(t) },
	}
}

// playView has the values of the playground.
type playView struct {
	Item     *playItem // nil if the user chooses one
	Run      *runForm
	Runs     []runRow
	Servers  []choice
	Kinds    []choice
	Search   string
	Rows     []playItem
	More     int
	Examples []exampleRow
	RunKey   string
	Looks    bool // the viewer may look as a key
}

// mostPlayRows is the maximum number of items that the playground lists; a search finds the others.
const mostPlayRows = 50

// playPages are the playground: the page that runs an item as a client of the user's choice, and the kept examples.
type playPages struct {
	frame  *frame
	source interface {
		FindTools(admin.ToolQuery) admin.FoundTools
		FindTool(server, name string) (admin.ToolDetail, *admin.Problem)
		FindItems(admin.ItemQuery) admin.FoundItems
		StartRun(ctx context.Context, by admin.RunBy, server string, q admin.RunRequest) (admin.Run, *admin.Problem)
		FindRun(id string) (admin.Run, *admin.Problem)
		FindRuns(server, name string, limit int) []admin.Run
	}
	examples Exampler
	forms    forms
}

func (p *playPages) register(f *frame) {
	f.add(p.page())
	f.handle("POST /playground", identity.Operator, p.start)
	p.registerExamples(f)
}

func (p *playPages) page() Page {
	return Page{
		Path: "/playground", Least: identity.Viewer, Template: "playground.html", Sheet: "second.css", Nav: "Playground", Group: catalogs, Key: "G",
		View: func(r *http.Request) (*View, error) { return p.view(r, r.URL.Query()) },
	}
}

func (p *playPages) view(r *http.Request, q url.Values) (*View, error) {
	if id := q.Get("run"); id != "" {
		earlier, bad := p.source.FindRun(id)
		if bad != nil {
			return nil, notFound("No run has the id "+excerpt.Quote(id, 64), "Dragoman keeps the last 100 runs, and a restart clears them.", Crumb{"Show the playground", pathOf("playground")})
		}
		kind := kindOf(earlier.Method)
		x, err := p.find(earlier.Server, kind, cmp.Or(earlier.Item, earlier.Name))
		if err != nil {
			return nil, err
		}
		f := runFormOf(x)
		f.fillFrom(earlier.Endpoint, earlier.Revision, earlier.Capabilities, earlier.Arguments)
		return p.show(f, 0), nil
	}
	if id := q.Get("example"); id != "" {
		kept, bad := p.examples.KeptExample(r.Context(), id)
		if bad != nil {
			return nil, &pageError{Status: bad.Status, Title: bad.Title, Text: bad.Detail, Next: Crumb{"Show the playground", pathOf("playground")}}
		}
		x, err := p.find(kept.Server, kindOf(kept.Method), kept.Item)
		if err != nil {
			return nil, err
		}
		f := runFormOf(x)
		f.fillFrom(kept.Endpoint, kept.Revision, kept.Capabilities, kept.Arguments)
		return p.show(f, 0), nil
	}
	for _, kind := range []string{kindTool, kindPrompt, kindResource} {
		if name := q.Get(kind); name != "" {
			x, err := p.find(q.Get("server"), kind, name)
			if err != nil {
				return nil, err
			}
			f := runFormOf(x)
			if at := q.Get("at"); at != "" {
				f.choose(at, mcp.LatestLegacy.String(), []string{admin.CanForm, admin.CanURL})
			}
			return p.show(f, 0), nil
		}
	}
	return p.list(r, q), nil
}

// kindOf returns the kind of the item that a method uses.
func kindOf(method string) string {
	return map[string]string{mcp.MethodGetPrompt: kindPrompt, mcp.MethodReadResource: kindResource}[method] + map[string]string{mcp.MethodCallTool: kindTool}[method]
}

// show returns the page with the form of an item.
func (p *playPages) show(f *runForm, status int) *View {
	v := &playView{Item: &f.item, Run: f}
	for _, x := range p.source.FindRuns(f.item.Server, f.item.Name, mostRecentRuns) {
		v.Runs = append(v.Runs, runRowOf(x))
		v.RunKey += x.ID + x.State
	}
	v.Examples = p.exampleRows(func(x *admin.Example) bool { return x.Server == f.item.Server && x.Item == f.item.Name })
	return &View{Title: excerpt.Line(f.item.Name, 80), Crumbs: []Crumb{{"Playground", pathOf("playground")}}, Data: v, Status: status}
}

// find returns an item by what it's called at its server. Without a server, it's what the project's endpoint has.
func (p *playPages) find(server, kind, name string) (x playItem, err error) {
	x = playItem{Server: server, Kind: kind, Name: name, Offered: name, fresh: func() *form.Form { return &form.Form{Whole: true, Text: "{}"} }}
	if kind == kindResource {
		x.fresh = func() *form.Form { return &form.Form{} }
		return x, nil
	}
	if server == "" {
		return x, nil
	}
	if kind == kindTool {
		t, bad := p.source.FindTool(server, name)
		if bad != nil {
			return x, notFound("No tool of "+excerpt.Line(server, 64)+" has the name "+excerpt.Quote(name, 80), "The server may have changed its list of tools.", Crumb{"Show the playground", pathOf("playground")})
		}
		return toolItem(&t), nil
	}
	for q := (admin.ItemQuery{Server: server, Method: mcp.MethodListPrompts, Limit: 500}); ; q.From += q.Limit {
		found := p.source.FindItems(q)
		if i := slices.IndexFunc(found.Items, func(x admin.Item) bool { return x.Name == name }); i >= 0 {
			item := found.Items[i]
			x.About, x.Offered, x.fresh = item.Description, item.Offered, func() *form.Form { return promptForm(&item, "a") }
			x.check = func(f *form.Form, arguments []byte) bool { return missingOf(f, &item, arguments) }
			return x, nil
		}
		if q.From+q.Limit >= found.Total {
			return x, notFound("No prompt of "+excerpt.Line(server, 64)+" has the name "+excerpt.Quote(name, 80), "The server may have changed its list of prompts.", Crumb{"Show the playground", pathOf("playground")})
		}
	}
}

// list returns the page on which the user chooses an item.
func (p *playPages) list(r *http.Request, q url.Values) *View {
	v := &playView{Search: q.Get("q"), Looks: may(r, identity.Admin)}
	var names []string
	for _, s := range statusOf(r).Servers {
		names = append(names, s.Name, s.Name)
	}
	kind := cmp.Or(q.Get("kind"), kindTool)
	v.Servers = choices(q.Get("server"), "any server", names...)
	v.Kinds = []choice{{kindTool, "tools", kind == kindTool}, {kindPrompt, "prompts", kind == kindPrompt}, {kindResource, "resources", kind == kindResource}}
	if kind == kindTool {
		found := p.source.FindTools(admin.ToolQuery{Server: q.Get("server"), Text: v.Search, Limit: mostPlayRows})
		for _, t := range found.Tools {
			if t.Name != "" {
				v.Rows = append(v.Rows, playItem{Server: t.Server, Kind: kindTool, Name: t.Name, About: t.About, Destructive: t.Effect == "destructive"})
			}
		}
		v.More = found.Total - len(found.Tools)
	} else {
		method := map[string]string{kindPrompt: mcp.MethodListPrompts, kindResource: mcp.MethodListResources}[kind]
		for i := 0; i < len(names); i += 2 {
			if one := q.Get("server"); one != "" && one != names[i] {
				continue
			}
			found := p.source.FindItems(admin.ItemQuery{Server: names[i], Method: method, Text: v.Search, Limit: mostPlayRows})
			for _, x := range found.Items {
				if len(v.Rows) < mostPlayRows {
					v.Rows = append(v.Rows, playItem{Server: x.Server, Kind: kind, Name: cmp.Or(x.URI, x.Name), About: x.Description})
				}
			}
			v.More += found.Total
		}
		v.More -= len(v.Rows)
	}
	v.Examples = p.exampleRows(func(*admin.Example) bool { return true })
	return &View{Title: "Playground", Data: v}
}

// start handles the form that runs an item.
func (p *playPages) start(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	sent := r.PostForm
	x, err := p.find(sent.Get("server"), cmp.Or(sent.Get("kind"), kindTool), strings.TrimSpace(sent.Get("name")))
	if err != nil {
		p.frame.fail(w, r, err)
		return
	}
	f, status := runFormOf(x), http.StatusOK
	server, q, ok := f.read(sent)
	if do := sent.Get("do"); ok && do != "json" && do != "form" {
		type started struct {
			run admin.Run
			bad *admin.Problem
		}
		answer, _ := p.forms.once(r, sent.Get("number"), func() any {
			run, bad := p.source.StartRun(r.Context(), admin.ByConsole(r, stateOf(r).viewer.who), server, q)
			return started{run, bad}
		})
		made, _ := answer.(started)
		if made.bad == nil && made.run.ID != "" {
			http.Redirect(w, r, pathOf("runs", made.run.ID), http.StatusSeeOther)
			return
		}
		p.forms.forget(r, sent.Get("number"))
		if made.bad == nil {
			f.Problem, status = "This form was sent some minutes ago. Send it again to run it once more.", http.StatusConflict
		} else {
			f.Problem, status = reportTo(f.Form, made.bad, "/arguments"), made.bad.Status
			f.Skip = made.bad.Type == "arguments"
		}
	}
	if len(f.Errors) > 0 || f.Unconfirmed || f.Problem != "" {
		status = max(status, http.StatusUnprocessableEntity)
	}
	p.frame.again(w, r, p.page(), func(*http.Request) (*View, error) { return p.show(f, status), nil })
}
