package console

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/pins"
)

// testConsole is a console under test, with the cookie of the browser that opened it.
type testConsole struct {
	t       testing.TB
	access  *admin.Access
	console *Console
	mux     *http.ServeMux
	cookie  string
	source  *source
}

// source is a Source with fixed values.
type source struct {
	testTeam

	examples []admin.ExampleDetails
	report   *admin.Report
	logs     []admin.LogRecord
	calls    []admin.Call
	reports  int64 // the number of reports; accessed only through package atomic
	stories  []admin.Story
	steps    []admin.HandshakeStep
	tools    []admin.ToolDetail // sorted by name
	costs    []admin.ToolCost
	runs     []admin.Run // newest first
	did      []string    // the operations on runs
	refuse   *admin.Problem
	exam     *admin.Examination
	audit    record
	items    map[string][]admin.Item // the items by the method of the list
	read     map[string]bool         // the lists that a page has read
	unread   []admin.ToolDetail      // the tools that are known when the list of tools has been read
	pins     testPins
	asked    []asking // the questions that wait
	town     testProjects
	rules    testRules
	keeps
	signIns []admin.SignIn
	link    admin.SignInLink // of a sign-in that begins
}

func (s *source) RulesFor(_ context.Context, who *identity.Principal) admin.Rules {
	return s.KnownRules(who)
}
func (s *source) KnownRules(*identity.Principal) admin.Rules { return s.rules.now() }
func (s *source) ChangeRules(r *http.Request, c admin.RuleChange) (admin.ChangedRules, *admin.Problem) {
	return s.rules.change(c)
}

func (s *source) UsesFor(_ context.Context, who *identity.Principal, server, tool, text string, from, limit int) (admin.ToolUses, *admin.Problem) {
	return s.rules.uses(who, server+"/"+tool, text, from, limit), nil
}

func (s *source) ViewFor(_ context.Context, _ *identity.Principal, kind, name string) (admin.RuleView, *admin.Problem) {
	return s.rules.view(kind, name)
}

func (s *source) SignInsFor(*identity.Principal) admin.SignIns {
	return admin.SignIns{SignIns: s.signIns}
}

func (s *source) WaitingSignIns(*identity.Principal) (all []admin.SignIn) {
	for _, x := range s.signIns {
		if x.Waits != nil {
			all = append(all, x)
		}
	}
	return all
}

func (s *source) BeginSignIn(_ context.Context, who *identity.Principal, project, server string) (admin.SignInLink, *admin.Problem) {
	s.did = append(s.did, fmt.Sprintf("%s signs in to %s/%s", who.Subject, project, server))
	return s.link, s.refuse
}

func (s *source) SignOutOf(_ context.Context, who *identity.Principal, project, server string) (admin.EndedSignIn, *admin.Problem) {
	s.did = append(s.did, fmt.Sprintf("%s signs out of %s/%s", who.Subject, project, server))
	return admin.EndedSignIn{Server: server, Revoked: server != "unreachable"}, s.refuse
}

// askedLock guards source.asked.
var askedLock sync.Mutex

// asking is a question in a source. Whoever has its subject may answer it, and operators may.
type asking struct {
	admin.QuestionDetails
	subject string
	gone    *admin.Problem // what has become of it
}

func (s *source) QuestionsFor(who *identity.Principal) admin.Questions {
	askedLock.Lock()
	defer askedLock.Unlock()
	out := admin.Questions{Mode: "console", Questions: []admin.QuestionEntry{}}
	for _, q := range s.asked {
		if q.gone == nil && s.mayAnswer(who, &q) {
			q.Mine = q.subject == who.Subject
			out.Questions = append(out.Questions, q.QuestionEntry)
		}
	}
	return out
}

func (s *source) mayAnswer(who *identity.Principal, q *asking) bool {
	return who == identity.Local || who.Subject == q.subject || who.Subject == "operator" || who.Subject == "admin"
}

func (s *source) QuestionsFrom(_ *http.Request, who *identity.Principal) admin.Questions {
	return s.QuestionsFor(who)
}

func (s *source) QuestionFrom(_ *http.Request, who *identity.Principal, id string) (admin.QuestionDetails, *admin.Problem) {
	askedLock.Lock()
	defer askedLock.Unlock()
	return s.question(who, id)
}

func (s *source) question(who *identity.Principal, id string) (admin.QuestionDetails, *admin.Problem) {
	for _, q := range s.asked {
		if q.ID == id && s.mayAnswer(who, &q) {
			q.Mine = q.subject == who.Subject
			return q.QuestionDetails, q.gone
		}
	}
	return admin.QuestionDetails{}, &admin.Problem{Status: 404, Title: "No such question", Detail: "No question with this id waits for you."}
}

