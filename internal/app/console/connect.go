package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	terminal "github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// connectView has the values of the page that explains how to connect a client.
type connectView struct {
	Setups  []setup
	Servers []choice
	Server  string // the server that the client will use; "" for all servers
	Client  string // the ID of the client whose setup the page shows open
	Others  []Crumb
	Keyed   bool   // clients need an API key, or sign in
	SignsIn bool   // clients can sign in here, without a key
	Way     string // "key" or "sign-in" if Keyed
	Ways    []Crumb
	Env     string // the environment variable with the key; "" if clients send none
	Again   string // the link that reloads the page to check for a new client
	Arrival arrival

	// The following are for the form that makes a key.
	Makes   bool // the viewer may have a key made
	Own     bool // it acts for the viewer, who is no admin
	Name    string
	Number  string
	Sure    string
	Problem string
	Made    *admin.NewAPIKey // shown once
}

// setup explains how to connect one kind of client.
type setup struct {
	*clientfile.Client
	Open         bool
	Class, State string // the CSS class and the text that say whether the client is connected
	File         string // the path of the client's configuration file for all projects
	Project      string // the path of the client's configuration file for one project; "" if the client has none
	Snippet      string
	Terminal     string // the command of the client itself that adds the entry; "" if there is none
	Preview      string // the dragoman command that shows how the file would change
	Write        string // the dragoman command that changes the file
	Signs        string // what the client shows at its sign-in; "" if it sends a key, or needs none
	Asks         bool   // the client asks for the key
	Bridge       bool   // the client starts dragoman as a stdio server, because the client's file cannot contain a URL
}

// arrival says whether a new client has connected since the page was opened.
type arrival struct {
	Class, Text string
	Path        string // the path of the page of the new client; "" if no new client has connected
	Sees        string // what the client sees
	Refused     string // the newest refusal since the page was opened; "" for none
	Alarm       string // the class of Refused
}

// KeyMaker makes API keys for a project, and decides who may have which.
type KeyMaker interface {
	MakeKeyFor(context.Context, *identity.Principal, admin.APIKeyRequest) (admin.NewAPIKey, *admin.Problem)
}

// connectPage shows how to connect clients, and makes the key that one of them needs. No snippet has a key: it names an
// environment variable, or what the client asks for.
type connectPage struct {
	frame         *frame
	program, path string // see Options.Program
	machine       clientfile.Machine
	config        func() *config.Snapshot
	traffic       *traffic
	source        interface {
		KeyMaker
		ToolCosts() []admin.ToolCost
	}
	forms forms
}

// keyVariable is the environment variable in which snippets expect an API key. No snippet has the key itself.
const keyVariable = "DRAGOMAN_KEY"

// keyWords are what somebody types who makes a key; see sure.
const keyWords = "change access"

// keyed reports whether clients need an API key at a base URL.
func (p *connectPage) keyed(base string) bool {
	switch c := p.config; {
	case c == nil:
		return false
	case strings.HasPrefix(base, "https:"):
		return !c().AllowUnauthenticatedNetworkAccess
	default:
		return c().Access.LoopbackKeys
	}
}

func (p *connectPage) register(f *frame) {
	f.add(p.page())
	f.handleSure("POST /connect", identity.Viewer, keyWords, p.make)
}

func (p *connectPage) page() Page {
	return Page{
		Path: "/connect", Least: identity.Viewer, Template: "connect.html", Sheet: "second.css", Nav: "Connect", Group: accesses, Key: "N",
		View: func(r *http.Request) (*View, error) { return p.view(r, &connectView{}) },
	}
}

// clientWords maps the ID of a client to prefixes of the names that the client reports. isClient
// compares names in lower case, and only their letters and digits.
var clientWords = map[string][]string{
	"claude": {"claudeai", "claudedesktop"}, "claude-code": {"claudecode"}, "cursor": {"cursor"}, "vscode": {"visualstudiocode", "vscode"},
	"codex": {"codex"}, "gemini": {"gemini"}, "opencode": {"opencode"},
}

// isClient reports whether name, which a client reported, is a name of the client with this ID.
func isClient(id, name string) bool {
	word := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
	return slices.ContainsFunc(clientWords[id], func(begin string) bool { return strings.HasPrefix(word, begin) })
}

// view returns the page, and sets the remaining values of v.
func (p *connectPage) view(r *http.Request, v *connectView) (*View, error) {
	q, t := r.URL.Query(), sumsOf(r)
	since := openedAt(q.Get("since"))
	v.Client = q.Get("client")
	var names []string
	for i := range statusOf(r).Servers {
		name := statusOf(r).Servers[i].Name
		names = append(names, name, name)
		if name == q.Get("server") {
			v.Server = name
		}
	}
	v.Servers = choices(v.Server, "all servers", names...)
	if _, known := clientfile.ByID(v.Client); !known {
		v.Client = "claude-code"
	}
	base := admin.Base(r)
	p.chooseWay(r, v, base)
	root := base + ownPath(r, "")
	for _, x := range clientfile.Clients() {
		s, err := p.setupOf(x, root, v)
		if err != nil {
			return nil, err
		}
		s.Open = x.ID == v.Client
		s.Class, s.State = connectedState(x.ID, t)
		v.Setups = append(v.Setups, s)
	}
	v.Others = p.addresses(statusOf(r), base, root, v.Server)
	again := url.Values{"client": {v.Client}, "since": {strconv.FormatInt(since.UnixMilli(), 10)}}
	if v.Server != "" {
		again.Set("server", v.Server)
	}
	if v.Way != "" {
		again.Set("with", v.Way)
	}
	v.Again = "?" + again.Encode()
	v.Arrival = p.arrivalSince(t, since, ownPath(r, ""))
	view := &View{Title: "Connect", Data: v, Stream: pathOf("connect") + v.Again}
	if v.Arrival.Path == "" {
		view.Waiting = "waiting for a client"
	}
	return view, nil
}

