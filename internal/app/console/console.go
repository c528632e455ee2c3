package console

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// prefix is the path of the console.
const prefix = "/console"

// pagePolicy is the Content-Security-Policy of all pages. It allows only content and requests of
// the console itself, and images from data URLs.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; media-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// maxForm is the maximum length of the body of a request, in bytes.
const maxForm = 1 << 20

// Source reads the state of the program, and runs tools. *admin.API implements Source. The methods
// mask secrets. Only ReadItems, FindAudit and FindAct may block.
type Source interface {
	Report() *admin.Report
	// Logs returns the newest log records about a server, oldest first. It returns at most last
	// records.
	Logs(server string, last int) []admin.LogRecord
	// Steps returns the steps of the last handshake with a server.
	Steps(server string) []admin.HandshakeStep
	// CallsOf returns the calls of this process that a query selects, newest first. CallsFrom returns those of all
	// replicas, as whoever has sent the request may see them. If it's nil, the other replicas aren't asked; this is so
	// for all methods that are called like that.
	CallsOf(admin.CallQuery) admin.Calls
	CallsFrom(*http.Request, admin.CallQuery) admin.Calls
	// CallerOf returns the name of the key or the person whose credentials a client uses, or "" for the local user. It's
	// for operators.
	CallerOf(*identity.Principal) string
	// StoryOf returns a call of this process with its messages. ok is false if the call is not known. StoryFrom returns
	// that of any replica.
	StoryOf(number uint64) (s admin.Story, ok bool)
	StoryFrom(r *http.Request, id string) (admin.Story, *admin.Problem)
	// TranscriptFrom returns the messages of a call as a tape for `dragoman replay`. The tape contains
	// the messages to and from the client, and to and from the server.
	TranscriptFrom(r *http.Request, id string) ([]byte, *admin.Problem)
	// FindTools returns a page of tools. FindTool returns one tool. ToolCosts returns how many
	// tokens the tools of each endpoint use in a model's context. None of these methods sends
	// requests to servers.
	FindTools(admin.ToolQuery) admin.FoundTools
	FindTool(server, name string) (admin.ToolDetail, *admin.Problem)
	ToolCosts() []admin.ToolCost
	// StartRun, CancelRun and AnswerRun do the same as the API at /api/v1/runs. FindRun and
	// FindRuns return runs. Of all methods of Source, only StartRun, CancelRun, AnswerRun,
	// StartExam, ReadItems and ReadPins send messages to servers.
	StartRun(ctx context.Context, by admin.RunBy, server string, q admin.RunRequest) (admin.Run, *admin.Problem)
	CancelRun(id string) (admin.Run, *admin.Problem)
	AnswerRun(ctx context.Context, by admin.RunBy, id string, answer admin.RunAnswer) (admin.Run, *admin.Problem)
	FindRun(id string) (admin.Run, *admin.Problem)
	FindRuns(server, name string, limit int) []admin.Run
	// FindItems returns a page of resources, templates or prompts. If such a list is not up to date
	// and its server is ready, ReadItems starts to read the list again, and waits briefly for the
	// result.
	FindItems(admin.ItemQuery) admin.FoundItems
	ReadItems(ctx context.Context, server, method string)
	// StartExam starts an examination of a server, and CancelExam cancels the running examination.
	// FindExam returns the last examination of a server.
	StartExam(server string, q admin.ExamRequest) (admin.Examination, *admin.Problem)
	CancelExam(server string) (admin.Examination, *admin.Problem)
	FindExam(server string) (admin.Examination, *admin.Problem)
	// FindAudit returns a page of the audit, and FindAct one act, of a project or of any. CheckAudit returns
	// what the last look at both chains has found. If begin is true and that was some time ago, it begins
	// another one.
	FindAudit(context.Context, admin.AuditQuery) (admin.AuditEntries, *admin.Problem)
	FindAct(ctx context.Context, seq int64, project string) (admin.AuditEntry, *admin.Problem)
	CheckAudit(begin bool) admin.AuditCheck
	// ExportAudit answers a request with everything that a query selects.
	ExportAudit(context.Context, http.ResponseWriter, admin.AuditQuery) *admin.Problem
	// QuestionsFor returns the questions in this process that wait for a person and that who may answer. QuestionsFrom
	// returns those at all replicas, and QuestionFrom one of them. AnswerFrom answers it. They don't ask whether who has
	// a role in the project. OwnQuestions returns how many calls of who wait for an answer in this process.
	QuestionsFor(who *identity.Principal) admin.Questions
	QuestionsFrom(r *http.Request, who *identity.Principal) admin.Questions
	QuestionFrom(r *http.Request, who *identity.Principal, id string) (admin.QuestionDetails, *admin.Problem)
	AnswerFrom(r *http.Request, who *identity.Principal, id string, answer admin.QuestionAnswer) (admin.QuestionAnswered, *admin.Problem)
	OwnQuestions(who *identity.Principal) int
	SignInSource
	KeyMaker
	// Matrix returns the compatibility of all pairs of revisions. The caller must not change the
	// result.
	Matrix() admin.Matrix
	KeyDesk
	PeopleDesk
	Reviewer
	ProjectKeeper
	Ruler
	PromptKeeper
	SecretKeeper
	Exampler
}

