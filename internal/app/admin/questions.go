package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/relay/questions"
)

// Questions are what waits for a person in a project, because clients can't show it.
type Questions struct {
	Mode      string          `json:"mode" enum:"off,console" doc:"the setting questions; off means that no further questions arrive"`
	Questions []QuestionEntry `json:"questions" doc:"the questions that wait, oldest first: all for an operator, and those about their own calls for anybody else"`
	Missing   []Missing       `json:"missing,omitempty" doc:"the other replicas that have not said what waits there; left out if all have, or for a process alone"`
}

// QuestionEntry is a question in the list.
type QuestionEntry struct {
	ID      string    `json:"id" doc:"the question's id; in paths, its first 8 characters suffice"`
	Kind    string    `json:"kind" enum:"confirmation,form,link" doc:"confirmation: a rule wants a person to agree to a call; form and link: a server asks, and wants a form filled in or a page opened"`
	Server  string    `json:"server" doc:"the server that asks, or that shall get the call"`
	Item    string    `json:"item,omitempty" doc:"the server's own name of the tool or prompt that was called, or the URI of the resource; left out if it isn't known"`
	Client  string    `json:"client,omitempty" doc:"what the client calls itself; left out if it doesn't say"`
	Who     string    `json:"who" doc:"whose call waits: the name of a person or a key, or local"`
	Mine    bool      `json:"mine" doc:"whether it's yours"`
	Replica string    `json:"replica,omitempty" doc:"the name of the replica that has the call; left out for a process alone"`
	Call    uint64    `json:"call" doc:"the call's number, as in calls"`
	Message string    `json:"message" doc:"the question; at most 1 KiB in lists, and 16 KiB otherwise"`
	Since   time.Time `json:"since" doc:"when it was asked"`
	Until   time.Time `json:"until" doc:"when its time is up, and the call goes on without an answer"`
}

// CallID returns the ID of the call; see Call.ID.
func (q QuestionEntry) CallID() string { return Call{Replica: q.Replica, Number: q.Call}.ID() }

// QuestionDetails is a question with everything that an answer needs.
type QuestionDetails struct {
	QuestionEntry
	URL    string          `json:"url,omitempty" doc:"the page that the person should open; left out if there is none"`
	Schema json.RawMessage `json:"schema,omitempty" doc:"the JSON Schema of the form; left out if there is none"`
}

// QuestionAnswer answers a question.
type QuestionAnswer struct {
	Action  string          `json:"action" enum:"accept,decline,cancel" doc:"accept: the person agrees, has filled in the form, or has opened the page; decline: they don't want to; cancel: they don't say"`
	Content json.RawMessage `json:"content,omitempty" doc:"an object with the fields of the form; only with accept, and only for a form"`
}

// QuestionAnswered is the response to an answer.
type QuestionAnswered struct {
	ID     string `json:"id" doc:"the question's id"`
	Action string `json:"action" doc:"the answer with which the call goes on"`
}

var questionRoutes = []route{
	{
		method: http.MethodGet, path: "/questions", least: identity.Viewer, people: true, name: "questions", summary: "What waits for a person, because clients can't show it",
		answer: Questions{}, read: func(a *API, r *http.Request) (any, *Problem) { return result(a.ReadQuestions(r)) },
	},
	{
		method: http.MethodGet, path: "/questions/{id}", least: identity.Viewer, people: true, name: "question", summary: "A question that waits for a person, with its form or its link",
		answer: QuestionDetails{}, problems: []int{404, 409}, read: func(a *API, r *http.Request) (any, *Problem) { return result(a.ReadQuestion(r, r.PathValue("id"))) },
	},
	{
		method: http.MethodPost, path: "/questions/{id}/answer", least: identity.Viewer, people: true, name: "answerQuestion", summary: "Answer a question, so that its call goes on",
		body: QuestionAnswer{}, answer: QuestionAnswered{}, problems: []int{400, 404, 409, 413, 415, 422},
		read: withBody(maxRunBody, func(a *API, r *http.Request, q QuestionAnswer) (QuestionAnswered, *Problem) {
			return a.AnswerQuestion(r, r.PathValue("id"), q)
		}),
	},
}

// maxQuestionInList is the maximum size in bytes of a message in a list.
const maxQuestionInList = 1 << 10

// questionAPI shows the questions of a project, and answers them.
type questionAPI struct {
	house
	fleet *fleet
}

