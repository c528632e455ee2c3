package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/questions"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// asks lets a question wait in a project until the test ends. ended returns what its call got.
func (r *rig) asks(project string, q questions.Question) (id string, ended func() string) {
	r.t.Helper()
	box := r.runtime.Project(project).Questions()
	before := box.Waiting()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var got questions.Answer
	var err error
	running.Go(func() { got, err = box.Ask(ctx, q) })
	r.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	for box.Waiting() == before {
		time.Sleep(time.Millisecond)
	}
	all := box.All()
	return all[len(all)-1].ID, func() string {
		running.Wait()
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%s by %s", got.Result, got.By.Subject)
	}
}

// TestTA54_WhoAnswers lets everybody answer questions of others: of another person, of another project, through
// another person's link, with the credential of the call itself, for a second time, and with what doesn't fit the form.
// Each is refused in one sentence, nothing changes by it, and an innocent person's answer counts.
func TestTA54_WhoAnswers(t *testing.T) {
	t.Parallel()
	c := *config.Default()
	r := servingSnapshot(t, &c)
	shop := *config.Default()
	shop.Questions = true
	r.runtime.Apply("shop", &shop)
	roles := map[string]map[string]identity.Role{ // of subjects and seats, by project
		"ann": {"shop": identity.Caller}, "bob": {"shop": identity.Viewer, "default": identity.Operator}, "eve": {"shop": identity.Operator}, "dan": {"default": identity.Admin},
		"ann-mcp": {"shop": identity.Caller}, "ann-all": {"shop": identity.Operator}, "ann-api": {"shop": identity.Viewer}, "ann-mcp2": {"shop": identity.Caller},
	}
	a := r.api.Access()
	a.RolesFrom(func(who *identity.Principal, project string) []identity.Role {
		if who == identity.Local {
			return localRoles(who, project)
		}
		if role := roles[who.Seat][project]; role != 0 {
			return []identity.Role{role}
		}
		return nil
	})
	a.VisitorsFrom(func(r *http.Request) (*identity.Principal, error) {
		seat := r.Header.Get("X-Api-Key")
		if seat == "" {
			return nil, nil
		}
		return &identity.Principal{Subject: strings.Split(seat, "-")[0], Seat: seat, Via: "key"}, nil
	})
	headers := func(who string) []string {
		if strings.Contains(who, "-") {
			return []string{"X-Api-Key", who}
		}
		return []string{"Cookie", enter(a, a.LinkFor(identity.Named(who), "")), "Host", a.Name() + ":7300"}
	}
	form := questions.Question{Server: "s", Item: "book", Message: "Who?", Schema: []byte(`{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"]}`)}
	of := func(q questions.Question, subject, seat string) questions.Question {
		q.Who, q.Party = &identity.Principal{Subject: subject, Seat: seat}, seat
		return q
	}
	const yes, age = `{"action":"accept"}`, `{"action":"accept","content":{"age":36}}`
	for _, tt := range []struct {
		name, who, project, body string
		question                 questions.Question
		want                     string
	}{
		{"their own", "ann", "shop", age, form, "200 {accept}"},
		{"with a key for the API", "ann-api", "shop", age, form, "200 {accept}"},
		{"an operator", "eve", "shop", age, form, "200 {accept}"},
		{"with the key of the call", "ann-mcp", "shop", age, form, "403 role This needs the role viewer in the project shop, which you don't have. Ask an admin for it."},
		{"with another key for calls", "ann-mcp2", "shop", age, form, "403 role This needs the role viewer in the project shop, which you don't have. Ask an admin for it."},
		{"with a credential for everything", "ann-all", "shop", age, of(form, "ann", "ann-all"), "403 own-call A question isn't answered with the credential of the call that waits for it. Answer it in your session of the console, or let an operator answer it."},
		{"another person", "bob", "shop", age, form, "404 no-such-question No question with this id waits for you."},
		{"an operator of another project", "bob", "default", age, form, "404 no-such-question No question with this id waits for you."},
		{"an admin of another project", "dan", "shop", age, form, "404 no-such-project No project is named \"shop\"."},
		{"not what the form wants", "ann", "shop", `{"action":"accept","content":{"age":"x"}}`, form, "422 content age must be an integer."},
		{"not all that the form wants", "ann", "shop", `{"action":"accept","content":{}}`, form, "422 content age is missing."},
		{"no form", "ann", "shop", yes, form, `400 body "content" must be a JSON object with the fields of the form.`},
		{"no answer", "ann", "shop", `{"action":"agree"}`, form, `400 body "action" must be "accept", "decline" or "cancel".`},
		{"a form for a link", "ann", "shop", age, questions.Question{Server: "s", Message: "Look.", URL: "https://a.example/"}, `400 body "content" is only for a form whose "action" is "accept".`},
		{"a link", "ann", "shop", yes, questions.Question{Server: "s", Message: "Look.", URL: "https://a.example/"}, "200 {accept}"},
		{"a confirmation", "ann", "shop", yes, questions.Question{Server: "s", Message: "Do you want?", Rule: true}, "200 {accept}"},
		{"declined", "ann", "shop", `{"action":"decline"}`, form, "200 {decline}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.question.Who == nil {
				tt.question = of(tt.question, "ann", "ann-mcp")
			}
			r := *r
			r.t = t
			id, ended := r.asks("shop", tt.question)
			ours, innocent := r.asks("shop", of(form, "cyd", "cyd"))
			answer := func(who, project, id, body string) string {
				return said(r.ask(http.MethodPost, "/api/v1/questions/"+id+"/answer?project="+project, body, append(headers(who), "Content-Type", "application/json")...))
			}
			seen := func(who, project, id string) string {
				return said(r.ask(http.MethodGet, "/api/v1/questions/"+id+"?project="+project, "", headers(who)...))
			}
			hidden := strings.HasPrefix(tt.want, "404") || strings.Contains(tt.want, " role ")
			if got := seen(tt.who, tt.project, id); hidden && got != tt.want || !hidden && !strings.HasPrefix(got, "200") {
				t.Errorf("reading it: %s", got)
			}
			if list := r.ask(http.MethodGet, "/api/v1/questions?project="+tt.project, "", headers(tt.who)...).body; strings.Contains(list, id) == hidden || strings.Contains(list, ours) != (tt.who == "eve" || tt.who == "ann-all") {
				t.Errorf("the list: %s", list)
			}
			if got := answer(tt.who, tt.project, id, tt.body); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if strings.HasPrefix(tt.want, "200") {
				var in QuestionAnswer
				_ = json.Unmarshal([]byte(tt.body), &in)
				if got, want := ended(), tt.body+" by "+strings.Split(tt.who, "-")[0]; got != want {
					t.Errorf("the call got %s, want %s", got, want)
				}
				time := regexp.MustCompile(`[0-9:]{8}`)
				for who, want := range map[string]string{
					"eve": "409 answered It was answered by " + strings.Split(tt.who, "-")[0] + " at TIME UTC, with " + in.Action + ". The first answer counts, and the call went on with it.",
					"bob": "404 no-such-question No question with this id waits for you.",
				} {
					if got := time.ReplaceAllString(answer(who, "shop", id, tt.body), "TIME"); got != want {
						t.Errorf("then %s got  %s\nwant %s", who, got, want)
					}
				}
			} else if got := answer("eve", "shop", id, `{"action":"decline"}`); got != "200 {decline}" || ended() != `{"action":"decline"} by eve` {
				t.Errorf("it should have waited still: %s", got)
			}
			if got := answer("eve", "shop", ours, age); got != "200 {accept}" || innocent() != age+" by eve" {
				t.Errorf("the innocent question: %s", got)
			}
		})
	}
}

