package admin

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/team/audit"
)

// Audit says what is recorded of requests.
type Audit struct {
	Calls   string `json:"calls" enum:"off,names,arguments" doc:"what is recorded of a request"`
	File    string `json:"file,omitempty" doc:"the file that is written to; left out if nothing was written yet"`
	Refuses bool   `json:"refuses" doc:"whether requests are refused that can't be recorded"`
	Problem string `json:"problem,omitempty" doc:"why nothing can be written at the moment; left out if all is well"`
	Refused int64  `json:"refused" doc:"how many requests were refused since the start because they couldn't be recorded"`
	Lost    int64  `json:"lost" doc:"how many went on without a record"`
}

// AuditEntries are acts and calls.
type AuditEntries struct {
	Entries []AuditEntry `json:"entries" doc:"what was found, the newest first"`
	More    bool         `json:"more" doc:"whether there may be older ones: the list is as long as the parameter limit allows"`
	Next    string       `json:"next,omitempty" doc:"the parameter before for the older ones; left out if there are none"`
}

// AuditEntry is an act of a person, a call of a client, or something else that the audit has recorded. Secrets are
// masked.
type AuditEntry struct {
	At      time.Time       `json:"at" doc:"when it happened, or the request arrived"`
	Kind    string          `json:"kind" enum:"act,call,denied,missed" doc:"act: somebody has changed something; call: a request of a client; denied: somebody was turned away; missed: requests that are in no record"`
	Seq     int64           `json:"seq" doc:"the number of the act, or of the line in its process"`
	Who     string          `json:"who,omitempty" doc:"the name of whoever did it, or the subject"`
	Subject string          `json:"subject,omitempty" doc:"the subject; left out if it's unknown"`
	Seat    string          `json:"seat,omitempty" doc:"the key or token that was used, if the subject is a person"`
	Via     string          `json:"via,omitempty" doc:"through what: console, api, command (such as dragoman login), or serve for what it does by itself and for pages of a sign-in; of a call, how the client authenticated"`
	From    string          `json:"from,omitempty" doc:"the address of the client"`
	Project string          `json:"project,omitempty" doc:"the project; left out for what is about the whole house"`
	What    string          `json:"what" doc:"the action of an act, the method of a call, or why somebody was turned away"`
	Object  string          `json:"object,omitempty" doc:"what it was about: of an act, a kind, a colon and a name; of a call, SERVER/ITEM"`
	As      string          `json:"as,omitempty" doc:"of a call, what the client calls the item, if that's something else"`
	Query   int             `json:"queryBytes,omitempty" doc:"of a search for tools: the length of its text"`
	Was     json.RawMessage `json:"was,omitempty" doc:"what the object was before an act"`
	Became  json.RawMessage `json:"became,omitempty" doc:"what it is after an act"`
	Args    json.RawMessage `json:"args,omitempty" doc:"the arguments of a call, if they're recorded"`
	Outcome string          `json:"outcome,omitempty" doc:"the outcome of a call"`
	Cause   string          `json:"cause,omitempty" doc:"why Dragoman refused the call or could not make it, such as declined, held or timeout"`
	Answers string          `json:"answers,omitempty" doc:"what people have answered about a call whose client could not ask: the kind of each question, the answer, and the subject of whoever gave it"`
	Code    int64           `json:"code,omitempty" doc:"the code of the JSON-RPC error that the client got"`
	MS      float64         `json:"ms,omitempty" doc:"how many milliseconds a call took"`
	Refused int64           `json:"refused,omitempty" doc:"of missed requests: how many were refused"`
	Lost    int64           `json:"lost,omitempty" doc:"of missed requests: how many went on"`
	Denied  int64           `json:"denied,omitempty" doc:"how many more were turned away"`
}

// AuditVerified is what a look at both chains has found.
type AuditVerified struct {
	Whole     bool         `json:"whole" doc:"whether all acts and lines are as they were written, as far as that can be known"`
	Acts      VerifiedActs `json:"acts" doc:"the acts of the database"`
	Files     []Verified   `json:"files" doc:"the files with calls, one entry for each process"`
	Elsewhere []string     `json:"elsewhere,omitempty" doc:"files that the acts know, of processes of which none is in the folder: they were deleted, or are on another machine"`
}