// asker is who sends a request about questions.
type asker struct {
	*identity.Principal
	operator bool // of the project
}

func (a *questionAPI) asker(who *identity.Principal) asker {
	return asker{who, a.access.May(who, a.project.name(), identity.Operator) == nil}
}

// owns reports whether a question is about a call of this person.
func (k asker) owns(q *questions.Question) bool {
	return k.Principal != nil && q.Who != nil && q.Who.Subject != "" && q.Who.Subject == k.Subject
}

// ReadQuestions answers GET /questions.
func (a *questionAPI) ReadQuestions(r *http.Request) (Questions, *Problem) {
	who, bad := a.visitor(r)
	if bad != nil {
		return Questions{}, bad
	}
	return a.QuestionsFrom(r, who), nil
}

// QuestionsFrom returns what waits for who, who has a role in the project and has sent r, at all replicas. If r is nil,
// the others aren't asked.
func (a *questionAPI) QuestionsFrom(r *http.Request, who *identity.Principal) Questions {
	out := a.QuestionsFor(who)
	out.Missing = gather(a.fleet, r, a.fleet.path("/questions", nil), func(_ Other, x *Questions) { out.Questions = append(out.Questions, x.Questions...) })
	slices.SortStableFunc(out.Questions, func(x, y QuestionEntry) int { return x.Since.Compare(y.Since) })
	return out
}

// QuestionsFor returns what waits in this process for somebody who has a role in the project.
func (a *questionAPI) QuestionsFor(who *identity.Principal) Questions {
	k := a.asker(who)
	out := Questions{Mode: "off", Questions: []QuestionEntry{}}
	if s := a.project.Current(); s != nil && s.Questions {
		out.Mode = "console"
	}
	for _, q := range a.project.Questions().All() {
		if k.operator || k.owns(&q) {
			out.Questions = append(out.Questions, a.entry(k, &q, maxQuestionInList))
		}
	}
	return out
}

// OwnQuestions returns how many of a person's own calls wait for an answer.
func (a *questionAPI) OwnQuestions(who *identity.Principal) int {
	if who == nil || who.Subject == "" {
		return 0
	}
	return a.project.Questions().WaitingOf(who.Subject)
}

// entry describes a question. Nothing of it has a secret of the configuration.
func (a *questionAPI) entry(k asker, q *questions.Question, most int) QuestionEntry {
	clean := a.project.Clean(q.Server)
	text := func(s string, most int) string { return excerpt.Lines(cleanHead(s, clean), most) }
	return QuestionEntry{
		ID: q.ID, Kind: q.Kind(), Server: q.Server, Item: text(q.Item, maxTitle), Client: text(q.Client, maxTitle), Who: a.whose(q.Who), Mine: k.owns(q),
		Replica: a.fleet.self(), Call: q.Call, Message: text(q.Message, most), Since: q.Since.UTC(), Until: q.Until.UTC(),
	}
}

// whose returns what people call a principal.
func (a *questionAPI) whose(who *identity.Principal) string {
	switch {
	case who == nil:
		return "somebody"
	case who.Name != "" || a.roster == nil:
		return cmp.Or(who.Name, who.Subject)
	}
	return a.nameOf(who.Subject)
}

// find returns a question that waits and that k may see. For others it's as if there were none.
func (a *questionAPI) find(k asker, id string) (questions.Question, *Problem) {
	q, how, ok := a.project.Questions().Find(id)
	switch {
	case !ok || !k.operator && !k.owns(&q):
		return q, &Problem{Type: "no-such-question", Title: "No such question", Status: http.StatusNotFound, Detail: "No question with this id waits for you."}
	case how != nil && how.Action != "":
		return q, conflict("answered", "The question has been answered", "It was answered by "+a.whose(how.By)+" at "+how.At.UTC().Format("15:04:05")+" UTC, with "+how.Action+". The first answer counts, and the call went on with it.")
	case how != nil:
		return q, conflict("no-longer-asked", "The question waits no more", "The question "+how.Why+".")
	}
	return q, nil
}

// ReadQuestion answers GET /questions/{id}.
func (a *questionAPI) ReadQuestion(r *http.Request, id string) (QuestionDetails, *Problem) {
	who, bad := a.visitor(r)
	if bad != nil {
		return QuestionDetails{}, bad
	}
	return a.QuestionFrom(r, who, id)
}