func (s *source) AnswerFrom(_ *http.Request, who *identity.Principal, id string, in admin.QuestionAnswer) (admin.QuestionAnswered, *admin.Problem) {
	askedLock.Lock()
	defer askedLock.Unlock()
	if _, bad := s.question(who, id); bad != nil {
		return admin.QuestionAnswered{}, bad
	}
	if s.refuse != nil {
		return admin.QuestionAnswered{}, s.refuse
	}
	s.did = append(s.did, fmt.Sprintf("%s %s %s %s", who.Subject, in.Action, id, in.Content))
	for i := range s.asked {
		if s.asked[i].ID == id {
			s.asked[i].gone = &admin.Problem{Status: 409, Title: "The question has been answered", Detail: "It was answered by " + who.Subject + " at 12:00:00 UTC, with " + in.Action + ". The first answer counts, and the call went on with it."}
		}
	}
	return admin.QuestionAnswered{ID: id, Action: in.Action}, nil
}

func (s *source) OwnQuestions(who *identity.Principal) (n int) {
	askedLock.Lock()
	defer askedLock.Unlock()
	for _, q := range s.asked {
		if who != nil && q.gone == nil && q.subject == who.Subject {
			n++
		}
	}
	return n
}

func (s *source) StartRun(_ context.Context, _ admin.RunBy, server string, q admin.RunRequest) (admin.Run, *admin.Problem) {
	s.did = append(s.did, fmt.Sprintf("run %s %s %s %s %d %v", server, q.Tool+q.Prompt+q.Resource, q.Arguments, q.Revision, q.Timeout, q.Unchecked))
	return admin.Run{ID: "1-1"}, s.refuse
}

func (s *source) KeptExamples() (out admin.Examples, _ *admin.Problem) {
	for _, x := range s.examples {
		out.Examples = append(out.Examples, x.Example)
	}
	return out, nil
}

func (s *source) KeptExample(_ context.Context, id string) (admin.ExampleDetails, *admin.Problem) {
	for _, x := range s.examples {
		if x.ID == id {
			return x, nil
		}
	}
	return admin.ExampleDetails{}, &admin.Problem{Status: 404, Title: "No such example", Detail: "There is no such example."}
}

func (s *source) KeepExample(_ *http.Request, q admin.ExampleRequest) (admin.Example, *admin.Problem) {
	s.did = append(s.did, "keep "+q.Run+" "+q.Name)
	return admin.Example{ID: "KEPT"}, s.refuse
}

func (s *source) RunExample(_ context.Context, _ admin.RunBy, id string) (admin.Run, *admin.Problem) {
	s.did = append(s.did, "run example "+id)
	return admin.Run{ID: "1-3"}, s.refuse
}

func (s *source) RemoveExample(_ *http.Request, id string) (admin.Example, *admin.Problem) {
	s.did = append(s.did, "remove example "+id)
	return admin.Example{Name: "Printers"}, s.refuse
}

func (s *source) CancelRun(id string) (admin.Run, *admin.Problem) {
	s.did = append(s.did, "cancel "+id)
	return s.FindRun(id)
}

func (s *source) AnswerRun(_ context.Context, _ admin.RunBy, id string, a admin.RunAnswer) (admin.Run, *admin.Problem) {
	s.did = append(s.did, fmt.Sprintf("%s %s %s %s", a.Action, id, a.ID, a.Content))
	return admin.Run{ID: id}, s.refuse
}

func (s *source) FindRun(id string) (admin.Run, *admin.Problem) {
	for _, x := range s.runs {
		if x.ID == id {
			return x, nil
		}
	}
	return admin.Run{}, &admin.Problem{Status: 404, Title: "No such run", Detail: "There is no such run."}
}

func (s *source) FindRuns(server, name string, limit int) (out []admin.Run) {
	for _, x := range s.runs {
		if x.Server == server && x.Name == name && len(out) < limit {
			x.Result, x.Arguments, x.Logs = nil, nil, nil
			out = append(out, x)
		}
	}
	return out
}

func (s *source) Report() *admin.Report {
	atomic.AddInt64(&s.reports, 1)
	return s.report
}

