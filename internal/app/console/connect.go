package console

import (
	"cmp"
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
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
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
	Keyed   bool   // clients need an API key
	Again   string // the link that reloads the page to check for a new client
	Arrival arrival
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
	Bridge       bool   // the client starts dragoman as a stdio server, because the client's file cannot contain a URL
}

// arrival says whether a new client has connected since the page was opened.
type arrival struct {
	Class, Text string
	Path        string // the path of the page of the new client; "" if no new client has connected
}

// connectPage shows how to connect clients.
type connectPage struct {
	program, path string // see Options.Program
	machine       clientfile.Machine
	config        func() *config.Snapshot
}

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
	f.add(Page{Path: "/connect", Least: identity.Viewer, Template: "connect.html", Nav: "Connect", Group: accesses, Key: "N", View: p.view})
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

func (p *connectPage) view(r *http.Request) (*View, error) {
	q, t := r.URL.Query(), sumsOf(r)
	since := openedAt(q.Get("since"))
	v := &connectView{Client: q.Get("client")}
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
	base := admin.Base(r) + ownPath(r, "")
	v.Keyed = p.keyed(base)
	for _, x := range clientfile.Clients() {
		s, err := p.setupOf(x, base, v.Server)
		if err != nil {
			return nil, err
		}
		s.Open = x.ID == v.Client
		s.Class, s.State = connectedState(x.ID, t)
		v.Setups = append(v.Setups, s)
	}
	v.Others = []Crumb{
		{mcp.R20250326.String() + " and later", base + endpointPath(v.Server) + "/mcp"}, {mcp.R20241105.String(), base + endpointPath(v.Server) + "/sse"},
		{"stdio", p.program + " run " + base + endpointPath(v.Server) + "/mcp"},
	}
	waiting := url.Values{"client": {v.Client}, "since": {strconv.FormatInt(since.UnixMilli(), 10)}}
	if v.Server != "" {
		waiting.Set("server", v.Server)
	}
	v.Again = "?" + waiting.Encode()
	v.Arrival = arrivalSince(t, since)
	view := &View{Title: "Connect", Data: v, Stream: pathOf("connect") + v.Again}
	if v.Arrival.Path == "" {
		view.Waiting = "waiting for a client"
	}
	return view, nil
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

// setupOf returns the instructions for connecting the client x to one server, or to all servers if
// server is "". base is the URL of Dragoman.
func (p *connectPage) setupOf(x *clientfile.Client, base, server string) (setup, error) {
	entry := clientfile.Entry{Name: cmp.Or(server, "dragoman"), URL: base + endpointPath(server) + "/mcp"}
	s := setup{Client: x, Bridge: !x.HTTP}
	if s.Bridge {
		entry.Command, entry.URL = []string{p.path, "run", entry.URL}, ""
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
	file, err := clientfile.Connect(x, s.File, nil, entry, nil)
	if err != nil {
		return s, fmt.Errorf("cannot make the entry for %s: %w", x.Title, err)
	}
	s.Snippet = strings.TrimRight(string(file), "\n")
	words := []string{p.program, "connect", x.ID, "--url", base}
	if server != "" {
		words = append(words, "--server", server)
	}
	s.Preview = shellLine(words...)
	s.Write = shellLine(append(words, "--write")...)
	if x.ID == "claude-code" {
		s.Terminal = shellLine("claude", "mcp", "add", "--transport", "http", entry.Name, entry.URL)
	}
	return s, nil
}

// shellLine joins words to a command line for a shell. It quotes words with special characters.
func shellLine(words ...string) string {
	out := make([]string, len(words))
	for i, w := range words {
		if out[i] = w; w == "" || hasSpecial(w) {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

// hasSpecial reports whether a shell needs quotes around the word w.
func hasSpecial(w string) bool {
	return strings.ContainsFunc(w, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./:%@+=,", r)
	})
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

// arrivalSince returns the client with the newest session that began after the page was opened. The
// client can be new, or a known client that has opened another session.
func arrivalSince(t *sums, since time.Time) arrival {
	out, newest := arrival{Class: "busy", Text: "Waiting for a new client."}, since
	for i := range t.Clients {
		x := &t.Clients[i]
		at := x.First
		for _, s := range x.Sessions {
			if s.Since.After(at) {
				at = s.Since
			}
		}
		if at.After(newest) {
			newest = at
			out = arrival{Class: "ok", Text: excerpt.Line(x.Title(), 120) + " connected at " + when(at) + ". It speaks " + x.Revision() + ".", Path: pathOf("clients", x.ID())}
		}
	}
	return out
}
