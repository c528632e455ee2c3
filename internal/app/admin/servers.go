package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/tokens"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// Servers is a page of servers, in the order of the configuration.
type Servers struct {
	Servers []ServerEntry `json:"servers" doc:"the servers of this page"`
	Total   int           `json:"total" doc:"number of servers on all pages"`
	Next    string        `json:"next,omitempty" doc:"the cursor of the next page"`
}

// ServerEntry is one server in a list.
type ServerEntry struct {
	Name      string           `json:"name" doc:"the server's name in the configuration"`
	State     string           `json:"state" enum:"idle,starting,ready,failed,unresponsive,stopped" doc:"idle: the next call opens the server; starting: it's being opened; failed: it couldn't be opened, or has ended; unresponsive: it doesn't answer or doesn't read its input; stopped: an operator has stopped it"`
	Since     time.Time        `json:"since" doc:"when the state began"`
	Reason    string           `json:"reason,omitempty" doc:"why it's in this state, such as the cause of a failure"`
	Failure   *failure.Failure `json:"failure,omitempty" doc:"the server's failure in detail; left out while it works"`
	Attempts  int              `json:"attempts,omitempty" doc:"number of failures in a row"`
	RetryAt   *time.Time       `json:"retryAt,omitempty" doc:"when we try to open the server again; for a lazy one, the time before which calls don't open it; left out if no attempt is planned"`
	Era       string           `json:"era" doc:"legacy, modern, or unknown until we know the revision"`
	Revision  string           `json:"revision,omitempty" doc:"the protocol revision spoken with the server; left out until it's known"`
	Transport string           `json:"transport,omitempty" doc:"stdio, http, sse, or inmem (a server inside the process); left out until it's known"`
	Endpoint  string           `json:"endpoint" doc:"the path of the endpoint that has only this server"`
	Prefix    string           `json:"prefix" doc:"the prefix of the server's names at /mcp"`
	Lazy      bool             `json:"lazy" doc:"whether the server is started only when a call needs it"`
	Restarts  int              `json:"restarts" doc:"how often the server was started again"`
	Running   int              `json:"running" doc:"number of calls that are running at the server"`
	Sessions  int              `json:"sessions" doc:"number of open sessions with the server"`
	Tools     *int             `json:"tools,omitempty" doc:"number of tools that clients see; left out until the list has been read"`
	Resources *int             `json:"resources,omitempty" doc:"number of resources that clients see; left out until the list has been read"`
	Templates *int             `json:"templates,omitempty" doc:"number of resource templates that clients see; left out until the list has been read"`
	Prompts   *int             `json:"prompts,omitempty" doc:"number of prompts that clients see; left out until the list has been read"`
	Hidden    int              `json:"hidden" doc:"number of items that the configuration hides from clients"`
	Tokens    int              `json:"tokens" doc:"the estimated tokens of the server's tools and instructions in a model's context"`
}

// ServerDetail describes one server in detail.
type ServerDetail struct {
	Server
	Endpoint     string          `json:"endpoint" doc:"the path of the endpoint that has only this server"`
	Prefix       string          `json:"prefix" doc:"the prefix of the server's names at /mcp"`
	Lazy         bool            `json:"lazy" doc:"whether the server is started only when a call needs it"`
	Shown        string          `json:"shown" doc:"the server's command or URL, without secrets"`
	Dialect      string          `json:"dialect,omitempty" doc:"the configured dialect"`
	Pinned       string          `json:"pinned,omitempty" doc:"the configured revision"`
	Info         json.RawMessage `json:"info,omitempty" doc:"what the server says about itself: its Implementation object"`
	Capabilities json.RawMessage `json:"capabilities,omitempty" doc:"the server's capabilities"`
	Instructions string          `json:"instructions,omitempty" doc:"the first 4 KiB of the server's instructions"`
	Cost         Cost            `json:"cost" doc:"how many tokens the server takes in a model's context"`
	Settings     []Setting       `json:"settings" doc:"the settings, without secrets"`
	Log          []LogRecord     `json:"log" doc:"the last records about the server, and lines of its stderr"`
}

