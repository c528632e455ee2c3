package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/form"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// readLimit is how long a page waits for a list that Dragoman has not read from the server yet.
const readLimit = 3 * time.Second

// itemsView has the values of a server's page of resources or page of prompts.
type itemsView struct {
	*admin.Server
	Parts     []part
	Q         url.Values
	Search    string
	Read      bool
	Resources []itemRow
	Templates []itemRow
	Prompts   []promptRow
	Pager     pager
	Key       string
}

// itemRow is a resource, a resource template or a prompt.
type itemRow struct {
	admin.Item
	ID string
}

// SizeText returns the size that the server states, or "".
func (r itemRow) SizeText() string {
	if r.Size == nil {
		return ""
	}
	return bytesText(int(*r.Size))
}

// Play returns the path of the item's page in the playground.
func (r itemRow) Play() string {
	if uri := cmp.Or(r.URI, r.URITemplate); uri != "" {
		return playPath(r.Server, kindResource, uri)
	}
	return playPath(r.Server, kindPrompt, r.Name)
}

// Label returns the title of the item, or its name if it has no title.
func (r itemRow) Label() string { return cmp.Or(r.Title, r.Name) }

// promptRow is a row for one prompt, with the form for the prompt's arguments.
type promptRow struct {
	itemRow
	Form   *form.Form
	Failed bool // the arguments that the user entered in the form were not valid
}

// itemPages are a server's page of resources and page of prompts.
type itemPages struct {
	frame  *frame
	source interface {
		FindItems(admin.ItemQuery) admin.FoundItems
		ReadItems(ctx context.Context, server, method string)
		StartRun(ctx context.Context, by admin.RunBy, server string, q admin.RunRequest) (admin.Run, *admin.Problem)
	}
}

func (p *itemPages) register(f *frame) {
	f.add(Page{Path: "/servers/{name}/resources", Least: identity.Viewer, Template: "resources.html", View: p.resources})
	f.add(p.promptsPage())
	f.handle("POST /servers/{name}/resources", identity.Operator, p.readResource)
	f.handle("POST /servers/{name}/prompts", identity.Operator, p.getPrompt)
}

func (p *itemPages) promptsPage() Page {
	return Page{Path: "/servers/{name}/prompts", Least: identity.Viewer, Template: "prompts.html", View: func(r *http.Request) (*View, error) { return p.promptsWith(r, nil) }}
}

// itemsOf returns the values that all pages of items need. It also reads the lists from the server
// that Dragoman has not read yet. title is the title of the page, and methods are the methods of
// the lists.
func (p *itemPages) itemsOf(r *http.Request, title string, methods ...string) (*itemsView, *View, error) {
	s, err := findServer(r)
	if err != nil {
		return nil, nil, err
	}
	q := r.URL.Query()
	v := &itemsView{Server: s, Parts: serverParts(s, title), Q: q, Search: q.Get("q"), Key: s.State}
	for _, method := range methods {
		if !stateOf(r).feed && s.State == "ready" && !p.source.FindItems(admin.ItemQuery{Server: s.Name, Method: method, Limit: 1}).Read {
			ctx, stop := context.WithTimeout(r.Context(), readLimit)
			p.source.ReadItems(ctx, s.Name, method)
			stop()
		}
	}
	return v, &View{Title: title, Crumbs: []Crumb{{"Servers", pathOf("servers")}, {s.Name, pathOf("servers", s.Name)}}, Data: v}, nil
}

// page returns the part of a list that the query in v.Q selects, and sets the pager.
func (p *itemPages) page(v *itemsView, method string) admin.FoundItems {
	q := admin.ItemQuery{Server: v.Name, Method: method, Text: v.Search, Limit: pageRows}
	found := p.source.FindItems(q)
	if v.Pager = pagerOf(found.Total, v.Q); v.Pager.From > 1 {
		q.From = v.Pager.From - 1
		found = p.source.FindItems(q)
	}
	v.Read = found.Read
	return found
}

func (p *itemPages) resources(r *http.Request) (*View, error) {
	v, view, err := p.itemsOf(r, "Resources", mcp.MethodListResources, mcp.MethodListTemplates)
	if err != nil {
		return nil, err
	}
	templates := p.source.FindItems(admin.ItemQuery{Server: v.Name, Method: mcp.MethodListTemplates, Text: v.Search, Limit: pageRows})
	for i, x := range templates.Items {
		v.Templates = append(v.Templates, itemRow{x, "t" + strconv.Itoa(i)})
	}
	for i, x := range p.page(v, mcp.MethodListResources).Items {
		v.Resources = append(v.Resources, itemRow{x, "r" + strconv.Itoa(i)})
	}
	v.key(v.Resources, v.Templates)
	return view, nil
}

// key adds the rows to v.Key, so that the key changes when the rows change.
func (v *itemsView) key(lists ...[]itemRow) {
	for _, x := range slices.Concat(lists...) {
		v.Key += x.Name + x.URI + x.URITemplate + x.State + "\n"
	}
	v.Key += strconv.Itoa(v.Pager.Total) + strconv.FormatBool(v.Read)
}

