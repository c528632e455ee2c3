package console

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// submit sends a form with the cookie of the browser, unless the headers have one.
func (h *testConsole) submit(path string, form url.Values, header ...string) (*http.Response, string) {
	h.t.Helper()
	r := h.request(http.MethodPost, path, append([]string{"Content-Type", "application/x-www-form-urlencoded"}, header...)...)
	if _, ok := r.Header["Cookie"]; !ok {
		r.Header.Set("Cookie", h.cookie)
	}
	r.Body = io.NopCloser(strings.NewReader(form.Encode()))
	w := httptest.NewRecorder()
	h.mux.ServeHTTP(w, r)
	return w.Result(), w.Body.String()
}

// browse opens the console with a link, in a browser that calls itself agent, and returns its cookie. had is the
// cookie that it has already.
func (h *testConsole) browse(link, agent, had string) string {
	h.t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		h.t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.mux.ServeHTTP(w, h.request("GET", u.RequestURI(), "User-Agent", agent, "Cookie", had))
	c, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
	if c == "" {
		h.t.Fatalf("the link opens nothing: %d %s", w.Code, w.Body)
	}
	return c
}

const (
	firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
	edge    = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36 Edg/142.0"
)

var (
	numberField  = regexp.MustCompile(`name="number" value="([A-Z2-7]+)"`)
	sessionField = regexp.MustCompile(`name="session" value="([A-Z2-7]+)"`)
	linkCode     = regexp.MustCompile(`id="own-link">([^<]+)<`)
)

// TestMe lets the local user sign in with two browsers, make a link in one of them for a third, and end each session
// from another. Somebody else's sessions are neither listed nor ended.
func TestMe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, &admin.Report{})
		h.cookie = h.browse(h.access.Link(""), firefox, h.cookie)
		other := h.cookieOf("other")
		_, page := h.ask("GET", "/console/me")
		for _, want := range []string{"You run this Dragoman", "<b>Firefox on Linux</b>", ">192.0.2.1<", "by a link from the terminal", "You are signed in nowhere else", "Make a link"} {
			if !strings.Contains(page, want) {
				t.Errorf("the page doesn't say %s:\n%s", want, page)
			}
		}
		if strings.Contains(page, "to confirm") {
			t.Error("who has just signed in is asked again")
		}

		// A link that is asked for twice is made once, and opens one session.
		number := numberField.FindStringSubmatch(page)[1]
		links := make([]string, 4)
		var wg sync.WaitGroup
		for i := range links {
			wg.Go(func() {
				if resp, body := h.submit("/console/me", url.Values{"do": {"link"}, "number": {number}}); resp.StatusCode == 200 {
					links[i] = linkCode.FindStringSubmatch(body)[1]
				}
			})
		}
		wg.Wait()
		for _, link := range links {
			if link != links[0] || !strings.HasPrefix(link, "http://127.0.0.1:7300/console/?link=") {
				t.Errorf("the form makes %q", links)
			}
		}
		time.Sleep(3 * time.Minute)
		if resp, body := h.submit("/console/me", url.Values{"do": {"link"}, "number": {number}}); resp.StatusCode != 409 || strings.Contains(body, "link=") || !strings.Contains(body, "shown only once") {
			t.Errorf("later, the form answers %d", resp.StatusCode)
		}
		second := h.browse(links[0], edge, "")
		_, page = h.ask("GET", "/console/me")
		if !strings.Contains(page, "Edge on Windows") || strings.Count(page, `value="end"`) != 1 {
			t.Errorf("the second browser isn't on the page:\n%s", page)
		}

		// Somebody else can't end it, and it can be ended once.
		id := sessionField.FindStringSubmatch(page)[1]
		end := url.Values{"do": {"end"}, "session": {id}}
		if resp, _ := h.submit("/console/me", end, "Cookie", other); resp.StatusCode != 409 {
			t.Errorf("another user ends the session: %d", resp.StatusCode)
		}
		if resp, _ := h.ask("GET", "/console/", "Cookie", second); resp.StatusCode != 200 {
			t.Errorf("the second browser sees %d", resp.StatusCode)
		}
		for _, want := range []int{303, 409} {
			if resp, _ := h.submit("/console/me", end); resp.StatusCode != want {
				t.Errorf("the session is ended: %d, want %d", resp.StatusCode, want)
			}
		}
		if resp, _ := h.ask("GET", "/console/", "Cookie", second); resp.StatusCode != 401 {
			t.Errorf("the session goes on: %d", resp.StatusCode)
		}

		// A new sign-in in the same browser replaces the session.
		renewed := h.browse(h.access.Link(""), firefox, h.cookie)
		if resp, _ := h.ask("GET", "/console/"); resp.StatusCode != 401 || renewed == h.cookie {
			t.Errorf("the former session goes on: %d", resp.StatusCode)
		}
		for form, want := range map[string]int{"": 400, "do=link": 400, "do=nothing&number=A": 400, "do=end": 409, "do=end&session=x": 409, "do=%zz": 413} {
			values, _ := url.ParseQuery(form)
			r := h.request(http.MethodPost, "/console/me", "Content-Type", "application/x-www-form-urlencoded", "Cookie", renewed)
			r.Body = io.NopCloser(strings.NewReader(form))
			if resp := newRecorder(h, r); resp.StatusCode != want {
				t.Errorf("%q %v: %d, want %d", form, values, resp.StatusCode, want)
			}
		}
	})
}

