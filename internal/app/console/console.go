package console

import (
	"bytes"
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// prefix is the path of the console.
const prefix = "/console"

// pagePolicy is the Content-Security-Policy of all pages. It allows only content and requests of
// the console itself, and images from data URLs.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; media-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// maxForm is the maximum length of the body of a request, in bytes.
const maxForm = 1 << 20

// Source reads the state of the program, and runs tools. *admin.API implements Source. The methods
// mask secrets. Only ReadItems may block.
type Source interface {
	Report() *admin.Report
	// Logs returns the newest log records about a server, oldest first. It returns at most last
	// records.
	Logs(server string, last int) []admin.LogRecord
	// Steps returns the steps of the last handshake with a server.
	Steps(server string) []admin.HandshakeStep
	// CallsOf returns the calls that a query selects, newest first.
	CallsOf(admin.CallQuery) admin.Calls
	// StoryOf returns a call with its messages. ok is false if the call is not known.
	StoryOf(number uint64) (s admin.Story, ok bool)
	// Transcript returns the messages of a call as a tape for `dragoman replay`. The tape contains
	// the messages to and from the client, and to and from the server.
	Transcript(number uint64) ([]byte, *admin.Problem)
	// FindTools returns a page of tools. FindTool returns one tool. ToolCosts returns how many
	// tokens the tools of each endpoint use in a model's context. None of these methods sends
	// requests to servers.
	FindTools(admin.ToolQuery) admin.FoundTools
	FindTool(server, name string) (admin.ToolDetail, *admin.Problem)
	ToolCosts() []admin.ToolCost
	// StartRun, CancelRun and AnswerRun do the same as the API at /api/v1/runs. FindRun and
	// FindRuns return runs. Of all methods of Source, only StartRun, CancelRun, AnswerRun,
	// StartExam and ReadItems send messages to servers.
	StartRun(ctx context.Context, server string, q admin.RunRequest) (admin.Run, *admin.Problem)
	CancelRun(id string) (admin.Run, *admin.Problem)
	AnswerRun(ctx context.Context, id string, answer admin.RunAnswer) (admin.Run, *admin.Problem)
	FindRun(id string) (admin.Run, *admin.Problem)
	FindRuns(server, name string, limit int) []admin.Run
	// FindItems returns a page of resources, templates or prompts. If such a list is not up to date
	// and its server is ready, ReadItems starts to read the list again, and waits briefly for the
	// result.
	FindItems(admin.ItemQuery) admin.FoundItems
	ReadItems(ctx context.Context, server, method string)
	// StartExam starts an examination of a server, and CancelExam cancels the running examination.
	// FindExam returns the last examination of a server.
	StartExam(server string, q admin.ExamRequest) (admin.Examination, *admin.Problem)
	CancelExam(server string) (admin.Examination, *admin.Problem)
	FindExam(server string) (admin.Examination, *admin.Problem)
	// Matrix returns the compatibility of all pairs of revisions. The caller must not change the
	// result.
	Matrix() admin.Matrix
}

// Options are the options of New. Only Source and Access are required.
type Options struct {
	// Off is a sentence that says why the console is off. If it is not "", the console responds to
	// every request with this sentence.
	Off    string
	Access *admin.Access
	Source Source
	// Config returns the current configuration. It may be nil only in tests.
	Config  func() *config.Snapshot
	Clients func() []runtime.ClientReport         // returns the connected clients; if it is nil, the console shows no connections
	Operate func(string, runtime.Operation) error // starts an operation on a server; if it is nil, the console cannot start operations
	// Add tries new servers and adds them to the configuration. If it is nil, the console cannot
	// add servers.
	Add    Adder
	Events *event.Publisher // the source of the events that the console counts; may be nil
	Log    *slog.Logger     // receives the console's log records; may be nil
	// Program is the command that a user types in a terminal to start Dragoman. Path is the command
	// for the configuration files of clients, which need the full path. For both, "" means
	// dragoman.
	Program, Path string
	// Machine determines where the page expects the configuration files of clients. Its Home and
	// Folder are not used, because the page shows paths that begin with ~. The zero value is a
	// Linux machine without environment variables.
	Machine clientfile.Machine
}

// Console serves the pages of the console. Call New to create a Console. It is safe for concurrent
// use.
type Console struct {
	opts    Options
	mux     *http.ServeMux           // finds the handler of a request
	roles   map[string]identity.Role // the least role for each pattern of mux
	nav     []navEntry
	traffic *traffic
	feed    *feeds
	// finders return entries for the palette, in addition to the pages, servers and clients.
	finders []func(*http.Request) []paletteItem
	where   where
	streams *admin.Streams
	running work.Group
	stop    context.CancelFunc
	untap   func()
}

// New returns a Console. If the console is not off, it counts events from now on until Close.
func New(o Options) *Console {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Console{opts: o, mux: http.NewServeMux(), roles: make(map[string]identity.Role), traffic: newTraffic(), streams: admin.NewStreams(mostConsoles), stop: func() {}, untap: func() {}}
	c.feed = newFeeds(c)
	c.finders = append(c.finders, c.foundTools)
	if o.Add != nil {
		c.finders = append(c.finders, func(r *http.Request) []paletteItem {
			if !c.may(r, identity.Admin) {
				return nil
			}
			return []paletteItem{{"Add a server", "page", addPath("")}}
		})
	}
	for _, p := range c.pages() {
		c.add(p)
	}
	c.handle("POST /theme", identity.Viewer, c.setTheme)
	c.handle("POST /servers/add", identity.Admin, c.changeDraft)
	c.handle("POST /servers/{name}/{operation}", identity.Operator, c.operate)
	c.handle("POST /servers/{name}/tools/{tool}", identity.Operator, c.startRun)
	c.handle("POST /runs/{id}", identity.Operator, c.changeRun)
	c.handle("GET /runs/{id}/parts/{part}", identity.Viewer, c.servePart)
	c.handle("GET /runs/{id}/result.json", identity.Viewer, c.serveResult)
	c.handle("POST /servers/{name}/findings", identity.Operator, c.examine)
	c.handle("POST /servers/{name}/resources", identity.Operator, c.readResource)
	c.handle("POST /servers/{name}/prompts", identity.Operator, c.getPrompt)
	c.handle("GET /calls/{number}/wires.json", identity.Viewer, c.serveWires)
	c.handle("GET /calls/{number}/wires.txtar", identity.Viewer, c.serveTranscript)
	c.handle("GET /palette.json", identity.Viewer, c.servePalette)
	c.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, notFound("No page has this address", "The link may come from an older version of Dragoman.", Crumb{}))
	})
	if o.Off == "" {
		c.untap = c.traffic.tap(o.Events, c.feed.changed)
		ctx, stop := context.WithCancel(context.Background())
		c.stop = stop
		c.running.Go(func() { c.feed.run(ctx) })
	}
	return c
}