// Cost is an estimate of the tokens that a server needs in a model's context.
type Cost struct {
	Tools        int `json:"tools" doc:"the estimated tokens of the tools that clients see"`
	Hidden       int `json:"hidden" doc:"the estimated tokens of the tools that clients don't see; they cost nothing"`
	Instructions int `json:"instructions" doc:"the estimated tokens of the server's instructions"`
}

// Handshakes is the response of /api/v1/servers/NAME/handshake: the steps and messages of the last
// handshake with a server.
type Handshakes struct {
	Server string          `json:"server" doc:"the server's name"`
	At     *time.Time      `json:"at,omitempty" doc:"when the last handshake ended; left out before the first"`
	Steps  []HandshakeStep `json:"steps" doc:"its steps; empty before the first handshake"`
}

// Setting is one setting of a server.
type Setting struct {
	Name  string `json:"name" doc:"the setting's name, such as startTimeout"`
	Value string `json:"value" doc:"the value as text; for env and headers only the names"`
}

// Items is a page of the resources, templates or prompts of a server.
type Items struct {
	Items []Item `json:"items" doc:"the items of this page, those that clients see first"`
	Total int    `json:"total" doc:"number of items on all pages"`
	Read  bool   `json:"read" doc:"whether the list has been read; if not, the items are unknown"`
	Next  string `json:"next,omitempty" doc:"the cursor of the next page"`
}

// Item is a resource, a template or a prompt.
type Item struct {
	Server      string         `json:"server" doc:"the server's name"`
	Name        string         `json:"name,omitempty" doc:"the name that the server uses"`
	Offered     string         `json:"offered,omitempty" doc:"the prompt's name at /mcp; left out if the item isn't a prompt"`
	URI         string         `json:"uri,omitempty" doc:"the resource's URI; left out if the item isn't a resource"`
	URITemplate string         `json:"uriTemplate,omitempty" doc:"the URI template; left out if the item isn't a resource template"`
	Title       string         `json:"title,omitempty" doc:"the title for people, from the server; at most 200 bytes"`
	Description string         `json:"description,omitempty" doc:"the first 400 bytes of the description"`
	MIMEType    string         `json:"mimeType,omitempty" doc:"the MIME type that the server states"`
	Size        *int64         `json:"size,omitempty" doc:"the size in bytes that the server states"`
	Arguments   []ToolArgument `json:"arguments,omitempty" doc:"the prompt's arguments; left out if the item isn't a prompt"`
	State       string         `json:"state" enum:"shown,hidden" doc:"whether clients see the item"`
	Hidden      []Hidden       `json:"hidden,omitempty" doc:"the endpoints where clients don't see the item"`
}

// Operated is the response to an operation: the state of the server just after the operation
// has started.
type Operated struct {
	Server    string    `json:"server" doc:"the server's name"`
	Operation string    `json:"operation" doc:"start, stop, restart or probe"`
	State     string    `json:"state" doc:"the server's state just after the operation has started; see state of ServerEntry"`
	Since     time.Time `json:"since" doc:"when the state began"`
}

