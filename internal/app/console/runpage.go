package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/form"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// mostRunLines is the maximum number of log lines that the page of a run shows.
const mostRunLines = 60

// runRow shows a run as a row of a table.
type runRow struct {
	admin.Run
	Class, Word string
	Path        string
}

// runRowOf returns the row that shows the run x.
func runRowOf(x admin.Run) runRow {
	row := runRow{Run: x, Path: pathOf("runs", x.ID), Class: "bad", Word: "failed"}
	switch x.State {
	case "running":
		row.Class, row.Word = "busy", "running"
	case "waiting":
		row.Class, row.Word = "held", "waiting for user input"
	case "succeeded":
		row.Class, row.Word = "ok", "succeeded"
	case "tool_error":
		row.Class, row.Word = "warn", "tool error"
	case "cancelled":
		row.Class, row.Word = "off", "cancelled"
	case "timeout":
		row.Word = "timeout"
	}
	return row
}

// Took returns how long the run took. If the run has not ended, Took returns how long it has been
// running.
func (r runRow) Took() string { return spanText(time.Duration(r.Seconds * float64(time.Second))) }

// Over reports whether the run has ended.
func (r runRow) Over() bool { return r.Ended != nil }

// runView has the values of the page that shows one run.
type runView struct {
	runRow
	What      string    // "tool", "prompt" or "resource"
	Subject   string    // the path of the page with the tool, or with all prompts or resources of the server
	Again     string    // the path of the form in the playground, with the values of this run
	Place     string    // at which endpoint the client is
	Abilities string    // what the client can do
	Elsewhere string    // the path of a question that waits for a person elsewhere; "" for none
	Wires     *callView // the messages on both wires; nil if they aren't recorded
	Heard     []admin.RunMessage
	Bar       bool // the server has sent a total with its progress, so the page shows a bar
	Part      float64
	Steps     string // the progress in words
	Questions []*questionView
	Lines     []runLine
	LineKey   string
	Call      *callRow // the call that Dragoman recorded for the run; nil if Dragoman no longer has the call
	Result    *resultView
	Sent      message // the arguments
	Snippets  []snippet
	Number    string // of the form that keeps the run; see forms
}

// runLine is a log message from the server, or a line of its stderr, during a run.
type runLine struct {
	Time   time.Time
	Level  string
	From   string // "stderr", or the name of the server's logger
	Text   string
	stderr bool
}

// questionView is a question that the server asked during a run, with a form for the answer.
type questionView struct {
	admin.Question
	Form    *form.Form // nil if the question asks the user to visit a URL
	Host    string     // the host of the URL to visit; "" if the URL is not an HTTP URL
	Odd     string     // a warning about the URL to visit; "" for none
	Problem string
	Failed  bool // the answer was not valid, or Dragoman could not send it to the server
}

// runPages are the page of a run, and the files with its result.
type runPages struct {
	frame  *frame
	source interface {
		FindRun(id string) (admin.Run, *admin.Problem)
		CancelRun(id string) (admin.Run, *admin.Problem)
		AnswerRun(ctx context.Context, by admin.RunBy, id string, answer admin.RunAnswer) (admin.Run, *admin.Problem)
		Logs(server string, last int) []admin.LogRecord
		CallsOf(admin.CallQuery) admin.Calls
		StoryOf(number uint64) (s admin.Story, ok bool)
		QuestionsFor(who *identity.Principal) admin.Questions
	}
}

func (p *runPages) register(f *frame) {
	f.add(p.page())
	f.handle("POST /runs/{id}", identity.Operator, p.changeRun)
	f.handle("GET /runs/{id}/parts/{part}", identity.Viewer, p.servePart)
	f.handle("GET /runs/{id}/result.json", identity.Viewer, p.serveResult)
}

func (p *runPages) page() Page {
	return Page{Path: "/runs/{id}", Least: identity.Viewer, Personal: true, Template: "run.html", View: func(r *http.Request) (*View, error) { return p.view(r, nil, 0) }}
}

// findRun returns the run whose ID is in the path of r.
func (p *runPages) findRun(r *http.Request) (x admin.Run, err error) {
	x, bad := p.source.FindRun(r.PathValue("id"))
	if bad != nil {
		return x, notFound("No run has the id "+excerpt.Quote(r.PathValue("id"), 64), "Dragoman keeps the last 100 runs, and a restart clears them.", Crumb{"Show all tools", pathOf("tools")})
	}
	return x, nil
}

