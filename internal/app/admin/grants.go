package admin

import (
	"net/http"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
)

// ClientGrants are what people have allowed clients that sign in here.
type ClientGrants struct {
	Grants []ClientGrant `json:"grants" doc:"the grants, the oldest first: all of them for an admin of the project default, and for others their own"`
}

// ClientGrant is what somebody has allowed a client.
type ClientGrant struct {
	ID       string    `json:"id" doc:"the grant's id"`
	Client   string    `json:"client" doc:"the client's id, which is the URL of its document unless it has registered here"`
	Name     string    `json:"name,omitempty" doc:"what the client calls itself"`
	Person   string    `json:"person" doc:"the name of whom it acts for, or local"`
	Resource string    `json:"resource" doc:"the path of the only endpoint that it may use; / for all"`
	Returns  string    `json:"returns" doc:"where the client got its code"`
	Made     time.Time `json:"made" doc:"when it was allowed"`
	Expires  time.Time `json:"expires" doc:"when it ends unless the client uses it"`
}

// RemovedClient is a client that was removed.
type RemovedClient struct {
	Client string `json:"client" doc:"the client's id"`
}

var grantRoutes = []route{
	{
		method: http.MethodGet, path: "/grants", anywhere: true, process: true, least: identity.Viewer, name: "grants", summary: "What clients were allowed that sign in at this Dragoman",
		answer: ClientGrants{}, problems: []int{409}, read: func(a *API, r *http.Request) (any, *Problem) { return result(a.readGrants(r)) },
	},
	{
		method: http.MethodDelete, path: "/grants/{id}", anywhere: true, process: true, least: identity.Viewer, name: "endGrant", summary: "End what a client was allowed, at once",
		answer: ClientGrant{}, problems: slices.Concat([]int{404}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) { return result(a.endGrant(r)) },
	},
	{
		method: http.MethodDelete, path: "/grants", process: true, least: identity.Admin, name: "removeClient", summary: "Remove a client: its registration, its grants, and what people have agreed to",
		query: []parameter{{"client", "string", "the client's id"}}, answer: RemovedClient{}, problems: slices.Concat([]int{404}, houseProblems),
		read: func(a *API, r *http.Request) (any, *Problem) { return result(a.removeClient(r)) },
	},
}

// grantAPI shows and ends grants. ledger is nil if clients can't sign in here.
type grantAPI struct {
	house
	ledger *access.Ledger
}

// seen returns the grants that the sender of a request may see.
func (a *grantAPI) seen(r *http.Request) (who *identity.Principal, list []access.Allowed, bad *Problem) {
	if who, bad = a.sender(r); bad != nil || a.ledger == nil {
		return nil, nil, bad
	}
	all := a.access.May(who, event.DefaultProject, identity.Admin) == nil
	return who, slices.DeleteFunc(a.ledger.All(), func(x access.Allowed) bool { return !all && x.Subject != who.Subject }), nil
}

func (a *grantAPI) show(x *access.Allowed) ClientGrant {
	resource := x.Resource
	if resource == "" {
		resource = "/"
	}
	return ClientGrant{ID: x.ID, Client: x.Client, Name: x.Name, Person: a.nameOf(x.Subject), Resource: resource, Returns: x.Redirect, Made: x.Made, Expires: x.Until}
}

// readGrants answers GET /grants.
func (a *grantAPI) readGrants(r *http.Request) (ClientGrants, *Problem) {
	_, list, bad := a.seen(r)
	out := ClientGrants{Grants: make([]ClientGrant, 0, len(list))}
	for i := range list {
		out.Grants = append(out.Grants, a.show(&list[i]))
	}
	return out, bad
}

// endGrant answers DELETE /grants/{id}.
func (a *grantAPI) endGrant(r *http.Request) (ClientGrant, *Problem) {
	who, list, bad := a.seen(r)
	if bad != nil {
		return ClientGrant{}, bad
	}
	i := slices.IndexFunc(list, func(x access.Allowed) bool { return x.ID == r.PathValue("id") })
	if i < 0 {
		return ClientGrant{}, noGrant()
	}
	there, err := a.ledger.End(r.Context(), who.Subject, list[i].ID)
	switch {
	case err != nil:
		return ClientGrant{}, a.problem(err)
	case !there:
		return ClientGrant{}, noGrant()
	}
	return a.show(&list[i]), nil
}

func noGrant() *Problem {
	return &Problem{Type: "grant", Title: "There is no such grant", Status: http.StatusNotFound, Detail: "No client has a grant with this id that you may see. GET " + apiRoot + "/grants lists them."}
}

// removeClient answers DELETE /grants?client=ID.
func (a *grantAPI) removeClient(r *http.Request) (RemovedClient, *Problem) {
	who, bad := a.changer(r)
	switch {
	case bad != nil:
		return RemovedClient{}, bad
	case a.ledger == nil:
		return RemovedClient{}, conflict("no-signin", "Clients don't sign in here", "The configuration doesn't have `access: {signIn: own}`.")
	}
	id := r.URL.Query().Get("client")
	there, err := a.ledger.RemoveClient(r.Context(), who, id)
	switch {
	case err != nil:
		return RemovedClient{}, a.problem(err)
	case !there:
		return RemovedClient{}, &Problem{Type: "client", Title: "There is no such client", Status: http.StatusNotFound, Detail: "No client with this id has registered here or has a grant."}
	}
	return RemovedClient{id}, nil
}
