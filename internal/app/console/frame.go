package console

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// frame is what all pages share: their routes and roles, the navigation, the search palette, the theme,
// and the page that describes an error.
type frame struct {
	project string
	mux     *http.ServeMux                      // finds the handler of a request
	routes  map[string]allowed                  // who may use each pattern of mux
	paths   []string                            // the patterns of all pages; see Console.Paths
	nav     []*Page                             // the pages with an entry in the navigation
	finders []func(*http.Request) []paletteItem // return entries for the palette, in addition to the pages, servers and clients
	whole   []string                            // paths below /console that no project has of its own, with all below them
	adds    bool                                // the console can add servers; see Options.Add
	log     *slog.Logger
}

// newFrame returns a frame for the pages of a project. adds says whether the console can add servers to it.
func newFrame(log *slog.Logger, project string, adds bool) *frame {
	f := &frame{project: project, mux: http.NewServeMux(), routes: make(map[string]allowed), whole: []string{"/static", "/theme", "/signout", "/p"}, adds: adds, log: log}
	f.register("POST /theme", allowed{least: anyone}, setTheme)
	f.register("GET /palette.json", allowed{least: anyone}, f.servePalette)
	f.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		f.fail(w, r, notFound("No page has this address", "The link may come from an older version of Dragoman.", Crumb{}))
	})
	return f
}

// add registers a page.
func (f *frame) add(p Page) {
	f.paths = append(f.paths, prefix+p.Path)
	if p.Nav != "" {
		f.nav = append(f.nav, &p)
	}
	if p.Whole {
		whole, _, _ := strings.Cut(p.Path, "/{")
		f.whole = append(f.whole, whole)
	}
	path := p.Path
	if path == "/" {
		path = "/{$}"
	}
	pageTemplate(p.Template) // a template that cannot be parsed fails now, and not when somebody opens the page
	if p.Least == anyone && !p.Personal {
		panic("the page " + p.Path + " says not who may see it")
	}
	f.register("GET "+path, allowed{least: p.Least, personal: p.Personal}, func(w http.ResponseWriter, r *http.Request) { f.show(w, r, &p) })
}

// handle registers a handler that does not serve a page, for example the target of a form. pattern
// has the form "METHOD /path". The handler gets only requests of those who have at least the role
// least.
func (f *frame) handle(pattern string, least identity.Role, h http.HandlerFunc) {
	f.handleSure(pattern, least, "", h)
}

// handleSure does the same as handle for a form that some people have to confirm with a few words; see sure.
func (f *frame) handleSure(pattern string, least identity.Role, words string, h http.HandlerFunc) {
	if least == anyone {
		panic(pattern + " says not who may use it")
	}
	f.register(pattern, allowed{least: least, sure: words}, h)
}

// allowed says who may use a route.
type allowed struct {
	least    identity.Role
	personal bool   // see Page.Personal
	sure     string // see Route.Sure
}

func (f *frame) register(pattern string, who allowed, h http.HandlerFunc) {
	method, path, _ := strings.Cut(pattern, " ")
	f.routes[method+" "+prefix+path] = who
	f.mux.HandleFunc(method+" "+prefix+path, func(w http.ResponseWriter, r *http.Request) {
		if f.elsewhere(r.URL) {
			f.leave(w, r)
			return
		}
		admin.ReadPathNames(r)
		h(w, r)
	})
}

// find returns who may send a request. An event stream needs the role of the page whose values it sends.
func (f *frame) find(r *http.Request) allowed {
	if page, err := url.Parse(r.URL.Query().Get("page")); r.URL.Path == eventsPath && err == nil && strings.HasPrefix(page.Path, prefix+"/") {
		r = &http.Request{Method: http.MethodGet, Host: r.Host, URL: page}
	}
	if f.elsewhere(r.URL) {
		return allowed{least: anyone} // it's sent on; see leave
	}
	_, pattern := f.mux.Handler(r)
	if x, known := f.routes[pattern]; known {
		return x
	}
	return allowed{least: identity.Viewer} // what the page "No page has this address" needs
}