// view returns the page of the run in the path of r. If failed is not nil, it is a question
// whose answer was not sent, with the form as the user has filled it in. status is the HTTP status
// of the page.
func (p *runPages) view(r *http.Request, failed *questionView, status int) (*View, error) {
	x, err := p.findRun(r)
	if err != nil {
		return nil, err
	}
	x.Item = cmp.Or(x.Item, x.Name)
	v := &runView{runRow: runRowOf(x), What: "tool"}
	crumbs := []Crumb{{"Playground", pathOf("playground")}}
	if x.Server != "" {
		crumbs = []Crumb{{"Servers", pathOf("servers")}, {x.Server, pathOf("servers", x.Server)}}
	}
	v.Again = pathOf("playground") + "?run=" + url.QueryEscape(x.ID) + "#run"
	v.client()
	switch {
	case x.Method == mcp.MethodGetPrompt:
		v.What = "prompt"
		if x.Server != "" {
			v.Subject = pathOf("servers", x.Server, "prompts")
			crumbs = append(crumbs, Crumb{"Prompts", v.Subject})
		}
	case x.Method == mcp.MethodReadResource:
		v.What = "resource"
		if x.Server != "" {
			v.Subject = pathOf("servers", x.Server, "resources")
			crumbs = append(crumbs, Crumb{"Resources", v.Subject})
		}
	case x.Server != "":
		v.Subject = pathOf("servers", x.Server, "tools", x.Item)
		crumbs = append(crumbs, Crumb{x.Item, v.Subject})
	}
	v.progress()
	for _, q := range x.Questions {
		if failed != nil && failed.ID == q.ID {
			v.Questions = append(v.Questions, failed)
			continue
		}
		v.Questions = append(v.Questions, questionOf(q))
	}
	v.lines(p.source.Logs(x.Server, 200))
	if all := p.source.CallsOf(admin.CallQuery{Text: x.TraceID, Limit: 1}).Calls; x.TraceID != "" && len(all) > 0 {
		v.Call = &callRows(all)[0]
		p.wires(r, v)
	}
	if len(x.Result) > 0 || len(x.Omitted) > 0 {
		v.Result = resultOf(&x, r.URL.Query().Get("all") != "")
	}
	if len(x.Arguments) > 0 {
		v.Sent = messageOf(formatted(x.Arguments), r.URL.Query().Get("all") != "", "?all=1#sent")
		v.Sent.Size = bytesText(len(x.Arguments))
	}
	v.repeat(admin.Base(r) + ownPath(r, ""))
	return &View{Title: "Run of " + excerpt.Line(x.Name, 80), Crumbs: crumbs, Data: v, Moving: !v.Over(), Status: status}, nil
}

// client sets what the page says of the run's client.
func (v *runView) client() {
	v.Place = map[string]string{admin.AtProject: "the endpoint of all servers", admin.AtSearch: "the endpoint for search"}[v.Endpoint]
	v.Place = cmp.Or(v.Place, "the endpoint of this server")
	var can []string
	for _, x := range v.Capabilities {
		can = append(can, map[string]string{admin.CanForm: "forms", admin.CanURL: "links", admin.CanSampling: "sampling", admin.CanRoots: "folders"}[x])
	}
	v.Abilities, v.Heard = strings.Join(can, ", "), v.Messages
}

// wires sets the messages of the run's call, and the question for which it waits elsewhere.
func (p *runPages) wires(r *http.Request, v *runView) {
	if s, ok := p.source.StoryOf(v.Call.Number); ok && len(s.Messages) > 0 {
		v.Wires = &callView{callRow: *v.Call, Story: s}
		v.Wires.legs()
	}
	if v.Over() {
		return
	}
	for _, q := range p.source.QuestionsFor(stateOf(r).viewer.who).Questions {
		if q.Call == v.Call.Number {
			v.Elsewhere = pathOf("questions", q.ID)
		}
	}
}

// WireKey returns text that changes when there is another message.
func (v *runView) WireKey() string {
	key := fmt.Sprint(v.Over(), len(v.Heard), v.Elsewhere)
	if v.Wires != nil {
		key += " " + v.Wires.Key()
	}
	return key
}

// formatted returns a JSON text with line breaks and indentation.
func formatted(text []byte) string { return layoutOf(text, showFormatted).part(0, len(text)) }

// QuestionKey returns text that changes when the server asks or withdraws a question, or the user
// answers a question.
func (v *runView) QuestionKey() (key string) {
	for _, q := range v.Questions {
		key += q.ID + " "
	}
	return key
}

// Errors returns what is wrong with the answer in the form.
func (q *questionView) Errors() []form.Error {
	if q.Form == nil {
		return nil
	}
	return q.Form.Errors
}

// progress sets Steps, Bar and Part from the progress that the server last reported.
func (v *runView) progress() {
	p := v.Progress
	if p == nil {
		return
	}
	done := amount(p.Progress)
	if v.Steps = done; p.Total != nil && *p.Total > 0 {
		v.Bar, v.Part = true, p.Progress / *p.Total
		v.Steps = done + " of " + amount(*p.Total)
	}
	if p.Message != "" {
		v.Steps += ": " + excerpt.Line(p.Message, 160)
	}
}

