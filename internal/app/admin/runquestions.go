package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// The kinds of a Question.
const (
	QuestionForm     = "form"     // an elicitation with a form
	QuestionLink     = "link"     // an elicitation with a page to visit
	QuestionSampling = "sampling" // what the client's model shall reply to
	QuestionRoots    = "roots"    // which folders the client has
)

// Question is a request from a server that a person answers in place of the client: a form, a page to visit, the reply
// of a model, or a list of folders.
type Question struct {
	Kind    string          `json:"kind" enum:"form,link,sampling,roots" doc:"form and link: an elicitation; sampling: the server wants the client's model to reply; roots: it asks which folders the client has opened"`
	ID      string          `json:"id" doc:"the question's id within the run"`
	Message string          `json:"message" doc:"the question's text; at most 4 KiB"`
	Schema  json.RawMessage `json:"schema,omitempty" doc:"the JSON Schema of the answer's content; left out if the user should visit a page"`
	URL     string          `json:"url,omitempty" doc:"the URL of the page that the user should visit; left out if the question has a form"`
	Since   time.Time       `json:"since" doc:"when the question arrived"`
}

// RunAnswer answers a question.
type RunAnswer struct {
	ID      string          `json:"id" doc:"the question's id"`
	Action  string          `json:"action" enum:"accept,decline,cancel" doc:"accept: content answers the form, or the user agrees to visit the page; decline: the user refuses; cancel: the user doesn't answer"`
	Content json.RawMessage `json:"content,omitempty" doc:"an object with the fields of the form; only with accept"`
}

// runQuestion is a question that has not been answered. id is the id of the server's request. taken says that somebody
// is answering it; the run's mutex guards it.
type runQuestion struct {
	Question
	id    jsonrpc.ID
	taken bool
}

// These are the limits of cleanHead.
const (
	maxCleaned = 64 << 10 // bytes of a text in which cleanHead masks secrets
	cutSecret  = 8 << 10  // bytes that cleanHead omits at the end of a longer text
)

// cleanHead returns the first 64 KiB of a text with the secrets masked. If the text is longer,
// cleanHead also omits the last 8 KiB of this result: a secret at its end may have been cut off,
// and the function clean may not recognise a part of a secret.
func cleanHead(text string, clean func(string) string) string {
	if len(text) <= maxCleaned {
		return clean(text)
	}
	head := clean(text[:maxCleaned])
	return head[:max(0, len(head)-cutSecret)] + "…"
}

// hear handles a notification or a request from the server.
func (x *run) hear(m *jsonrpc.Message, clean func(string) string) {
	text := func(key string, limit int) string {
		s, _ := jsonrpc.Text(m.Raw, m.Param(key))
		return excerpt.Lines(cleanHead(s, clean), limit)
	}
	number := func(key string) *float64 {
		f, err := strconv.ParseFloat(string(m.Param(key).Of(m.Raw)), 64)
		if err != nil {
			return nil
		}
		return &f
	}
	switch {
	case m.Kind == jsonrpc.Request:
		x.ask(m, clean)
	case m.Method == mcp.NoteProgress:
		p := Progress{Total: number("total"), Message: text("message", maxTitle)}
		if n := number("progress"); n != nil {
			p.Progress = *n
		}
		x.mu.Lock()
		x.show.Progress = &p
		x.mu.Unlock()
		x.publish(EventProgress, p)
	case m.Method == mcp.NoteMessage:
		l := RunLog{Time: time.Now().UTC(), Level: text("level", maxName), Logger: text("logger", maxName), Text: text("data", maxRunText)}
		if data := m.Param("data"); l.Text == "" && !data.IsZero() {
			l.Text = excerpt.Lines(cleanHead(string(data.Of(m.Raw)), func(s string) string { return excerpt.MaskJSON(s, clean) }), maxRunText)
		}
		x.keepLog(l)
		x.publish(EventLog, l)
	case m.Method == mcp.NoteCancelled:
		// The sender no longer waits for the answer to this question.
		x.settle(func(q *runQuestion) bool { return string(q.id) == string(m.Param("requestId").Of(m.Raw)) })
	}
}