func (s *source) Logs(string, int) []admin.LogRecord { return s.logs }
func (s *source) Steps(string) []admin.HandshakeStep { return s.steps }
func (s *source) CallsOf(q admin.CallQuery) (out admin.Calls) {
	for _, c := range s.calls {
		switch {
		case q.Before > 0 && c.Number >= q.Before, q.Server != "" && q.Server != c.Server, q.Text != "" && !strings.Contains(c.Name+c.Cause, q.Text):
		case len(out.Calls) == q.Limit:
			out.Before = out.Calls[q.Limit-1].Number
			return out
		default:
			out.Calls = append(out.Calls, c)
		}
	}
	return out
}

func (s *source) CallsFrom(_ *http.Request, q admin.CallQuery) admin.Calls { return s.CallsOf(q) }

func (*source) CallerOf(who *identity.Principal) string { return who.Key() }

func (s *source) StoryFrom(_ *http.Request, id string) (admin.Story, *admin.Problem) {
	number, _ := strconv.ParseUint(id, 10, 64)
	if x, ok := s.StoryOf(number); ok {
		return x, nil
	}
	return admin.Story{}, &admin.Problem{Type: "no-such-call", Status: 404}
}

func (s *source) StoryOf(number uint64) (admin.Story, bool) {
	for i := range s.stories {
		if s.stories[i].Number == number {
			return s.stories[i], true
		}
	}
	return admin.Story{}, false
}

func (s *source) TranscriptFrom(_ *http.Request, id string) ([]byte, *admin.Problem) {
	if x, bad := s.StoryFrom(nil, id); bad == nil && len(x.Messages) > 0 && x.Outcome != admin.OutcomeRunning {
		return fmt.Appendf(nil, "the transcript of call %s\n", id), nil
	}
	return nil, &admin.Problem{Status: 409, Title: "The call has no transcript", Detail: "It has not ended."}
}

func (s *source) FindItems(q admin.ItemQuery) (out admin.FoundItems) {
	out.Read = s.read[q.Method] || len(s.items[q.Method]) > 0
	for _, x := range s.items[q.Method] {
		if x.Server != q.Server || !strings.Contains(x.Name+x.URI, q.Text) {
			continue
		}
		if out.Total++; out.Total > q.From && len(out.Items) < q.Limit {
			out.Items = append(out.Items, x)
		}
	}
	return out
}

func (s *source) ReadItems(_ context.Context, _, method string) {
	if s.read[method] = true; method == mcp.MethodListTools {
		s.tools, s.unread = append(s.tools, s.unread...), nil
	}
}

func (s *source) StartExam(server string, q admin.ExamRequest) (admin.Examination, *admin.Problem) {
	if s.exam != nil && s.exam.State == "running" {
		return admin.Examination{}, &admin.Problem{Status: 409, Title: "Another examination is running", Detail: "Server files is being examined."}
	}
	s.exam = &admin.Examination{Server: server, State: "running", Deep: q.Deep, Started: time.Now(), Step: "opening the server"}
	return *s.exam, nil
}

func (s *source) CancelExam(string) (admin.Examination, *admin.Problem) {
	now := time.Now()
	s.exam.State, s.exam.Ended, s.exam.Error = "cancelled", &now, "the examination was cancelled"
	return *s.exam, nil
}

func (s *source) FindExam(server string) (admin.Examination, *admin.Problem) {
	if s.exam == nil || s.exam.Server != server {
		return admin.Examination{}, &admin.Problem{Status: 404, Title: "The server has not been examined"}
	}
	return *s.exam, nil
}

func (s *source) FindTools(q admin.ToolQuery) (out admin.FoundTools) {
	for _, t := range s.tools {
		if q.Server != "" && q.Server != t.Server || q.State != "" && q.State != t.State || q.Effect != "" && q.Effect != t.Effect || !strings.Contains(t.Name, q.Text) {
			continue
		}
		if out.Total++; out.Total > q.From && len(out.Tools) < q.Limit {
			out.Tools = append(out.Tools, admin.FoundTool{Tool: t.Tool, About: t.About})
		}
		out.Tokens += t.Tokens
	}
	return out
}

func (s *source) FindTool(server, name string) (admin.ToolDetail, *admin.Problem) {
	for _, t := range s.tools {
		if t.Server == server && t.Name == name {
			return t, nil
		}
	}
	return admin.ToolDetail{}, &admin.Problem{Status: 404, Title: "No such tool", Detail: "There is no such tool."}
}

func (s *source) ChangedPins() admin.Pins { return s.pins.list() }

func (s *source) ReviewPin(_ context.Context, q admin.PinDecision) (admin.PinReview, *admin.Problem) {
	return s.pins.review(q)
}