// TestSure checks that what runs a new program, changes the configuration or lets somebody in asks again after ten
// minutes: before, nothing has to be typed; after that, the words of the route, and no others; and after a new sign-in
// nothing again.
func TestSure(t *testing.T) {
	type try struct {
		path  string
		form  url.Values
		done  func(int) bool
		words string
	}
	synctest.Test(t, func(t *testing.T) {
		a := triedDraft("everything", "x")
		a.kept = admin.Kept{Applied: true, Servers: []string{"everything"}}
		role := identity.Admin
		h, _ := editing(t, &role)
		adds := adding(t, a)
		for _, x := range []struct {
			h *testConsole
			try
		}{
			{adds, try{"/console/servers/add", url.Values{"do": {"try"}, "draft": {"d1"}}, func(s int) bool { return s == 303 }, addWords}},
			{adds, try{"/console/servers/add", url.Values{"do": {"keep"}, "draft": {"d1"}, "hash": {"h"}}, func(s int) bool { return s == 303 }, addWords}},
			{h, try{"/console/servers/files/edit", url.Values{"do": {"disable"}, "save": {"1"}, "hash": {"h"}}, func(s int) bool { return s == 303 }, editWords}},
			{h, try{"/console/me", url.Values{"do": {"link"}, "number": {"A"}}, func(s int) bool { return s == 200 }, linkWords}},
		} {
			if got := x.h.console.frame.find(h.request("POST", x.path)).sure; got != x.words {
				t.Errorf("the table says of %s that it asks for %q", x.path, got)
			}
			x.h.cookie = x.h.browse(x.h.access.Link(""), firefox, x.h.cookie)
			ask := func(what, words string, want bool) {
				t.Helper()
				x.form.Set("sure", words)
				resp, body := x.h.submit(x.path, x.form)
				if done := x.done(resp.StatusCode); done != want || !done && (resp.StatusCode != 403 || !strings.Contains(body, "Type <b>"+x.words)) {
					t.Errorf("%s %v, %s: %d", x.path, x.form, what, resp.StatusCode)
				}
				x.form.Set("number", time.Now().String())
			}
			ask("at once", "", true)
			time.Sleep(10 * time.Minute)
			ask("later", "", false)
			ask("with other words", "yes", false)
			ask("with the words", "  "+strings.ToUpper(x.words)+" ", true)
			x.h.cookie = x.h.browse(x.h.access.Link(""), firefox, x.h.cookie)
			ask("after a new sign-in", "", true)
		}
	})
}