// Options are the options of New. Only Source and Access are required.
type Options struct {
	// Off is a sentence that says why the console is off. If it is not "", the console responds to
	// every request with this sentence.
	Off    string
	Access *admin.Access
	Source Source
	// Config returns the current configuration. It may be nil only in tests.
	Config  func() *config.Snapshot
	Clients func() []runtime.ClientReport                            // returns the connected clients; if it is nil, the console shows no connections
	Operate func(name string, op runtime.Operation, by string) error // see runtime.Project.Operate; if it is nil, the console cannot start operations
	// Add tries new servers and adds them to the configuration, and changes those that are there. If it
	// is nil, the console cannot do this.
	Add Adder
	// Return returns where a browser goes on that has just signed in, a path, or "" for the first page. It may be nil.
	Return func(http.ResponseWriter, *http.Request) string
	// Project returns what the console shows of a project other than default, and Names returns the names of all
	// projects in use, default first. Either is nil if there is only default.
	Project func(name string) (Project, bool)
	Names   func() []string
	Events  *event.Publisher // the source of the events that the console counts; may be nil
	Log     *slog.Logger     // receives the console's log records; may be nil
	// Depart sends a browser to the issuer at which a sign-in goes on. It comes back to back, a path of the console.
	Depart func(w http.ResponseWriter, r *http.Request, to admin.SignInLink, back string)
	// DemoClients holds the names of the clients that `serve --demo` runs itself. Some of their calls
	// fail on purpose, and the console doesn't count these failures.
	DemoClients []string
	// Program is the command that a user types in a terminal to start Dragoman. Path is the command
	// for the configuration files of clients, which need the full path. For both, "" means
	// dragoman.
	Program, Path string
	// Machine determines where the page expects the configuration files of clients. Its Home and
	// Folder are not used, because the page shows paths that begin with ~. The zero value is a
	// Linux machine without environment variables.
	Machine clientfile.Machine
}

// Console serves the pages of the console. Call New to create a Console. It is safe for concurrent
// use. It hands each request to the door, which says whose it is, and then to the mount of the project that it is
// about: to its frame, where each subject has registered its pages, or to the feeds, which keep open pages up to date.
type Console struct {
	*mount  // of the project default
	door    *door
	opts    Options
	log     *slog.Logger
	streams *admin.Streams // of all projects
	running work.Group
	ctx     context.Context // ends with the console
	stop    context.CancelFunc

	mu     sync.Mutex
	others map[string]*mount // the pages of other projects that somebody has asked for
}

// subject is a part of the console, for example the pages about clients. It knows only what its pages
// show and change, and no other subject.
type subject interface {
	// register adds the subject's pages to the frame, and the handlers of their forms and files.
	register(*frame)
}

