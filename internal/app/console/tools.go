package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// Limits for the pages about tools.
const (
	mostMeters     = 8       // the maximum number of endpoints with their cost, and of servers in Unread
	mostToolsFound = 2000    // the maximum number of tools in the palette
	contextSize    = 200_000 // the size of a model's context, in tokens, for the comparison with the cost
	messageShown   = 16 << 10
	messageStart   = 4 << 10 // how much the page shows of a message longer than messageShown, in bytes
	mostAbout      = 64 << 10
)

// toolList has the values of the page that lists tools.
type toolList struct {
	Q                        url.Values
	Search                   string
	Servers, States, Effects []choice
	Rows                     []toolRow
	Pager                    pager
	All                      int    // the number of tools, including tools that do not match the filters
	Enabled                  int    // the number of tools that clients see at the endpoint /mcp
	Tokens                   string // how many tokens the matching tools need in a model's context
	Meters                   []meter
	MoreMeters               int
	Unread                   []string // the names of servers whose tools Dragoman does not know yet
	MoreUnread               int
	Filtered                 bool
	Configured               int // the number of configured servers
	Switches                 bool
	Pattern                  string // matches the tools that the filter selects, as far as a pattern can
	Key                      string
}

// toolRow shows a tool as a row of the table of tools.
type toolRow struct {
	admin.Tool
	Path        string // the path of the tool's page; "" if the tool has no name
	Revision    string // the revision that the tool's server uses
	Class, Word string
	Rules       []string // why some or all clients do not see the tool; empty if all clients see it
	Invisible   int      // the number of invisible characters in the name, the title and the whole description
	Switch      *toolSwitch
}

// Renamed returns the tool's name at the endpoint /mcp. It returns "" if that is also the tool's
// name at its server.
func (r toolRow) Renamed() string {
	if r.Offered == r.Name {
		return ""
	}
	return r.Offered
}

// meter shows what the tools of an endpoint cost in a model's context.
type meter struct {
	admin.ToolCost
	Percent string
	Width   string // the width of the bar in percent, from 0 to 100
}

// toolPages are the list of tools, and the page of each tool with the form that runs it.
type toolPages struct {
	frame  *frame
	source interface {
		FindTools(admin.ToolQuery) admin.FoundTools
		FindTool(server, name string) (admin.ToolDetail, *admin.Problem)
		ReadItems(ctx context.Context, server, method string)
		ToolCosts() []admin.ToolCost
		FindRuns(server, name string, limit int) []admin.Run
		KnownRules(*identity.Principal) admin.Rules
		UsesFor(ctx context.Context, who *identity.Principal, server, tool, text string, from, limit int) (admin.ToolUses, *admin.Problem)
	}
	edit *editPage
}

func (p *toolPages) register(f *frame) {
	f.add(Page{
		Path: "/tools", Least: identity.Viewer, Template: "tools.html", Nav: "Tools", Group: catalogs, Key: "T", View: p.tools,
		Count: func(s *screen) string {
			n := 0
			for i := range s.Status.Servers {
				tools, _, _ := toolsOf(&s.Status.Servers[i])
				n += tools
			}
			return number(n)
		},
	})
	f.add(p.toolPage())
	f.finders = append(f.finders, p.foundTools)
}