// QuestionFrom returns a question for who, who has a role in the project and has sent r. If this process doesn't have
// it, the other replicas are asked, unless r is nil.
func (a *questionAPI) QuestionFrom(r *http.Request, who *identity.Principal, id string) (QuestionDetails, *Problem) {
	k := a.asker(who)
	q, bad := a.find(k, id)
	switch {
	case bad != nil && bad.Status == http.StatusNotFound:
		return found[QuestionDetails](a.fleet, r, http.MethodGet, a.fleet.path("/questions/"+url.PathEscape(id), nil), nil, bad)
	case bad != nil:
		return QuestionDetails{}, bad
	}
	out := QuestionDetails{QuestionEntry: a.entry(k, &q, questions.MostMessage), URL: q.URL}
	if q.Schema != nil {
		out.Schema = bytes.Clone(cleanJSON(a.project.Clean(q.Server), q.Schema))
	}
	return out, nil
}

// AnswerQuestion answers POST /questions/{id}/answer. The server gets the content byte for byte.
func (a *questionAPI) AnswerQuestion(r *http.Request, id string, in QuestionAnswer) (QuestionAnswered, *Problem) {
	who, bad := a.visitor(r)
	if bad != nil {
		return QuestionAnswered{}, bad
	}
	return a.AnswerFrom(r, who, id, in)
}

// AnswerFrom lets who answer a question, who has a role in the project and has sent r. If another replica has it, the
// answer goes there.
func (a *questionAPI) AnswerFrom(r *http.Request, who *identity.Principal, id string, in QuestionAnswer) (QuestionAnswered, *Problem) {
	k := a.asker(who)
	q, bad := a.find(k, id)
	switch {
	case bad != nil && bad.Status == http.StatusNotFound:
		body := jsonrpc.AppendQuote([]byte(`{"action":`), in.Action)
		if len(in.Content) > 0 {
			body = append(append(body, `,"content":`...), in.Content...) // byte for byte
		}
		body = append(body, '}')
		return found[QuestionAnswered](a.fleet, r, http.MethodPost, a.fleet.path("/questions/"+url.PathEscape(id)+"/answer", nil), body, bad)
	case bad != nil:
		return QuestionAnswered{}, bad
	case q.Who != nil && k.Principal != identity.Local && q.Who.Seat == k.Seat:
		// A program that has this credential could agree to its own calls.
		return QuestionAnswered{}, &Problem{Type: "own-call", Title: "This credential has made the call", Status: http.StatusForbidden, Detail: "A question isn't answered with the credential of the call that waits for it. Answer it in your session of the console, or let an operator answer it."}
	}
	result, bad := resultOf(&q, in)
	if bad != nil {
		return QuestionAnswered{}, bad
	}
	if !a.project.Questions().Answer(q.ID, questions.Answer{Action: in.Action, By: k.Principal, Result: result}) {
		if _, bad = a.find(k, q.ID); bad == nil {
			bad = conflict("no-longer-asked", "The question waits no more", "The question has ended in this moment.")
		}
		return QuestionAnswered{}, bad
	}
	return QuestionAnswered{ID: q.ID, Action: in.Action}, nil
}

// resultOf returns an answer as an ElicitResult, if it's one that the question wants.
func resultOf(q *questions.Question, in QuestionAnswer) ([]byte, *Problem) {
	if !slices.Contains([]string{"accept", "decline", "cancel"}, in.Action) {
		return nil, badBody(`"action" must be "accept", "decline" or "cancel".`)
	}
	result := jsonrpc.AppendQuote([]byte(`{"action":`), in.Action)
	form := q.Kind() == "form" && in.Action == "accept"
	switch {
	case !form && len(in.Content) > 0:
		return nil, badBody(`"content" is only for a form whose "action" is "accept".`)
	case !form:
		return append(result, '}'), nil
	case jsonrpc.Valid(in.Content, jsonrpc.Limits{Bytes: maxRunBody}) != nil || jsonrpc.KindOf(in.Content, jsonrpc.Whole(in.Content)) != '{':
		return nil, badBody(`"content" must be a JSON object with the fields of the form.`)
	}
	if bad := unfit(q.Schema, in.Content, "/content", "content", "The content does not fit the schema of the form"); bad != nil {
		return nil, bad
	}
	return append(append(append(result, `,"content":`...), in.Content...), '}'), nil
}
