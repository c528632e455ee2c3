package console

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// askedOf returns a question about a call of somebody that waits for ten minutes.
func askedOf(subject, id, kind string, change func(*admin.QuestionDetails)) asking {
	q := asking{subject: subject}
	q.ID, q.Kind, q.Server, q.Item, q.Client, q.Who, q.Call = id, kind, "shop", "book", "Batch job", subject, 7
	q.Message, q.Since, q.Until = "Message of "+id, time.Now(), time.Now().Add(10*time.Minute)
	if change != nil {
		change(&q.QuestionDetails)
	}
	return q
}

// asksAll returns a question of each kind about calls of a caller, and one of a viewer.
func asksAll() []asking {
	return []asking{
		askedOf("caller", "FORM", "form", func(q *admin.QuestionDetails) {
			q.Schema = []byte(`{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"]}`)
		}),
		askedOf("caller", "LINK", "link", func(q *admin.QuestionDetails) { q.URL = "https://pay.example/a?b=1&c" }),
		askedOf("caller", "CONFIRM", "confirmation", nil),
		askedOf("viewer", "OTHER", "confirmation", nil),
	}
}

// TestTA54_OnThePage has the person whose calls wait, another person and an operator look at the questions and answer
// them. Each sees and counts what they may answer, the first answer counts, and whoever comes second reads who was
// first. A form that's sent twice answers once, and one that was wrong may be sent again.
func TestTA54_OnThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{report: &admin.Report{Started: time.Now(), Questions: 4}, read: map[string]bool{}, asked: asksAll()}
		h := open(t, src.report, func(o *Options) { o.Source = src })
		local := identity.Admin
		h.graded(&local)
		cookies := map[string]string{}
		for _, who := range []string{"caller", "viewer", "operator", "guest"} {
			cookies[who] = h.cookieOf(who)
		}
		count := regexp.MustCompile(`id="n-Questions" class="n">(\d*)<`)
		for who, want := range map[string]struct {
			count string
			sees  []string
		}{"caller": {"3", []string{"FORM", "LINK", "CONFIRM"}}, "viewer": {"1", []string{"OTHER"}}, "operator": {"4", []string{"FORM", "LINK", "CONFIRM", "OTHER"}}} {
			_, list := h.ask("GET", "/console/questions", "Cookie", cookies[who])
			if got := count.FindStringSubmatch(list); got == nil || got[1] != want.count {
				t.Errorf("%s: the number is %q", who, got)
			}
			for _, q := range src.asked {
				sees := strings.Contains(strings.Join(want.sees, " "), q.ID)
				resp, page := h.ask("GET", "/console/questions/"+q.ID, "Cookie", cookies[who])
				if strings.Contains(list, q.ID) != sees || (resp.StatusCode == 200) != sees || strings.Contains(page, q.Message) != sees {
					t.Errorf("%s, %s: %d, in the list: %t", who, q.ID, resp.StatusCode, strings.Contains(list, q.ID))
				}
				if !sees && (resp.StatusCode != 404 || !strings.Contains(page, "No such question")) {
					t.Errorf("%s, %s: %d", who, q.ID, resp.StatusCode)
				}
			}
		}
		// A sign-in that waits for somebody counts, too.
		waits := time.Now().Add(time.Minute)
		src.signIns = []admin.SignIn{{Project: "default", Server: "gh", May: true, Waits: &waits}}
		for who, want := range map[string]string{"caller": "4", "operator": "5"} {
			_, list := h.ask("GET", "/console/questions", "Cookie", cookies[who])
			if got := count.FindStringSubmatch(list); got == nil || got[1] != want {
				t.Errorf("%s, with a sign-in: the number is %q", who, got)
			}
		}
		src.signIns = nil
		if resp, body := h.ask("GET", "/console/questions", "Cookie", cookies["guest"]); resp.StatusCode != 403 || strings.Contains(body, "FORM") {
			t.Errorf("somebody without a role: %d", resp.StatusCode)
		}

		answer := func(who, id, form string) (int, string) {
			t.Helper()
			values, _ := url.ParseQuery(form)
			resp, body := h.submit("/console/questions/"+id, values, "Cookie", cookies[who])
			if resp.StatusCode == http.StatusSeeOther {
				return resp.StatusCode, resp.Header.Get("Location")
			}
			return resp.StatusCode, body
		}
		for _, x := range []struct {
			who, id, form string
			status        int
			says          string
		}{
			{"viewer", "FORM", "number=A&do=accept&v/age=36", 404, "No question with this id waits for you."},
			{"caller", "FORM", "do=accept&v/age=36", 400, "can&#39;t be read"},
			{"caller", "FORM", "number=B&do=accept&v/age=x", 422, `aria-invalid="true"`},
			{"caller", "FORM", "number=B&do=json&v/age=36", 200, `name="json"`},
			{"caller", "FORM", "number=B&do=accept&v/age=36", 303, "/console/questions"},
			{"caller", "FORM", "number=B&do=accept&v/age=36", 303, "/console/questions"}, // a double click
			{"operator", "FORM", "number=B&do=decline", 409, "It was answered by caller at 12:00:00 UTC, with accept."},
			{"caller", "FORM", "number=C&do=accept&v/age=37", 409, "The first answer counts"},
			{"operator", "LINK", "number=D&do=cancel", 303, "/console/questions"},
			{"caller", "CONFIRM", "number=E&do=accept", 303, "/console/questions"},
			{"caller", "OTHER", "number=F&do=accept", 404, "No question with this id"},
			{"guest", "OTHER", "number=F&do=accept", 403, "needs the role caller"},
		} {
			if status, body := answer(x.who, x.id, x.form); status != x.status || !strings.Contains(body, x.says) {
				t.Errorf("%s answers %s with %s: %d %s", x.who, x.id, x.form, status, body)
			}
		}
		if got, want := strings.Join(src.did, "; "), `caller accept FORM {"age":36}; operator cancel LINK ; caller accept CONFIRM `; got != want {
			t.Errorf("the calls got %s", got)
		}
	})
}

