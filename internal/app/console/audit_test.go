package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// record is the audit of a test, the newest entry first.
type record struct {
	entries  []admin.AuditEntry
	check    admin.AuditCheck
	problem  *admin.Problem
	asked    []admin.AuditQuery
	begun    int
	exported []admin.AuditQuery
}

func (a *record) FindAudit(_ context.Context, q admin.AuditQuery) (out admin.AuditEntries, _ *admin.Problem) {
	a.asked = append(a.asked, q)
	from, _ := strconv.Atoi(q.Before)
	for i, x := range a.entries {
		switch {
		case i < from, q.Project != "" && x.Project != q.Project, q.Who != "" && x.Who != q.Who, !strings.Contains(x.What+x.Object, q.What):
		case len(out.Entries) == q.Limit:
			out.More, out.Next = true, strconv.Itoa(i)
			return out, a.problem
		default:
			out.Entries = append(out.Entries, x)
		}
	}
	return out, a.problem
}

func (a *record) FindAct(_ context.Context, seq int64, project string) (admin.AuditEntry, *admin.Problem) {
	for _, x := range a.entries {
		if x.Kind == "act" && x.Seq == seq && (project == "" || project == x.Project) {
			return x, a.problem
		}
	}
	return admin.AuditEntry{}, &admin.Problem{Status: 404, Title: "No such act"}
}

func (a *record) CheckAudit(begin bool) admin.AuditCheck {
	if begin {
		a.begun++
	}
	return a.check
}

func (s *source) FindAudit(ctx context.Context, q admin.AuditQuery) (admin.AuditEntries, *admin.Problem) {
	return s.audit.FindAudit(ctx, q)
}

func (s *source) FindAct(ctx context.Context, seq int64, project string) (admin.AuditEntry, *admin.Problem) {
	return s.audit.FindAct(ctx, seq, project)
}

func (s *source) ExportAudit(ctx context.Context, w http.ResponseWriter, q admin.AuditQuery) *admin.Problem {
	s.audit.exported = append(s.audit.exported, q)
	if s.audit.problem == nil {
		_, _ = io.WriteString(w, "exported-lines")
	}
	return s.audit.problem
}

func (s *source) CheckAudit(begin bool) admin.AuditCheck { return s.audit.CheckAudit(begin) }

// auditOf returns a record of two projects with n more calls. All texts that somebody else has chosen contain text.
func auditOf(text string, n int) record {
	at := time.Now()
	r := record{check: admin.AuditCheck{At: at, Found: admin.AuditVerified{Whole: true, Acts: admin.VerifiedActs{First: 1, Last: 48112}, Files: []admin.Verified{{Process: "p1", Files: 2, Lines: 9000, Torn: true}}}}}
	r.entries = []admin.AuditEntry{
		{At: at, Kind: "act", Seq: 7, Who: "Ada" + text, Subject: "p:1", Via: "console", Project: "default", What: "set roles viewer", Object: "person:" + text, Was: json.RawMessage(`{"roles":"caller","kept":{"a":1}}`), Became: []byte(`{"roles":` + strconv.Quote("viewer") + `,"kept":{"a":1},"note":` + quoted(text) + `}`)},
		{At: at, Kind: "act", Seq: 6, Who: "Grace", Via: "api", Project: "shop", What: "made", Object: "key:shop/hidden-key"},
		{At: at, Kind: "call", Seq: 9, Who: "ci" + text, Seat: "k:3" + text, Via: "key" + text, From: "192.0.2.7:4711", Project: "default", What: "tools/call", Object: "gh/star" + text, As: text, Args: []byte(`{"q":` + quoted(text) + `}`), Outcome: "failed", Cause: "held" + text, Answers: text, Code: -32000, MS: 12},
		{At: at, Kind: "denied", Seq: 8, What: "a wrong credential" + text, From: "192.0.2.9"},
		{At: at, Kind: "missed", Seq: 5, What: "requests are missing", Refused: 3, Lost: 2},
	}
	for i := range n {
		r.entries = append(r.entries, admin.AuditEntry{At: at, Kind: "call", Seq: int64(-i), Who: "ci", Project: "default", What: "tools/call", Object: fmt.Sprintf("gh/tool-%03d", i), Outcome: "ok"})
	}
	return r
}

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// TestTA49_Audit looks at the audit as everybody: an admin sees all projects, an operator theirs, and whoever has a
// lower role, or a role in another project, nothing. The stream of the page has nothing of the entries.
func TestTA49_Audit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "audit")
		h.access.RolesFrom(func(who *identity.Principal, project string) []identity.Role {
			name, of, other := strings.Cut(who.Subject, " of ")
			if role, ok := identity.RoleOf(name); ok && (!other || of == project) {
				return []identity.Role{role}
			}
			return nil
		})
		for who, want := range map[string]struct {
			status      int
			mine, other bool
		}{"admin": {200, true, true}, "operator": {200, true, false}, "viewer": {403, false, false}, "caller": {403, false, false}, "operator of shop": {403, false, false}, "admin of shop": {403, false, false}} {
			h.cookie = h.cookieOf(who)
			for _, page := range []string{"/audit", "/audit?project=shop", "/audit?project=shop&what=key", "/audit/7", "/audit/6"} {
				resp, body := h.ask("GET", "/console"+page)
				status, mine, other := want.status, want.mine && (page == "/audit" || page == "/audit/7" || who == "operator" && page == "/audit?project=shop"), want.other && page != "/audit/7"
				if page == "/audit/6" && status == 200 && !other {
					status = 404
				}
				if resp.StatusCode != status || strings.Contains(mainOf(body), "Ada") != mine || strings.Contains(body, "hidden-key") != other || strings.Contains(body, "Grace") != other {
					t.Errorf("%s as %s: %d %t %t", page, who, resp.StatusCode, strings.Contains(body, "Ada"), strings.Contains(body, "hidden-key"))
				}
			}
			if want.status != 200 {
				if resp, _ := h.ask("GET", "/console/events?page=/console/audit"); resp.StatusCode != 403 {
					t.Errorf("the events as %s: %d", who, resp.StatusCode)
				}
			}
		}
		reads, begun := len(h.source.audit.asked), h.source.audit.begun
		h.cookie = h.cookieOf("operator")
		w := watch(t, h, "/console/audit", "")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if text := fmt.Sprint(w.take()); !strings.Contains(text, "chain") || strings.Contains(text, "star") || strings.Contains(text, "Ada") {
			t.Errorf("the stream has %s", text)
		}
		w.stop()
		if len(h.source.audit.asked) != reads || h.source.audit.begun != begun {
			t.Errorf("the stream has read the audit %d times, and begun %d looks", len(h.source.audit.asked)-reads, h.source.audit.begun-begun)
		}
	})
}