// ask handles a request from the server. It accepts those that a person can answer.
func (x *run) ask(m *jsonrpc.Message, clean func(string) string) {
	q := &runQuestion{id: m.ID, Question: requestOf(m, clean)}
	x.mu.Lock()
	v := x.visitor
	refused := q.Kind == "" || len(x.questions) >= mostQuestions || x.show.Ended != nil
	if !refused {
		x.asked++
		q.ID = "q" + strconv.Itoa(x.asked)
		x.questions = append(x.questions, q)
		x.questionsLocked()
	}
	x.mu.Unlock()
	if refused {
		if v != nil {
			v.Refuse(context.Background(), m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the console cannot answer requests of this kind"})
		}
		return
	}
	x.publish(EventQuestion, q.Question)
}

// questionsLocked updates show.Questions and show.State after a change of x.questions.
func (x *run) questionsLocked() {
	x.show.Questions = nil
	for _, q := range x.questions {
		x.show.Questions = append(x.show.Questions, q.Question)
	}
	if x.show.Ended == nil {
		x.show.State = runRunning
		if len(x.questions) > 0 {
			x.show.State = runWaiting
		}
	}
}

// settle removes the open questions for which match is true. It publishes and returns the last
// question that it has removed, or returns nil.
func (x *run) settle(match func(*runQuestion) bool) (found *runQuestion) {
	x.mu.Lock()
	x.questions = slices.DeleteFunc(x.questions, func(q *runQuestion) bool {
		if match(q) {
			found = q
			return true
		}
		return false
	})
	x.questionsLocked()
	x.mu.Unlock()
	if found != nil {
		x.publish(EventAnswered, found.Question)
	}
	return found
}

// AnswerRun answers an open question of a run for by, as POST /api/v1/runs/{id}/answers does. If somebody else has
// started the run, an act names who has answered. The server gets the content byte for byte. The returned problem is
// nil after success.
func (a *runAPI) AnswerRun(ctx context.Context, by RunBy, id string, in RunAnswer) (Run, *Problem) {
	if by.Who == nil {
		return Run{}, unknownSender()
	}
	x, bad := a.runs.find(id)
	if bad != nil {
		return Run{}, bad
	}
	if !slices.Contains([]string{"accept", "decline", "cancel"}, in.Action) {
		return Run{}, badBody(`"action" must be "accept", "decline" or "cancel".`)
	}
	if in.Action != "accept" && len(in.Content) > 0 {
		return Run{}, badBody(`"content" is allowed only if "action" is "accept".`)
	}
	question, v := x.take(in.ID)
	defer x.leave(question)
	if question == nil || v == nil {
		return Run{}, &Problem{Type: "no-such-question", Title: "The question is no longer open", Status: http.StatusConflict, Detail: "The question was answered, the server has withdrawn it, or the run has ended."}
	}
	if in.Action == "accept" && question.Kind != QuestionLink {
		if jsonrpc.Valid(in.Content, jsonrpc.Limits{Bytes: maxRunBody}) != nil || jsonrpc.KindOf(in.Content, jsonrpc.Whole(in.Content)) != '{' {
			return Run{}, badBody(`"content" must be a JSON object with the fields of the form.`)
		}
		if bad := unfit(question.Schema, in.Content, "/content", "content", "The content does not fit the schema of the form"); bad != nil {
			return Run{}, bad
		}
	}
	if bad := a.answeredBy(ctx, by, x, in.Action); bad != nil {
		return Run{}, bad
	}
	if x.settle(func(q *runQuestion) bool { return q == question }) == nil {
		return Run{}, &Problem{Type: "no-such-question", Title: "The question is no longer open", Status: http.StatusConflict, Detail: "Another answer to the question came first."}
	}
	if result := resultFor(&question.Question, in.Action, in.Content); result != nil {
		v.Answer(ctx, question.id, result)
	} else {
		v.Refuse(ctx, question.id, refusal(&question.Question))
	}
	return x.snapshot(false), nil
}

// take returns an open question that nobody else is answering, and the client that has to answer it, or nil.
func (x *run) take(id string) (*runQuestion, *runtime.Visitor) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, q := range x.questions {
		if q.ID == id && !q.taken {
			q.taken = true
			return q, x.visitor
		}
	}
	return nil, nil
}

// leave lets others answer a question, if it's still open.
func (x *run) leave(q *runQuestion) {
	if q != nil {
		x.mu.Lock()
		q.taken = false
		x.mu.Unlock()
	}
}

// answeredBy makes an act of an answer that isn't from whoever has started the run: the audit has the call under their
// name. What can't be recorded doesn't happen.
func (a *runAPI) answeredBy(ctx context.Context, by RunBy, x *run, action string) *Problem {
	starter := x.by.Who
	if by.Who.Key() == starter.Key() {
		return nil
	}
	if a.safe == nil {
		return conflict("no-store", "Nothing is stored here", "So only whoever has started the run may answer, since an answer of somebody else has to be recorded.")
	}
	err := a.safe.Store().Write(ctx, by.Who.Subject, func(t *store.Tx) error {
		return t.Noted("answered", "run", a.project.name()+"/"+x.show.ID, a.project.name(), map[string]any{
			"server": x.show.Server, "item": x.show.Name, "trace": x.show.TraceID, "answer": action, "startedBy": starter.Subject,
		})
	})
	if err != nil {
		return &Problem{Type: "store", Title: "The answer can't be recorded", Status: http.StatusServiceUnavailable, Detail: "So the question stays open. " + sentence(excerpt.Line(err.Error(), maxTitle), "")}
	}
	return nil
}
