package admin

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/logring"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/audit"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Options are the options of New. Project, Budget, Recent and Losses are required.
type Options struct {
	Project *runtime.Project  // the project of requests that name none
	Others  *runtime.Runtime  // has the projects that a request may name; nil if there is only Project
	Budget  *transport.Budget // of Project, like Recent and Calls
	Recent  *logring.Ring
	Calls   *calls.Ring                 // the calls of clients; if Calls is nil, New creates a ring that stays empty
	Losses  func(project string) []Loss // returns the losses of a project, sorted by Server and What
	Log     *slog.Logger                // gets a record of each trial of a server; if Log is nil, trials are not logged
	Version string
	Config  string // the full path of the configuration file, or "" if no file is used
	Local   bool   // whether the listener can be reached only from this machine
	Closed  bool   // whether programs on this machine need the key also for what they may usually read
	// Views reports whether the sender of a request may see the names and states of the servers in
	// /readyz. If it is nil, nobody may.
	Views func(*http.Request) bool
	// Leaving reports whether the process is about to stop, although it still serves everybody. It may be nil.
	Leaving func() bool
	// PublicURL is the URL at which clients reach "/" through a reverse proxy. "" means that there
	// is no proxy.
	PublicURL string
	// Access decides who may see messages and change something. If it is nil, New creates one.
	Access *Access
	// ConsoleOff is a sentence that explains why the console is off. "" means that it is on.
	ConsoleOff string
	// Env looks up an environment variable. Env is used to find the configuration files of clients
	// and to expand the variables of new servers. If Env is nil, no variable is set.
	Env func(string) (string, bool)
	// Secrets looks up the secrets of Project for trials of new servers. It's called under a lock, so it
	// shouldn't wait. If it is nil, trials can't have secrets.
	Secrets config.Secrets
	// Refusal returns why Dragoman does not use the current content of the configuration file. It
	// returns nil if Dragoman uses that content. Refusal may be nil.
	Refusal func() *Refusal
	// Store returns where what must last is kept. Store may be nil.
	Store func() store.State
	// Replicas returns the processes that serve the same clients, and Fleet asks them. AliasKey makes the aliases that
	// all of them show. They are nil for a process alone.
	Replicas func() []Replica
	Fleet    Fleet
	AliasKey []byte
	// Away reports whether the replicas' database can't be reached now. It may be nil.
	Away func() bool
	// Unfit returns why clients should turn to other replicas than this one, or "". It may be nil.
	Unfit func() string
	// Desk makes API keys, Roster invites people and lets them in, and Safe keeps secrets. If one of them
	// is nil, the routes about them say that nothing is stored.
	Desk   *access.Desk
	Roster *access.Roster
	Safe   *store.Safe
	// Ledger has the grants of clients that sign in here. It is nil if none do.
	Ledger *access.Ledger
	// Trail is the audit, with the acts of Safe's store. If it is nil, there is nothing to see.
	Trail *audit.Trail
	// SignIns signs people in to servers. If it is nil, nobody can sign in.
	SignIns SignInDesk
	// Homes says where the projects live. If it is nil, the routes about them say that nothing is stored.
	Homes Homes
	// Reload makes Dragoman read the configuration file again. When Dragoman uses its content, Reload
	// returns what has changed, in sentences. If Reload is nil, Dragoman uses no configuration file.
	Reload func(context.Context) (what string, err error)
	// DemoClients holds the names of the clients that `serve --demo` runs itself.
	DemoClients []string
}

// API is the admin API of a running Dragoman. Create it with New. It is safe for concurrent use. It
// routes requests to one type per subject, which has only what the subject needs, and offers the
// methods of all of them to the console.
type API struct {
	opts    Options
	project project
	fleet   *fleet
	door    door
	front   front
	others  others
	// document returns the OpenAPI document. The first call builds the document.
	document func() object

	statusAPI
	serverAPI
	catalogAPI
	clientAPI
	callAPI
	logAPI
	runAPI
	exampleAPI
	examAPI
	draftAPI
	keyAPI
	peopleAPI
	grantAPI
	auditAPI
	secretAPI
	promptAPI
	pinAPI
	questionAPI
	projectAPI
	ruleAPI
	signInAPI
}