// Paths returns the paths of all pages, in the order in which the console registers them, for the
// browser tests. The paths are patterns for http.ServeMux without a method, for example
// "/console/servers/{name}".
func (c *Console) Paths() []string {
	var paths []string
	for _, p := range c.pages() {
		paths = append(paths, prefix+p.Path)
	}
	return paths
}

// Drain ends the event streams, so that the HTTP server can shut down. The caller may call Drain
// more than once.
func (c *Console) Drain() { c.streams.Drain() }

// Close stops all goroutines of the console and waits until they have ended.
func (c *Console) Close() {
	c.untap()
	c.streams.Drain()
	c.stop()
	c.running.Wait()
}

// Routes registers the handlers of the console with mux.
func (c *Console) Routes(mux *http.ServeMux) {
	mux.HandleFunc(prefix, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, prefix+"/", http.StatusSeeOther) })
	mux.Handle(prefix+"/", http.HandlerFunc(c.serve))
	mux.HandleFunc("GET "+prefix+"/static/{name}", serveAsset)
}

// handle registers a handler that does not serve a page, for example the target of a form. pattern
// has the form "METHOD /path". The handler gets only requests of those who have at least the role
// least.
func (c *Console) handle(pattern string, least identity.Role, h http.HandlerFunc) {
	method, path, _ := strings.Cut(pattern, " ")
	c.roles[method+" "+prefix+path] = least
	c.mux.HandleFunc(method+" "+prefix+path, func(w http.ResponseWriter, r *http.Request) {
		admin.ReadPathNames(r)
		h(w, r)
	})
}