// Page describes one page of the console.
type Page struct {
	Path     string        // the path below /console, as a pattern for http.ServeMux, for example "/servers/{name}"
	Least    identity.Role // who has a lower role does not see the page
	Personal bool          // the page is about its viewer: two people with the same role may see different things
	// Whole says that the page is about the whole process, or about its viewer, and not about one project. It has one
	// address below /console/, and so has everything below its path. Least is then a role in the project default.
	Whole    bool
	Sheet    string // a style sheet that only some pages need; "" for none
	Template string // the name of the file in the folder templates that defines the page's block "main"
	Module   string // a module that only this page needs; "" for none
	// Nav is the title of the page's entry in the navigation, and Group is the entry's group. If
	// Nav is "", the page has no entry. Key is the letter that opens the page if the user types it
	// after G.
	Nav   string
	Group group
	Key   string
	// Count returns the number that the navigation shows beside the page's entry. If Count is nil
	// or returns "", the navigation shows no number. Status is nil for those who may not see it.
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
	Project string  // the project whose pages these are
	Others  []Crumb // the first pages of other projects in which the viewer has a role
	Base    string  // see admin.Base
	Say     string  // the message about the user's last action; "" for none
	CanAdd  bool    // the user can add servers here; see Options.Add
	SayNote bool    // Say is a note that stays, and not a toast
	Asked   int     // how many questions wait for the user
	Sees    bool    // the user has a role in the project that the frame shows
	Acts    bool    // the user may start, stop and run things
	Looks   bool    // the page would have buttons for somebody with another role
	Closed  bool    // the user may not see the page, which therefore has no live values
}

type navGroup struct {
	Title string
	Items []navItem
}

type navItem struct {
	Title, Path, Key, Count string
	Current                 bool
	Counts                  bool // Count is a number now or later
}

// show responds with a page. In a stream of live values, it computes only the live values.
func (f *frame) show(w http.ResponseWriter, r *http.Request, p *Page) {
	st := stateOf(r)
	s := &screen{Page: p, Theme: themeOf(r), Now: time.Now(), URL: f.at(pageURL(r.URL)), Project: f.project, Host: r.Host, Base: admin.Base(r) + ownPath(r, ""), Live: st.live}
	s.CanAdd, s.Acts = f.adds && may(r, identity.Admin), may(r, identity.Operator)
	view, err := p.View(r)
	switch {
	case err != nil && st.feed:
		return
	case err != nil:
		f.fail(w, r, err)
		return
	}
	s.View = view
	st.moving = view.Moving
	if view.Stream != "" {
		s.URL = f.at(view.Stream)
	}
	if !st.feed {
		s.Say, s.SayNote = strings.CutPrefix(said(w, r), longer)
	}
	f.fill(s, r)
	var body bytes.Buffer
	if err := pageTemplate(p.Template).ExecuteTemplate(&body, "frame", s); err != nil {
		f.log.Error("a page of the console could not be made", "page", p.Path, "cause", err.Error())
		http.Error(w, "The page could not be made. The log contains the reason.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if view.Status != 0 {
		w.WriteHeader(view.Status)
	}
	_, _ = w.Write(f.addresses(body.Bytes()))
}

// again responds to a form with the page p, with the values that view returns instead of the usual
// ones.
func (f *frame) again(w http.ResponseWriter, r *http.Request, p Page, view func(*http.Request) (*View, error)) {
	p.View = view
	f.show(w, r, &p)
}

// fill sets the values of s that the frame shows.
func (f *frame) fill(s *screen, r *http.Request) {
	s.Looks = s.Page != nil && !s.Page.Personal && !may(r, identity.Operator)
	if s.Sees = may(r, identity.Viewer); s.Sees {
		s.Status, s.Traffic = statusOf(r), sumsOf(r)
	}
	current := f.currentNav(s.Page)
	s.Asked = asked(r)
	if !stateOf(r).feed {
		s.Others = f.others(r, current)
	}
	for i, title := range groupNames {
		g := navGroup{Title: title}
		for _, e := range f.nav {
			if int(e.Group) != i || !f.offers(r, e) {
				continue
			}
			item := navItem{Title: e.Nav, Path: prefix + e.Path, Key: e.Key}
			item.Current = e == current
			if item.Counts = e.Count != nil && !(e.Whole && f.project != event.DefaultProject) && (s.Sees || e.Least == identity.Caller); item.Counts {
				item.Count = e.Count(s)
			}
			g.Items = append(g.Items, item)
		}
		if len(g.Items) > 0 {
			s.Nav = append(s.Nav, g)
		}
	}
}

// offers reports whether the navigation has the entry of a page for the viewer.
func (f *frame) offers(r *http.Request, p *Page) bool {
	if v := stateOf(r).viewer; p.Whole && f.project != event.DefaultProject {
		return p.Least == anyone || v.main.Includes(p.Least)
	}
	return may(r, p.Least)
}

// mostSwitch is how many projects the frame lists.
const mostSwitch = 20

// others returns the pages of other projects that are like the current one, if the viewer may see them there.
func (f *frame) others(r *http.Request, current *Page) (links []Crumb) {
	st := stateOf(r)
	for _, name := range st.from.seen(st.viewer.who) {
		if name == f.project || len(links) == mostSwitch {
			continue
		}
		to := projectPath(name)
		there := viewer{role: st.from.access.RoleIn(st.viewer.who, name)}
		if current != nil && !current.Whole && current.Path != "/" && there.may(current.Least) {
			to += current.Path[1:]
		}
		links = append(links, Crumb{name, to})
	}
	return links
}

// elsewhere reports whether a URL is the frame's address of something that no project has of its own.
func (f *frame) elsewhere(u *url.URL) bool {
	return f.project != event.DefaultProject && f.outside(strings.TrimPrefix(u.Path, prefix))
}

// leave sends a browser on to what no project has of its own.
func (f *frame) leave(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		http.Redirect(w, r, pageURL(r.URL), http.StatusSeeOther)
		return
	}
	f.fail(w, r, notFound("No page has this address", "It's about all projects, so it has one address for all of them.", Crumb{}))
}