// New returns an API. The API reports the time since this call as the uptime of Dragoman.
func New(o Options) *API {
	if o.Access == nil {
		o.Access = NewAccess(o.Local)
		o.Access.UsePublicURL(o.PublicURL)
		o.Access.roster = o.Roster
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Calls == nil {
		o.Calls = calls.New(calls.Options{})
	}
	if o.Env == nil {
		o.Env = func(string) (string, bool) { return "", false }
	}
	p, alias := project{o.Project}, newAliases(o.AliasKey)
	h := house{project: p, access: o.Access, desk: o.Desk, roster: o.Roster, safe: o.Safe}
	all := &fleet{o.Fleet, o.Access, p}
	a := &API{
		opts: o, project: p, fleet: all, document: sync.OnceValue(func() object { return document(o.Version) }),
		door:  door{project: p, access: o.Access, closed: o.Closed},
		front: front{project: p, access: o.Access, local: o.Local, publicURL: o.PublicURL, consoleOff: o.ConsoleOff, version: o.Version, views: o.Views, away: o.Away, unfit: o.Unfit, leaving: o.Leaving, closed: o.Closed},
		statusAPI: statusAPI{
			project: p, others: o.Others, budget: o.Budget, calls: o.Calls, losses: o.Losses, refusal: o.Refusal, homes: o.Homes, store: o.Store, replicas: o.Replicas, trail: o.Trail, alias: alias,
			started: time.Now(), version: o.Version, config: o.Config, demoClients: o.DemoClients,
		},
		catalogAPI: catalogAPI{project: p},
		clientAPI:  clientAPI{project: p, house: h, alias: alias},
		callAPI:    callAPI{project: p, house: h, access: o.Access, calls: o.Calls, alias: alias, fleet: all, streams: NewStreams(mostCallStreams)},
		logAPI:     logAPI{project: p, recent: o.Recent, fleet: all, streams: NewStreams(mostLogStreams)},
		runAPI:     runAPI{project: p, access: o.Access, version: o.Version, streams: NewStreams(mostRunStreams), safe: o.Safe},
		examAPI:    examAPI{project: p, streams: NewStreams(mostExamStreams)},
		draftAPI:   draftAPI{project: p, config: o.Config, env: o.Env, secrets: o.Secrets, reload: o.Reload, log: o.Log},
	}
	a.keyAPI, a.peopleAPI, a.secretAPI, a.promptAPI = keyAPI{h, o.Calls}, peopleAPI{h, linkBase(&o), a.ProjectNames, a.inUse}, secretAPI{h}, promptAPI{h}
	a.exampleAPI = exampleAPI{h, &a.runAPI}
	a.grantAPI, a.pinAPI, a.questionAPI = grantAPI{h, o.Ledger}, pinAPI{h}, questionAPI{h, all}
	a.signInAPI = signInAPI{house: h, desk: o.SignIns, projects: a.allProjects}
	a.auditAPI = auditAPI{h, o.Trail, newAuditCheck()}
	a.projectAPI = projectAPI{house: h, door: &a.door, homes: o.Homes, inUse: a.inUse, file: o.Config}
	a.ruleAPI = ruleAPI{house: h, projects: &a.projectAPI, open: o.Local && !o.Closed, signed: new(atomic.Pointer[access.Keys])}
	a.door.names = a.ProjectNames
	a.serverAPI = serverAPI{project: p, access: o.Access, config: o.Config, report: a.Report, logs: a.Logs}
	a.drafts.trying, a.drafts.keeping = make(chan struct{}, mostTrials), make(chan struct{}, 1)
	_, _ = rand.Read(a.drafts.key[:]) // rand.Read never fails
	// Every program on this machine and every viewer may read the log, so none of them may keep the owner from it.
	a.logAPI.streams.known = func(r *http.Request) bool {
		who, err := a.opts.Access.Check(r)
		return err == nil && who == identity.Local
	}
	return a
}

// Access returns the Access that decides who may see messages and change something.
func (a *API) Access() *Access { return a.opts.Access }

// StoreAway says why the database can't be read or written now, as sentences. It returns "" if it can.
func (a *API) StoreAway() string {
	if a.opts.Safe == nil {
		return ""
	}
	s := a.opts.Safe.Store().State()
	if s.Problem == nil || s.Place == store.Memory {
		return ""
	}
	return a.secretAPI.problem(s.Problem).Detail
}

// Drain ends all event streams, so that the listener can stop. It may be called more than once.
func (a *API) Drain() {
	a.logAPI.streams.Drain()
	a.callAPI.streams.Drain()
	a.runAPI.streams.Drain()
	a.examAPI.streams.Drain()
	a.others.drain()
}

// Routes registers handlers with mux: for the page at /, for /healthz, /readyz and the routes of the
// API, and for paths that have no other handler.
func (a *API) Routes(mux *http.ServeMux) {
	mux.HandleFunc("/{$}", a.front.servePage)
	mux.HandleFunc("/", httpdoor.NotFound)
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		a.opts.Access.prove(w, r)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("/readyz", a.front.serveReady)
	a.register(mux)
}

// Matrix returns the compatibility of all pairs of revisions. All APIs return the same matrix. The
// caller must not change the result.
func (*API) Matrix() Matrix { return makeMatrix() }

// writeJSON answers with status 200 and value as JSON.
func writeJSON(w http.ResponseWriter, r *http.Request, value any) {
	writeStatus(w, r, http.StatusOK, value)
}

// writeStatus answers with the given status and value as JSON.
func writeStatus(w http.ResponseWriter, r *http.Request, status int, value any) {
	var body bytes.Buffer
	out := json.NewEncoder(&body)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	if out.Encode(value) != nil {
		refuse(w, Problem{Type: "internal", Title: "The answer could not be encoded", Status: http.StatusInternalServerError, Instance: r.URL.Path})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(excerpt.JSON(body.Bytes()))
}

// proxyHeaders are the headers that proxies add, except the headers that begin with X-Forwarded.
var proxyHeaders = []string{
	"Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Host", "X-Original-Forwarded-For", "X-Envoy-External-Address",
	"True-Client-Ip", "Cf-Connecting-Ip", "Cf-Ray", "Cdn-Loop", "Fastly-Client-Ip", "Fly-Client-Ip", "X-Azure-Clientip", "X-Appengine-User-Ip",
	"Tailscale-User-Login",
}

// forwarded reports whether a request has a header that proxies add.
func forwarded(r *http.Request) bool {
	for _, name := range proxyHeaders {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Forwarded") {
			return true
		}
	}
	return false
}

// foreignPage reports whether a page of another site sent the request, for example to embed an
// image. Such a request may have no Origin header, so checking Origin is not enough. foreignPage is
// false if the user follows a link on the page.
func foreignPage(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return r.Header.Get("Sec-Fetch-Dest") != "document"
	}
	return false
}

// Close ends all event streams. It cancels the runs, examinations and trials, and waits until they
// have ended. Call Close before the runtime is closed.
func (a *API) Close() {
	a.Drain()
	a.others.close()
	a.runs.close()
	a.exams.close()
	a.drafts.close()
	a.looked.close()
}
