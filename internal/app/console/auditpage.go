package console

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// exportWords are what somebody types who takes the audit away; see sure.
const exportWords = "export the record"

// auditPages are the list of acts and calls, and the page of an act. They only read.
type auditPages struct {
	frame  *frame
	source interface {
		FindAudit(context.Context, admin.AuditQuery) (admin.AuditEntries, *admin.Problem)
		FindAct(ctx context.Context, seq int64, project string) (admin.AuditEntry, *admin.Problem)
		CheckAudit(begin bool) admin.AuditCheck
		ExportAudit(context.Context, http.ResponseWriter, admin.AuditQuery) *admin.Problem
	}
}

func (p *auditPages) register(f *frame) {
	f.add(p.listPage())
	f.handleSure("POST /audit", identity.Operator, exportWords, p.export)
	f.add(Page{Path: "/audit/{sequence}", Least: identity.Operator, Template: "act.html", Sheet: "audit.css", View: p.act})
}

func (p *auditPages) listPage() Page {
	return Page{Path: "/audit", Least: identity.Operator, Template: "audit.html", Sheet: "audit.css", Nav: "Audit", Group: systems, Key: "A", View: p.list}
}

// auditList has the values of the page that lists acts and calls.
type auditList struct {
	Q                  url.Values
	Who, What, Project string
	Since, Until       string
	Projects           []choice // empty if there's only one that the viewer may see
	All                bool     // the viewer sees all projects
	Rows               []auditRow
	Problem            string // why there are no rows
	Any                bool   // a filter is set
	Older, Newest      string // links; "" for none
	Export             bool   // there is something to export
	Sure               string // see sureWords
	Refused            string // why the export was refused
	Chain              chainState
	Limits             []limitBar
	Calls              string // what is recorded of calls, if that isn't what people expect
}

// auditRow is an act or a call, as a row of the page.
type auditRow struct {
	admin.AuditEntry
	Path        string // of the page of an act
	Class, Word string
	Notes       []string // what else there is to say
	Arguments   string
}

// Label returns what the row is called.
func (r auditRow) Label() string {
	if r.Object == "" {
		return r.What
	}
	return r.What + " " + r.Object
}

// Doer returns who has done it.
func (r auditRow) Doer() string { return cmp.Or(r.Who, r.Subject) }

// scope returns the project that the viewer of a page is limited to, or "".
func scope(r *http.Request) string {
	if may(r, identity.Admin) && projectOf(r) == event.DefaultProject {
		return ""
	}
	return projectOf(r)
}

func (p *auditPages) list(r *http.Request) (*View, error) {
	q, within := r.URL.Query(), scope(r)
	l := &auditList{Q: q, All: within == "", Who: q.Get("who"), What: q.Get("what"), Since: q.Get("since"), Until: q.Get("until")}
	feed := stateOf(r).feed
	l.Chain = chainOf(p.source.CheckAudit(!feed), l.All)
	view := &View{Title: "Audit", Data: l, Moving: l.Chain.Running}
	if feed {
		return view, nil // nothing else of the page changes by itself, and it would have to be read
	}
	l.Calls = recordedCalls(statusOf(r).Audit)
	l.Limits = limitBars(statusOf(r).Limits)
	if l.Project = q.Get("project"); l.All && len(statusOf(r).Projects) > 1 {
		var names []string
		for _, name := range statusOf(r).Projects {
			names = append(names, name, name)
		}
		l.Projects = choices(l.Project, "all projects", names...)
	}
	l.Any = l.Who+l.What+l.Project+l.Since+l.Until != ""
	query, ok := auditQuery(q, within)
	if !ok {
		l.Problem, view.Status = "One of the times can't be read. Write it as 2026-12-24 or 2026-12-24T18:00.", http.StatusBadRequest
		return view, nil
	}
	found, bad := p.source.FindAudit(r.Context(), query)
	if bad != nil {
		l.Problem, view.Status = bad.Title+". "+bad.Detail, bad.Status
		if bad.Status == http.StatusConflict {
			view.Status = 0 // it's no error to have no audit
		}
		return view, nil
	}
	for i := range found.Entries {
		l.Rows = append(l.Rows, auditRowOf(found.Entries[i]))
	}
	if found.Next != "" {
		l.Older = queryWith(q, "before", found.Next)
	}
	if query.Before != "" {
		l.Newest = queryWith(q, "before", "")
	}
	l.Export, l.Sure = true, sureWords(r, exportWords)
	return view, nil
}