// promptsWith returns the page of prompts. sent has the values of a form with arguments that are
// not valid. nil means that no such form was sent.
func (p *itemPages) promptsWith(r *http.Request, sent url.Values) (*View, error) {
	v, view, err := p.itemsOf(r, "Prompts", mcp.MethodListPrompts)
	if err != nil {
		return nil, err
	}
	var rows []itemRow
	for i, x := range p.page(v, mcp.MethodListPrompts).Items {
		row := promptRow{itemRow: itemRow{x, "p" + strconv.Itoa(i)}}
		row.Form = promptForm(&x, row.ID)
		if sent != nil && x.Name == sent.Get("prompt") {
			row.Failed = true
			readPrompt(row.Form, &x, sent)
		}
		v.Prompts, rows = append(v.Prompts, row), append(rows, row.itemRow)
	}
	v.key(rows)
	return view, nil
}

// promptForm returns the form for the arguments of a prompt. All arguments are strings.
func promptForm(x *admin.Item, id string) *form.Form {
	schema, required := []byte(`{"type":"object","properties":{`), []byte(`},"required":[`)
	known := map[string]bool{}
	for _, a := range x.Arguments {
		if known[a.Name] {
			continue
		}
		if len(known) > 0 {
			schema = append(schema, ',')
		}
		known[a.Name] = true
		schema = jsonrpc.AppendQuote(append(jsonrpc.AppendQuote(schema, a.Name), `:{"type":"string","description":`...), a.About)
		schema = append(schema, '}')
		if a.Required {
			if required[len(required)-1] != '[' {
				required = append(required, ',')
			}
			required = jsonrpc.AppendQuote(required, a.Name)
		}
	}
	return form.Make(append(append(schema, required...), `],"additionalProperties":false}`...), form.Options{ID: id})
}

// readPrompt converts a form to the arguments of a prompt. ok is false if an argument is not valid,
// or if a required argument is missing. If ok is false, f contains the errors.
func readPrompt(f *form.Form, x *admin.Item, sent url.Values) (arguments []byte, ok bool) {
	arguments, ok = f.Read(sent)
	return arguments, ok && missingOf(f, x, arguments)
}

// missingOf reports in the form which required arguments of a prompt are missing. It returns false if there are any.
func missingOf(f *form.Form, x *admin.Item, arguments []byte) bool {
	for _, a := range x.Arguments {
		if a.Required && jsonrpc.Find(arguments, jsonrpc.Whole(arguments), a.Name).IsZero() {
			f.Report("/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(a.Name), "is required")
		}
	}
	return len(f.Errors) == 0
}

// readResource handles the buttons and forms that read a resource.
func (p *itemPages) readResource(w http.ResponseWriter, r *http.Request) {
	s, err := findServer(r)
	if err != nil {
		p.frame.fail(w, r, err)
		return
	}
	back := pathOf("servers", s.Name, "resources")
	uri := strings.TrimSpace(r.PostFormValue("uri"))
	if uri == "" || r.PostFormValue("template") != "" && strings.ContainsAny(uri, "{}") {
		say(w, "Nothing was read. Replace each part in braces by a value.")
		http.Redirect(w, r, back+"#templates", http.StatusSeeOther)
		return
	}
	run, bad := p.source.StartRun(r.Context(), admin.ByConsole(r, stateOf(r).viewer.who), s.Name, admin.RunRequest{Resource: uri})
	if bad != nil {
		say(w, bad.Error())
		http.Redirect(w, r, back, http.StatusSeeOther)
		return
	}
	http.Redirect(w, r, pathOf("runs", run.ID), http.StatusSeeOther)
}

// getPrompt handles the forms that get a prompt.
func (p *itemPages) getPrompt(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	s, err := findServer(r)
	if err != nil {
		p.frame.fail(w, r, err)
		return
	}
	name := r.PostForm.Get("prompt")
	back := pathOf("servers", s.Name, "prompts")
	x, ok := p.findPrompt(s.Name, name)
	if !ok {
		say(w, "The server no longer lists this prompt.")
		http.Redirect(w, r, back, http.StatusSeeOther)
		return
	}
	arguments, ok := readPrompt(promptForm(&x, "p"), &x, r.PostForm)
	if ok {
		run, bad := p.source.StartRun(r.Context(), admin.ByConsole(r, stateOf(r).viewer.who), s.Name, admin.RunRequest{Prompt: name, Arguments: arguments})
		if bad == nil {
			http.Redirect(w, r, pathOf("runs", run.ID), http.StatusSeeOther)
			return
		}
		say(w, bad.Error())
		http.Redirect(w, r, back, http.StatusSeeOther)
		return
	}
	p.frame.again(w, r, p.promptsPage(), func(r *http.Request) (*View, error) {
		v, err := p.promptsWith(r, r.PostForm)
		if err == nil {
			v.Status = http.StatusUnprocessableEntity
		}
		return v, err
	})
}

// findPrompt finds a prompt in the list of a server. ok is false if the server does not list the
// prompt.
func (p *itemPages) findPrompt(server, name string) (x admin.Item, ok bool) {
	for q := (admin.ItemQuery{Server: server, Method: mcp.MethodListPrompts, Limit: 500}); ; q.From += q.Limit {
		found := p.source.FindItems(q)
		for _, x := range found.Items {
			if x.Name == name {
				return x, true
			}
		}
		if len(found.Items) < q.Limit {
			return x, false
		}
	}
}
