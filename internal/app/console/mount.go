package console

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// Project is what the console shows of one project, and changes in it. Its fields are those of Options.
type Project struct {
	Source  Source
	Config  func() *config.Snapshot
	Clients func() []runtime.ClientReport
	Operate func(name string, op runtime.Operation, by string) error
	Add     Adder
	Gone    <-chan struct{} // closed when the project is gone
}

// mount is the pages of one project. Those of the project default are at /console/, and those of another at
// /console/p/NAME/: there we take the project out of a request's path on the way in, so that each subject knows only
// addresses below /console/, and put it into the addresses of our own markup on the way out; see frame.at.
type mount struct {
	project string
	frame   *frame
	feeds   *feeds
	states  *states
	untap   func()          // ends the subscription to events
	gone    <-chan struct{} // see Project.Gone; nil for default
}

// newMount makes the pages of a project, which o is about, and counts the project's events from now on.
func (c *Console) newMount(project string, o *Options, gone <-chan struct{}) *mount {
	m := &mount{project: project, frame: newFrame(o.Log, project, o.Add != nil || project != event.DefaultProject), untap: func() {}, gone: gone}
	m.states = &states{project: project, access: o.Access, source: o.Source, clients: o.Clients, names: o.Names, traffic: newTraffic(o.DemoClients...)}
	m.states.traffic.project = project
	m.feeds = newFeeds(m.frame.mux, m.states, o.Log, c.streams)
	m.frame.register("POST /signout", allowed{least: anyone}, c.door.signOut) // the door answers it before
	for _, s := range c.subjects(m, o) {
		s.register(m.frame)
	}
	if o.Off == "" {
		m.untap = m.states.traffic.tap(o.Events, m.feeds.changed)
		c.running.Go(func() {
			m.feeds.run(c.ctx, m.gone)
			m.untap()
		})
	}
	return m
}

// in returns the pages of a project that is in use, or nil. It makes them when somebody asks for the first time; they
// live until the project is gone.
func (c *Console) in(project string) *mount {
	if project == event.DefaultProject {
		return c.mount
	}
	if c.opts.Project == nil || c.opts.Off != "" {
		return nil
	}
	p, ok := c.opts.Project(project)
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.others[project]; m != nil && m.gone == p.Gone {
		return m
	}
	if c.ctx.Err() != nil {
		return nil
	}
	// Those of projects that are gone leave with the next that is new.
	for name, m := range c.others {
		if m.ended() {
			delete(c.others, name)
		}
	}
	o := c.opts
	o.Source, o.Config, o.Clients, o.Operate, o.Add, o.DemoClients = p.Source, p.Config, p.Clients, p.Operate, p.Add, nil
	m := c.newMount(project, &o, p.Gone)
	c.others[project] = m
	return m
}

// ended reports whether the project is gone.
func (m *mount) ended() bool {
	select {
	case <-m.gone: // never for default
		return true
	default:
		return false
	}
}

// viewer returns for whom the response to a request of a session is, if it's about the project.
func (s *states) viewer(who *identity.Principal, session admin.Browser) viewer {
	v := viewer{who: who, session: session, role: s.access.RoleIn(who, s.project), main: s.access.RoleIn(who, event.DefaultProject)}
	v.caller = who != nil && s.access.May(who, s.project, identity.Caller) == nil
	v.waits = s.waits(&v)
	return v
}

// waits returns viewer.waits as it is now.
func (s *states) waits(v *viewer) int {
	n := len(s.source.WaitingSignIns(v.who))
	if !v.may(identity.Operator) {
		n += s.source.OwnQuestions(v.who)
	}
	return n
}

// hasRole reports whether who has any role in a project. Whoever has none isn't told whether there is such a project.
func hasRole(a *admin.Access, who *identity.Principal, project string) bool {
	return who != nil && (a.RoleIn(who, project) != 0 || a.May(who, project, identity.Caller) == nil)
}

// seen returns the projects in which who has a role, default first.
func (s *states) seen(who *identity.Principal) (names []string) {
	if s.names == nil {
		return nil
	}
	return slices.DeleteFunc(s.names(), func(name string) bool { return !hasRole(s.access, who, name) })
}

// home returns the path of the first page of somebody who has no role in the project default, or "".
func (s *states) home(who *identity.Principal) string {
	if hasRole(s.access, who, event.DefaultProject) {
		return ""
	}
	for _, name := range s.seen(who) {
		return projectPath(name)
	}
	return ""
}

// projectPath returns the path of the first page of a project.
func projectPath(name string) string { return prefix + "/p/" + admin.PathName(name) + "/" }

