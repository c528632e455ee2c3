package console

import (
	"fmt"
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
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// numberOn returns the number of the forms of a page.
func (h *testConsole) numberOn(page string) string {
	h.t.Helper()
	resp, body := h.ask("GET", page)
	m := numberField.FindStringSubmatch(body)
	if m == nil {
		h.t.Fatalf("%s has no form: %d %s", page, resp.StatusCode, textOf(body))
	}
	return m[1]
}

// TestNewKey makes a key: its text is in the first answer alone. The form again, a reload of the page, the list, the
// key's page and the feeds don't have it, and there's one key.
func TestNewKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, role := stageWith(t, "team", &event.Publisher{}), identity.Admin
		h.graded(&role)
		h.cookie = h.browse(h.access.Link(""), firefox, h.cookie)
		form := url.Values{"name": {"laptop"}, "role": {"caller"}, "life": {"30d"}, "owner": {"ada"}, "servers": {"docs-*\nfiles"}, "tools": {"gh/get a*"}, "number": {h.numberOn("/console/keys/new")}}
		const text = "drgk_the-text-of-made4"
		var all []string
		resp, body := h.submit("/console/keys/new", form)
		if resp.StatusCode != 200 || strings.Count(body, text) != 1 || !strings.Contains(body, "A note.") || resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("Set-Cookie") != "" || strings.Contains(resp.Header.Get("Location"), text) {
			t.Fatalf("%d %v %s", resp.StatusCode, resp.Header, textOf(body))
		}
		for range 2 { // also when nobody knows any more what became of the first
			var again sync.WaitGroup
			for range 3 {
				again.Go(func() {
					if resp, body := h.submit("/console/keys/new", form); resp.StatusCode != 409 || strings.Contains(body, text) || !strings.Contains(body, "shown once") {
						t.Errorf("sent again: %d %s", resp.StatusCode, textOf(body))
					}
				})
			}
			again.Wait()
			time.Sleep(3 * time.Minute)
		}
		for _, page := range []string{"/console/keys", "/console/keys/new", "/console/keys/made4", "/console/events?page=/console/keys/made4", "/console/palette.json"} {
			if strings.Contains(page, "events") {
				w := watch(t, h, "/console/keys/made4", "")
				time.Sleep(3 * time.Second)
				all = append(all, fmt.Sprint(w.take()))
				w.stop()
				continue
			}
			_, body := h.ask("GET", page)
			all = append(all, body)
		}
		if strings.Contains(strings.Join(all, "\n"), text) {
			t.Error("the key is shown again")
		}
		if want := "local makes laptop caller 30d [docs-* files] [gh/get a*]adafalse"; !slices.Equal(h.source.acted, []string{want}) {
			t.Errorf("what was done: %q, want %q", h.source.acted, want)
		}
	})
}