// currentNav returns the page in the navigation to which a page belongs, or nil.
func (f *frame) currentNav(p *Page) (of *Page) {
	for _, e := range f.nav {
		if p != nil && (e.Path == p.Path || e.Path != "/" && strings.HasPrefix(p.Path, e.Path+"/")) && (of == nil || len(e.Path) > len(of.Path)) {
			of = e
		}
	}
	return of
}

// parsed parses the form in the body of r. If the form cannot be parsed, parsed writes an error
// page and returns false.
func (f *frame) parsed(w http.ResponseWriter, r *http.Request) bool {
	if err := r.ParseForm(); err != nil {
		f.fail(w, r, &pageError{Status: http.StatusRequestEntityTooLarge, Title: "The form could not be read", Text: "A form can contain at most 1 MiB. Send larger values with dragoman call."})
		return false
	}
	return true
}

// pageError is an error for which the console shows a page.
type pageError struct {
	Status int
	Title  string  // the problem, as a sentence without a full stop
	Text   string  // the reason, and what the user can do
	Near   []Crumb // links to objects with names that resemble the requested name
	Next   Crumb   // the link that the page suggests; the zero value means the overview
	Closed bool    // the user may not see what the request is about
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

// fail responds with a page that describes err.
func (f *frame) fail(w http.ResponseWriter, r *http.Request, err error) {
	var e *pageError
	if !errors.As(err, &e) {
		e = &pageError{Status: http.StatusInternalServerError, Title: "The page could not be made", Text: err.Error()}
	}
	s := &screen{View: &View{Title: e.Title, Data: e}, Theme: themeOf(r), Now: time.Now(), URL: f.at(pageURL(r.URL)), Project: f.project, Host: r.Host, Base: admin.Base(r) + ownPath(r, ""), Live: &Live{}, Closed: e.Closed}
	f.fill(s, r)
	var body bytes.Buffer
	if pageTemplate("fail.html").ExecuteTemplate(&body, "frame", s) != nil {
		http.Error(w, e.Title, e.Status)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(e.Status)
	_, _ = w.Write(f.addresses(body.Bytes()))
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
func setTheme(w http.ResponseWriter, r *http.Request) {
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

// maxSaid is the maximum length of such a message in bytes. It may contain the path of a backup.
const maxSaid = 800

// say makes the next page show a message about the user's action, for example "files was
// restarted." The caller must quote text from peers.
func say(w http.ResponseWriter, text string) {
	http.SetCookie(w, &http.Cookie{Name: sayCookie, Value: url.QueryEscape(excerpt.Line(text, maxSaid)), Path: prefix + "/", MaxAge: 60, HttpOnly: true, SameSite: http.SameSiteStrictMode})
}

// sayLonger does the same as say, but the next page shows the message until the user leaves it.
func sayLonger(w http.ResponseWriter, text string) { say(w, longer+text) }

// longer marks a message of sayLonger.
const longer = "note: "

// said returns the message for this page, and deletes the cookie with the message.
func said(w http.ResponseWriter, r *http.Request) string {
	c, err := r.Cookie(sayCookie)
	if err != nil {
		return ""
	}
	http.SetCookie(w, &http.Cookie{Name: sayCookie, Path: prefix + "/", MaxAge: -1})
	text, _ := url.QueryUnescape(c.Value)
	return excerpt.Line(text, maxSaid)
}

// Demo reports whether client is the name of a client of the demo.
func (s *screen) Demo(client string) bool { return slices.Contains(s.Status.DemoClients, client) }

// Up returns how long the program has run.
func (s *screen) Up() string { return upText(s.Now.Sub(s.Status.Started)) }

// NextTheme returns the theme that the theme switch selects when the user clicks it.
func (s *screen) NextTheme() string {
	return map[string]string{"auto": "light", "light": "dark", "dark": "auto"}[s.Theme]
}