var serverRoutes = []route{
	{
		method: http.MethodGet, path: "/servers", open: true, least: identity.Viewer, name: "servers", summary: "The servers, in the order of the configuration",
		query: pageParameters, answer: Servers{}, problems: []int{400}, read: (*API).readServers,
	},
	{
		method: http.MethodGet, path: "/servers/{name}", open: true, least: identity.Viewer, name: "server",
		summary: "All about one server: state, failure, handshake, sessions, lists, settings, cost and the end of its log",
		answer:  ServerDetail{}, problems: []int{404}, read: (*API).readServer,
	},
	{
		method: http.MethodGet, path: "/servers/{name}/handshake", least: identity.Viewer, name: "serverHandshake", summary: "The last handshake with a server, with the messages",
		answer: Handshakes{}, problems: []int{404}, read: (*API).readHandshake,
	},
	{
		method: http.MethodGet, path: "/servers/{name}/tools", open: true, least: identity.Viewer, name: "serverTools", summary: "A server's tools, with those that clients don't see",
		query: slices.Concat(toolParameters[1:], pageParameters), answer: Tools{}, problems: []int{400, 404}, read: (*API).readTools,
	},
	{
		method: http.MethodGet, path: "/servers/{name}/tools/{tool}", open: true, least: identity.Viewer, name: "serverTool", summary: "One tool, with its arguments and its definition",
		answer: ToolDetail{}, problems: []int{404}, read: (*API).readTool,
	},
	{
		method: http.MethodGet, path: "/servers/{name}/resources", open: true, least: identity.Viewer, name: "serverResources", summary: "A server's resources",
		query: pageParameters, answer: Items{}, problems: []int{400, 404}, read: listOf(mcp.MethodListResources),
	},
	{
		method: http.MethodGet, path: "/servers/{name}/resource-templates", open: true, least: identity.Viewer, name: "serverTemplates", summary: "A server's resource templates",
		query: pageParameters, answer: Items{}, problems: []int{400, 404}, read: listOf(mcp.MethodListTemplates),
	},
	{
		method: http.MethodGet, path: "/servers/{name}/prompts", open: true, least: identity.Viewer, name: "serverPrompts", summary: "A server's prompts",
		query: pageParameters, answer: Items{}, problems: []int{400, 404}, read: listOf(mcp.MethodListPrompts),
	},
	{
		method: http.MethodGet, path: "/servers/{name}/log", open: true, least: identity.Viewer, name: "serverLog", summary: "The last records about a server and lines of its stderr, the oldest first",
		query: logParameters, answer: Logs{}, problems: []int{400, 404}, read: (*API).readLogs,
	},
	operationRoute(runtime.OpStart, "Open a server that is stopped, idle or failed, without waiting for the next planned attempt"),
	operationRoute(runtime.OpStop, "Stop a server and keep it stopped; running calls have five seconds to end"),
	operationRoute(runtime.OpRestart, "End all sessions of a server and open it again; running calls have five seconds to end"),
	operationRoute(runtime.OpProbe, "Restart a server, and forget what we've learned about its revision and transport"),
	{
		method: http.MethodGet, path: "/tools", open: true, least: identity.Viewer, name: "tools", summary: "The tools of all servers, sorted by name, or by how well they match the parameter q",
		query: slices.Concat(toolParameters, pageParameters), answer: Tools{}, problems: []int{400, 404}, read: (*API).readTools,
	},
	{
		method: http.MethodGet, path: "/clients", open: true, least: identity.Viewer, name: "clients", summary: "The clients with a conversation (a session or stdio), and those that have sent single requests within the last hour",
		query: pageParameters, answer: Clients{}, problems: []int{400}, read: (*API).readClients,
	},
	{
		method: http.MethodGet, path: "/clients/{id}", open: true, least: identity.Viewer, name: "client", summary: "One client",
		answer: Client{}, problems: []int{404}, read: (*API).readClient,
	},
}

var toolParameters = []parameter{
	{"server", "string", "only tools of this server"},
	{"q", "string", "only tools that fit these words, the best first, as in search mode; or whose names contain them"},
	{"effect", "string", "only tools with this effect: read-only, write, destructive or unknown"},
	{"state", "string", "only tools in this state: shown, hidden or invalid"},
	{"sort", "string", "the order: name or tokens; without it, the best matches of q come first"},
}

// listOf returns the read function of a route that lists the items of a server.
func listOf(method string) func(*API, *http.Request) (any, *Problem) {
	return func(a *API, r *http.Request) (any, *Problem) { return a.readItems(r, method) }
}

func operationRoute(op runtime.Operation, summary string) route {
	return route{
		method: http.MethodPost, path: "/servers/{name}/" + string(op), least: identity.Operator, name: string(op) + "Server", summary: summary,
		answer: Operated{}, status: http.StatusAccepted, problems: []int{404, 409},
		read: func(a *API, r *http.Request) (any, *Problem) { return a.operate(r, op) },
	}
}