func (s *source) DecidePin(_ context.Context, by string, q admin.PinDecision, state pins.State) (admin.PinDecided, *admin.Problem) {
	return s.pins.decide(by, q, state)
}

func (s *source) ReadPins(context.Context) []admin.PinUnread {
	s.did = append(s.did, "read all lists")
	return s.pins.unread
}

func (s *source) ProjectsFor(_ context.Context, who *identity.Principal) ([]admin.ProjectEntry, *admin.Problem) {
	return s.town.ProjectsFor(who)
}

func (s *source) ProjectFor(_ context.Context, who *identity.Principal, name string) (admin.ProjectDetails, *admin.Problem) {
	return s.town.ProjectFor(who, name)
}

func (s *source) ProjectSums() (all []admin.ProjectSum) {
	names, _ := s.town.ProjectsFor(nil)
	for _, x := range names {
		all = append(all, admin.ProjectSum{Name: x.Name, Title: x.Title, Servers: 7, Clients: 3, Calls: 12345, Failed: 1, Asked: 2})
	}
	return all
}
func (s *source) MayAddProjects(who *identity.Principal) bool {
	return s.town.may(who, "default", identity.Admin)
}

func (s *source) TryProject(_ *http.Request, name, text string) (admin.ProjectPreview, *admin.Problem) {
	return s.town.try(name, text)
}

func (s *source) PutProject(r *http.Request, name, text, match string) (admin.KeptProject, *admin.Problem) {
	return s.town.put(r, name, text, match)
}

func (s *source) RemoveProject(r *http.Request, name, match string) (admin.RemovedProject, *admin.Problem) {
	return s.town.drop(r, name, match)
}

func (s *source) ExportProject(_ *http.Request, name string) ([]byte, *admin.Problem) {
	return []byte("dragoman:\n  projects:\n    " + name + ": {}\n"), nil
}

func (s *source) ToolCosts() []admin.ToolCost { return s.costs }

func (s *source) Matrix() admin.Matrix { return (*admin.API)(nil).Matrix() }

// open returns a console that shows a status. A browser has already opened the console with a link.
func open(t testing.TB, status *admin.Report, change ...func(*Options)) *testConsole {
	t.Helper()
	h := &testConsole{t: t, access: admin.NewAccess(true), mux: http.NewServeMux()}
	if status.Started.IsZero() {
		status.Started = time.Now()
	}
	o := Options{Access: h.access, Source: &source{report: status, read: map[string]bool{}}}
	for _, f := range change {
		f(&o)
	}
	h.console = New(o)
	t.Cleanup(h.console.Close)
	h.console.Routes(h.mux)
	u, _ := url.Parse(h.access.Link("http://127.0.0.1:7300"))
	w := httptest.NewRecorder()
	if h.access.Enter(w, h.request("GET", "/console/"), u.Query().Get(admin.LinkQuery)) {
		h.cookie, _, _ = strings.Cut(w.Header().Get("Set-Cookie"), ";")
	}
	return h
}