func (p *toolPages) tools(r *http.Request) (*View, error) {
	q, status := r.URL.Query(), statusOf(r)
	l := &toolList{Q: q, Search: q.Get("q"), Configured: len(status.Servers)}
	var names []string
	revisions := map[string]string{}
	for i := range status.Servers {
		s := &status.Servers[i]
		names = append(names, s.Name, s.Name)
		revisions[s.Name] = s.Revision
		if _, _, ok := toolsOf(s); !ok {
			l.Unread = append(l.Unread, s.Name)
		}
	}
	l.Unread, l.MoreUnread = l.Unread[:min(len(l.Unread), mostMeters)], max(0, len(l.Unread)-mostMeters)
	l.Servers = choices(q.Get("server"), "any server", names...)
	l.States = choices(q.Get("state"), "any state", "shown", "enabled", "hidden", "disabled", "invalid", "invalid")
	l.Effects = choices(q.Get("effect"), "any access", "read-only", "read-only", "write", "write", "destructive", "destructive", "unknown", "unknown")
	query := admin.ToolQuery{Server: q.Get("server"), Effect: q.Get("effect"), State: q.Get("state"), Text: l.Search, Sort: q.Get("sort"), Limit: pageRows}
	l.Filtered = query.Server+query.Effect+query.State+query.Text != ""
	if page, err := strconv.Atoi(q.Get("page")); err == nil && page > 1 && page <= 1<<20 {
		query.From = (page - 1) * pageRows
	}
	found := p.source.FindTools(query)
	l.Pager = pagerOf(found.Total, q)
	if from := max(0, l.Pager.From-1); from != query.From { // the requested part of the list does not exist
		query.From = from
		found = p.source.FindTools(query)
	}
	l.All, l.Tokens = found.Total, number(found.Tokens)
	if l.Filtered {
		l.All = p.source.FindTools(admin.ToolQuery{Limit: 1, Brief: true}).Total
	}
	switches := p.switches(r)
	for _, t := range found.Tools {
		row := toolRowOf(t.Tool)
		row.Switch = switches(&t.Tool)
		l.Switches = l.Switches || row.Switch != nil
		row.Revision, row.Invisible = revisions[t.Server], invisibleIn(&t.Tool, t.About)
		l.Rows = append(l.Rows, row)
		l.Key += t.Server + "\x00" + t.Name + row.Word + strconv.Itoa(t.Tokens) + row.Revision + "\n"
	}
	costs := p.source.ToolCosts()
	if len(costs) > 0 {
		l.Enabled = costs[0].Tools
	}
	if query.Server != "" {
		costs = slices.DeleteFunc(slices.Clone(costs), func(x admin.ToolCost) bool { return x.Server != "" && x.Server != query.Server })
	}
	for _, x := range costs[:min(len(costs), mostMeters)] {
		l.Meters = append(l.Meters, meterOf(x))
		l.Key += x.Endpoint + strconv.Itoa(x.Tokens)
	}
	l.MoreMeters = max(0, len(costs)-mostMeters)
	l.Pattern = patternFor(query.Server, l.Search)
	l.Key += strings.Join(l.Unread, "\n")
	return &View{Title: "Tools", Data: l}, nil
}

func meterOf(x admin.ToolCost) meter {
	share := 100 * float64(x.Tokens) / contextSize
	m := meter{ToolCost: x, Width: strconv.FormatFloat(min(100, share), 'f', 1, 64), Percent: strconv.FormatFloat(share, 'f', 1, 64) + " %"}
	if share > 0 && share < .1 {
		m.Percent = "under 0.1 %"
	}
	return m
}

// toolRowOf returns the row that shows the tool t.
func toolRowOf(t admin.Tool) toolRow {
	row := toolRow{Tool: t, Class: "ok quiet", Word: "enabled"}
	if t.Name != "" {
		row.Path = pathOf("servers", t.Server, "tools", t.Name)
	}
	switch {
	case t.State == "invalid":
		row.Class, row.Word = "bad", "invalid"
	case t.State == "hidden":
		row.Class, row.Word = "off", "disabled"
	case t.Stale:
		row.Class, row.Word = "idle", "stale"
	}
	for i, h := range t.Hidden {
		text := h.Rule
		if text == "" {
			text = h.Why
		}
		if i > 0 && t.Hidden[i-1].Rule == h.Rule && t.Hidden[i-1].Why == h.Why {
			continue
		}
		if len(t.Hidden) == 1 {
			text = "not at " + h.Endpoint + ": " + text
		}
		row.Rules = append(row.Rules, text)
	}
	if t.Needs != nil {
		row.Rules = append(row.Rules, "only for "+clientsWith(t.Needs))
	}
	return row
}

// clientsWith describes the clients that see a tool. A client sees the tool if it has at least one
// of the capabilities in needs.
func clientsWith(needs []string) string {
	if len(needs) == 0 {
		return "some clients"
	}
	return "clients with " + strings.Join(needs, " or ")
}

// For returns a sentence that says which clients the server shows the tool to. It returns "" if the
// server shows the tool to all clients.
func (r toolRow) For() string {
	if r.Needs == nil {
		return ""
	}
	return "The server shows it only to " + clientsWith(r.Needs) + "."
}

// foundTools returns the entries of the search palette for all tools with a name.
func (p *toolPages) foundTools(*http.Request) (out []paletteItem) {
	for _, t := range p.source.FindTools(admin.ToolQuery{Limit: mostToolsFound, Brief: true}).Tools {
		if t.Name != "" {
			out = append(out, paletteItem{excerpt.Line(t.Server+" › "+t.Name, 160), "tool", pathOf("servers", t.Server, "tools", t.Name)})
		}
	}
	return out
}

// toolView has the values of the page that shows one tool.
type toolView struct {
	toolRow
	ServerState string
	About       string
	AboutLimit  int
	Arguments   []admin.ToolArgument
	Returns     string
	Definition  message
	Endpoints   []endpointView
	Run         *runForm
	Runs        []runRow
	Who         *whoView // nil in a stream of live values
	Key         string
}

// message is a long text that the page shows without changes, for example the definition of a tool.
type message struct {
	Text string
	Size string // the size of the whole text
	Rest string // the link to the whole text; "" if Text is the whole text
}

// endpointView says whether clients see a tool at an endpoint and, if not, why not. URL is the
// endpoint, and As is the tool's name there.
type endpointView struct {
	URL, As   string
	Why, Rule string // the reason why clients do not see the tool, and the setting that hides it; "" if clients see the tool
}