// said returns the status of an answer, and what is in it: the kind and the text of a problem, or the action.
func said(a reply) string {
	var x struct{ Type, Title, Detail, Action string }
	_ = json.Unmarshal([]byte(a.body), &x)
	if a.status == http.StatusOK {
		return fmt.Sprintf("%d {%s}", a.status, x.Action)
	}
	return fmt.Sprintf("%d %s %s", a.status, strings.TrimPrefix(x.Type, problemURI), x.Detail)
}

// TestQuestionsForNobody checks that a feed of the console, which belongs to nobody in particular, gets no question.
func TestQuestionsForNobody(t *testing.T) {
	t.Parallel()
	c := *config.Default()
	c.Questions = true
	r := servingSnapshot(t, &c)
	r.asks("default", questions.Question{Server: "s", Item: "book", Message: "Who?", Who: &identity.Principal{Subject: "ann", Seat: "ann"}, Party: "ann"})
	if got := r.api.QuestionsFor(nil); len(got.Questions) != 0 {
		t.Errorf("%+v", got.Questions)
	}
}

// TestQuestionsShowNoSecret checks that a server's question shows no secret of the configuration, and that control
// characters don't get through.
func TestQuestionsShowNoSecret(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "old", "legacy"))
	id, _ := r.asks("default", questions.Question{
		Server: "old", Item: "hunter2-secret", Message: "Is it hunter2-secret?\x1b[2J", Schema: []byte(`{"type":"object","properties":{"hunter2-secret":{"type":"string","title":"hunter2-secret"}}}`),
	})
	for _, path := range []string{"/questions", "/questions/" + id} {
		if a := r.ask(http.MethodGet, "/api/v1"+path, "", "Authorization", r.key()); a.status != http.StatusOK || strings.Contains(a.body, "hunter2") || strings.Contains(a.body, `\u001b`) || !strings.Contains(a.body, "Is it ***?") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}
