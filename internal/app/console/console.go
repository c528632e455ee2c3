package console

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
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
	// CallsOf returns the calls that a query selects, newest first.
	CallsOf(admin.CallQuery) admin.Calls
	// StoryOf returns a call with its messages. ok is false if the call is not known.
	StoryOf(number uint64) (s admin.Story, ok bool)
	// Transcript returns the messages of a call as a tape for `dragoman replay`. The tape contains
	// the messages to and from the client, and to and from the server.
	Transcript(number uint64) ([]byte, *admin.Problem)
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
	// QuestionsFor returns the questions that wait for a person and that who may answer, and QuestionFor one of them.
	// AnswerFor answers it. They don't ask whether who has a role in the project. OwnQuestions returns how many calls
	// of who wait for an answer.
	QuestionsFor(who *identity.Principal) admin.Questions
	QuestionFor(who *identity.Principal, id string) (admin.QuestionDetails, *admin.Problem)
	AnswerFor(who *identity.Principal, id string, answer admin.QuestionAnswer) (admin.QuestionAnswered, *admin.Problem)
	OwnQuestions(who *identity.Principal) int
	// Matrix returns the compatibility of all pairs of revisions. The caller must not change the
	// result.
	Matrix() admin.Matrix
	Reviewer
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
	Events *event.Publisher // the source of the events that the console counts; may be nil
	Log    *slog.Logger     // receives the console's log records; may be nil
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
// use. It hands each request to the door, which says whose it is, and then to the frame, where each
// subject has registered its pages, or to the feeds, which keep open pages up to date.
type Console struct {
	door    *door
	frame   *frame
	feeds   *feeds
	states  *states
	log     *slog.Logger
	running work.Group
	stop    context.CancelFunc
	untap   func()
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
	c := &Console{log: o.Log, frame: newFrame(o.Log, o.Add != nil), stop: func() {}, untap: func() {}}
	c.door = &door{off: o.Off, access: o.Access, program: o.Program, next: o.Return, waits: func(who *identity.Principal) int { return o.Source.OwnQuestions(who) }}
	c.frame.register("POST /signout", allowed{least: anyone}, c.door.signOut) // the door answers it before
	c.states = &states{access: o.Access, source: o.Source, clients: o.Clients, traffic: newTraffic(o.DemoClients...)}
	c.feeds = newFeeds(c.frame.mux, c.states, o.Log)
	for _, s := range c.subjects(&o) {
		s.register(c.frame)
	}
	if o.Off == "" {
		c.untap = c.states.traffic.tap(o.Events, c.feeds.changed)
		ctx, stop := context.WithCancel(context.Background())
		c.stop = stop
		c.running.Go(func() { c.feeds.run(ctx) })
	}
	return c
}

// subjects returns all subjects, in the order of their entries in the navigation. To add a page, write
// its view, put its template in the folder templates, and register it in the subject that it belongs to.
func (c *Console) subjects(o *Options) []subject {
	lines := &where{}
	attention := &needs{config: o.Config, where: lines, operable: o.Operate != nil, changed: func() admin.Pins { return o.Source.ChangedPins() }}
	edit := &editPage{c.frame, o.Add, o.Config, lines}
	return []subject{
		&overviewPage{attention},
		&mePage{frame: c.frame, access: o.Access},
		&callPages{c.frame, o.Source, o.Program},
		&clientPages{o.Source},
		&questionPages{frame: c.frame, source: o.Source},
		&serverPages{frame: c.frame, source: o.Source, operations: o.Operate, config: o.Config, where: lines, needs: attention, edit: edit},
		edit,
		&findingsPage{c.frame, o.Source, c.feeds.changed},
		&itemPages{c.frame, o.Source},
		&toolPages{c.frame, o.Source},
		&heldPages{frame: c.frame, source: o.Source},
		&addPage{c.frame, o.Add},
		&runPages{c.frame, o.Source},
		&connectPage{o.Program, o.Path, o.Machine, o.Config},
		&compatibilityPage{o.Source},
		&eventsPage{c.states.traffic},
		&auditPages{o.Source},
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
}

// Table returns all routes of pages and of what belongs to them, sorted by path and method. Whoever has no session
// gets nothing from any of them.
func (c *Console) Table() (all []Route) {
	for pattern, x := range c.frame.routes {
		method, path, _ := strings.Cut(pattern, " ")
		all = append(all, Route{method, path, x.least, x.sure})
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
func (c *Console) Drain() { c.feeds.streams.Drain() }

// Close stops all goroutines of the console and waits until they have ended.
func (c *Console) Close() {
	c.untap()
	c.Drain()
	c.stop()
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
	v, ok := c.door.admit(w, r)
	if !ok {
		return
	}
	asked := r
	if c.door.access.AtName(r) {
		// The pages show the address of the MCP endpoints, and the name is only for the console.
		inner := *r
		inner.Host = admin.Address(r)
		r = &inner
	}
	r = withState(r, c.states.begin(v, false))
	to := c.frame.find(r)
	if !v.may(to.least) {
		c.frame.fail(w, r, stateOf(r).forbidden(r, to.least))
		return
	}
	if r.Method == http.MethodGet && r.URL.Path == eventsPath && strings.HasPrefix(r.URL.Query().Get("page"), prefix+"/") {
		class := v.class(to.personal)
		still := func() bool {
			now := c.door.viewer(asked)
			return now.who != nil && now.may(to.least) && now.class(to.personal) == class
		}
		c.feeds.serve(w, admin.While(r, still), v.shared(to.personal), class)
		return
	}
	c.frame.mux.ServeHTTP(w, r)
}

// ServeFormer answers a request for a page of the console at the name that the console had before a
// restart, which bookmarks and open pages may have. It returns false if the request is another one.
func (c *Console) ServeFormer(w http.ResponseWriter, r *http.Request) bool {
	return c.door.serveFormer(w, r)
}
