package console

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/form"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// questionsView has the values of the page that lists what waits for a person.
type questionsView struct {
	Off   bool // no further questions arrive in this project
	All   int
	Rows  []questionRow
	Signs []connection // sign-ins that wait for the viewer
	Key   string
	Pager pager
	// Missing are the other replicas that have not said what waits there.
	Missing []admin.Missing
}

// questionRow is a question that waits, as a row of a table or at the top of its page.
type questionRow struct {
	admin.QuestionEntry
	left time.Duration
}

// Path returns the path of the question's page.
func (q *questionRow) Path() string { return pathOf("questions", q.ID) }

// Text returns the beginning of the question, on one line.
func (q *questionRow) Text() string { return excerpt.Line(q.Message, 160) }

// Left returns how long the question waits still.
func (q *questionRow) Left() string {
	s := max(0, int(q.left.Round(time.Second)/time.Second))
	if s < 60 {
		return strconv.Itoa(s) + " s left"
	}
	return fmt.Sprintf("%d min %02d s left", s/60, s%60)
}

// Hurry returns the class of what Left returns.
func (q *questionRow) Hurry() string {
	if q.left < time.Minute {
		return "st warn"
	}
	return "st held"
}

// questionPageView has the values of the page of one question.
type questionPageView struct {
	questionRow
	Gone    *admin.Problem // what has become of a question that doesn't wait any more; nil if it waits
	URL     string
	Schema  []byte
	Form    *form.Form // nil if the question has no form
	Host    string     // of the page to open; "" if it has none
	Odd     string     // a warning about the page to open
	Link    string     // the address for a link; "" if it's only to be copied
	Number  string     // of the form; see forms
	Problem string     // why the answer was not sent
	Failed  bool       // the answer was not sent
	Calls   bool       // the viewer may look at the call
}

// Errors returns what is wrong with the answer in the form.
func (v *questionPageView) Errors() []form.Error {
	if v.Form == nil {
		return nil
	}
	return v.Form.Errors
}

// questionPages are the pages about what waits for a person, because clients can't show it. People see what's about
// their own calls, and operators see all. package admin decides who may answer what.
type questionPages struct {
	frame  *frame
	source interface {
		QuestionsFor(who *identity.Principal) admin.Questions
		QuestionsFrom(r *http.Request, who *identity.Principal) admin.Questions
		QuestionFrom(r *http.Request, who *identity.Principal, id string) (admin.QuestionDetails, *admin.Problem)
		AnswerFrom(r *http.Request, who *identity.Principal, id string, answer admin.QuestionAnswer) (admin.QuestionAnswered, *admin.Problem)
		WaitingSignIns(who *identity.Principal) []admin.SignIn
	}
	forms forms
}

func (p *questionPages) register(f *frame) {
	f.add(Page{
		Path: "/questions", Least: identity.Caller, Personal: true, Template: "questions.html", Module: "notice.js", Nav: "Questions", Group: traffics, Key: "Q", View: p.list,
		Count: func(s *screen) string {
			if s.Asked == 0 {
				return ""
			}
			return number(s.Asked)
		},
	})
	f.add(p.page())
	f.register("POST /questions/{id}", allowed{least: identity.Caller, personal: true}, p.answer)
}

func (p *questionPages) page() Page {
	return Page{
		Path: "/questions/{id}", Least: identity.Caller, Personal: true, Template: "question.html", Sheet: "second.css",
		View: func(r *http.Request) (*View, error) { return p.view(r, r.PathValue("id"), nil) },
	}
}

// list returns the page with all questions.
func (p *questionPages) list(r *http.Request) (*View, error) {
	who := stateOf(r).viewer.who
	all := p.source.QuestionsFrom(waits(r), who)
	v := &questionsView{Off: all.Mode == "off" && may(r, identity.Viewer), All: len(all.Questions), Missing: all.Missing}
	shown, pages := paged(all.Questions, r.URL.Query())
	v.Pager = pages
	for _, q := range shown {
		v.Rows = append(v.Rows, questionRow{q, time.Until(q.Until)})
	}
	own := all.Questions
	if replicated(r) {
		// A feed knows only what this replica has. For the rest, the browser loads the section again.
		own = p.source.QuestionsFor(who).Questions
		v.Key = fmt.Sprint(time.Now().Unix()/askAgain, " ")
	}
	for _, q := range own {
		v.Key += q.ID + " "
	}
	for _, x := range p.source.WaitingSignIns(who) {
		v.Signs = append(v.Signs, connection{SignIn: x})
		v.Key += x.Server + " "
	}
	v.Key += fmt.Sprint(len(own), v.Off)
	return &View{Title: "Questions", Data: v, Moving: v.All+len(v.Signs) > 0 || replicated(r)}, nil
}

// askAgain is how many seconds pass before an open page asks the other replicas again.
const askAgain = 10

// noQuestion returns the error for a question that doesn't wait for the viewer.
func noQuestion(bad *admin.Problem) error {
	return problemError(bad, Crumb{"Show all questions", pathOf("questions")})
}