// VerifiedActs is what was found of the acts.
type VerifiedActs struct {
	First  int64  `json:"first" doc:"the number of the oldest act; 0 if there is none"`
	Last   int64  `json:"last" doc:"that of the newest"`
	Sum    string `json:"sum,omitempty" doc:"the hash of the newest act, which is good to keep elsewhere"`
	Broken string `json:"broken,omitempty" doc:"what is wrong first; left out if nothing is"`
}

// Verified is what was found of the files of a process.
type Verified struct {
	Process string `json:"process" doc:"the name of the process in the names of its files"`
	Files   int    `json:"files" doc:"how many files there are"`
	Lines   int64  `json:"lines" doc:"how many lines are as they were written"`
	Sum     string `json:"sum,omitempty" doc:"the hash of the last of them"`
	Ended   bool   `json:"ended" doc:"whether the process has ended its record; otherwise it still runs, or was killed"`
	Torn    bool   `json:"torn" doc:"whether the last line is incomplete, as a process leaves it that is killed while it writes"`
	Unknown bool   `json:"unknown" doc:"whether there are files that are older than all acts, so that nobody can tell who has written them"`
	Broken  string `json:"broken,omitempty" doc:"what is wrong first; left out if nothing is"`
}

var auditParameters = []parameter{
	{"who", "string", "only of this subject, seat or name"},
	{"what", "string", "only if this text is in the action and the object, or in the method, SERVER/ITEM and the outcome"},
	{"since", "string", "only what happened at this time or later, as in 2026-12-24T18:00:00Z"},
	{"until", "string", "only what happened before this time"},
	{"before", "string", "only what is older than the page that had this member `next`"},
}

var auditRoutes = []route{
	{
		method: http.MethodGet, path: "/audit", house: true, least: identity.Operator, name: "audit",
		summary: "What people have changed and clients have asked for, the newest first; an admin of the project default who names no project gets all projects",
		query:   append(slices.Clone(auditParameters), parameter{"limit", "integer", "how many entries to return, 1 to 1000; the default is 100"}),
		answer:  AuditEntries{}, problems: []int{400, 409, 503}, read: func(a *API, r *http.Request) (any, *Problem) { return result(a.readAudit(r)) },
	},
	{
		method: http.MethodGet, path: "/audit/lines", house: true, least: identity.Operator, name: "auditLines",
		summary: "The same as a file with an entry of JSON on each line, 1,000,000 at most", query: auditParameters,
		kind: linesType, problems: []int{400, 409, 503}, write: func(a *API, w http.ResponseWriter, r *http.Request) *Problem { return a.writeAuditLines(w, r) },
	},
	{
		method: http.MethodGet, path: "/audit/verify", process: true, least: identity.Admin, name: "verifyAudit", summary: "Whether all acts and calls are as they were recorded",
		answer: AuditVerified{}, problems: []int{409, 503}, read: func(a *API, r *http.Request) (any, *Problem) { return result(a.verifyAudit(r.Context())) },
	},
}

const (
	usualAudit = 100
	mostAudit  = 1000
	mostLines  = 1_000_000 // of a file
	linesType  = "application/jsonl"
)

// auditAPI shows and verifies the audit. trail is nil if there is none.
type auditAPI struct {
	house
	trail  *audit.Trail
	looked *auditCheck
}

func (a *auditAPI) ready() *Problem {
	if bad := a.closed(); bad != nil {
		return bad
	}
	if a.trail == nil {
		return conflict("no-audit", "Nothing is recorded here", "This Dragoman has no audit.")
	}
	return nil
}

// AuditQuery selects acts and calls. The zero value of a field, except of Limit, selects all.
type AuditQuery struct {
	Who, What    string
	Project      string // "" also for what is about the whole house
	Since, Until time.Time
	Before       string // AuditEntries.Next of the page before
	Limit        int
}

// FindAudit returns what a query selects, the newest first. It reads the database and files.
func (a *auditAPI) FindAudit(ctx context.Context, q AuditQuery) (out AuditEntries, bad *Problem) {
	out.Entries = []AuditEntry{}
	if bad := a.ready(); bad != nil {
		return out, bad
	}
	before, ok := audit.ParsePlace(q.Before)
	if !ok {
		return out, badParameter("before", "Write the member next of the page before.")
	}
	list, last, err := a.trail.Read(ctx, audit.Query{Who: q.Who, What: q.What, Project: q.Project, Since: q.Since, Until: q.Until, Before: before, Most: q.Limit, Name: a.doer})
	if err != nil {
		return out, a.problem(err)
	}
	for i := range list {
		out.Entries = append(out.Entries, a.showEntry(&list[i]))
	}
	if out.More = len(list) == q.Limit; out.More {
		out.Next = last.String()
	}
	return out, nil
}

