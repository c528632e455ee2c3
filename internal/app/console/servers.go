package console

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	terminal "github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/base/tokens"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// serverList has the values of the page that lists servers.
type serverList struct {
	Q      url.Values
	Search string
	States []choice
	Eras   []choice
	Rows   []serverRow
	Pager  pager
	All    int // the number of servers, including servers that do not match the filters
	Off    int // how many of them the configuration disables
	Key    string
}

// serverRow shows a server as a row of the table of servers.
type serverRow struct {
	ID, Name, Path      string
	Class, Word         string
	Revision, Transport string
	Tools               string
	Note                string
	tools               int
	sum                 serverSum
	order               int
}

func (r serverRow) Calls() string { return number(r.sum.Calls) }
func (r serverRow) Failed() string {
	if r.sum.Failed == 0 {
		return ""
	}
	return number(r.sum.Failed)
}

func (r serverRow) Last() time.Time { return r.sum.Last }

// serverPages are the list of servers, and the page of each server.
type serverPages struct {
	frame  *frame
	source interface {
		Logs(server string, last int) []admin.LogRecord
		Steps(server string) []admin.HandshakeStep
		CallsOf(admin.CallQuery) admin.Calls
		FindTools(admin.ToolQuery) admin.FoundTools
	}
	edit       *editPage
	operations func(string, runtime.Operation, string) error // may be nil; see Options.Operate
	config     func() *config.Snapshot                       // may be nil
	where      *where
	needs      *needs
}

func (p *serverPages) register(f *frame) {
	f.add(Page{
		Path: "/servers", Least: identity.Viewer, Template: "servers.html", Nav: "Servers", Group: catalogs, Key: "S", View: p.servers,
		Count: func(s *screen) string { return number(len(s.Status.Servers)) },
	})
	f.add(Page{Path: "/servers/{name}", Least: identity.Viewer, Template: "server.html", View: p.server})
	f.handle("POST /servers/{name}/{operation}", identity.Operator, p.operate)
}

// stateOrder is the order of the states in a table. States that need attention come first.
var stateOrder = map[string]int{"failed": 0, "unresponsive": 1, "starting": 2, "ready": 3, "idle": 4, "stopped": 5, "disabled": 6}

func (p *serverPages) servers(r *http.Request) (*View, error) {
	status, t, q := statusOf(r), sumsOf(r), r.URL.Query()
	l := &serverList{Q: q, Search: q.Get("q"), All: len(status.Servers)}
	l.States = choices(q.Get("state"), "any state", "ready", "ready", "failed", "failed", "unresponsive", "unresponsive", "starting", "starting", "idle", "idle", "stopped", "stopped", "disabled", "disabled")
	l.Eras = choices(q.Get("era"), "any era", "legacy", "legacy", "modern", "modern")
	var all []serverRow
	for i := range status.Servers {
		s := &status.Servers[i]
		if !matches(l.Search, s.Name, s.Revision, s.Transport) || q.Get("state") != "" && q.Get("state") != s.State || q.Get("era") != "" && q.Get("era") != s.Era {
			continue
		}
		row := serverRow{
			ID: "s" + strconv.Itoa(i+1), Name: s.Name, Path: pathOf("servers", s.Name), Revision: s.Revision, Transport: transportName(s.Transport), sum: t.Servers[s.Name], tools: -1,
			order: stateOrder[s.State],
		}
		row.Class, row.Word = markOf(s.State)
		if n, stale, ok := toolsOf(s); ok {
			row.tools, row.Tools = n, number(n)
			if stale {
				row.Tools += ", stale"
			}
		}
		if s.Failure != nil {
			row.Note = withoutName(s.Failure.Sentence, s.Name)
		} else if s.State != "ready" && s.State != "idle" {
			row.Note = withoutName(s.Reason, s.Name)
		}
		all = append(all, row)
	}
	off := p.off(r)
	l.Off, l.All = len(off), l.All+len(off)
	for _, row := range off {
		if matches(l.Search, row.Name) && q.Get("era") == "" && (q.Get("state") == "" || q.Get("state") == row.Word) {
			all = append(all, row)
		}
	}
	sorted(all, q, "state", map[string]func(a, b serverRow) int{
		"state": func(a, b serverRow) int { return cmp.Compare(a.order, b.order) },
		"name":  func(a, b serverRow) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) },
		"calls": func(a, b serverRow) int {
			return cmp.Or(cmp.Compare(a.sum.Calls, b.sum.Calls), cmp.Compare(a.sum.All, b.sum.All))
		},
		"tools":    func(a, b serverRow) int { return cmp.Compare(a.tools, b.tools) },
		"revision": func(a, b serverRow) int { return strings.Compare(a.Revision, b.Revision) },
	})
	l.Rows, l.Pager = paged(all, q)
	for _, row := range l.Rows {
		l.Key += row.Name + row.Revision + row.Note + row.Tools + "\n"
	}
	return &View{Title: "Servers", Data: l}, nil
}