// TestClassesOfFeeds opens the stream of one page as a viewer, two operators and an admin, and that of the page about
// the viewer. Those with the same role share a feed, each of the others has one, and nobody gets a byte of somebody
// else's.
func TestClassesOfFeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, &admin.Report{})
		local := identity.Admin
		h.graded(&local)
		// What this page shows depends on who looks at it.
		render := make(chan string, 100)
		h.console.frame.handle("GET /secret", identity.Viewer, func(_ http.ResponseWriter, r *http.Request) {
			s := stateOf(r)
			text := s.viewer.role.String()
			if s.viewer.who != nil {
				text += " " + s.viewer.who.Subject
			}
			if s.feed {
				render <- text
			}
			s.live.Text("x", "", text)
		})
		readers := map[string]*watcher{}
		cookies := map[string]string{"viewer": h.cookieOf("viewer"), "operator": h.cookieOf("operator"), "operator too": h.cookieOf("operator"), "admin": h.cookieOf("admin"), "local": h.cookie}
		for who, cookie := range cookies {
			h.cookie = cookie
			readers[who] = watch(t, h, "/console/secret", "")
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want := map[string]string{"viewer": "viewer", "operator": "operator", "operator too": "operator", "admin": "admin", "local": "admin"}
		for who, w := range readers {
			events := w.take()
			if len(events) != 1 || events[0]["x"]["text"] != want[who] {
				t.Errorf("%s gets %v", who, events)
			}
			w.stop()
		}
		close(render)
		times := map[string]int{}
		for text := range render {
			times[text]++
		}
		if len(times) != 3 || times["operator"] > 4 || times["admin"] > 4 {
			t.Errorf("the page was made for %v", times)
		}
		h.console.feeds.mu.Lock()
		defer h.console.feeds.mu.Unlock()
		if len(h.console.feeds.all) != 0 {
			t.Errorf("%d feeds are left", len(h.console.feeds.all))
		}
	})
}

// TestRoleOfAStream checks that a stream ends when the role of its reader changes, up or down, and that a reader who
// comes back gets all values of the other feed.
func TestRoleOfAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &event.Publisher{}
		h := stageWith(t, "busy", p)
		var role atomic.Uint32
		role.Store(uint32(identity.Admin))
		h.access.RolesFrom(func(*identity.Principal, string) []identity.Role { return []identity.Role{identity.Role(role.Load())} })
		for _, next := range []identity.Role{identity.Operator, identity.Admin, identity.Viewer, 0} {
			ended := make(chan struct{})
			r := h.request("GET", "/console/events?page=/console/", "Cookie", h.cookie)
			var reader sync.WaitGroup
			reader.Go(func() { defer close(ended); newRecorder(h, r) })
			time.Sleep(3 * time.Second)
			select {
			case <-ended:
				t.Fatalf("the stream has ended before the role became %s", next)
			default:
			}
			role.Store(uint32(next))
			time.Sleep(5 * time.Second)
			select {
			case <-ended:
				reader.Wait()
			default:
				t.Errorf("the stream goes on with the role %s", next)
			}
		}
	})
}

// TestForbidden checks what somebody without the role sees of the console: nothing that it knows.
func TestForbidden(t *testing.T) {
	h := open(t, &admin.Report{Servers: []admin.Server{{Name: "hidden-server", State: "ready"}}})
	var role identity.Role
	h.graded(&role)
	resp, body := h.ask("GET", "/console/servers/hidden-server")
	for _, want := range []string{"This page needs the role viewer", "You have no role of the console", `href="/console/me"`, `data-page=""`} {
		if resp.StatusCode != 403 || !strings.Contains(body, want) {
			t.Errorf("%d, without %s:\n%s", resp.StatusCode, want, body)
		}
	}
	_, mine := h.ask("GET", "/console/me")
	_, found := h.ask("GET", "/console/palette.json")
	for what, text := range map[string]string{"the refusal": body, "the page": mine, "the palette": found} {
		if what != "the refusal" && strings.Contains(text, "hidden-server") || strings.Contains(text, ">Servers") || strings.Contains(text, "/console/calls") {
			t.Errorf("%s names what nobody may see:\n%s", what, text)
		}
	}
	role = identity.Viewer
	if resp, body := h.ask("GET", "/console/servers/add"); resp.StatusCode != 403 || !strings.Contains(body, "Your role in the project default is viewer. Ask the user who runs") || !strings.Contains(body, ">Servers") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}
