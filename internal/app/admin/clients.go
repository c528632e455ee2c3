package admin

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Clients is a page of clients.
type Clients struct {
	Clients []Client `json:"clients" doc:"the clients of this page, those with a conversation first, then those that send single requests, each in the order of arrival"`
	Total   int      `json:"total" doc:"number of clients on all pages"`
	Next    string   `json:"next,omitempty" doc:"the cursor of the next page"`
}

// Client is a client of an endpoint. Its name, title, version and capabilities come from the client.
type Client struct {
	ID           string    `json:"id" doc:"the client's id in this process, for /api/v1/clients/ID"`
	Name         string    `json:"name,omitempty" doc:"the name that the client gives itself"`
	Title        string    `json:"title,omitempty" doc:"the display title that the client gives itself"`
	Version      string    `json:"version,omitempty" doc:"the version of the client's program, as the client states it"`
	Revision     string    `json:"revision,omitempty" doc:"the client's protocol revision; left out until a request names it"`
	Era          string    `json:"era,omitempty" doc:"legacy or modern; left out if the revision isn't known"`
	Transport    string    `json:"transport" doc:"stdio, http, sse or inmem (a client inside the process)"`
	Capabilities []string  `json:"capabilities" doc:"the names of the capabilities that the client has declared"`
	Principal    string    `json:"principal,omitempty" doc:"an alias of the client's principal, which doesn't reveal it"`
	Who          string    `json:"who,omitempty" doc:"the name of the key or person whose credentials the client uses; only for operators"`
	Remote       string    `json:"remote,omitempty" doc:"the network address of the client"`
	Endpoint     string    `json:"endpoint" doc:"the path of the endpoint that the client uses"`
	Server       string    `json:"server,omitempty" doc:"the endpoint's server, if it has only one"`
	Conversation bool      `json:"conversation" doc:"true if the client has a session or uses stdio, false if it sends single requests"`
	Since        time.Time `json:"since" doc:"when the conversation began; for single requests, when the first arrived"`
	LastMessage  time.Time `json:"lastMessage" doc:"when the last message of the client arrived"`
	Requests     int64     `json:"requests" doc:"number of requests that the client has sent so far"`
	Running      int       `json:"running" doc:"number of requests of the conversation that are still running"`
}

// maxCapabilities is the maximum number of a client's capabilities in a response.
const maxCapabilities = 16

// clientAPI shows the clients.
type clientAPI struct {
	project project
	house   house
	alias   *aliases
}

// readClients answers /clients.
func (a *clientAPI) readClients(r *http.Request) (any, *Problem) {
	all := a.clients(a.house.knowsCallers(r))
	p, bad := pageOf(r, all, func(c *Client) string { return clientKey(c) })
	if bad != nil {
		return nil, bad
	}
	return Clients{Clients: p.items, Total: len(all), Next: p.next}, nil
}

// clientKey returns the sort key of a client. Clients with a conversation come first. Among these,
// and among the other clients, the client that connected first comes first.
func clientKey(c *Client) string {
	kind := "b"
	if c.Conversation {
		kind = "a"
	}
	return kind + c.Since.Format("20060102150405.000000000") + c.Endpoint + "\x00" + c.ID
}

// clients returns all clients, sorted by clientKey. If named is true, they have Client.Who.
func (a *clientAPI) clients(named bool) []Client {
	reports := a.project.ClientReports()
	out := make([]Client, 0, len(reports))
	for i := range reports {
		out = append(out, a.client(&reports[i], named))
	}
	slices.SortFunc(out, func(x, y Client) int { return strings.Compare(clientKey(&x), clientKey(&y)) })
	return out
}

// client converts a ClientReport to a Client. It masks secrets in the strings that the client sent,
// and limits their length. If named is true, it has Client.Who.
func (a *clientAPI) client(x *runtime.ClientReport, named bool) Client {
	text := func(key string) string {
		s, _ := jsonrpc.Text(x.Info, jsonrpc.Find(x.Info, jsonrpc.Whole(x.Info), key))
		return excerpt.Line(excerpt.MaskSecrets(s), maxName)
	}
	c := Client{
		ID: x.ID, Transport: x.Transport, Principal: a.alias.of(x.Who.Key()), Remote: x.Remote, Endpoint: x.Path, Server: x.Server,
		Conversation: x.Session, Since: x.Since.UTC(), LastMessage: x.Last.UTC(), Requests: x.Requests, Running: x.Running, Capabilities: []string{},
		Revision: revisionText(x.Revision),
	}
	if named {
		c.Who = a.CallerOf(x.Who)
	}
	if x.Info != nil {
		c.Name, c.Title, c.Version = text("name"), text("title"), text("version")
	}
	if c.Revision != "" {
		c.Era = x.Revision.Era()
	}
	if x.Capabilities != nil {
		for m := range jsonrpc.Members(x.Capabilities, jsonrpc.Whole(x.Capabilities)) {
			if name, ok := jsonrpc.Text(x.Capabilities, m.Key); ok && len(c.Capabilities) < maxCapabilities {
				c.Capabilities = append(c.Capabilities, excerpt.Line(name, maxName))
			}
		}
	}
	slices.Sort(c.Capabilities)
	return c
}

// CallerOf returns what people call the key or the person whose credentials a client uses, or "" for the local user.
// Only operators may know it.
func (a *clientAPI) CallerOf(who *identity.Principal) string { return a.house.callerOf(who) }

// readClient answers /clients/{id}.
func (a *clientAPI) readClient(r *http.Request) (any, *Problem) {
	id := r.PathValue("id")
	for _, x := range a.project.ClientReports() {
		if x.ID == id {
			return a.client(&x, a.house.knowsCallers(r)), nil
		}
	}
	return nil, &Problem{Type: "no-such-client", Title: "No such client", Status: http.StatusNotFound, Detail: "The client has disconnected, or has sent nothing for an hour."}
}