// request returns a request from a browser on this machine. header alternates names and values.
func (h *testConsole) request(method, target string, header ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.Host = h.access.Name() + ":7300"
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// ask sends a request with the cookie of the browser, unless the headers have one.
func (h *testConsole) ask(method, target string, header ...string) (*http.Response, string) {
	h.t.Helper()
	r := h.request(method, target, header...)
	if _, ok := r.Header["Cookie"]; !ok {
		r.Header.Set("Cookie", h.cookie)
	}
	w := httptest.NewRecorder()
	h.mux.ServeHTTP(w, r)
	resp := w.Result()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp, string(body)
}

// TestWhoMaySee checks which requests get a page, and which errors the other requests get.
func TestWhoMaySee(t *testing.T) {
	h := open(t, &admin.Report{})
	stranger := []string{"Cookie", ""}
	for _, tt := range []struct {
		name, method, target string
		header               []string
		status               int
		says                 string
	}{
		{"the browser with a session", "GET", "/console/", nil, 200, "<h1>"},
		{"from our own page", "GET", "/console/", []string{"Sec-Fetch-Site", "same-origin"}, 200, "<h1>"},
		{"a stranger", "GET", "/console/", stranger, 401, "dragoman console --open"},
		{"a stranger, another page", "GET", "/console/nope", stranger, 401, "dragoman console --open"},
		{"a stranger, the events", "GET", "/console/events?page=/console/", stranger, 401, "dragoman console --open"},
		{"a stranger, the palette", "GET", "/console/palette.json", stranger, 401, "dragoman console --open"},
		{"following a link of another site", "GET", "/console/", append(stranger, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "document"), 200, `http-equiv="refresh"`},
		{"a frame of another site", "GET", "/console/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "iframe"}, 403, "another site"},
		{"a script of another port", "GET", "/console/palette.json", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Dest", "empty"}, 403, "another site"},
		{"a post of another site", "POST", "/console/theme", []string{"Sec-Fetch-Site", "cross-site"}, 403, "another site"},
		{"a post of another port", "POST", "/console/theme", []string{"Sec-Fetch-Site", "same-site"}, 403, "another site"},
		{"a post with a foreign origin", "POST", "/console/theme", []string{"Origin", "http://127.0.0.1:8080"}, 403, "another site"},
		{"a foreign host", "GET", "/console/", []string{"Host", "rebound.example"}, 403, "another host"},
		{"a proxy", "GET", "/console/", []string{"X-Forwarded-For", "192.0.2.1"}, 403, "without a proxy"},
		{"an unknown page", "GET", "/console/nope", nil, 404, "No page has this address"},
		{"a wrong method", "DELETE", "/console/", nil, 405, ""},
	} {
		resp, body := h.ask(tt.method, tt.target, tt.header...)
		if tt.name == "a wrong method" && resp.StatusCode == 404 {
			continue
		}
		if resp.StatusCode != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %.300s", tt.name, resp.StatusCode, body)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": pagePolicy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "X-Frame-Options": "DENY",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", tt.name, name, got)
			}
		}
	}
}

// cookieOf returns the cookie of a new session of a user.
func (h *testConsole) cookieOf(name string) string {
	u, _ := url.Parse(h.access.LinkFor(identity.Named(name), ""))
	w := httptest.NewRecorder()
	h.access.Enter(w, h.request("GET", "/console/"), u.Query().Get(admin.LinkQuery))
	c, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
	return c
}

// TestStreamsEndWithTheRole checks that the live values of a page end when the role of its reader is taken
// away, or the reader's session ends, and that the stream of another reader goes on.
func TestStreamsEndWithTheRole(t *testing.T) {
	for name, take := range map[string]func(h *testConsole, lost *atomic.Bool){
		"role":    func(_ *testConsole, lost *atomic.Bool) { lost.Store(true) },
		"session": func(h *testConsole, _ *atomic.Bool) { h.ask("POST", "/console/signout") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, &admin.Report{})
				var lost atomic.Bool // anna's role
				h.access.RolesFrom(func(who *identity.Principal, _ string) []identity.Role {
					if who.Subject == "anna" && lost.Load() {
						return []identity.Role{identity.Caller}
					}
					return []identity.Role{identity.Viewer}
				})
				var mu sync.Mutex
				ended := map[string]bool{}
				ctx, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for _, who := range []string{"ben", "anna"} {
					h.cookie = h.cookieOf(who) // in the end that of anna
					r := h.request("GET", "/console/events?page=/console/", "Cookie", h.cookie).WithContext(ctx)
					all.Go(func() {
						h.mux.ServeHTTP(pipeRecorder{httptest.NewRecorder(), func([]byte) {}}, r)
						mu.Lock()
						defer mu.Unlock()
						ended[who] = true
					})
				}
				time.Sleep(time.Minute)
				take(h, &lost)
				time.Sleep(time.Second)
				synctest.Wait()
				if len(ended) != 1 || !ended["anna"] {
					t.Errorf("ended are %v", ended)
				}
				stop()
				all.Wait()
				h.console.Close()
			})
		})
	}
}

// TestLink checks that a link opens the console once and leaves no token in the address.
func TestLink(t *testing.T) {
	h := open(t, &admin.Report{})
	link := strings.TrimPrefix(h.access.Link("http://127.0.0.1:7300"), "http://127.0.0.1:7300")
	for _, header := range [][]string{{"Sec-Purpose", "prefetch"}, nil} {
		method := "GET"
		if header == nil {
			method = "HEAD"
		}
		if resp, _ := h.ask(method, link, append(header, "Cookie", "")...); resp.StatusCode != 403 || resp.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s %v: %d", method, header, resp.StatusCode)
		}
	}
	resp, _ := h.ask("GET", link, "Cookie", "")
	if resp.StatusCode != 303 || resp.Header.Get("Location") != "/console/" || !strings.Contains(resp.Header.Get("Set-Cookie"), "HttpOnly") {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	if resp, body := h.ask("GET", link, "Cookie", ""); resp.StatusCode != 403 || !strings.Contains(body, "dragoman console --open") || resp.Header.Get("Set-Cookie") != "" {
		t.Errorf("a second use: %d %s", resp.StatusCode, body)
	}
	if resp, body := h.ask("GET", link); resp.StatusCode != 403 || !strings.Contains(body, "already has a session") {
		t.Errorf("a second use with a session: %d %s", resp.StatusCode, body)
	}
	if resp, _ := h.ask("GET", "/console/?link=made-up", "Cookie", ""); resp.StatusCode != 403 {
		t.Errorf("a made-up link: %d", resp.StatusCode)
	}
}