// serve checks whether a request may see the console, and then handles the request.
func (c *Console) serve(w http.ResponseWriter, r *http.Request) {
	headers(w.Header())
	if r.Body != nil {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	}
	who := c.admit(w, r)
	if who == nil || !c.allow(w, r, who) {
		return
	}
	asked := r
	if c.opts.Access.AtName(r) {
		// The pages show the address of the MCP endpoints, and the name is only for the console.
		inner := *r
		inner.Host = admin.Address(r)
		r = &inner
	}
	if r.Method == http.MethodGet && r.URL.Path == eventsPath && strings.HasPrefix(r.URL.Query().Get("page"), prefix+"/") {
		c.serveEvents(w, admin.While(r, func() bool {
			access := c.opts.Access
			return access.May(access.SignedIn(asked), event.DefaultProject, c.least(asked)) == nil
		}))
		return
	}
	c.mux.ServeHTTP(w, withState(r, &state{live: &Live{}, who: who}))
}

// state has the data of one response. All parts of the response use the same data, so they show the
// state at the same moment.
type state struct {
	live   *Live
	who    *identity.Principal // nil in a stream of live values, which is the same for all who may see it
	feed   bool                // the response consists only of live values
	moving bool                // the page changes without events; see View.Moving
	status *admin.Report
	sums   *sums
}

type stateKey struct{}

func withState(r *http.Request, s *state) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), stateKey{}, s))
}

func stateOf(r *http.Request) *state { return r.Context().Value(stateKey{}).(*state) }

// may reports whether the user for whom a response is made has at least the role least.
func (c *Console) may(r *http.Request, least identity.Role) bool {
	return c.opts.Access.May(stateOf(r).who, event.DefaultProject, least) == nil
}

// status returns the report that all parts of one response use.
func (c *Console) status(r *http.Request) *admin.Report {
	s := stateOf(r)
	if s.status == nil {
		s.status = c.opts.Source.Report()
	}
	return s.status
}

// sums returns the traffic data that all parts of one response use.
func (c *Console) sums(r *http.Request) *sums {
	s := stateOf(r)
	if s.sums == nil {
		var connected []runtime.ClientReport
		if c.opts.Clients != nil {
			connected = c.opts.Clients()
		}
		s.sums = c.traffic.sums(time.Now(), connected)
	}
	return s.sums
}

// Page describes one page of the console.
type Page struct {
	Path     string        // the path below /console, as a pattern for http.ServeMux, for example "/servers/{name}"
	Least    identity.Role // who has a lower role does not see the page
	Template string        // the name of the file in the folder templates that defines the page's block "main"
	// Nav is the title of the page's entry in the navigation, and Group is the entry's group. If
	// Nav is "", the page has no entry. Key is the letter that opens the page if the user types it
	// after G.
	Nav   string
	Group group
	Key   string
	// Count returns the number that the navigation shows beside the page's entry. If Count is nil
	// or returns "", the navigation shows no number.
	Count func(*screen) string
	// View returns the values that the page shows. It must not block. If the error is a *pageError,
	// the error determines the HTTP status.
	View func(*http.Request) (*View, error)
}

// group is a group of entries in the navigation.
type group int

const (
	top group = iota
	traffics
	catalogs
	accesses
	systems
)

var groupNames = [...]string{"", "Traffic", "Catalog", "Access", "System"}

// View has the values that one page shows in the frame and in its block "main".
type View struct {
	Title  string  // the title of the HTML document, which is also the last part of the breadcrumb
	Crumbs []Crumb // the parts of the breadcrumb before the title
	// Waiting replaces the text "live" in the top bar, for example by "waiting for a client".
	Waiting string
	Data    any // the template's .Data
	// Status is the HTTP status. 0 means 200.
	Status int
	// Moving is true if the page can change without events. Dragoman then checks the page's live
	// values every second.
	Moving bool
	// Stream is the path and the query from which Dragoman computes the page's live values. ""
	// means the path and the query of the request.
	Stream string
}

