package console

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// town is a console with several projects. Each has a server that is named like the project.
type town struct {
	*testConsole
	events *event.Publisher

	mu    sync.Mutex
	gone  map[string]chan struct{}
	roles map[string]identity.Role // by subject and project, as "ann shop"
}

// newTown returns a console with the projects default, shop and zoo. The local user is an admin of all.
func newTown(t testing.TB) *town {
	x := &town{events: &event.Publisher{}, gone: map[string]chan struct{}{"zoo": make(chan struct{}), "shop": make(chan struct{})}, roles: map[string]identity.Role{}}
	sources := map[string]*source{}
	report := func(name string) *admin.Report {
		return &admin.Report{Servers: []admin.Server{server(name+"-server", mcp.R20250618, 1)}, State: "serving", Endpoints: []admin.Endpoint{{Path: "/mcp"}}, Started: time.Now()}
	}
	for name := range x.gone {
		sources[name] = &source{report: report(name), read: map[string]bool{}}
	}
	x.testConsole = open(t, report("default"), func(o *Options) {
		o.Events = x.events
		o.Names = func() []string {
			x.mu.Lock()
			defer x.mu.Unlock()
			names := []string{"default"}
			for name := range x.gone {
				names = append(names, name)
			}
			slices.Sort(names)
			return names
		}
		o.Project = func(name string) (Project, bool) {
			x.mu.Lock()
			defer x.mu.Unlock()
			if x.gone[name] == nil {
				return Project{}, false
			}
			return Project{Source: sources[name], Config: config.Default, Gone: x.gone[name], Add: map[string]Adder{"zoo": &adder{}}[name]}, true
		}
	})
	x.access.RolesFrom(func(who *identity.Principal, project string) []identity.Role {
		x.mu.Lock()
		defer x.mu.Unlock()
		switch {
		case who == nil:
			return nil
		case who == identity.Local:
			return []identity.Role{identity.Admin}
		}
		if role := x.roles[who.Subject+" "+project]; role != 0 {
			return []identity.Role{role}
		}
		return nil
	})
	return x
}

// remove removes a project.
func (x *town) remove(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	close(x.gone[name])
	delete(x.gone, name)
}

// give gives somebody a role, and returns the cookie of a session.
func (x *town) give(who, project string, role identity.Role) string {
	x.mu.Lock()
	x.roles[who+" "+project] = role
	x.mu.Unlock()
	return x.cookieOf(who)
}

var addressed = regexp.MustCompile(` (?:href|action|formaction|src)="(/[^"]*)"`)

// formNumbers is the number of a form, which is new each time.
var formNumbers = regexp.MustCompile(`name="number" value="[^"]*"`)

// TestPagesOfAProject opens every page of every scene as the project default and as another one. Both show the same,
// all addresses in the second lead to that project or to what no project has of its own, and every page of a link
// answers as it does in default.
func TestPagesOfAProject(t *testing.T) {
	for name, pages := range pagesOf {
		synctest.Test(t, func(t *testing.T) {
			h := stage(t, name)
			h.console.opts.Project = func(string) (Project, bool) {
				return Project{Source: h.source, Config: h.console.opts.Config, Operate: h.console.opts.Operate, Add: h.console.opts.Add}, true
			}
			h.console.frame.adds = true // a project always leads to where servers are added
			h.console.in("shop").states.traffic = h.console.states.traffic
			for _, page := range pages {
				if strings.HasPrefix(page, "/events") || strings.HasPrefix(page, "/audit") || strings.HasPrefix(page, "/connect") || page == "/settings" {
					continue // its traffic began with the pages, and default has the acts of all projects, the settings of the process, and the addresses and sign-ins of all
				}
				one, ofDefault := h.ask("GET", "/console"+page)
				two, ofShop := h.ask("GET", "/console/p/shop"+page)
				if one.StatusCode != two.StatusCode {
					t.Errorf("%s%s: %d, and in a project %d", name, page, one.StatusCode, two.StatusCode)
				}
				addresses := func(body string) (all []string) {
					for _, m := range addressed.FindAllStringSubmatch(body, -1) {
						all = append(all, html.UnescapeString(m[1]))
					}
					return all
				}
				was, is := addresses(ofDefault), addresses(ofShop)
				if len(was) != len(is) {
					t.Fatalf("%s%s has %d addresses, and in a project %d", name, page, len(was), len(is))
				}
				for i, to := range is {
					want := was[i]
					if rest, ours := strings.CutPrefix(was[i], "/console/"); ours && !regexp.MustCompile(`^(static/|theme$|signout$|me$|connections($|#)|projects(/|$))`).MatchString(rest) {
						want = "/console/p/shop/" + rest
					}
					if to != want {
						t.Errorf("%s%s leads to %s instead of %s", name, page, to, want)
					}
				}
				bare := func(body string) string {
					body = formNumbers.ReplaceAllString(addressed.ReplaceAllString(mainOf(body), ""), "")
					return strings.ReplaceAll(body, "127.0.0.1:7300/p/shop", "127.0.0.1:7300")
				}
				if !strings.HasPrefix(page, "/servers/") && !strings.HasPrefix(page, "/tools/held") && bare(ofDefault) != bare(ofShop) {
					t.Errorf("%s%s shows something else in a project:\n%s\n%s", name, page, bare(ofDefault), bare(ofShop))
				}
			}
		})
	}
}

