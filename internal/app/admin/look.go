package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// KeyLookRequest says as which client of a key an admin looks.
type KeyLookRequest struct {
	Endpoint     string    `json:"endpoint,omitempty" enum:"server,project,search" doc:"where the client is: the endpoint of a server, that of all servers, or the one at which clients search their tools; the default is server if one is named, and otherwise project"`
	Server       string    `json:"server,omitempty" doc:"the server's name, for its endpoint"`
	Revision     string    `json:"revision,omitempty" doc:"the client's revision; the default is 2025-11-25"`
	Capabilities *[]string `json:"capabilities,omitempty" doc:"what the client can do: elicitation.form, elicitation.url, sampling and roots; the default is both kinds of elicitation. Some servers show items only to those who can answer"`
}

// KeyLook is what the clients of a key get at an endpoint before they use anything.
type KeyLook struct {
	Key          APIKey       `json:"key" doc:"the key"`
	Endpoint     string       `json:"endpoint" enum:"server,project,search" doc:"see endpoint of KeyLookRequest"`
	Server       string       `json:"server,omitempty" doc:"the server's name, for its endpoint"`
	Revision     string       `json:"revision" doc:"the client's revision"`
	Capabilities []string     `json:"capabilities" doc:"what the client can do"`
	Refused      *LookRefusal `json:"refused,omitempty" doc:"how the endpoint refuses the client; left out if it lets it in"`
	Instructions string       `json:"instructions,omitempty" doc:"the instructions that the client gets"`
	Lists        []LookList   `json:"lists" doc:"the lists as the client gets them; none if it's refused"`
	Denied       []LookDenied `json:"denied" doc:"what the endpoint has and the client doesn't get, with what it's told if it asks for it nevertheless"`
	SignIns      []string     `json:"signIns" doc:"servers whose lists may be different for the key itself: they know people by their sign-in, and whoever looks uses nobody's"`
}

// LookRefusal is the answer of an endpoint that doesn't let a client in.
type LookRefusal struct {
	Status  int    `json:"status,omitempty" doc:"the status of HTTP; left out if the endpoint is reached, and answers the handshake with an error"`
	Code    int64  `json:"code,omitempty" doc:"the code of that error"`
	Message string `json:"message" doc:"what the client is told"`
}

// LookList is a list as a client gets it.
type LookList struct {
	Method  string       `json:"method" doc:"such as tools/list"`
	Items   []LookItem   `json:"items" doc:"what the list has, in its order"`
	More    bool         `json:"more,omitempty" doc:"whether there are more, which weren't read: more than 2000, or 4 MiB"`
	Refused *LookRefusal `json:"refused,omitempty" doc:"the answer, if it isn't a list"`
}

// LookItem is an item of such a list.
type LookItem struct {
	Name        string          `json:"name" doc:"the name, or the URI or its template"`
	Title       string          `json:"title,omitempty" doc:"the title, if there is one"`
	Description string          `json:"description,omitempty" doc:"the beginning of the description"`
	Definition  json.RawMessage `json:"definition,omitempty" doc:"the whole item, with masked secrets; left out if it's larger than 64 KiB"`
}

// LookDenied is an item that a client doesn't get.
type LookDenied struct {
	RuleItem
	Code int64  `json:"code,omitempty" doc:"the code of the error that the client gets if it asks for the item"`
	Told string `json:"told,omitempty" doc:"the error's message, which is the same as for an item that doesn't exist; left out if the item is held or can't be used by anybody"`
}

// lookLimit is how long a look may take: each server has its own limit for a list, and these are read one after the other.
const lookLimit = 30 * time.Second

var lookRoute = route{
	method: http.MethodPost, path: "/keys/{id}/look", house: true, least: identity.Admin, name: "lookAsKey",
	summary: "What the clients of an API key get at an endpoint: the lists and the refusals. Nothing is called; the look is an act in the audit",
	body:    KeyLookRequest{}, answer: KeyLook{}, problems: slices.Concat([]int{400, 404, 413, 415}, houseProblems),
	read: withBody(maxKeyBody, func(a *API, r *http.Request, q KeyLookRequest) (KeyLook, *Problem) {
		return byWhom(&a.ruleAPI.house, r, func(who *identity.Principal) (KeyLook, *Problem) {
			return a.LookFor(r.Context(), who, r.PathValue("id"), q)
		})
	}),
}

// LookFor returns what the clients of the key with an id get at an endpoint, for an admin. It's a client of the endpoint
// with the key's rights, which lists and does nothing else; see [runtime.Project.Look]. Before it looks, it's recorded
// who does, so nobody looks in secret.
func (a *ruleAPI) LookFor(ctx context.Context, who *identity.Principal, id string, q KeyLookRequest) (out KeyLook, bad *Problem) {
	if bad := a.closed(); bad != nil {
		return out, bad
	}
	if !a.knowsAll(who) {
		return out, &Problem{Type: kindRole, Title: "This needs the role admin", Status: http.StatusForbidden, Detail: "Only admins of the project see what others get. Ask one."}
	}
	k, ok := a.safe.Store().Snapshot().Key(id)
	if !ok || k.Project != a.project.name() || a.project.Project == nil {
		return out, noKey()
	}
	at, o, bad := a.lookerOf(&q)
	if bad != nil {
		return out, bad
	}
	keys := keyAPI{house: a.house}
	out = KeyLook{Key: keys.showKey(who, &k), Endpoint: q.Endpoint, Server: q.Server, Revision: q.Revision, Capabilities: *q.Capabilities, Lists: []LookList{}, Denied: []LookDenied{}, SignIns: []string{}}
	err := a.safe.Store().Write(ctx, who.Subject, func(t *store.Tx) error {
		return t.Noted("looked as", "key", k.Project+"/"+k.ID, k.Project, map[string]any{"name": k.Name, "endpoint": q.Endpoint, "server": q.Server, "revision": q.Revision})
	})
	if err != nil {
		return out, a.problem(err)
	}
	ctx, stop := context.WithTimeout(ctx, lookLimit)
	defer stop()
	got, err := a.project.Look(ctx, k.ID, at, o)
	if err != nil {
		return out, &Problem{Type: "look", Title: "The lists could not be read", Status: http.StatusServiceUnavailable, Detail: sentence(excerpt.Line(err.Error(), maxTitle), "Look at the page of the server, or try again.")}
	}
	clean := a.project.Clean(q.Server)
	switch {
	case got.Refused != nil:
		out.Refused = &LookRefusal{Status: got.Refused.Status, Message: got.Refused.Text}
	case got.Failed != nil:
		out.Refused = lookRefusal(got.Failed, clean)
	default:
		a.fillLook(ctx, &out, &k, got, clean)
	}
	return out, nil
}

