package console

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// mostLookRows is how many rows of a list the page of a look shows.
const mostLookRows = 200

// lookView has the values of the page on which an admin looks as a key.
type lookView struct {
	keyRow
	Endpoints, Revisions, Capabilities []choice
	Number                             string
	Problem                            string
	Got                                *admin.KeyLook // nil before the admin has looked
	Lists                              []lookList
	Denied                             []lookDenied
	More                               int // what Denied doesn't have
}

// lookList is a list as the clients of the key get it.
type lookList struct {
	admin.LookList
	Noun string
	Rest int // what the page doesn't show of Items
}

// lookDenied is what they don't get.
type lookDenied struct {
	decided
	Item, Told string
}

// registerLook adds the page to the frame.
func (p *keyPages) registerLook(f *frame) {
	f.add(p.lookPage())
	f.handle("POST /keys/{id}/look", identity.Admin, p.look)
}

func (p *keyPages) lookPage() Page {
	return Page{Path: "/keys/{id}/look", Least: identity.Admin, Template: "look.html", Sheet: "second.css", View: func(r *http.Request) (*View, error) {
		v := &lookView{}
		v.choose(r, admin.AtProject, mcp.LatestLegacy.String(), []string{admin.CanForm, admin.CanURL})
		return p.lookView(r, v, 0)
	}}
}

// choose sets the lists of what the client can be, and selects an endpoint, a revision and capabilities. An endpoint is
// one of the project, or server: and a server's name.
func (v *lookView) choose(r *http.Request, at, revision string, can []string) {
	pairs := []string{admin.AtSearch, "search"}
	if st := statusOf(r); st != nil {
		for _, s := range st.Servers {
			pairs = append(pairs, atServer+s.Name, s.Name)
		}
	}
	v.Endpoints = choices(at, "all servers", pairs...)
	v.Endpoints[0] = choice{admin.AtProject, "all servers", at == admin.AtProject}
	v.Revisions, v.Capabilities = clientChoices(revision, can)
}

// atServer begins the value of a server's endpoint in the form.
const atServer = "server:"

// lookView returns the page, and sets the remaining values of v.
func (p *keyPages) lookView(r *http.Request, v *lookView, status int) (*View, error) {
	k, bad := p.source.KeyFor(r.Context(), stateOf(r).viewer.who, r.PathValue("id"))
	if bad != nil {
		return nil, noKeyHere(bad)
	}
	v.keyRow, v.Number = keyRow{k.APIKey}, formNumber()
	return &View{Title: "Look as " + excerpt.Line(k.Name, 100), Crumbs: []Crumb{{"Keys", pathOf("keys")}, {excerpt.Line(k.Name, 100), v.Path()}}, Data: v, Stream: pathOf("keys", k.ID, "look"), Status: status}, nil
}

// look handles the form. Each look is an act in the audit, so a form that's sent again shows what the first has got.
func (p *keyPages) look(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	f, id := r.PostForm, r.PathValue("id")
	at, can := cmp.Or(f.Get("at"), admin.AtProject), append([]string{}, f["can"]...)
	q := admin.KeyLookRequest{Endpoint: at, Revision: f.Get("revision"), Capabilities: &can}
	if name, single := strings.CutPrefix(at, atServer); single {
		q.Endpoint, q.Server = admin.AtServer, name
	}
	type looked struct {
		got admin.KeyLook
		bad *admin.Problem
	}
	answer, _ := p.forms.once(r, f.Get("number"), func() any {
		got, bad := p.source.LookFor(r.Context(), stateOf(r).viewer.who, id, q)
		return looked{got, bad}
	})
	v, status := &lookView{}, 0
	v.choose(r, at, cmp.Or(q.Revision, mcp.LatestLegacy.String()), can)
	switch x, known := answer.(looked); {
	case !known:
		v.Problem, status = "This form was sent some minutes ago. Send it again to look once more.", http.StatusConflict
	case x.bad != nil:
		p.forms.forget(r, f.Get("number"))
		v.Problem, status = x.bad.Error(), x.bad.Status
	default:
		v.fill(&x.got)
	}
	p.frame.again(w, r, p.lookPage(), func(r *http.Request) (*View, error) { return p.lookView(r, v, status) })
}

// fill sets what the key gets.
func (v *lookView) fill(got *admin.KeyLook) {
	v.Got = got
	for _, x := range got.Lists {
		l := lookList{LookList: x, Noun: map[string]string{mcp.MethodListTools: "tool", mcp.MethodListPrompts: "prompt", mcp.MethodListResources: "resource", mcp.MethodListTemplates: "template"}[x.Method]}
		l.Rest = max(0, len(x.Items)-mostLookRows)
		l.Items = x.Items[:len(x.Items)-l.Rest]
		v.Lists = append(v.Lists, l)
	}
	v.More = max(0, len(got.Denied)-mostLookRows)
	for _, x := range got.Denied[:len(got.Denied)-v.More] {
		v.Denied = append(v.Denied, lookDenied{decided{x.RuleDecision}, x.Server + "/" + x.Item, x.Told})
	}
}

// All returns how many items the list has, as far as that's known.
func (l *lookList) All() int { return len(l.Items) + l.Rest }

// Sees returns the address of the page of what decides.
func (v *lookView) Sees() string { return seesOf("key", v.ID) }

// At returns what the page calls the endpoint.
func (v *lookView) At() string {
	i := slices.IndexFunc(v.Endpoints, func(x choice) bool { return x.Selected })
	if i < 0 || v.Endpoints[i].Value == admin.AtProject {
		return "the endpoint of all servers"
	}
	if v.Endpoints[i].Value == admin.AtSearch {
		return "the endpoint for search"
	}
	return "the endpoint of " + v.Endpoints[i].Title
}
