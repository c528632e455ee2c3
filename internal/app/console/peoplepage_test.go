package console

import (
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// TestInvite invites somebody: the link is in the first answer alone. What can't be is said at its field.
func TestInvite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, role := stageWith(t, "team", &event.Publisher{}), identity.Admin
		h.graded(&role)
		h.cookie = h.browse(h.access.Link(""), firefox, h.cookie)
		form := url.Values{"name": {"Carol"}, "role": {"viewer"}, "project": {"shop"}, "number": {h.numberOn("/console/people")}}
		resp, body := h.submit("/console/people", form)
		if resp.StatusCode != 200 || strings.Count(body, "token=for-person2") != 1 || !strings.Contains(body, "whoever opens it first is") || resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("Set-Cookie") != "" {
			t.Fatalf("%d %s", resp.StatusCode, textOf(body))
		}
		var again sync.WaitGroup
		for range 3 {
			again.Go(func() {
				if resp, body := h.submit("/console/people", form); resp.StatusCode != 409 || strings.Contains(body, "token=") {
					t.Errorf("sent again: %d", resp.StatusCode)
				}
			})
		}
		again.Wait()
		if got := strings.Join(h.source.acted, ", "); got != "local invites Carol to shop as viewer" {
			t.Errorf("what was done: %s", got)
		}
		for _, c := range []struct {
			name, role, field string
			bad               *admin.Problem
			status            int
		}{
			{"", "viewer", "i-name", nil, 422}, {"a\u202eb", "viewer", "i-name", nil, 422}, {"Typed", "", "i-roles", nil, 422},
			{"Ada", "viewer", "i-name", &admin.Problem{Type: "person-exists", Status: 409, Detail: "Somebody has this name already."}, 409},
			{"Typed", "viewer", "", &admin.Problem{Type: "no-public-url", Status: 409, Detail: "Set dragoman.publicURL."}, 409},
		} {
			h.source.testTeam.bad = c.bad
			form := url.Values{"name": {c.name}, "number": {h.numberOn("/console/people")}}
			if c.role != "" {
				form.Set("role", c.role)
			}
			resp, body := h.submit("/console/people", form)
			if resp.StatusCode != c.status || c.field != "" && !strings.Contains(body, `href="#`+c.field+`"`) || c.bad != nil && !strings.Contains(body, strings.TrimSuffix(c.bad.Detail, ".")) || c.name == "Typed" && !strings.Contains(body, `value="Typed"`) {
				t.Errorf("%q %q: %d %s", c.name, c.role, resp.StatusCode, textOf(mainOf(body)))
			}
			h.source.testTeam.bad = nil
		}
	})
}

// TestPersonPage changes everything that a person has, and hears of what somebody else has changed meanwhile.
func TestPersonPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, role := stageWith(t, "team", &event.Publisher{}), identity.Admin
		h.graded(&role)
		h.cookie = h.browse(h.access.Link(""), firefox, h.cookie)
		const page = "/console/people/ada"
		_, body := h.ask("GET", page)
		for _, want := range []string{"Firefox on Linux", "192.0.2.7", "tickets", "a server that isn", "2 sessions, 1 key that acts for them, and 2 sign-ins at servers", "hers"} {
			if !strings.Contains(textOf(body), want) {
				t.Errorf("the page doesn't say %s:\n%s", want, textOf(mainOf(body)))
			}
		}
		for _, c := range []struct{ form, to, did string }{
			{"do=roles&project=shop&was=viewer&role=viewer&role=caller", page, "local makes viewer viewer caller in shop ada"},
			{"do=roles&project=default&was=caller+operator", page, "local makes caller operator  in default ada"},
			{"do=end&session=SA", page, "local ends SA of ada"},
			{"do=sign-out", page, "local signs out ada"},
			{"do=remove&confirm=+Remove", "/console/people", "local removes ada"},
		} {
			form, _ := url.ParseQuery(c.form)
			form.Set("number", h.numberOn(page))
			h.source.acted = nil
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					if resp, body := h.submit(page, form); resp.StatusCode != 303 || resp.Header.Get("Location") != c.to {
						t.Errorf("%s: %d %v %s", c.form, resp.StatusCode, resp.Header, textOf(mainOf(body)))
					}
				})
			}
			all.Wait()
			if got := strings.Join(h.source.acted, ", "); got != c.did {
				t.Errorf("%s: %s", c.form, got)
			}
		}
		if resp, body := h.submit(page, url.Values{"do": {"sign-out"}, "number": {"N"}}); resp.StatusCode != 404 || !strings.Contains(body, "has removed them meanwhile") {
			t.Errorf("somebody who was removed: %d", resp.StatusCode)
		}

		const ben = "/console/people/ben"
		h.source.acted = nil
		link := url.Values{"do": {"link"}, "number": {h.numberOn(ben)}}
		if resp, body := h.submit(ben, link); resp.StatusCode != 200 || strings.Count(body, "token=again-ben") != 1 {
			t.Errorf("invited again: %d", resp.StatusCode)
		}
		if resp, body := h.submit(ben, link); resp.StatusCode != 409 || strings.Contains(body, "token=") {
			t.Errorf("the form again: %d", resp.StatusCode)
		}
		if got := strings.Join(h.source.acted, ", "); got != "local links ben" {
			t.Errorf("what was done: %s", got)
		}
		h.source.testTeam.bad = &admin.Problem{Type: "person-changed", Status: 409, Detail: "Ben has the roles viewer by now."}
		if resp, body := h.submit(ben, url.Values{"do": {"roles"}, "was": {"none"}, "role": {"admin"}, "number": {h.numberOn(ben)}}); resp.StatusCode != 409 || !strings.Contains(body, "Ben has the roles viewer by now.") {
			t.Errorf("changed by two: %d", resp.StatusCode)
		}
		for form, want := range map[string]int{"": 400, "do=roles": 400, "do=x&number=A": 400, "do=remove&number=A": 422, "do=remove&number=A&confirm=yes": 422} {
			values, _ := url.ParseQuery(form)
			if resp, _ := h.submit(ben, values); resp.StatusCode != want {
				t.Errorf("%q: %d, want %d", form, resp.StatusCode, want)
			}
		}
	})
}

// TestAccessAsksAgain checks that each form about keys and people asks somebody who signed in long ago.
func TestAccessAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, role := stageWith(t, "team", &event.Publisher{}), identity.Admin
		h.graded(&role)
		h.cookie = h.browse(h.access.Link(""), firefox, h.cookie)
		time.Sleep(time.Hour)
		for path, text := range map[string]string{
			"/console/keys/new": "name=x&role=caller&life=1d", "/console/keys/k1": "do=revoke", "/console/keys/k2": "do=rotate&overlap=1d&life=1d",
			"/console/people": "name=x&role=viewer", "/console/people/ada": "do=sign-out", "/console/people/ben": "do=link",
		} {
			form, _ := url.ParseQuery(text)
			form.Set("number", path)
			resp, body := h.submit(path, form)
			if resp.StatusCode != 403 || !strings.Contains(body, "Type <b>"+accessWords) || h.source.acted != nil {
				t.Errorf("%s: %d, %v", path, resp.StatusCode, h.source.acted)
			}
			form.Set("sure", strings.ToUpper(accessWords))
			if resp, _ := h.submit(path, form); resp.StatusCode >= 400 || len(h.source.acted) != 1 {
				t.Errorf("%s with the words: %d, %v", path, resp.StatusCode, h.source.acted)
			}
			h.source.acted = nil
		}
	})
}