// FindAct returns the act with a number, of a project, or of any if that is "".
func (a *auditAPI) FindAct(ctx context.Context, seq int64, project string) (out AuditEntry, bad *Problem) {
	if bad := a.ready(); bad != nil {
		return out, bad
	}
	list, err := a.safe.Store().Acts(ctx, seq+1, 1)
	switch {
	case err != nil:
		return out, a.problem(err)
	case seq < 1 || len(list) == 0 || list[0].Seq != seq || project != "" && list[0].Project != project:
		return out, &Problem{Type: "no-such-act", Title: "No such act", Status: http.StatusNotFound, Detail: "The database keeps the last 100,000 acts."}
	}
	return a.showEntry(&audit.Entry{At: list[0].At, Act: &list[0]}), nil
}

// queryOf returns the query of a request. Only an admin of the project default sees what happened in all projects.
func (a *auditAPI) queryOf(r *http.Request) (q AuditQuery, bad *Problem) {
	values := r.URL.Query()
	q = AuditQuery{Who: values.Get("who"), What: values.Get("what"), Project: values.Get(projectParameter.name), Before: values.Get("before"), Limit: usualAudit}
	who, err := a.access.Check(r)
	if name := a.project.name(); name != event.DefaultProject || err != nil || a.access.May(who, name, identity.Admin) != nil {
		q.Project = name
	}
	if text := values.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostAudit {
			return q, badParameter("limit", fmt.Sprintf("Write a number from 1 to %d.", mostAudit))
		}
		q.Limit = n
	}
	for name, at := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if text := values.Get(name); text != "" {
			if *at, err = time.Parse(time.RFC3339, text); err != nil {
				return q, badParameter(name, "Write a time such as 2026-12-24T18:00:00Z.")
			}
		}
	}
	return q, nil
}

// readAudit answers GET /audit.
func (a *auditAPI) readAudit(r *http.Request) (out AuditEntries, bad *Problem) {
	q, bad := a.queryOf(r)
	if bad != nil {
		return out, bad
	}
	return a.FindAudit(r.Context(), q)
}

// writeAuditLines answers GET /audit/lines.
func (a *auditAPI) writeAuditLines(w http.ResponseWriter, r *http.Request) *Problem {
	q, bad := a.queryOf(r)
	if bad != nil {
		return bad
	}
	return a.ExportAudit(r.Context(), w, q)
}

// ExportAudit answers a request with everything that a query selects, as a file with an entry of JSON on each line. It
// reads a page at a time, so that a long file needs no more memory than a short one. If it returns a problem, it has
// written nothing.
func (a *auditAPI) ExportAudit(ctx context.Context, w http.ResponseWriter, q AuditQuery) *Problem {
	q.Limit = mostAudit
	page, bad := a.FindAudit(ctx, q)
	if bad != nil {
		return bad
	}
	h := w.Header()
	h.Set("Content-Type", linesType)
	h.Set("Content-Disposition", `attachment; filename="audit.jsonl"`)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	for n := 0; bad == nil; {
		var b bytes.Buffer
		out := json.NewEncoder(&b)
		out.SetEscapeHTML(false)
		for i := range page.Entries {
			_ = out.Encode(&page.Entries[i])
		}
		if _, err := w.Write(excerpt.JSON(b.Bytes())); err != nil {
			return nil
		}
		if n += len(page.Entries); n >= mostLines || !page.More {
			return nil
		}
		q.Before = page.Next
		page, bad = a.FindAudit(ctx, q)
	}
	panic(http.ErrAbortHandler) // so that nobody takes it for the whole file
}