// New returns a Console. If the console is not off, it counts events from now on until Close.
func New(o Options) *Console {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Program, o.Path = cmp.Or(o.Program, "dragoman"), cmp.Or(o.Path, "dragoman")
	c := &Console{opts: o, log: o.Log, streams: admin.NewStreams(mostConsoles), others: make(map[string]*mount)}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.door = &door{off: o.Off, access: o.Access, program: o.Program, next: o.Return}
	c.mount = c.newMount(event.DefaultProject, &o, nil)
	return c
}

// subjects returns all subjects of a project, in the order of their entries in the navigation. o is about the project.
// To add a page, write its view, put its template in the folder templates, and register it in the subject that it
// belongs to.
func (c *Console) subjects(m *mount, o *Options) []subject {
	lines := &where{project: m.project}
	attention := &needs{config: o.Config, where: lines, operable: o.Operate != nil, changed: func() admin.Pins { return o.Source.ChangedPins() }}
	edit := &editPage{m.frame, o.Add, o.Config, lines}
	prompts := &promptPages{frame: m.frame, source: o.Source}
	return []subject{
		&overviewPage{m.project, attention, o.Source},
		&mePage{frame: m.frame, access: o.Access},
		&callPages{m.frame, o.Source, o.Program},
		&keyPages{frame: m.frame, source: o.Source},
		&peoplePages{frame: m.frame, source: o.Source},
		&clientPages{o.Source},
		&questionPages{frame: m.frame, source: o.Source},
		&serverPages{frame: m.frame, source: o.Source, operations: o.Operate, config: o.Config, where: lines, needs: attention, edit: edit},
		edit,
		&findingsPage{m.frame, o.Source, m.feeds.changed},
		&itemPages{m.frame, o.Source},
		&toolPages{m.frame, o.Source, edit},
		&heldPages{frame: m.frame, source: o.Source},
		&addPage{m.frame, o.Add},
		&runPages{m.frame, o.Source},
		prompts,
		&promptEditor{pages: prompts},
		&secretPages{frame: m.frame, source: o.Source},
		&connectPage{frame: m.frame, program: o.Program, path: o.Path, machine: o.Machine, config: o.Config, traffic: m.states.traffic, source: o.Source},
		&connectionPages{frame: m.frame, source: o.Source, depart: o.Depart},
		&playPages{frame: m.frame, source: o.Source, examples: o.Source},
		&compatibilityPage{o.Source},
		&eventsPage{m.states.traffic},
		&rulePages{frame: m.frame, source: o.Source},
		&auditPages{m.frame, o.Source},
		&projectPages{frame: m.frame, source: o.Source},
		&settingsPage{o.Config, lines},
	}
}

// Route is something that a browser can ask the console for.
type Route struct {
	Method, Path string        // Path is a pattern for http.ServeMux without a method
	Least        identity.Role // the least role; zero if a session is enough
	// Sure is what somebody has to type who has signed in more than ten minutes ago, before some of the forms that go
	// here do what they say; "" if nobody has to.
	Sure string
	// Whole says that the route is at this path only, and not also at that of each project; see Page.Whole.
	Whole bool
}

// Table returns all routes of pages and of what belongs to them, sorted by path and method. Whoever has no session
// gets nothing from any of them.
func (c *Console) Table() (all []Route) {
	for pattern, x := range c.frame.routes {
		method, path, _ := strings.Cut(pattern, " ")
		all = append(all, Route{method, path, x.least, x.sure, c.frame.outside(strings.TrimPrefix(path, prefix))})
	}
	slices.SortFunc(all, func(a, b Route) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method)) })
	return all
}

// Paths returns the paths of all pages, in the order in which the console registers them, for the
// browser tests. The paths are patterns for http.ServeMux without a method, for example
// "/console/servers/{name}".
func (c *Console) Paths() []string { return c.frame.paths }

// Drain ends the event streams, so that the HTTP server can shut down. The caller may call Drain
// more than once.
func (c *Console) Drain() { c.streams.Drain() }

// Close stops all goroutines of the console and waits until they have ended.
func (c *Console) Close() {
	c.untap()
	c.Drain()
	c.mu.Lock()
	c.stop()
	c.mu.Unlock()
	c.running.Wait()
}