// TestProjectInThePath asks for pages of projects as people with different roles. What somebody sees and may do is what
// the role in the project of the path allows, whoever has no role in a project isn't told whether there is one, and who
// has none in default begins in their own project.
func TestProjectInThePath(t *testing.T) {
	x := newTown(t)
	ann, guest := x.give("ann", "shop", identity.Viewer), x.cookieOf("guest")
	both := x.give("both", "shop", identity.Operator)
	x.give("both", "default", identity.Viewer)
	for _, tt := range []struct {
		cookie, method, path string
		status               int
		has, hasNot          string
	}{
		{x.cookie, "GET", "/console/", 200, `href="/console/p/shop/"`, "shop-server"},
		{x.cookie, "GET", "/console/p/shop/servers", 200, `data-page="/console/p/shop/servers"`, "default-server"},
		{x.cookie, "GET", "/console/p/shop/servers", 200, `href="/console/p/zoo/servers"`, "zoo-server"},
		{x.cookie, "GET", "/console/p/shop/servers/shop-server", 200, `>shop</a>`, "default-server"},
		{x.cookie, "GET", "/console/p/shop/servers/default-server", 404, "No server has the name", ""},
		{x.cookie, "GET", "/console/p/shop/clients", 200, "<code>http://127.0.0.1:7300/p/shop/mcp</code>", ""},
		{x.cookie, "GET", "/console/p/shop/connect", 200, "http://127.0.0.1:7300/p/shop/mcp", "http://127.0.0.1:7300/mcp"},
		{x.cookie, "GET", "/console/p/shop/servers/add", 303, "", ""},
		{x.cookie, "GET", "/console/p/zoo/servers/add?way=import", 200, "Continue", "Import from a client"}, // zoo lives in the store
		{x.cookie, "GET", "/console/p/none/", 404, "No project has the name", ""},
		{x.cookie, "POST", "/console/p/shop/theme", 404, "No page has this address", ""},
		{x.cookie, "POST", "/console/p/shop/me", 404, "No page has this address", ""},
		{ann, "GET", "/console/p/shop/servers", 200, "shop-server", "default"},
		{ann, "GET", "/console/p/shop/settings", 200, "shop", "default-server"},
		{ann, "GET", "/console/p/shop/palette.json", 200, "shop-server", "default"},
		{ann, "GET", "/console/palette.json?page=/console/p/shop/calls", 200, `"/console/p/shop/servers/shop-server"`, "default"},
		{ann, "GET", "/console/palette.json", 200, `"/console/me"`, "default"},
		{ann, "GET", "/console/palette.json?page=/console/p/zoo/", 404, "", "zoo-server"},
		{ann, "POST", "/console/p/shop/servers/shop-server/restart", 403, "needs the role operator", ""},
		{ann, "GET", "/console/servers", 403, "needs the role viewer", "default-server"},
		{ann, "GET", "/console/me", 200, `href="/console/p/shop/"`, "default"},
		{ann, "GET", "/console/p/zoo/", 404, "No project has the name", "zoo-server"},
		{ann, "GET", "/console/events?page=/console/p/zoo/", 404, "No project has the name", "zoo-server"},
		{ann, "GET", "/console/p/shop/events?page=/console/servers", 403, "", "default-server"},
		{ann, "GET", "/console/p/shop/palette.json?page=/console/p/zoo/x", 404, "", "zoo-server"},
		{guest, "GET", "/console/p/shop/", 404, "No project has the name", "shop-server"},
		{guest, "GET", "/console/me", 200, "", "shop"},
		{both, "POST", "/console/p/shop/servers/shop-server/restart", 404, "", ""}, // nothing operates servers here
		{both, "POST", "/console/servers/default-server/restart", 403, "", ""},
	} {
		resp, body := x.ask(tt.method, tt.path, "Cookie", tt.cookie, "Sec-Fetch-Site", "same-origin")
		shown := strings.ReplaceAll(body, `data-page="`+tt.path+`"`, "")
		if strings.Contains(tt.has, "data-page") {
			shown = body
		}
		if resp.StatusCode != tt.status || !strings.Contains(shown, tt.has) || tt.hasNot != "" && strings.Contains(shown, tt.hasNot) {
			t.Errorf("%s %s as %s: %d, which must have %q and not %q: %s", tt.method, tt.path, tt.cookie, resp.StatusCode, tt.has, tt.hasNot, body)
		}
	}
	// What somebody isn't told of looks the same whether it exists.
	_, hidden := x.ask("GET", "/console/p/zoo/calls/1", "Cookie", ann)
	_, none := x.ask("GET", "/console/p/nay/calls/1", "Cookie", ann)
	if strings.ReplaceAll(hidden, "zoo", "nay") != none {
		t.Errorf("a project that exists looks different:\n%s\n%s", hidden, none)
	}
	for from, to := range map[string]string{
		"/console/": "/console/p/shop/", "/console/p/shop": "/console/p/shop/", "/console/p/default/calls?q=a%20b": "/console/calls?q=a%20b", "/console/p/default": "/console/",
		"/console/p/shop/me": "/console/me",
	} {
		if resp, _ := x.ask("GET", from, "Cookie", ann); resp.StatusCode != 303 || resp.Header.Get("Location") != to {
			t.Errorf("%s leads to %d %s instead of %s", from, resp.StatusCode, resp.Header.Get("Location"), to)
		}
	}
	for _, cookie := range []string{x.cookie, both, guest} {
		if resp, _ := x.ask("GET", "/console/", "Cookie", cookie); resp.StatusCode == 303 {
			t.Errorf("%s is sent to another project", cookie)
		}
	}
}