// off returns rows for the servers that the configuration disables. They lead to the page that enables
// them.
func (p *serverPages) off(r *http.Request) (rows []serverRow) {
	if p.config == nil {
		return nil
	}
	for _, s := range p.config().Servers {
		if !s.Disabled {
			continue
		}
		row := serverRow{ID: "d" + strconv.Itoa(len(rows)+1), Name: s.Name, Class: "off", Word: "disabled", tools: -1, order: stateOrder["disabled"]}
		if p.edit.can(r, s.Name) {
			row.Path = editPath(s.Name)
		}
		rows = append(rows, row)
	}
	return rows
}

// withoutName removes the words "server NAME" from the beginning of a sentence, because the row
// shows the name already.
func withoutName(sentence, name string) string {
	return upper(strings.TrimPrefix(sentence, "server "+strconv.Quote(name)+" "))
}

// shownLogs is the maximum number of log records on the page of a server.
const shownLogs = 50

// serverView has the values of the page that shows one server.
type serverView struct {
	*admin.Server
	Class, Word string
	Need        *need
	Sum         serverSum
	Transport   string
	Tools       string
	Endpoint    string
	Prefix      string
	Target      string // the command or the URL of the server
	Steps       []stepView
	HandshakeAt time.Time
	Lists       []listView
	ToolList    serverTools
	Logs        []admin.LogRecord
	Telling     int // the index in Logs of the record with the most useful line of stderr; -1 for none
	LogKey      string
	Calls       []admin.Call
	Settings    *settings
	Parts       []part
	Key         string
	Buttons     []button
	Edit        string // the address of the page that edits the server in the configuration file; "" if the user can't
}

// serverTools are a server's tools on its page.
type serverTools struct {
	Rows     []switchRow
	Pager    pager
	Tokens   int // of those that clients see
	Known    bool
	Switches bool // the user can show and hide tools here
	Key      string
}

// switchRow is a tool with its switch.
type switchRow struct {
	toolRow
	As     string // the name at /mcp, if it is not the server's prefix and the tool's name
	On     bool
	Switch bool // expose can show or hide this tool alone
}

// part is a link to a section of a server's page, or to a separate page about the server.
type part struct {
	Title, Path string
	Current     bool
}

// stepView shows a step of a handshake.
type stepView struct {
	At             string
	Class          string // "no", "ok" or "end"
	Sent, Got, Why string
	Params, Answer string // the beginnings of the params that Dragoman sent and of the peer's answer
	ParamsSize     int
	AnswerSize     int
	Sizes          string
	End            string // how the handshake ended, if this is the last step; otherwise ""
}

// listView shows the state of a list that Dragoman read from a server.
type listView struct {
	What        string
	Items       string
	ReadAt      time.Time
	Class, Word string
	Failed      string
	Odd         []admin.RejectedItem
}

// serverParts returns links to the sections of a server's page, and to the separate pages about the
// server. current is the title of the link that leads to the current page, or "".
func serverParts(s *admin.Server, current string) []part {
	base := pathOf("servers", s.Name)
	parts := []part{
		{Title: "Handshake", Path: base + "#handshake"}, {Title: "Calls", Path: base + "#calls"},
		{Title: "Logs", Path: base + "#log"}, {Title: "Tools", Path: base + "#tools"},
		{Title: "Resources", Path: base + "/resources"}, {Title: "Prompts", Path: base + "/prompts"},
		{Title: "Findings", Path: base + "/findings"}, {Title: "Settings", Path: base + "#settings"},
	}
	for i := range parts {
		parts[i].Current = parts[i].Title == current
	}
	return parts
}