// TestBadKeys sends what can't be: each is said at its field and at the top, nothing that was typed is lost, and nothing
// is done. A form that has failed can be sent again.
func TestBadKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, role := stageWith(t, "team", &event.Publisher{}), identity.Admin
		h.graded(&role)
		h.cookie = h.browse(h.access.Link(""), firefox, h.cookie)
		good := url.Values{"name": {"typed-name"}, "role": {"caller"}, "life": {"30d"}}
		for _, c := range []struct {
			field, value, id string
			bad              *admin.Problem
			status           int
		}{
			{"name", "", "k-name", nil, 422},
			{"name", "a\u202eb", "k-name", nil, 422},
			{"life", "soon", "k-life", nil, 422},
			{"servers", "a/b", "k-servers", nil, 422},
			{"tools", "no-server", "k-tools", nil, 422},
			{"role", "owner", "k-role", nil, 422},
			{"owner", "nobody", "k-owner", &admin.Problem{Type: "no-such-person", Status: 404, Detail: "Nobody has this name or id."}, 404},
			{"role", "admin", "k-role", &admin.Problem{Type: "key-role", Status: 403, Detail: "You don't have it."}, 403},
			{"life", "never", "k-life", &admin.Problem{Type: "key-life", Status: 403, Detail: "Too long."}, 403},
			{"name", "typed-name", "", &admin.Problem{Type: "store", Status: 503, Detail: "The database is away."}, 503},
		} {
			form := url.Values{"number": {h.numberOn("/console/keys/new")}}
			for name, value := range good {
				form[name] = value
			}
			form.Set(c.field, c.value)
			h.source.testTeam.bad = c.bad
			resp, body := h.submit("/console/keys/new", form)
			field := regexp.MustCompile(`id="`+c.id+`"[^>]*aria-invalid="true"`).MatchString(body) && strings.Contains(body, `href="#`+c.id+`"`)
			if resp.StatusCode != c.status || !strings.Contains(body, `role="alert"`) || c.id != "" && !field || c.field != "name" && !strings.Contains(body, `value="typed-name"`) {
				t.Errorf("%s %q: %d %s", c.field, c.value, resp.StatusCode, mainOf(body))
			}
			if len(h.source.acted) > 0 {
				t.Fatalf("%s %q: %v", c.field, c.value, h.source.acted)
			}
			h.source.testTeam.bad = nil
			if form.Set(c.field, good.Get(c.field)); c.bad != nil {
				if resp, body := h.submit("/console/keys/new", form); resp.StatusCode != 200 || !strings.Contains(body, "drgk_") {
					t.Errorf("after %s %q: %d", c.field, c.value, resp.StatusCode)
				}
				h.source.acted = nil
			}
		}
		if resp, _ := h.submit("/console/keys/new", good); resp.StatusCode != 400 {
			t.Errorf("without a number: %d", resp.StatusCode)
		}
	})
}

// TestKeyPage rotates and revokes a key. Somebody else may have done it meanwhile.
func TestKeyPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, role := stageWith(t, "team", &event.Publisher{}), identity.Admin
		h.graded(&role)
		h.cookie = h.browse(h.access.Link(""), firefox, h.cookie)
		const page = "/console/keys/k2"
		if _, body := h.ask("GET", page); !strings.Contains(textOf(body), "1 session, 0 open streams and 2 running calls") || !strings.Contains(body, "never expires") || !strings.Contains(body, "and was never used") {
			t.Errorf("the page says %s", textOf(body))
		}
		form := url.Values{"do": {"rotate"}, "overlap": {"7d"}, "life": {"30d"}, "hint": {"efgh"}, "number": {h.numberOn(page)}}
		if resp, body := h.submit(page, form); resp.StatusCode != 200 || !strings.Contains(body, "drgk_rotated-k2") {
			t.Errorf("rotated: %d", resp.StatusCode)
		}
		if resp, body := h.submit(page, form); resp.StatusCode != 409 || strings.Contains(body, "drgk_") {
			t.Errorf("rotated again: %d", resp.StatusCode)
		}
		for field, value := range map[string]string{"overlap": "x", "life": "x"} {
			bad := url.Values{"do": {"rotate"}, "overlap": {"7d"}, "life": {"30d"}, "number": {h.numberOn(page)}}
			bad.Set(field, value)
			if resp, body := h.submit(page, bad); resp.StatusCode != 422 || !strings.Contains(body, `href="#k-`+field+`"`) || !strings.Contains(body, `value="x"`) {
				t.Errorf("%s: %d", field, resp.StatusCode)
			}
		}
		h.source.testTeam.bad = &admin.Problem{Type: "key-changed", Status: 409, Detail: "It has another secret."}
		form.Set("number", h.numberOn(page))
		if resp, body := h.submit(page, form); resp.StatusCode != 409 || !strings.Contains(body, "It has another secret.") {
			t.Errorf("rotated by two: %d", resp.StatusCode)
		}
		revoke := url.Values{"do": {"revoke"}, "number": {h.numberOn(page)}}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if resp, _ := h.submit(page, revoke); resp.StatusCode != 303 || resp.Header.Get("Location") != "/console/keys" || !strings.Contains(resp.Header.Get("Set-Cookie"), "2+running+calls") {
					t.Errorf("revoked: %d %v", resp.StatusCode, resp.Header)
				}
			})
		}
		all.Wait()
		revoke.Set("number", "OTHER")
		if resp, body := h.submit(page, revoke); resp.StatusCode != 404 || !strings.Contains(body, "has revoked it meanwhile") {
			t.Errorf("revoked by two: %d", resp.StatusCode)
		}
		if got := strings.Join(h.source.acted, ", "); got != "local rotates k2 7d 30d efgh, local revokes k2" {
			t.Errorf("what was done: %s", got)
		}
		for _, bad := range []url.Values{{}, {"do": {"rotate"}}, {"do": {"all"}, "number": {"1"}}} {
			if resp, _ := h.submit("/console/keys/k1", bad); resp.StatusCode != 400 {
				t.Errorf("%v: %d", bad, resp.StatusCode)
			}
		}
	})
}