// TestLocationOfAProject checks that a form leads back to the project's page.
func TestLocationOfAProject(t *testing.T) {
	x := newTown(t)
	for _, path := range []string{"/exam", "/restart"} {
		resp, _ := x.ask("POST", "/console/p/shop/servers/shop-server"+path, "Sec-Fetch-Site", "same-origin")
		if to := resp.Header.Get("Location"); resp.StatusCode == 303 && !strings.HasPrefix(to, "/console/p/shop/") {
			t.Errorf("%s leads to %s", path, to)
		}
	}
	f := x.console.in("shop").frame
	for path, want := range map[string]string{
		"/console/": "/console/p/shop/", "/console": "/console/p/shop/", "/console/tools?q=x#y": "/console/p/shop/tools?q=x#y", "/console/tools/a%2Fb": "/console/p/shop/tools/a%2Fb", "/console/mean": "/console/p/shop/mean",
		"/console/me": "/console/me", "/console/me?x": "/console/me?x", "/console/p/zoo/": "/console/p/zoo/", "/consoles": "/consoles", "https://host/console/": "https://host/console/", "?a=/console/": "?a=/console/", "": "",
	} {
		if got := f.at(path); got != want {
			t.Errorf("%q: %q instead of %q", path, got, want)
		}
	}
}

// TestStreamOfAProject reads the live values of the same page of two projects, and removes one of them: its stream and
// all that its pages need end, and a project with the same name begins anew.
func TestStreamOfAProject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTown(t)
		x.give("ann", "shop", identity.Viewer)
		readers := map[string]*watcher{}
		for _, project := range []string{"shop", "zoo"} {
			readers[project] = watch(t, x.testConsole, "/console/p/"+project+"/clients", "")
			defer readers[project].stop()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for project, r := range readers {
			r.take()
			for n := range map[string]int{"shop": 1, "zoo": 2}[project] {
				x.events.Publish(event.Event{Project: project, Kind: event.Call, Method: "tools/call", Name: "tool", Server: project + "-server", From: mcp.R20250618, To: mcp.R20250618, Outcome: event.OK, Call: uint64(n + 1), Client: &mcp.ClientInfo{Revision: mcp.R20250618, Info: fmt.Appendf(nil, `{"name":"of-%s-%d"}`, project, n)}})
			}
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		for project, r := range readers {
			if got := r.take(); len(got) == 0 || fmt.Sprint(got) == fmt.Sprint(readers["other"]) {
				t.Errorf("%s gets nothing: %v", project, got)
			}
		}
		for project, other := range map[string]string{"shop": "zoo", "zoo": "shop"} {
			if _, body := x.ask("GET", "/console/p/"+project+"/clients"); !strings.Contains(body, "of-"+project) || strings.Contains(body, "of-"+other) {
				t.Errorf("the clients of %s: %s", project, body)
			}
		}
		if _, body := x.ask("GET", "/console/clients"); strings.Contains(body, "of-") {
			t.Error("default has clients of other projects")
		}
		before := x.console.in("shop")
		x.remove("shop")
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if n := len(before.feeds.open()); n != 0 {
			t.Errorf("%d feeds of a project that is gone are open", n)
		}
		if resp, _ := x.ask("GET", "/console/p/shop/clients"); resp.StatusCode != http.StatusNotFound {
			t.Errorf("a project that is gone: %d", resp.StatusCode)
		}
		if n := len(x.console.in("zoo").feeds.open()); n != 1 {
			t.Errorf("%d feeds of the other project are open", n)
		}
		x.mu.Lock()
		x.gone["shop"] = make(chan struct{})
		x.mu.Unlock()
		if again := x.console.in("shop"); again == nil || again == before || x.console.in("shop") != again {
			t.Error("a project of the same name doesn't begin anew")
		}
	})
}