// listViewOf returns the state of the list l. ready says whether the server is ready.
func listViewOf(l *admin.List, ready bool) listView {
	x := listView{What: listName(l.Method), Items: number(l.Items), Failed: l.Failed, Odd: l.Odd, Class: "ok", Word: "read"}
	if read := cmp.Or(l.ReadAt, l.KeptAt); read != nil {
		x.ReadAt = *read
	}
	switch {
	case l.KeptAt != nil:
		x.Class, x.Word = "warn", "from disk"
	case l.Failed != "":
		x.Class, x.Word = "bad", "failed"
	case l.Stale && !ready:
		x.Class, x.Word = "warn", "stale"
	case l.Reading:
		x.Class, x.Word = "busy", "reading"
	case l.ReadAt == nil:
		x.Class, x.Word, x.Items = "idle", "not read", ""
	case l.CutOff:
		x.Class, x.Word = "warn", "cut off"
	}
	return x
}

func (p *serverPages) server(r *http.Request) (*View, error) {
	s, err := findServer(r)
	if err != nil {
		return nil, p.disabled(r, err)
	}
	t := sumsOf(r)
	v := &serverView{Server: s, Sum: t.Servers[s.Name], Transport: transportName(s.Transport), Parts: serverParts(s, ""), Buttons: pressable(r, p.needs.serverButtons(s)[1:])}
	v.Class, v.Word = markOf(s.State)
	if n, ok := p.needs.of(s); ok {
		n.Buttons = pressable(r, n.Buttons)
		v.Need = &n
	}
	if n, _, ok := toolsOf(s); ok {
		v.Tools = plural(n, "tool")
	}
	for _, e := range statusOf(r).Endpoints {
		if e.Server == s.Name {
			v.Endpoint = admin.Base(r) + e.Path
		}
	}
	if p.config != nil {
		snapshot := p.config()
		if x, ok := snapshot.Server(s.Name); ok {
			v.Target = targetOf(&x)
			if !x.Unprefixed {
				v.Prefix = x.Prefix + snapshot.Separator
			}
		}
		v.Settings = p.where.settings(snapshot, s.Name)
	}
	if p.edit.can(r, s.Name) {
		v.Edit = editPath(s.Name)
	}
	v.tools(p, r.URL.Query())
	v.steps(p.source.Steps(s.Name))
	for _, l := range s.Lists {
		x := listViewOf(&l, s.State == "ready")
		v.Lists = append(v.Lists, x)
		v.Key += x.What + x.Items + x.Word + x.Failed
	}
	v.Logs = p.source.Logs(s.Name, shownLogs)
	v.Telling = tellingLine(v.Logs, s.Failure)
	if n := len(v.Logs); n > 0 {
		v.LogKey = v.Logs[n-1].ID
	}
	v.Calls = p.source.CallsOf(admin.CallQuery{Server: s.Name, Limit: 10}).Calls
	v.Key += s.State + s.Revision + s.Reason + strconv.Itoa(len(s.Sessions)) + v.HandshakeAt.String()
	if s.RetryAt != nil {
		v.Key += s.RetryAt.String()
	}
	return &View{Title: s.Name, Crumbs: []Crumb{{"Servers", pathOf("servers")}}, Data: v}, nil
}

// disabled returns the error for a server that runs nowhere: err, or where to enable the server if the
// configuration disables it.
func (p *serverPages) disabled(r *http.Request, err error) error {
	name := r.PathValue("name")
	if p.config == nil {
		return err
	}
	if x, ok := p.config().Server(name); !ok || !x.Disabled {
		return err
	}
	next := Crumb{"Show all servers", pathOf("servers")}
	if p.edit.can(r, name) {
		next = Crumb{"Enable server " + name, editPath(name) + "?do=" + admin.EditEnable}
	}
	return notFound(name+" is disabled", "The configuration disables this server, so nothing of it is running.", next)
}