// TestKeysOfOthers looks at the pages as an operator, who sees all keys and changes none, and as a caller, who sees and
// changes their own.
func TestKeysOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, local := stageWith(t, "team", &event.Publisher{}), identity.Admin
		h.graded(&local)
		operator, caller := h.cookieOf("operator"), h.cookieOf("caller")
		if _, body := h.ask("GET", "/console/keys", "Cookie", operator); !strings.Contains(body, "/keys/k1") || !strings.Contains(body, "/keys/k3") {
			t.Error("an operator doesn't see all keys")
		}
		if _, body := h.ask("GET", "/console/keys/k1", "Cookie", operator); strings.Contains(body, `value="revoke"`) || !strings.Contains(body, "An admin rotates") {
			t.Error("an operator may revoke the key of somebody else")
		}
		_, body := h.ask("GET", "/console/keys", "Cookie", caller)
		if strings.Contains(body, "/keys/k1") || !strings.Contains(body, "/keys/k3") || strings.Contains(body, "/console/audit") {
			t.Errorf("a caller sees %s", textOf(mainOf(body)))
		}
		if resp, _ := h.ask("GET", "/console/keys/k1", "Cookie", caller); resp.StatusCode != 404 {
			t.Errorf("a caller sees the key of somebody else: %d", resp.StatusCode)
		}
		_, body = h.ask("GET", "/console/keys/k3", "Cookie", caller)
		if !strings.Contains(body, `value="revoke"`) {
			t.Error("a caller can't revoke their own key")
		}
		_, body = h.ask("GET", "/console/keys/new", "Cookie", caller)
		if strings.Contains(body, `name="owner"`) || strings.Contains(body, `value="admin"`) || !strings.Contains(body, `<option value="caller" selected`) {
			t.Error("a caller may choose an owner, or a role that they lack")
		}
		form := url.Values{"name": {"x"}, "role": {"caller"}, "life": {"90d"}, "owner": {"ada"}, "number": {"N"}}
		if resp, _ := h.submit("/console/keys/new", form, "Cookie", caller); resp.StatusCode != 200 || !strings.HasSuffix(h.source.acted[0], "[] []true") {
			t.Errorf("a caller makes a key for somebody else: %d %v", resp.StatusCode, h.source.acted)
		}
	})
}

// TestPageOfKeys filters, sorts and pages many keys.
func TestPageOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := manyKeys(t, 120)
		for page, want := range map[string]string{
			"":                        "key 00000,key 00049,50",
			"?page=3":                 "key 00100,key 00119,20",
			"?sort=-name":             "key 00119,key 00070,50",
			"?q=key+00007":            "key 00007,key 00007,1",
			"?owner=people&sort=name": "key 00000,key 00098,50",
			"?state=look&page=9":      "key 00000,key 00117,40",
			"?role=viewer":            ",,0",
		} {
			_, body := h.ask("GET", "/console/keys"+page)
			names := regexp.MustCompile(`key \d{5}\b`).FindAllString(rowsOf(body), -1)
			got := fmt.Sprint(",,", len(names))
			if len(names) > 0 {
				got = fmt.Sprint(names[0], ",", names[len(names)-1], ",", len(names))
			}
			if got != want {
				t.Errorf("%s: %s, want %s", page, got, want)
			}
		}
	})
}