// ownPath returns the path of an endpoint of the project that a response is about. of is its path in default.
func ownPath(r *http.Request, of string) string {
	if project := projectOf(r); project != event.DefaultProject {
		return "/p/" + url.PathEscape(project) + of
	}
	return of
}

// palettePath is where the pages get what the palette finds.
const palettePath = prefix + "/palette.json"

// aboutProject returns which project a request is about, and the request as the project's pages know it. What a page
// loads later, live values and the palette, is about the project of the page.
func aboutProject(r *http.Request) (project string, inner *http.Request) {
	project, path := splitProject(r.URL)
	at := *r.URL
	if path != nil {
		at.Path, at.RawPath = path.Path, path.RawPath
	}
	if page := r.URL.Query().Get("page"); page != "" && (at.Path == eventsPath || at.Path == palettePath) {
		u, err := url.Parse(page)
		if err != nil || u.IsAbs() || u.Host != "" {
			return project, withURL(r, &at)
		}
		q := r.URL.Query()
		if project, path = splitProject(u); path != nil {
			u.Path, u.RawPath = path.Path, path.RawPath
		}
		q.Set("page", pageURL(u))
		at.RawQuery = q.Encode()
	}
	return project, withURL(r, &at)
}

func withURL(r *http.Request, u *url.URL) *http.Request {
	inner := *r
	inner.URL = u
	return &inner
}

// splitProject returns the project in the path of a URL, and the path without it. inner is nil if the path is that of
// a page of default.
func splitProject(u *url.URL) (project string, inner *url.URL) {
	// The parts are those of the escaped path: a name may contain %2F.
	parts := strings.SplitN(u.EscapedPath(), "/", 5)
	if len(parts) < 4 || !strings.HasPrefix(u.Path, prefix+"/p/") {
		return event.DefaultProject, nil
	}
	name, err := url.PathUnescape(parts[3])
	if second, wrong := url.PathUnescape(parts[2]); err != nil || wrong != nil || second != "p" || name == "" {
		return event.DefaultProject, nil
	}
	rest := ""
	if len(parts) == 5 {
		rest = parts[4]
	}
	inner = &url.URL{RawPath: prefix + "/" + rest}
	if inner.Path, err = url.PathUnescape(inner.RawPath); err != nil {
		return event.DefaultProject, nil
	}
	return name, inner
}

// at returns the address at which a browser finds what the frame's pages know as path.
func (f *frame) at(path string) string {
	if f.project == event.DefaultProject {
		return path
	}
	rest, ok := strings.CutPrefix(path, prefix)
	if !ok || rest != "" && !strings.ContainsAny(rest[:1], "/?#") || f.outside(rest) {
		return path
	}
	return projectPath(f.project) + strings.TrimPrefix(rest, "/")
}

// outside reports whether path, without the console's prefix, is one that no project has of its own.
func (f *frame) outside(path string) bool {
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	return slices.ContainsFunc(f.whole, func(whole string) bool { return path == whole || strings.HasPrefix(path, whole+"/") })
}

// addresses returns a page with the addresses of the frame's project. Only our own markup has the bytes that we look
// for: what comes from peers has no quotation mark that isn't escaped; see TestNoPeerWritesAnAddress.
func (f *frame) addresses(page []byte) []byte {
	if f.project == event.DefaultProject {
		return page
	}
	const begin = `="` + prefix
	out := make([]byte, 0, len(page)+len(page)/16)
	for {
		i := bytes.Index(page, []byte(begin))
		if i < 0 {
			return append(out, page...)
		}
		end := i + len(begin)
		if n := bytes.IndexByte(page[end:], '"'); n >= 0 {
			end += n
		}
		from := i + len(`="`)
		out = append(out, page[:from]...)
		if path := string(page[from:end]); isAddress(page[:i]) {
			out = append(out, f.at(path)...)
		} else {
			out = append(out, path...)
		}
		page = page[end:]
	}
}

// isAddress reports whether markup ends with the name of an attribute that has an address.
func isAddress(markup []byte) bool {
	return slices.ContainsFunc([]string{" href", " action", " formaction", " src"}, func(name string) bool {
		n := len(markup) - len(name)
		return n >= 0 && string(markup[n+1:]) == name[1:] && (markup[n] == ' ' || markup[n] == '\n')
	})
}

// mounted is the response to a request for a page of a project: it leads to the project's own address.
type mounted struct {
	http.ResponseWriter
	frame *frame
}

func (w mounted) WriteHeader(status int) {
	if to := w.Header().Get("Location"); to != "" {
		w.Header().Set("Location", w.frame.at(to))
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w mounted) Unwrap() http.ResponseWriter { return w.ResponseWriter }