// timeOf returns the time that a text of a form means; "" means none.
func timeOf(text string) (at time.Time, ok bool) {
	if text == "" {
		return at, true
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, true
		}
	}
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil
}

// auditQuery returns the query that a form selects, within a project or "" for any. It returns false if one of the times
// can't be read.
func auditQuery(form url.Values, within string) (q admin.AuditQuery, ok bool) {
	q = admin.AuditQuery{Who: form.Get("who"), What: form.Get("what"), Project: cmp.Or(within, form.Get("project")), Before: form.Get("before"), Limit: pageRows}
	var since, until bool
	q.Since, since = timeOf(form.Get("since"))
	q.Until, until = timeOf(form.Get("until"))
	return q, since && until
}

// export saves everything that the form selects, on all pages.
func (p *auditPages) export(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	q, ok := auditQuery(r.PostForm, scope(r))
	q.Before = ""
	refused, status := "", 0
	switch {
	case !ok:
		p.frame.fail(w, r, unreadable(pathOf("audit")))
		return
	case !sure(r, exportWords):
		refused, status = unsure(exportWords), http.StatusForbidden
	default:
		bad := p.source.ExportAudit(r.Context(), w, q)
		if bad == nil {
			return
		}
		refused, status = bad.Title+". "+bad.Detail, bad.Status
	}
	again := r.Clone(r.Context()) // the page has the filter in its address
	again.URL.RawQuery = queryWith(r.PostForm, "sure", "")[1:]
	p.frame.again(w, again, p.listPage(), func(r *http.Request) (*View, error) {
		view, err := p.list(r)
		if err == nil {
			view.Data.(*auditList).Refused, view.Status, view.Stream = refused, status, pathOf("audit")
		}
		return view, err
	})
}

// recordedCalls says what is recorded of calls if they're missing from the page, or some are.
func recordedCalls(a *admin.Audit) string {
	if a == nil {
		return "Calls are not recorded here: only what people change. The setting audit.calls changes that."
	}
	return upper(strings.TrimPrefix(a.Line(), "audit: "))
}

// auditRowOf returns the row of an entry.
func auditRowOf(x admin.AuditEntry) auditRow {
	row := auditRow{AuditEntry: x}
	note := func(name, text string) {
		if text != "" {
			row.Notes = append(row.Notes, name+text)
		}
	}
	switch x.Kind {
	case "act":
		row.Class, row.Word, row.Path = "quiet", "change", pathOf("audit", strconv.FormatInt(x.Seq, 10))
	case "denied":
		row.Class, row.Word = "warn", "denied"
	case "missed":
		row.Class, row.Word = "bad", "missing"
		note("", fmt.Sprintf("%s refused, %s went on, %s more turned away", number(x.Refused), number(x.Lost), number(x.Denied)))
	default:
		row.Class, row.Word = outcomeMark(admin.Call{Outcome: x.Outcome, Cause: x.Cause})
		note("in ", spanText(time.Duration(x.MS*float64(time.Millisecond))))
	}
	note("called ", x.As)
	note("", x.Cause)
	if x.Code != 0 {
		note("error ", strconv.FormatInt(x.Code, 10))
	}
	note("answers: ", x.Answers)
	if len(x.Args) > 0 {
		row.Arguments = compactJSON(x.Args)
	}
	return row
}