// serverAPI shows servers, with their handshakes and settings, and operates them.
type serverAPI struct {
	project project
	access  *Access
	config  string // see Options.Config
	report  func() *Report
	logs    func(server string, last int) []LogRecord
}

// readServers answers /servers.
func (a *serverAPI) readServers(r *http.Request) (any, *Problem) {
	report := a.report()
	type entry struct {
		Server
		key string
	}
	all := make([]entry, len(report.Servers))
	for i, s := range report.Servers {
		all[i] = entry{s, fmt.Sprintf("%08d", i)}
	}
	p, bad := pageOf(r, all, func(x *entry) string { return x.key })
	if bad != nil {
		return nil, bad
	}
	costs, out := a.costs(), Servers{Servers: []ServerEntry{}, Total: len(all), Next: p.next}
	for _, x := range p.items {
		out.Servers = append(out.Servers, a.entry(x.Server, costs))
	}
	return out, nil
}

// entry returns the list entry of a server.
func (a *serverAPI) entry(s Server, costs map[string]Cost) ServerEntry {
	c, _ := a.project.Config(s.Name)
	out := ServerEntry{
		Name: s.Name, State: s.State, Since: s.Since, Reason: s.Reason, Failure: s.Failure, Attempts: s.Attempts, RetryAt: s.RetryAt,
		Era: s.Era, Revision: s.Revision, Transport: s.Transport, Endpoint: a.project.path(endpointOf(s.Name)), Prefix: c.Prefix, Lazy: c.Lazy,
		Restarts: s.Restarts, Running: s.Running, Sessions: len(s.Sessions),
	}
	cost := costs[s.Name]
	out.Tokens = cost.Tools + cost.Instructions
	for _, l := range s.Lists {
		if l.ReadAt == nil {
			continue
		}
		n := l.Items
		switch l.Method {
		case mcp.MethodListTools:
			out.Tools = &n
		case mcp.MethodListResources:
			out.Resources = &n
		case mcp.MethodListTemplates:
			out.Templates = &n
		case mcp.MethodListPrompts:
			out.Prompts = &n
		}
	}
	for _, method := range listed {
		out.Hidden += len(a.project.items(s.Name, method).Hidden)
	}
	return out
}

// listed contains the methods that list the items of a server.
var listed = []string{mcp.MethodListTools, mcp.MethodListResources, mcp.MethodListTemplates, mcp.MethodListPrompts}

// costs estimates how many tokens each server needs in a model's context. The keys are server
// names.
func (a *serverAPI) costs() map[string]Cost {
	out := map[string]Cost{}
	for t := range a.project.tools() {
		c := out[t.Server]
		if t.Hidden == "" {
			c.Tools += t.Tokens
		} else {
			c.Hidden += t.Tokens
		}
		out[t.Server] = c
	}
	if lists := a.project.Lists(); lists != nil {
		for _, x := range lists.Of(mcp.MethodListTools) {
			if x.Hello != nil {
				c := out[x.Server]
				c.Instructions = tokens.Text(textOfJSON(x.Hello.Instructions))
				out[x.Server] = c
			}
		}
	}
	return out
}

// The limits of ServerDetail.
const (
	maxInstructions = 4 << 10 // the maximum number of bytes of the instructions
	detailLog       = 50      // the maximum number of log records
)

// readServer answers /servers/{name}.
func (a *serverAPI) readServer(r *http.Request) (any, *Problem) {
	name := r.PathValue("name")
	if bad := a.project.noServer(name); bad != nil {
		return nil, bad
	}
	c, _ := a.project.Config(name)
	report := a.report()
	i := slices.IndexFunc(report.Servers, func(s Server) bool { return s.Name == name })
	if i < 0 {
		return nil, a.project.noServer(name)
	}
	clean := a.project.Clean(name)
	if c.Shared { // how default starts it is none of this project's business
		c = config.Server{Name: name, Prefix: c.Prefix, Unprefixed: c.Unprefixed, Expose: c.Expose, Shared: true}
	}
	out := ServerDetail{
		Server: report.Servers[i], Endpoint: a.project.path(endpointOf(name)), Prefix: c.Prefix, Lazy: c.Lazy, Shown: c.Describe(), Dialect: c.Dialect,
		Pinned: revisionText(c.Revision), Cost: a.costs()[name], Settings: settingsOf(c), Log: a.logs(name, detailLog),
	}
	if h := a.project.items(name, mcp.MethodListTools).Hello; h != nil {
		out.Info, out.Capabilities = cleanJSON(clean, h.Info), cleanJSON(clean, h.Capabilities)
		out.Instructions = shownText(clean, textOfJSON(h.Instructions), maxInstructions)
	}
	return out, nil
}

