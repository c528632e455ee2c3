package console

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// townLock guards the fields of testProjects but for roles.
var townLock sync.Mutex

// testProjects are the projects of a source: one text each, with a version.
type testProjects struct {
	roles func(who *identity.Principal, project string) identity.Role // nil if everybody is an admin

	text map[string]string
	now  map[string]int
	did  []string
}

func (t *testProjects) may(who *identity.Principal, project string, least identity.Role) bool {
	return t.roles == nil || t.roles(who, project).Includes(least)
}

func (t *testProjects) entry(name string) admin.ProjectEntry {
	x := admin.ProjectEntry{Name: name, Home: "store", Path: "/p/" + name + "/mcp", Servers: 1, Title: "The " + name, ETag: `"` + strconv.Itoa(t.now[name]) + `"`}
	if name == "default" {
		x.Home, x.File, x.ETag, x.Path = "file", "/etc/dragoman.yaml", "", "/mcp"
	}
	return x
}

func (t *testProjects) ProjectsFor(who *identity.Principal) (all []admin.ProjectEntry, bad *admin.Problem) {
	townLock.Lock()
	defer townLock.Unlock()
	names := []string{"default"}
	for name := range t.text {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if t.may(who, name, identity.Viewer) {
			all = append(all, t.entry(name))
		}
	}
	return all, nil
}

var noSuchProject = &admin.Problem{Status: http.StatusNotFound, Title: "No such project"}

func (t *testProjects) ProjectFor(who *identity.Principal, name string) (out admin.ProjectDetails, bad *admin.Problem) {
	townLock.Lock()
	defer townLock.Unlock()
	if _, known := t.text[name]; !known && name != "default" || !t.may(who, name, identity.Viewer) {
		return out, noSuchProject
	}
	out.ProjectEntry, out.Shared = t.entry(name), []string{"hub"}
	out.Reads = out.Home == "store" && t.may(who, name, identity.Operator)
	out.Writes, out.Removes = out.Reads, out.Reads && t.may(who, name, identity.Admin)
	if out.Reads {
		out.Text = t.text[name]
	}
	return out, nil
}

func (t *testProjects) try(_, text string) (out admin.ProjectPreview, bad *admin.Problem) {
	if strings.Contains(text, "broken") {
		return out, &admin.Problem{Status: http.StatusUnprocessableEntity, Title: "There can be no such project", Detail: "Line 1 can't be read."}
	}
	out.Changes, out.Grows = []admin.SettingChange{{Path: "title", Was: "old", Became: text}}, strings.Contains(text, "command")
	return out, nil
}

func (t *testProjects) put(r *http.Request, name, text, match string) (out admin.KeptProject, bad *admin.Problem) {
	townLock.Lock()
	defer townLock.Unlock()
	if who := stateOf(r).viewer.who; !t.may(who, map[bool]string{true: "default", false: name}[match == ""], identity.Operator) {
		return out, &admin.Problem{Status: http.StatusForbidden, Title: "This needs the role operator"}
	}
	if _, known := t.text[name]; known != (match != "") || known && match != t.entry(name).ETag {
		return out, &admin.Problem{Status: http.StatusPreconditionFailed, Title: "Somebody has changed the project meanwhile"}
	}
	if t.text == nil {
		t.text, t.now = map[string]string{}, map[string]int{}
	}
	t.text[name] = text
	t.now[name]++
	t.did = append(t.did, "put "+name+" "+text)
	return out, nil
}

func (t *testProjects) drop(_ *http.Request, name, match string) (out admin.RemovedProject, bad *admin.Problem) {
	townLock.Lock()
	defer townLock.Unlock()
	if match != t.entry(name).ETag {
		return out, &admin.Problem{Status: http.StatusPreconditionFailed, Title: "Somebody has changed the project meanwhile"}
	}
	delete(t.text, name)
	t.did = append(t.did, "remove "+name)
	return out, nil
}