// tools sets the part of the server's tools that the query q selects.
func (v *serverView) tools(p *serverPages, q url.Values) {
	l := &v.ToolList
	query := admin.ToolQuery{Server: v.Name, Sort: "name", Limit: pageRows}
	found := p.source.FindTools(query)
	if l.Pager = pagerOf(found.Total, q); l.Pager.From > 1 {
		query.From = l.Pager.From - 1
		found = p.source.FindTools(query)
	}
	l.Tokens = found.Tokens
	_, _, l.Known = toolsOf(v.Server)
	var filter config.Filter
	if p.config != nil {
		x, _ := p.config().Server(v.Name)
		filter = x.Expose.Tools
	}
	for _, t := range found.Tools {
		row := switchRow{toolRow: toolRowOf(t.Tool)}
		row.Invisible = invisibleIn(&t.Tool, t.About)
		if row.As = row.Renamed(); row.As == v.Prefix+t.Name {
			row.As = ""
		}
		_, hidden := filter.Hides(t.Name)
		row.On = !hidden
		_, row.Switch = filter.With(t.Name, hidden)
		row.Switch = row.Switch && v.Edit != "" && (hidden || t.State == "shown")
		l.Switches = l.Switches || row.Switch
		l.Rows = append(l.Rows, row)
		l.Key += t.Name + "\x00" + row.Word + strconv.Itoa(t.Tokens) + strings.Join(row.Rules, "\n") + "\n"
	}
}

// operate handles the buttons that start, stop, restart or probe a server.
func (p *serverPages) operate(w http.ResponseWriter, r *http.Request) {
	name, op := r.PathValue("name"), runtime.Operation(r.PathValue("operation"))
	done := map[runtime.Operation]string{runtime.OpStart: "is starting", runtime.OpStop: "is stopping", runtime.OpRestart: "is restarting", runtime.OpProbe: "is probed again"}[op]
	if done == "" || p.operations == nil {
		p.frame.fail(w, r, notFound("There is no operation "+excerpt.Quote(string(op), 64)+" for a server", "The operations are start, stop, restart and probe.", Crumb{"Show the server", pathOf("servers", name)}))
		return
	}
	by := "in the console"
	if guest := guestOf(r); guest != "" {
		by += " (" + excerpt.Line(guest, 64) + ")"
	}
	switch err := p.operations(name, op, by); {
	case errors.Is(err, runtime.ErrNoServer):
		p.frame.fail(w, r, noServer(name, nil))
		return
	case err != nil:
		say(w, "Dragoman could not do this with "+excerpt.Word(name, 64)+": "+err.Error()+".")
	default:
		say(w, excerpt.Line(name, 64)+" "+done+".")
	}
	http.Redirect(w, r, pathOf("servers", name), http.StatusSeeOther)
}

// toolsOf returns how many tools the server had when Dragoman last read its list. ok is false if
// Dragoman has never read the list. stale is true if the number may be out of date.
func toolsOf(s *admin.Server) (n int, stale, ok bool) {
	for _, l := range s.Lists {
		if l.Method == mcp.MethodListTools && l.ReadAt != nil {
			return l.Items, l.Stale && s.State != "ready", true
		}
	}
	return 0, false, false
}

// transportName returns the name of the transport t for display.
func transportName(t string) string {
	switch t {
	case "http":
		return "HTTP"
	case "sse":
		return "HTTP+SSE"
	case "inmem":
		return "built in"
	}
	return t
}

// targetOf returns the command of a server with shell quoting, or the server's URL. It masks
// secrets.
func targetOf(s *config.Server) string {
	words := s.CommandLine()
	if words == nil {
		return s.Describe()
	}
	return terminal.ShellLine(words...)
}