// TestCommandOfTheGate checks that the pages for a browser without a session show a command with the
// address of this process: another one may be the one that the command would find by itself.
func TestCommandOfTheGate(t *testing.T) {
	h := open(t, &admin.Report{})
	used := strings.TrimPrefix(h.access.Link("http://127.0.0.1:7300"), "http://127.0.0.1:7300")
	h.ask("GET", used, "Cookie", "")
	for _, page := range []string{"/console/", used} {
		r := h.request("GET", page)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7300}))
		w := httptest.NewRecorder()
		h.mux.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), "dragoman console --open --listen 127.0.0.1:7300<") {
			t.Errorf("%s: %d %s", page, w.Code, w.Body)
		}
	}
}

// TestSignOut checks that signing out ends the session.
func TestSignOut(t *testing.T) {
	h := open(t, &admin.Report{})
	if resp, body := h.ask("POST", "/console/signout", "Sec-Fetch-Site", "same-origin"); resp.StatusCode != 200 || !strings.Contains(body, "The session has ended") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, _ := h.ask("GET", "/console/"); resp.StatusCode != 401 {
		t.Errorf("the session goes on: %d", resp.StatusCode)
	}
}

// TestOff checks that a console that is turned off says why, and that links do not open it.
func TestOff(t *testing.T) {
	const why = "The console is off, because of a test."
	h := open(t, &admin.Report{}, func(o *Options) { o.Off = why })
	for _, target := range []string{"/console/", "/console/servers", h.access.Link("")} {
		if resp, body := h.ask("GET", target); resp.StatusCode != 403 || !strings.Contains(body, why) {
			t.Errorf("%s: %d %s", target, resp.StatusCode, body)
		}
	}
}

// TestAssets checks that styles and modules are cached under names that change with their
// content.
func TestAssets(t *testing.T) {
	h := open(t, &admin.Report{})
	pages := map[string]string{}
	for _, path := range []string{"/console/", "/console/me", "/console/audit"} {
		_, pages[path] = h.ask("GET", path)
	}
	only := map[string]string{"second.css": "/console/me", "audit.css": "/console/audit", "review.css": "a review", "notice.js": "/console/questions"} // the others are on all pages
	_, hashed := assets()
	for file := range hashed {
		for path, body := range pages {
			if strings.Contains(body, assetPath(file)) != (only[file] == "" || only[file] == path) {
				t.Errorf("%s does not have %s as it should", path, assetPath(file))
			}
		}
		resp, body := h.ask("GET", assetPath(file), "Cookie", "")
		if resp.StatusCode != 200 || !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") || len(body) == 0 {
			t.Errorf("%s: %d %v", file, resp.StatusCode, resp.Header)
		}
	}
	if resp, _ := h.ask("GET", "/console/static/console.js"); resp.StatusCode != 404 {
		t.Errorf("a name without a hash: %d", resp.StatusCode)
	}
}

type readCloser struct{ io.Reader }

func (readCloser) Close() error { return nil }

// newRecorder sends a request to the console and returns the response.
func newRecorder(h *testConsole, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.mux.ServeHTTP(w, r)
	return w.Result()
}

// TestOwnPage checks that the form that sets the theme redirects only to pages of the console.
func TestOwnPage(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]bool{
		"/console/": true, "/console": true, "/console/calls?q=%2F..": true, "/console/servers/a%20b": true, "/console/servers/../calls": true, "/console/servers/a/tools/..%2F..%2F..%2F..%2Fx": true,
		"": false, "//evil.example/console/": false, "http://evil.example/console/": false, "/console/..//evil.example": false,
		`/console/../\evil.example`: false, "/console/%2e%2e//evil.example": false, "/console/..%5cevil.example": false, "/consoles": false, "javascript:alert(1)": false,
	} {
		if ownPage(to) != want {
			t.Errorf("%q: %t", to, !want)
		}
	}
}