// sends sends a form.
func (h *testConsole) sends(path, cookie string, form url.Values) (*http.Response, string) {
	h.t.Helper()
	r := h.request("POST", path, "Cookie", cookie, "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
	r.Body = readCloser{strings.NewReader(form.Encode())}
	resp := newRecorder(h, r)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp, string(body)
}

var matchField = regexp.MustCompile(`name="match" value="([^"]*)"`)

// TestProjectsPage adds, previews, changes and removes a project in its pages. A form that is sent twice acts once,
// and somebody who was slower than another sees both texts and loses nothing.
func TestProjectsPage(t *testing.T) {
	s := &source{report: &admin.Report{}, read: map[string]bool{}}
	h := open(t, s.report, func(o *Options) { o.Source = s })
	_, list := h.ask("GET", "/console/projects")
	number := numberField.FindStringSubmatch(list)
	if number == nil {
		t.Fatalf("the list has no form: %s", list)
	}
	for range 2 {
		resp, _ := h.sends("/console/projects", h.cookie, url.Values{"number": {number[1]}, "name": {"shop"}, "text": {"title: Shop"}})
		if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/console/projects/shop" {
			t.Fatalf("%d %s", resp.StatusCode, resp.Header.Get("Location"))
		}
	}
	if resp, body := h.sends("/console/projects", h.cookie, url.Values{"number": {"other"}, "name": {"shop"}, "text": {"mine: <b>"}}); resp.StatusCode != http.StatusPreconditionFailed || !strings.Contains(body, "already a project") || !strings.Contains(body, "mine: &lt;b&gt;</textarea>") {
		t.Errorf("a name twice: %d %s", resp.StatusCode, body)
	}
	_, page := h.ask("GET", "/console/projects/shop")
	match := strings.ReplaceAll(matchField.FindStringSubmatch(page)[1], "&#34;", `"`)
	if match != `"1"` || !strings.Contains(page, "title: Shop</textarea>") || !strings.Contains(page, "hub") {
		t.Fatalf("%s %s", match, page)
	}
	for _, tt := range []struct {
		form   url.Values
		status int
		says   []string
	}{
		{url.Values{"do": {"preview"}, "match": {match}, "text": {"title: New\r\n"}}, 200, []string{"What changes", "<ins><bdi>title: New<", "title: New\n</textarea>"}},
		{url.Values{"do": {"preview"}, "match": {match}, "text": {"broken"}}, 422, []string{"Line 1 can&#39;t be read", "broken</textarea>"}},
		{url.Values{"do": {"save"}, "match": {`"0"`}, "text": {"title: Slow"}}, 412, []string{"Their text", "<bdi>title: Shop</bdi>", "title: Slow</textarea>", `value="&#34;1&#34;"`}},
		{url.Values{"do": {"remove"}, "match": {match}, "name": {"shopp"}}, 403, []string{"Type the project&#39;s name"}},
		{url.Values{"do": {"explode"}}, 400, []string{"can&#39;t be read"}},
		{url.Values{"do": {"save"}, "match": {match}, "text": {"title: Done"}}, 303, nil},
	} {
		resp, body := h.sends("/console/projects/shop", h.cookie, tt.form)
		for _, want := range tt.says {
			if !strings.Contains(body, want) {
				t.Errorf("%v doesn't say %q: %s", tt.form, want, mainOf(body))
			}
		}
		if resp.StatusCode != tt.status {
			t.Errorf("%v: %d", tt.form, resp.StatusCode)
		}
	}
	if resp, body := h.ask("GET", "/console/projects/shop/export"); resp.StatusCode != 200 || !strings.Contains(resp.Header.Get("Content-Disposition"), `"shop.yaml"`) || !strings.HasPrefix(body, "dragoman:") {
		t.Errorf("export: %d %v %s", resp.StatusCode, resp.Header, body)
	}
	if resp, _ := h.sends("/console/projects/shop", h.cookie, url.Values{"do": {"remove"}, "match": {`"2"`}, "name": {"shop"}}); resp.StatusCode != 303 || resp.Header.Get("Location") != "/console/projects" {
		t.Errorf("remove: %d", resp.StatusCode)
	}
	if resp, _ := h.ask("GET", "/console/projects/shop"); resp.StatusCode != 404 {
		t.Errorf("a removed project: %d", resp.StatusCode)
	}
	if want := []string{"put shop title: Shop", "put shop title: Done", "remove shop"}; !slices.Equal(s.town.did, want) {
		t.Errorf("did %q", s.town.did)
	}
}