// Crumb is a link, for example one part of the breadcrumb.
type Crumb struct{ Title, Path string }

// screen has the values that the templates of a page use.
type screen struct {
	*View
	Page    *Page
	Nav     []navGroup
	Theme   string // "auto", "light" or "dark"
	Now     time.Time
	Status  *admin.Report
	Traffic *sums
	Live    *Live
	URL     string // the path and the query from which Dragoman computes the page's live values
	Host    string
	Say     string // the message about the user's last action; "" for none
	CanAdd  bool   // the user can add servers here; see Options.Add
	Looks   bool   // the role of the user allows to see the pages, but to change nothing
}

type navEntry struct {
	page  *Page
	title string
}

type navGroup struct {
	Title string
	Items []navItem
}

type navItem struct {
	Title, Path, Key, Count string
	Current                 bool
}

// add registers a page.
func (c *Console) add(p Page) {
	if p.Nav != "" {
		c.nav = append(c.nav, navEntry{&p, p.Nav})
	}
	path := p.Path
	if path == "/" {
		path = "/{$}"
	}
	t := pageTemplate(p.Template)
	c.handle("GET "+path, p.Least, func(w http.ResponseWriter, r *http.Request) { c.show(w, r, &p, t) })
}

// show responds with a page. In a stream of live values, it computes only the live values.
func (c *Console) show(w http.ResponseWriter, r *http.Request, p *Page, t *template.Template) {
	st := stateOf(r)
	s := &screen{Page: p, Theme: themeOf(r), Now: time.Now(), URL: pageURL(r.URL), Host: r.Host, Live: st.live}
	s.CanAdd, s.Looks = c.opts.Add != nil && c.may(r, identity.Admin), !c.may(r, identity.Operator)
	view, err := p.View(r)
	switch {
	case err != nil && st.feed:
		return
	case err != nil:
		c.fail(w, r, err)
		return
	}
	s.View = view
	st.moving = view.Moving
	if view.Stream != "" {
		s.URL = view.Stream
	}
	if !st.feed {
		s.Say = said(w, r)
	}
	c.fill(s, r)
	var body bytes.Buffer
	if err := t.ExecuteTemplate(&body, "frame", s); err != nil {
		c.opts.Log.Error("a page of the console could not be made", "page", p.Path, "cause", err.Error())
		http.Error(w, "The page could not be made. The log contains the reason.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if view.Status != 0 {
		w.WriteHeader(view.Status)
	}
	_, _ = w.Write(body.Bytes())
}

// fill sets the values of s that the frame shows.
func (c *Console) fill(s *screen, r *http.Request) {
	s.Status, s.Traffic = c.status(r), c.sums(r)
	for i, title := range groupNames {
		g := navGroup{Title: title}
		for _, e := range c.nav {
			if int(e.page.Group) != i {
				continue
			}
			item := navItem{Title: e.title, Path: prefix + e.page.Path, Key: e.page.Key}
			item.Current = s.Page != nil && (e.page.Path == s.Page.Path || e.page.Path != "/" && strings.HasPrefix(s.Page.Path, e.page.Path+"/"))
			if e.page.Count != nil {
				item.Count = e.page.Count(s)
			}
			g.Items = append(g.Items, item)
		}
		if len(g.Items) > 0 {
			s.Nav = append(s.Nav, g)
		}
	}
}

// pageError is an error for which the console shows a page.
type pageError struct {
	Status int
	Title  string  // the problem, as a sentence without a full stop
	Text   string  // the reason, and what the user can do
	Near   []Crumb // links to objects with names that resemble the requested name
	Next   Crumb   // the link that the page suggests; the zero value means the overview
}

func (e *pageError) Error() string { return e.Title }

// notFound returns the error for an object that does not exist. title says what does not exist, for
// example "No client has the number 7". title may contain text from the request.
func notFound(title, text string, next Crumb, near ...Crumb) error {
	return &pageError{Status: http.StatusNotFound, Title: excerpt.Line(title, 200), Text: text, Next: next, Near: near}
}

// noServer returns the error for a server that does not exist. names are the names of the existing
// servers.
func noServer(name string, names []string) error {
	var near []Crumb
	if n := config.Suggest(name, names); n != "" {
		near = append(near, Crumb{n, pathOf("servers", n)})
	}
	return notFound("No server has the name "+excerpt.Quote(name, 64), "The configuration may have changed since this link was made.", Crumb{"Show all servers", pathOf("servers")}, near...)
}

var failTemplate = pageTemplate("fail.html")

// fail responds with a page that describes err.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	var e *pageError
	if !errors.As(err, &e) {
		e = &pageError{Status: http.StatusInternalServerError, Title: "The page could not be made", Text: err.Error()}
	}
	s := &screen{View: &View{Title: e.Title, Data: e}, Theme: themeOf(r), Now: time.Now(), URL: pageURL(r.URL), Host: r.Host, Live: &Live{}}
	c.fill(s, r)
	var body bytes.Buffer
	if failTemplate.ExecuteTemplate(&body, "frame", s) != nil {
		http.Error(w, e.Title, e.Status)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(e.Status)
	_, _ = w.Write(body.Bytes())
}

// pageURL returns the path and the query of a URL.
func pageURL(u *url.URL) string {
	if u.RawQuery == "" {
		return u.EscapedPath()
	}
	return u.EscapedPath() + "?" + u.RawQuery
}

// themeCookie is the name of the cookie that stores the theme that the user chose.
const themeCookie = "dragoman_theme"

func themeOf(r *http.Request) string {
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "light" || c.Value == "dark") {
		return c.Value
	}
	return "auto"
}