// TestLinksOfQuestions checks which addresses of servers become links: those whose host each browser reads as we do.
func TestLinksOfQuestions(t *testing.T) {
	for address, want := range map[string]string{
		"https://pay.example/a?b=1&c":          "pay.example",
		"https://pay.example:8443/":            "pay.example",
		"http://pay.example/":                  "",
		"https://pay.example@evil.example/":    "",
		`https://pay.example\@evil.example/`:   "",
		`https://pay.example\.evil.example/`:   "",
		"https://p\u0430y.example/":            "",
		"https://xn--py-7kc.example/":          "",
		"https://pay.example%2f.evil/":         "",
		"https://192.168.1.1/reboot":           "",
		"https://localhost/":                   "",
		"https://2130706433/":                  "",
		"https://pay.example\t.evil/":          "",
		" javascript:alert(1)":                 "",
		"javascript://pay.example/%0aalert(1)": "",
		"data:text/html,x":                     "",
		"//pay.example/":                       "",
	} {
		src := &source{report: &admin.Report{}, read: map[string]bool{}, asked: []asking{askedOf("local", "LINK", "link", func(q *admin.QuestionDetails) { q.URL = address })}}
		h := open(t, src.report, func(o *Options) { o.Source = src })
		_, page := h.ask("GET", "/console/questions/LINK")
		found := regexp.MustCompile(`<a class="btn" href="([^"]*)" target="_blank" rel="noopener noreferrer">Open <bdi>([^<]*)</bdi>`).FindStringSubmatch(page)
		if !strings.Contains(page, "I have opened it") || (found != nil) != (want != "") || found != nil && found[2] != want || strings.Count(page, `target="_blank"`) != strings.Count(want, "pay.") {
			t.Errorf("%q becomes %q", address, found)
		}
	}
}

// TestFeedOfQuestions follows the pages of two viewers, one of whom is asked something meanwhile: only this one's
// number and list change, and only their stream begins anew. The page of a question says what has become of it.
func TestFeedOfQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &source{report: &admin.Report{Started: time.Now()}, read: map[string]bool{}, asked: []asking{askedOf("ann", "FIRST", "confirmation", nil)}}
		h := open(t, src.report, func(o *Options) { o.Source = src })
		h.access.RolesFrom(func(*identity.Principal, string) []identity.Role { return []identity.Role{identity.Viewer} })
		follow := func(who, page string) *watcher {
			h.cookie = h.cookieOf(who)
			return watch(t, h, "/console"+page, "")
		}
		ann, bob, first := follow("ann", "/questions"), follow("bob", "/questions"), follow("ann", "/questions/FIRST")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		texts := func(w *watcher, id string) (all []string) {
			for _, e := range w.take() {
				if p, ok := e[id]; ok {
					all = append(all, p["text"]+p["hash"])
				}
			}
			return all
		}
		if got := texts(first, "left"); len(got) < 2 || !strings.HasSuffix(got[0], "s left") || got[0] == got[1] {
			t.Errorf("the time left: %q", got)
		}
		if got := texts(ann, "n-Questions"); len(got) != 1 || got[0] != "1" {
			t.Errorf("ann's number: %q", got)
		}
		if got := texts(bob, "n-Questions"); len(got) != 1 || got[0] != "" {
			t.Errorf("bob's number: %q", got)
		}
		if _, bad := src.AnswerFrom(nil, &identity.Principal{Subject: "ann"}, "FIRST", admin.QuestionAnswer{Action: "accept"}); bad != nil {
			t.Fatal(bad)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := texts(first, "left"); len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "It was answered by ann") {
			t.Errorf("then the page says %q", got)
		}
		if got := texts(ann, "n-Questions"); len(got) != 1 || got[0] != "" {
			t.Errorf("then ann's number: %q", got)
		}
		if got := bob.take(); len(got) != 0 {
			t.Errorf("bob got %v", got)
		}
		for _, w := range []*watcher{ann, bob, first} {
			w.stop()
		}
		for who, want := range map[string]string{"viewer 0": "viewer", "viewer 2": "viewer, asked 2"} {
			v := viewer{role: identity.Viewer, waits: int(who[len(who)-1] - '0')}
			if got := v.class(false); got != want {
				t.Errorf("%s: the class is %q", who, got)
			}
		}
	})
}