// TestSureProjects saves texts eleven minutes after a sign-in: one that starts something takes typed words, with which it's
// saved, and any other one is saved at once. Nothing that was typed is lost.
func TestSureProjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{report: &admin.Report{}, read: map[string]bool{}}
		s.town.text, s.town.now = map[string]string{"shop": "title: Shop"}, map[string]int{"shop": 1}
		h := open(t, s.report, func(o *Options) { o.Source, o.Events = s, &event.Publisher{} })
		h.cookie = h.browse(h.access.Link(""), firefox, h.cookie)
		time.Sleep(11 * time.Minute)
		for _, x := range []struct {
			page   string
			form   url.Values
			status int
		}{
			{"/console/projects/shop", url.Values{"do": {"save"}, "match": {`"1"`}, "text": {"command: x"}}, 403},
			{"/console/projects/shop", url.Values{"do": {"save"}, "match": {`"1"`}, "text": {"title: Harmless"}}, 303},
			{"/console/projects/shop", url.Values{"do": {"save"}, "match": {`"2"`}, "text": {"command: x"}, "sure": {"run it"}}, 303},
			{"/console/projects", url.Values{"number": {"a"}, "name": {"lab"}, "text": {"command: y"}}, 403},
			{"/console/projects", url.Values{"number": {"b"}, "name": {"lab"}, "text": {"command: y"}, "sure": {"Run it"}}, 303},
			{"/console/projects", url.Values{"number": {"c"}, "name": {"zoo"}}, 303},
		} {
			resp, body := h.sends(x.page, h.cookie, x.form)
			if asks := strings.Contains(body, `id="sure"`) && strings.Contains(body, x.form.Get("text")+"</textarea>"); resp.StatusCode != x.status || asks != (x.status == 403) {
				t.Errorf("%v: %d %s", x.form, resp.StatusCode, textOf(body))
			}
		}
		if want := []string{"put shop title: Harmless", "put shop command: x", "put lab command: y", "put zoo "}; !slices.Equal(s.town.did, want) {
			t.Errorf("did %q", s.town.did)
		}
	})
}

// TestAllProjects checks that the Overview of default lists all projects for its admins, and for nobody else: neither on
// the page nor in its stream.
func TestAllProjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{report: &admin.Report{Servers: []admin.Server{server("files", mcp.R20250618, 1)}}, read: map[string]bool{}}
		s.town.text, s.town.now = map[string]string{"shop": "title: Shop"}, map[string]int{"shop": 1}
		h, role := open(t, s.report, func(o *Options) { o.Source, o.Events = s, &event.Publisher{} }), identity.Admin
		h.graded(&role)
		for _, role = range []identity.Role{identity.Viewer, identity.Operator, identity.Admin} {
			_, body := h.ask("GET", "/console/")
			sees := strings.Contains(body, "/console/p/shop/") && strings.Contains(body, "12,345") && strings.Contains(textOf(body), "1 failed server, 2 open questions")
			if sees != (role == identity.Admin) || !sees && strings.Contains(body, "All projects") {
				t.Errorf("%s: %t %s", role, sees, textOf(body))
			}
			w := watch(t, h, "/console/", "")
			time.Sleep(3 * time.Second)
			if got := fmt.Sprint(w.take()); strings.Contains(got, "shop") {
				t.Errorf("the stream of a %s has %s", role, got)
			}
			w.stop()
		}
	})
}

// TestProjectsOfAViewer checks that people see the projects in which they have a role, and only forms that they may use.
func TestProjectsOfAViewer(t *testing.T) {
	s := &source{report: &admin.Report{}, read: map[string]bool{}}
	s.town.text, s.town.now = map[string]string{"shop": "title: Shop # secret remark", "lab": "title: Lab"}, map[string]int{"shop": 1, "lab": 1}
	roles := map[string]identity.Role{"ann shop": identity.Viewer, "bob shop": identity.Admin}
	s.town.roles = func(who *identity.Principal, project string) identity.Role { return roles[who.Subject+" "+project] }
	h := open(t, s.report, func(o *Options) { o.Source = s })
	for name, edits := range map[string]bool{"ann": false, "bob": true} {
		cookie := h.cookieOf(name)
		_, list := h.ask("GET", "/console/projects", "Cookie", cookie)
		if !strings.Contains(list, "/console/projects/shop") || strings.Contains(list, "lab") && strings.Contains(list, "projects/lab") || strings.Contains(list, `id="p-name"`) {
			t.Errorf("%s sees %s", name, mainOf(list))
		}
		_, page := h.ask("GET", "/console/projects/shop", "Cookie", cookie)
		for _, only := range []string{"secret remark", `value="save"`, `value="remove"`, "/export"} {
			if strings.Contains(page, only) != edits {
				t.Errorf("%s has %q: %t", name, only, !edits)
			}
		}
		if resp, _ := h.ask("GET", "/console/projects/lab", "Cookie", cookie); resp.StatusCode != 404 {
			t.Errorf("%s gets %d", name, resp.StatusCode)
		}
	}
}