// TestAudit checks the filters, the pages, and what the page says of both chains.
func TestAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "audit")
		says := func(page string, status int, parts ...string) string {
			t.Helper()
			resp, body := h.ask("GET", "/console"+page)
			main := mainOf(body)
			for _, part := range parts {
				if not, is := strings.CutPrefix(part, "!"); resp.StatusCode != status || strings.Contains(main, strings.TrimPrefix(part, "!")) == (is && not != "") {
					t.Errorf("%s: %d, %s:\n%s", page, resp.StatusCode, part, main)
				}
			}
			return main
		}
		says("/audit", 200, "verified to 48,112", "9,000 lines about calls in 2 files", "The last line of p1 is incomplete", `href="/console/audit/7"`, "tool-000", "!tool-050",
			`action="/console/audit"`, "!to confirm", "<details>", `href="?before=50"`, ">3 refused, 2 went on")
		says("/audit?before=50&who=ci", 200, "tool-050", "!tool-000", `href="?who=ci"`, `<input type="hidden" name="who" value="ci">`, "!name=\"before\"")
		says("/audit?what=nothing", 200, "Nothing matches this filter", "Show everything")
		says("/audit?since=yesterday", 400, "can&#39;t be read", "!>outcome</tr>")
		says("/audit?since=2000-01-01&until=2000-01-02T03:04", 200, `name="since" value="2000-01-01"`)
		q := h.source.audit.asked[len(h.source.audit.asked)-1]
		if q.Since.Year() != 2000 || q.Until.Sub(q.Since) != 27*time.Hour+4*time.Minute || q.Project != "" {
			t.Errorf("the page asks for %+v", q)
		}
		says("/audit/7", 200, "changed from </span>", ">caller", ">viewer", `{&#34;a&#34;:1}`)
		says("/audit/6", 200, "There is nothing to compare")
		says("/audit/99", 404, "There is no act 99")
		says("/audit/x", 404, "An act has a number")

		a := &h.source.audit
		a.check.Found.Whole, a.check.Found.Acts.Broken, a.check.Found.Files[0].Broken = false, "act 12 was changed", "the file x was deleted"
		says("/audit", 200, "not as it was recorded", "Acts: act 12 was changed.", "Calls of p1: the file x was deleted.", "!verified to")
		local := identity.Operator
		h.graded(&local)
		says("/audit", 200, "not as it was recorded", "An admin sees here what it is", "!act 12", "!the file x")
		a.check = admin.AuditCheck{Running: true}
		says("/audit", 200, "verifying", "!verified to")
		a.check = admin.AuditCheck{At: time.Now(), Problem: &admin.Problem{Title: "The database cannot be used", Detail: "It is away."}}
		a.problem = &admin.Problem{Status: http.StatusServiceUnavailable, Title: "The database cannot be used", Detail: "It is away."}
		says("/audit", 503, "not verified", "The database cannot be used. It is away.", "!>outcome</tr>")
		a.problem.Status = http.StatusConflict
		says("/audit", 200, "The database cannot be used", "!>outcome</tr>")
	})
}

// TestAuditExport saves what a filter selects: without a question if somebody has just signed in, and later only after
// the words on the page, with the filter as it was. An operator gets the project and nothing else.
func TestAuditExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "audit")
		form := url.Values{"who": {"ci"}, "since": {"2000-01-01"}, "before": {"50"}, "project": {"shop"}}
		send := func(status int, parts ...string) {
			t.Helper()
			resp, body := h.submit("/console/audit", form)
			if resp.StatusCode != status {
				t.Errorf("%d, want %d", resp.StatusCode, status)
			}
			hasParts(t, "the export", body, parts...)
		}
		send(200, "exported-lines")
		time.Sleep(15 * time.Minute)
		send(403, "more than 10 minutes ago", `value="2000-01-01"`, `name="project" value="shop"`, `id="sure"`, "!exported-lines")
		form.Set("sure", "Export the record")
		send(200, "exported-lines")
		h.source.audit.problem = &admin.Problem{Status: http.StatusServiceUnavailable, Title: "The database cannot be used", Detail: "It is away."}
		send(503, "The database cannot be used. It is away.")
		h.source.audit.problem = nil
		local := identity.Operator
		h.graded(&local)
		send(200, "exported-lines")
		local = identity.Viewer
		send(403, "!exported-lines")
		form.Set("since", "x")
		local = identity.Admin
		send(400, "!exported-lines")
		got := h.source.audit.exported
		if q := got[0]; len(got) != 4 || q.Who != "ci" || q.Since.Year() != 2000 || q.Before != "" || q.Project != "shop" || got[3].Project != "default" {
			t.Errorf("got %+v", got)
		}
	})
}