func compactJSON(raw []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// chainState is what the page says of both chains.
type chainState struct {
	Class, Word string
	Text        string
	Wrong       []string // what is broken or missing, as sentences
	Notes       []string // what is no failure
	At          time.Time
	Running     bool
}

// Key changes when what the page says does.
func (c chainState) Key() string { return fmt.Sprint(c) }

// chainOf says what a look at both chains has found. all says that the viewer may see all of it.
func chainOf(x admin.AuditCheck, all bool) (c chainState) {
	c.At, c.Running = x.At, x.Running
	switch {
	case x.At.IsZero():
		c.Class, c.Word, c.Text = "busy", "verifying", "Dragoman computes the hashes of all acts and calls again."
		return c
	case x.Problem != nil:
		c.Class, c.Word, c.Text = "warn", "not verified", x.Problem.Title+". "+x.Problem.Detail
		return c
	}
	v := &x.Found
	var lines, files int64
	add := func(to *[]string, format string, args ...any) {
		*to = append(*to, fmt.Sprintf(format, args...))
	}
	if v.Acts.Broken != "" {
		add(&c.Wrong, "Acts: %s.", v.Acts.Broken)
	}
	for _, f := range v.Files {
		lines, files = lines+f.Lines, files+int64(f.Files)
		switch {
		case f.Broken != "":
			add(&c.Wrong, "Calls of %s: %s.", f.Process, f.Broken)
		case f.Torn:
			add(&c.Notes, "The last line of %s is incomplete, as a process leaves it that is killed while it writes.", f.Process)
		}
		if f.Unknown {
			add(&c.Notes, "Nobody can tell who has written files of %s, since they are older than all acts.", f.Process)
		}
	}
	for _, name := range v.Elsewhere {
		add(&c.Notes, "The file %s is not in the folder: it was deleted, or is on another machine.", name)
	}
	if v.Whole {
		c.Class, c.Word = "ok", "verified to "+number(v.Acts.Last)
		c.Text = "All acts, and " + plural(int(lines), "line") + " about calls in " + plural(int(files), "file") + ", are as they were recorded."
	} else {
		c.Class, c.Word, c.Text = "bad", "not as it was recorded", "Find out who could write to the database and its folder at that time, and compare with a backup."
	}
	if !all {
		c.Notes = nil
		if c.Wrong = nil; !v.Whole {
			c.Text = "Something was changed, moved or deleted. An admin sees here what it is."
		}
	}
	const most = 10
	for _, list := range []*[]string{&c.Wrong, &c.Notes} {
		if n := len(*list); n > most {
			*list = append(slices.Clone((*list)[:most]), number(n-most)+" more; `dragoman audit verify` prints all.")
		}
	}
	return c
}

// limitBar says how many calls a limit has refused, as a bar.
type limitBar struct {
	admin.LimitRefusals
	Width int // of 100
}

// Whose returns whose limit it is.
func (b limitBar) Whose() string { return strings.TrimSpace(b.Per + " " + b.Of) }

// What returns what there was too much of.
func (b limitBar) What() string { return strings.ReplaceAll(b.Limit, "_", " ") }

// limitBars returns the limits that have refused most.
func limitBars(all []admin.LimitRefusals) (bars []limitBar) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b admin.LimitRefusals) int { return cmp.Compare(b.Refused, a.Refused) })
	for _, x := range all[:min(len(all), 8)] {
		bars = append(bars, limitBar{x, max(1, int(x.Refused*100/max(1, all[0].Refused)))})
	}
	return bars
}

// actView has the values of the page about an act.
type actView struct {
	auditRow
	Facts []actFact
	More  int // how many facts are left out
}

// actFact is what is known of the object of an act, before and after it.
type actFact struct {
	Name        string
	Was, Became string
	Changed     bool
}

// mostFacts is how many facts the page shows.
const mostFacts = 200

func (p *auditPages) act(r *http.Request) (*View, error) {
	if stateOf(r).feed {
		return &View{Title: "Audit"}, nil // an act doesn't change
	}
	next := Crumb{"Show the audit", pathOf("audit")}
	seq, err := strconv.ParseInt(r.PathValue("sequence"), 10, 64)
	if err != nil {
		return nil, notFound("There is no such act", "An act has a number.", next)
	}
	x, bad := p.source.FindAct(r.Context(), seq, scope(r))
	switch {
	case bad != nil && bad.Status == http.StatusNotFound:
		return nil, notFound("There is no act "+strconv.FormatInt(seq, 10)+" that you may see", bad.Detail, next)
	case bad != nil:
		return nil, &pageError{Status: bad.Status, Title: bad.Title, Text: bad.Detail, Next: next}
	}
	v := &actView{auditRow: auditRowOf(x), Facts: actFacts(x.Was, x.Became)}
	if n := len(v.Facts); n > mostFacts {
		v.Facts, v.More = v.Facts[:mostFacts], n-mostFacts
	}
	return &View{Title: "act " + number(seq), Crumbs: []Crumb{{"Audit", pathOf("audit")}}, Data: v}, nil
}

// actFacts returns the members of two JSON objects side by side.
func actFacts(was, became []byte) (facts []actFact) {
	before, after := members(was), members(became)
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		facts = append(facts, actFact{name, before[name], after[name], before[name] != after[name]})
	}
	return facts
}

// members returns the members of a JSON object as text. What isn't an object has one member without a name.
func members(raw []byte) map[string]string {
	out := map[string]string{}
	var object map[string]json.RawMessage
	switch {
	case len(raw) == 0:
	case json.Unmarshal(raw, &object) != nil:
		out[""] = string(raw)
	default:
		for name, value := range object {
			if json.Unmarshal(value, new(string)) != nil {
				out[name] = compactJSON(value)
				continue
			}
			var text string
			_ = json.Unmarshal(value, &text)
			out[name] = text
		}
	}
	return out
}
