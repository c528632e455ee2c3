package console

import (
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

func init() {
	scenes["connections"] = func() (s scene) {
		s.source.signIns = signInsOf("tickets")
		return s
	}
	scenes["connections-none"] = scenes["empty"]
	pagesOf["connections"] = []string{"/connections", "/connections?in=shop&done=tickets", "/connections?in=default&done=in", "/connections?done=nope", "/questions"}
	pagesOf["connections-none"] = []string{"/connections"}
}

// signInsOf returns a sign-in in each state. The texts of servers and issuers are text.
func signInsOf(text string) []admin.SignIn {
	now, people := time.Now(), 1200
	later := now.Add(5 * time.Minute)
	return []admin.SignIn{
		{Project: "default", Server: "in", URL: text, State: "in", May: true, Issuer: "https://id.example/" + text, Scopes: []string{"read", text}, Since: &now, Renews: true, People: &people},
		{Project: "default", Server: "out", URL: text, State: "out", May: true, Until: &later},
		{Project: "default", Server: "ended", State: "ended", May: true, Since: &now, Until: &now},
		{Project: "default", Server: "waiting", State: "waiting", May: true, Waits: &later},
		{Project: "default", Server: "all", State: "in", Shared: true, Since: &now},
		{Project: "shop", Server: text, State: "failed", May: true, Failure: &admin.SignInFailure{Began: now, Step: "registration", Says: "the issuer refuses: " + text, Next: "ask " + text, Steps: []admin.SignInStep{{Step: "challenge", Got: "401 " + text}, {Step: "resource metadata", Got: text}}}},
	}
}

// TestConnections looks at a sign-in in each state. Each has the buttons that its person may use, the browser that comes
// back finds the focus on the next one, and a sign-in that has failed says at which step. The buttons do what they say.
func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stageWith(t, "connections", &event.Publisher{})
		h.source.link = admin.SignInLink{ID: "1", Link: "https://id.example/authorize?state=x", Issuer: "id.example"}
		row := func(body, server string) string {
			t.Helper()
			_, rest, ok := strings.Cut(body, `name="server" value="`+server+`">`)
			if !ok {
				t.Fatalf("there is no %s", server)
			}
			rest, _, _ = strings.Cut(rest, "</tr>")
			return rest
		}
		_, body := h.ask("GET", "/console/connections")
		for server, want := range map[string]string{"in": "out", "out": "in", "ended": "in out", "waiting": "in out", "all": "", "tickets": "in"} {
			var does []string
			for _, m := range regexp.MustCompile(`name="do" value="(\w+)"`).FindAllStringSubmatch(row(body, server), -1) {
				does = append(does, m[1])
			}
			if got := strings.Join(does, " "); got != want {
				t.Errorf("%s has the buttons %q, want %q", server, got, want)
			}
		}
		trace, _, _ := strings.Cut(body[strings.Index(body, `<ol class="sheet pad trace`):], "</ol>")
		if got := regexp.MustCompile(`<li class="(\w+)">`).FindAllStringSubmatch(trace, -1); len(got) != 6 || got[2][1] != "ok" || got[3][1] != "bad" || got[4][1] != "no" || !strings.Contains(trace, "the issuer refuses: tickets") {
			t.Errorf("the steps are %s", trace)
		}
		for from, next := range map[string]string{"in=default&done=in": "out", "in=default&done=waiting": "tickets", "in=shop&done=tickets": "out", "done=nope": ""} {
			_, body := h.ask("GET", "/console/connections?"+from)
			if n := strings.Count(mainOf(body), " autofocus"); next == "" && n != 0 || next != "" && (n != 1 || !strings.Contains(row(body, next), " autofocus")) {
				t.Errorf("after %s, %d buttons have the focus", from, n)
			}
		}
		resp, body := h.submit("/console/connections", url.Values{"do": {"in"}, "project": {"shop"}, "server": {"tickets"}})
		if resp.StatusCode != 200 || !strings.Contains(html.UnescapeString(body), `content="0; url=https://id.example/authorize?state=x"`) {
			t.Errorf("sign in: %d %s", resp.StatusCode, body)
		}
		resp, _ = h.submit("/console/connections", url.Values{"do": {"out"}, "project": {"default"}, "server": {"unreachable"}})
		if said := resp.Header.Get("Set-Cookie"); resp.StatusCode != 303 || !strings.Contains(said, "revoke") {
			t.Errorf("sign out: %d %s", resp.StatusCode, said)
		}
		if want := []string{"local signs in to shop/tickets", "local signs out of default/unreachable"}; !slices.Equal(h.source.did, want) {
			t.Errorf("%q", h.source.did)
		}
		h.source.refuse = &admin.Problem{Status: 502, Title: "The sign-in has failed", Detail: "The issuer lets no client register by itself."}
		for _, do := range []string{"in", "out", "nothing"} {
			resp, body := h.submit("/console/connections", url.Values{"do": {do}, "project": {"shop"}, "server": {"tickets"}})
			if want := map[string]int{"in": 502, "out": 502, "nothing": 400}[do]; resp.StatusCode != want || strings.Contains(body, "lets no client register") != (do != "nothing") {
				t.Errorf("%s: %d", do, resp.StatusCode)
			}
		}
	})
}