// readHandshake answers /api/v1/servers/NAME/handshake.
func (a *serverAPI) readHandshake(r *http.Request) (any, *Problem) {
	name := r.PathValue("name")
	if bad := a.project.noServer(name); bad != nil {
		return nil, bad
	}
	out := Handshakes{Server: name, Steps: a.Steps(name)}
	if out.Steps == nil {
		out.Steps = []HandshakeStep{}
	}
	for _, s := range a.project.Report().Servers {
		if s.Name == name {
			out.At = at(s.TracedAt)
		}
	}
	return out, nil
}

// settingsOf returns the settings of a server. For environment variables and headers it returns
// only the names, because the values may be secret.
func settingsOf(c config.Server) []Setting {
	out := []Setting{{"prefix", cmp.Or(c.Prefix, "none")}}
	if !c.Shared {
		out = append(out, []Setting{
			{"isolation", c.Isolation.String()}, {"lazy", fmt.Sprint(c.Lazy)}, {"startTimeout", c.StartTimeout.String()},
			{"callTimeout", c.CallTimeout.String()}, {"callMax", c.CallMax.String()}, {"message", fmt.Sprint(c.Message)},
		}...)
	}
	add := func(name, value string) {
		if value != "" {
			out = append(out, Setting{name, value})
		}
	}
	if c.Ping > 0 {
		add("ping", c.Ping.String())
	}
	add("revision", revisionText(c.Revision))
	add("dialect", c.Dialect)
	add("inheritEnv", strings.Join(c.InheritEnv, ", "))
	var env, headers []string
	for k := range c.Env {
		env = append(env, k)
	}
	slices.Sort(env)
	for _, h := range c.Header {
		headers = append(headers, h.Name)
	}
	add("env", strings.Join(env, ", "))
	add("headers", strings.Join(headers, ", "))
	for _, x := range []struct {
		name string
		list []string
	}{
		{"expose.tools.allow", c.Expose.Tools.Allow}, {"expose.tools.deny", c.Expose.Tools.Deny},
		{"expose.prompts.allow", c.Expose.Prompts.Allow}, {"expose.prompts.deny", c.Expose.Prompts.Deny},
		{"expose.resources.allow", c.Expose.Resources.Allow}, {"expose.resources.deny", c.Expose.Resources.Deny},
	} {
		add(x.name, strings.Join(x.list, ", "))
	}
	return out
}

// operate starts an operation on a server.
func (a *serverAPI) operate(r *http.Request, op runtime.Operation) (any, *Problem) {
	name := r.PathValue("name")
	if bad := a.project.noServer(name); bad != nil {
		return nil, bad
	}
	by := "with `dragoman " + string(op) + "` or the admin API"
	if who, err := a.access.Check(r); err == nil && who != identity.Local {
		by += " (" + excerpt.Line(cmp.Or(who.Name, who.Subject), maxName) + ")"
	}
	if err := a.project.Operate(name, op, by); err != nil {
		p := &Problem{Type: "not-operable", Title: "The operation on the server is not possible", Status: http.StatusConflict, Detail: err.Error()}
		var e *mcp.Error
		if errors.As(err, &e) && e.Failure != nil {
			p.Detail, p.Failure = e.Failure.Sentence, e.Failure
		}
		return nil, p
	}
	out := Operated{Server: name, Operation: string(op)}
	for _, s := range a.project.Statuses() {
		if s.Name == name {
			out.State, out.Since = string(s.State), s.Since.UTC()
		}
	}
	return out, nil
}