// producers make HTML from text of peers.
var producers = map[string]func(string) template.HTML{
	"peer": peer, "lines": peerBlock, "wire": wireText, "words": words, "long": func(s string) template.HTML { return peerText(s, 10, true) },
	"live":  func(s string) template.HTML { return (&Live{}).Text("a", s, s) + (&Live{}).Tspan(s, "", s) },
	"sort":  func(s string) template.HTML { return sortLink(url.Values{"q": {s}}, "k", "Title", "") },
	"state": stateMark, "rev": revision, "progress": func(s string) template.HTML { return (&Live{}).Progress("p", s, 1) },
}

var peerTemplate = template.Must(template.New("").Parse(`<p title="{{.}}" data-x='{{.}}'>{{.}}</p><a href="?q={{.}}">x</a><textarea>{{.}}</textarea><input value="{{.}}"><title>{{.}}</title><button data-href="{{.}}">`))

// leavesAlone reports whether the addresses of a project's page stay what they are if a peer has written text. What
// template writes is never different, and what producers write has nothing that looks like an address of ours.
func leavesAlone(t *testing.T, text string) {
	t.Helper()
	f := newFrame(nil, "shop", false)
	for name, make := range producers {
		if made := []byte(make(text)); !bytes.Equal(f.addresses(made), made) {
			t.Errorf("%s makes an address of %q: %s", name, text, made)
		}
	}
	var page bytes.Buffer
	if err := peerTemplate.Execute(&page, text); err != nil {
		t.Fatal(err)
	}
	if got := f.addresses(page.Bytes()); !bytes.Equal(got, page.Bytes()) {
		t.Errorf("a page has an address of %q: %s", text, got)
	}
}

var wouldBeAddresses = []string{`<a href="/console/me2">`, ` href="/console/`, ` src="/console/x" `, "\" action=\"/console/x", `' href="/console/a"`, "/console/servers", "=\"/console/", "\x00 href=\"/console/\"", " href=\"\u202e/console/"}

// TestNoPeerWritesAnAddress checks that the addresses that a project's pages get are only those of our own markup.
func TestNoPeerWritesAnAddress(t *testing.T) {
	for _, text := range append(wouldBeAddresses, hostile) {
		leavesAlone(t, text)
	}
	const page = "<a\n href=\"/console/calls\" title=\"/console/calls\" data-href=\"/console/calls\"><form action=\"/console/theme\"><button formaction=\"/console/x\"><img src=\"/console/runs/1\"><a href=\"/console"
	const want = "<a\n href=\"/console/p/shop/calls\" title=\"/console/calls\" data-href=\"/console/calls\"><form action=\"/console/theme\"><button formaction=\"/console/p/shop/x\"><img src=\"/console/p/shop/runs/1\"><a href=\"/console/p/shop/"
	if got := string(newFrame(nil, "shop", false).addresses([]byte(page))); got != want {
		t.Errorf("got %s", got)
	}
}

// FuzzNoPeerWritesAnAddress does the same with texts that nobody has thought of.
func FuzzNoPeerWritesAnAddress(f *testing.F) {
	for _, text := range append(wouldBeAddresses, hostile) {
		f.Add(text)
	}
	f.Fuzz(leavesAlone)
}

// FuzzSplitProject checks that the path of a project's page is always below the console, and that nobody's name for a
// project has a slash that leads out of it.
func FuzzSplitProject(f *testing.F) {
	for _, path := range []string{"/console/p/shop/calls", "/console/p/a%2Fb/x", "/console/p/shop/../..", "/console/p//x", "/console%2Fp/shop/x", "/%63onsole/p/shop/a%2fb", "/console/p/shop"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.Parse(path)
		if err != nil {
			return
		}
		project, inner := splitProject(u)
		switch {
		case inner == nil && project != "default":
			t.Errorf("%q is of %q, but has no path", path, project)
		case inner != nil && (!strings.HasPrefix(inner.Path, "/console/") || !strings.HasPrefix(u.Path, "/console/p/"+project)):
			t.Errorf("%q: %q %q", path, project, inner.Path)
		}
	})
}