// setTheme handles the form of the theme switch.
func (c *Console) setTheme(w http.ResponseWriter, r *http.Request) {
	theme := r.PostFormValue("theme")
	if theme != "light" && theme != "dark" {
		theme = "auto"
	}
	http.SetCookie(w, &http.Cookie{Name: themeCookie, Value: theme, Path: prefix + "/", MaxAge: 365 * 24 * 3600, SameSite: http.SameSiteStrictMode})
	to := r.PostFormValue("to")
	if !ownPage(to) {
		to = prefix + "/"
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// ownPage reports whether a URL leads to a page of the console. It rejects backslashes, because
// browsers treat a backslash as a slash. It resolves ".." in the path, also if the dots are
// escaped, because browsers do the same. Browsers do not treat %2f as a slash, so the name of a
// tool in the path may contain %2f.
func ownPage(to string) bool {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || strings.Contains(u.Path, `\`) {
		return false
	}
	dots := strings.NewReplacer("%2e", ".", "%2E", ".").Replace(u.EscapedPath())
	return strings.HasPrefix(path.Clean(dots)+"/", prefix+"/")
}

// sayCookie is the name of the cookie that passes the message about an action to the next page.
const sayCookie = "dragoman_say"

// say makes the next page show a message about the user's action, for example "files was
// restarted." The caller must quote text from peers.
func say(w http.ResponseWriter, text string) {
	http.SetCookie(w, &http.Cookie{Name: sayCookie, Value: url.QueryEscape(excerpt.Line(text, 400)), Path: prefix + "/", MaxAge: 60, HttpOnly: true, SameSite: http.SameSiteStrictMode})
}

// said returns the message for this page, and deletes the cookie with the message.
func said(w http.ResponseWriter, r *http.Request) string {
	c, err := r.Cookie(sayCookie)
	if err != nil {
		return ""
	}
	http.SetCookie(w, &http.Cookie{Name: sayCookie, Path: prefix + "/", MaxAge: -1})
	text, _ := url.QueryUnescape(c.Value)
	return excerpt.Line(text, 400)
}

// Demo reports whether client is the name of a client of the demo.
func (s *screen) Demo(client string) bool { return slices.Contains(s.Status.DemoClients, client) }

// Up returns how long the program has run.
func (s *screen) Up() string { return upText(s.Now.Sub(s.Status.Started)) }

// NextTheme returns the theme that the theme switch selects when the user clicks it.
func (s *screen) NextTheme() string {
	return map[string]string{"auto": "light", "light": "dark", "dark": "auto"}[s.Theme]
}