// view returns the page of a question. If failed is not nil, it's the page after an answer that was not sent, and its
// status is in View.Status.
func (p *questionPages) view(r *http.Request, id string, failed *questionPageView) (*View, error) {
	v := failed
	if v == nil {
		q, bad := p.source.QuestionFrom(waits(r), stateOf(r).viewer.who, id)
		switch {
		case bad != nil && bad.Status == http.StatusConflict:
			// Not an error: whoever has the page open reads there what has become of the question.
			v = &questionPageView{Gone: bad}
			v.ID = id
		case bad != nil:
			return nil, noQuestion(bad)
		default:
			v = questionPageOf(&q)
		}
	}
	v.left, v.Number, v.Calls = time.Until(v.Until), formNumber(), may(r, identity.Viewer)
	return &View{Title: v.Title(), Crumbs: []Crumb{{"Questions", pathOf("questions")}}, Data: v, Moving: v.Gone == nil}, nil
}

// Title returns the title of the question's page.
func (v *questionPageView) Title() string {
	switch {
	case v.Gone != nil:
		return v.Gone.Title
	case v.Kind == "confirmation":
		return "Confirm a call of " + excerpt.Line(v.Server, 80)
	case v.Kind == "link":
		return excerpt.Line(v.Server, 80) + " asks you to open a page"
	}
	return excerpt.Line(v.Server, 80) + " asks"
}

// Key returns text that changes when the question is answered.
func (v *questionPageView) Key() string { return fmt.Sprint(v.Gone == nil) }

// State returns how long the question waits still, or what has become of it, and Mark the class of this text.
func (v *questionPageView) State() string {
	if v.Gone != nil {
		return v.Gone.Detail
	}
	return v.Left()
}

// Mark is described at State.
func (v *questionPageView) Mark() string {
	if v.Gone != nil {
		return "st off"
	}
	return v.Hurry()
}

// questionPageOf returns the page of a question that waits, with an empty form.
func questionPageOf(q *admin.QuestionDetails) *questionPageView {
	v := &questionPageView{questionRow: questionRow{QuestionEntry: q.QuestionEntry}, URL: q.URL, Schema: q.Schema}
	switch v.Kind {
	case "form":
		v.Form = form.Make(q.Schema, form.Options{ID: "q-", Defaults: true, Titles: true})
	case "link":
		v.Host, v.Odd = linkOf(q.URL)
		if u, err := url.Parse(q.URL); err == nil && v.Odd == "" && plainHost.MatchString(u.Host) {
			v.Link = u.String()
		}
	}
	return v
}

// plainHost matches the host, with or without a port, that each browser reads in an address as we do.
var plainHost = regexp.MustCompile(`^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+(:[0-9]{1,5})?$`)

// answered is what became of a form with an answer.
type answered struct {
	done string            // what to tell the viewer; "" if the answer was not sent
	page *questionPageView // the page to show again, with the form as it was filled in
	code int
	err  error // the question doesn't wait for the viewer
}

// answer handles the form of a question. A form that is sent twice answers once.
func (p *questionPages) answer(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	n := r.PostForm.Get("number")
	if n == "" {
		p.frame.fail(w, r, &pageError{Status: http.StatusBadRequest, Title: "The form can't be read", Text: "Load the page again.", Next: Crumb{"Show all questions", pathOf("questions")}})
		return
	}
	result, _ := p.forms.once(r, n, func() any { return p.send(r) })
	x, kept := result.(answered)
	if !kept { // the form was sent some minutes ago
		x = p.send(r)
	}
	switch {
	case x.done != "":
		say(w, x.done)
		http.Redirect(w, r, pathOf("questions"), http.StatusSeeOther)
		return
	case x.err != nil:
		p.frame.fail(w, r, x.err)
	default:
		p.frame.again(w, r, p.page(), func(r *http.Request) (*View, error) {
			again := *x.page // two browsers may show it at the same time
			view, err := p.view(r, again.ID, &again)
			if view != nil {
				view.Status = x.code
			}
			return view, err
		})
	}
	p.forms.forget(r, n) // nothing has happened yet, so it's a new answer the next time
}

// answers are what people do with a question, and what they are told then.
var answers = map[string]string{"accept": "The answer was sent.", "decline": "The question was declined.", "cancel": "The question was cancelled."}

// send sends the answer in the form.
func (p *questionPages) send(r *http.Request) answered {
	who, id, do := stateOf(r).viewer.who, r.PathValue("id"), r.PostForm.Get("do")
	q, bad := p.source.QuestionFrom(r, who, id)
	if bad != nil {
		return answered{err: noQuestion(bad)}
	}
	v := questionPageOf(&q)
	in := admin.QuestionAnswer{Action: do}
	if v.Form != nil && do != "decline" && do != "cancel" {
		content, ok := v.Form.Read(r.PostForm)
		switched := false
		v.Form, switched = switchForm(v.Form, do, content, ok, func() *form.Form {
			return form.Make(v.Schema, form.Options{ID: "q-", Titles: true})
		})
		switch {
		case switched && ok:
			return answered{page: v, code: http.StatusOK}
		case !ok:
			if !switched {
				reportRest(v.Form, v.Schema, content)
			}
			v.Failed = true
			return answered{page: v, code: http.StatusUnprocessableEntity}
		}
		in.Content = content
	}
	if _, bad := p.source.AnswerFrom(r, who, id, in); bad != nil {
		if bad.Status == http.StatusNotFound || bad.Status == http.StatusConflict {
			return answered{err: noQuestion(bad)}
		}
		v.Failed, v.Problem = true, bad.Error()
		if v.Form != nil {
			v.Problem = reportTo(v.Form, bad, "/content")
		}
		return answered{page: v, code: bad.Status}
	}
	if v.Kind == "confirmation" && do == "accept" {
		return answered{done: "The call is confirmed."}
	}
	return answered{done: answers[do]}
}