// steps sets the steps of the last handshake, and when the handshake took place.
func (v *serverView) steps(all []admin.HandshakeStep) {
	if v.Handshake == nil {
		return
	}
	v.HandshakeAt = v.Handshake.At
	v.Steps = stepsOf(all)
	n := len(v.Steps)
	if n == 0 || v.Revision == "" {
		return
	}
	v.Steps[n-1].Class, v.Steps[n-1].End = "end", "Connected: "+v.Revision+" over "+v.Transport+"."
	for _, l := range v.Server.Lists {
		if l.Method != mcp.MethodListTools || l.ReadAt == nil && l.Failed == "" {
			continue
		}
		x := stepView{At: "then", Class: "ok", Sent: l.Method, Got: plural(max(l.Items, v.ToolList.Pager.Total), "tool"), Why: upper(tokens.About(v.ToolList.Tokens)) + " for a model's context"}
		if l.Failed != "" {
			x.Class, x.Got, x.Why = "no", "The list could not be read", upper(strings.TrimSuffix(l.Failed, "."))
		} else if later := l.ReadAt.Sub(v.HandshakeAt); later > time.Minute || later < 0 {
			x.At = l.ReadAt.Local().Format("15:04:05")
		} else {
			x.At = spanText(time.Duration(all[len(all)-1].AtMS)*time.Millisecond + later)
		}
		if l.Stale {
			x.Why += ". The list may have changed since"
		}
		v.Steps = append(v.Steps, x)
	}
}

// listName returns the word for the items of the list that method reads.
func listName(method string) string {
	switch method {
	case mcp.MethodListTools:
		return "tools"
	case mcp.MethodListPrompts:
		return "prompts"
	case mcp.MethodListResources:
		return "resources"
	case mcp.MethodListTemplates:
		return "resource templates"
	case mcp.MethodListSkills:
		return "skills"
	}
	return method
}

// SessionRows returns a row for each session with the server.
func (v *serverView) SessionRows() (rows []sessionRow) {
	for _, s := range v.Sessions {
		x := sessionRow{User: cmp.Or(s.Principal, "everybody"), Kind: s.Role, Active: strconv.Itoa(s.Running), Caps: strings.Join(s.Capabilities, ", ")}
		switch s.Role {
		case "home":
			x.Kind = "main"
		case "lane":
			x.Kind, x.Title = "exclusive", "exclusive session: server requests during a call reach the right client"
		case "link":
			x.Kind, x.Title = "shared", "a modern server has no sessions, so its clients share a connection"
		case "call":
			x.Kind, x.Title = "one call", "isolation is call: each call has a session"
		}
		if s.PID > 0 {
			x.PID = strconv.Itoa(s.PID)
		}
		rows = append(rows, x)
	}
	return rows
}

type sessionRow struct{ User, Kind, Title, Active, Caps, PID string }

// outcomeMark returns the CSS class and the word for the outcome of the call c.
func outcomeMark(c admin.Call) (class, word string) {
	switch {
	case c.Outcome == admin.OutcomeRunning:
		return "busy", "running"
	case c.Outcome == string(event.ToolError):
		return "warn", "tool error"
	case c.Outcome == "ok":
		return "ok", "succeeded"
	case c.Outcome == "parked":
		return "held", "waiting for user input"
	case c.Cause == "timeout":
		return "bad", "timeout"
	case c.Cause == "cancelled", c.Outcome == "cancelled":
		return "off", "cancelled"
	case c.Outcome == "refused":
		return "warn", "refused"
	}
	return "bad", "failed"
}

// callRow shows a call as a row of a table.
type callRow struct {
	admin.Call
	Class, Word string
	Path        string
}

// callRows returns a row for each call.
func callRows(all []admin.Call) (rows []callRow) {
	for _, c := range all {
		row := callRow{Call: c, Path: pathOf("calls", c.ID())}
		row.Class, row.Word = outcomeMark(c)
		rows = append(rows, row)
	}
	return rows
}

// eraOf returns the era of the revision with this date. It returns "" if date is not a known
// revision.
func eraOf(date string) string {
	r, ok := mcp.ParseRevision(date)
	if !ok {
		return ""
	}
	return r.Era()
}

func (r callRow) Took() string  { return spanText(time.Duration(r.Seconds * float64(time.Second))) }
func (r callRow) Label() string { return cmp.Or(r.Name, r.Method) }
func (r callRow) FromEra() string {
	return eraOf(r.Client.Revision)
}
func (r callRow) ToEra() string { return eraOf(r.Revision) }

// CallRows returns the rows of the server's recent calls.
func (v *serverView) CallRows() []callRow { return callRows(v.Calls) }

// CallKey returns the number of the newest call, or 0 if there are no calls.
func (v *serverView) CallKey() uint64 {
	if len(v.Calls) == 0 {
		return 0
	}
	return v.Calls[0].Number
}