// chooseWay says how clients get in: with a key, without one after their person has signed in, or with nothing.
func (p *connectPage) chooseWay(r *http.Request, v *connectView, base string) {
	if v.Keyed = p.keyed(base); !v.Keyed {
		return
	}
	v.SignsIn = p.config().Access.Own.On
	v.Way = "key"
	if v.SignsIn && r.URL.Query().Get("with") != "key" {
		v.Way = "sign-in"
	}
	if v.SignsIn {
		v.Ways = []Crumb{{"Sign in", queryWith(r.URL.Query(), "with", "sign-in")}, {"API key", queryWith(r.URL.Query(), "with", "key")}}
	}
	if v.Way == "key" {
		v.Env = keyVariable
	}
	who := stateOf(r).viewer
	v.Own = !may(r, identity.Admin)
	v.Makes = v.Way == "key" && (!v.Own || who.caller)
	v.Number, v.Sure = formNumber(), sureWords(r, keyWords)
	v.Name = cmp.Or(v.Name, v.Client)
}

// addresses returns the addresses of the endpoints, for other clients.
func (p *connectPage) addresses(status *admin.Report, base, root, server string) []Crumb {
	at := root + endpointPath(server)
	all := []Crumb{{mcp.R20250326.String() + " and later", at + "/mcp"}, {mcp.R20241105.String(), at + "/sse"}, {"stdio", p.program + " run " + at + "/mcp"}}
	if server == "" {
		all = append(all, Crumb{"search mode, for many tools", root + "/find/mcp"}, Crumb{"a single server", root + "/s/NAME/mcp"})
	}
	for _, name := range status.Projects {
		if path := "/p/" + name + "/mcp"; root == base && !slices.ContainsFunc(status.Endpoints, func(e admin.Endpoint) bool { return e.Path == path }) {
			all = append(all, Crumb{"the project " + name, base + path})
		}
	}
	return all
}

// madeKey is what a form that makes a key has led to.
type madeKey struct{ bad *admin.Problem }

// make handles the form that makes a key. Only this response has it: a form that is sent again doesn't get it.
func (p *connectPage) make(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	v, status, number := &connectView{Name: strings.TrimSpace(r.PostForm.Get("name"))}, http.StatusOK, r.PostForm.Get("number")
	switch {
	case number == "":
		v.Problem, status = "The form can't be read. Load the page again.", http.StatusBadRequest
	case !sure(r, keyWords):
		v.Problem, status = unsure(keyWords), http.StatusForbidden
	default:
		answer, again := p.forms.once(r, number, func() any {
			who := stateOf(r).viewer.who
			key, bad := p.source.MakeKeyFor(r.Context(), who, admin.APIKeyRequest{Name: v.Name, Mine: !may(r, identity.Admin)})
			if bad == nil {
				v.Made = &key // which isn't kept, so that nobody gets it a second time
			}
			return madeKey{bad}
		})
		x, known := answer.(madeKey)
		switch {
		case known && x.bad != nil:
			v.Problem, status = x.bad.Error(), x.bad.Status
			p.forms.forget(r, number)
		case again:
			v.Problem, status = "This form was sent before, and its key is shown only once. If it was lost, make another one, and revoke the one before.", http.StatusConflict
		}
	}
	p.frame.again(w, r, p.page(), func(r *http.Request) (*View, error) {
		view, err := p.view(r, v)
		if view != nil {
			view.Status = status
		}
		return view, err
	})
}

// openedAt parses the time when the page was opened, in milliseconds since the epoch. It returns
// the current time if text is not a time within the last 24 hours.
func openedAt(text string) time.Time {
	now := time.Now()
	ms, err := strconv.ParseInt(text, 10, 64)
	if at := time.UnixMilli(ms); err == nil && at.Before(now) && now.Sub(at) < 24*time.Hour {
		return at
	}
	return now
}

// endpointPath returns the path of a server's endpoint, without the last part /mcp. The endpoint of
// all servers is /mcp, so the result for "" is "".
func endpointPath(server string) string {
	if server == "" {
		return ""
	}
	return "/s/" + url.PathEscape(server)
}

