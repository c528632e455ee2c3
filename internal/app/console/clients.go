package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// ofCaller is a client as the list shows it.
type ofCaller struct {
	clientSum
	Whose string // the names of the keys and people whose credentials it uses; "" for viewers
}

// clientList has the values of the page that lists clients.
type clientList struct {
	Q      url.Values
	Search string
	Eras   []choice
	Rows   []ofCaller
	Pager  pager
	All    int
	Key    string
}

// Rate returns the number of calls in the last minute, as text.
func (c clientSum) Rate() string { return number(c.rate.Calls) }

// Class and Word return the CSS class and the label of the client's state.
func (c clientSum) Class() string {
	if c.Failed > 0 {
		return "bad"
	}
	if c.Calls == 0 {
		return "idle"
	}
	return "ok"
}

func (c clientSum) Word() string {
	if c.Failed > 0 {
		return "calls failed"
	}
	if c.Calls == 0 {
		return "idle"
	}
	return "working"
}

// clientPages are the list of clients, and the page of each client.
type clientPages struct {
	source interface {
		CallsOf(admin.CallQuery) admin.Calls
		CallerOf(*identity.Principal) string
	}
}

// mostWhose is how many names the list has of one client.
const mostWhose = 3

// whose returns the names of the keys and people whose credentials a client uses.
func (p *clientPages) whose(r *http.Request, x *clientSum) string {
	var names []string
	for i := range x.Sessions {
		if name := p.callerOf(r, x.Sessions[i].Who); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if more := len(names) - mostWhose; more > 0 {
		names = append(names[:mostWhose], plural(more, "other"))
	}
	return strings.Join(names, ", ")
}

// callerOf returns the name of the key or person whose credentials a client uses, if the viewer may know it.
func (p *clientPages) callerOf(r *http.Request, who *identity.Principal) string {
	if !may(r, identity.Operator) {
		return ""
	}
	return p.source.CallerOf(who)
}

func (p *clientPages) register(f *frame) {
	f.add(Page{
		Path: "/clients", Least: identity.Viewer, Template: "clients.html", Nav: "Clients", Group: traffics, Key: "L", View: p.clients,
		Count: func(s *screen) string { return number(len(present(s.Traffic))) },
	})
	f.add(Page{Path: "/clients/{id}", Least: identity.Viewer, Template: "client.html", View: p.client})
}

func (p *clientPages) clients(r *http.Request) (*View, error) {
	t, q := sumsOf(r), r.URL.Query()
	l := &clientList{Q: q, Search: q.Get("q"), All: len(t.Clients)}
	l.Eras = choices(q.Get("era"), "any era", "legacy", "legacy", "modern", "modern")
	var all []ofCaller
	for _, sum := range t.Clients {
		x := ofCaller{sum, p.whose(r, &sum)}
		if matches(l.Search, x.Title(), x.Revision(), x.transport, x.Whose) && (q.Get("era") == "" || q.Get("era") == x.revision.Era()) {
			all = append(all, x)
		}
	}
	sorted(all, q, "-last", map[string]func(a, b ofCaller) int{
		"name": func(a, b ofCaller) int {
			return strings.Compare(strings.ToLower(a.Title()), strings.ToLower(b.Title()))
		},
		"revision": func(a, b ofCaller) int { return strings.Compare(a.Revision(), b.Revision()) },
		"calls":    func(a, b ofCaller) int { return cmp.Compare(a.Calls, b.Calls) },
		"all":      func(a, b ofCaller) int { return cmp.Compare(a.All, b.All) },
		"lost":     func(a, b ofCaller) int { return cmp.Compare(a.Lost, b.Lost) },
		"last":     func(a, b ofCaller) int { return a.Last.Compare(b.Last) },
	})
	l.Rows, l.Pager = paged(all, q)
	for _, x := range l.Rows {
		l.Key += x.ID() + " " + x.Whose + " "
	}
	if q.Get("sort") == "" { // the default order is by last call, so the order changes too often to be part of the key
		l.Key = strconv.Itoa(len(t.Clients))
	}
	return &View{Title: "Clients", Data: l}, nil
}

// clientView has the values of the page that shows one client.
type clientView struct {
	clientSum
	Connections  []connected
	Capabilities []capability
	Recent       []admin.Call
	Key          string
	Lacks        []string
}

// connected is a connection of the client, and the name of the key or person whose credentials it uses.
type connected struct {
	runtime.ClientReport
	Whose string
}

// capability is a capability of the client. Name is the name in the protocol.
type capability struct{ Name, Detail string }

func (p *clientPages) client(r *http.Request) (*View, error) {
	id := r.PathValue("id")
	for _, x := range sumsOf(r).Clients {
		if x.ID() != id {
			continue
		}
		v := &clientView{clientSum: x, Recent: p.source.CallsOf(admin.CallQuery{Client: x.name, Limit: 20}).Calls}
		for _, s := range x.Sessions {
			v.Connections = append(v.Connections, connected{s, p.callerOf(r, s.Who)})
		}
		v.Capabilities = capabilities(x.Caps)
		v.Key = string(x.Caps)
		return &View{Title: x.Title(), Crumbs: []Crumb{{"Clients", pathOf("clients")}}, Data: v}, nil
	}
	return nil, notFound("No client has the number "+id, "A restart of Dragoman clears the list of clients. The numbers then start again from 1.", Crumb{"Show all clients", pathOf("clients")})
}

// CallRows returns the rows of the client's recent calls.
func (v *clientView) CallRows() []callRow { return callRows(v.Recent) }

// CallKey returns the number of the newest call, or 0 if there are no calls.
func (v *clientView) CallKey() uint64 {
	if len(v.Recent) == 0 {
		return 0
	}
	return v.Recent[0].Number
}

// capabilities returns at most 32 members of a ClientCapabilities object.
func capabilities(caps []byte) (out []capability) {
	for m := range jsonrpc.Members(caps, jsonrpc.Whole(caps)) {
		name, ok := jsonrpc.Text(caps, m.Key)
		if !ok || len(out) == 32 {
			continue
		}
		detail := string(m.Value.Of(caps))
		if detail == "{}" {
			detail = ""
		}
		out = append(out, capability{name, detail})
	}
	return out
}