// rowsOf returns the rows of the first table of a page.
func rowsOf(page string) string {
	_, rest, _ := strings.Cut(page, "<tbody>")
	rows, _, _ := strings.Cut(rest, "</tbody>")
	return rows
}

// manyKeys opens a console with n keys: every second is a person's, and every third never expires.
func manyKeys(t testing.TB, n int) *testConsole {
	h := stage(t, "team")
	soon, used := time.Now().Add(time.Hour), time.Now()
	h.source.keys = nil
	for i := range n {
		k := admin.APIKey{ID: fmt.Sprintf("id%d", i), Name: fmt.Sprintf("key %05d", i), Role: "caller", Expires: &soon, Used: &used, Made: time.Now()}
		if i%2 == 0 {
			k.Owner = "Ada"
		}
		if i%3 == 0 {
			k.Expires = nil
		}
		h.source.keys = append(h.source.keys, k)
	}
	return h
}

// BenchmarkKeys measures how long the server needs for a page of 10,000 keys, without the database.
func BenchmarkKeys(b *testing.B) {
	h := manyKeys(b, 10_000)
	r := h.request(http.MethodGet, "/console/keys?sort=-used&page=100", "Cookie", h.cookie)
	b.ReportAllocs()
	for b.Loop() {
		if w := newRecorder(h, r); w.StatusCode != 200 {
			b.Fatal(w.StatusCode)
		}
	}
}

// TestLookAsKey has an admin look as a key: the page has what the key gets, and a form that's sent twice looks once. A
// viewer and an operator find neither the page nor the button.
func TestLookAsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, role := stageWith(t, "team", &event.Publisher{}), identity.Admin
		h.graded(&role)
		h.cookie = h.browse(h.access.Link(""), firefox, h.cookie)
		const page = "/console/keys/k1/look"
		if _, body := h.ask("GET", "/console/keys/k1"); !strings.Contains(body, `href="`+page+`"`) {
			t.Error("no way to look")
		}
		form := url.Values{"at": {"server:gh"}, "revision": {"2026-07-28"}, "can": {"roots"}, "number": {h.numberOn(page)}}
		for range 2 {
			resp, body := h.submit(page, form)
			for _, want := range []string{"addci", "Be kind", "ticketsci", "gh/pushci", "Unknown tool: push", "-32601"} {
				if resp.StatusCode != 200 || !strings.Contains(textOf(body), want) {
					t.Errorf("%d, not %q in %s", resp.StatusCode, want, textOf(body))
				}
			}
		}
		if want := "local looks as k1 server gh 2026-07-28 [roots]"; !slices.Equal(h.source.acted, []string{want}) {
			t.Errorf("what was done: %q, want %q", h.source.acted, want)
		}
		h.source.testTeam.bad = &admin.Problem{Type: "store", Status: 503, Detail: "The database is away."}
		form.Set("number", h.numberOn(page))
		if resp, body := h.submit(page, form); resp.StatusCode != 503 || !strings.Contains(textOf(body), "The database is away.") {
			t.Errorf("%d %s", resp.StatusCode, textOf(body))
		}
		for _, role = range []identity.Role{identity.Viewer, identity.Operator} {
			if resp, _ := h.ask("GET", page); resp.StatusCode != 403 {
				t.Errorf("%s: %d", role, resp.StatusCode)
			}
			if resp, _ := h.submit(page, form); resp.StatusCode != 403 {
				t.Errorf("%s looks: %d", role, resp.StatusCode)
			}
			if _, body := h.ask("GET", "/console/keys/k1"); strings.Contains(body, page) {
				t.Errorf("%s finds a link", role)
			}
		}
	})
}