// signInWords say what a client shows when its person has to sign in, by its ID.
var signInWords = map[string]string{
	"claude":      "The bridge opens your browser when Claude Desktop starts it.",
	"claude-code": "Type /mcp in Claude Code, choose the server, and then Authenticate.",
	"cursor":      "The server's entry in Cursor's settings says that it needs a login. Click it.",
	"vscode":      "VS Code asks whether the server may sign you in. Choose Allow.",
	"codex":       "Run codex mcp login with the server's name.",
	"gemini":      "Type /mcp auth with the server's name in Gemini CLI.",
	"opencode":    "Run opencode mcp auth with the server's name.",
}

// setupOf returns the instructions for connecting the client x as the page says: to one server or to all, and with a key or
// without one. base is the URL of Dragoman's endpoints for the project.
func (p *connectPage) setupOf(x *clientfile.Client, base string, v *connectView) (setup, error) {
	server := v.Server
	entry := clientfile.Entry{Name: cmp.Or(server, "dragoman"), URL: base + endpointPath(server) + "/mcp", Key: v.Env}
	at := entry.URL
	s := setup{Client: x, Bridge: !x.HTTP, Asks: v.Env != "" && x.ID == "vscode"}
	if s.Bridge {
		entry.Command, entry.URL = clientfile.RunWords(p.path, at, v.Env), ""
	}
	if v.Way == "sign-in" {
		s.Signs = signInWords[x.ID]
	}
	machine := p.machine
	machine.OS, machine.Home, machine.Folder = cmp.Or(machine.OS, "linux"), "~", "."
	if machine.Env == nil {
		machine.Env = func(string) (string, bool) { return "", false }
	}
	for _, at := range machine.Places(x) {
		if at.Project == "" && s.File == "" {
			s.File = at.Path
		}
		if at.Project != "" && s.Project == "" {
			s.Project = at.Path
		}
	}
	file, err := clientfile.Snippet(x, s.File, entry)
	if err != nil {
		return s, fmt.Errorf("cannot make the entry for %s: %w", x.Title, err)
	}
	s.Snippet = strings.TrimRight(string(file), "\n")
	words := []string{p.program, "connect", x.ID, "--url", base}
	if server != "" {
		words = append(words, "--server", server)
	}
	if v.Env != "" {
		words = append(words, "--key-env", v.Env)
	}
	s.Preview = terminal.ShellLine(words...)
	s.Write = terminal.ShellLine(append(words, "--write")...)
	if x.ID == "claude-code" {
		line := []string{"claude", "mcp", "add", "--transport", "http", entry.Name, entry.URL}
		if v.Env != "" {
			line = append(line, "--header", "Authorization: Bearer ${"+v.Env+"}") // in single quotes, so the shell leaves it to Claude Code
		}
		s.Terminal = terminal.ShellLine(line...)
	}
	return s, nil
}

// connectedState returns a CSS class and a text that say whether the client with this ID is
// connected.
func connectedState(id string, t *sums) (class, text string) {
	class, text = "idle", "not connected yet"
	var last time.Time
	for i := range t.Clients {
		x := &t.Clients[i]
		if !isClient(id, x.Name()) || x.Last.Before(last) {
			continue
		}
		last = x.Last
		class, text = "idle", "last seen "+when(x.Last)
		if x.here() {
			class, text = "ok quiet", "connected, "+x.Revision()
		}
	}
	return class, text
}

// arrivalSince returns the client with the newest session that began after the page was opened, with what it sees. The client
// can be new, or a known client that has opened another session. It also returns whether a request was refused since. root is
// the path that all endpoints of the project begin with; see ownPath.
func (p *connectPage) arrivalSince(t *sums, since time.Time, root string) arrival {
	out, newest, path := arrival{Class: "busy", Text: "Waiting for a new client."}, since, ""
	for i := range t.Clients {
		x := &t.Clients[i]
		at, of := x.First, ""
		for _, s := range x.Sessions {
			if s.Since.After(at) || of == "" {
				of = s.Path
			}
			if s.Since.After(at) {
				at = s.Since
			}
		}
		if at.After(newest) {
			newest, path = at, of
			out = arrival{Class: "ok", Text: excerpt.Line(x.Title(), 120) + " connected at " + when(at) + ". It speaks " + x.Revision() + ".", Path: pathOf("clients", x.ID())}
		}
	}
	if out.Path != "" {
		out.Sees = p.sees(strings.TrimPrefix(path, root))
	}
	refused := p.traffic.newest(func(e *keptEvent) bool { return e.Kind == event.Refusal && e.Time.After(since) })
	if len(refused) > 0 && refused[0].Time.After(newest) {
		out.Alarm, out.Refused = "st warn", "A request was refused at "+when(refused[0].Time)+": "+excerpt.Line(refused[0].Detail, 200)
	}
	return out
}

// sees returns what clients see at an endpoint, whose path is that in the default project.
func (p *connectPage) sees(path string) string {
	find := path == "/find/mcp"
	if find {
		path = "/mcp"
	}
	for _, c := range p.source.ToolCosts() {
		switch {
		case c.Endpoint != path:
		case find:
			return "It can search " + plural(c.Tools, "tool") + "."
		default:
			return "Its endpoint has " + plural(c.Tools, "tool") + ". Rules and its key may hide some."
		}
	}
	return ""
}