func (a *auditAPI) showEntry(e *audit.Entry) AuditEntry {
	if x := e.Act; x != nil {
		return AuditEntry{At: x.At.UTC(), Kind: "act", Seq: x.Seq, Who: a.doer(x.Actor), Subject: x.Actor, Via: x.Via, Project: x.Project, What: x.Action, Object: x.Object, Was: x.Was, Became: x.Became}
	}
	x := e.Line
	out := AuditEntry{
		At: x.At.UTC(), Kind: x.Kind, Seq: x.Seq, Who: x.Name, Subject: x.Who, Seat: x.Seat, Via: x.Via, From: x.From, Project: x.Project, What: x.Method,
		Object: strings.Trim(x.Server+"/"+x.Item, "/"), As: x.As, Query: x.Query, Args: x.Args, Outcome: x.Outcome, Cause: x.Cause, Answers: x.Answers, Code: x.Code, MS: x.MS, Refused: x.Refused, Lost: x.Lost, Denied: x.Denied,
	}
	if out.Who == "" && x.Who != "" {
		out.Who = a.doer(x.Who)
	}
	switch out.Kind {
	case "":
		out.Kind = "call"
	case "missed":
		out.What = "requests are missing"
	}
	return out
}

// verifyAudit answers GET /audit/verify.
func (a *auditAPI) verifyAudit(ctx context.Context) (out AuditVerified, bad *Problem) {
	if bad := a.ready(); bad != nil {
		return out, bad
	}
	v, err := a.trail.Verify(ctx)
	if err != nil {
		return out, a.problem(err)
	}
	out = AuditVerified{Acts: VerifiedActs{First: v.Acts.First, Last: v.Acts.Last, Broken: v.Acts.Broken}, Files: []Verified{}, Elsewhere: v.Elsewhere}
	if sum, ok := v.Acts.Sum(v.Acts.Last); ok {
		out.Acts.Sum = base64.RawURLEncoding.EncodeToString(sum)
	}
	out.Whole = v.Acts.Broken == ""
	for _, x := range v.Chains {
		out.Whole = out.Whole && x.Broken == ""
		out.Files = append(out.Files, Verified{Process: x.Trail, Files: x.Files, Lines: x.Lines, Sum: x.Sum, Ended: x.Ended, Torn: x.Torn, Unknown: x.Unknown, Broken: x.Broken})
	}
	return out, nil
}

// AuditCheck is what the last look at both chains has found.
type AuditCheck struct {
	Found   AuditVerified
	Problem *Problem  // why there was nothing to look at
	At      time.Time // when it ended; zero if none has
	Running bool      // whether another one runs
}

// auditCheck remembers the last look at both chains, since it reads everything. It is safe for concurrent use.
type auditCheck struct {
	running work.Group
	ctx     context.Context // ends with close
	stop    context.CancelFunc

	mu   sync.Mutex
	last AuditCheck
}

// checkAgain is how old the last look may be.
const checkAgain = 10 * time.Minute

func newAuditCheck() *auditCheck {
	c := &auditCheck{}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// close ends a look that runs.
func (c *auditCheck) close() {
	c.stop()
	c.running.Wait()
}

// CheckAudit returns what the last look at both chains has found. If begin is true and that was some time ago, another
// look begins, for which CheckAudit doesn't wait. There is never more than one.
func (a *auditAPI) CheckAudit(begin bool) AuditCheck {
	c := a.looked
	c.mu.Lock()
	defer c.mu.Unlock()
	if begin && !c.last.Running && (time.Since(c.last.At) > checkAgain || c.last.Problem != nil && time.Since(c.last.At) > time.Minute) {
		c.last.Running = c.running.Go(func() {
			found, bad := a.verifyAudit(c.ctx)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.last = AuditCheck{Found: found, Problem: bad, At: time.Now()}
		})
	}
	return c.last
}

// auditOf returns what the status says of the audit, or nil if nothing is recorded.
func auditOf(t *audit.Trail) *Audit {
	if t == nil || t.Settings().Level == audit.Off {
		return nil
	}
	now, set := t.State(), t.Settings()
	out := &Audit{Calls: map[audit.Level]string{audit.Off: "off", audit.Names: "names", audit.Arguments: "arguments"}[set.Level], File: now.File, Refuses: set.Refuse, Refused: now.Refused, Lost: now.Lost}
	if now.Problem != nil {
		out.Problem = now.Problem.Error()
	}
	return out
}

// Line says how the audit is doing, or "" if there's nothing to say.
func (a *Audit) Line() string {
	switch {
	case a.Problem != "" && a.Refuses:
		return "audit: cannot be written, so requests are refused: " + a.Problem
	case a.Problem != "":
		return "audit: cannot be written, so requests go on without a record: " + a.Problem
	case a.Refused+a.Lost > 0:
		return fmt.Sprintf("audit: since the start, %d requests were refused that could not be recorded, and %d went on without a record", a.Refused, a.Lost)
	}
	return ""
}