// Routes registers the handlers of the console with mux.
func (c *Console) Routes(mux *http.ServeMux) {
	mux.HandleFunc(prefix, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, prefix+"/", http.StatusSeeOther) })
	mux.Handle(prefix+"/", http.HandlerFunc(c.serve))
	mux.HandleFunc("GET "+prefix+"/static/{name}", serveAsset)
	if c.door.access.HasLogin() {
		mux.HandleFunc(admin.LoginPath, c.login)
		mux.HandleFunc(admin.LoginCallback, c.login)
	}
}

// serve checks whether a request may see the console, and then handles the request.
func (c *Console) serve(w http.ResponseWriter, r *http.Request) {
	headers(w.Header())
	if r.Body != nil {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	}
	who, session, ok := c.door.admit(w, r)
	if !ok {
		return
	}
	asked := r
	project, r := aboutProject(r)
	if to := c.elsewhere(asked, who); to != "" {
		http.Redirect(w, asked, to, http.StatusSeeOther)
		return
	}
	if c.door.access.AtName(r) {
		// The pages show the address of the MCP endpoints, and the name is only for the console.
		inner := *r
		inner.Host = admin.Address(r)
		r = &inner
	}
	m := c.mount
	if project != event.DefaultProject {
		if hasRole(c.door.access, who, project) {
			m = c.in(project)
		}
		if m == c.mount || m == nil { // the answer is the same whether there is such a project or not
			c.frame.fail(w, withState(withURL(r, asked.URL), c.states.begin(c.states.viewer(who, session), false)), noProject(project))
			return
		}
	}
	v := m.states.viewer(who, session)
	r = withState(c.door.access.Admitted(r, who), m.states.begin(v, false))
	to := m.frame.find(r)
	if !v.may(to.least) {
		m.frame.fail(w, r, stateOf(r).forbidden(r, to.least))
		return
	}
	if r.Method == http.MethodGet && r.URL.Path == eventsPath && strings.HasPrefix(r.URL.Query().Get("page"), prefix+"/") {
		class := v.class(to.personal)
		still := func() bool {
			now := m.states.viewer(c.door.access.Browsing(asked))
			return now.who != nil && !m.ended() && now.may(to.least) && now.class(to.personal) == class
		}
		m.feeds.serve(w, admin.While(r, still), v.shared(to.personal), class)
		return
	}
	if m != c.mount {
		w = mounted{w, m.frame}
	}
	m.frame.mux.ServeHTTP(w, r)
}

// elsewhere returns where a browser finds what it asks for, if that's another address: who has no role in default
// begins with the first of their own projects, and default has no address of its own.
func (c *Console) elsewhere(r *http.Request, who *identity.Principal) string {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return ""
	case r.URL.Path == prefix+"/":
		return c.states.home(who)
	case strings.HasPrefix(r.URL.Path, prefix+"/p/"):
		name, inner := splitProject(r.URL)
		if inner != nil && (name == event.DefaultProject || inner.Path == prefix+"/" && !strings.HasSuffix(r.URL.Path, "/")) {
			to := url.URL{Path: inner.Path, RawPath: inner.RawPath, RawQuery: r.URL.RawQuery}
			if name != event.DefaultProject {
				to.RawPath, to.Path = "", prefix+"/p/"+name+"/"
			}
			return to.String()
		}
	}
	return ""
}

// noProject returns the error for a project that doesn't exist, or that must look so.
func noProject(name string) error {
	e := &pageError{Status: http.StatusNotFound, Title: excerpt.Line("No project has the name "+excerpt.Quote(name, 64), 200), Text: "It may have been removed, or you have no role in it.", Closed: true}
	e.Next = Crumb{"Show the projects that you have a role in", pathOf("projects")}
	return e
}

// ServeFormer answers a request for a page of the console at the name that the console had before a
// restart, which bookmarks and open pages may have. It returns false if the request is another one.
func (c *Console) ServeFormer(w http.ResponseWriter, r *http.Request) bool {
	return c.door.serveFormer(w, r)
}