func amount(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Key returns text that changes when the state of the run changes, or when the page gets another
// section.
func (v *runView) Key() string { return fmt.Sprint(v.State, v.Bar, v.Call != nil) }

// lines sets v.Lines to the newest log messages and stderr lines from the server during the run.
// records are log records about the server.
func (v *runView) lines(records []admin.LogRecord) {
	for _, l := range v.Logs {
		v.Lines = append(v.Lines, runLine{Time: l.Time, Level: logLevel(l.Level), From: l.Logger, Text: l.Text})
	}
	for _, l := range records {
		if l.Source == admin.SourceStderr && !l.Time.Before(v.Started) && (v.Ended == nil || !l.Time.After(*v.Ended)) {
			v.Lines = append(v.Lines, runLine{Time: l.Time, From: "stderr", Text: l.Text, stderr: true})
		}
	}
	slices.SortStableFunc(v.Lines, func(a, b runLine) int { return a.Time.Compare(b.Time) })
	v.Lines = v.Lines[max(0, len(v.Lines)-mostRunLines):]
	if n := len(v.Lines); n > 0 {
		v.LineKey = fmt.Sprint(n, v.Lines[n-1].Time.UnixNano(), v.Lines[n-1].Text)
	}
}

// logLevel converts an MCP log level to the CSS class for it.
func logLevel(level string) string {
	switch level {
	case "debug", "info", "notice":
		return "info"
	case "warning":
		return "warn"
	case "error", "critical", "alert", "emergency":
		return "error"
	}
	return "info"
}

// questionOf returns a question with an empty form for the answer.
func questionOf(q admin.Question) *questionView {
	v := &questionView{Question: q}
	if q.URL == "" {
		v.Form = form.Make(q.Schema, form.Options{ID: q.ID + "-", Defaults: true, Titles: true})
		return v
	}
	v.Host, v.Odd = linkOf(q.URL)
	return v
}

// linkOf returns the host of an address that a server wants a person to open, or "" if it has none, and a warning, or
// "" if it's an ordinary address.
func linkOf(text string) (host, odd string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return "", "This is not an ordinary web address. Do not open it if you do not know what it does."
	case u.User != nil:
		odd = "The address has a name before the host. The text before @ is not the site."
	case strings.Contains("."+strings.ToLower(u.Hostname()), ".xn--") || strings.ContainsFunc(u.Hostname(), func(r rune) bool { return r > 0x7e }):
		odd = "The host has letters of other alphabets, which can look like those of another site."
	case mcp.PlaceOf(u) != "":
		odd = "The page is on " + mcp.PlaceOf(u) + "."
	case u.Scheme == "http":
		odd = "The connection to this site is not encrypted."
	}
	return u.Hostname(), odd
}

// repeat sets how the run is repeated elsewhere; see [admin.Base].
func (v *runView) repeat(base string) {
	x := admin.Example{Endpoint: v.Endpoint, Server: v.Server, Method: v.Method, Use: v.Run.Name, Revision: v.Revision, Arguments: v.Arguments}
	server, q := x.Request()
	v.Snippets, v.Number = snippetsOf(base, server, &q), formNumber()
}

// changeRun handles the forms on the page of a run: the button that cancels the run, and the
// answers to questions.
func (p *runPages) changeRun(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	x, err := p.findRun(r)
	if err != nil {
		p.frame.fail(w, r, err)
		return
	}
	text := "The question is no longer open."
	i := slices.IndexFunc(x.Questions, func(q admin.Question) bool { return q.ID == r.PostForm.Get("question") })
	switch {
	case r.PostForm.Get("do") == "stop":
		text = "The run is cancelled."
		if _, bad := p.source.CancelRun(x.ID); bad != nil {
			text = bad.Error()
		}
	case i >= 0:
		p.answer(w, r, x.ID, questionOf(x.Questions[i]))
		return
	}
	say(w, text)
	http.Redirect(w, r, pathOf("runs", x.ID), http.StatusSeeOther)
}

// answer sends the answer in the form to the question v of a run. If it cannot be sent, answer shows
// the page again, with the form as the user has filled it in.
func (p *runPages) answer(w http.ResponseWriter, r *http.Request, run string, v *questionView) {
	do := r.PostForm.Get("do")
	answer, status := admin.RunAnswer{ID: v.ID, Action: do}, http.StatusUnprocessableEntity
	ok, changed := true, false
	if v.Form != nil && do != "decline" && do != "cancel" {
		var content []byte
		content, ok = v.Form.Read(r.PostForm)
		v.Form, changed = switchForm(v.Form, do, content, ok, func() *form.Form {
			return form.Make(v.Schema, form.Options{ID: v.ID + "-", Titles: true})
		})
		answer.Content = content
	}
	switch {
	case changed && ok:
		status = http.StatusOK
	case ok:
		_, bad := p.source.AnswerRun(r.Context(), admin.ByConsole(r, stateOf(r).viewer.who), run, answer)
		if bad == nil {
			say(w, cmp.Or(map[string]string{"decline": "The question was declined.", "cancel": "The question was cancelled."}[do], "The answer was sent."))
			http.Redirect(w, r, pathOf("runs", run), http.StatusSeeOther)
			return
		}
		if v.Problem, status = bad.Error(), bad.Status; v.Form != nil {
			v.Problem = reportTo(v.Form, bad, "/content")
		}
		v.Failed = true
	default:
		v.Failed = true
		if !changed {
			reportRest(v.Form, v.Schema, answer.Content)
		}
	}
	p.frame.again(w, r, p.page(), func(r *http.Request) (*View, error) { return p.view(r, v, status) })
}
