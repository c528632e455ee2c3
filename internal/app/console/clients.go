package console

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// clientList has the values of the page that lists clients.
type clientList struct {
	Q      url.Values
	Search string
	Eras   []choice
	Rows   []clientSum
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
	}
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
	var all []clientSum
	for _, x := range t.Clients {
		if matches(l.Search, x.Title(), x.Revision(), x.transport) && (q.Get("era") == "" || q.Get("era") == x.revision.Era()) {
			all = append(all, x)
		}
	}
	sorted(all, q, "-last", map[string]func(a, b clientSum) int{
		"name": func(a, b clientSum) int {
			return strings.Compare(strings.ToLower(a.Title()), strings.ToLower(b.Title()))
		},
		"revision": func(a, b clientSum) int { return strings.Compare(a.Revision(), b.Revision()) },
		"calls":    func(a, b clientSum) int { return cmp.Compare(a.Calls, b.Calls) },
		"all":      func(a, b clientSum) int { return cmp.Compare(a.All, b.All) },
		"lost":     func(a, b clientSum) int { return cmp.Compare(a.Lost, b.Lost) },
		"last":     func(a, b clientSum) int { return a.Last.Compare(b.Last) },
	})
	l.Rows, l.Pager = paged(all, q)
	for _, x := range l.Rows {
		l.Key += x.ID() + " "
	}
	if q.Get("sort") == "" { // the default order is by last call, so the order changes too often to be part of the key
		l.Key = strconv.Itoa(len(t.Clients))
	}
	return &View{Title: "Clients", Data: l}, nil
}

// clientView has the values of the page that shows one client.
type clientView struct {
	clientSum
	Capabilities []capability
	Recent       []admin.Call
	Key          string
	Lacks        []string
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