// lookerOf returns the endpoint and the client of a look, and sets what the request leaves out.
func (a *ruleAPI) lookerOf(q *KeyLookRequest) (at string, o runtime.VisitOptions, bad *Problem) {
	if q.Endpoint == "" {
		q.Endpoint = map[bool]string{true: AtProject, false: AtServer}[q.Server == ""]
	}
	switch {
	case !slices.Contains([]string{AtServer, AtProject, AtSearch}, q.Endpoint):
		return at, o, badBody(`"endpoint" must be "server", "project" or "search".`)
	case (q.Endpoint == AtServer) != (q.Server != ""):
		return at, o, badBody(`"server" is for the endpoint "server", which needs it.`)
	case q.Endpoint == AtSearch:
		at = runtime.SearchEndpoint
	case q.Endpoint == AtServer:
		if bad := a.project.noServer(q.Server); bad != nil {
			return at, o, bad
		}
		at = q.Server
	}
	c := client{revision: mcp.LatestLegacy, capabilities: usualCapabilities}
	if bad := c.choose(q.Revision, q.Capabilities); bad != nil {
		return at, o, bad
	}
	can := append([]string{}, c.capabilities...)
	q.Revision, q.Capabilities = c.revision.String(), &can
	return at, runtime.VisitOptions{Revision: c.revision, Info: []byte(visitorInfo + `"0"}`), Capabilities: c.declared()}, nil
}

// fillLook adds what the client gets, and what it doesn't.
func (a *ruleAPI) fillLook(ctx context.Context, out *KeyLook, k *store.Key, got runtime.Looked, clean func(string) string) {
	out.Instructions = cleanHead(got.Instructions, clean)
	for _, x := range got.Lists {
		l := LookList{Method: x.Method, Items: []LookItem{}, More: x.More}
		if x.Failed != nil {
			l.Refused = lookRefusal(x.Failed, clean)
		}
		for _, raw := range x.Items {
			l.Items = append(l.Items, lookItem(x.Method, raw, clean))
		}
		out.Lists = append(out.Lists, l)
	}
	if s := a.project.Current(); s != nil {
		for i := range s.Servers {
			if name := s.Servers[i].Name; (out.Server == "" || out.Server == name) && a.project.SignsPeopleIn(name) {
				out.SignIns = append(out.SignIns, name)
			}
		}
	}
	var view RuleView
	asker, bad := a.find(ctx, "key", k.ID, &view)
	if bad != nil {
		return
	}
	a.view(asker, &view)
	rev, _ := mcp.ParseRevision(out.Revision)
	for _, x := range view.Items {
		if x.Do == policy.Deny.String() && (out.Server == "" || out.Server == x.Server) {
			out.Denied = append(out.Denied, lookDenied(x, out.Server != "", rev))
		}
	}
}

// lookDenied returns an item that a client doesn't get, with what it's told. own says that the client is at the endpoint
// of the item's server, where items have their own names.
func lookDenied(x RuleItem, own bool, rev mcp.Revision) LookDenied {
	out := LookDenied{RuleItem: x}
	if x.By == "list" {
		return out
	}
	what, name := policy.Item(x.Item)
	if !own && what != "resource" {
		name = x.Offered
	}
	var told *jsonrpc.Error
	switch what {
	case "prompt":
		told = catalog.Unknown(catalog.KindPrompt, name)
	case "resource":
		if !errors.As(catalog.Missing(&mcp.ClientInfo{Revision: rev}, name), &told) {
			return out
		}
	default:
		told = catalog.Unknown(catalog.KindTool, name)
	}
	out.Code, out.Told = told.Code, told.Message
	return out
}

func lookRefusal(e *jsonrpc.Error, clean func(string) string) *LookRefusal {
	return &LookRefusal{Code: e.Code, Message: excerpt.Lines(cleanHead(e.Message, clean), maxRunText)}
}

// lookItem returns an item of a list, with masked secrets.
func lookItem(method string, raw []byte, clean func(string) string) (out LookItem) {
	masked := cleanJSON(clean, raw)
	v := jsonrpc.ValueOf(masked)
	text := func(key string) string { s, _ := v.Get(key).Text(); return s }
	switch out.Name = text("name"); method {
	case mcp.MethodListResources:
		out.Name = text("uri")
	case mcp.MethodListTemplates:
		out.Name = text("uriTemplate")
	}
	if out.Title = text("title"); out.Title == "" && strings.HasPrefix(method, "resources/") {
		out.Title = text("name")
	}
	out.Description = excerpt.Lines(text("description"), maxRunText)
	if len(masked) <= keptArguments {
		out.Definition = slices.Clone(masked)
	}
	return out
}