func (p *toolPages) toolPage() Page {
	return Page{Path: "/servers/{name}/tools/{tool}", Least: identity.Viewer, Template: "tool.html", View: func(r *http.Request) (*View, error) { return p.tool(r) }}
}

// tool returns the page of a tool. Its form leads to the playground.
func (p *toolPages) tool(r *http.Request) (*View, error) {
	s, err := findServer(r)
	if err != nil {
		return nil, err
	}
	t, bad := p.source.FindTool(s.Name, r.PathValue("tool"))
	if bad != nil && !stateOf(r).feed && s.State == "ready" { // since a start or a reload, the list may not have been read
		ctx, stop := context.WithTimeout(r.Context(), readLimit)
		p.source.ReadItems(ctx, s.Name, mcp.MethodListTools)
		stop()
		t, bad = p.source.FindTool(s.Name, r.PathValue("tool"))
	}
	if bad != nil {
		return nil, p.noTool(s.Name, r.PathValue("tool"))
	}
	v := &toolView{
		toolRow: toolRowOf(t.Tool), ServerState: s.State, About: t.About, AboutLimit: mostAbout, Arguments: t.Arguments, Returns: t.Returns,
	}
	v.Revision, v.Invisible = s.Revision, invisibleIn(&t.Tool, t.About)
	v.Definition = messageOf(string(t.Definition), r.URL.Query().Get("all") != "", "?all=1#definition")
	for _, e := range []endpointView{{URL: ownPath(r, "/mcp"), As: t.Offered}, {URL: ownPath(r, "/s/"+s.Name+"/mcp"), As: t.Name}} {
		for _, h := range t.Hidden {
			if h.Endpoint == e.URL {
				e.Why, e.Rule = h.Why, h.Rule
			}
		}
		e.URL = admin.Base(r) + e.URL
		v.Endpoints = append(v.Endpoints, e)
	}
	v.Run = runFormOf(toolItem(&t))
	for _, x := range p.source.FindRuns(s.Name, t.Name, mostRecentRuns) {
		v.Runs = append(v.Runs, runRowOf(x))
	}
	if !stateOf(r).feed {
		v.Who = p.who(r, &t.Tool)
	}
	v.Key = v.Word + v.ServerState + s.Revision + strconv.Itoa(t.Tokens) + string(t.Definition)
	return &View{Title: t.Name, Crumbs: []Crumb{{"Servers", pathOf("servers")}, {s.Name, pathOf("servers", s.Name)}}, Data: v}, nil
}

// PlayPath returns the path of the tool in the playground.
func (v *toolView) PlayPath() string { return playPath(v.Server, kindTool, v.Name) }

// ArgumentRows returns the first arguments of the tool, at most pageRows.
func (v *toolView) ArgumentRows() []admin.ToolArgument {
	return v.Arguments[:min(len(v.Arguments), pageRows)]
}

// RunKey returns text that changes when a run of the tool starts or changes its state.
func (v *toolView) RunKey() (key string) {
	for _, x := range v.Runs {
		key += x.ID + x.State
	}
	return key
}

// noTool returns the error for a tool that its server does not list.
func (p *toolPages) noTool(server, name string) error {
	var names []string
	for _, t := range p.source.FindTools(admin.ToolQuery{Server: server, Limit: mostToolsFound, Brief: true}).Tools {
		names = append(names, t.Name)
	}
	var near []Crumb
	if n := config.Suggest(name, names); n != "" {
		near = append(near, Crumb{n, pathOf("servers", server, "tools", n)})
	}
	all := Crumb{"Show the tools of " + server, prefix + "/tools?" + url.Values{"server": {server}}.Encode()}
	return notFound("No tool of "+server+" has the name "+excerpt.Quote(name, 80), "The server may have changed its list of tools.", all, near...)
}

// messageOf returns text as a message. If text is long and all is false, the message contains only
// the beginning of text, and the link rest, which leads to the whole text.
func messageOf(text string, all bool, rest string) message {
	m := message{Text: text, Size: bytesText(len(text))}
	if len(text) > messageShown && !all {
		m.Text, m.Rest = excerpt.Cut(text, messageStart), rest
	}
	return m
}

// invisibleIn returns the number of invisible characters in the tool's name, title and description.
// about is the whole description.
func invisibleIn(t *admin.Tool, about string) int {
	return countInvisible(t.Name) + countInvisible(t.Title) + countInvisible(about)
}

// countInvisible returns the number of invisible characters in text, except line breaks and tabs.
func countInvisible(text string) (n int) {
	var before rune
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 || excerpt.Invisible(r, before) && r != '\n' && r != '\t' && r != '\r' {
			n++
		}
		i, before = i+size, r
	}
	return n
}
